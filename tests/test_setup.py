"""scripts/setup: what a newcomer without root, or with the wrong Python, is told; nothing is half-done."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, copy_checkout
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog
from reprofs.plan.config import read_config
from reprofs.plan.override import override
from reprofs.trial.planning import make_plan

TOOLS = ("bash", "dirname", "env", "git", "mount", "cat", "tail", "mktemp", "rm")


@pytest.fixture
def machine(tmp_path) -> Path:
    """A folder of commands that stands for a machine where two programs are missing and the user is not root."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for tool in TOOLS:
        if shutil.which(tool):
            (commands / tool).symlink_to(shutil.which(tool))
    (commands / "python3").symlink_to(os.path.realpath(sys.executable))
    script(commands / "id", "echo 1000")
    script(commands / "sudo", "exit 1")
    return commands


def script(path: Path, text: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    path.chmod(0o755)


def setup(tmp_path: Path, machine: Path) -> subprocess.CompletedProcess:
    folder = copy_checkout(tmp_path / "checkout")
    (folder / ".uv").mkdir()  # as if uv was there, so that only the missing packages count
    return subprocess.run(
        [folder / "scripts/setup"], env={"PATH": str(machine)}, capture_output=True, text=True, timeout=60
    )


def test_without_root_the_command_is_printed_and_nothing_done(tmp_path, machine):
    done = setup(tmp_path, machine)
    assert done.returncode == 2
    sentence, command = done.stderr.strip().splitlines()
    assert sentence.startswith("reprofs: Debian packages are missing; install them as root")
    assert command.split("&&")[0].strip() == "apt-get update"
    assert "--no-install-recommends shellcheck util-linux" in command
    assert not {"git", "qemu-system-x86", "mmdebstrap", "erofs-utils"} & {*command.split()}  # only what is missing
    assert not list((tmp_path / "checkout/.uv").iterdir())
    assert not (tmp_path / "checkout/.venv").exists()


def test_apt_that_fails_is_one_sentence_after_its_last_words(tmp_path, machine):
    script(machine / "id", "echo 0")
    script(machine / "apt-get", "echo 'E: no route to mirror'; exit 100")
    done = setup(tmp_path, machine)
    assert done.returncode == 2
    assert "setup: installing the Debian packages shellcheck util-linux" in done.stdout  # said before it is done
    assert "E: no route to mirror" in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("reprofs: apt could not install shellcheck util-linux")


def test_wrong_python_is_named(tmp_path, machine):
    (machine / "python3").unlink()
    script(machine / "python3", '[ "$1" = --version ] && echo Python 3.9.2; exit 1')
    done = setup(tmp_path, machine)
    assert done.returncode == 2
    assert "Python 3.9.2" in done.stderr
    assert "3.11 to 3.13" in done.stderr


def test_makefile_explains_itself():
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("report", "test", "soak", "lab", "setup", "bench", "clean"):
        assert f"make {target}" in done.stdout


@pytest.fixture
def make(tmp_path):
    """Runs make with a Makefile whose commands only say their words; returns these, and what they left."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/setup", "scripts/run-study", "run"):
        script(tmp_path / name, 'printf "%s\\n" "${0##*/}" "$@" "AGAINST=${AGAINST-}" | tr "\\n" "|"; echo')

    def run(*words: str) -> list[list[str]]:
        command = ["make", *words, "RUN=./run"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
        assert left == {"Makefile", "scripts", "scripts/setup", "scripts/run-study", "run"}
        said = [line.split("|")[:-1] for line in done.stdout.splitlines() if not line.startswith("setup|")]
        return said if done.returncode == 0 else [[done.stderr]]

    return run


WORDS = ["quick;touch X", "$(touch X)", "`touch X`", "$(shell touch X)", "a' touch X '", 'a" touch X "', "a b", "-x $Y"]


@pytest.mark.parametrize("name", ["STUDY", "LAB", "PROFILE", "WHERE", "CLIENTS", "BESIDE"])
@pytest.mark.parametrize("word", WORDS)
def test_what_a_user_gives_make_is_a_word_for_commands_and_nothing_more(make, name, word):
    study, answer = make("report", f"{name}={word}")
    key, end = name.lower(), "AGAINST="
    if name == "STUDY":
        assert study == ["run-study", "--config", f"study={word}", end]
        assert answer == ["run", "reprofs", "answer", word, end]
    else:
        assert study == ["run-study", "--config", "study=quick", f"{key}={word}", end]
        assert answer == ["run", "reprofs", "answer", "quick", f"--{key}", word, end]


@pytest.mark.parametrize("word", WORDS)
def test_a_program_is_a_word_that_a_shell_gets_in_its_folder(make, word):
    assert make("answer", f"PROGRAM={word}", f"IN={word}") == [
        ["run", "reprofs", "answer", "--in", word, "--", "sh", "-c", word, "AGAINST="]
    ]
    (said,) = make("answer", f"PROGRAM={word}")
    assert said[3] == "--in" and not [*Path(said[4]).iterdir()]
    Path(said[4]).rmdir()
    assert "name a program" in make("answer")[0][0]


@pytest.mark.parametrize("word", ["1", *WORDS])
def test_a_strict_report_ends_with_the_verdicts(make, word):
    assert make("report", "STUDY=plug-2020", f"STRICT={word}")[2][1:5] == ["reprofs", "claims", "plug-2020", "--strict"]
    assert "leave it out with LAB" in make("report", f"STRICT={word}", "LAB=mount")[0][0]


@pytest.mark.parametrize("word", WORDS)
def test_guests_and_commits_are_words_too(make, word):
    assert make(f"guest-{word}") == [["run", "reprofs", "guest", "--output", f"data/guest/{word}.json", "AGAINST="]]
    assert {said[-1] for said in make("bench", f"AGAINST={word}")} == {f"AGAINST={word}"}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("name", ["study", "lab", "profile", "where", "clients"])
def test_a_name_that_is_none_is_one_sentence(name, word):
    given = {"where": "/tmp", "lab": "mount"} if name == "clients" else {"lab": "mount"} if name == "where" else {}
    with pytest.raises(UserError) as caught:
        settings = read_config(given | {name: word})
        change = override(settings.lab, settings.profile, settings.where, settings.clients)
        make_plan(settings.study, Catalog(), change)
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_jupyterlab_opens_on_the_notebook_for_trying_and_asks_nothing_about_news():
    command = subprocess.run(["make", "-n", "lab"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    opened = re.search(r"default_url=/lab/tree/(\S+)", command)[1]
    assert (ROOT / opened).is_file()
    folder = re.search(r'app_settings_dir="\$PWD/([^"]+)"', command)[1]
    schemas = Path(sys.prefix) / "share/jupyter/lab/schemas"
    name = "@jupyterlab/apputils-extension:notification"
    from jupyterlab_server.settings_utils import get_settings  # not while tests are collected: it takes a second

    found, _ = get_settings(str(ROOT / folder), str(schemas), str(ROOT / "nowhere"), schema_name=name)
    defaults = {key: entry["default"] for key, entry in found["schema"]["properties"].items() if "default" in entry}
    assert (defaults["fetchNews"], defaults["checkForUpdates"]) == ("false", False)


def test_a_campaign_publishes_what_would_be_measured_otherwise(tmp_path):
    """Commands only say their words: what is not stale is nothing to do, one that fails is named at the end."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/campaign", tmp_path / "scripts")
    for name, fails in ("scripts/run-study", "*study=broken*"), (".venv/bin/reprofs", "-"), (".venv/bin/python", "-"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        stale = 'case "$*" in "stale done") exit 1;; "stale none") exit 2;; stale*) echo "$2: why"; exit 0;; esac'
        script(tmp_path / name, f'{stale}\necho "${{0##*/}} $*"; case "$*" in {fails}) exit 1;; esac')
    git = ["git", "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/README.md").write_text("table\n")
    command = ["scripts/campaign", "done", "old", "broken", "none", "new"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [line for line in ran.stdout.splitlines() if not line.startswith("campaign:")]
    assert ran.returncode == 1 and ", old: why" in ran.stdout
    assert said == [
        *("run-study --config study=old", "reprofs publish old", "run-study --config study=broken"),
        *("run-study --config study=new", "reprofs publish new", "python scripts/catalog.py", "table"),
    ]
    assert ran.stderr.endswith("not published, see logs/STUDY: broken none\n")
    (tmp_path / "scripts/campaign").open("a").write("# edited\n")
    ran = subprocess.run(["scripts/campaign"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2 and "there are uncommitted changes" in ran.stderr
    shutil.rmtree(tmp_path / ".git")
    ran = subprocess.run(["scripts/campaign"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 2 and ran.stderr.startswith("reprofs: ") and len(ran.stderr.splitlines()) == 1
