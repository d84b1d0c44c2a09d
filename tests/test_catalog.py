"""Descriptors: every file in the checkout fits its schema, and every mistake gives one sentence with file and key."""

import hashlib
import json
import os
import re
import subprocess

import jsonschema
import pytest
import yaml
from conftest import BIN
from helpers import CATALOG, cell, names, rendered
from reprofs.errors import UserError
from reprofs.plan import catalog as catalogs
from reprofs.plan import read, schemas, tree
from reprofs.plan.catalog import Catalog, named
from reprofs.plan.command import expand
from reprofs.plan.device import Device
from reprofs.plan.filesystem import Filesystem, variant_of
from reprofs.plan.guest import common
from reprofs.plan.kernel import Kernel
from reprofs.plan.network import Network
from reprofs.plan.parts import Descriptor
from reprofs.plan.processor import Processor
from reprofs.plan.published import Published
from reprofs.plan.read import parse, read_yaml, validate
from reprofs.plan.schemas import NAMED
from reprofs.plan.stack import Layer, resolve
from reprofs.plan.study import Study
from reprofs.plan.tree import Tree
from reprofs.plan.workload import Workload
from reprofs.trial.job import devices, render
from reprofs.trial.plan import make_plan
from reprofs.trial.resolve import resolve as resolve_cell

KINDS = (Filesystem, Layer, Device, Network, Processor, Kernel, Workload, Study)
DESCRIPTORS = [(kind, name) for kind in KINDS for name in CATALOG.paths(kind)]


@pytest.mark.parametrize(("kind", "name"), DESCRIPTORS)
def test_descriptor_fits_its_schema(kind, name):
    assert CATALOG.get(kind, name).title


@pytest.mark.parametrize(
    ("filesystem", "variant"),
    [(fs, variant) for fs in CATALOG.paths(Filesystem) for variant in CATALOG.get(Filesystem, fs).variants],
)
@pytest.mark.parametrize("workload", CATALOG.paths(Workload))
def test_every_cell_renders(filesystem, variant, workload):
    descriptor = CATALOG.get(Filesystem, filesystem)
    lab = "mount" if descriptor.path else "exact"
    place = {"lab": lab, "filesystem": filesystem, "variant": variant, "workload": workload}
    place["stack"] = descriptor.simplest_stack()
    asked = CATALOG.get(Workload, workload)
    if asked.raw != descriptor.raw or asked.network != (descriptor.raw and bool(descriptor.hosts)):
        with pytest.raises(UserError, match=r"measures the (device|network) itself|is the bare .* and keeps no files"):
            resolve_cell(cell(**place), CATALOG)
        return
    if not common(asked.guest, descriptor.guest) and lab == "exact":
        with pytest.raises(UserError, match=f"needs the guest {descriptor.guest}, and workload {workload} the guest"):
            resolve_cell(cell(**place), CATALOG)
        return
    if any(phase.outage for phase in asked.phases) and not descriptor.outage:
        with pytest.raises(UserError, match=r"and file system .* has (none|no key outage)"):
            resolve_cell(cell(**place), CATALOG)
        return
    if any(phase.crash for phase in asked.phases):
        if lab == "mount" or not descriptor.device or descriptor.hosts:
            pytest.skip("it has no device whose power could be cut")
        place["profile"] = "hdd-7200"
    parts = resolve_cell(cell(**place), CATALOG)
    assert not re.search(r"\{[a-z_]+\}", render(parts).text())
    assert len(devices(parts)) == (parts.stack.disks if descriptor.device and lab == "exact" else 0)


@pytest.mark.parametrize("stack", [*CATALOG.paths(Layer), "md-raid6+lvm@12", "md-raid5x2+btrfs-raid0"])
def test_every_stack_renders_and_is_read_back(stack):
    filesystem = resolve(stack, CATALOG).filesystem or "ext4"
    variant = variant_of(filesystem, CATALOG)[1]
    trial = cell(filesystem=filesystem, variant=variant, stack=stack, workload="populated")
    parts = resolve_cell(trial, CATALOG)
    job = render(parts).text()
    assert not re.search(r"\{[a-z_]+\}", job)
    assert len(devices(parts)) == resolve(stack, CATALOG).disks
    # Before the phases and after them.
    assert stack == "single" or job.count("stage=readback") >= 2


def test_stack_offers_the_same_room_whatever_it_is_made_of():
    for spec in (
        "single",
        "md-raid0@24",
        "md-raid5@3",
        "md-raid6+lvm",
        "md-raid10",
        "btrfs-raid1",
        "md-raid5-rebuilding",
    ):
        stack = resolve(spec, Catalog())
        assert 2048 <= stack.disk_mib(2048) * stack.disk_share < 2048 + stack.disks, spec
    assert resolve("md-raid6@6", Catalog()).name == "md-raid6"
    assert resolve("md-raid6+lvm@12", Catalog()).title == "Linear volume by LVM over RAID 6 by MD, 12 disks"


def test_array_on_disks_with_old_data_is_synced_first():
    """--assume-clean only where the disks read as zeros; otherwise the driver waits for the initial sync."""
    stack = resolve("md-raid6", Catalog())
    disks = [f"/dev/sd{letter}" for letter in "abcdef"]
    fresh, used = (stack.commands(disks, clean, "/m") for clean in (True, False))
    assert "--assume-clean" in fresh.build[0] and not fresh.resync
    assert "--assume-clean" not in used.build[0] and used.resync == ["/sys/block/md127/md/sync_action"]
    assert stack.initial_sync(True) == "assumed clean: the disks read as zeros"
    assert stack.initial_sync(False) == "finished before the file system was made"
    assert resolve("md-raid0", Catalog()).initial_sync(False) == "none needed"


@pytest.mark.parametrize("kind", [Filesystem, Layer])
def test_template_fits_the_schema_and_explains_every_key(root, kind):
    text = (root / kind.folder / "_template.yaml").read_text()
    assert validate(yaml.safe_load(text), kind, "template").title == "Example"
    assert "_template" not in Catalog().paths(kind)
    for key in kind.schema_of()["properties"]:
        assert f"\n{key}:" in text, key


def test_schemas_are_those_of_the_models(root, tmp_path):
    for path in schemas.write_schemas(tmp_path):
        there = root / "workflow/schemas" / path.name
        assert there.read_text() == path.read_text(), f"{path.name} is out of date: run `reprofs schemas`"
        jsonschema.Draft202012Validator.check_schema(yaml.safe_load(there.read_text()))


@pytest.mark.parametrize("kind", [*KINDS, Published, Tree])
def test_schemas_take_every_file_as_the_models_do(kind):
    """For editors: what the models take the schemas take too, and what they fill in."""
    check = jsonschema.Draft202012Validator(kind.schema_of())
    paths = Catalog().paths(kind)
    for path in paths.values():
        check.validate(yaml.safe_load(path.read_text()))
        check.validate(read_yaml(path, kind).as_json())


def test_a_variant_may_be_checked_in_another_way():
    """And one without that key as its file system is."""
    commands = {
        variant: [step.arg for step in rendered(cell(variant=variant)).steps if getattr(step, "stage", "") == "check"]
        for variant in ("default", "tables-unwritten")
    }
    assert [words[:-1] for words in commands["default"]] == [["e2fsck", "-f", "-n"]]
    assert [words[:-1] for words in commands["tables-unwritten"]] == [["e2fsck", "-n"]]


def test_defaults_are_filled_in():
    btrfs = Catalog().get(Filesystem, "btrfs")
    assert btrfs.device is True
    assert btrfs.variants["none"].mount == "relatime"
    assert variant_of("btrfs", Catalog()) == ("btrfs", "none")
    assert variant_of("btrfs+zstd", Catalog()) == ("btrfs", "zstd")


MISTAKES = {
    "unknown file system": (lambda s: s["filesystems"].append("ext5"), ["file system 'ext5'", "did you mean ext4"]),
    "unknown variant": (
        lambda s: s["filesystems"].append("btrfs+zst"),
        ["variant of btrfs 'zst'", "did you mean zstd"],
    ),
    "unknown key": (
        lambda s: s.update(round=3),
        ["config/studies/quick.yaml", "unknown key 'round'", "did you mean rounds"],
    ),
    "wrong type": (lambda s: s.update(seed="seven"), ["config/studies/quick.yaml", "seed", "'seven'", "integer"]),
    "scale misspelt": (
        lambda s: s.update(scale="smokee"),
        ["config/studies/quick.yaml", "scale", "did you mean smoke"],
    ),
    "zero rounds": (lambda s: s.update(rounds=0), ["config/studies/quick.yaml", "rounds is 0", "at least 1"]),
    "missing key": (lambda s: s.pop("question"), ["config/studies/quick.yaml", "'question' is missing"]),
    "unknown lab": (lambda s: s.update(labs=["exakt"]), ["exakt", "exact"]),
    "unknown key of a cross": (
        lambda s: s.update(cells=[{"stack": ["single"]}]),
        ["unknown key 'stack' at cells.0", "did you mean stacks"],
    ),
    "axis nowhere": (lambda s: s.pop("stacks"), ["config/studies/quick.yaml", "'stacks' is missing at the top level"]),
    "axis in no cross": (
        lambda s: (s.pop("profiles"), s.update(cells=[{"profiles": ["ssd"]}, {"stacks": ["single"]}])),
        ["'profiles' is missing at entry 2 of cells and the top level"],
    ),
    "parts that do not fit": (lambda s: s.update(stacks=["btrfs-raid1"]), ["btrfs-raid1 is built by btrfs itself"]),
    "unknown workload": (lambda s: s.update(workloads=["meta"]), ["workload 'meta'"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_in_a_study(name, checkout, reprofs, says, edit_yaml):
    change, words = MISTAKES[name]
    edit_yaml(checkout / "config/studies/quick.yaml", change)
    says(reprofs("plan", "quick", cwd=checkout), *words)


def test_mistakes_in_a_file_system(checkout, reprofs, says, edit_yaml):
    path = checkout / "workflow/filesystems/ext4.yaml"
    original = path.read_text()
    for change, words in (
        (
            lambda d: d.update(mounts=["x"]),
            ["workflow/filesystems/ext4.yaml", "unknown key 'mounts'", "did you mean mount"],
        ),
        (lambda d: d.update(device="yes"), ["workflow/filesystems/ext4.yaml", "device", "boolean"]),
        (lambda d: d["variants"]["default"].update(title=3), ["variants.default.title", "string"]),
    ):
        path.write_text(original)
        edit_yaml(path, change)
        says(reprofs("plan", "quick", cwd=checkout), *words)
    path.write_text("title: [")
    says(reprofs("plan", "quick", cwd=checkout), "workflow/filesystems/ext4.yaml line", "not valid YAML")


STUDY, RULE = (Study, "quick"), {"min": 3, "max": 20, "until": "5 %"}


def test_what_several_models_or_names_have_in_common():
    """Where a value decides which keys there are, and where the keys are names, a sentence still names the key."""
    for kind, name, change, told in (
        (
            Device,
            "ssd",
            lambda d: d.update(backing="modell"),
            r"backing is 'modell', but must be .*did you mean model",
        ),
        (Device, "ssd", lambda d: d.update(disk={}), "unknown key 'disk' at the top level: known are title"),
        (
            Device,
            "hdd-7200",
            lambda d: d["disk"].update(kind="flash"),
            r"disk\.kind is 'flash', but must be 'rotating'",
        ),
        (Device, "hdd-7200", lambda d: d["disk"].pop("kind"), "key 'kind' is missing at disk"),
        (Device, "hdd-7200", lambda d: d["disk"].update(zone=1), "unknown key 'zone' at disk: did you mean zones"),
        (
            Filesystem,
            "ext4",
            lambda d: d["variants"]["default"].update(titel=1),
            r"variants\.default: did you mean title",
        ),
        (Filesystem, "ext4", lambda d: d.pop("type"), "the top level lacks the key type: give type, packages"),
        (
            Workload,
            "metadata",
            lambda d: d["phases"][0].update(run="x"),
            r"phases\.0 must have one of the keys operation",
        ),
        (
            Workload,
            "metadata",
            lambda d: d.update(populate=["creat"]),
            r"populate\.0 is 'creat', .*did you mean create",
        ),
        (
            Workload,
            "metadata",
            lambda d: d["scales"]["smoke"].update(x=[1]),
            r"scales\.smoke\.x is \[1\], but must be",
        ),
        (Study, "quick", lambda d: d.update(labs=["exact", "exact"]), "labs must name exact only once"),
        (Study, "quick", lambda d: d.update(labs=[]), "labs has 0 entries, but must have at least 1"),
        (Study, "quick", lambda d: d.update(margins={"win": 0.1}), "margins must not have a win above equal"),
        (Study, "quick", lambda d: d.update(margins={"equal": 0}), "margins.equal is 0, but must be"),
        (*STUDY, lambda d: d.update(rounds=RULE | {"min": 1}), r"rounds\.min is 1, but must be at least 2"),
        (*STUDY, lambda d: d.update(rounds=RULE | {"max": 2}), "rounds must have a max of at least its min, 3"),
        (*STUDY, lambda d: d.update(rounds=RULE | {"until": 5}), r"rounds\.until is 5, but must be a percentage"),
        (
            *STUDY,
            lambda d: d.update(rounds=RULE | {"until": "0 %"}),
            r"until is '0 %', but must be a percentage above 0",
        ),
        (*STUDY, lambda d: d.update(rounds=RULE | {"until": "101 %"}), "until is '101 %', .* up to 100 %, such as 5 %"),
        (*STUDY, lambda d: d.update(rounds={"min": 3, "max": 9}), "key 'until' is missing at rounds"),
        (*STUDY, lambda d: d.update(rounds=RULE | {"step": 2}), "unknown key 'step' at rounds: known are min, max"),
        (*STUDY, lambda d: d.update(rounds=RULE, stop="Enough."), "must not have both stop and rounds with until"),
        (Layer, "md-raid6", lambda d: d.update(summary=["("]), r"summary\.0 is not a regular expression: missing \)"),
    ):
        with pytest.raises(UserError, match=told):
            Catalog().add(kind, name, changed(kind, name, change))


def test_the_line_of_a_mistake(tmp_path):
    (tmp_path / "x.yaml").write_text(
        "title: t\nquestion: q\nlabs:\n  - exact\n  - 7\nrounds: 0\nscale: smoke\nseed: 1\n"
    )
    with pytest.raises(UserError, match=r"x\.yaml line 6: rounds is 0"):
        read_yaml(tmp_path / "x.yaml", Study)
    (tmp_path / "x.yaml").write_text(
        "title: t\nlabs:\n  - exact\n  - 7\nquestion: q\nrounds: 1\nscale: smoke\nseed: 1\n"
    )
    with pytest.raises(UserError, match=r"x\.yaml line 4: labs\.1 is 7, but must be of type string"):
        read_yaml(tmp_path / "x.yaml", Study)
    (tmp_path / "x.yaml").write_text("title: t\n\nlabs:\n")
    with pytest.raises(UserError, match=r"x\.yaml: labs is empty: write a value, or leave the key out"):
        read_yaml(tmp_path / "x.yaml", Study)


def test_unknown_placeholder_and_open_quote():
    assert expand("mkfs {make} {device}", {"make": "-E 'a b'", "device": "/dev/x"}, "here") == [
        "mkfs",
        "-E",
        "a b",
        "/dev/x",
    ]
    assert expand("mkfs {make} x", {"make": ""}, "here") == ["mkfs", "x"]
    with pytest.raises(UserError, match=r"here: '\{devise\}' has an unknown placeholder; known: \{device\}"):
        expand("mkfs {devise}", {"device": "/dev/x"}, "here")
    with pytest.raises(UserError, match="cannot be split"):
        expand("mkfs 'x", {}, "here")


def test_two_files_of_one_name(tmp_path, root):
    (tmp_path / "ext4.yaml").write_text((root / "workflow/filesystems/ext4.yaml").read_text())
    with pytest.raises(UserError, match="same name"):
        Catalog([str(tmp_path)]).paths(Filesystem)
    with pytest.raises(UserError, match="not a folder"):
        Catalog([str(tmp_path / "none")]).paths(Filesystem)


def test_blocks_are_complete_shuffled_and_repeatable():
    plan = make_plan("quick", Catalog())
    rounds = plan.study.rounds
    assert plan == make_plan("quick", Catalog())
    assert [t.order for t in plan.trials] == list(range(1, len(plan.trials) + 1))
    orders = []
    for number in range(1, rounds + 1):
        block = [t for t in plan.trials if t.round == number]
        assert {t.seed for t in block} == {plan.study.seed + number}
        orders.append([(t.filesystem, t.variant, t.workload) for t in block])
    assert all(sorted(order) == sorted(orders[0]) for order in orders)  # every cell once in every block
    assert len({tuple(order) for order in orders}) == rounds  # in another order each time
    assert all(order != sorted(order) for order in orders)


def test_crosses_are_joined_and_a_cell_comes_once(checkout, edit_yaml, reprofs):
    def change(study):
        study["cells"] = [
            {"filesystems": ["ext4", "xfs"]},
            {"filesystems": ["xfs"], "stacks": ["single", "md-raid5@5", "md-raid5@6"]},
        ]
        study.update(rounds=1, workloads=["populated"])

    edit_yaml(checkout / "config/studies/quick.yaml", change)
    done = reprofs("plan", "quick", "--output", "plan.json", cwd=checkout)
    assert done.returncode == 0, done.stderr
    plan = json.loads((checkout / "plan.json").read_text())
    found = sorted((trial["stack"], trial["filesystem"]) for trial in plan["trials"])
    assert found == [("md-raid5", "xfs"), ("md-raid5@5", "xfs"), ("single", "ext4"), ("single", "xfs")]
    assert plan["stacks"]["md-raid5"]["summary"] == Catalog().get(Layer, "md-raid5").summary != []
    assert plan["labs"]["exact@v2-0.5ns"]["exact"]
    assert "counted instructions" in plan["labs"]["exact@v2-0.5ns"]["meaning"]
    assert plan["stacks"]["md-raid5"]["disks"] == 6 and plan["stacks"]["md-raid5@5"]["family"] == "md-raid5"


def test_plan_is_printed(reprofs):
    done = reprofs("plan", "quick")
    assert done.returncode == 0
    assert "Which of six file systems" in done.stdout
    assert len(done.stdout.splitlines()) == 4 + len(make_plan("quick", Catalog()).trials)


def test_names_of_any_length_stand_apart_from_what_follows(reprofs):
    listed = reprofs("list").stdout
    assert re.search(r"\+compression-off +no compression\n", listed)
    assert all(re.match(r" +\S+  +\S", line) for line in listed.splitlines() if line.startswith(" "))
    heading, *rows = reprofs("plan", "plug-2020").stdout.splitlines()[3:]
    assert {len(re.split(" {2,}", row.strip())) for row in (heading, *rows)} == {9}
    assert any(re.search("  hdd-7200  xfs[+]default  +many-inodes@128000  +smoke", row) for row in rows)


def test_another_file_system_is_one_file(tmp_path, root, reprofs):
    """The plan part of it; tests/test_workflow.py runs one to the report."""
    text = (
        (root / "workflow/filesystems/ext4.yaml")
        .read_text()
        .replace("title: ext4", "title: ext9")
        .replace("ext4", "ext9")
    )
    (tmp_path / "ext9.yaml").write_text(text)
    assert "ext9" in Catalog([str(tmp_path)]).paths(Filesystem)
    assert "ext9" not in Catalog().paths(Filesystem)


# ---- names -----------------------------------------------------------------------------------------------------------

BAD_NAMES = [
    "y$(touch PWNED)",
    "a;b",
    "a b",
    "A",
    "-x",
    "a\n",
    "é",
    "a'b",
    "a&b",
    "a|b",
    "a+b",
    "a@b",
    "x" * 65,
]


@pytest.mark.parametrize("stem", BAD_NAMES)
def test_a_file_that_cannot_have_its_name_is_told(tmp_path, stem):
    (tmp_path / "good-1.2.yaml").touch()
    (tmp_path / "_template.yaml").touch()
    (tmp_path / ".#good-1.2.yaml").touch()  # an editor's
    assert list(named(tmp_path)) == ["good-1.2"]
    (tmp_path / f"{stem}.yaml").touch()
    with pytest.raises(UserError, match=r"must have up to 64 lower-case letters, .*: rename it\.") as told:
        named(tmp_path)
    assert f"{tmp_path}: {f'{stem}.yaml'!r}"[:100] in str(told.value)


@pytest.mark.parametrize("kind", [*NAMED, Tree, "extra"])
def test_every_folder_of_descriptors_is_asked_for_its_names(kind, tmp_path, monkeypatch):
    folder = tmp_path / ("more" if kind == "extra" else kind.folder)
    folder.mkdir(parents=True)
    (folder / "y$(touch PWNED).yaml").touch()
    for module in (catalogs, read, tree):
        monkeypatch.setattr(module, "project_root", lambda: tmp_path)
    with pytest.raises(UserError, match=r"y\$\(touch PWNED\)\.yaml' .*: rename it"):
        if kind is Tree:
            tree.profiles()
        else:
            Catalog(["more"] if kind == "extra" else []).paths(Filesystem if kind == "extra" else kind)


def test_a_name_is_never_run_by_a_shell(checkout, edit_yaml):
    """A whole run of a study whose file system's file is named like a command, in the lab that needs no guest."""
    name = "y$(touch PWNED)"
    here = checkout / "workflow/filesystems/here.yaml"
    (here.parent / f"{name}.yaml").write_text(here.read_text())
    study = {"title": "t", "question": "q", "scale": "smoke", "rounds": 1, "seed": 1, "labs": ["mount"]}
    study |= {"stacks": ["single"], "profiles": ["ram"], "filesystems": [name], "workloads": ["metadata"]}
    (checkout / "config/studies/own.yaml").write_text(yaml.safe_dump(study))
    command = [BIN / "snakemake", "--cores", "1", "--config", "study=own", "--forceall", "--until", "trial"]
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=checkout, env=env, capture_output=True, text=True, timeout=300)
    assert not list(checkout.rglob("PWNED*")), done.stderr
    assert done.returncode
    told = [line for line in done.stderr.splitlines() if line.startswith("reprofs: ")]
    assert (
        len(told) == 1 and "config/studies/own.yaml line 2: filesystems.0 is 'y$(touch PWNED)', but must be" in told[0]
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["plan", "s$(touch PWNED)"], "study 's$(touch PWNED)' does not exist"),
        (["plan", "quick@"], "scale '' does not exist"),
        (["plan", "quick@smoke;touch PWNED"], "scale 'smoke;touch PWNED' does not exist"),
        (["plan", "quick\n"], "study 'quick\\n' does not exist"),
        (["trial", "--filesystem", "x;touch PWNED"], "file system 'x;touch PWNED' does not exist"),
        (["trial", "--variant", "`touch PWNED`"], "variant of ext4 '`touch PWNED`' does not exist"),
        (["trial", "--stack", "single+$(touch PWNED)"], "stack '$(touch PWNED)' does not exist"),
        (["trial", "--stack", "single@"], "'' is not a number of disks"),
        (["trial", "--stack", f"single@{'9' * 5000}"], "is not a number of disks"),
        (["trial", "--profile", "../ssd"], "device profile '../ssd' does not exist"),
        (["trial", "--workload", "metadata;touch PWNED"], "'metadata;touch PWNED' is not a name with modifiers"),
        (["trial", "--workload", f"metadata@{'9' * 5000}"], "the number after @ must be 1 or more, and"),
        (["trial", "--workload", f"metadata+clients{'9' * 5000}"], "+clients must be from 1 to 256"),
        (["trial", "--scale", "$(touch PWNED)"], "scale '$(touch PWNED)' does not exist"),
    ],
)
def test_bad_names_on_the_command_line(arguments, told, tmp_path, reprofs, says):
    if arguments[0] == "trial":
        chosen = {f"--{key}": value for key, value in names(order=1, output=tmp_path / "r.json").items()}
        chosen |= {arguments[1]: arguments[2]}
        arguments = ["trial", *(str(word) for pair in chosen.items() for word in pair)]
    says(reprofs(*arguments), told)
    assert not list(tmp_path.iterdir())


def changed(kind: type[Descriptor], name: str, change) -> dict:
    data = Catalog().get(kind, name).as_json()
    change(data)
    return data


@pytest.mark.parametrize(
    ("kind", "name", "change", "told"),
    [
        (
            Filesystem,
            "btrfs",
            lambda d: d["variants"].update({"zstd\n": d["variants"]["zstd"]}),
            r"a key at variants is 'zstd\\n', but must be a name",
        ),
        (
            Workload,
            "metadata",
            lambda d: d["phases"][0].update(name="a\n"),
            r"phases\.0\.name is 'a\\n', but must be",
        ),
        (
            Workload,
            "metadata",
            lambda d: d.update(environment={"A=B": "c"}),
            "a key at environment is 'A=B', but must",
        ),
        (Layer, "md-raid5", lambda d: d.update(filesystem="$(x)"), r"filesystem is '\$\(x\)', but must be the name"),
        (Study, "quick", lambda d: d["stacks"].append("single\n"), r"stacks\.1 is 'single\\n', but must be a name"),
    ],
)
def test_bad_names_in_a_file(kind, name, change, told):
    with pytest.raises(UserError, match=told):
        Catalog().add(kind, name, changed(kind, name, change))


def test_trials_of_one_name_or_too_long_a_one_are_refused():
    catalog = Catalog()
    for name in ("a", "a-b"):
        catalog.add(Layer, name, {"title": name, "disks": {"default": 1}})
    for name in ("b-c", "c", "p" * 60):
        catalog.add(Device, name, {"title": name})
    study = changed(Study, "quick", lambda d: d.update(filesystems=["ext4"], stacks=["a", "a-b"]))
    catalog.add(Study, "own", {**study, "profiles": ["b-c", "c"]})
    with pytest.raises(UserError, match=r"two different trials would be called r1-exact@v2-0\.5ns-a-b-c-ext4"):
        make_plan("own", catalog)
    catalog.add(Study, "own", {**study, "profiles": ["p" * 60]})
    assert make_plan("own", catalog).trials
    catalog.add(Layer, "s" * 60, {"title": "s", "disks": {"default": 1}})
    catalog.add(Filesystem, "f" * 60, Catalog().get(Filesystem, "ext4").as_json())
    catalog.add(Study, "own", {**study, "profiles": ["p" * 60], "stacks": ["s" * 60], "filesystems": ["f" * 60]})
    with pytest.raises(UserError, match="characters, but may have at most 200"):
        make_plan("own", catalog)


# ---- what a file may hold --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"title: \xff", "x.yaml is not text in UTF-8: save it as such"),
        (b"a: 1\nseen: 2020-13-45", "x.yaml line 2 is not valid YAML: '2020-13-45' cannot be read as timestamp: write"),
        (b"a: " + b"9" * 6000, r"x.yaml line 1 is not valid YAML: '9+\.\.\.9+' cannot be read as int: write another"),
        (b"a: 0x" + b"f" * 6000, "x.yaml: a does not fit into 64 bits: write a smaller number"),
        (b"a: " + b"[" * 3000 + b"]" * 3000, "x.yaml is nested too deeply"),
        (
            b"a: {b: " + b"[" * 30 + b"]" * 30 + b"}",
            "x.yaml: a.b.0.*nested too deeply: no descriptor needs more than 20",
        ),
        (b"a: &a [*a]", "x.yaml: a.*expands to more values than the file has characters"),
        (b"a: {b: .nan}", "x.yaml: a.b is nan: write a finite number"),
        (b"a: [1, -.inf]", "x.yaml: a.1 is -inf: write a finite number"),
        (b'a: "b\\0c"', "x.yaml: a has a character that cannot stand in a file or command"),
        (b'a: "\\ud800"', "x.yaml: a has a character that cannot stand in a file or command"),
        (b'a: "\\U00110000"', "x.yaml is not valid YAML: chr.*: correct the character after a backslash"),
        (b"a: {1: b}", "x.yaml: the key 1 at a is not text: put it in quotes"),
        (b"a: " + b"x" * 10_001, "x.yaml: a has 10,001 characters: shorten it to 10,000"),
        (b"a: !!bool maybe", "x.yaml line 1 is not valid YAML: 'maybe' cannot be read as bool"),
    ],
    ids=lambda value: str(value[:40]),
)
def test_what_no_file_may_hold(tmp_path, data, told):
    (tmp_path / "x.yaml").write_bytes(data)
    with pytest.raises(UserError, match=told) as found:
        parse(tmp_path / "x.yaml", "x.yaml")
    assert len(str(found.value)) < 300


def make_with(kind: type[Descriptor], name: str, change, **place) -> None:
    catalog = Catalog()
    catalog.get(kind, name)
    catalog.add(kind, name, changed(kind, name, change))
    rendered(cell(**place), catalog)


@pytest.mark.parametrize(
    ("kind", "name", "change", "told"),
    [
        (
            Filesystem,
            "ext4",
            lambda d: d.update(make=["  "]),
            r"make\.0 is ' ', but must be a command, not blank",
        ),
        (
            Filesystem,
            "ext4",
            lambda d: d.update(make=["{make}"]),
            r"filesystems/ext4.yaml: make: '\{make\}' has no program",
        ),
        (
            Filesystem,
            "ext4",
            lambda d: d.update(check=["e2fsck 'x"]),
            "filesystems/ext4.yaml: check: .*no closing quot",
        ),
        (
            Filesystem,
            "ext4",
            lambda d: d["variants"]["default"].update(make="-L 'x"),
            r"filesystems/ext4.yaml: make: \{make\}: \"-L 'x\" cannot be split into words",
        ),
        (
            Filesystem,
            "ext4",
            lambda d: d.update(sync=["{device.x}"]),
            "ext4.yaml: sync: .* has an unknown placeholder",
        ),
        (
            Filesystem,
            "ext4",
            lambda d: d.update(sync=["{device:>9}"]),
            "ext4.yaml: sync: .* has an unknown placeholder",
        ),
        (
            Workload,
            "metadata",
            lambda d: d.update(size="file"),
            "metadata.yaml: size is 'file', which is not a whole",
        ),
        (
            Workload,
            "metadata",
            lambda d: d["phases"][0].update(limit_s=10**25),
            r"phases\.0\.limit_s is 1.*, but must be at most",
        ),
        (
            Layer,
            "md-raid10",
            lambda d: d["disks"].update(multiple_of=5),
            "md-raid10.yaml: disks.default is 6, but must",
        ),
        (Layer, "single", lambda d: d.update(data="n-1"), "stacks/single.yaml: data is n-1, which leaves no room"),
        (Layer, "single", lambda d: d.update(devices=["{first_half}"]), "stacks/single.yaml: devices is empty"),
        (Device, "ssd", lambda d: d.update(bandwidth_mb_s=5), "devices/ssd.yaml: bandwidth_mb_s is 5"),
        (
            Device,
            "ssd",
            lambda d: d.update(completion_ns=10**25),
            "completion_ns is 1.*, but must be at most 1000000000 ns",
        ),
        (Device, "ssd", lambda d: d.update(completion_ns=3.0), "completion_ns is 3.0, but must be of type integer"),
        (
            Device,
            "hdd-7200",
            lambda d: d["disk"].update(outer_mb_s=1e25),
            r"outer_mb_s is 1e\+25, but must be at most",
        ),
    ],
)
def test_what_no_job_is_made_of(kind, name, change, told):
    with pytest.raises(UserError, match=told) as found:
        make_with(
            kind, name, change, **({} if kind is Workload else {"profile" if kind is Device else kind.kind: name})
        )
    assert len(str(found.value)) < 300


@pytest.mark.parametrize(
    ("kind", "name", "change", "told"),
    [
        (
            Published,
            "datalad-2015",
            lambda d: some(d, "within").update(within=1250000),
            "within is 1250000, .* most 10.",
        ),
        (
            Workload,
            "metadata",
            lambda d: d["scales"]["paper"].update(folders=4294967296),
            "folders 4.29497e.09, .* most",
        ),
        (
            Workload,
            "metadata",
            lambda d: d["scales"]["smoke"].update(size_median=4 * 10**9),
            "at most 1000000000 bytes",
        ),
        (
            Workload,
            "metadata",
            lambda d: d["scales"]["smoke"].update(size_sigma=6),
            "size_sigma is 6, but must be at most 5",
        ),
        (Network, "lan-1g", lambda d: d.update(delay_us=1e-12), "delay_us is 1e-12, but must be at least 0.001 µs"),
        (Network, "lan-1g", lambda d: d.update(delay_us=10**7), "delay_us is 10000000, but must be at most 1000000 µs"),
        (Network, "lan-1g", lambda d: d.update(loss_percent=100), "loss_percent is 100, but must be at most 50 %"),
        (Device, "hdd-7200", lambda d: d["disk"].update(rpm=7), "disk.rpm is 7, .* at least 100 rounds a minute"),
        (Device, "hdd-7200", lambda d: d["disk"].update(outer_mb_s=0.01), "must be at least 0.1 MB/s"),
        (Device, "hdd-7200", lambda d: d["disk"].update(track_to_track_ms=1e-9), "must be at least 0.001 ms"),
        (Layer, "single", lambda d: d.update(least_mib=2**30), "least_mib is 1073741824, .* at most 1048576 MiB"),
    ],
)
def test_what_no_machine_has(kind, name, change, told):
    """A slip in a unit: the limit is named, with its unit."""
    data = Catalog().get(kind, name).as_json()
    change(data)
    with pytest.raises(UserError, match=told):
        Catalog().add(kind, name, data)


def some(published: dict, key: str) -> dict:
    """A claim with that key."""
    return next(claim for claim in published["claims"] if key in claim)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("bash -c '$ENGINE mdtest \"x'", "is not a valid shell script: No closing quotation"),
        ("engine", "engine lacks the name of the program to run"),
        ("bash -c 'true; $ENGINE; true'", "engine lacks the name of the program to run"),
        ("engine mdtest " + "{long}" * 100, "cannot be checked: Argument list too long"),
        ("engine look-alike {tree:none}", "tree 'none' does not exist"),
    ],
)
def test_commands_that_the_engine_cannot_be_asked_about(run, told):
    def change(workload):
        workload["phases"][0]["run"] = run
        for scale in workload["scales"].values():
            scale["long"] = "x" * 9000

    with pytest.raises(UserError, match=told) as found:
        make_with(Workload, "mdtest", change, workload="mdtest")
    assert "workflow/workloads/mdtest.yaml: workload mdtest, scale smoke, phase" in str(found.value)
    assert len(str(found.value)) < 400


def test_sentences_are_short_whatever_is_in_a_file():
    for value in ("x" * 9000, ["x"] * 9000, {"x" * 9000: {}}):
        for change in (lambda d: d.update(title=value), lambda d: d.update(stacks=[value])):  # noqa: B023
            with pytest.raises(UserError) as found:
                validate(
                    {**Catalog().get(Study, "quick").as_json(), "x": value} | changed(Study, "quick", change),
                    Study,
                    "f",
                )
            assert len(str(found.value)) < 400
    with pytest.raises(UserError) as found:
        Catalog().get(Study, "x" * 9000)
    assert len(str(found.value)) < 400


def test_the_plan_names_the_job_that_each_trial_will_run():
    catalog = Catalog()
    loads = ["metadata", "metadata+clients2+fill50", "look-alike", "git-annex+aged2", "random-access", "scratch-dna"]
    study = changed(Study, "quick", lambda d: d.update(filesystems=["ext4", "nfs"], workloads=loads, rounds=2))
    catalog.add(Study, "own", study)
    trials = make_plan("own", catalog).trials
    for trial in trials:
        job = rendered(cell(**trial.names()), catalog).text()
        assert trial.job_sha256 == hashlib.sha256(job.encode()).hexdigest(), trial
        assert str(trial.seed) in job
    assert len({trial.job_sha256 for trial in trials}) == len(trials)


def test_mount_options_are_added_to_a_variant():
    catalog = Catalog()
    names = ["ext4", "ext4+default+noatime+commit=60", "btrfs+zstd+discard=async"]
    study = changed(Study, "quick", lambda d: d.update(filesystems=names, rounds=1))
    catalog.add(Study, "own", study)
    plan = make_plan("own", catalog)
    assert {trial.label for trial in plan.trials} == {"ext4+default", *names[1:]}
    variants = plan.filesystems["ext4"].variants
    assert variants["default+noatime+commit=60"].title == "defaults of mke2fs, mounted with noatime, commit=60"
    for trial in plan.trials:
        text = rendered(cell(**trial.names()), catalog).text()
        if trial.filesystem == "btrfs":
            assert "\targ=relatime,compress=zstd:3,discard=async\t" in text
        else:
            more = ",noatime,commit=60" if "+" in trial.variant else ""
            assert f"\targ=relatime{more}\t" in text
            # What the kernel must then report: the last word on access times holds.
            expected = "expect=noatime\texpect=commit=60" if more else "expect=relatime"
            assert f"mounted\tpath=/run/reprofs/mnt\ttype=ext4\t{expected}\n" in text


@pytest.mark.parametrize(
    ("filesystem", "variant", "words"),
    [
        ("ext4", "defualt+noatime", "variant of ext4 'defualt' does not exist: did you mean default"),
        ("xfs", "default+nobarrier", "with nobarrier fsync may promise nothing: write a variant with the keys promise"),
        ("f2fs", "default+fsync_mode=nobarrier", "with fsync_mode=nobarrier fsync may promise nothing"),
        ("nfs", "v4.2-sync+noatime", "file system nfs+v4.2-sync+noatime: its mount takes no further options"),
    ],
)
def test_mount_options_that_cannot_be_added(filesystem, variant, words):
    catalog = Catalog()
    with pytest.raises(UserError, match=re.escape(words)):
        resolve_cell(cell(filesystem, variant=variant), catalog)
    catalog.add(Study, "own", changed(Study, "quick", lambda d: d.update(filesystems=[f"{filesystem}+{variant}"])))
    with pytest.raises(UserError, match=re.escape(words)):
        make_plan("own", catalog)


def test_processors_are_an_axis_of_the_labs_that_model_them():
    catalog = Catalog()
    study = changed(Study, "quick", lambda d: d.update(filesystems=["ext4"], workloads=["metadata"], rounds=1))
    catalog.add(Study, "own", {**study, "labs": ["exact", "host"], "processors": ["v1-1ns", "v2-0.5ns"]})
    plan = make_plan("own", catalog)
    jobs = {trial.full_lab: trial.job_sha256 for trial in plan.trials}
    assert jobs.keys() == plan.labs.keys() == {"exact@v1-1ns", "exact@v2-0.5ns", "host"}
    assert len(set(jobs.values())) == 3  # so that an edit of a processor repeats its trials
    assert plan.labs["exact@v2-0.5ns"].processor.ns_per_instruction == 0.5
    assert "1 instruction = 0.5 ns" in plan.labs["exact@v2-0.5ns"].clock_text
    assert plan.labs["host"].processor is None
    catalog.add(Study, "own", {**study, "labs": ["exact@v1-1ns"]})  # one of the lab's own
    assert [(trial.lab, trial.processor) for trial in make_plan("own", catalog).trials] == [("exact", "v1-1ns")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labs": ["host@v1-1ns"]}, "host has the processor of its machine: leave out @v1-1ns"),
        ({"processors": ["v2-0.25"]}, "processor 'v2-0.25' does not exist: did you mean v2-0.25ns?"),
        ({"labs": ["exact@v3"]}, "processor 'v3' does not exist"),
    ],
)
def test_wrong_processors_are_one_sentence(change, words):
    catalog = Catalog()
    catalog.add(Study, "own", changed(Study, "quick", lambda d: d.update(change)))
    with pytest.raises(UserError, match=re.escape(words)):
        make_plan("own", catalog)


def test_time_of_an_instruction_is_one_that_the_timer_can_follow():
    processor = {"title": "x", "ns_per_instruction": 0.3, "features": [], "sources": ["x"]}
    with pytest.raises(UserError, match=r"own: ns_per_instruction must be 1, 0\.5 or 0\.25\."):
        Catalog().add(Processor, "own", processor)
