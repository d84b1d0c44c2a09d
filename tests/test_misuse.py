"""Commands that are given what they cannot take: one sentence, exit code 2, nothing written."""

import errno
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, copy_checkout
from reprofs.errors import UserError
from reprofs.files import check_writable, unwritable
from reprofs.plan.catalog import Catalog
from reprofs.plan.study import Study
from reprofs.records.raw import set_aside
from reprofs.trial.planning import make_plan

TRIAL = ["trial", "--stack", "single", "--profile", "ssd", "--workload", "metadata@20", "--scale", "smoke"]
TRIAL += ["--round", 1, "--seed", 7, "--lab", "exact@v2-0.5ns", "--filesystem", "ext4"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "results/quick", "--all", "--claims"], "--claims: not allowed with argument --all"),
        (["verify", "results/quick", "--all", "--trials", 2], "--trials: not allowed with argument --all"),
        (["verify", "results/quick", "--claims", "--seed", 2], "--seed has no effect with"),
        (["verify", "quick"], "quick is not a published result (it has no digests.json): did you mean results/quick?"),
        (["verify", "results/qiuck"], "it has no digests.json): did you mean results/quick?"),
        (["verify", "here", "--claims"], "it has no digests.json): name a folder results/NAME, or an archive."),
        (["claims", "dtalad-2015"], "no tables of the study dtalad-2015: did you mean datalad-2015?"),
        (["claims", "datalad-2015@full"], "run `make report STUDY=datalad-2015@full` first"),
        (["verify", "README.md"], "README.md is not an archive, or is incomplete"),
        (["verify", "README.md", "--claims"], "README.md is not an archive, or is incomplete"),
        (["plan", "quick", "--commands", "--output", "x.json"], "--output: not allowed with argument --commands"),
        (["plan", "quick", "--lab", "exact@"], "'exact@' ends with @"),
        (["retry", "quick", "--lab", "nope"], "unknown lab 'nope'; known are "),
        (["scan", "docs", "--output", "README.yml"], "'README.yml' is not a valid name: before .yaml it must have"),
        (["scan", "docs", "--output", "workflow/trees/linux.yaml"], "linux.yaml exists: remove it"),
        ([*TRIAL, "--output", "x", "--time-limit", "nan"], "'nan' is not a number of seconds of 1 or more"),
        ([*TRIAL, "--output", "x", "--time-limit", "0"], "'0' is not a number of seconds of 1 or more"),
        ([*TRIAL, "--output", "x", "--round", f"{10**24}"], "is not a whole number of at most 64 bits"),
        ([*TRIAL, "--output", "x", "--order=1000000000"], "'1000000000' is not a whole number from 1 to 100000000"),
        ([*TRIAL, "--output", "x", "--order=-5"], "'-5' is not a whole number from 1 to 100000000"),
        (
            [*TRIAL, "--output", "x", "--processor", "v1-1ns"],
            "has v2-0.5ns, but --processor is v1-1ns: leave one of",
        ),
        ([*TRIAL, "--output", "x", "--where", "/tmp"], "--where and --filesystem exclude each other"),
    ],
)
def test_what_does_not_go_together(words, said, reprofs):
    done = reprofs(*words)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (ROOT / "x").exists() and not (ROOT / "x.json").exists()


def test_an_empty_limit_is_no_limit_that_is_left_out(reprofs):
    done = reprofs("compare", "results/quick", "results/quick/", "--fail-above", "")
    assert done.returncode == 2 and "name two or more different runs" in done.stderr
    done = reprofs("compare", "results/networks", "results/devices", "--fail-above", "")
    assert done.returncode == 2 and "--fail-above is ''" in done.stderr, done.stderr


def test_a_mistake_of_the_program_is_no_verdict(reprofs, monkeypatch):
    monkeypatch.setattr("reprofs.plan.catalog.Catalog", lambda _: 1 / 0)
    done = reprofs("plan", "quick")
    assert done.returncode == 2 and "ZeroDivisionError" in done.stderr


def test_a_key_that_stands_twice_is_named(tmp_path, reprofs, says):
    copy = copy_checkout(tmp_path / "checkout")
    study = copy / "config/studies/quick.yaml"
    lines = study.read_text().count("\n")
    study.write_text(study.read_text() + "rounds: 3\n")
    says(reprofs("plan", "quick", cwd=copy), f"quick.yaml line {lines + 1}", "'rounds' is there twice")
    says(reprofs("plan", "quick", cwd=copy), "remove one")


def test_an_unknown_key_of_the_configuration_is_named(tmp_path, reprofs, says):
    copy = copy_checkout(tmp_path / "checkout")
    (copy / "config/config.yaml").open("a").write("extra_dir: [/nope]\n")
    says(reprofs("plan", "quick", cwd=copy), "config/config.yaml", "did you mean extra_dirs?")


def test_published_numbers_are_read_before_the_first_trial(tmp_path, reprofs, says):
    copy = copy_checkout(tmp_path / "checkout")
    (copy / "data/published/metadata-2019.csv").write_text("hello\n")
    says(reprofs("plan", "metadata", cwd=copy), "metadata-2019.csv: the columns are hello")


def test_a_network_that_nothing_uses_is_looked_up():
    catalog = Catalog()
    data = catalog.get(Study, "quick").as_json() | {"networks": ["nope"]}
    catalog.add(Study, "quick", data)
    with pytest.raises(UserError, match="network 'nope' does not exist"):
        make_plan("quick", catalog)


def test_what_cannot_be_read_is_not_set_aside(tmp_path, monkeypatch):
    (tmp_path / "r1-x.json").mkdir()  # which cannot be read, also by root
    with pytest.raises(UserError, match=r"r1-x\.json cannot be read: Is a directory; change its permissions"):
        set_aside(tmp_path)
    assert (tmp_path / "r1-x.json").is_dir()


def test_rights_are_asked_for_and_a_folder_is_no_file(tmp_path):
    assert str(unwritable("x", OSError(errno.EACCES, "Permission denied"))) == (
        "x cannot be read or written: Permission denied; ask for the right to."
    )
    with pytest.raises(UserError, match="is a folder: name a file in it"):
        check_writable(tmp_path)


def test_looking_whether_a_file_can_be_written_makes_nothing(tmp_path, monkeypatch):
    """Its folder neither: the work may be refused, or fail. A link to nothing is in the way, as for mkdir."""
    check_writable(tmp_path / "new/more/it.json")
    monkeypatch.chdir(tmp_path)
    check_writable(Path("new/it.json"))
    assert not list(tmp_path.iterdir())
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    for name, why in (("link/it", "No such file"), ("file/it", "Not a directory"), ("x" * 300 + "/it", "too long")):
        with pytest.raises(UserError, match=f"cannot be written: .*{why}"):
            check_writable(tmp_path / name)


def test_the_loader_lets_merged_keys_be(tmp_path):
    from reprofs.plan.read import parse

    path = tmp_path / "a.yaml"
    path.write_text("base: &base {a: 1, b: 2}\nown: {<<: *base, a: 3}\n")
    assert parse(path, "a.yaml")["own"] == yaml.safe_load(path.read_text())["own"] == {"a": 3, "b": 2}
