"""The doctor: every lab, file system and stack has an answer, every refusal a sentence, and it fits the terminal."""

import re

import pytest
from reprofs import doctor, labs
from reprofs.errors import UserError
from reprofs.labs import _qemu, exact
from reprofs.plan.catalog import Catalog
from reprofs.plan.device import Device
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.stack import Layer
from reprofs.plan.workload import Workload

BASE = {"title": "Example", "home": "https://example.org/", "role": "contender", "type": "example", "packages": []}
BASE |= {"mount": [], "unmount": [], "variants": {"default": {"title": "defaults"}}}
LAYER = {"title": "A layer", "disks": {"default": 1}}
PROFILE = {"title": "Memory", "backing": "memory"}
SMOKE = {"files": 1, "directories": 1, "fan_out": 1}
SMOKE |= {"size_median": 1, "size_sigma": 1, "size_max": 1}
KINDS = {
    "filesystem": {
        "plain": BASE,
        "tooled": BASE | {"packages": ["tooled-progs"]},
        "gone": BASE | {"unavailable": "Nobody builds it any more: leave it out."},
        "large": BASE | {"guest": "zfs"},
        "there": {**BASE, "path": "/somewhere"},
        "elsewhere": BASE | {"labs": ["other"]},
    },
    "stack": {"single": LAYER, "own": LAYER | {"filesystem": "tooled", "title": "Own"}},
    "device": {"modelled": PROFILE | {"completion_ns": 1}, "ram": PROFILE},
    "workload": {
        "work": {
            "title": "Work",
            "description": "A tree is read",
            "source": "nobody",
            "scales": dict.fromkeys(("smoke", "laptop", "paper"), SMOKE),
            "populate": ["create"],
            "phases": [{"name": "read", "title": "Read", "operation": "read"}],
        }
    },
}


class FakeCatalog(Catalog):
    """Descriptors without files."""

    def __init__(self):
        super().__init__()
        for kind in (Filesystem, Layer, Device, Workload):
            for name, data in KINDS[kind.kind].items():
                self.add(kind, name, data)

    def paths(self, kind):
        return dict.fromkeys(KINDS.get(kind.kind, {}))


def fake_lab(name, **changes):
    """A lab that has no package and models nothing."""

    class Fake:
        clock, provisions, exclusive, seeds, zeroed, in_guest = "wall", True, True, False, True, False
        models_processor, data_bytes = False, None

        @classmethod
        def open(cls, guest="base", path=""):
            if guest == "zfs":
                raise UserError("there is no guest yet (data/guest/zfs.json is missing): run `reprofs guest` first")
            return cls()

        def obstacle(self, packages, commands, modules, profile):
            if profile.completion_ns:
                return "This lab models nothing: choose another profile."
            return f"This lab has no package {packages[0]}: install it." if packages else ""

        @classmethod
        def disks_zeroed(cls, profile):
            return True

        @staticmethod
        def device_paths(disks):
            return [f"/dev/fake{i}" for i in range(disks.count)]

        def room(self, sizes, share):
            return None

    return type(name, (Fake,), changes)


def table(text: str) -> dict[str, list[str]]:
    """Name -> its answers, one a lab."""
    rows = re.findall(r"^  (\S+) {2,}(.*)$", text, re.MULTILINE)
    return {name: re.split(r" {2,}", answers.strip()) for name, answers in rows}


def examined(monkeypatch, **kinds) -> tuple[str, bool]:
    monkeypatch.setattr(labs, "get_lab", kinds.get)
    return doctor.examine(FakeCatalog(), list(kinds))


def test_each_answer_has_its_reason(monkeypatch):
    mount = fake_lab("mount", provisions=False)
    text, works = examined(monkeypatch, good=fake_lab("good"), mount=mount)
    assert works
    answers = table(text)
    assert answers["good"][0] == answers["mount"][0] == "yes"
    assert answers["plain"] == ["yes", "-"] and answers["single"] == ["yes", "-"]
    assert answers["there"] == ["-", "yes"] and answers["elsewhere"] == ["-", "-"]
    assert answers["tooled"] == answers["own"] == ["no tooled-progs [1]", "-"]
    assert answers["gone"] == ["no [2]", "-"] and answers["large"] == ["no guest [3]", "-"]
    for sentence in (
        "Nobody builds it any more: leave it out.",
        "This lab has no package tooled-progs: install it.",
        "There is no guest yet (data/guest/zfs.json is missing): run `reprofs guest` first.",
    ):
        assert text.count(sentence) == 1  # one number, however often it is the reason
    assert "models nothing" not in text  # another profile works


def test_a_lab_that_cannot_be_opened_is_the_reason_of_all_it_would_have_run(monkeypatch):
    def refuse(**_):
        raise UserError("QEMU is not installed: install the Debian package qemu-system-x86")

    text, works = examined(monkeypatch, broken=fake_lab("broken", open=staticmethod(refuse)))
    answers = table(text)
    assert not works and text.count("QEMU is not installed") == 1
    assert answers["broken"][0] == answers["plain"][0] == answers["single"][0] == "no [1]"


def test_a_lab_that_takes_no_profile_does_not_work(monkeypatch):
    said = "This lab needs root: become root."
    text, works = examined(monkeypatch, closed=fake_lab("closed", obstacle=lambda *_: said))
    assert not works and text.count(said) == 1 and table(text)["closed"][0] == "no [1]"


@pytest.fixture(scope="module")
def real():
    return doctor.examine(Catalog())[0]


@pytest.mark.wide
def test_every_file_of_this_checkout_has_a_row_and_every_number_a_sentence(real):
    answers = table(real)
    catalog = Catalog()
    for name in (*doctor.names(), *catalog.paths(Filesystem), *catalog.paths(Layer)):
        assert answers[name], name
        for answer in answers[name][: len(doctor.names())]:
            assert re.fullmatch(r"yes|-|no( \S+)? \[\d+\]|counted instructions|real time", answer), (name, answer)
    used = {int(number) for row in answers.values() for answer in row for number in re.findall(r"\[(\d+)\]$", answer)}
    given = {int(number) for number in re.findall(r"^\[(\d+)\] \S", real, re.MULTILINE)}
    assert used == given


@pytest.mark.wide
def test_it_fits_the_terminal(real):
    assert max(map(len, real.splitlines())) <= 120
    assert "Traceback" not in real and "None" not in real


@pytest.mark.wide
def test_without_a_guest_it_says_how_to_build_one(monkeypatch):
    for module in (_qemu, exact):  # imported before: a first import now would take what is patched for what was there
        monkeypatch.setattr(module, "read_manifest", _no_manifest)
    text, _ = doctor.examine(Catalog())
    answers = table(text)
    assert answers["exact"][0].startswith("no guest [") and "reprofs guest --output" in text


def _no_manifest(guest):
    raise UserError(f"there is no guest yet (data/guest/{guest}.json is missing): run `reprofs guest --output` first")


@pytest.mark.wide
def test_a_file_of_a_fork_is_examined_too(tmp_path):
    (tmp_path / "filesystems").mkdir()
    (tmp_path / "filesystems/forked.yaml").write_text(
        "title: Forked\nhome: https://example.org/\nrole: contender\ntype: forked\npackages: [forked-progs]\n"
        "mount: [mount.forked]\nunmount: [umount]\nvariants: {default: {title: defaults}}\n"
    )
    text, _ = doctor.examine(Catalog([str(tmp_path)]))
    assert "forked-progs" in text and "forked" in table(text)
