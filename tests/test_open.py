"""reprofs.open: a study by its name or folder, from anywhere in the checkout, with statistics that fit its tables."""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import make
import nbformat
import pandas as pd
import pytest
import reprofs as package
import run
import study2015
from conftest import ROOT
from helpers import Late
from nbclient import NotebookClient
from reprofs import importers
from reprofs.data import tables
from reprofs.data.columns import dictionary
from reprofs.errors import UserError
from reprofs.files import SUMS, write_sums
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.stats import results

render = Late("reprofs.report.render")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A checkout with the tables of two studies, one of two stacks in two labs."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "workflow").symlink_to(ROOT / "workflow")
    (folder / "notebooks/deep").mkdir(parents=True)
    options = {"rounds": 2, "systems": ["ext4", "xfs", "jfs", "tmpfs"], "workloads": ["metadata"], "failures": {}}
    stacks = ["md-raid5", "md-raid5-rebuilding"]
    make.make(folder / "made", **options, labs=["exact", "host"], stacks=["single", *stacks])
    tables.build(folder / "made/plan.json", folder / "made/raw", folder / "data/tables/large")
    make.make(folder / "other", **options)
    tables.build(folder / "other/plan.json", folder / "other/raw", folder / "data/tables/quick")
    return folder


def frames(found: results.Results) -> dict[str, pd.DataFrame]:
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}


@pytest.mark.wide
@pytest.mark.parametrize("where", [".", "notebooks", "notebooks/deep", "data/tables"])
def test_by_name_from_any_folder_of_the_checkout(project, monkeypatch, where):
    monkeypatch.chdir(project / where)
    study = package.open("large")
    assert len(study.trials) == 2 * (2 * 4 + 2 * 2 * 3)
    assert study.folder == project / "data/results/large"
    assert "Study fixture: Which of seven file systems" in repr(study) and "statistics, pairwise" in repr(study)
    assert len(package.open().trials) == 8, "quick, where no study is named"


def test_by_folder(project, monkeypatch):
    monkeypatch.chdir(project / "notebooks")
    study = package.open("data/tables/quick")  # as everything that is named, below the checkout
    assert study.digests == package.open("quick").digests == package.open(str(project / "data/tables/quick")).digests
    assert study.folder == project / "data/tables/quick-results"


def test_the_plan_has_its_trials(project, monkeypatch):
    """By them a study asks for more than who is fastest."""
    monkeypatch.chdir(project)
    study = package.open("large")
    assert [trial.id for trial in study.plan.trials] == list(study.trials["trial"])
    assert {(one.full_lab, one.filesystem) for one in study.plan.trials} == set(
        study.trials[["lab", "filesystem"]].itertuples(index=False, name=None)
    )


@pytest.mark.skipif(not (ROOT / "results/wear").is_dir(), reason="is not published")
def test_the_base_of_a_file_system_comes_before_its_variants(monkeypatch):
    """Options are compared with the first variant of the file."""
    monkeypatch.chdir(ROOT)
    for name, filesystem in package.open("wear").plan.filesystems.items():
        assert list(filesystem.variants) == list(Catalog().get(Filesystem, name).variants)


def test_an_unknown_name_is_told_with_the_known_ones(project, monkeypatch, tmp_path):
    monkeypatch.chdir(project)
    with pytest.raises(UserError) as caught:
        package.open("nothing")
    assert "no tables of the study nothing (there are those of large, quick)" in str(caught.value)
    assert "make report STUDY=nothing" in str(caught.value)
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there are none yet"):
        package.open("quick")


def test_a_published_study_needs_no_run(tmp_path, monkeypatch):
    """Its tables are made of the records in results/, once a machine; a run of one's own goes before."""
    needed = {"workflow", "envs", "results"}
    for name in needed:
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    study = package.open("quick")
    assert len(study.trials) == 48 and study.times["ms"].gt(0).all()
    ext4 = study.times.query("label == 'ext4'").groupby("round").ms.sum()
    assert ext4.mean() == pytest.approx(study.results.totals.set_index("label").loc["ext4", "mean_ns"] / 1e6)
    assert list(study.dictionary("phases").columns) == ["column", "type", "unit", "meaning"]
    assert {path.name for path in tmp_path.iterdir()} == needed


def test_saved_and_computed_results_are_equal(project, monkeypatch):
    monkeypatch.chdir(project)
    study = package.open("large")
    computed = frames(study.results)
    assert not study.folder.exists(), "to look at a study writes nothing"
    assert study.save_results() == study.folder
    again = package.open("large")
    with monkeypatch.context() as patch:
        patch.setattr(results, "compute", lambda tables: pytest.fail("computed, though they were saved"))
        saved = frames(again.results)
    assert computed.keys() == saved.keys() and all(len(frame) for frame in computed.values())
    for name, frame in computed.items():
        pd.testing.assert_frame_equal(saved[name], frame, check_exact=True, obj=name)


def note(folder):
    """Note the files of a folder as they are now, as if they had been made so."""
    write_sums(folder / SUMS, [path for path in folder.iterdir() if path.name != SUMS])


def visiting(folder: Path, *names: str):
    """The study in folder/tables, whose plan says now that these phases (none: all) visit states."""
    file = folder / "tables/study.json"
    plan = json.loads(file.read_text())
    for phase in plan["workloads"]["metadata"]["phases"]:
        if phase["name"] in names or not names:
            phase.update(operation=None, run="engine states --sequences one")
    file.write_text(json.dumps(plan))
    note(file.parent)
    return package.open(str(file.parent))


def test_phases_whose_time_is_no_result_are_in_no_statistics(tmp_path):
    run.made(tmp_path, lambda data: None, rounds=2)
    study = visiting(tmp_path, "create", "stat")
    for frame in (study.times, study.statistics, study.verdicts):
        assert len(frame) and not {"create", "stat"} & set(frame["phase"]) and "read" in set(frame["phase"])
    assert "create" in set(study.results.statistics["phase"])  # what is saved has all
    told = run.shown(tmp_path, "statistics")
    assert "Read files" in told and "Create files" not in told
    study = visiting(tmp_path)
    assert not study.timed and study.times.empty and study.verdicts.empty
    executed = run.execute(tmp_path, ["statistics"]) / "statistics.ipynb"
    assert "Statistics" not in str(render.merge([executed])["cells"])


@pytest.mark.parametrize("name", ["phases.parquet", "study.json", "environment.json", "dictionary.csv", SUMS])
def test_tables_that_were_changed_are_named(project, tmp_path, name):
    """As `sha256sum --check` names them."""
    folder = Path(shutil.copytree(project / "data/tables/quick", tmp_path / "study"))
    check = ["sha256sum", "--check", "--quiet", SUMS]
    assert subprocess.run(check, cwd=folder, check=False).returncode == 0
    whole = (folder / name).read_bytes()
    for change in (lambda path: path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]), Path.unlink):
        change(folder / name)
        assert subprocess.run(check, cwd=folder, check=False, capture_output=True).returncode
        with pytest.raises(UserError, match="is missing or was changed after it was made: run `make report`") as caught:
            package.open(str(folder))
        assert str(folder) in str(caught.value)
    (folder / name).write_bytes(whole)
    sums = (folder / SUMS).read_text()
    (folder / SUMS).write_text("".join(line for line in sums.splitlines(True) if "trials" not in line))
    with pytest.raises(UserError, match=r"trials\.parquet is missing or was changed"):
        package.open(str(folder))
    (folder / SUMS).write_text(sums)
    assert len(package.open(str(folder)).phases)


def test_a_notebook_that_was_changed_after_it_was_executed_is_named(tmp_path):
    path = tmp_path / "mine.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Mine")]), path)
    write_sums(tmp_path / "mine.ipynb.sha256", [path])
    assert render.merge([path]).cells
    path.write_text(path.read_text().replace("Mine", "Yours"))
    with pytest.raises(UserError, match=r"mine\.ipynb was changed after it was executed: run `make report`"):
        render.merge([path])


def test_results_of_other_tables_are_computed_again(project, monkeypatch, tmp_path):
    shutil.copytree(project / "data/tables/quick", tmp_path / "study")
    study = package.open(str(tmp_path / "study"))
    before = study.results.statistics
    study.save_results()
    phases = study.phases.assign(wall_ns=study.phases["wall_ns"] * 2)
    phases.to_parquet(tmp_path / "study/phases.parquet", index=False)
    note(tmp_path / "study")
    after = package.open(str(tmp_path / "study"))
    assert results.load(after.folder, after) is None
    assert after.results.statistics["mean_ns"].tolist() == (before["mean_ns"] * 2).tolist()


def test_results_of_another_analysis_or_of_other_margins_are_computed_again(project, monkeypatch, tmp_path):
    shutil.copytree(project / "data/tables/quick", tmp_path / "study")
    study = package.open(str(tmp_path / "study"))
    study.save_results()
    assert results.load(study.folder, study) is not None
    assert study.margins == {"win": 0.02, "equal": 0.05}
    with monkeypatch.context() as patch:
        patch.setattr(results, "ANALYSIS", results.ANALYSIS + 1)
        assert results.load(study.folder, study) is None
    plan = json.loads((tmp_path / "study/study.json").read_text())
    plan["study"]["margins"] = {"equal": 0.5}
    (tmp_path / "study/study.json").write_text(json.dumps(plan))
    note(tmp_path / "study")
    other = package.open(str(tmp_path / "study"))
    assert other.margins == {"win": 0.02, "equal": 0.5} and results.load(other.folder, other) is None
    verdicts = [one.results.winners["verdict"].eq("equivalent").sum() for one in (study, other)]
    assert verdicts[0] < verdicts[1]


def test_results_that_cannot_be_read_are_named(project, tmp_path):
    shutil.copytree(project / "data/tables/quick", tmp_path / "study")
    study = package.open(str(tmp_path / "study"))
    assert results.load(tmp_path / "none", study) is None
    study.save_results()
    (study.folder / "ranks.parquet").write_text("no parquet")
    for change in (lambda path: None, Path.unlink):
        change(study.folder / "ranks.parquet")
        with pytest.raises(
            UserError, match=r"study-results/ranks\.parquet is missing or was changed after it was made"
        ):
            results.load(study.folder, study)
    (study.folder / results.OF).write_text(json.dumps(study.digests)[:-3])
    with pytest.raises(UserError, match="delete the folder"):
        results.load(study.folder, study)


@pytest.fixture
def imported(project, monkeypatch):
    """Three runs of two file systems of another study, imported."""
    monkeypatch.chdir(project)
    folder = project / "elsewhere"
    folder.mkdir(exist_ok=True)
    slow = study2015.one(folder, "EXT4_LVM_MD_raid6", range(3), cold=lambda run, i: 20 * 2.0**run)
    fast = study2015.one(folder, "XFS_LVM_MD_raid6", range(3), cold=lambda run, i: 10 * 2.0**run)
    importers.import_files("datalad", [slow, fast], project / "data/imported/old", dictionary)
    return folder, slow


def test_an_import_is_a_study(imported):
    study = package.open("imported/old")
    assert len(study.trials) == 6 and set(study.trials["status"]) == {"ok"} and study.labels() == ["ext4", "xfs"]
    assert [setting.stack for setting in study.settings] == ["md-raid6+lvm"]
    cell = study.results.statistics.set_index(["phase", "cache", "label"])
    assert cell.loc[("du", "cold", "ext4"), "geometric_mean_ns"] == pytest.approx(40e9)
    assert (cell["n"] == 3).all() and len(cell) == 2 * 8
    ratio = study.results.pairwise.set_index(["phase", "cache"]).loc[("rm", "cold")]
    assert (ratio["a"], ratio["b"]) == ("ext4", "xfs") and ratio["ratio"] == pytest.approx(2)
    assert study.save_results().name == "old-results" and package.open("imported/old").results is not None


@pytest.mark.parametrize("name", ["phases.parquet", "findings.csv", "import.json", "files.sha256"])
def test_an_import_that_was_changed_is_named(imported, name):
    """Also where a time is only smaller, and where the digests are gone."""
    path = imported[0].parent / "data/imported/old" / name
    package.open("imported/old")
    if name == "phases.parquet":
        table = pd.read_parquet(path)
        table.assign(wall_ns=table["wall_ns"].where(table["label"] != "ext4", 1)).to_parquet(path)
    elif name == "files.sha256":
        path.unlink()
    else:
        path.write_text(path.read_text() + "\n")
    with pytest.raises(
        UserError, match="is missing or was changed after it was made: run `reprofs import` again"
    ) as told:
        package.open("imported/old")
    assert f"imported/old/{name} " in str(told.value)


def test_what_an_import_has_not_is_told(imported):
    folder, slow = imported
    study = package.open("imported/old")
    for name in ("samples", "clients", "latency"):
        with pytest.raises(UserError, match=f"^imported/old has no table {name}: the output of datalad has only times"):
            getattr(study, name)
    with pytest.raises(UserError, match="says nothing of the machine"):
        _ = study.environment
    assert "latency  not in this import" in repr(study)
    with pytest.raises(
        UserError, match=r"no import imported/new \(there are imported/old\): run `uv run reprofs import"
    ):
        package.open("imported/new")
    other = ROOT / "tests/fixtures/import/mdtest-4.txt"
    importers.import_files("mdtest", [other], folder / "rates", dictionary)
    with pytest.raises(UserError, match="rates has no phases: the format mdtest has no time per run"):
        package.open(str(folder / "rates"))
    data = json.loads(slow.read_text())
    slow.write_text(json.dumps([*data, data[0]]))
    importers.import_files("datalad", [slow], folder / "twice", dictionary)
    with pytest.raises(UserError, match="has the run repo_ndirs=2_nfiles=50-EXT4_LVM_MD_raid6-r001 twice"):
        package.open(str(folder / "twice"))


def test_a_mistake_in_a_notebook_is_one_sentence_and_an_error():
    code = "%load_ext reprofs\nimport reprofs\nreprofs.open('nope')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (code, "1 / 0")])
    NotebookClient(notebook, allow_errors=True, kernel_name="python3").execute()
    (own,), (other,) = (cell.outputs for cell in notebook.cells)
    assert (own.output_type, own.ename) == ("error", "UserError")
    assert len(own.traceback) == 1 and own.traceback[0].startswith("reprofs: There are no tables of the study nope")
    assert other.ename == "ZeroDivisionError" and len(other.traceback) > 1  # a mistake of the code has its lines
