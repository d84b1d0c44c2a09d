"""Importers: values and units, findings by rules on the data, bad input named with its line, nothing half-written.

The files in fixtures/import are made up after the formats; fixtures/published has numbers of the 2015 study.
"""

import csv
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import study2015
import yaml
from conftest import ROOT
from reprofs import files, importers
from reprofs.data.columns import dictionary
from reprofs.errors import UserError
from reprofs.importers import Malformed, Source, fio, iozone, mdtest
from reprofs.stats.cells import statistics

FIXTURES = ROOT / "tests/fixtures/import"
CASES = [
    pytest.param(form, case, id=f"{form}-{number}")
    for form, cases in yaml.load((FIXTURES / "cases.yaml").read_text(), yaml.CSafeLoader).items()
    for number, case in enumerate(cases)
]
FILES = [
    (path.name.partition("-")[0].partition(".")[0], path.name)
    for path in sorted(FIXTURES.iterdir())
    if path.name not in ("README.md", "cases.yaml")
]


@pytest.fixture
def load(tmp_path):
    """Imports files of a format, or a text; gives the measurements and the findings as frames."""

    def run(form: str, *files: str | Path, text: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
        paths = [FIXTURES / file for file in files]
        if text is not None:
            paths = [tmp_path / "text"]
            paths[0].write_text(text)
        importers.import_files(form, paths, tmp_path / "out", dictionary)
        rows = pd.read_parquet(tmp_path / "out/measurements.parquet", dtype_backend="numpy_nullable")
        return rows, pd.read_csv(tmp_path / "out/findings.csv", keep_default_na=False)

    return run


@pytest.fixture
def refused(load):
    """Asserts that an import is refused with a sentence in which the words are found."""

    def check(form: str, words: str, *files: str | Path, text: str | None = None) -> None:
        with pytest.raises(UserError, match=words):
            load(form, *files, text=text)

    return check


def changed(tmp_path: Path, file: str, *pairs: tuple[str, str]) -> Path:
    """A copy of a fixture with texts replaced, each of which must be there."""
    text = (FIXTURES / file).read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / file).write_text(text)
    return tmp_path / file


def pick(rows: pd.DataFrame, **wanted) -> list[float]:
    """Values of the rows whose columns are as wanted."""
    for column, value in wanted.items():
        rows = rows[rows[column].eq(value).fillna(False)]
    return rows["value"].tolist()


def test_the_formats_read_here_are_there():
    assert {form for form, _ in FILES} | {"datalad"} <= set(importers.formats())


@pytest.mark.parametrize("form", importers.formats())
def test_every_format_refuses_what_it_does_not_read_and_says_what_it_does(form, load, tmp_path):
    (tmp_path / "other.txt").write_text("Nothing of a benchmark.\n")
    with pytest.raises(UserError, match=re.escape(f": give the complete {importers.formats()[form]}.")):
        load(form, tmp_path / "other.txt")


@pytest.mark.parametrize(("form", "case"), CASES)
def test_what_is_read_of_a_file(form, case, tmp_path):
    """The cases of cases.yaml: values of rows, findings, or the sentence that refuses the file."""
    text = case["text"] if "text" in case else (FIXTURES / case["file"]).read_text()
    for old, new in case.get("replace", {}).items():
        assert old in text, old
        text = text.replace(old, new)
    assert case.get("cut", "") in text
    text = case.get("before", "") + text[: text.index(case["cut"]) if "cut" in case else None] + case.get("after", "")
    (tmp_path / "text").write_text(text)
    module = importlib.import_module(f"reprofs.importers.{form}")
    if "refused" in case:
        with pytest.raises(UserError) as error:
            importers.import_files(form, [tmp_path / "text"], tmp_path / "out", dictionary)
        words = case["refused"]
        for word in [words] if isinstance(words, str) else words:
            assert word in str(error.value)
        assert len(str(error.value)) < 400 + len(str(tmp_path)) and [path.name for path in tmp_path.iterdir()] == [
            "text"
        ]
        return
    result = importers._read(form, module, tmp_path / "text")
    for wanted in case.get("rows", []):
        filters = {key: value for key, value in wanted.items() if key not in ("is", "has", "number")}
        rows = [row for row in result.rows if all(row.get(key) == value for key, value in filters.items())]
        if "is" in wanted:
            assert [row["value"] for row in rows] == pytest.approx(wanted["is"], rel=1e-4), filters
        assert len(rows) == wanted.get("number", len(rows)) and (rows or wanted.get("is") == []), filters
        for key, value in wanted.get("has", {}).items():
            assert {row.get(key) for row in rows} == {value}, (filters, key)
    for key, value in case.get("all", {}).items():
        assert {row[key] for row in result.rows if row.get(key) is not None} == ({value} - {None}), key
    if "same" in case:
        other = module.read(Source.of("same", (FIXTURES / case["same"]).read_text()))
        columns = ("phase", "quantity", "statistic", "unit")
        first, second = ({tuple(row[key] for key in columns): row["value"] for row in r.rows} for r in (result, other))
        assert first == pytest.approx(second, rel=1e-5) and len(result.rows) == len(other.rows)
    if case.get("found") is not None:
        assert sorted(finding.rule for finding in result.findings) == case["found"]
    told = "\n".join(f"{finding.rule} {finding.sentence()}" for finding in result.findings)
    assert all(words in told for words in case.get("told", []))
    assert not any(words in told for words in case.get("untold", []))


@pytest.mark.parametrize(("form", "file"), FILES)
def test_tables_are_complete_and_described(form, file, load, tmp_path):
    rows, _ = load(form, file)
    described = list(csv.DictReader((tmp_path / "out/dictionary.csv").open()))
    assert list(rows) == [row["column"] for row in described if row["table"] == "measurements"]
    assert len(rows) and rows["value"].notna().all() and set(rows["format"]) == {form}
    assert set(rows["unit"]) <= {"s", "B", "B/s", "1/s", "1"}
    for column in ("source", "tool", "operation", "phase", "quantity", "statistic"):
        assert rows[column].str.len().gt(0).all(), column
    printed = rows[~rows["derived"]]
    for text, unit, value in zip(printed["printed"], printed["printed_unit"], printed["value"], strict=True):
        assert value == pytest.approx(float(text) * float(importers.UNITS[unit][0]))
    same = pd.read_csv(tmp_path / "out/measurements.csv", dtype={"place": str}, keep_default_na=False)
    assert same["value"].tolist() == rows["value"].tolist() and same["place"].tolist() == rows["place"].tolist()


@pytest.mark.parametrize(("form", "file"), FILES)
def test_places_lead_to_the_printed_value(form, file, load):
    rows, _ = load(form, file)
    lines = (FIXTURES / file).read_text().splitlines()
    for place, printed in zip(rows["place"], rows["printed"], strict=True):
        if place.startswith("line ") and not pd.isna(printed):
            assert printed in lines[int(place.split()[1]) - 1]


@pytest.mark.parametrize(("form", "file"), FILES)
def test_a_truncated_file_is_refused_with_its_line(form, file):
    """Cut after every line and within every line: never a traceback, never a part taken for the whole."""
    text, read = (FIXTURES / file).read_text(), importlib.import_module(f"reprofs.importers.{form}").read
    whole = [row["value"] for row in read(Source.of(file, text)).rows]
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
    for cut in sorted({*starts[:-1], *((a + b) // 2 for a, b in pairwise(starts))}):
        try:
            result = read(Source.of(file, text[:cut]))
        except Malformed as error:
            assert 1 <= error.line <= text.count("\n", 0, cut) + 1, (cut, error.what)
        else:  # a list may end after any entry; what else has no end says so, and has no part of a number
            found = [row["value"] for row in result.rows]
            told = "no-end" in {finding.rule for finding in result.findings} and set(found) <= set(whole)
            listed = (
                form in ("pwalk", "bonnie", "elbencho")
                and cut in starts
                and (form == "pwalk" or found == whole[: len(found)])
            )
            assert found == whole or listed or told, cut


def test_mdtest_with_a_stonewall_derives_nothing(load, tmp_path):
    """Of rates alone no times are derived, when either option or what it printed on the way tells of a stonewall."""
    text = (FIXTURES / "mdtest-stonewall.txt").read_text()
    rates = text[: text.index("SUMMARY time")] + text[text.index("-- finished") :]
    hit = "Continue stonewall hit min: 40000 max: 45000 avg: 42500.0\n"
    for options, said in (("'-W' '300'", ""), ("-W=300", ""), ("'-x' '/mnt/r/s'", ""), ("-C", hit)):
        made = rates.replace("'-x' '/mnt/r/easy.stonewall' '-C' '-W' '300'", options).replace(hit, said)
        rows, _ = load("mdtest", text=made)
        assert not rows["derived"].any() and rows["items"].isna().all(), options
    rows, findings = load("mdtest", text=made.replace(hit, ""))
    assert pick(rows, quantity="time", derived=True) == [8000] and "time-unaccounted" in set(findings["rule"])


@pytest.mark.parametrize(
    ("values", "divisor"),
    [([3.0, 5.0, 4.5], "n"), ([3.0, 5.0, 4.5], "n - 1"), ([7.0, 9.0], "n"), ([7.0, 9.0], "n - 1")],
)
def test_statistics_give_their_values_back(values, divisor):
    n, mean = len(values), sum(values) / len(values)
    sd = (sum((x - mean) ** 2 for x in values) / (n if divisor == "n" else n - 1)) ** 0.5
    found, told = mdtest.recover(n, max(values), min(values), round(mean, 3), round(sd, 3))
    assert sorted(found) == pytest.approx(sorted(values), abs=0.002) and told == divisor
    assert mdtest.recover(n, max(values), min(values), round(mean, 3), 2.5 * sd) is None


@pytest.mark.parametrize(("deviation", "version"), [("population", "1.9.3+reprofs"), ("sample", "4.0.0+reprofs")])
def test_our_own_mdtest_comes_back_as_it_was_measured(engine, load, tmp_path, deviation, version):
    """What the engine prints, imported, is what it wrote into its samples: the slowest task decides a phase."""
    (tmp_path / "tree").mkdir()
    options = shlex.split("-C -T -E -r -F -d tree -i 3 -I 5 -z 2 -b 2 -L -u --tasks 2 --series --std")
    process = subprocess.run(
        [engine, "mdtest", *options, deviation],
        cwd=tmp_path,
        env={**os.environ, "REPROFS_SAMPLES": str(tmp_path / "samples")},
        capture_output=True,
        text=True,
        check=True,
    )
    (tmp_path / "own.txt").write_text(process.stdout)
    rows, findings = load("mdtest", tmp_path / "own.txt")
    samples = pd.read_json(tmp_path / "samples", lines=True)
    for name, operation in (("create", "creation"), ("stat", "stat"), ("read", "read"), ("remove", "removal")):
        of_phase = samples[samples["name"] == f"file-{name}"].groupby("iteration")
        measured = of_phase["items"].sum() / of_phase["wall_ns"].max() * 1e9
        found = pick(rows, operation=f"File {operation}", quantity="rate", derived=True, statistic="value")
        assert sorted(found) == pytest.approx(sorted(measured), abs=0.003), operation
        over_time = samples[samples["name"] == f"file-{name}-over-time"]
        assert over_time["items"].sum() == of_phase["items"].sum().sum() and (over_time["wall_ns"] > 0).all()
    assert set(rows["tool_version"]) == {version} and set(rows.loc[rows["items"].notna(), "items"]) == {40}
    assert ("population-sd" in set(findings["rule"])) == (deviation == "population")


@pytest.fixture
def fio_job(tmp_path):
    """A file of fio with one job, whose keys `change` replaces; `version` is without its fio-."""

    def make(version: str = "3.36", **change) -> Path:
        data = json.loads((FIXTURES / "fio.json").read_text())
        data["fio version"] = f"fio-{version}"
        data["jobs"][0] |= change
        data["jobs"][0] = {key: value for key, value in data["jobs"][0].items() if value is not None}
        (tmp_path / "job.json").write_text(json.dumps(data, indent=1))
        return tmp_path / "job.json"

    return make


@pytest.mark.parametrize(
    ("version", "options", "record", "file"),
    [
        ("3.36", {"size": "4GB", "bs": "64KB"}, 2**16, 2**32),
        ("3.36", {"size": "4g", "bs": "65536"}, 2**16, 2**32),
        ("3.36", {"size": "4GB", "bs": "64kb", "kb_base": "1000"}, 64000, 4 * 10**9),
        ("3.36", {"size": "4GiB", "bs": "64KiB"}, 64000, 4 * 10**9),  # as fio's documentation says
        ("3.36", {"size": "4GiB", "bs": "64KiB", "kb_base": "1000"}, 2**16, 2**32),
        ("2.16", {"size": "4GiB", "bs": "64KiB"}, None, None),
        ("3.36", {"size": "2t"}, 4096, 2**41),
        ("3.36", {"size": "50%", "bs": ",16k"}, 4096, None),
        ("3.36", {"size": "1g", "nrfiles": "8"}, 4096, None),
        ("3.36", {"size": "1g", "nrfiles": "8", "filesize": "2m"}, 4096, 2**21),
        ("3.36", {"size": "1g", "filename": "/a:/b", "bsrange": "1k-4k"}, None, None),
        ("3.36", {"size": "9999999999999p"}, 4096, None),
    ],
)
def test_fio_sizes_mean_what_fio_says(version, options, record, file, load, fio_job):
    rows, _ = load("fio", fio_job(version, **{"job options": {"name": "mix"} | options}))
    read = rows[rows["operation"] == "read"]
    for column, size in (("record_bytes", record), ("file_bytes", file)):
        assert read[column].isna().all() if size is None else set(read[column]) == {size}, column


def test_fio_flushes_have_latencies(load, fio_job):
    lat = {"min": 1000, "max": 5000, "mean": 2500.0, "stddev": 10.0, "N": 40, "percentile": {"99.000000": 4800}}
    rows, _ = load("fio", fio_job(sync={"total_ios": 40, "lat_ns": lat}))
    assert pick(rows, operation="sync", quantity="count") == [40]
    assert pick(rows, operation="sync latency", statistic="p99") == [4.8e-6]
    assert set(rows.loc[rows["phase"].str.startswith("sync"), "items"]) == {40}
    none = dict.fromkeys(("min", "max", "mean", "stddev", "N"), 0)
    rows, _ = load("fio", fio_job(sync={"total_ios": 0, "lat_ns": none}))
    assert not rows["operation"].str.startswith("sync").any()


def test_fio_flushes_that_are_counted_elsewhere(load, fio_job):
    """Version 3.39: total_ios is 0, the number stands beside the latencies, and again as short reads."""
    lat = {"min": 700, "max": 9000, "mean": 800.5, "stddev": 10.0, "N": 40, "percentile": {"99.000000": 8800}}
    read = json.loads((FIXTURES / "fio.json").read_text())["jobs"][0]["read"] | {"short_ios": 40}
    path = fio_job("3.39", sync={"total_ios": 0, "lat_ns": lat}, read=read)
    rows, findings = load("fio", path)
    assert pick(rows, operation="sync", quantity="count") == [40]
    assert rows.loc[rows["operation"] == "sync", "place"].tolist() == ["$.jobs[0].sync.lat_ns.N"]
    assert pick(rows, operation="sync latency", statistic="mean") == [800.5e-9]
    assert set(rows.loc[rows["phase"].str.startswith("sync"), "items"]) == {40}
    short = findings.loc[findings["rule"] == "short-requests", "what"].tolist()
    assert short == ["job mix: 3 short or dropped write requests"]  # those of the reads are the flushes
    flushes = {"count": 40, "sum_ns": 32020, "min_ns": 700, "max_ns": 9000, "p99_ns": 8800}
    assert fio.flushes(path.read_text()) == flushes
    assert fio.flushes((FIXTURES / "fio.json").read_text()) is None
    two = json.loads(path.read_text())
    two["jobs"].append(
        two["jobs"][0] | {"sync": {"total_ios": 10, "lat_ns": lat | {"mean": 900, "max": 9500, "percentile": {}}}}
    )
    flushes = {"count": 50, "sum_ns": 41020, "min_ns": 700, "max_ns": 9500}
    assert fio.flushes(json.dumps(two)) == flushes


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"lat_ns": {"max": 2_100_000_000, "mean": 5, "N": 9}}, "the longest read request took 2.1 s, all reads 2 s"),
        ({"lat_ns": {"max": 2_010_000_000, "mean": 5, "N": 9}}, None),  # the second one is in whole milliseconds
    ],
)
def test_fio_request_that_is_longer_than_its_job_is_told(change, what, load, fio_job):
    read = json.loads((FIXTURES / "fio.json").read_text())["jobs"][0]["read"] | change
    _, findings = load("fio", fio_job(read=read))
    told = findings.loc[findings["rule"] == "longer-than-run", "what"].tolist()
    assert told == ([f"job mix: {what}"] if what else [])


def test_fio_flush_that_is_longer_than_its_job_is_told(load, fio_job):
    lat = {"min": 1, "max": 3_000_000_000, "mean": 2.0, "stddev": 0.0, "N": 4}
    _, findings = load("fio", fio_job(sync={"total_ios": 4, "lat_ns": lat}))
    told = findings.loc[findings["rule"] == "longer-than-run", "what"].tolist()
    assert told == ["job mix: the longest flush took 3 s, the job 2 s"]
    _, findings = load("fio", fio_job(sync={"total_ios": 4, "lat_ns": lat}, job_runtime=3100))
    assert "longer-than-run" not in set(findings["rule"])


def test_fio_results_of_several_hosts(load, tmp_path, refused):
    """Client and servers: an entry for each job of each host, and one of all together."""
    data = json.loads((FIXTURES / "fio.json").read_text())
    job = data.pop("jobs")[0]
    entries = [job | {"hostname": host, "port": 8765} for host in ("n1", "n2")]
    together = job | {"jobname": "All clients", "read": job["read"] | {"iops": 1000.0, "total_ios": 2000}}
    text = json.dumps(data | {"client_stats": [*entries, together]}, indent=1)
    rows, findings = load("fio", text=text)
    rates = rows[rows["operation"].eq("read") & rows["quantity"].eq("rate")]
    assert rates["value"].tolist() == [500, 500, 1000]
    assert rates["client"].fillna("").tolist() == ["n1 mix 0", "n2 mix 1", ""]
    assert rates["label"].fillna("").tolist() == ["", "", "All clients"]
    assert rates["place"].tolist()[2] == "$.client_stats[2].read.iops"
    assert {"short-requests", "stopped-early"} <= set(findings["rule"])
    assert len(fio.samples(text)) == 4  # of the hosts, not of all again
    refused("fio", "no job read, wrote or trimmed", text=json.dumps(data | {"client_stats": []}))


def test_fio_fills_places_of_percentiles(load, fio_job):
    """Versions up to 3.1 write 0.00 for those that were not asked for."""
    read = json.loads((FIXTURES / "fio.json").read_text())["jobs"][0]["read"]
    read["clat_ns"]["percentile"] = {"1.000000": 900, "99.000000": 8000, "0.00": 0}
    rows, _ = load("fio", fio_job("3.1", read=read))
    told = rows.loc[rows["operation"] == "read completion latency", "statistic"]
    assert told.tolist() == ["min", "max", "mean", "sd", "p1", "p99"]


def test_fio_directions_that_are_reported_as_one(load, fio_job):
    mixed = json.loads((FIXTURES / "fio.json").read_text())["jobs"][0]["read"]
    options = {"name": "mix", "unified_rw_reporting": "1", "bs": "8k"}
    path = fio_job(read=None, write=None, trim=None, mixed=mixed, **{"job options": options})
    rows, _ = load("fio", path)
    assert pick(rows, operation="mixed", quantity="throughput") == [4096000]
    assert set(rows["record_bytes"]) == {8192}
    assert fio.samples(path.read_text())[0]["name"] == "mixed"
    path = fio_job(mixed=mixed)  # unified_rw_reporting=both
    rows, _ = load("fio", path)
    assert (
        set(rows["phase"]) >= {"read", "write", "mixed"}
        and rows.loc[rows["phase"] == "mixed", "record_bytes"].isna().all()
    )
    assert [sample["name"] for sample in fio.samples(path.read_text())] == ["read", "write"]


def fio_reports(*ran: int, began: int = 1700000000) -> str:
    """Reports of one run after so many seconds, as --status-interval prints them."""
    reports = []
    for seconds in ran:
        data = json.loads((FIXTURES / "fio.json").read_text())
        data["timestamp"] = began + seconds
        data["jobs"][0]["elapsed"] = seconds + 1
        data["jobs"][0]["read"] |= {"runtime": seconds * 1000, "total_ios": 500 * seconds}
        reports.append(json.dumps(data, indent=2) + "\n")
    return "".join(reports)


def test_fio_interim_reports_are_not_runs(load, tmp_path, refused):
    rows, findings = load("fio", text=fio_reports(1, 2, 3))
    assert pick(rows, operation="read", quantity="time") == [3.0] and pick(rows, operation="read", unit="1") == [1500]
    told = findings.loc[findings["rule"] == "interim-reports", "what"].item()
    assert told.endswith("left out: 2")
    refused("fio", r"text, line \d+: a second report begins", text=fio_reports(3) + fio_reports(3, began=1700000100))
    refused("fio", r"line \d+: no JSON: Unterminated", text=fio_reports(1, 2)[:-20])


def test_fio_json_among_its_text(load, tmp_path, refused):
    """--output-format=normal,json: the text for people stands around the JSON."""
    before = "mix: (g=0): rw=randrw, bs=(R) 8192B-8192B, ioengine=psync, iodepth=1\nfio-3.36\nStarting 1 process\n\n"
    after = "\nmix: (groupid=0, jobs=1): err= 0: pid=7: Tue Nov 14 22:13:20 2023\n  read: IOPS=500, BW=4000KiB/s\n"
    text = before + (FIXTURES / "fio.json").read_text() + after
    rows, findings = load("fio", text=text)
    alone, _ = load("fio", "fio.json")
    assert rows["value"].tolist() == alone["value"].tolist() and "interim-reports" not in set(findings["rule"])
    refused("fio", r"line 14: .*error is not a whole number", text=text.replace('"error" : 0', '"error" : "x"'))


def test_fio_samples():
    read, write = fio.samples((FIXTURES / "fio.json").read_text())
    # One request at a time: the sum of the latencies, in ns. Several at a time, jobs in a group, or a flush:
    # the runtime, in whole ms.
    assert read == {"name": "read", "start_ns": 0, "wall_ns": 2100500, "items": 1000, "bytes": 8192000, "client": 0}
    assert (write["name"], write["bytes"]) == ("write", 16384000)
    data = json.loads((FIXTURES / "fio.json").read_text())
    for option in ({"iodepth": "4"}, {"group_reporting": "", "numjobs": "4"}, {"end_fsync": "1"}):
        job = {**data["jobs"][0], "job options": data["jobs"][0]["job options"] | option}
        assert fio.samples(json.dumps({**data, "jobs": [job]}))[0]["wall_ns"] == 2 * 10**9
    second = json.loads(json.dumps(data["jobs"][0])) | {"job_start": 1700000000350}
    second["read"]["runtime"] = 0
    found = fio.samples(json.dumps({**data, "jobs": [data["jobs"][0], second]}))
    assert [(s["client"], s["start_ns"]) for s in found] == [(0, 0), (0, 0), (1, 250 * 10**6), (1, 250 * 10**6)]
    assert found[2]["wall_ns"] == 2100500
    second["jobname"] = "other"
    assert fio.samples(json.dumps({**data, "jobs": [data["jobs"][0], second]}))[3]["name"] == "other-write"
    with pytest.raises(ValueError, match="'seq' ended with error 28"):
        fio.samples((FIXTURES / "fio-2.json").read_text())
    with pytest.raises(ValueError, match="line 3: it ends within the JSON"):
        fio.samples('{\n"jobs": [\n')


TIMES = "1600000000,1600000000,1600000000"


def test_iozone_samples_are_of_a_whole_file_each():
    with pytest.raises(ValueError, match="not in kB/s"):
        iozone.samples((FIXTURES / "iozone-t.txt").read_text())


def test_pwalk_keeps_no_names(load, tmp_path):
    load("pwalk", "pwalk.csv")
    assert "/data" not in "".join(file.read_text() for file in (tmp_path / "out").glob("*.csv"))


def test_fio_without_the_number_of_requests_has_no_samples(tmp_path):
    path = changed(tmp_path, "fio-2.json", ('"error" : 28', '"error" : 0'), (', "total_ios" : 256', ""))
    with pytest.raises(ValueError, match="has no 'total_ios'"):
        fio.samples(path.read_text())


def test_what_no_case_can_hold_is_refused(refused):
    refused("zip", "unknown format 'zip'.*mdtest", text="")
    refused("datalad", "line 1", text="[" * 100000)


# ---- the 2015 study -------------------------------------------------------------------------------------------------


study = study2015.one


def rules(findings: pd.DataFrame, path: Path) -> set[str]:
    return set(findings.loc[findings["source"] == str(path), "rule"])


def test_study_phases_are_those_of_a_study_of_this_project(load, tmp_path):
    rows, findings = load("datalad", study(tmp_path, "EXT4_MD_raid6_-Estride=4"))
    phases = pd.read_parquet(tmp_path / "out/phases.parquet", dtype_backend="numpy_nullable")
    assert list(phases) == [row["column"] for row in dictionary() if row["table"] == "phases"]
    cell = statistics(phases).set_index(["phase", "cache"])
    assert set(cell.index) == {
        ("create", "warm"),
        *((name, cache) for name in ("du", "direct", "du-2") for cache in ("cold", "warm")),
        ("rm", "cold"),
    }
    assert set(cell["label"]) == {"ext4+-Estride=4"} and set(cell["stack"]) == {"md-raid6"} and set(cell["n"]) == {10}
    assert cell.loc[("du", "warm"), "median_ns"] == 0.5e9
    assert len(rows) == len(phases) and set(rows["items"]) == {100}
    assert pick(rows, phase="du", cache="cold", iteration=1) == [11.09]
    assert set(findings["rule"]) == {
        "object-in-command",
        "not-measured",
        "warm-no-op",
        "warm-as-cold",
        "no-environment",
    }
    idle = findings[findings["rule"].isin(["warm-no-op", "warm-as-cold"])].set_index("rule")["what"]
    assert idle["warm-no-op"].startswith("annex-direct: 10 of 10") and idle["warm-as-cold"].startswith("du-2:")


def test_study_files_with_one_label_are_told_and_kept_apart(load, tmp_path):
    old = study(
        tmp_path, "EXT4_MD-old", fs="EXT4_MD", cold=lambda run, i: (2 if i == 3 else 1) * (10 + run * 3 % 10 / 9)
    )
    new = study(tmp_path, "EXT4_MD", fs="<class '__main__.EXT4'>_MD", cold=lambda run, i: 10 + run * 3 % 10 / 9)
    rows, findings = load("datalad", old, new)
    assert "label-differs" in rules(findings, old) and "object-in-label" in rules(findings, new)
    assert "label-differs" not in rules(findings, new)
    pooled = findings[findings["rule"] == "one-label"]
    assert pooled["source"].item() == f"{old}, {new}" and "2.00 times (du-2)" in pooled["what"].item()
    assert set(rows["configuration"]) == {"EXT4_MD-old", "EXT4_MD"}
    phases = pd.read_parquet(tmp_path / "out/phases.parquet")
    assert len(phases.groupby(["stack", "label"])) == 2


@pytest.mark.parametrize(
    ("configuration", "label", "stack"),
    [
        ("EXT4_MD_raid6", "ext4", "md-raid6"),
        ("EXT4_MD_raid6-old", "ext4+old", "md-raid6"),
        ("r2_BTRFSv4_LVM_MD_raid6_compress=lzo", "btrfsv4+compress=lzo_r2", "md-raid6+lvm"),
        ("r2_BTRFSv4_MD_raid5_-mraid0_compress=lzo", "btrfsv4+-mraid0_compress=lzo_r2", "md-raid5"),
        ("ReiserFS_sda", "reiserfs", "sda"),
        ("ZFS_layout=raid6_ashift=12", "zfs+layout=raid6_ashift=12", "zfs-raidz2"),
        ("ZFS_ashift=12", "zfs+ashift=12", "unknown"),
    ],
)
def test_study_repetitions_and_notes_are_no_file_system_and_no_stack(configuration, label, stack, load, tmp_path):
    path = study(tmp_path, configuration)
    if configuration.startswith("r2_"):
        path = path.rename(tmp_path / f"r2_repo_ndirs=2_nfiles=50-{configuration[3:]}.json")
    load("datalad", path)
    phases = pd.read_parquet(tmp_path / "out/phases.parquet")
    assert set(phases["label"]) == {label} and set(phases["stack"]) == {stack}
    assert set(phases["filesystem"]) == {label.partition("+")[0]}


def test_study_label_of_another_layout_is_told(load, tmp_path):
    path = study(tmp_path, "BTRFS_LVM_stripe4_sda+sdb", fs="BTRFS_LVM_raid6_sda+sdb+sdc")
    _, findings = load("datalad", path)
    what = findings.loc[findings["rule"] == "label-differs", "what"].item()
    assert "BTRFS_LVM_raid6_sda+sdb+sdc" in what and "BTRFS_LVM_stripe4_sda+sdb" in what


def test_study_runs_that_drift_lack_or_repeat_are_told(load, tmp_path):
    drift = study(tmp_path, "A_MD", cold=lambda run, i: 10 + run)
    gap = study(tmp_path, "B_MD", runs=[0, 1, 2, 4, 4, 5])
    short = study(tmp_path, "C_MD", runs=range(3))
    data = json.loads(short.read_text())
    data[1]["times"].pop()
    data[2]["times"][0]["cold"] = -3
    short.write_text(json.dumps(data))
    _, findings = load("datalad", drift, gap, short)
    what = findings[findings["source"] == str(drift)].set_index("rule")["what"]
    assert what["drift"].startswith("5 of 5 cold series") and "+1.00" in what["drift"]
    assert {"missing-runs", "repeated-runs"} <= rules(findings, gap) and "drift" not in rules(findings, gap)
    assert {"incomplete-runs", "impossible-times", "unequal-runs"} <= rules(findings, short)


def test_study_json_of_another_shape_names_file_and_line(tmp_path, reprofs, says):
    path = study(tmp_path, "A_MD")
    text = path.read_text()
    path.write_text(text.replace('"cold": 11.09', '"cold": "11.09"'))
    line = next(i for i, line in enumerate(text.splitlines(), 1) if '"cold": 11.09' in line)
    process = reprofs("import", "datalad", path, "--output", tmp_path / "out")
    says(process, str(path), f"line {line}", "$[1].times[1].cold is not a number")
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Published numbers of the study, imported: measurements and findings."""
    folder = tmp_path_factory.mktemp("published")
    importers.import_files("datalad", study2015.write(folder), folder / "out", dictionary)
    rows = pd.read_parquet(folder / "out/measurements.parquet")
    return rows, pd.read_csv(folder / "out/findings.csv", keep_default_na=False)


@pytest.mark.parametrize(
    ("repository", "configuration", "phase", "cache", "seconds"),
    [
        ("simpleannex_ndirs=20_nfiles=100", "BTRFS_MD_raid6", "annex-get", "cold", 11),
        ("simpleannex_ndirs=20_nfiles=100", "EXT4_MD_raid6", "annex-get", "cold", 34.7),
        ("simpleannex_ndirs=20_nfiles=100", "EXT4_MD_raid6-old", "annex-get", "cold", 29.6),
        ("simpleannex_ndirs=20_nfiles=100", "EXT4_MD_raid6-old", "clone", "cold", 1.11),
        ("simpleannex_ndirs=20_nfiles=100", "XFS_MD_raid6", "untar", "cold", 1.03),
        ("simpleannex_ndirs=20_nfiles=100", "XFS_MD_raid6", "tar", "warm", 0.255),
        ("simpleannex-big_ndirs=100_nfiles=1000", "BTRFS_LVM_MD_raid6", "make-repository", "cold", 989.9),
        ("simpleannex-big_ndirs=100_nfiles=1000", "BTRFS_LVM_MD_raid6", "annex-direct", "warm", 0.0111),
        ("simpleannex-big_ndirs=100_nfiles=1000", "BTRFS_sda_-mraid6", "du-2", "cold", 102.5),
        ("simpleannex-big_ndirs=100_nfiles=1000", "ReiserFS_LVM_MD_raid6", "chmod", "warm", 255),
    ],
)
def test_published_medians(published, repository, configuration, phase, cache, seconds):
    """Medians computed before from the same files, rounded to three or four digits."""
    rows, _ = published
    wanted = {"workload": repository, "configuration": configuration, "phase": phase, "cache": cache}
    values = pd.Series(pick(rows, **wanted))
    assert len(values) == (10 if "big" in repository else 100)
    assert values.median() == pytest.approx(seconds, rel=0.005)


def test_published_faults_are_found(published):
    _, findings = published
    pooled = findings[findings["rule"] == "one-label"]
    assert len(pooled) == 1 and "EXT4_MD_raid6-old.json" in pooled["source"].item()
    assert "2.42 times (clone)" in pooled["what"].item()
    noop = findings[findings["rule"] == "warm-no-op"]
    assert noop["source"].str.contains("simpleannex-big").all() and len(noop) == 2
    assert set(noop["what"].str.split(":").str[0]) == {"annex-direct", "annex-indirect"}
    drift = findings[findings["rule"] == "drift"]
    xfs = drift.loc[drift["source"].str.contains("XFS"), "what"].item()
    assert "untar with rho +0.74" in xfs
    assert findings["rule"].eq("label-differs").sum() == 1 and findings["rule"].eq("object-in-label").sum() == 1


# ---- command line, folder, bad input --------------------------------------------------------------------------------


def test_import_prints_findings_and_is_reproducible(tmp_path, reprofs):
    arguments = ("import", "mdtest", FIXTURES / "mdtest-1.9.txt", FIXTURES / "mdtest-4.txt", "--output")
    process = reprofs(*arguments, tmp_path / "one")
    assert process.returncode == 0 and not process.stderr
    listed = list(csv.DictReader((tmp_path / "one/findings.csv").open()))
    assert len(process.stdout.splitlines()) == len({row["rule"] for row in listed}) < len(listed)
    assert all(line.startswith(str(FIXTURES)) and line.endswith(".") for line in process.stdout.splitlines())
    reprofs(*arguments, tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_findings_of_one_kind_are_one_sentence_with_their_number(tmp_path, reprofs):
    warning = "WARNING: a task was late\n"
    path = changed(tmp_path, "ior.txt", ("Results: ", 40 * warning + "Results: "))
    process = reprofs("import", "ior", path, "--output", tmp_path / "out")
    told = [line for line in process.stdout.splitlines() if "ior warned" in line]
    assert len(told) == 1 and "line 19: ior warned: WARNING: a task was late" in told[0]
    assert told[0].endswith("(40 findings of this kind, all of them in findings.csv).")
    listed = list(csv.DictReader((tmp_path / "out/findings.csv").open()))
    assert [row["place"] for row in listed if row["rule"] == "warning"] == [f"line {line}" for line in range(19, 59)]
    assert "findings of this kind" not in "".join(line for line in process.stdout.splitlines() if line not in told)


def test_the_same_content_is_read_once(load, tmp_path):
    (tmp_path / "again.txt").write_text((FIXTURES / "io500.txt").read_text())
    rows, findings = load("io500", "io500.txt", tmp_path / "again.txt")
    once, _ = load("io500", "io500.txt")
    assert len(rows) == len(once) and findings["rule"].tolist() == ["duplicate"]


def test_only_an_earlier_import_is_replaced(tmp_path, refused):
    files = [FIXTURES / "io500.txt"]
    importers.import_files("io500", files, tmp_path / "out", dictionary)
    (tmp_path / "out/phases.csv").write_text("of an earlier one")
    importers.import_files("io500", files, tmp_path / "out", dictionary)
    assert not (tmp_path / "out/phases.csv").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for name in ("mine", "mine/thesis.txt", "link"):
        with pytest.raises(UserError, match="was not made by an import"):
            importers.import_files("io500", files, tmp_path / name, dictionary)
    refused("io500", "would be replaced", tmp_path / "out/findings.csv")
    assert (tmp_path / "mine/thesis.txt").read_text() == "mine" and (tmp_path / "out/import.json").exists()


def test_nothing_is_written_when_one_of_the_files_is_bad(tmp_path, reprofs, says):
    importers.import_files("io500", [FIXTURES / "io500.txt"], tmp_path / "out", dictionary)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    bad = changed(tmp_path, "io500.txt", ("4.000000 GiB/s :", "4.0000"))
    for output in ("out", "new"):
        process = reprofs("import", "io500", FIXTURES / "io500.txt", bad, "--output", tmp_path / output)
        says(process, str(bad), "line 2", "cut short")
        assert not process.stdout
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["io500.txt", "out"]


def test_what_is_no_file_is_refused(tmp_path, refused):
    for path, words in ((tmp_path / "none", "Cannot read"), (tmp_path, "not a regular file")):
        refused("io500", words, path)
    assert not list(tmp_path.iterdir())


def test_a_link_that_leads_to_itself_is_one_sentence(tmp_path, reprofs, says):
    (tmp_path / "loop").symlink_to("loop")
    says(reprofs("import", "fio", "loop", "--output", "out", cwd=tmp_path), "Cannot read loop")
    process = reprofs("import", "io500", FIXTURES / "io500.txt", "--output", "loop/out", cwd=tmp_path)
    says(process, "cannot be written", "loop/out")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


@pytest.mark.parametrize("name", ["{}", "{}/", ".", "./", "../{}", "absolute"])
def test_an_empty_folder_is_filled_and_stays_the_same_private_one(name, tmp_path, reprofs):
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o700)
    before = folder.stat()
    cwd = folder if name.startswith(".") else tmp_path
    name = str(folder) if name == "absolute" else name.format("mine")
    for _ in range(2):  # the second time it is an earlier import
        process = reprofs("import", "io500", FIXTURES / "io500.txt", "--output", name, cwd=cwd)
        assert process.returncode == 0, process.stderr
        after = folder.stat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
        assert sorted(path.name for path in folder.iterdir()) == [
            "dictionary.csv", "files.sha256", "findings.csv", "import.json", "measurements.csv", "measurements.parquet"
        ]  # fmt: skip
    assert list(tmp_path.iterdir()) == [folder]


def test_an_earlier_import_is_whole_when_a_new_one_cannot_be_placed(tmp_path, monkeypatch, refused):
    importers.import_files("io500", [FIXTURES / "io500.txt"], tmp_path / "out", dictionary)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    rename = Path.rename

    def fails(path, target):
        if "new" in path.parts and path.name == "import.json":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fails)
    refused("fio", "No space left", FIXTURES / "fio.json")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_what_somebody_puts_into_the_folder_meanwhile_stays(tmp_path, monkeypatch):
    out, write = tmp_path / "out", files.write_sums
    for there in (True, False):
        shutil.rmtree(out, ignore_errors=True)
        if there:
            out.mkdir()

        def meanwhile(*arguments):
            out.mkdir(exist_ok=True)
            (out / "thesis.txt").write_text("mine")
            write(*arguments)

        monkeypatch.setattr(files, "write_sums", meanwhile)
        with pytest.raises(UserError, match="was not made by an import"):
            importers.import_files("io500", [FIXTURES / "io500.txt"], out, dictionary)
        assert [path.name for path in out.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("form", "file", "line"),
    [
        ("mdtest", "mdtest-1.9.txt", "   File stat         :       7903"),
        ("ior", "ior.txt", "write     512.00"),
        ("io500", "io500.txt", "[RESULT]                 find"),
        ("iozone", "iozone.txt", "          102400       4    20000"),
        ("iozone", "iozone-t.txt", "\tMin throughput"),
        ("compilebench", "compilebench.txt", "compile total runs"),
        ("compilebench", "compilebench.txt", "read dir kernel-1"),
        ("pwalk", "pwalk.csv", "11,"),
    ],
)
def test_a_line_that_is_there_twice_is_told(form, file, line, load, tmp_path):
    text = (FIXTURES / file).read_text()
    (whole,) = (full for full in text.splitlines(keepends=True) if full.startswith(line))
    (tmp_path / file).write_text(text.replace(whole, whole + whole))
    _, findings = load(form, file)
    assert "repeated-lines" not in set(findings["rule"])
    _, findings = load(form, tmp_path / file)
    told = findings[findings["rule"] == "repeated-lines"]
    number = text[: text.index(whole)].count("\n") + 2
    assert told["place"].tolist() == [f"line {number}"]


@pytest.mark.parametrize("many", [15, pytest.param(120, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("form", "file"), FILES)
def test_a_number_of_absurd_length_is_one_sentence(form, file, many, load, tmp_path):
    """In the place of any number: refused with its line, or not read; never a traceback, never a long sentence."""
    text, read = (FIXTURES / file).read_text(), importlib.import_module(f"reprofs.importers.{form}").read
    places = [found.span() for found in re.finditer(r"(?<![\w.])\d+(\.\d+)?", text)]
    refused = 0
    for digits in ("9" * 5000, "1." + "3" * 5000, "1e" + "9" * 5000):
        for number, (start, end) in enumerate(places[:: max(1, len(places) // many)]):
            changed = text[:start] + digits + text[end:]
            try:
                told = [finding.sentence() for finding in read(Source.of("long", changed)).findings]
                if number % 8 == 0:  # its tables can be written
                    load(form, text=changed)
            except Malformed as error:
                refused += 1
                told = [error.what]
                assert error.line
            assert all(len(sentence) < 400 for sentence in told)
    assert refused >= 3


def test_lines_of_json_places():
    text = '{"a": [1, {"b": "x,]",\n "c": [2,\n 3]}],\n "d": {}, "e": 5}'
    for path, line in ((("a", 1, "b"), 1), (("a", 1, "c", 1), 3), (("e",), 4), (("a", 1, "zz"), 1), (("d", "x"), 4)):
        assert importers.json_line(text, path) == line
    assert importers.json_line('{"a":\n 1,\n"a" :\n\t2}', ("a",)) == 4  # of two the last one, as when it is read
    assert importers.json_line("\n[]", (0,)) == importers.json_line('\n"s"', ("a",)) == 2
    assert importers.json_path(("a", 1, "b c")) == "$.a[1]['b c']"


def test_elbencho_without_its_command_is_read(load):
    """A line that ends behind COMMAND LINE: it tells neither caching nor the size of requests."""
    text = re.sub(r"(COMMAND LINE *:).*", r"\1", (FIXTURES / "elbencho.txt").read_text())
    assert "COMMAND LINE" in text and load("elbencho", text=text)[0]["workload"].eq("").all()
