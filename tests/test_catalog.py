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
from helpers import CATALOG, cell, drawn, names, put, rendered
from reprofs.errors import UserError
from reprofs.plan import catalog as catalogs
from reprofs.plan import read, schemas, tree
from reprofs.plan.ages import Ages
from reprofs.plan.catalog import OWN, Catalog, named
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
from reprofs.trial import commands
from reprofs.trial.job import render
from reprofs.trial.planning import make_plan, table
from reprofs.trial.resolve import resolve as resolve_cell
from reprofs.trial.setup import devices

KINDS = (Filesystem, Layer, Device, Network, Processor, Kernel, Ages, Workload, Study)
OF_KIND = {kind.kind: kind for kind in (*KINDS, Published)}
SYSTEMS = list(CATALOG.paths(Filesystem))


@pytest.mark.parametrize("kind", KINDS)
def test_descriptors_fit_their_schema(kind):
    assert all(CATALOG.get(kind, name).title for name in CATALOG.paths(kind))


def refusal(descriptor: Filesystem, load: Workload, lab: str) -> str:
    """The pattern of the sentence by which a file system refuses a workload; empty where they go together."""
    if load.raw != descriptor.raw or load.network != (descriptor.raw and bool(descriptor.hosts)):
        return r"measures the (device|network) itself|is the bare .* without files"
    if lab == "exact" and not common(load.guest, descriptor.guest):
        return f"needs the guest {descriptor.guest}, but workload .* the guest"
    if any(phase.fresh for phase in load.phases) and (lab == "mount" or not descriptor.device or descriptor.hosts):
        return "makes the file system anew, but"
    if (keys := [phase.upkeep for phase in load.phases if phase.upkeep]) and not descriptor.unavailable:
        if lab == "mount" or not descriptor.device or descriptor.hosts:
            return "times the file system's own commands, but .* has no device of its own"
        if not all(getattr(descriptor, key) for key in keys):
            return "times a (check|scrub), but .* has no key"
    if any(phase.outage for phase in load.phases) and not descriptor.outage:
        return r"but file system .* has (none|no key outage)"
    return ""


def fault(filesystem: str, variant: str, workload: str) -> str:
    """What is wrong with the job of a cell; empty: nothing."""
    descriptor, load = CATALOG.get(Filesystem, filesystem), CATALOG.get(Workload, workload)
    place = {"lab": "mount" if descriptor.path else "exact", "stack": descriptor.simplest_stack()}
    refused = refusal(descriptor, load, place["lab"])
    if not refused and any(phase.crash for phase in load.phases):
        if descriptor.path or not descriptor.device or descriptor.hosts:
            return ""  # it has no device whose power could be cut
        place["profile"] = "hdd-7200"
    if not refused and any(phase.visits for phase in load.phases):
        if descriptor.path or not descriptor.device or descriptor.hosts:
            return ""  # nor one whose crash states could be visited
        if load.phases[0].on_crash_disk:
            place["profile"] = "crash"
    name = f"{workload} on {filesystem}+{variant}"
    try:
        parts = resolve_cell(cell(filesystem, variant=variant, workload=workload, **place), CATALOG)
        text = render(parts).text()
    except UserError as error:
        return "" if refused and re.search(refused, str(error)) else f"{name}: {error}"
    if refused:
        return f"{name}: is not refused"
    if left := set(re.findall(r"\{[a-z_]+\}", text)):
        return f"{name}: {', '.join(sorted(left))} stayed in the job"
    disks = parts.stack.disks if descriptor.device and place["lab"] == "exact" else 0
    return "" if len(devices(parts)) == disks else f"{name}: has not {disks} devices"


@pytest.mark.wide
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["drawn", "whole"])
@pytest.mark.parametrize("workload", CATALOG.paths(Workload))
def test_a_workload_makes_a_job_on_every_file_system(workload, whole):
    """In one variant of each, drawn; in `make soak` in all of them."""
    draw, found = drawn(), []
    for system in SYSTEMS:
        variants = list(CATALOG.get(Filesystem, system).variants)
        found += [fault(system, variant, workload) for variant in (variants if whole else [draw.choice(variants)])]
    assert not any(found), "\n".join(filter(None, found))


@pytest.mark.parametrize("filesystem", SYSTEMS)
def test_a_file_system_makes_a_job_in_every_variant(filesystem):
    descriptor = CATALOG.get(Filesystem, filesystem)
    lab = "mount" if descriptor.path else "exact"
    fits = [name for name in CATALOG.paths(Workload) if not refusal(descriptor, CATALOG.get(Workload, name), lab)]
    workload = drawn().choice(fits)
    found = [fault(filesystem, variant, workload) for variant in descriptor.variants]
    assert not any(found), "\n".join(filter(None, found))


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


ATIME = {  # a file system -> the mounts without times of last access while its content is checked
    "btrfs": [["/run/reprofs/mnt"]],
    "ext4+noatime": [],
    "nfs-xfs": [["/run/reprofs/mnt"], ["--mount=/run/hosts/s1.mnt", "/run/reprofs/base"]],
    "fuse2fs": [["/run/reprofs/mnt"]],
    "gluster": [
        ["/run/reprofs/mnt"],
        *([f"--mount=/run/hosts/s{n}.mnt", f"/run/reprofs/s{n}"] for n in (1, 2, 3)),
    ],
}


@pytest.mark.parametrize("workload", ["metadata", "many-inodes"])
@pytest.mark.parametrize("name", ATIME)
def test_a_check_reads_without_times_of_last_access(name, workload):
    """Else relatime would write them in the check, and never in a read that is measured."""
    filesystem, variant = variant_of(name, CATALOG)
    stack = CATALOG.get(Filesystem, filesystem).simplest_stack()
    job = render(resolve_cell(cell(filesystem, variant=variant, workload=workload, stack=stack), CATALOG))
    lines = [step.line() for step in job.steps]
    checks = [n for n, line in enumerate(lines) if line.startswith(("verify\t", "exec\tstage=check "))]
    checks = [n for n in checks if not lines[n].startswith("exec\tstage=check\t")]
    assert checks
    for n in checks:
        for where, option in ((lines[n - len(ATIME[name]) : n], "noatime"), (lines[n + 1 :], "relatime")):
            for line, words in zip(where, ATIME[name], strict=False):
                assert f"remount,bind,{option}" in line and all(f"arg={word}" in line for word in words), line
    assert sum("remount,bind" in line for line in lines) == 2 * len(ATIME[name]) * len(checks)


def test_stack_offers_the_same_room_whatever_it_is_made_of():
    specs = ("single", "md-raid0@24", "md-raid5@3", "md-raid6+lvm", "md-raid10", "btrfs-raid1", "md-raid5-rebuilding")
    for spec in specs:
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
    for name, path in CATALOG.paths(kind).items():
        written = yaml.safe_load(path.read_text())
        check.validate(written if path.stem == name else written[name] | kind.listed)
        check.validate(CATALOG.get(kind, name).as_json())


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


def changed(kind: type[Descriptor], name: str, where, value=None) -> dict:
    """The data of a descriptor after `put`, or after a change of one's own."""
    data = Catalog().get(kind, name).as_json()
    (where if callable(where) else put(where, value))(data)
    return data


def axis_in_no_cross(study: dict) -> None:
    study.pop("profiles")
    study["cells"] = [{"profiles": ["ssd"]}, {"stacks": ["single"]}]


QUICK, EXT4 = "config/studies/quick.yaml", "workflow/filesystems/ext4.yaml"
UNAVAILABLE = "workflow/filesystems/_unavailable.yaml"
MISTAKES = [
    (QUICK, put("filesystems+", "ext5"), "file system 'ext5'", "did you mean ext4"),
    (QUICK, put("filesystems+", "btrfs+zst"), "variant of btrfs 'zst'", "did you mean zstd"),
    (QUICK, put("round", 3), QUICK, "unknown key 'round'", "did you mean rounds"),
    (QUICK, put("seed", "seven"), QUICK, "seed", "'seven'", "integer"),
    (QUICK, put("scale", "smokee"), QUICK, "scale", "did you mean smoke"),
    (QUICK, put("rounds", 0), QUICK, "rounds is 0", "at least 1"),
    (QUICK, put("question", ...), QUICK, "'question' is missing"),
    (QUICK, put("labs", ["exakt"]), "exakt", "exact"),
    (QUICK, put("cells", [{"stack": ["single"]}]), "unknown key 'stack' at cells.0", "did you mean stacks"),
    (QUICK, put("stacks", ...), QUICK, "'stacks' is missing at the top level"),
    (QUICK, axis_in_no_cross, "'profiles' is missing at entry 2 of cells and the top level"),
    (QUICK, put("stacks", ["btrfs-raid1"]), "btrfs-raid1 works only with btrfs"),
    (QUICK, put("workloads", ["meta"]), "workload 'meta'"),
    (EXT4, put("mounts", ["x"]), EXT4, "unknown key 'mounts'", "did you mean mount"),
    (EXT4, put("device", "yes"), EXT4, "device", "boolean"),
    (EXT4, put("variants.default.title", 3), "variants.default.title", "string"),
]


def test_mistakes_in_a_study_and_in_a_file_system(checkout, reprofs, says, edit_yaml):
    for file, change, *words in MISTAKES:
        path = checkout / file
        original = path.read_text()
        edit_yaml(path, change)
        says(reprofs("plan", "quick", cwd=checkout), *words)
        path.write_text(original)
    listed = (checkout / UNAVAILABLE).read_text()
    edit_yaml(checkout / UNAVAILABLE, lambda d: d["avere"].update(title=3))
    says(reprofs("list", cwd=checkout), f"{UNAVAILABLE}: avere", "title", "string")
    (checkout / UNAVAILABLE).write_text("- avere")
    says(reprofs("list", cwd=checkout), UNAVAILABLE, "mapping of names")
    (checkout / UNAVAILABLE).write_text(listed)
    (checkout / EXT4).write_text("title: [")
    says(reprofs("plan", "quick", cwd=checkout), f"{EXT4} line", "not valid YAML")


RULE = {"min": 3, "max": 20, "until": "5 %"}
# Where a value decides which keys there are, and where the keys are names, a sentence still names the key.
NAMED_KEYS = [
    ("device ssd", "backing", "modell", r"backing is 'modell', but must be .*did you mean model"),
    ("device ssd", "disk", {}, "unknown key 'disk' at the top level: known are title"),
    ("device hdd-7200", "disk.kind", "flash", r"disk\.kind is 'flash', but must be 'rotating'"),
    ("device hdd-7200", "disk.kind", ..., "key 'kind' is missing at disk"),
    ("device hdd-7200", "disk.zone", 1, "unknown key 'zone' at disk: did you mean zones"),
    ("filesystem ext4", "variants.default.titel", 1, r"variants\.default: did you mean title"),
    ("filesystem ext4", "type", ..., "the top level lacks the key type: give type, packages"),
    ("workload metadata", "phases.0.run", "x", r"phases\.0 must have one of the keys operation"),
    ("workload metadata", "populate", ["creat"], r"populate\.0 is 'creat', .*did you mean create"),
    ("workload metadata", "scales.smoke.x", [1], r"scales\.smoke\.x is \[1\], but must be"),
    ("study quick", "labs", ["exact", "exact"], "labs must name exact only once"),
    ("study quick", "labs", [], "labs has 0 entries, but must have at least 1"),
    ("study quick", "margins", {"win": 0.1}, "margins must not have a win above equal"),
    ("study quick", "margins", {"equal": 0}, "margins.equal is 0, but must be"),
    ("study quick", "rounds", RULE | {"min": 1}, r"rounds\.min is 1, but must be at least 2"),
    ("study quick", "rounds", RULE | {"max": 2}, "rounds must have a max of at least its min, 3"),
    ("study quick", "rounds", RULE | {"until": 5}, r"rounds\.until is 5, but must be a percentage"),
    ("study quick", "rounds", RULE | {"until": "0 %"}, r"until is '0 %', but must be a percentage above 0"),
    ("study quick", "rounds", RULE | {"until": "101 %"}, "until is '101 %', .* up to 100 %, such as 5 %"),
    ("study quick", "rounds", {"min": 3, "max": 9}, "key 'until' is missing at rounds"),
    ("study quick", "rounds", RULE | {"step": 2}, "unknown key 'step' at rounds: known are min, max"),
    ("stack md-raid6", "summary", ["("], r"summary\.0 is not a regular expression: missing \)"),
    (
        "study quick",
        lambda d: d.update(rounds=RULE, stop="Enough."),
        None,
        "must not have both stop and rounds with until",
    ),
]
BAD_NAMES_IN_FILES = [
    ("filesystem btrfs", "variants.zstd\n", {"title": "x"}, r"a key at variants is 'zstd\\n', but must be a name"),
    ("workload metadata", "phases.0.name", "a\n", r"phases\.0\.name is 'a\\n', but must be"),
    ("workload metadata", "environment", {"A=B": "c"}, "a key at environment is 'A=B', but must"),
    ("stack md-raid5", "filesystem", "$(x)", r"filesystem is '\$\(x\)', but must be the name"),
    ("study quick", "stacks+", "single\n", r"stacks\.1 is 'single\\n', but must be a name"),
]
# A slip in a unit: the limit is named, with its unit.
WHAT_NO_MACHINE_HAS = [
    ("published datalad-2015", lambda d: some(d, "within").update(within=1250000), None, "is 1250000, .* most 10."),
    ("workload metadata", "scales.paper.folders", 4294967296, "folders 4.29497e.09, .* most"),
    ("workload metadata", "scales.smoke.size_median", 4 * 10**9, "at most 1000000000 bytes"),
    ("workload metadata", "scales.smoke.size_sigma", 6, "size_sigma is 6, but must be at most 5"),
    ("network lan-1g", "delay_us", 1e-12, "delay_us is 1e-12, but must be at least 0.001 µs"),
    ("network lan-1g", "delay_us", 10**7, "delay_us is 10000000, but must be at most 1000000 µs"),
    ("network lan-1g", "loss_percent", 100, "loss_percent is 100, but must be at most 50 %"),
    ("device hdd-7200", "disk.rpm", 7, "disk.rpm is 7, .* at least 100 rounds a minute"),
    ("device hdd-7200", "disk.outer_mb_s", 0.01, "must be at least 0.1 MB/s"),
    ("device hdd-7200", "disk.track_to_track_ms", 1e-9, "must be at least 0.001 ms"),
    ("stack single", "least_mib", 2**30, "least_mib is 1073741824, .* at most 1048576 MiB"),
]


def told(value) -> str | None:
    """A value in the name of a test; functions have no name that stays."""
    return None if callable(value) else str(value)


def some(published: dict, key: str) -> dict:
    """A claim with that key."""
    return next(claim for claim in published["claims"] if key in claim)


@pytest.mark.parametrize(
    ("file", "where", "value", "told"), NAMED_KEYS + BAD_NAMES_IN_FILES + WHAT_NO_MACHINE_HAS, ids=told
)
def test_a_mistake_in_a_file_names_its_key(file, where, value, told):
    kind, name = OF_KIND[file.split()[0]], file.split()[1]
    with pytest.raises(UserError, match=told):
        Catalog().add(kind, name, changed(kind, name, where, value))


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
    (tmp_path / "filesystems").mkdir()
    (tmp_path / "filesystems/ext4.yaml").write_text((root / "workflow/filesystems/ext4.yaml").read_text())
    with pytest.raises(UserError, match="same name"):
        Catalog([str(tmp_path)]).paths(Filesystem)
    with pytest.raises(UserError, match="not a folder"):
        Catalog([str(tmp_path / "none")]).paths(Filesystem)
    with pytest.raises(UserError, match=r"has none of the folders filesystems, stacks, .* put your files into these"):
        Catalog([str(tmp_path / "filesystems")]).paths(Workload)


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
    text = (root / EXT4).read_text()
    (tmp_path / "filesystems").mkdir()
    (tmp_path / "filesystems/ext9.yaml").write_text(text.replace("ext4", "ext9"))
    assert "ext9" in Catalog([str(tmp_path)]).paths(Filesystem)
    assert "ext9" not in Catalog().paths(Filesystem)


def test_every_part_of_a_study_may_be_outside_of_the_checkout(tmp_path, root, reprofs):
    """And the study itself; what is there is used as what is here."""
    mine = {"filesystems": "ext4", "workloads": "metadata", "stacks": "single", "devices": "ssd", "networks": "lan-1g"}
    mine |= {"processors": "v2-0.5ns"}
    for folder, name in mine.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.yaml").write_text((root / f"workflow/{folder}/{name}.yaml").read_text())
    study = {"title": "t", "question": "q?", "scale": "smoke", "rounds": 1, "seed": 1, "labs": ["exact"]}
    study |= {"filesystems": ["mine", "nfs"], "stacks": ["mine"], "profiles": ["mine"], "networks": ["mine"]}
    study |= {"workloads": ["mine"], "processors": ["mine"]}
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/mine.yaml").write_text(yaml.safe_dump(study))
    done = reprofs("plan", "mine", "--extra-dir", tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"exact@mine +mine +mine +mine\+default +mine +smoke", done.stdout)
    assert set(OWN) == {kind.folder.rpartition("/")[2] for kind in NAMED if kind is not Published}
    ours, own = make_plan("quick", Catalog()), Catalog([str(tmp_path)])
    assert make_plan("quick", own).as_json() == ours.as_json()


# ---- names -----------------------------------------------------------------------------------------------------------

BAD_NAMES = ["y$(touch PWNED)", "a;b", "a b", "A", "-x", "a\n", "é", "a'b", "a&b", "a|b", "a+b", "a@b", "x" * 65]


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
    folder = tmp_path / ("more/filesystems" if kind == "extra" else kind.folder)
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
        (["trial", "--workload", f"metadata@{'9' * 5000}"], "the number after @ must be from 1 to"),
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


def test_trials_of_one_name_or_too_long_a_one_are_refused():
    catalog = Catalog()
    for name in ("a", "a-b"):
        catalog.add(Layer, name, {"title": name, "disks": {"default": 1}})
    for name in ("b-c", "c", "p" * 60):
        catalog.add(Device, name, {"title": name})
    study = changed(Study, "quick", lambda d: d.update(filesystems=["ext4"], stacks=["a", "a-b"]))
    catalog.add(Study, "own", {**study, "profiles": ["b-c", "c"]})
    with pytest.raises(UserError, match=r"two different trials would have the name r1-exact@v2-0\.5ns-a-b-c-ext4"):
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
        (b"title: \xff", "x.yaml is not valid UTF-8: save it as UTF-8"),
        (b"a: 1\nseen: 2020-13-45", "x.yaml line 2 is not valid YAML: '2020-13-45' cannot be read as timestamp: write"),
        (b"a: " + b"9" * 6000, r"x.yaml line 1 is not valid YAML: '9+\.\.\.9+' cannot be read as int: write another"),
        (b"a: 0x" + b"f" * 6000, "x.yaml: a does not fit into 64 bits: write a smaller number"),
        (b"a: " + b"[" * 3000 + b"]" * 3000, "x.yaml is nested too deeply"),
        (b"a: {b: " + b"[" * 30 + b"]" * 30 + b"}", "a.b.0.*nested too deeply: no descriptor needs more than 20"),
        (b"a: &a [*a]", "x.yaml: a.*expands to more values than the file has characters"),
        (b"a: {b: .nan}", "x.yaml: a.b is nan: write a finite number"),
        (b"a: [1, -.inf]", "x.yaml: a.1 is -inf: write a finite number"),
        (b'a: "b\\0c"', "x.yaml: a has a character that no file or command can have"),
        (b'a: "\\ud800"', "x.yaml: a has a character that no file or command can have"),
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


def test_what_libyaml_alone_takes_is_refused_with_its_line(tmp_path):
    """A tab before a value; the schema is what refuses the file, and the line is still found."""
    path = tmp_path / "x.yaml"
    path.write_text("title:\tQuick\n\nwrong: 1\n")
    with pytest.raises(UserError, match=r"x\.yaml line 3: unknown key 'wrong'"):
        read_yaml(path, Study)


def make_with(file: str, where, value=None, **place) -> None:
    """The job of a cell with a changed descriptor in it."""
    kind, name = OF_KIND[file.split()[0]], file.split()[1]
    catalog = Catalog()
    catalog.get(kind, name)
    catalog.add(kind, name, changed(kind, name, where, value))
    rendered(cell(**({"profile" if kind is Device else kind.kind: name} | place)), catalog)


@pytest.mark.parametrize(
    ("file", "where", "value", "told"),
    [
        ("filesystem ext4", "make", ["  "], r"make\.0 is ' ', but must be a command, not blank"),
        ("filesystem ext4", "make", ["{make}"], r"filesystems/ext4.yaml: make: '\{make\}' has no program"),
        ("filesystem ext4", "check", ["e2fsck 'x"], "filesystems/ext4.yaml: check: .*no closing quot"),
        (
            "filesystem ext4",
            "variants.default.make",
            "-L 'x",
            r"filesystems/ext4.yaml: make: \{make\}: \"-L 'x\" cannot be split into words",
        ),
        ("filesystem ext4", "sync", ["{device.x}"], "ext4.yaml: sync: .* has an unknown placeholder"),
        ("filesystem ext4", "sync", ["{device:>9}"], "ext4.yaml: sync: .* has an unknown placeholder"),
        ("workload metadata", "size", "file", "metadata.yaml: size is 'file', which is not a whole"),
        ("workload metadata", "phases.0.limit_s", 10**25, r"phases\.0\.limit_s is 1.*, but must be at most"),
        ("stack md-raid10", "disks.multiple_of", 5, "md-raid10.yaml: disks.default is 6, but must"),
        ("stack single", "data", "n-1", "stacks/single.yaml: data is n-1, which leaves nothing"),
        ("stack single", "devices", ["{first_half}"], "stacks/single.yaml: devices is empty"),
        ("device ssd", "bandwidth_mb_s", 5, "devices/ssd.yaml: bandwidth_mb_s is 5"),
        ("device ssd", "completion_ns", 10**25, "completion_ns is 1.*, but must be at most 1000000000 ns"),
        ("device ssd", "completion_ns", 3.0, "completion_ns is 3.0, but must be of type integer"),
        ("device hdd-7200", "disk.outer_mb_s", 1e25, r"outer_mb_s is 1e\+25, but must be at most"),
        ("kernel debian-6.1", "make", {"xfs": "-L $X"}, r"debian-6.1.*make.xfs has a \$, but no shell reads it: write"),
    ],
    ids=told,
)
def test_what_no_job_is_made_of(file, where, value, told):
    with pytest.raises(UserError, match=told) as found:
        make_with(file, where, value)
    assert len(str(found.value)) < 300


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("bash -c '$ENGINE mdtest \"x'", "is not a valid shell script: No closing quotation"),
        ("engine", "engine has no program"),
        ("bash -c 'true; $ENGINE; true'", "engine has no program"),
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
        make_with("workload mdtest", change)
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
    loads = [
        "metadata",
        "metadata+clients2+fill50",
        "metadata+agrawal20+pulls3",
        "look-alike",
        "git-annex+aged2",
        "random-access",
        "scratch-dna",
    ]
    study = changed(Study, "quick", lambda d: d.update(filesystems=["ext4", "nfs"], workloads=loads, rounds=2))
    catalog.add(Study, "own", study)
    trials = make_plan("own", catalog).trials
    for trial in trials:
        job = rendered(cell(**trial.names()), catalog).text()
        assert trial.job_sha256 == hashlib.sha256(job.encode()).hexdigest(), trial
        assert str(trial.seed) in job
    assert len({trial.job_sha256 for trial in trials}) == len(trials)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("find . -exec rm {} +", ["find", ".", "-exec", "rm", "{}", "+"]),
        ("find . -exec mv {} {}.old ';'", ["find", ".", "-exec", "mv", "{}", "{}.old", ";"]),
        ("sh -c '{{ echo {n}; }} >x'", ["sh", "-c", "{ echo 1 2; } >x"]),
        ("awk '{{print $1}}' ${{HOME}} {{}} {{{n}}} {{n}}", ["awk", "{print $1}", "${HOME}", "{}", "{1 2}", "{n}"]),
        ("echo {n} a{n}", ["echo", "1", "2", "a1 2"]),
        ("echo '{}{{'}}", ["echo", "{}{}"]),
    ],
)
def test_braces_in_commands(command, words):
    assert expand(command, {"n": "1 2"}, "here") == words


@pytest.mark.parametrize("word", ["{ echo; }", "{", "}", "{a}}", "{n!r}", "{n:>9}", "{n.x}", "{0}", "{1,6}", "a{"])
def test_a_brace_that_is_no_placeholder_is_told_how_it_is_written(word):
    with pytest.raises(
        UserError, match=r"^here: .*has an unknown placeholder; known: \{n\}. A brace is written twice"
    ) as it:
        expand(f"sh -c '{word}'", {"n": "1"}, "here")
    assert len(str(it.value)) < 300


def test_braces_in_a_workload_reach_the_plan():
    catalog = Catalog()
    data = changed(
        Workload,
        "look-alike",
        lambda d: d["phases"].append({"name": "find", "title": "Find", "run": "find . -exec stat {} +"}),
    )
    catalog.add(Workload, "own", data)
    catalog.add(Study, "own", changed(Study, "quick", lambda d: d.update(workloads=["own"], rounds=1)))
    assert "find . -exec stat '{}' +" in commands.text(make_plan("own", catalog), catalog)


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


def test_options_of_mkfs_are_added_to_a_variant_and_shown():
    """With mount options, too; a trial without them is the same as before."""
    catalog = Catalog()
    names = ["ext4", "ext4+default+mkfs:-O:fast_commit,^64bit", "ext4+casefold+noatime+mkfs:-m:0"]
    names += ["xfs+default+mkfs:-m:rmapbt=0+inode32"]
    catalog.add(Study, "own", changed(Study, "quick", lambda d: d.update(filesystems=names, rounds=1)))
    plan = make_plan("own", catalog)
    assert {trial.label for trial in plan.trials} == {"ext4+default", *names[1:]}
    jobs = {trial.label: rendered(cell(**trial.names()), catalog).text() for trial in plan.trials}
    plain = jobs["ext4+default"]
    assert plain.replace("arg=-q\targ=-F\t", "arg=-q\targ=-F\targ=-O\targ=fast_commit,^64bit\t") == jobs[names[1]]
    assert "arg=-F\targ=-O\targ=casefold\targ=-m\targ=0\t" in jobs[names[2]] and "noatime" in jobs[names[2]]
    assert "arg=-f\targ=-m\targ=rmapbt=0\t" in jobs[names[3]] and "expect=inode32" in jobs[names[3]]
    variants = plan.filesystems["ext4"].variants
    assert variants["default+mkfs:-O:fast_commit,^64bit"].title == "defaults of mke2fs, made with -O fast_commit,^64bit"
    assert variants["casefold+noatime+mkfs:-m:0"].title.endswith(", made with -m 0, mounted with noatime")
    assert "mkfs.ext4 -q -F -O fast_commit,^64bit " in commands.text(plan, catalog).replace("'", "")
    assert names[1] in table(plan)


@pytest.mark.parametrize(
    "option", ["x y", "mkfs:", "mkfs:-O::x", "mkfs:/dev/sda", "mkfs:-d:name=/dev/sda", "mkfs:-O;x", "A"]
)
def test_an_option_that_could_be_more_than_one_is_refused(option, says, reprofs):
    """A device besides the trial's, a word of a shell, an option within an option."""
    words = [
        "--lab",
        "exact",
        "--filesystem",
        "ext4",
        "--stack",
        "single",
        "--profile",
        "ssd",
        "--workload",
        "metadata",
    ]
    more = ["--scale", "smoke", "--round", "1", "--seed", "1", "--output", "/tmp/none.json"]
    says(
        reprofs("trial", *words, "--variant", f"default+{option}", *more),
        "is neither a mount option",
        "write a variant",
    )


@pytest.mark.parametrize(
    ("filesystem", "variant", "words"),
    [
        ("ext4", "defualt+noatime", "variant of ext4 'defualt' does not exist: did you mean default"),
        ("xfs", "default+nobarrier", "with nobarrier fsync may not be durable: write a variant with the keys promise"),
        ("f2fs", "default+fsync_mode=nobarrier", "with fsync_mode=nobarrier fsync may not be durable"),
        ("nfs", "v4.2-sync+noatime", "file system nfs+v4.2-sync+noatime: it takes no further mount options"),
        ("nfs", "v4.2-sync+mkfs:-O:x", "it takes no further mkfs options"),
        ("tmpfs", "default+mkfs:-O:x", "it takes no further mkfs options"),
        ("ext4", "default+mkfs:-E:mount_opts=nobarrier", "with mount_opts fsync may not be durable"),
    ],
)
def test_options_that_cannot_be_added(filesystem, variant, words):
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
        ({"labs": ["host@v1-1ns"]}, "host uses the CPU of its machine: leave @v1-1ns out"),
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
