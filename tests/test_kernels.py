"""Kernels in the place of the guest's own (workflow/kernels): named, locked, built, started; and what they lack."""

import hashlib
import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from conftest import ROOT
from helpers import CATALOG, cell, rendered
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import kernel as kernels
from reprofs.guest import lock
from reprofs.guest import own as own_kernels
from reprofs.guest.initrd import BOOT_MODULES
from reprofs.labs.exact import ExactLab
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import lab_parts
from reprofs.plan.device import Device
from reprofs.plan.guest import read_guest
from reprofs.plan.kernel import Kernel
from reprofs.plan.study import Study
from reprofs.trial.planning import make_plan
from reprofs.trial.resolve import resolve
from reprofs.trial.run import run_trial

ALL = [CATALOG.get(Kernel, name) for name in CATALOG.paths(Kernel)]
CONFIG = "".join(f"CONFIG_{name.partition('|')[0]}=y\n" for name in (*kernels.NEEDED, *kernels.BUILT_IN))
STUDY = {"title": "t", "question": "q", "stacks": ["single"], "profiles": ["ssd"], "filesystems": ["ext4"]}
STUDY |= {"workloads": ["metadata"], "scale": "smoke", "rounds": 1, "seed": 1}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("exact", ("exact", None, None, None)),
        ("exact@v2-0.5ns", ("exact", "v2-0.5ns", None, None)),
        ("exact@v2-0.5ns@debian-6.1", ("exact", "v2-0.5ns", "debian-6.1", None)),
        ("exact@@debian-6.1", ("exact", None, "debian-6.1", None)),
        ("vm@64mib", ("vm", None, None, 64)),
        ("exact@v2-0.5ns@64mib", ("exact", "v2-0.5ns", None, 64)),
        ("exact@v2-0.5ns@debian-6.1@64mib", ("exact", "v2-0.5ns", "debian-6.1", 64)),
    ],
)
def test_a_lab_is_taken_apart_and_joined(text, parts):
    assert lab_parts(text) == parts
    assert cell(lab=text).full_lab == text


def test_kernels_are_an_axis_of_the_exact_lab():
    catalog = Catalog()
    catalog.add(
        Study, "own", {**STUDY, "labs": ["exact", "exact@v1-1ns@debian-7.3", "host"], "kernels": ["debian-6.1"]}
    )
    plan = make_plan("own", catalog)
    places = ["exact@v1-1ns@debian-7.3", "exact@v2-0.5ns@debian-6.1", "host"]
    assert sorted({trial.full_lab for trial in plan.trials}) == places == sorted(plan.labs)
    assert plan.labs[places[1]].kernel.name == "debian-6.1" and plan.labs["host"].kernel is None


@pytest.mark.parametrize(
    ("lab", "words"),
    [("host@@debian-6.1", "host uses the kernel of its machine"), ("exact@@debian-6.2", "did you mean debian-6.1")],
)
def test_a_wrong_kernel_is_one_sentence(lab, words):
    with pytest.raises(UserError, match=words):
        resolve(cell(lab=lab), CATALOG)


def test_what_mkfs_is_told_for_a_kernel_is_in_its_jobs_alone():
    """XFS as Debian 13 makes it is not mounted by 5.10; and nothing else of a job depends on the kernel."""
    old, new, own = (
        rendered(cell("xfs", lab=f"exact{kernel}")).text() for kernel in ("@@debian-5.10", "@@debian-6.1", "")
    )
    assert "lts_5.10.conf" in old and new == own
    assert rendered(cell("ext4", lab="exact@@debian-5.10")).text() == rendered(cell("ext4")).text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"suites": None}, "must have either suites or debs"),
        ({"debs": [{"file": "a.deb", "sha256": "0" * 64}]}, "must have either suites or debs"),
        ({"headers": [{"file": "a.deb", "sha256": "0" * 64}]}, "has headers beside suites, which name them already"),
        ({"config_sha256": "abc"}, "config_sha256"),
    ],
)
def test_a_kernel_has_one_source_and_a_configuration(change, words):
    data = {"title": "t", "suites": ["trixie"], "config_sha256": "0" * 64} | change
    with pytest.raises(UserError, match=words):
        Catalog().add(Kernel, "own", {key: value for key, value in data.items() if value})


def test_the_lock_has_the_packages_and_what_is_built_of_them():
    known = lock.read_lock()
    for kernel in (kernel for kernel in ALL if kernel.suites):
        packages = known.packages(lock.kernel_set(kernel.name), lock.kernel_wish(kernel))
        headers = [package for package in packages if lock.HEADERS.match(package.name)]
        runs = [package for package in packages if lock.KERNEL_FILES.match(package.name)]
        assert runs and headers and len(runs) + len(headers) == len(packages)
        releases = [re.sub(r"linux-(image|headers)-(?=\d)", "", package.name) for package in packages]
        assert any(releases.count(release) == 2 for release in releases), "kernel and headers are of one release"
        for part in ("vmlinuz", "drivers"):
            assert known.built[f"{lock.kernel_set(kernel.name)}/{part}"][0] == kernels.recipe_of_kernel(known, kernel)
    # The same kernel as the guest's own is the same file.
    assert known.built["kernel-debian-6.12/vmlinuz"][1] == known.built["base/kernel"][1]


def test_other_headers_make_another_kernel():
    """Of a kernel's guest they are a part: the module of modelled disks."""
    known, (kernel, *_) = lock.read_lock(), ALL
    before = kernels.recipe_of_kernel(known, kernel)
    packages = known.sets[lock.kernel_set(kernel.name)].packages
    place = next(i for i, package in enumerate(packages) if lock.HEADERS.match(package.name))
    packages[place] = replace(packages[place], sha256="0" * 64)
    assert kernels.recipe_of_kernel(known, kernel) != before


def test_what_a_configuration_lacks_is_named():
    assert kernels.missing(CONFIG) == []
    lacking = CONFIG.replace("CONFIG_DEVPORT=y", "# CONFIG_DEVPORT is not set").replace("EROFS_FS=y", "EROFS_FS=m")
    assert kernels.missing(lacking) == ["CONFIG_DEVPORT"]


def test_a_kernel_whose_image_of_the_system_is_no_disk_or_cannot_be_checked_is_refused():
    """Both were accepted once, and did not start."""
    other = CONFIG.replace("CONFIG_BTT=y", "CONFIG_NVDIMM_PFN=y")
    assert other != CONFIG and kernels.missing(other) == []
    assert kernels.missing(CONFIG.replace("CONFIG_BTT=y\n", "")) == ["CONFIG_BTT or CONFIG_NVDIMM_PFN"]
    for manager in "", "CONFIG_CRYPTO_MANAGER=m\n":
        assert kernels.missing(CONFIG.replace("CONFIG_CRYPTO_MANAGER=y\n", manager)) == ["CONFIG_CRYPTO_MANAGER=y"]


def test_the_configuration_for_a_small_kernel_has_all_that_guests_use():
    config = (ROOT / "envs/guest.config").read_text()
    assert kernels.missing(config) == []
    names = yaml.safe_load((ROOT / "envs/guest.yaml").read_text())["guests"]
    wanted = {*BOOT_MODULES, *(module for name in names for module in read_guest(name).preload)}
    others = {"dm-mod": "BLK_DEV_DM", "nd_pmem": "BLK_DEV_PMEM", "crc32c_generic": "CRYPTO_CRC32C"}
    plain = {option.replace("_", "").lower() for option in re.findall(r"^CONFIG_(\w+)=[ym]$", config, re.MULTILINE)}
    for name in wanted - {"zfs"}:  # which is no part of the kernel
        option = re.sub("[-_]", "", others.get(name, name)).lower()
        assert any(option in one for one in plain), name


def a_package(folder: Path, config: str = CONFIG, release: str = "6.99-mine", padding: int = 0) -> Path:
    """A package with a kernel that nobody built. padding: bytes of a module."""
    content = folder / "content"
    modules = content / "lib/modules" / release
    for made in (content / "DEBIAN", content / "boot", modules / "kernel"):
        made.mkdir(parents=True)
    (content / "DEBIAN/control").write_text(
        "Package: linux-mine\nVersion: 1\nArchitecture: amd64\nMaintainer: N <n@example.org>\nDescription: mine\n"
    )
    (content / f"boot/vmlinuz-{release}").write_bytes(b"a kernel")
    (content / f"boot/config-{release}").write_text(config)
    (modules / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\nkernel/fs/nfs-common.ko\n")
    (modules / "modules.order").write_text("")
    if padding:
        (modules / "kernel/large.ko").write_bytes(random.Random(1).randbytes(padding))
    deb = folder / "mine.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", content, deb], check=True)
    return deb


@pytest.fixture
def own(tmp_path):
    """A function that makes a kernel of one's own of a package with this configuration."""

    def make(config: str = CONFIG, release: str = "6.99-mine") -> Kernel:
        deb = a_package(tmp_path, config, release)
        catalog, digest = Catalog(), hashlib.sha256(config.encode()).hexdigest()
        entry = {"file": str(deb), "sha256": files.sha256(deb)}
        catalog.add(Kernel, "mine", {"title": "mine", "debs": [entry], "config_sha256": digest})
        return catalog.get(Kernel, "mine")

    return make


def built(kernel: Kernel, engine):
    return kernels.build(files.cache_folder(), lock.read_lock(), kernel, engine, print)


def test_a_kernel_of_ones_own_is_built_of_its_packages(own, engine, guest):
    kernel = own()
    made = built(kernel, engine)
    assert made.release == "6.99-mine" and made.packages == {"linux-mine": "1"}
    assert {"ext4", "nfs_common"} <= set(made.modules)
    for part in made.files.values():
        assert files.sha256(files.cache_folder() / part["file"]) == part["sha256"]
    assert built(kernel, engine) == made
    lab = ExactLab(guest, files.cache_folder(), kernel=(kernel, made))
    found, usual = lab.environment("x"), ExactLab(guest, files.cache_folder()).environment("x")
    assert found["name"] == "exact@v2-0.5ns@mine" and found["kernel"] == "6.99-mine"
    assert found["image_sha256"] == usual["image_sha256"], "the root image is the same for all kernels"
    differ = {key for key in found if found[key] != usual.get(key)}
    assert differ == {
        "name",
        "kernel",
        "kernel_sha256",
        "initrd_sha256",
        "modules_sha256",
        "config_sha256",
        "packages",
    } | {"command"}
    ram = CATALOG.get(Device, "ram")
    assert lab.obstacle([], [], ["ext4"], ram) == ""
    assert lab.obstacle([], [], ["ext4", "xfs"], ram) == "The kernel mine (6.99-mine) has no module xfs."
    assert "modeldisk" not in made.modules, "there are no headers of it"


def test_a_kernel_that_no_guest_can_start_with_is_refused(own, engine):
    with pytest.raises(UserError, match=r"lacks CONFIG_DEVPORT: choose a kernel with these options"):
        built(own(CONFIG.replace("CONFIG_DEVPORT=y\n", "")), engine)


def test_another_configuration_than_its_file_says_is_refused(own, engine):
    kernel = own()
    changed = kernel.model_copy(update={"config_sha256": "0" * 64})
    changed = changed.known_as("mine", kernel.file)
    with pytest.raises(UserError, match=r"config_sha256 is 0000.*, but the configuration of 6\.99-mine has"):
        built(changed, engine)


def built_tree(folder, config: str = CONFIG, release: str = "6.99.0-mine"):
    """A folder as the build of a kernel leaves it."""
    files = {"arch/x86/boot/bzImage": "a kernel", "include/config/kernel.release": f"{release}\n", ".config": config}
    files |= {
        "modules.builtin": "kernel/fs/ext4/ext4.ko\n",
        "modules.order": "kernel/sound/core/snd.ko\nfs/xfs/xfs.o\n",
        "sound/core/snd.ko": "not for a guest",
        "fs/xfs/xfs.ko": "a module",
        "fs/btrfs/btrfs.ko": "of a build before",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """The folder of kernels of a checkout of its own."""
    (tmp_path / "checkout/workflow/kernels").mkdir(parents=True)
    monkeypatch.setattr(own_kernels, "place", lambda path: tmp_path / "checkout" / path)
    return tmp_path / "checkout/workflow/kernels"


def test_a_built_folder_becomes_a_file_that_can_be_built(tmp_path, elsewhere, engine):
    path = own_kernels.write("mine", [], built_tree(tmp_path / "linux"), tmp_path / "cache")
    data = yaml.safe_load(path.read_text())
    catalog = Catalog()
    catalog.add(Kernel, "mine", data)
    made = built(catalog.get(Kernel, "mine"), engine)
    assert (made.release, made.packages) == ("6.99.0-mine", {"linux-mine": "6.99.0-mine"}) and made.modules == [
        "ext4",
        "xfs",
    ]
    path.unlink()
    again = own_kernels.write("mine", [], tmp_path / "linux", tmp_path / "cache")
    assert yaml.safe_load(again.read_text()) == data, "the same folder gives the same bytes"
    with pytest.raises(UserError, match=r"mine\.yaml exists"):
        own_kernels.write("mine", [], tmp_path / "linux", tmp_path / "cache")


@pytest.fixture
def without_code(tmp_path, elsewhere):
    """A kernel of a folder with the names of all that modules are compiled with, and nothing to compile."""
    folder = built_tree(tmp_path / "linux")
    for name in (*own_kernels.FOR_MODULES[2:], own_kernels.OBJTOOL, "scripts/a.o", "include/config/A"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    (folder / "Makefile").write_text("modules:\n\t@echo 'here: error: no kernel' >&2; false\n")
    return yaml.safe_load(own_kernels.write("mine", [], folder, tmp_path / "cache").read_text())


def test_a_folder_with_all_that_modules_are_compiled_with_has_headers(without_code):
    assert len(without_code["debs"]) == len(without_code["headers"]) == 1
    package = without_code["headers"][0]["file"]
    listing = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True)
    names = {line.split("6.99.0-mine/build/")[1] for line in listing.stdout.splitlines()}
    assert names == {*own_kernels.FOR_MODULES, own_kernels.OBJTOOL, own_kernels.RELEASE}


@pytest.mark.wide  # the compiler is unpacked for it, which takes seven seconds
def test_headers_that_cannot_be_compiled_are_one_sentence_with_the_kernels_file(without_code, engine, guest):
    catalog = Catalog()
    catalog.add(Kernel, "mine", without_code)
    with pytest.raises(UserError, match=r"modelled disks for 6\.99\.0-mine: .* failed: .*no kernel"):
        built(catalog.get(Kernel, "mine"), engine)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / ".config").unlink(), r"\.config is missing: build the kernel there first"),
        (lambda folder: (folder / ".config").write_text(""), r"6\.99\.0-mine lacks CONFIG_ACPI_NFIT, .*: set these"),
        (lambda folder: (folder / "include/config/kernel.release").write_text("a b"), "has no kernel release"),
        (lambda folder: (folder / "fs/xfs/xfs.ko").unlink(), r"xfs\.ko is missing: build the modules there first"),
        (lambda folder: (folder / "modules.builtin").unlink() or (folder / "modules.order").unlink(), "modules of 0"),
        (lambda folder: (folder / "include/config/kernel.release").write_bytes(b"\xff"), "has no kernel release"),
        (lambda folder: (folder / "modules.order").write_bytes(b"\xff.ko"), r"\.ko is missing"),
        (lambda folder: (folder / "modules.order").write_text("/dev/null\n/etc/hostname"), r"null is missing"),
    ],
)
def test_what_a_built_folder_lacks_is_named_and_nothing_is_written(tmp_path, elsewhere, damage, words):
    folder = built_tree(tmp_path / "linux")
    damage(folder)
    with pytest.raises(UserError, match=words):
        own_kernels.write("mine", [], folder, tmp_path / "cache")
    assert not list(elsewhere.iterdir()) and not (tmp_path / "cache").exists()


def test_the_command_says_what_is_wrong(tmp_path, reprofs, says):
    says(reprofs("kernel", "mine"), "name either its packages")
    says(reprofs("kernel", "Mine", "a.deb"), "is not a valid kernel name")
    says(reprofs("kernel", "debian-6.1", "a.deb"), "yaml exists")
    says(reprofs("kernel", "mine", str(tmp_path / "a.deb")), "does not exist")


@pytest.mark.soak
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs", "f2fs"])
@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_every_kernel_gives_the_same_numbers_twice(guest, kernel, filesystem, tmp_path):
    trial = cell(filesystem, lab=f"exact@@{kernel.name}")
    first, again = (run_trial(trial, CATALOG, tmp_path / f"{number}.json") for number in (1, 2))
    assert first["status"] == "ok", first["reason"]
    assert first["environment"]["lab"]["config_sha256"] == kernel.config_sha256
    assert first["digests"]["measurement"] == again["digests"]["measurement"]


@pytest.mark.wide
@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_the_module_of_modelled_disks_is_compiled_for_every_kernel(engine, kernel):
    assert "modeldisk" in built(kernel, engine).modules


@pytest.mark.wide
def test_power_is_cut_on_another_kernel_and_all_is_the_same_twice(guest, tmp_path):
    trial = cell("ext4", lab="exact@@debian-6.1", profile="hdd-7200", workload="power-cut")
    first, again = (run_trial(trial, CATALOG, tmp_path / f"{number}.json") for number in (1, 2))
    assert first["status"] == "ok", first["reason"]
    assert first["measurement"]["devices"][0]["name"] == "modeldisk0"
    assert first["digests"]["measurement"] == again["digests"]["measurement"]
