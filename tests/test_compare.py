"""`reprofs compare`: runs of a study beside the first of them."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import make
import nbformat
import numpy as np
import pandas as pd
import pytest
import run
from conftest import ROOT
from reprofs.cli._base import share
from reprofs.data import tables
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.plan import read_plan
from reprofs.publish.runs import open_run, set_beside
from reprofs.report import contents
from reprofs.report import runs as words
from reprofs.stats import runs
from reprofs.stats.study import open as open_study
from reprofs.trial.planning import make_plan

LEAST = 0.01


def made(folder, change=None, **options) -> str:
    """The folder of the tables of a fixture study with ext4 and Btrfs, each record changed by `change`."""
    make.make(
        folder, **{"rounds": 4, "systems": ["ext4", "btrfs"], "workloads": ["metadata"], "failures": {}} | options
    )
    for path in (folder / "raw").glob("*.json") if change else ():
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(make.record.seal(record)) + "\n")
    tables.build(folder / "plan.json", folder / "raw", folder / "tables")
    return str(folder / "tables")


def slower(record: dict) -> None:
    """ext4 creates 3 % slower, another kernel."""
    record["environment"]["lab"]["kernel"] = "6.13-mine"
    if record["trial"]["filesystem"] == "ext4":
        phase = next(phase for phase in record["measurement"]["phases"] if phase["name"] == "create")
        phase["wall_ns"] = round(phase["wall_ns"] * 1.03)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return made(folder / "a"), made(folder / "b", slower)


def compared(a: str, b: str, least: float = LEAST):
    differences, (one,) = runs.compare({"a": open_study(a), "b": open_study(b)}, least)
    return differences, one


def test_a_change_is_found_where_it_is_and_nowhere_else(two):
    differences, one = compared(*two)
    assert [(each.what, each.values) for each in differences if each.what == "kernel"] == [
        ("kernel", [differences[0].values[0], "6.13-mine"])
    ]
    (found,) = one.said("slower").to_dict("records")
    assert (found["label"], found["phase"], found["n"]) == ("ext4", "create", 4)
    assert found["ratio"] == pytest.approx(1.03, rel=1e-6) and found["low"] < found["high"]
    others = one.ratios[(one.ratios["label"] != "ext4") | ~one.ratios["phase"].isin(["create", "all operations"])]
    assert set(others["verdict"]) == {"equal"} and one.worse
    (exact,) = one.exact
    assert (exact.lab, exact.trials, exact.equal) == ("exact", 12, 8)  # Btrfs has two variants
    assert exact.first["phase"] == "create" and "wall_ns" in exact.first["columns"]
    assert exact.first["trial"].startswith("r1-") and "ext4" in exact.first["trial"]


def test_the_other_way_round_it_is_faster_and_not_worse(two):
    _, one = compared(*reversed(two))
    assert list(one.said("faster")["phase"]) == ["create"] and not one.worse


def test_labs_with_other_kernels_differ_in_their_kernels_alone(tmp_path):
    """Every key of both labs was listed once, for their names are in them."""
    a, b = (made(tmp_path / name, kernels=[f"debian-{name}"]) for name in ("6.1", "6.12"))
    differences, _ = compared(a, b)
    keys = [one.key for one in differences]
    assert {one.what for one in differences if one.key != "lab.name"} == {"kernel"}
    assert {"labs.kernel.config_sha256", "labs.kernel.title", "lab.name"} <= set(keys) and "labs.clock" not in keys
    (file,) = (one for one in differences if one.key == "workflow/kernels")
    assert file.values == ["debian-6.1.yaml", "debian-6.12.yaml"]


@pytest.mark.wide
def test_a_kernel_built_twice_is_named_with_its_file(tmp_path):
    """Release, configuration and name are the same, and the digest of the modules is in QEMU's command as well."""

    def built(folder, digest: str) -> str:
        def change(record: dict) -> None:
            lab = record["environment"]["lab"]
            lab["modules_sha256"] = digest
            lab["command"] = [*lab["command"], "-object", f"memory-backend-file,mem-path=sha256:{digest},size=1"]
            plan = json.loads((folder / "plan.json").read_text())
            deb = {"file": str(folder / "mine.deb"), "sha256": digest}
            plan["labs"][lab["name"]]["kernel"] = {"title": "Mine", "debs": [deb], "config_sha256": "1" * 64}
            (folder / "plan.json").write_text(json.dumps(plan))

        return made(folder, change, kernels=["debian-6.1"])

    a, b, again = (built(tmp_path / name, digest * 64) for name, digest in (("a", "a"), ("b", "b"), ("again", "a")))
    differences, _ = compared(a, b)
    assert [(one.what, one.key, one.values) for one in differences] == [
        ("kernel", "lab.modules_sha256", ["a" * 64, "b" * 64]),
        ("kernel", "workflow/kernels", [f"debian-6.1.yaml ({12 * digest})" for digest in "ab"]),
    ]
    assert not compared(a, again)[0], "the same packages in another folder are the same kernel"


@pytest.mark.wide
def test_runs_with_several_labs_keep_the_names_of_these(tmp_path):
    a, b = made(tmp_path / "a", kernels=["debian-6.1", "debian-6.12"]), made(tmp_path / "b", kernels=["debian-6.1"])
    differences, _ = compared(a, b)
    assert "labs.exact@@debian-6.12.clock" in {one.key for one in differences}


@pytest.mark.wide
def test_of_a_file_systems_variants_only_those_count_that_were_run(tmp_path):
    """A variant that is new in a file was listed as a difference of every study with that file system."""

    def changed(folder, name: str):
        def change(_record: dict) -> None:
            plan = json.loads((folder / "plan.json").read_text())
            variants = plan["filesystems"]["ext4"]["variants"]
            variants[name] = next(iter(variants.values())) | {"title": "Changed"}
            (folder / "plan.json").write_text(json.dumps(plan))

        return made(folder, change)

    a, new, used = made(tmp_path / "a"), changed(tmp_path / "new", "another"), changed(tmp_path / "used", "default")
    assert not compared(a, new)[0]
    assert [(one.what, one.key) for one in compared(a, used)[0]] == [
        ("file system", "filesystems.ext4.variants.default.title")
    ]


def test_the_same_run_is_equal(two):
    differences, one = compared(two[0], two[0])
    assert not differences and one.exact[0].first is None and set(one.ratios["verdict"]) == {"equal"}


def test_below_the_floor_there_is_no_verdict():
    """Three rounds that are 10 % apart: a change of exactly 2 % in all of them is less than another draw of names."""

    def phases(factor: float) -> pd.DataFrame:
        rows = [
            {"label": label, "round": number, "seed": number, "wall_ns": wall * factor}
            for label, walls in (("wide", [100e6, 110e6, 90e6]), ("narrow", [100e6, 100.1e6, 99.9e6]))
            for number, wall in enumerate(walls, 1)
        ]
        place = {"lab": "exact", "stack": "single", "profile": "ssd", "workload": "w", "scale": "smoke"}
        more = {"phase": "create", "cache": "warm", "position": 0, "status": "ok", "operation": "create", "sync_ns": 0}
        return pd.DataFrame(rows).assign(**place, **more, role="contender", trial="t", order=0)

    found = runs.ratios(phases(1), phases(1.02), {"exact"}, LEAST)
    parts = found[found["phase"] == "create"].set_index("label")
    assert dict(parts["verdict"]) == {"wide": "undecided", "narrow": "slower"}
    # Student's t for two degrees of freedom, times the spread, times the root of 2/3.
    spread = np.log([100, 110, 90]).std(ddof=1)
    assert parts.loc["wide", "floor"] == pytest.approx(np.expm1(4.302653 * spread * np.sqrt(2 / 3)), rel=1e-6)


def test_real_clocks_have_intervals_and_are_never_equal(tmp_path):
    a, b = made(tmp_path / "a", labs=["host"]), made(tmp_path / "b", labs=["host"])
    _, one = compared(a, b)
    assert not one.exact and set(one.ratios["verdict"]) <= {"same", "undecided"}  # no chance: the times are the same


@pytest.mark.wide
def test_a_trial_that_fails_now_is_worse(tmp_path, two):
    b = made(tmp_path / "b", failures={("ext4", "metadata", 2): ("failed", "No space left.")})
    _, one = compared(two[0], b)
    ((trial, was, now),) = one.endings
    assert "ext4" in trial and (was, now) == ("ok", "failed") and one.worse
    assert set(one.ratios.loc[one.ratios["label"] == "ext4", "n"]) == {3}


def test_what_cannot_be_compared_is_refused(tmp_path, two):
    host = made(tmp_path / "host", labs=["host"])
    with pytest.raises(UserError, match="two clocks"):
        compared(two[0], host)
    other = made(tmp_path / "other", systems=["f2fs"])
    with pytest.raises(UserError, match="no operation in common"):
        compared(two[0], other)


def test_a_page_has_texts_of_others_as_text(two):
    differences, one = compared(*two)
    hostile = [replace(differences[0], values=["<b>$body$", "<script>1</script>"])]
    page = words.page(["a", "<i>b"], hostile, [one], LEAST)
    assert "&lt;b&gt;$body$" in page and "&lt;i&gt;b beside a" in page
    assert "<script" not in page and "<b>" not in page and "<i>" not in page


@pytest.mark.parametrize("text", ["1", "0%", "-1%", "100 %", "one%", "nan%", ""])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(UserError, match="--fail-above"):
        share(text)


@pytest.mark.wide
def test_the_command_writes_all_forms_and_ends_with_the_verdict(two, reprofs, says, tmp_path):
    a, b = two
    table = reprofs("compare", a, b, "--fail-above", "1%")
    assert table.returncode == 1 and "ext4, create, warm" in table.stdout and "6.13-mine" in table.stdout
    assert reprofs("compare", a, b, "--fail-above", "5%").returncode == 0
    assert reprofs("compare", b, a, a.replace("tables", "../a/tables"), "--fail-above", "1%").returncode == 0
    markdown = reprofs("compare", a, b, "--format", "markdown").stdout
    assert "| ext4, create, warm | 4 | 1.0300 |" in markdown
    page = reprofs("compare", a, b, "--format", "html").stdout
    assert '<td data-label="operation">ext4, create, warm</td><td data-label="rounds">4</td>' in page
    assert not re.search(r"\$\w+\$|<script|https?:", page) and page.count("<h2 ") == page.count("<li>") == 2
    file = tmp_path / "out.json"
    assert reprofs("compare", a, b, "--format", "json", "--output", str(file)).returncode == 0
    found = json.loads(file.read_text())
    (one,) = found["runs"]
    assert found["least"] == 0.02 and one["worse"]
    assert [row["phase"] for row in one["ratios"] if row["verdict"] == "slower"] == ["create"]
    says(reprofs("compare", a), "two or more different runs")
    says(reprofs("compare", a, str(tmp_path / "none")), "is not a run", "data/tables/NAME")


def test_one_round_decides_nothing(tmp_path, reprofs, says):
    a, b = made(tmp_path / "a", rounds=1), made(tmp_path / "b", slower, rounds=1)
    says(reprofs("compare", a, b, "--fail-above", "1%"), "one round", "two rounds or more")
    shutil.copytree(tmp_path / "a/tables", tmp_path / "again")
    assert reprofs("compare", a, str(tmp_path / "again"), "--fail-above", "1%").returncode == 0


# ---- in a report -----------------------------------------------------------------------------------------------------


def said(tables: str, base: str) -> str:
    """What the notebook of the topic shows of a run beside another one."""
    folder = Path(tables).parent
    set_beside(base, read_plan(folder / "plan.json"), folder / "tables-beside")
    cells = nbformat.read(run.execute(folder, ["changes"]) / "changes.ipynb", as_version=4).cells
    shown = (output["data"] for cell in cells for output in cell.get("outputs", []))
    return "\n".join(one.get("text/html", one.get("text/markdown", "")) for one in shown)


def row(page: str, *cells: str) -> bool:
    """Whether a table has a row that begins with these cells."""
    return bool(re.search("<tr>\\s*" + "".join(f"<td[^>]*>{re.escape(cell)}</td>\\s*" for cell in cells), page))


def test_a_report_says_what_changed(two):
    a, b = two
    page = said(b, a)
    start = f"Compared with `{a}`, of 27 operations 1 is slower (most: “Create files” on ext4, 3.0 % longer)"
    assert f"{start} and 26 are equal." in page
    assert "The two runs differ in kernel." in page and "In exact 8 of 12 trials have the same numbers" in page
    assert row(page, "kernel", "lab.kernel", "6.12.0", "6.13-mine")
    assert "a difference counts from 2 % on" in page
    assert row(page, "", "ext4", "4", "1.0300") and row(page, "all operations", "btrfs+none", "4")
    assert "all numbers of 12 trials are equal" in said(b, b) and "Nothing that the two runs say" in said(b, b)


@pytest.mark.wide
def test_a_report_with_real_clocks_has_floors_and_no_equality(tmp_path):
    a, b = (made(tmp_path / name, change, labs=["host"]) for name, change in (("a", None), ("b", slower)))
    page = said(b, a)
    assert row(page, "", "ext4", "4", "1.0300") and "The two runs differ in kernel." in page
    assert "of 27 operations 26 are same and 1 is undecided." in page, "3 % are less than the floor of these rounds"
    assert "numbers" not in page and not re.search(r">\s*equal\s*<", page)


def test_the_topic_is_there_when_it_is_asked_for_and_its_answer_first(two):
    plan = read_plan(Path(two[0]).parent / "plan.json")
    names = [[path.stem for path in contents.notebooks(plan, Path("here"), beside)] for beside in (False, True)]
    assert [name for name in names[1] if name != "changes"] == names[0] and "changes" in names[1]
    assert "changes" in contents.first(plan, True) and "changes" not in contents.first(plan)


def test_a_run_that_cannot_stand_beside_is_refused_before_it_is_kept(tmp_path, two, reprofs, says):
    plan, output = Path(two[0]).parent / "plan.json", tmp_path / "beside"
    host = made(tmp_path / "host", labs=["host"])
    for base, why in ((host, "two clocks"), (str(tmp_path / "none"), "is not a run: name results/NAME")):
        says(reprofs("beside", base, "--plan", str(plan), "--output", str(output)), why)
    assert not output.exists() and not list(tmp_path.glob(".*"))


def test_a_published_result_is_a_run(tmp_path):
    """Its tables are made of its records; an altered one is named."""
    published = str(ROOT / "results/quick")
    found = open_run(published, tmp_path / "made")
    set_beside(published, found.plan, tmp_path / "beside")
    kept = open_study(str(tmp_path / "beside"))
    assert len(kept.trials) == 48 and kept.digests == found.digests
    assert (tmp_path / "beside/run.txt").read_text() == published
    # Of its own protocol and workload: this checkout's may be newer.
    plan = found.plan.model_copy(update={"trials": make_plan("quick", Catalog()).trials})
    set_beside(published, plan, tmp_path / "beside")
    other = [one.model_copy(update={"seed": one.seed + 1000}) for one in plan.trials]
    with pytest.raises(UserError, match="have no trial in common"):
        set_beside(published, plan.model_copy(update={"trials": other}), tmp_path / "other")
    shutil.copytree(published, tmp_path / "altered")
    with (tmp_path / "altered/records-1.tar.xz").open("ab") as file:
        file.write(b" ")
    with pytest.raises(UserError, match="is missing or was altered"):
        open_run(str(tmp_path / "altered"), tmp_path / "work")
