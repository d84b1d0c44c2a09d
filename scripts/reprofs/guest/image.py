"""The Linux guests of the labs: Debian packages -> root image, kernel, initrd, and a manifest of their digests.

A root image depends on envs/guest.yaml alone and is kept in a cache; the initrd holds what changes often (the init,
the load engine), so that an edit of the engine costs milliseconds, not a new image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import cache_folder, intact, sha256, write_bytes
from reprofs.guest import engine as engines
from reprofs.guest import local
from reprofs.guest.debian import EPOCH, Progress, apt_mirrors, check_tools, last_line, unpack, versions
from reprofs.guest.engine import build_gate, build_nosync
from reprofs.guest.initrd import BOOT_MODULES, base_initrd, cpio
from reprofs.guest.modules import COMPILER, SCRIPTS, add_modules, compile_script, module_sets
from reprofs.guest.store import check_space, digest_of, kept, put, writable
from reprofs.plan.guest import BASE, Guest, read_guest
from reprofs.project import place as inside
from reprofs.workplace import end_with_parent

INIT = SCRIPTS / "init"
FINISH = SCRIPTS / "finish.sh"
BUILDER = 4  # increase when this file makes another root image from the same guest.yaml and finish.sh
UUID = "00000000-0000-4000-8000-7265726f6673"  # a random one would make two builds differ
PMEM_BYTES = 128 << 20  # the root image is a memory module of the guest, whose size is a multiple of this
FILES = ("root", "vmlinuz", "initrd", "gate")  # files of a guest, by their keys in the manifest


def build(
    cache: Path,
    manifest: Path,
    engine: Path,
    progress: Progress,
    *,
    name: str = BASE,
    spec: Path | None = None,
    mirrors: list[str] | None = None,
) -> dict:
    """Build a guest, or find it in the cache, and write its manifest.

    cache: folder that keeps images (created); manifest: JSON file to write; engine: the runner that the initrd
    carries; progress: called with one line of text now and then; name: base, or a guest of the description;
    spec: the description; mirrors: lines of an apt sources list, by default from the apt configuration of this machine.

    Returns the manifest: schema, suite, memory_mib, kernel (release), root, vmlinuz, initrd and gate (each file,
    relative to the cache, sha256 and bytes), engine_sha256, lock_sha256, packages {name: version}, and of the modules
    that were compiled modules {file: sha256} and compiled_with {package: version}.
    Raises UserError when something is missing, full, unwritable or unreachable; nothing half-done stays.
    """
    guest = read_guest(name, spec)
    if not engine.is_file():
        raise UserError(f"the load engine {engine} does not exist; build it first")
    with writable(cache):
        for part in ("root", "initrd", "modules"):
            (cache / part).mkdir(parents=True, exist_ok=True)
        root = _root(cache, guest, mirrors, progress)
        folder = cache / f"root/{root['recipe']}"
        initrd, gate = _initrd(cache, folder / root["base"], engine), build_gate(cache)
    description = {
        "schema": 1,
        "suite": guest.suite,
        "memory_mib": guest.memory_mib,
        "kernel": root["kernel"],
        "root": _file(cache, folder / root["root"], root["root_sha256"]),
        "vmlinuz": _file(cache, folder / root["vmlinuz"]),
        "initrd": _file(cache, initrd, initrd.stem),
        "gate": _file(cache, gate),
        "engine_sha256": sha256(engine),
        "lock_sha256": root["lock_sha256"],
        "packages": root["packages"],
        **{key: root[key] for key in ("modules", "compiled_with")},
    }
    write_bytes(manifest, (json.dumps(description, indent=1, sort_keys=True) + "\n").encode())
    manifest.touch()  # also when nothing changed: it is newer than what it was made from
    return description


def ensure(name: str, progress: Progress) -> None:
    """Build the guest of this checkout unless all its files exist and match its manifest.

    Raises UserError like `build`.
    """
    manifest, cache, before = inside(f"data/guest/{name}.json"), cache_folder(), b""
    try:
        before, times = manifest.read_bytes(), manifest.stat()
        known = json.loads(before)
        whole = [intact(cache / known[key]["file"], known[key]["sha256"]) for key in FILES]
    except (OSError, ValueError, KeyError, TypeError):
        whole = [False]
    if not all(whole):
        build(cache, manifest, engines.build(cache), progress, name=name)
        if manifest.read_bytes() == before:  # the same guest again: nothing that was made in it is out of date
            os.utime(manifest, ns=(times.st_atime_ns, times.st_mtime_ns))


def make_image(tree: Path, image: Path) -> None:
    """Make the read-only root image of a tree. The same tree gives the same bytes, wherever it was unpacked and when.

    Not compressed: the guest pays for decompression in counted instructions, and files can be executed in place.
    """
    command = ["mkfs.erofs", f"-T{EPOCH}", f"-U{UUID}", "--all-root", str(image), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", preexec_fn=end_with_parent)
    if done.returncode:
        raise UserError(f"mkfs.erofs could not make the guest's root image: {last_line(done.stderr + done.stdout)}")
    os.truncate(image, -(-image.stat().st_size // PMEM_BYTES) * PMEM_BYTES)


def _root(cache: Path, guest: Guest, mirrors: list[str] | None, progress: Progress) -> dict:
    """Description of this guest's root image, which is built if the cache does not have it."""
    ingredients: list[object] = [BUILDER, EPOCH, UUID, BOOT_MODULES, FINISH.read_text()]
    ingredients += [guest.suite, guest.variant, sorted(guest.packages), guest.modprobe, guest.preload, COMPILER]
    ingredients += [guest.userland] if guest.userland else []
    ingredients += [package.sha256 for package in guest.debs]
    ingredients += [[source, compile_script(name)] for name, source in module_sets(guest)]
    recipe = digest_of(ingredients)
    started = time.monotonic()

    def say(text: str) -> None:
        progress(f"guest image, {time.monotonic() - started:.0f} s: {text}")

    def make(home: Path) -> dict:
        check_tools()
        check_space(cache)
        lines = mirrors or apt_mirrors(guest.suite, guest.component)
        return {"recipe": recipe, **_build_root(home, cache, guest, lines, say)}

    return kept(cache / "root" / recipe, make, _named_by_digest)


def _named_by_digest(root: dict) -> dict[str, str]:
    return {root[part]: root[part].partition(".")[0] for part in ("root", "vmlinuz", "base")}


def _build_root(home: Path, cache: Path, guest: Guest, mirrors: list[str], say: Progress) -> dict:
    """Fill the folder `home` with root image, kernel, base initrd and lock; return their description."""
    tree = home / "tree"
    tree.mkdir()
    say(f"{len(guest.packages)} packages of Debian {guest.suite} and what they need")
    # The kernel and its modules come from the guest's own suite, so that all guests have the same one.
    newer = apt_mirrors(guest.userland) if guest.userland else []
    pin = (
        f"Package: linux-image-* linux-headers-*\nPin: release n={guest.userland}\nPin-Priority: -1\n" if newer else ""
    )
    unpack(tree, guest, guest.packages, FINISH.read_text(), mirrors + newer, say, pin=pin)
    lock = (tree / "packages.lock").read_bytes()
    (tree / "packages.lock").unlink()
    (tree / "etc/apt/sources.list").unlink()  # the mirror is the builder's choice: every mirror has the same bytes
    own = local.add(tree, guest)
    lock += "".join(f"{name}={version}\n" for name, version in own.items()).encode()
    packages = versions(lock)
    (release,) = (path.name for path in (tree / "usr/lib/modules").iterdir())
    compiled = add_modules(tree, cache, guest, packages, release, mirrors, say)

    say("making the root image")
    vmlinuz = tree / "boot" / f"vmlinuz-{release}"
    files = {"vmlinuz": put(home, vmlinuz.read_bytes(), ""), "lock": put(home, lock, ".lock")}
    files["base"] = put(home, base_initrd(tree, release), ".cpio")
    shutil.rmtree(tree / "boot")
    (tree / "boot").mkdir()
    make_image(tree, home / "root.partial")
    digest = sha256(home / "root.partial")
    files["root"] = f"{digest}.erofs"
    (home / "root.partial").rename(home / files["root"])
    shutil.rmtree(tree)
    say("done")
    lock_digest = hashlib.sha256(lock).hexdigest()
    facts = {"kernel": release, "root_sha256": digest, "lock_sha256": lock_digest, "packages": packages}
    return {**files, **facts, **compiled}


def _initrd(cache: Path, base: Path, engine: Path) -> Path:
    """The initrd, in a file named by its digest: `base`, and what changes often."""
    carried = [("init", INIT), ("engine", engine), ("nosync.so", build_nosync(cache))]
    initrd = base.read_bytes() + cpio([(name, 0o755, path.read_bytes()) for name, path in carried])
    path = cache / f"initrd/{hashlib.sha256(initrd).hexdigest()}.cpio"
    if not intact(path, path.stem):
        write_bytes(path, initrd)
    return path


def _file(cache: Path, path: Path, digest: str = "") -> dict:
    """A file of the manifest. digest: if it is known."""
    return {"file": str(path.relative_to(cache)), "sha256": digest or sha256(path), "bytes": path.stat().st_size}
