"""Descriptors: every file in the checkout fits its schema, and every mistake gives one sentence with file and key."""

import pytest
from reprofs.catalog import Catalog, validate
from reprofs.errors import UserError
from reprofs.plan import make_plan
from reprofs.trial import render_job

KINDS = ("filesystem", "stack", "device", "workload", "study")
DESCRIPTORS = [(kind, name) for kind in KINDS for name in Catalog().paths(kind)]


@pytest.mark.parametrize(("kind", "name"), DESCRIPTORS)
def test_descriptor_fits_its_schema(kind, name):
    assert Catalog().get(kind, name)["title"]


@pytest.mark.parametrize(
    ("filesystem", "variant"),
    [(fs, variant) for fs in Catalog().paths("filesystem") for variant in Catalog().get("filesystem", fs)["variants"]],
)
@pytest.mark.parametrize("workload", Catalog().paths("workload"))
def test_every_cell_renders(filesystem, variant, workload):
    cell = {"lab": "exact", "filesystem": filesystem, "variant": variant, "stack": "single", "profile": "ssd"}
    job, devices = render_job(
        {**cell, "workload": workload, "scale": "smoke", "round": 1, "seed": 1, "order": 1}, Catalog()
    )
    assert "{" not in job
    assert len(devices) == int(Catalog().get("filesystem", filesystem)["device"])


def test_template_fits_the_schema(root):
    import yaml

    template = root / "workflow/filesystems/_template.yaml"
    assert "example" in validate(yaml.safe_load(template.read_text()), "filesystem", "template")["module"]
    assert "_template" not in Catalog().paths("filesystem")


def test_template_explains_every_key(root):
    from reprofs.catalog import schema

    text = (root / "workflow/filesystems/_template.yaml").read_text()
    for key in schema("filesystem")["properties"]:
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
    from reprofs.trial import expand

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
        .replace("title: ext4", "title: ext2")
        .replace("ext4", "ext2")
    )
    (tmp_path / "ext2.yaml").write_text(text)
    assert "ext2" in Catalog([str(tmp_path)]).paths("filesystem")
    assert "ext2" not in Catalog().paths("filesystem")
