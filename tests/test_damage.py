"""Damaged descriptors: whatever is in a file, it is taken, or refused in one short sentence that names the file.

Every kind of file is damaged in the ways below, at drawn places, then read, planned and rendered as `reprofs plan` and
the workflow do it: of a few drawn damages half of the ways at one place, in `make soak` of all damages all at five.
"""

import contextlib
import itertools
import json
import random
import shutil
import traceback
from pathlib import Path

import pytest
import yaml
from helpers import drawn
from reprofs.errors import UserError
from reprofs.guest import parameters
from reprofs.labs import _guard as guard
from reprofs.plan import catalog as catalogs
from reprofs.plan import tree
from reprofs.plan.catalog import Catalog
from reprofs.plan.config import read_config
from reprofs.plan.device import CRASH
from reprofs.plan.guest import read_guest
from reprofs.plan.schemas import NAMED
from reprofs.plan.study import Study
from reprofs.plan.tree import Tree
from reprofs.trial.job import render
from reprofs.trial.planning import make_plan, table
from reprofs.trial.resolve import resolve
from reprofs.trial.run import tools
from reprofs.trial.setup import devices

FEW = 4  # damages of a kind of file, and files that are not damaged
LONGEST = 300  # characters of a sentence
FILES = {kind.kind: kind.folder for kind in (*NAMED, Tree)} | {
    "guest": "envs/guest.yaml",
    "config": "config/config.yaml",
    "devices": "config/devices.yaml",
}
LONG = 11_000
REAL_DISK = "devices:\n- {path: /dev/sdb, serial: WD-WCC4N0123456, size_bytes: 4000787030016}\n"

# Nine times nine times nine ... values in few characters.
BOMB = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in itertools.pairwise("abcdef")]
BOMB = f"{{a: &a [1, 1], {', '.join(BOMB)}}}"
# What is put, as YAML, in the place of a value: of any, of a number, of a text, or of a key.
VALUES = {
    "huge": ("number", ["1.0e+25", "1.0e+300", "9" * 18, "9" * 25, "9" * 6000, "0x" + "f" * 6000, "1" + ":59" * 3000]),
    "small": ("number", ["0", "-1", "-" + "9" * 18, "1.0e-300", "-1.0e+25"]),
    "no number": ("number", [".nan", ".inf", "-.inf", "1.0e+999", "3.0", "true", "'3'", "1e25"]),
    "date": ("any", ["2020-13-45", "2020-12-01", "!!timestamp x", "2020-12-01 25:61:61"]),
    "blank": ("text", ["''", "'  '", r'"\t\n"', "\"''\"", "\"'' x\"", "'{make}'"]),
    "quotes": ("text", ["mkfs 'x", 'a "b', "a \\", """ "bash -c '$ENGINE mdtest \\"x'" """, "engine", "engine x"]),
    "braces": (
        "text",
        ["'{nothing}'", "'{'", "'}'", "'{0}'", "'{}'", "'{tree:none}'", "'{tree:../x}'", "'{tree:x.yaml}'"],
    ),
    "formats": (
        "text",
        ["'{make.__class__}'", "'{device[a]}'", "'{files!q}'", "'{files:>9999999}'", "'{files:{files}}'"],
    ),
    "characters": ("text", [r'"a\0b"', r'"\ud800"', r'"\U00110000"', r'"a\nb"', "!!binary aGk=", "!!binary z"]),
    "long": ("any", ["x" * LONG, "'" + "x " * LONG + "'", "[" + "x," * 2000 + "]", "{" + "x" * LONG + ": 1}"]),
    "deep": (
        "any",
        ["[" * 1500 + "]" * 1500, "[" * 60 + "]" * 60, "{a: " * 200 + "1" + "}" * 200, "&a [*a]", "&a {a: *a}", BOMB],
    ),
    "type": (
        "any",
        ["null", "true", "[]", "{}", "5", "a word", "[null]", "{a: {b: c}}", "[[a, b], 1]", "!!set {a, b}"],
    ),
    "tag": ("any", ["!!bool maybe", "!!int ''", "!!float x", "!own x", "*none", "!!python/object/apply:os.abort []"]),
    "shell": ("text", ["'x; touch PWNED $(touch PWNED)'", "$(touch PWNED)", r'"ext4\n"', "../../x", "-x"]),
    "key": ("key", ["1", "null", "2020-12-01", "''", "a b", "x" * LONG, "$(touch PWNED)", "[a, b]", r'"a\n"']),
}
MARK = "damage-goes-here"


def cut(draw, data: bytes) -> bytes:
    return data[: draw.randrange(len(data))]


def flip(draw, data: bytes) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


def put(what: bytes):
    def change(draw, data: bytes) -> bytes:
        place = draw.randrange(len(data))
        return data[:place] + what + data[place:]

    return change


TEXTS = {
    "cut": [cut],
    "flip": [flip] * 4,
    "put": [
        put(what) for what in (b"\xff\xfe", b"\xc3", b"\0", b"\t", b"\x1b[2J", b"'", b'"', b"{", b"]", b": ", b"%")
    ],
    "whole": [
        lambda draw, data: b"",
        lambda draw, data: b"\xef\xbb\xbf" + data,
        lambda draw, data: data.decode().encode("utf-16"),
        lambda draw, data: data.decode().encode("utf-32"),
        lambda draw, data: b"--- 1\n--- 2\n",
        lambda draw, data: b"- a\n- b\n",
        lambda draw, data: b"%YAML 9.9\n---\n" + data,
        lambda draw, data: data + data,
    ],
}


def places(data, kind: str, path: tuple = ()) -> list[tuple]:
    """Where in a document a damage of that kind can be put."""
    found = []
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = {"any": True, "number": number, "text": isinstance(value, str), "key": isinstance(data, dict)}[kind]
        found += [(*path, key)] if fits else []
        found += places(value, kind, (*path, key))
    return found


def replaced(data, path: tuple, key: bool):
    """A copy of the document with a mark in the place of one value or key."""
    first, rest = path[0], path[1:]
    if isinstance(data, list):
        return [(replaced(v, rest, key) if rest else MARK) if i == first else v for i, v in enumerate(data)]
    if rest:
        return {k: replaced(v, rest, key) if k == first else v for k, v in data.items()}
    return {MARK if key and k == first else k: MARK if not key and k == first else v for k, v in data.items()}


def half(draw, ways: list) -> list:
    return draw.sample(ways, (len(ways) + 1) // 2)


def damaged(draw, text: str, damage: str, whole: bool):
    """(what was done, the bytes) for each way of a damage that the text of a descriptor can have."""
    if damage in TEXTS:
        for number, change in enumerate(TEXTS[damage] if whole else half(draw, TEXTS[damage])):
            yield f"{damage} {number}", change(draw, text.encode())
        return
    kind, ways = VALUES[damage]
    data = yaml.safe_load(text)
    known = places(data, kind)
    for way in (ways if whole else half(draw, ways)) if known else []:
        path = draw.choice(known)
        marked = yaml.safe_dump(replaced(data, path, kind == "key"), sort_keys=False, allow_unicode=True, width=10**9)
        yield f"{path}: {way[:60]}", marked.replace(MARK, way).encode()


@pytest.fixture(scope="module")
def place(tmp_path_factory, engine):
    """A checkout of descriptors only, which is also the working directory; each test finds it whole."""
    root = tmp_path_factory.mktemp("damage")
    for name in ("config", "workflow", "envs", "data/published"):
        shutil.copytree(catalogs.project_root() / name, root / name)
    (root / "config/devices.yaml").write_text(REAL_DISK)
    with contextlib.chdir(root):
        yield root


def read_all() -> dict:
    """Every descriptor that a catalog has."""
    catalog = Catalog()
    for kind in NAMED:
        for name in catalog.paths(kind):
            catalog.get(kind, name)
    return catalog._known


@pytest.fixture(scope="module")
def known(place):
    """Every descriptor, read once."""
    return read_all()


def plan_and_render(name: str, catalog: Catalog, trials: int = 4) -> None:
    plan = make_plan(name, catalog)
    json.dumps(plan.as_json(), ensure_ascii=False).encode()
    table(plan).encode()
    for trial in plan.trials[:trials]:
        setup = resolve(trial, catalog)
        render(setup).text().encode(), json.dumps(devices(setup))
        tools(setup)


STUDY = {"title": "t", "question": "q", "scale": "smoke", "rounds": 1, "seed": 7, "labs": ["exact"]}
STUDY |= {"stacks": ["single"], "profiles": ["hdd-7200"], "filesystems": ["ext4"], "workloads": ["populated"]}
WITH_TREES = ("look-alike", "look-alike-annex", "look-alike-mail", "look-alike-photos", "look-alike-scratch")


def use(kind: str, name: str, known: dict) -> None:
    """Everything that is done with a descriptor before a trial starts."""
    if kind == "guest":
        read_guest("base")
        read_guest("zfs")
        return
    if kind == "devices":
        guard.allowed()
        return
    if kind == "config":
        settings = read_config()
        catalog = Catalog(settings.extra_dirs)
        catalog._known.update(known)
        make_plan(settings.study, catalog)
        return
    catalog = Catalog()
    catalog._known.update(known)
    if kind == "tree":
        tree.arguments(name)
        workload = next(w for w in WITH_TREES if f"{{tree:{name}}}" in str(known["workload", w].as_json()))
        catalog.add(Study, "own", {**STUDY, "workloads": [workload]})
        plan_and_render("own", catalog)
        return
    whole = catalog._known.pop((kind, name))
    found = catalog.get(next(one for one in NAMED if one.kind == kind), name)
    if kind == "machine":  # no plan names one
        json.dumps(found.as_json(), ensure_ascii=False).encode()
        return
    found.title.encode()
    if kind == "published":
        name = next(study for (what, study), own in known.items() if what == "study" and own.published == name)
    if kind in ("study", "published"):
        plan_and_render(name, catalog)
        return
    study, other = dict(STUDY), {"workloads": ["power-cut"]}
    if kind == "filesystem":
        study["filesystems"] = [name, *(f"{name}+{variant}" for variant in list(found.variants)[1:3])]
        study["labs"] = ["mount" if whole.path else "exact"]
        bare = "network" if whole.hosts else "device"
        study["workloads"] = [bare if whole.raw else "populated"]
        study["stacks"] = [found.simplest_stack()]
    elif kind == "stack":
        study["filesystems"] = [whole.filesystem or "ext4"]
        study["stacks"] = [name]
    elif kind == "device":
        study["profiles"], other = [name], {"labs": ["vm", "host"]}
        study["workloads"] = ["crash-states"] if whole.backing == CRASH else ["populated"]
    elif kind == "network":
        study |= {"filesystems": ["nfs-ext4"], "networks": [name]}
    elif kind == "processor":
        study["processors"], other = [name], {"labs": [f"exact@{name}"]}
    elif kind == "ages":
        study["workloads"], other = [f"metadata@50+{name}10"], {"workloads": [f"metadata@50+{name}90"]}
    elif kind == "kernel":
        study |= {"kernels": [name], "filesystems": ["ext4", "xfs"]}
        other = {"labs": [f"exact@v2-0.5ns@{name}"]}
    else:
        sized = [f"{name}@20", f"{name}@x2"] if whole.size else []
        study["workloads"], other = [name, *sized], {"workloads": [f"{name}+clients2+fill10"]}
        bare = "wire" if whole.network else "raw"
        lost = any(phase.outage for phase in whole.phases)  # a server, which ext4 has not
        study["filesystems"] = [bare if whole.raw else "nfs-xfs" if lost else "ext4"]
        study["profiles"] = ["crash" if any(phase.on_crash_disk for phase in whole.phases) else "hdd-7200"]
        for scale in ("laptop", "paper"):
            catalog.add(Study, "own", {**study, "workloads": [name], "scale": scale})
            plan_and_render("own", catalog)
    catalog.add(Study, "own", study)
    plan_and_render("own", catalog)
    with contextlib.suppress(UserError):  # of a cell that cannot be put together
        catalog.add(Study, "own", {**study, **other})
        plan_and_render("own", catalog)


def verdict_on(kind: str, name: str, file: str, known: dict) -> tuple[str, str]:
    """How a damaged file is dealt with: (verdict, sentence); the verdict is taken, refused, or what is wrong."""
    parameters._ask.cache_clear()
    try:
        use(kind, name, known)
    except UserError as error:
        sentence = " ".join(str(error).split())
        if len(sentence) > LONGEST:
            return "long sentence", sentence
        # A study that does not exist may have been asked for in the command line too.
        named = file in sentence or (kind == "config" and sentence.startswith("study '"))
        return ("refused" if named else "file not named"), sentence
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "/reprofs/" in frame.filename or frame.filename == __file__]
        return f"traceback {type(error).__name__} {Path(own[-1].filename).name}:{own[-1].lineno}", repr(error)[:200]
    return "taken", ""


def files_of(kind: str, place) -> list[Path]:
    folder = place / FILES[kind]
    return [folder] if folder.is_file() else sorted(p for p in folder.glob("*.yaml") if not p.name.startswith("_"))


def trials_of(kind: str, damage: str, known: dict, place, draw: random.Random, whole: bool):
    """(verdict, what was done, sentence) for a damage of a kind of file."""
    for _ in range(5 if whole else 1):
        path = draw.choice(files_of(kind, place))
        text = path.read_text()
        file = str(path.relative_to(place))
        try:
            for done, data in damaged(draw, text, damage, whole):
                path.write_bytes(data)
                verdict, sentence = verdict_on(kind, path.stem, file, known)
                if (place / "PWNED").exists():
                    verdict = "executed"
                if verdict == "taken" and damage == "huge":
                    verdict = "implausible"
                yield verdict, f"{file}: {done}", sentence
        finally:
            path.write_text(text)


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["drawn", "whole"])
@pytest.mark.parametrize("kind", FILES)
def test_an_undamaged_file_is_taken(kind, whole, known, place):
    paths = files_of(kind, place)
    paths = paths if whole else drawn().sample(paths, min(FEW, len(paths)))
    verdicts = {path.stem: verdict_on(kind, path.stem, str(path.relative_to(place)), known) for path in paths}
    assert set(verdicts.values()) <= {("taken", "")}, {
        name: found for name, found in verdicts.items() if found[0] != "taken"
    }


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["drawn", "whole"])
@pytest.mark.parametrize("kind", FILES)
def test_damage_is_taken_or_refused_in_a_sentence(kind, whole, known, place):
    draw, damages = drawn(), [*VALUES, *TEXTS]
    chosen = damages if whole else draw.sample(damages, FEW)
    found = [one for damage in chosen for one in trials_of(kind, damage, known, place, draw, whole)]
    wrong = [one for one in found if one[0] not in ("taken", "refused")]
    assert not wrong, "\n".join(map(str, wrong))
