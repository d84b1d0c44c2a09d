"""Importers: values and units, findings by rules on the data, bad input named with its line, nothing half-written.

The files in fixtures/import are made up after the formats; fixtures/published has numbers of the 2015 study.
"""

import csv
import importlib
import json
import os
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import study2015
from conftest import ROOT
from reprofs import importers
from reprofs.data.columns import dictionary
from reprofs.errors import UserError
from reprofs.importers import Malformed, Source, fio, iozone, mdtest
from reprofs.stats.cells import statistics

FIXTURES = ROOT / "tests/fixtures/import"
FILES = [
    ("mdtest", "mdtest-1.9.txt"),
    ("mdtest", "mdtest-4.txt"),
    ("ior", "ior.txt"),
    ("io500", "io500.txt"),
    ("io500", "io500-result.txt"),
    ("fio", "fio.json"),
    ("fio", "fio-2.json"),
    ("fio", "fio.txt"),
    ("iozone", "iozone.txt"),
    ("iozone", "iozone-R.txt"),
    ("iozone", "iozone-t.txt"),
    ("compilebench", "compilebench.txt"),
    ("smallfile", "smallfile.json"),
    ("smallfile", "smallfile.txt"),
    ("pwalk", "pwalk.csv"),
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
        else:  # a list of entries may end after any of them; what else has no end says so, and has no part of a number
            found = [row["value"] for row in result.rows]
            told = "no-end" in {finding.rule for finding in result.findings} and set(found) <= set(whole)
            assert found == whole or (form == "pwalk" and cut in starts) or told, cut


def test_mdtest_gives_back_every_iteration(load):
    rows, findings = load("mdtest", "mdtest-1.9.txt")
    stat = pick(rows, operation="File stat", quantity="rate", statistic="value", derived=True)
    assert stat == pytest.approx([7903.923, 7852.736, 2275.234], abs=0.002)
    assert pick(rows, operation="File stat", quantity="rate", statistic="mean", derived=False) == [6010.631]
    assert pick(rows, operation="File stat", statistic="harmonic mean") == pytest.approx([4326.639], abs=0.01)
    # The times of the phases fill the time of the run, so nothing is found about its clock.
    assert sum(pick(rows, quantity="time", derived=True)) == pytest.approx(882, abs=50)
    assert "time-unaccounted" not in set(findings["rule"])
    assert set(findings["rule"]) == {"impossible-size", "population-sd", "not-run", "mean-of-rates"}
    assert "File read" not in set(rows["operation"])
    assert set(rows["tool_version"]) == {"1.9.3"} and set(rows["configuration"]) == {"/scratch"}


def test_mdtest_4_has_two_tables_and_the_other_deviation(load):
    rows, findings = load("mdtest", "mdtest-4.txt")
    assert set(findings["rule"]) == {"mean-of-rates", "wrong-unit"}
    # 1000 files at 100/s: the head says ms/op, and 10.000 are the seconds of the phase.
    assert pick(rows, operation="File creation", quantity="time", statistic="max") == [10]
    assert "'SUMMARY time (in ms/op)', the numbers are seconds" in findings.set_index("rule")["what"]["wrong-unit"]
    # The times are printed, so none is derived from a rate; those of the iterations are from the printed statistics.
    assert sorted(pick(rows, operation="File creation", quantity="time", derived=True)) == pytest.approx(
        [8.333, 9.09, 10], abs=0.001
    )
    assert sorted(pick(rows, operation="Directory creation", quantity="rate", derived=True, statistic="value")) == [
        100,
        150,
        200,
    ]


def test_mdtest_times_that_are_milliseconds_stay_so(load, tmp_path):
    """No known version prints them; the rates beside them would tell. Here 1000 ms/op are 1000 over the rate."""
    path = changed(
        tmp_path,
        "mdtest-4.txt",
        ("2 tasks, 1000 files", "2 tasks, 5000 files"),
        ("0.100          0.033          0.061          0.035", "100.000         33.333         61.111         34.694"),
        ("14:40:20", "14:43:35"),
    )
    rows, findings = load("mdtest", path)
    assert pick(rows, operation="File creation", quantity="time", statistic="max") == [0.01]
    assert set(findings["rule"]) == {"mean-of-rates"}


def stonewalled(tmp_path: Path, *pairs: tuple[str, str]) -> Path:
    """A run of 4.1 that created files for 300 s: 90,000 of the 2,000,000 of its head, at 250/s with the wear-out."""
    text = """\
-- started at 05/03/2024 09:32:15 --

mdtest-4.1.0+dev was launched with 2 total task(s) on 1 node(s)
Command line used: ./mdtest '-n' '1000000' '-F' '-P' '-d' '/mnt/t' '-x' '/mnt/r/easy.stonewall' '-C' '-W' '300'
Path                : /mnt/t
2 tasks, 2000000 files
Continue stonewall hit min: 40000 max: 45000 avg: 42500.0

SUMMARY rate (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation                 250.000        250.000        250.000          0.000
   File stat                       0.000          0.000          0.000          0.000
   Tree creation                4000.000       4000.000       4000.000          0.000
   Tree removal                    0.000          0.000          0.000          0.000

SUMMARY time (in ops/sec): (of 1 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation                 360.000        360.000        360.000          0.000
   File stat                       0.000          0.000          0.000          0.000
   Tree creation                   0.000          0.000          0.000          0.000
   Tree removal                    0.000          0.000          0.000          0.000
-- finished at 05/03/2024 09:38:16 --
"""
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "stonewall.txt").write_text(text)
    return tmp_path / "stonewall.txt"


def test_mdtest_with_a_stonewall_derives_nothing(load, tmp_path):
    rows, findings = load("mdtest", stonewalled(tmp_path))
    assert not rows["derived"].any() and rows["items"].isna().all()
    assert pick(rows, quantity="time") == [360] and pick(rows, quantity="rate") == [250, 4000]
    assert findings["rule"].tolist() == ["not-run", "not-run", "wrong-unit", "too-short"]
    # The printed times are held against the clock: 360 s of the 361 s of the run, and not of the 421 s of another.
    _, late = load("mdtest", stonewalled(tmp_path, ("09:38:16", "09:39:16")))
    assert "the phases take 360 s as printed, the run took 421 s" in late["what"].iloc[-1]
    stonewalled(tmp_path)
    # The same with its rates alone, by either option, or told only by what it printed on the way.
    text = (tmp_path / "stonewall.txt").read_text()
    rates = text[: text.index("SUMMARY time")] + text[text.index("-- finished") :]
    hit = "Continue stonewall hit min: 40000 max: 45000 avg: 42500.0\n"
    for options, said in (("'-W' '300'", ""), ("-W=300", ""), ("'-x' '/mnt/r/s'", ""), ("-C", hit)):
        made = rates.replace("'-x' '/mnt/r/easy.stonewall' '-C' '-W' '300'", options).replace(hit, said)
        (tmp_path / "rates.txt").write_text(made)
        rows, _ = load("mdtest", tmp_path / "rates.txt")
        assert not rows["derived"].any() and rows["items"].isna().all(), options
    (tmp_path / "rates.txt").write_text(made.replace(hit, ""))
    rows, findings = load("mdtest", tmp_path / "rates.txt")
    assert pick(rows, quantity="time", derived=True) == [8000] and "time-unaccounted" in set(findings["rule"])


def test_mdtest_that_could_not_read_the_stonewall_is_told(load, tmp_path):
    hit = "Continue stonewall hit min: 40000 max: 45000 avg: 42500.0"
    path = stonewalled(tmp_path, (hit, "WARNING: could not read stonewall status file"), ("'-C' '-W' '300'", "'-T'"))
    _, findings = load("mdtest", path)
    assert findings.loc[findings["rule"] == "stonewall-unread", "place"].tolist() == ["line 7"]


def test_mdtest_rate_until_the_stonewall(load, tmp_path, refused):
    """Versions about 3.2 have a line for it within the table."""
    line = "   File create (stonewall)   :             NA             NA        283.333             NA\n"
    path = stonewalled(tmp_path, ("   Tree creation  ", line + "   Tree creation  "))
    rows, _ = load("mdtest", path)
    until = rows[rows["operation"] == "File create (stonewall)"]
    assert until["value"].tolist() == [283.333, 283.333] and until["unit"].tolist() == ["1/s", "s"]
    assert until["statistic"].tolist() == ["mean", "total"] and until["items"].isna().all()
    refused(
        "mdtest",
        "line 14: 'File create' has 5 values",
        text=path.read_text().replace("NA        283.333             NA", "NA        283"),
    )


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


def test_mdtest_with_a_changed_number_is_reported(load, tmp_path):
    path = changed(tmp_path, "mdtest-1.9.txt", ("439.763", "539.763"), ("10:14:42", "11:14:42"))
    _, findings = load("mdtest", path)
    assert "File creation" in findings.loc[findings["rule"] == "impossible-summary", "what"].item()
    path = changed(tmp_path, "mdtest-1.9.txt", ("10:14:42", "11:14:42"))
    _, findings = load("mdtest", path)
    assert "4482 s by its clock" in findings.loc[findings["rule"] == "time-unaccounted", "what"].item()


def test_ior_repetitions_and_rates_that_are_not_bytes_over_time(load):
    rows, findings = load("ior", "ior.txt")
    assert pick(rows, operation="write", quantity="throughput", statistic="value") == [2**30, 2**29]
    assert pick(rows, operation="write", quantity="time", iteration=1) == [8.0]
    assert pick(rows, operation="remove", quantity="time") == [0.006066, 0.006066]
    moved = rows[rows["operation"] != "remove"]
    assert set(moved["record_bytes"]) == {2**20} and set(moved["bytes"]) == {2**32}
    assert rows.loc[rows["operation"] == "remove", ["record_bytes", "bytes"]].isna().all(axis=None)
    assert rows["file_bytes"].isna().all()  # a block is no file where all tasks share one
    assert findings["rule"].tolist() == ["rate-not-bytes-over-time", "own-data-read"]
    assert "read 1" in findings["what"][0]


def ior_of_io500(tmp_path: Path, *pairs: tuple[str, str]) -> Path:
    """What ior prints within IO500: ended by a stonewall, of a size beyond all disks, without summary and end."""
    text = """\
IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O
Began               : Fri May  3 09:38:29 2024
Command line        : ./ior -C -Q 1 -g -k -e -o /mnt/t/file -O stoneWallingStatusFile=/mnt/r/s -t 1m -b 99g -w -D 300
Path                : /mnt/t/file

Options:
access              : file-per-process
segments            : 1
ordering inter file : constant task offset
repetitions         : 1
xfersize            : 1 MiB
blocksize           : 99 GiB
aggregate filesize  : 5903320.31 TiB
stonewallingTime    : 300

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
stonewalling pairs accessed min: 52926 max: 69362 -- min data: 2.3 GiB mean data: 3.0 GiB time: 300.1s
WARNING: Expected aggregate file size       = 6490769326080000000
WARNING: Stat() of aggregate file size      = 335544320000
WARNING: Using actual aggregate bytes moved = 335544320000
write     1000.00    1000.00    0.003900    103809024  1024.00    0.001000   319.99     0.002000   320.00     0
"""
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "ior-easy.txt").write_text(text)
    return tmp_path / "ior-easy.txt"


def test_ior_within_io500(load, tmp_path):
    rows, findings = load("ior", ior_of_io500(tmp_path))
    assert set(rows["bytes"]) == {335544320000} and set(rows["file_bytes"]) == {99 * 2**30}
    assert findings["rule"].tolist() == ["warning", "warning", "warning", "no-end"]
    # Two of them in one file; the bytes of the first are not those of the second.
    text = (tmp_path / "ior-easy.txt").read_text()
    rows, findings = load("ior", text=text + text.replace("335544320000", "167772160000").replace("1000.00", "500.00"))
    assert pick(rows, quantity="throughput") == [1000 * 2**20, 500 * 2**20]
    assert rows.loc[rows["quantity"] == "throughput", "bytes"].tolist() == [335544320000, 167772160000]
    assert findings["rule"].tolist().count("no-end") == 2


def test_ior_that_has_not_all_results_is_refused(tmp_path, refused):
    for pair in ((" -w ", " -w -r "), ("repetitions         : 1", "repetitions         : 2")):
        refused("ior", "line 24: the run started in line 1 has no end", ior_of_io500(tmp_path, pair))


def test_ior_sizes_that_cannot_be_are_left_out(load, tmp_path):
    moved = "WARNING: Using actual aggregate bytes moved = 335544320000\n"
    rows, _ = load("ior", ior_of_io500(tmp_path, (moved, "")))
    assert rows["bytes"].isna().all() and pick(rows, quantity="throughput") == [1000 * 2**20]


def test_ior_summary_has_the_bytes_of_its_repetitions(load, tmp_path):
    warning = "WARNING: Using actual aggregate bytes moved = 2147483648.\n"
    path = changed(tmp_path, "ior.txt", ("write     512.00 ", warning + "write     256.00 "))
    rows, findings = load("ior", path)
    once = rows["value"].eq(256 * 2**20) & rows["statistic"].eq("value")
    assert rows.loc[once, "bytes"].tolist() == [2**31]
    writes = rows[rows["operation"].eq("write") & rows["quantity"].eq("throughput") & rows["statistic"].ne("value")]
    assert len(writes) == 4 and writes["bytes"].isna().all()
    assert findings["rule"].tolist() == ["warning", "rate-not-bytes-over-time", "own-data-read"]


def test_ior_without_its_last_line_is_whole(load, tmp_path, refused):
    """All repetitions and the summary are there, which is more than a run within IO500 has."""
    text = (FIXTURES / "ior.txt").read_text()
    path = tmp_path / "ior.txt"
    rows, findings = load("ior", text=text[: text.index("Finished")])
    whole, _ = load("ior", "ior.txt")
    assert rows["value"].tolist() == whole["value"].tolist() and len(rows)
    told = findings[findings["rule"] == "no-end"]
    assert told["place"].tolist() == ["line 33"] and told["what"].item().startswith("the line 'Finished' is missing")
    path.write_text(text[: text.index("read         4096.00")])  # the second half of the summary
    refused("ior", "line 32: the run started in line 1 has no end", path)


@pytest.mark.parametrize(
    ("tasks", "segments", "record", "block", "all_files", "sizes"),
    [
        (" : 7", " : 1", " : 20 MiB", " : 300 MiB", " : 2.05 GiB", (2_202_009_600, 314_572_800, 20 << 20)),
        (" : 7", " : 3", " : 1 MiB", " : 47008 bytes", " : 964.03 KiB", (987_168, 141_024, 1 << 20)),
        (" = 3 (1 per node)", " = 1", " = 47008 bytes", " = 1 GiB", " = 3 GiB", (3 << 30, 1 << 30, 47008)),  # version 2
        ("", " : 1", " : 1 MiB", " : 300 MiB", " : 2.05 GiB", (None, 314_572_800, 1 << 20)),
        ("", " : 1", " : 45.91 KiB", " : 1 GiB", " : 3 GiB", (3 << 30, 1 << 30, 1 << 20)),  # of the table: 1024.00 KiB
    ],
)
def test_ior_bytes_are_not_those_of_a_rounded_text(tasks, segments, record, block, all_files, sizes, load, tmp_path):
    """Tasks times segments times the size of a block; where that is not told and the total has decimals, not known."""
    text = (FIXTURES / "ior.txt").read_text().replace("single-shared-file", "file-per-process")
    lines = {"clients" if "=" in tasks else "tasks": tasks, "segments": segments, "repetitions": " : 2"}
    lines |= {"xfersize": record, "blocksize": block, "aggregate filesize": all_files}
    options = "".join(f"{key}{value}\n" for key, value in lines.items() if value)
    rows, _ = load("ior", text=text[: text.index("tasks  ")] + options + text[text.index("\nResults:") :])
    moved = rows[rows["operation"].ne("remove") & rows["iteration"].notna()]
    for column, size in zip(("bytes", "file_bytes", "record_bytes"), sizes, strict=True):
        assert moved[column].isna().all() if size is None else set(moved[column]) == {size}, column


def test_ior_parts_are_not_longer_than_the_whole(load, tmp_path):
    _, findings = load("ior", changed(tmp_path, "ior.txt", ("0.001000   3.99 ", "4.901000   3.99 ")))
    told = findings[findings["rule"] == "longer-than-run"]
    assert told["what"].tolist() == ["write 0: open(s) is 4.901 s, the whole took 4 s"]


def test_io500_score_is_computed_again(load, tmp_path):
    rows, findings = load("io500", "io500.txt")
    assert pick(rows, operation="score", derived=True) == pytest.approx([4.362031], abs=1e-6)
    assert pick(rows, operation="find", quantity="rate") == [64000] and findings.empty
    path = changed(
        tmp_path,
        "io500.txt",
        ("TOTAL 4.362031", "TOTAL 5.362031 [INVALID]"),
        ("310.000 seconds", "31.0 seconds [INVALID]"),
    )
    _, findings = load("io500", path)
    assert findings["rule"].tolist() == ["score-differs", "invalid"]
    assert "ior-easy-write, the score" in findings["what"][1]


def test_fio_percentiles_and_units_of_both_versions(load):
    rows, findings = load("fio", "fio.json", "fio-2.json")
    assert pick(rows, operation="read completion latency", statistic="p99") == [8e-6]
    assert pick(rows, operation="read", quantity="throughput") == [4096000]
    old = rows[rows["tool_version"] == "2.16"]
    # The old version does not tell its options, so the size of a request is not known.
    assert old["record_bytes"].isna().all() and old["file_bytes"].isna().all()
    assert set(rows.loc[rows["operation"] == "write", "record_bytes"].dropna()) == {16384}
    assert pick(old, quantity="bytes") == [2**20] and pick(old, quantity="throughput") == [512 * 1024]
    assert pick(old, operation="write latency", statistic="max") == pytest.approx([900e-6])
    assert {"stopped-early", "short-requests", "cached", "error"} == set(findings["rule"])


def test_io500_extended_runs_have_more_phases_and_a_score_of_their_own(load, tmp_path, refused):
    more = "[      ]  ior-rnd4K-easy-read        0.134469 GiB/s : time 30.157 seconds\n"
    path = changed(tmp_path, "io500.txt", ("(standard)", "(extended)"), ("[SCORE ]", more + "[SCORE ]"))
    refused("io500", r"line 16: the line of the score \('\[SCOREX'\) is missing", path)
    extended = "[SCOREX] Bandwidth 1.000000 GiB/s : IOPS 9.000000 kiops : TOTAL 3.000000 [INVALID]\n"
    rows, findings = load("io500", text=path.read_text() + extended)
    assert pick(rows, operation="ior-rnd4K-easy-read", quantity="throughput") == [0.134469 * 2**30]
    assert pick(rows, operation="extended score") == [3] and "timestamp" not in set(rows["operation"])
    assert pick(rows, operation="score", derived=True) == pytest.approx([4.362031], abs=1e-6)
    assert findings["rule"].tolist() == ["invalid"] and "the extended score" in findings["what"].item()


def io500_of_2019(tmp_path: Path, total: str) -> Path:
    """The rates of the fixture as the shell script of 2017 to 2019 printed them; its GB/s are GiB/s."""
    lines = ["[Summary] Results files in /mnt/r/results/2019.09.17-22.52.53"]
    counts = {"BW": 0, "IOPS": 0}
    for line in (FIXTURES / "io500.txt").read_text().splitlines():
        if line.startswith("[RESULT]"):
            _, name, rate, unit, *_, seconds, _ = line.split()
            kind, unit = ("BW", "GB/s") if unit == "GiB/s" else ("IOPS", "kiops")
            counts[kind] += 1
            numbers = f"{float(rate):20.3f} {unit} : time {float(seconds):6.2f} seconds"
            lines.append(f"[RESULT] {kind:4} phase {counts[kind]} {name.replace('-', '_'):>25} {numbers}")
    lines.append(f"[SCORE] Bandwidth 1.41421 GB/s : IOPS 13.4543 kiops : TOTAL {total}")
    (tmp_path / "2019.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "2019.txt"


def test_io500_of_the_first_versions(load, tmp_path, refused):
    rows, findings = load("io500", io500_of_2019(tmp_path, "4.36203"))
    new, _ = load("io500", "io500.txt")
    assert sorted(rows["phase"]) == sorted(new["phase"]) and findings.empty
    for quantity in ("throughput", "rate", "time"):
        assert sorted(pick(rows, quantity=quantity)) == pytest.approx(sorted(pick(new, quantity=quantity)), rel=1e-5)
    _, findings = load("io500", io500_of_2019(tmp_path, "19.02"))
    assert findings["rule"].tolist() == ["score-is-product"]
    path = io500_of_2019(tmp_path, "4.26203")
    _, findings = load("io500", path)
    assert findings["rule"].tolist() == ["score-differs"]
    refused("io500", "line 14: the line of the score is cut short", text=path.read_text()[:-3])


def test_io500_marks_within_the_brackets(load, tmp_path, refused):
    path = changed(
        tmp_path,
        "io500.txt",
        ("[RESULT]        ior-easy-read", "[RESULT-invalid]        ior-easy-read"),
        ("[SCORE ] Bandwidth 1.414214 GiB/s", "[SCORE-invalid] Bandwidth 1.414214 GB/s"),
    )
    rows, findings = load("io500", path)
    assert pick(rows, operation="ior-easy-read", quantity="throughput") == [8 * 2**30]
    assert findings["rule"].tolist() == ["invalid"] and "io500: ior-easy-read, the score" in findings["what"].item()
    path = changed(tmp_path, "io500.txt", ("TOTAL 4.362031", "TOTAL 4.3620"))
    refused("io500", "line 15: the line of the score is cut short", path)


def test_io500_log_of_its_job_has_lines_of_others(load, tmp_path, refused):
    """In brackets, too: libraries and schedulers write into the same file."""
    text = (FIXTURES / "io500.txt").read_text()
    path = tmp_path / "job.txt"
    others = "[1700000000.123456] [n1:99:0]   wireup.c:7    UCX  WARN  no memory\n[info] mounted\n[n2:12] a warning\n"
    lines = text.splitlines(keepends=True)
    path.write_text(
        "JOB: 7\n" + lines[0] + others + "".join(lines[1:7]) + others + "".join(lines[7:]) + others + "\nbye\n"
    )
    rows, findings = load("io500", path)
    alone, _ = load("io500", "io500.txt")
    assert rows["value"].tolist() == alone["value"].tolist() and findings.empty
    rows, findings = load("io500", text="".join(f"[1,0]<stdout>:{line}" for line in lines))
    assert rows["value"].tolist() == alone["value"].tolist() and findings.empty
    path.write_text(
        text.replace(
            "[RESULT]                 find       64.000000 kIOPS", "[RESULT]                 find       64.0000"
        )
    )
    refused("io500", "line 7: the line is cut short", path)


def test_io500_without_its_last_line_has_all_phases(load, tmp_path, refused):
    text = (FIXTURES / "io500.txt").read_text()
    rows, findings = load("io500", text=text[: text.index("[SCORE")])
    assert len(set(rows["operation"])) == 12 and findings["rule"].tolist() == ["no-end"]
    refused(
        "io500",
        r"line 13: the line of the score \('\[SCORE'\) is missing",
        text=text[: text.index("[RESULT]   mdtest-hard-delete")],
    )


def test_io500_result_txt_says_the_same_and_more(load, tmp_path, refused):
    rows, findings = load("io500", "io500-result.txt")
    summary, _ = load("io500", "io500.txt")
    again = rows[~rows["operation"].str.contains("stonewall")]
    columns = ["operation", "quantity", "statistic", "value", "unit"]
    assert sorted(again[columns].itertuples(index=False)) == sorted(summary[columns].itertuples(index=False))
    assert pick(rows, operation="ior-easy-write (stonewall)") == [5 * 2**30]
    assert pick(rows, operation="mdtest-hard-write (stonewall)") == [5000]
    assert findings.empty and set(rows["tool_version"]) == {"io500-sc23"}
    # While it runs there are fewer phases and no score; a number whose line does not end is none.
    text = (FIXTURES / "io500-result.txt").read_text()
    path = tmp_path / "result.txt"
    rows, findings = load("io500", text=text[: text.index("t_delta         = 305.5") + 20])
    assert pick(rows, operation="mdtest-easy-write", quantity="time") == [301]
    assert pick(rows, operation="ior-hard-write", quantity="throughput") == [2**28]
    assert not pick(rows, operation="ior-hard-write", quantity="time")
    assert findings["rule"].tolist() == ["no-end"] and "9 of its 12 phases" in findings["what"].item()
    error = "; ERROR INVALID the phase was too short\nscore           = 4.000000"
    path = changed(
        tmp_path,
        "io500-result.txt",
        ("score           = 4.000000", error),
        ("BW              = 1.4", "BW              = 2.4"),
    )
    _, findings = load("io500", path)
    assert findings["rule"].tolist() == ["invalid", "invalid", "invalid", "score-differs", "invalid"]
    refused("io500", "no phase has a score", text=text[: text.index("score")])


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


def test_fio_text_for_people(load, tmp_path):
    rows, findings = load("fio", "fio.txt")
    assert pick(rows, operation="read", quantity="rate") == [5000] and pick(
        rows, operation="write", quantity="time"
    ) == [2]
    assert pick(rows, operation="read", quantity="throughput") == pytest.approx([39.1 * 2**20])
    assert pick(rows, operation="read completion latency", statistic="p99") == pytest.approx([80e-6])
    assert pick(rows, operation="write latency", statistic="max") == pytest.approx([1.5006])  # 1500.6k usec
    assert pick(rows, operation="read submission latency", statistic="mean") == pytest.approx([150e-9])
    assert pick(rows, operation="sync latency", statistic="mean") == [3.5e-3]
    assert pick(rows, operation="sync latency", statistic="p99.9") == pytest.approx([7.9e-3])
    counts = rows[rows["quantity"] == "count"].set_index("operation")["value"].to_dict()
    assert counts == {"read": 10000, "write": 10000, "sync": 500}
    # The bytes are requests times their size, for what is printed of them has three digits.
    for operation, record, moved in (("read", 8192, 81_920_000), ("write", 16384, 163_840_000)):
        own = rows[rows["phase"].str.startswith(operation)]
        assert set(own["record_bytes"]) == {record} and set(own["bytes"]) == {moved} and set(own["items"]) == {10000}
    assert set(rows["client"]) == {"seq 0"} and set(rows["tool_version"]) == {"3.36"} and findings.empty
    # What people paste: the jobs alone. The number of flushes that stands as short reads where nothing was read.
    text = (FIXTURES / "fio.txt").read_text()
    again, findings = load("fio", text="$ fio x.fio\n" + text[: text.index("Run status")])
    assert again["value"].tolist() == rows["value"].tolist() and findings["rule"].tolist() == ["no-end"]
    write = text[: text.index("  read:")] + text[text.index("  write:") :]
    rows, findings = load("fio", text=write.replace("total=10000,10000,0,500 short=0,", "total=0,10000,0,0 short=499,"))
    assert pick(rows, operation="sync", quantity="count") == [499] and findings.empty
    _, findings = load(
        "fio", text=text.replace("max=1500.6k", "max=2500.6k").replace("err= 0:", "err=28 (file:x, error=No space):")
    )
    assert findings["rule"].tolist() == ["error", "longer-than-run"]
    assert "the longest write request took 2.5006 s, all writes 2 s" in findings["what"][1]


def test_fio_text_of_version_2_and_of_several_hosts(load, tmp_path):
    head = "w: (g=0): rw=write, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=4\nfio-2.16\n"
    job = (
        "{}w: (groupid=0, jobs=1): err= 0: pid=7: Tue Nov 14 22:13:20 2023\n"
        "{}  write: io=8000.0KB, bw=4000.0KB/s, iops=1000 , runt=  2000msec\n"
        "{}    clat (usec): min=5 , max=2.5K, avg=12.50, stdev= 1.00\n"
        "{}     issued    : total=r=0/w=2000/d=0, short=r=0/w=2/d=0\n"
    )
    end = "Run status group 0 (all jobs):\n  WRITE: io=8000.0KB, aggrb=4000KB/s, mint=2000msec, maxt=2000msec\n"
    rows, findings = load("fio", text=head + job.replace("{}", "") + end)
    assert pick(rows, quantity="throughput") == [4000 * 1024] and pick(rows, quantity="bytes") == [8000 * 1024]
    assert pick(rows, operation="write completion latency", statistic="max") == [2.5e-3]
    assert set(rows["record_bytes"]) == {4096} and set(rows["bytes"]) == {2000 * 4096}
    assert findings["rule"].tolist() == ["short-requests"]
    hosts = job.replace("{}", "<n1> ") + job.replace("{}", "<n2> ")
    together = "All clients: (groupid=0, jobs=2): err= 0: pid=0: Tue Nov 14 22:13:20 2023\n"
    together += "  write: IOPS=2000, BW=7.81Mi (8.19M)(15.6MiB/2000msec); 0 zone resets\n"
    rows, _ = load("fio", text=head + hosts + together + end)
    rates = rows[rows["quantity"] == "rate"]
    assert rates["value"].tolist() == [1000, 1000, 2000]
    assert rates["client"].fillna("").tolist() == ["n1 w 0", "n2 w 1", ""]
    assert rates["label"].fillna("").tolist() == ["", "", "All clients"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(41.0MB/s)(78.1MiB/2000msec)", "(41.0MB/s)(78.1Mi", "line 6: the line of a direction is cut short"),
        ("BW=39.1MiB/s", "BW=313Mibit/s", "line 6: the line of a direction is cut short, in bits"),
        ("avg=40.65, stdev= 5.25", "avg=40.65, stdev= 5.", "line 9: the line of a latency is cut short"),
        ("99.00th=[   80],\n", "99.00th=[   8\n", "line 11: the line of percentiles is cut short"),
        ("99.00th=[   80]", "990.0th=[   80]", "line 11: 990.0 is no percentile"),
        ("short=0,0,0,0 dropped=0,0,0,0", "short=0,0", "line 29: the line of the requests is cut short"),
        ("  read: IOPS", "  raed: IOPS", "line 7: latencies of slat stand without the line before them"),
        ("max=4001", "max=4" + 900 * "0", "line 9: a number has 901 characters"),
        ("IOPS=5000, BW=78", "IOPS=5000G, BW=78", "line 15: a unit is larger than any run needs"),
    ],
)
def test_fio_text_that_is_cut_or_changed_is_refused(old, new, words, tmp_path):
    path = changed(tmp_path, "fio.txt", (old, new))
    with pytest.raises(UserError) as error:
        importers.import_files("fio", [path], tmp_path / "out", dictionary)
    assert words in str(error.value)


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


def test_fio_without_the_number_of_requests(load, tmp_path):
    """Version 2.1.4: no total_ios; trim did nothing."""
    path = changed(
        tmp_path, "fio-2.json", ("fio-2.16", "fio-2.1.4"), (', "total_ios" : 256', ""), (', "total_ios" : 0', "")
    )
    rows, _ = load("fio", path)
    assert set(rows["operation"]) == {"write", "write latency"} and rows["items"].isna().all()
    assert pick(rows, quantity="bytes") == [2**20] and pick(rows, quantity="rate") == [128]
    with pytest.raises(ValueError, match="has no 'total_ios'"):
        fio.samples(path.read_text().replace('"error" : 28', '"error" : 0'))


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


def test_iozone_columns_of_tests_that_ran(load, tmp_path):
    rows, findings = load("iozone", "iozone.txt")
    assert pick(rows, operation="random read", record_bytes=2**20) == [900000 * 1024]
    assert set(rows["operation"]) == {"write", "rewrite", "random read", "random write"}
    assert {"cached", "faster-than-device"} == set(findings["rule"])
    # What looks like an option within a path is none.
    path = changed(tmp_path, "iozone.txt", ("./iozone -e", "/opt/iozone-fast/iozone-i3 -e"))
    elsewhere, _ = load("iozone", path)
    assert elsewhere[["operation", "value", "configuration"]].equals(rows[["operation", "value", "configuration"]])
    # Without the command line the places of the values tell.
    path = changed(
        tmp_path, "iozone.txt", ("\tCommand line used: ./iozone -e -s 100M -r 4k -r 1024k -i 0 -i 2 -f", "\t")
    )
    again, _ = load("iozone", path)
    assert again[["operation", "value"]].equals(rows[["operation", "value"]])


def test_iozone_excel_reports_are_not_counted_twice(load, tmp_path):
    rows, _ = load("iozone", "iozone-R.txt")
    assert len(rows) == 20 and pick(rows, operation="reread", file_bytes=131072, record_bytes=65536) == [1510000 * 1024]
    text = (FIXTURES / "iozone-R.txt").read_text()
    path = tmp_path / "reports.txt"
    path.write_text(text[text.index('"Writer report"') :])
    only, _ = load("iozone", path)
    columns = ["operation", "file_bytes", "record_bytes", "value"]
    assert sorted(only[columns].itertuples(index=False)) == sorted(rows[columns].itertuples(index=False))


def test_iozone_throughput_mode(load):
    rows, _ = load("iozone", "iozone-t.txt")
    assert pick(rows, statistic="sum of clients") == [400000 * 1024]
    assert pick(rows, statistic="work over makespan") == [300000 * 1024]
    with pytest.raises(ValueError, match="not in kB/s"):  # of a whole file each, as samples are
        iozone.samples((FIXTURES / "iozone-t.txt").read_text())


@pytest.mark.parametrize(
    ("file", "within"),
    [("iozone-t.txt", "\tMin xfer"), ("iozone.txt", "          102400    1024"), ("iozone.txt", "80500  ")],
)
def test_iozone_that_ends_after_a_whole_test(file, within, load, tmp_path, refused):
    """Of throughput mode, or with every size that the command names; not within either."""
    text = (FIXTURES / file).read_text()
    rows, findings = load("iozone", text=text[: text.index("iozone test complete")])
    whole, before = load("iozone", file)
    assert rows["value"].tolist() == whole["value"].tolist()
    assert findings["rule"].tolist() == ["no-end", *before["rule"]]
    refused("iozone", "the text ends before 'iozone test complete'", text=text[: text.index(within) + 4])


def test_iozone_operations_a_second_are_no_kibibytes(load, tmp_path, refused):
    mode = "\tOPS Mode. Output is in operations per second.\n\tFile size set to 102400 kB"
    path = changed(tmp_path, "iozone.txt", ("\tFile size set to 102400 kB", mode))
    rows, findings = load("iozone", path)
    assert set(rows["quantity"]) == {"request rate"} and set(rows["unit"]) == {"1/s"}
    assert pick(rows, operation="random read", record_bytes=4096) == [20500]
    assert "faster-than-device" not in set(findings["rule"])
    path = changed(tmp_path, "iozone-t.txt", ("400000.00 kB/sec", "400000.00 ops/sec"))
    rows, _ = load("iozone", path)
    assert pick(rows, statistic="sum of clients", quantity="request rate") == [400000]
    path = changed(tmp_path, "iozone-R.txt", ("\tOutput is in kBytes/sec", mode))
    rows, _ = load("iozone", path)
    assert len(rows) == 20 and set(rows["unit"]) == {"1/s"}
    microseconds = "\tMicroseconds/op Mode. Output is in microseconds per operation."
    path = changed(tmp_path, "iozone.txt", ("\tFile size set to 102400 kB", microseconds))
    refused("iozone", r"line 9: output in microseconds \(-N\) is not read", path)


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        ("          1x2400       4    20000", "'1x2400' is not a number"),
        ("          x02400       4    20000", "'x02400' is not a number"),
        ("               4   20000    20000", "records of 20000 KiB are larger than the file of 4 KiB"),
    ],
)
def test_iozone_lines_damaged_in_their_first_columns_are_refused(damaged, words, tmp_path, refused):
    path = changed(tmp_path, "iozone.txt", ("          102400       4    20000", damaged))
    refused("iozone", f"line 17: {words}", path)


def test_compilebench_megabytes_are_mebibytes(load):
    rows, findings = load("compilebench", "compilebench.txt")
    assert pick(rows, operation="initial create", quantity="throughput") == [74 * 2**20]
    assert pick(rows, operation="delete tree", quantity="time") == [1.48]
    assert pick(rows, operation="create", statistic="bytes over time") == pytest.approx([55.5 * 2**20])
    assert findings["rule"].value_counts().to_dict() == {"not-run": 7, "few-runs": 2, "mean-of-rates": 1}


def test_smallfile_threads_and_stonewall(load, tmp_path):
    rows, findings = load("smallfile", "smallfile.json")
    assert pick(rows, client="node1 00", quantity="time") == [4.0]  # a list in some versions
    assert pick(rows, quantity="throughput") == [11.875 * 2**20]
    assert findings["rule"].tolist() == ["stonewall", "unfair"]
    path = changed(tmp_path, "smallfile.json", ('"files-per-sec": 190.0', '"files-per-sec": 475.0'))
    _, findings = load("smallfile", path)
    assert "rate-not-items-over-time" in set(findings["rule"])


def smallfile_3(tmp_path: Path, hosts: bool) -> Path:
    """What version 3.2 writes: rates are the sums of those of the threads."""
    threads = {
        "00": {"elapsed": 2.0, "files": 1000, "records": 1000, "filesPerSec": 500.0, "IOPS": 500.0, "MiBps": 31.25},
        "01": {"elapsed": 12.5, "files": 1000, "records": 1000, "filesPerSec": 80.0, "IOPS": 80.0, "MiBps": 5.0},
    }
    total = {"elapsed": 12.5, "files": 2000, "records": 2000, "filesPerSec": 580.0, "IOPS": 580.0, "MiBps": 36.25}
    results = {"host": {"node1": {**total, "thread": threads}}} if hosts else {"thread": threads}
    results |= {**total, "totalhreads": 2, "totalDataGB": 0.125, "pctFilesDone": 100.0, "status": "Success"}
    params = {"version": "3.2", "top": "/mnt/test/smf", "operation": "create", "threads": 2, "file_size": 64}
    path = tmp_path / f"smallfile-{hosts}.json"
    path.write_text(json.dumps({"params": params, "results": results}, indent=4))
    return path


@pytest.mark.parametrize("hosts", [False, True])
def test_smallfile_3_sums_the_rates_of_its_threads(hosts, load, tmp_path):
    rows, findings = load("smallfile", smallfile_3(tmp_path, hosts))
    assert set(rows["file_bytes"]) == {64 * 1024} and set(rows["tool_version"]) == {"3.2"}
    for thread, seconds in (("00", 2.0), ("01", 12.5)):
        client = f"node1 {thread}" if hosts else thread
        assert pick(rows, client=client, quantity="time") == [seconds] and pick(rows, client=client, unit="1") == [1000]
    assert pick(rows[rows["client"].isna()], quantity="time") == [12.5] and pick(rows, quantity="rate") == [580]
    assert findings["rule"].tolist() == ["sum-of-rates", "unfair"]
    assert "are 160.0/s, printed are 580.0, the sum" in findings["what"][0]


def test_smallfile_text(load, tmp_path, refused):
    rows, findings = load("smallfile", "smallfile.txt")
    together = rows[rows["client"].isna()]
    assert pick(together, quantity="time") == [16] and pick(together, quantity="rate") == [142.5]
    assert pick(together, quantity="throughput") == [8.90625 * 2**20] and pick(together, quantity="request rate") == [
        142.5
    ]
    assert pick(rows, client="node1 00", quantity="time") == [12.5] and set(rows["operation"]) == {"create"}
    assert set(rows["file_bytes"]) == {64 * 1024} and rows["record_bytes"].isna().all()
    assert set(rows["configuration"]) == {"/mnt/test/a,/mnt/test/b"} and set(rows["tool_version"]) == {"3.2"}
    assert findings["rule"].tolist() == ["sum-of-rates"]
    # Two runs in one text; the second is of version 2 and writes nothing.
    text = (FIXTURES / "smallfile.txt").read_text()
    second = "operation : stat\nhost = n,thr = 00,elapsed = 5.000000,files = 100,records = 0,status = ok\n"
    second += "total threads = 1\ntotal files = 100\n100.00% of requested files processed, minimum is  70.00\n"
    second += "5.000000 sec elapsed time\n20.0 files/sec\n"
    rows, findings = load("smallfile", text=text + second)
    stat = rows[rows["operation"] == "stat"]
    assert pick(stat, quantity="rate") == [20] and pick(stat, quantity="time") == [5, 5]
    assert findings["rule"].tolist() == ["sum-of-rates", "short-run"]
    rows, findings = load(
        "smallfile", text=text.replace("elapsed = 16.0,", "elapsed = None,").replace("   16.000", "100000000.000")
    )
    assert pick(rows, quantity="time") == [12.5] and findings["rule"].tolist() == ["error"]
    rows, findings = load("smallfile", text=text[: text.index("files/sec")])
    assert pick(rows, quantity="time") == [12.5, 16, 16] and findings["rule"].tolist() == ["no-end"]
    _, findings = load("smallfile", text=text + "operation : stat\n")
    assert findings["rule"].tolist() == ["sum-of-rates", "no-end"]
    _, findings = load("smallfile", text=text.replace("elapsed time =    16.000", "elapsed time =    12.000"))
    assert (
        "a thread took 16 s, the whole run 12 s" in findings.loc[findings["rule"] == "longer-than-run", "what"].item()
    )
    for changed_text, words in (
        (text[: text.index("elapsed time")], "line 18: the number of all files and the time"),
        (text.replace("operation :", "operations"), "line 12: no line before the threads says the operation"),
        (
            text.replace("files = 1000,records = 1000,status", "files = 10"),
            "line 12: the line of a thread is cut short",
        ),
        (text[: text.index("16.000") + 4], "line 19: the number of the last line may be cut short"),
    ):
        refused("smallfile", words, text=changed_text)


def test_smallfile_writes_a_time_for_a_thread_that_did_not_end(load, tmp_path):
    path = smallfile_3(tmp_path, False)
    rows, findings = load("smallfile", text=path.read_text().replace("12.5", "100000000.0"))
    assert pick(rows, quantity="time") == [2.0]
    assert findings["rule"].tolist() == ["error"] and "the first is 01" in findings["what"][0]


def test_compilebench_reports_are_not_pooled(tmp_path, refused):
    refused(
        "compilebench",
        "line 32: a second report begins with 'intial create'",
        text=2 * (FIXTURES / "compilebench.txt").read_text(),
    )


def test_pwalk_keeps_sums_and_no_names(load, tmp_path):
    rows, findings = load("pwalk", "pwalk.csv")
    assert pick(rows, operation="files", quantity="count") == [3] and pick(rows, operation="directories") == [2]
    assert pick(rows, operation="file content") == [4000]  # the hard link once
    assert pick(rows, operation="file allocation") == [8192] and pick(rows, operation="depth", statistic="max") == [1]
    assert pick(rows, operation="directory fan-out", statistic="max") == [5]
    assert findings["rule"].tolist() == ["hard-links"]
    assert "/data" not in "".join(file.read_text() for file in (tmp_path / "out").glob("*.csv"))


def pwalk(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / "list.csv").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "list.csv"


TIMES = "1600000000,1600000000,1600000000"


def test_pwalk_inodes_of_64_bits(load, tmp_path):
    """As unsigned numbers, or by old versions as signed ones: the same file, either way."""
    largest = f'{2**64 - 5},{2**63 + 1},1,"/d/a","",0,0,1000,2049,8,2,"0100644",{TIMES},-1,0'
    rows, findings = load("pwalk", pwalk(tmp_path, largest, largest.replace(str(2**64 - 5), "-5").replace("/a", "/b")))
    assert pick(rows, operation="file content") == [1000] and findings["rule"].tolist() == ["hard-links"]
    for inode in (2**64, -(2**63) - 1, 10**19 * 2):
        with pytest.raises(UserError, match=f"line 1: inode is {inode}, which no file has"):
            path = pwalk(tmp_path, largest.replace(str(2**64 - 5), str(inode)))
            importers.import_files("pwalk", [path], tmp_path / "out", dictionary)


def test_pwalk_columns_of_old_versions_and_of_others(load, tmp_path, refused):
    """Until March 2017 there was no number of the device and none of the links; some add columns of their own."""
    old = f'7,5,1,"/d/a.txt","txt",0,0,1000,8,"0100644",{TIMES},-1,0'
    folder = f'5,2,0,"/d","",0,0,4096,8,"0040755",{TIMES},1,1000'
    rows, findings = load("pwalk", pwalk(tmp_path, old, folder))
    assert pick(rows, operation="files") == [1] and pick(rows, operation="file allocation") == [4096]
    assert pick(rows, operation="directory fan-out", statistic="max") == [1]
    assert findings["rule"].tolist() == ["no-links"]
    rows, findings = load("pwalk", pwalk(tmp_path, f"{old},anna,fs1", f"{folder},bert,fs1"))  # 17, as new ones have
    assert pick(rows, operation="file content") == [1000] and findings["rule"].tolist() == ["no-links", "own-columns"]
    new = f'7,5,1,"/d/a.txt","txt",0,0,1000,2049,8,1,"0100644",{TIMES},-1,0'
    rows, findings = load("pwalk", pwalk(tmp_path, f"{new},anna"))
    assert pick(rows, operation="file content") == [1000] and findings["what"].tolist() == [
        "columns behind the 17 of pwalk: 1"
    ]
    for lines, words in (
        ([new, old], "line 2: 15 columns stand where the lines before have 17"),
        ([f"{old},anna,fs1", old], "line 2: 15 columns stand where the lines before have 17"),
        ([new.replace('"0100644",', "")], "line 1: 16 columns stand where pwalk prints 17, or 15 in old versions"),
        (
            [old.replace("1000,8,", "1000,-8,")],
            "line 1: st_size is 1000, st_blocks -8 and st_mode '0100644', which no file has",
        ),
    ):
        refused("pwalk", words, pwalk(tmp_path, *lines))


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


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        ("mdtest", "", ["line 1", "SUMMARY"]),
        ("mdtest", "SUMMARY rate: (of 0 iterations)\n", ["line 1", "no iterations"]),
        ("ior", "hello\nworld\n", ["line 2", "table of results"]),
        ("ior", "access bw(MiB/s) ite\nwrite 1 0\n", ["line 1", "no column 'iter'"]),
        ("io500", "[SCORE ] Bandwidth x\n", ["line 1", "cut short"]),
        ("fio", "", ["line 1", "no JSON"]),
        ("fio", "[1]", ["line 1", "not the JSON of fio"]),
        ("fio", '{"jobs": 3,\n"fio version": "fio-3"}', ["line 1", "$.jobs is not a list"]),
        (
            "fio",
            '{"fio version": "fio-3",\n"jobs": [\n{"jobname": "a", "read": {"runtime": 1}}]}',
            ["line 3", "io_bytes"],
        ),
        ("fio", '{"fio version": "fio-3",\n"jobs": [{"jobname": "a"}]}', ["line 1", "no job"]),
        ("iozone", "kB reclen write\n1 2\n", ["line 2", "cut short"]),
        ("compilebench", "intial create total runs 2 avg\n", ["line 1", "cut short"]),
        ("smallfile", '{"params": {"operation": "x"},\n"results": {}}', ["line 2", "no elapsed time"]),
        ("pwalk", "1,2,3\n", ["line 1", "3 columns"]),
        ("pwalk", '1,2,3,"a\n', ["line 1", "not CSV"]),
        ("pwalk", "1,0,0,a,b,0,0,99999999999999999999,1,0,1,0100644,0,0,0,-1,0\n", ["line 1", "st_size"]),
        ("datalad", "{}", ["line 1", "not a list of runs"]),
        ("datalad", '[\n{"fs": "a"}]', ["line 2", "no 'test_repo'"]),
        (
            "datalad",
            '[{"fs": "a", "test_repo": "b", "times": [],\n"run": 99999999999}]',
            ["line 2", "not the number of a run"],
        ),
        ("datalad", "[" * 100000, ["line 1"]),
        ("datalad", "[NaN]", ["line 1"]),
        ("ior", "a\0b\n", ["line 1", "NUL"]),
        ("zip", "", ["unknown format 'zip'", "mdtest"]),
    ],
)
def test_bad_input_is_one_sentence_with_a_line(form, text, words, tmp_path):
    path = tmp_path / "input"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        importers.import_files(form, [path], tmp_path / "out", dictionary)
    for word in words:
        assert word in str(error.value)
    assert list(tmp_path.iterdir()) == [path]


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


@pytest.mark.parametrize(
    ("form", "file", "old", "new", "words"),
    [
        ("io500", "io500.txt", "16.000000 kIOPS", "-16.00000 kIOPS", "line 3: -16.00000 is negative"),
        ("io500", "io500.txt", "16.000000 kIOPS", "1_6.00000 kIOPS", "line 3: '1_6.00000' is not a number"),
        ("mdtest", "mdtest-1.9.txt", "7903.923", "7_903.92", "line 14: '7_903.92' is not a number"),
        ("iozone", "iozone.txt", "20000", "-2000", "line 17: -2000 is negative"),
        ("pwalk", "pwalk.csv", "0100644", "01_0644", "st_mode '01_0644'"),
        ("pwalk", "pwalk.csv", "11,", "1_1,", "'1_1', not a whole number"),
        ("fio", "fio.json", '"iops" : 500.0', '"iops" : -500.0', "line 13: $.jobs[0].read.iops is -500.0"),
        ("fio", "fio.json", '"max" : 9000', '"max" : -9000', "clat_ns.max is -9000"),
        ("fio", "fio.json", '"50.000000"', '"nan"', "line 16: $.jobs[0].read.clat_ns.percentile has 'nan'"),
        ("fio", "fio.json", '"50.000000"', '"1000"', "has '1000', which is no percentile"),
        ("smallfile", "smallfile.json", '"total-IOPS": 190', '"total-IOPS": -190', "is -190.0"),
    ],
)
def test_what_no_program_prints_is_refused(form, file, old, new, words, tmp_path):
    path = changed(tmp_path, file, (old, new))
    with pytest.raises(UserError) as error:
        importers.import_files(form, [path], tmp_path / "out", dictionary)
    assert words in str(error.value)


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
