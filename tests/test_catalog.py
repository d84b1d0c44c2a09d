"""Descriptors: every file in the checkout fits its schema, and every mistake gives one sentence with file and key."""

import json
import re

import pytest
from reprofs.catalog import Catalog, validate
from reprofs.errors import UserError
from reprofs.plan import make_plan
from reprofs.stacks import commands, expand, resolve
from reprofs.trial import render_job

KINDS = ("filesystem", "stack", "device", "workload", "study")
DESCRIPTORS = [(kind, name) for kind in KINDS for name in Catalog().paths(kind)]


def cell(**changes) -> dict:
    """A trial on one device in the exact lab, with some parts changed."""
    trial = {"lab": "exact", "filesystem": "ext4", "variant": "default", "stack": "single", "profile": "ssd"}
    return {**trial, "workload": "metadata", "scale": "smoke", "round": 1, "seed": 1, "order": 1, **changes}


@pytest.mark.parametrize(("kind", "name"), DESCRIPTORS)
def test_descriptor_fits_its_schema(kind, name):
    assert Catalog().get(kind, name)["title"]


@pytest.mark.parametrize(
    ("filesystem", "variant"),
    [(fs, variant) for fs in Catalog().paths("filesystem") for variant in Catalog().get("filesystem", fs)["variants"]],
)
@pytest.mark.parametrize("workload", Catalog().paths("workload"))
def test_every_cell_renders(filesystem, variant, workload):
    descriptor = Catalog().get("filesystem", filesystem)
    lab = "mount" if "path" in descriptor else "exact"
    place = {"lab": lab, "filesystem": filesystem, "variant": variant, "workload": workload}
    if Catalog().get("workload", workload)["raw"] != descriptor["raw"]:
        with pytest.raises(UserError, match=r"measures the device itself|is none and keeps no files"):
            render_job(cell(**place), Catalog())
        return
    if any("crash" in phase for phase in Catalog().get("workload", workload)["phases"]):
        if lab == "mount" or not descriptor["device"]:
            pytest.skip("it has no device whose power could be cut")
        place["profile"] = "hdd-7200"
    job, devices = render_job(cell(**place), Catalog())
    assert not re.search(r"\{[a-z_]+\}", job)
    assert len(devices) == int(descriptor["device"] and lab == "exact")


@pytest.mark.parametrize("stack", [*Catalog().paths("stack"), "md-raid6+lvm@12", "md-raid5x2+btrfs-raid0"])
def test_every_stack_renders_and_is_read_back(stack):
    filesystem = resolve(stack, Catalog()).filesystem or "ext4"
    variant = Catalog().variant(filesystem)[1]
    job, devices = render_job(
        cell(filesystem=filesystem, variant=variant, stack=stack, workload="populated"), Catalog()
    )
    assert not re.search(r"\{[a-z_]+\}", job)
    assert len(devices) == resolve(stack, Catalog()).disks
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
    fresh, used = (commands(stack, disks, clean, "/m") for clean in (True, False))
    assert "--assume-clean" in fresh.build[0] and not fresh.resync
    assert "--assume-clean" not in used.build[0] and used.resync == ["/sys/block/md127/md/sync_action"]
    assert stack.initial_sync(True) == "assumed clean: the disks read as zeros"
    assert stack.initial_sync(False) == "finished before the file system was made"
    assert resolve("md-raid0", Catalog()).initial_sync(False) == "none needed"


@pytest.mark.parametrize("kind", ["filesystem", "stack"])
def test_template_fits_the_schema_and_explains_every_key(root, kind):
    import yaml
    from reprofs.catalog import FOLDERS, schema

    text = (root / FOLDERS[kind] / "_template.yaml").read_text()
    assert validate(yaml.safe_load(text), kind, "template")["title"] == "Example"
    assert "_template" not in Catalog().paths(kind)
    for key in schema(kind)["properties"]:
        assert f"\n{key}:" in text, key


def test_defaults_are_filled_in():
    btrfs = Catalog().get("filesystem", "btrfs")
    assert btrfs["device"] is True
    assert btrfs["variants"]["none"]["mount"] == "relatime"
    assert Catalog().variant("btrfs") == ("btrfs", "none")
    assert Catalog().variant("btrfs+zstd") == ("btrfs", "zstd")


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
    "parts that do not fit": (lambda s: s.update(stacks=["btrfs-raid1"]), ["btrfs-raid1 is made by btrfs itself"]),
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
        Catalog([str(tmp_path)]).paths("filesystem")
    with pytest.raises(UserError, match="not a folder"):
        Catalog([str(tmp_path / "none")]).paths("filesystem")


def test_blocks_are_complete_shuffled_and_repeatable():
    plan = make_plan("quick", Catalog())
    rounds = plan["study"]["rounds"]
    assert plan == make_plan("quick", Catalog())
    assert [t["order"] for t in plan["trials"]] == list(range(1, len(plan["trials"]) + 1))
    orders = []
    for number in range(1, rounds + 1):
        block = [t for t in plan["trials"] if t["round"] == number]
        assert {t["seed"] for t in block} == {plan["study"]["seed"] + number}
        orders.append([(t["filesystem"], t["variant"], t["workload"]) for t in block])
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
    assert plan["stacks"]["md-raid5"]["disks"] == 6 and plan["stacks"]["md-raid5@5"]["family"] == "md-raid5"


def test_plan_is_printed(reprofs):
    done = reprofs("plan", "quick")
    assert done.returncode == 0
    assert "Which of seven file systems" in done.stdout
    assert len(done.stdout.splitlines()) == 4 + len(make_plan("quick", Catalog())["trials"])


def test_another_file_system_is_one_file(tmp_path, root, reprofs):
    """The plan part of it; tests/test_workflow.py runs one to the report."""
    text = (
        (root / "workflow/filesystems/ext4.yaml")
        .read_text()
        .replace("title: ext4", "title: ext9")
        .replace("ext4", "ext9")
    )
    (tmp_path / "ext9.yaml").write_text(text)
    assert "ext9" in Catalog([str(tmp_path)]).paths("filesystem")
    assert "ext9" not in Catalog().paths("filesystem")
