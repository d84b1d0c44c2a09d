"""The Linux guests of the labs: Debian packages -> root image, kernel, initrd, and a manifest of their digests.

A root image depends on envs/guest.yaml alone and is kept in a cache; the initrd holds what changes often (the init,
the load engine), so that an edit of the engine costs milliseconds, not a new image.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import cache_folder, intact, sha256, write_bytes
from reprofs.guest import engine as engines
from reprofs.guest import local, qemu, rootfs
from reprofs.guest.cache import check_space, digest_of, kept, put, writable
from reprofs.guest.engine import build_gate, build_nosync
from reprofs.guest.fetch import Progress, fetch
from reprofs.guest.initrd import BOOT_MODULES, base_initrd, cpio
from reprofs.guest.lock import EROFS, Lock, Package, read_lock, recipe_of, tool_wishes, versions, wish_of
from reprofs.guest.modules import SCRIPTS, add_modules, modules_recipe
from reprofs.guest.trace import IMAGE, IMAGES
from reprofs.guest.unpack import Tree
from reprofs.plan.guest import BASE, Guest, read_guest
from reprofs.project import place as inside
from reprofs.workplace import scratch

INIT = SCRIPTS / "init"
BUILDER = 5  # increase when another root image is made of the same packages (here, unpack.py, rootfs.py)
EPOCH = 1577836800  # 2020-01-01, the guest's first second too: no file is ever from the future
UUID = "00000000-0000-4000-8000-7265726f6673"  # a random one would make two builds differ
PMEM_BYTES = 128 << 20  # the root image is a memory module of the guest, whose size is a multiple of this
KEPT_IMAGES_BYTES = 4 << 30  # of images of jobs; those made last stay
FILES = ("root", "vmlinuz", "initrd", "gate")  # files of a guest, by their keys in the manifest


def build(
    cache: Path,
    manifest: Path,
    engine: Path,
    progress: Progress,
    *,
    name: str = BASE,
    spec: Path | None = None,
    lock: Lock | None = None,
) -> dict:
    """Build a guest, or find it in the cache, and write its manifest if it has changed.

    cache: folder that keeps images (created); manifest: JSON file to write; engine: the runner that the initrd
    carries; progress: called with one line of text now and then; name: base, or a guest of the description;
    spec: the description; lock: its packages, by default those of envs/lab.lock.

    Returns the manifest: schema, suite, memory_mib, kernel (release), root, vmlinuz, initrd and gate (each file,
    relative to the cache, sha256 and bytes), qemu (as qemu.bundle), engine_sha256, lock_sha256 (of the guest's
    packages), packages {name: version}, of the modules that were compiled modules {file: sha256} and compiled_with
    {package: version}, built {part: [of what, sha256]} and unlocked (the parts that are not those of envs/lab.lock).
    Raises UserError when something is missing, full, unwritable or unreachable, or is made of what the lock says and
    has other bytes; nothing half-done stays.
    """
    lock, guest = lock or read_lock(), read_guest(name, spec)
    if not engine.is_file():
        raise UserError(f"the load engine {engine} is missing: run `reprofs guest` first.")
    with writable(cache):
        bundle, root = _bundle_and_root(cache, lock, guest, progress)
        folder = cache / f"root/{root['recipe']}"
        gate = build_gate(cache)
        made = initrd(cache, folder / root["base"], engine, [("init", INIT)])
    digests = {"engine": sha256(engine), "gate": sha256(gate), "initrd": made.stem}
    built = {
        "engine": [engine.name, digests["engine"]],
        "gate": [gate.name, digests["gate"]],
        qemu.QEMU: [bundle["recipe"], bundle["sha256"]],
        f"{name}/root": [root["recipe"], root["root_sha256"]],
        f"{name}/kernel": [root["recipe"], root["vmlinuz"]],
        f"{name}/initrd": [_initrd_of(root["recipe"], digests["engine"], cache), digests["initrd"]],
        **{file: [root["modules_of"][file], digest] for file, digest in root["modules"].items()},
    }
    description = {
        "schema": 1,
        "suite": guest.suite,
        "memory_mib": guest.memory_mib,
        "root": file_of(cache, folder / root["root"], root["root_sha256"]),
        "vmlinuz": file_of(cache, folder / root["vmlinuz"]),
        "initrd": file_of(cache, made, made.stem),
        "gate": file_of(cache, gate, digests["gate"]),
        "qemu": {key: bundle[key] for key in ("folder", "files", "sha256", "version")},
        "engine_sha256": digests["engine"],
        "built": built,
        "unlocked": sorted(part for part, (of, digest) in built.items() if not lock.compare(part, of, digest)),
        **{key: root[key] for key in ("kernel", "lock_sha256", "packages", "modules", "compiled_with")},
    }
    write_bytes(manifest, (json.dumps(description, indent=1, sort_keys=True) + "\n").encode())
    return description


def prepare(cache: Path, name: str, progress: Progress) -> None:
    """Make the parts of a guest that need no engine, so that it can be compiled meanwhile. Raises UserError like
    `build`."""
    with writable(cache):
        _bundle_and_root(cache, read_lock(), read_guest(name), progress)


def _bundle_and_root(cache: Path, lock: Lock, guest: Guest, progress: Progress) -> tuple[dict, dict]:
    for part in ("root", "initrd", "modules"):
        (cache / part).mkdir(parents=True, exist_ok=True)
    return qemu.bundle(cache, progress, lock), _root(cache, lock, guest, progress)


def _initrd_of(root: str, engine: str, cache: Path) -> str:
    """A digest of all that an initrd is made of. root: recipe of the root image; engine: digest of the runner."""
    return digest_of([root, INIT.read_text(), engine, sha256(build_nosync(cache))])


def ensure(name: str, progress: Progress) -> None:
    """Build the guest of this checkout unless all its files exist and match its manifest, and that is of this lock.

    Raises UserError like `build`.
    """
    manifest, cache = inside(f"data/guest/{name}.json"), cache_folder()
    runner = engines.build(cache)
    made_of = _initrd_of(recipe_of_root(read_lock(), read_guest(name)), sha256(runner), cache)
    try:
        known = json.loads(manifest.read_bytes())
        whole = [intact(cache / known[key]["file"], known[key]["sha256"]) for key in FILES]
        whole += [qemu.whole(cache, known["qemu"]), known["built"][f"{name}/initrd"][0] == made_of]
    except (OSError, ValueError, KeyError, TypeError):
        whole = [False]
    if not all(whole):
        build(cache, manifest, runner, progress, name=name)


def make_image(folder: Path, image: Path, tools: Path) -> None:
    """Make the read-only root image of a folder. The same content gives the same bytes, wherever and whenever unpacked.

    Not compressed: the guest pays for decompression in counted instructions, and files can be executed in place. tools:
    a tree with the lock's erofs-utils. No attribute that the host gives its files gets into the image (-x-1).
    """
    _pack(folder, image, tools)
    os.truncate(image, -(-image.stat().st_size // PMEM_BYTES) * PMEM_BYTES)


def keep(folder: Path, cache: Path, say: Progress) -> Path:
    """Make an image of a folder for a job, like `make_image`, and keep it in the cache by its digest.

    Raises UserError when the lock's mkfs.erofs cannot make it.
    """
    images = cache / IMAGES
    with writable(cache), scratch(cache / "work") as work:
        images.mkdir(exist_ok=True)
        _pack(folder, work / "image", erofs_tools(cache, read_lock(), say))
        path = images / f"{sha256(work / 'image')}{IMAGE}"
        (work / "image").rename(path)
    room = KEPT_IMAGES_BYTES
    for old in sorted(images.glob(f"*{IMAGE}"), key=lambda one: one.stat().st_mtime, reverse=True):
        room -= old.stat().st_size
        if room < 0 and old != path:
            old.unlink(missing_ok=True)
    return path


def _pack(folder: Path, image: Path, tools: Path) -> None:
    options = ["--quiet", f"-T{EPOCH}", f"-U{UUID}", "--all-root", "-x-1"]
    rootfs.run(tools, "usr/bin/mkfs.erofs", *options, f"/out/{image.name}", "/tree", tree=folder, out=image.parent)


def erofs_tools(cache: Path, lock: Lock, say: Progress) -> Path:
    """A tree with the lock's erofs-utils, from the cache or its packages."""
    packages = lock.packages(EROFS, tool_wishes(read_guest().suite)[EROFS])
    (cache / "tools").mkdir(exist_ok=True)

    def make(home: Path) -> dict:
        tree = _unpack(home / "tree", cache, lock, packages, say)
        for name in ("tree", "out"):  # for `make_image`
            tree.folder(name)
        files = [path for path in sorted((home / "tree").rglob("*")) if path.is_file() and not path.is_symlink()]
        return {"files": {str(path.relative_to(home)): sha256(path) for path in files}}

    home = cache / "tools" / recipe_of(packages)
    kept(home, make, lambda known: known["files"])
    return home / "tree"


def _unpack(folder: Path, cache: Path, lock: Lock, packages: list[Package], say: Progress) -> Tree:
    """Unpacks packages of the lock, without what no guest needs."""
    files = fetch(cache, lock, packages, say)
    say(f"unpacking {len(packages)} packages")
    into = Tree(folder)
    for package in packages:
        into.add(files[package.name], package.sha256, rootfs.SKIP)
    return into


def recipe_of_root(lock: Lock, guest: Guest) -> str:
    """A digest of all that a guest's root image is made of. Raises UserError like `Lock.packages`."""
    packages, tools = lock.packages(guest.name, wish_of(guest)), lock.packages(EROFS, tool_wishes(guest.suite)[EROFS])
    ingredients: list[object] = [BUILDER, EPOCH, UUID, BOOT_MODULES, rootfs.SKIPPED, rootfs.FOLDERS, rootfs.FILES]
    ingredients += [rootfs.LINKS, rootfs.USERS, guest.modprobe, guest.preload, recipe_of(packages), recipe_of(tools)]
    ingredients += [package.sha256 for package in guest.debs]
    return digest_of([*ingredients, *modules_recipe(lock, guest)])


def _root(cache: Path, lock: Lock, guest: Guest, progress: Progress) -> dict:
    """Description of this guest's root image, which is built if the cache does not have it."""
    packages = lock.packages(guest.name, wish_of(guest))
    recipe = recipe_of_root(lock, guest)
    started = time.monotonic()

    def say(text: str) -> None:
        progress(f"guest image, {time.monotonic() - started:.0f} s: {text}")

    def make(home: Path) -> dict:
        check_space(cache)
        return {"recipe": recipe, **_build_root(home, cache, lock, guest, packages, say)}

    with rootfs.umask():
        return kept(cache / "root" / recipe, make, _named_by_digest)


def _named_by_digest(root: dict) -> dict[str, str]:
    return {root[part]: root[part].partition(".")[0] for part in ("root", "vmlinuz", "base")}


def _build_root(home: Path, cache: Path, lock: Lock, guest: Guest, packages: list[Package], say: Progress) -> dict:
    """Fill the folder `home` with root image, kernel and base initrd; return their description."""
    home.chmod(0o700)  # meanwhile nobody else can start a program of the packages, which may be setuid
    tree = _unpack(home / "tree", cache, lock, packages, say)
    own = local.add(tree, guest)
    release = rootfs.release_of(tree)
    rootfs.plain_modules(tree, release)
    compiled = add_modules(tree, cache, lock, guest, release, say)
    rootfs.finish(tree, guest, release)

    say("making the root image")
    lines = [package.line() for package in packages] + [f"{name} {version}" for name, version in own.items()]
    files = {"vmlinuz": put(home, tree.read(f"boot/vmlinuz-{release}"), "")}
    files["base"] = put(home, base_initrd(tree, release, tree), ".cpio")
    tree.remove("boot")
    tree.folder("boot")
    make_image(tree.root, home / "root.partial", erofs_tools(cache, lock, say))
    digest = sha256(home / "root.partial")
    files["root"] = f"{digest}.erofs"
    (home / "root.partial").rename(home / files["root"])
    shutil.rmtree(tree.root)
    home.chmod(0o755)
    say("done")
    facts = {"kernel": release, "root_sha256": digest, "lock_sha256": digest_of(lines, 64)}
    return {**files, **facts, "packages": versions(packages) | own, **compiled}


def initrd(cache: Path, base: Path, engine: Path, inits: list[tuple[str, Path]]) -> Path:
    """The initrd, in a file named by its digest: `base`, and what changes often. inits: names and files of scripts."""
    carried = [*inits, ("engine", engine), ("nosync.so", build_nosync(cache))]
    content = base.read_bytes() + cpio([(name, 0o755, path.read_bytes()) for name, path in carried])
    path = cache / f"initrd/{hashlib.sha256(content).hexdigest()}.cpio"
    if not intact(path, path.stem):
        write_bytes(path, content)
    return path


def file_of(cache: Path, path: Path, digest: str = "") -> dict:
    """A file of the manifest. digest: if it is known."""
    return {"file": str(path.relative_to(cache)), "sha256": digest or sha256(path), "bytes": path.stat().st_size}
