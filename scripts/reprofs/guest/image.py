"""The Linux guests of the labs: Debian packages -> root image, kernel, initrd, and a manifest of their digests.

A root image depends on envs/guest.yaml alone and is kept in a cache; the initrd holds what changes often (the init,
the load engine), so that an edit of the engine costs milliseconds, not a new image. Kernel modules that Debian has as
source only are compiled once for each version of theirs and of the kernel, and kept in the cache too.
"""

import contextlib
import fcntl
import hashlib
import io
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reprofs.errors import UserError, cut, short
from reprofs.files import cache_folder, intact, sha256, write_bytes
from reprofs.guest import engine as engines
from reprofs.guest.engine import build_gate, build_nosync
from reprofs.plan.catalog import NAME, NAME_RULE, parse
from reprofs.project import place as inside
from reprofs.workplace import end_with_parent, workplace

HERE = Path(__file__).resolve()
SPEC = HERE.parents[3] / "envs" / "guest.yaml"
SCRIPTS = HERE.parents[2] / "guest"
INIT = SCRIPTS / "init"
FINISH = SCRIPTS / "finish.sh"

BUILDER = 4  # increase when this file makes another root image from the same guest.yaml and finish.sh
EPOCH = 1577836800  # 2020-01-01, the guest's first second too: no file is ever from the future
UUID = "00000000-0000-4000-8000-7265726f6673"  # a random one would make two builds differ
BOOT_MODULES = (
    "crc32c_generic",
    "nfit",
    "nd_pmem",
    "erofs",
    "overlay",
)  # erofs asks for crc32c but does not depend on it
# What compiles modules, besides their source and the kernel's headers.
COMPILER = "base-files,base-passwd,bash,binutils,coreutils,dash,diffutils,findutils,gcc,grep,gzip,kmod,libc-bin,"
COMPILER += "libc6-dev,make,mawk,perl-base,sed,tar"
APT_READ_ONLY = """
for folder in /var/lib/apt /var/cache/apt; do
    [ -d "$folder" ] || continue
    mount --bind "$folder" "$folder"
    mount -o remount,bind,ro "$folder"
done
exec "$@"
"""
# tar stops reading at the end of the archive, before its padding: SIGPIPE would kill whoever still writes that.
DRAINED = '"$@" && cat > /dev/null'
FREE_BYTES = 1_500_000_000  # the unpacked tree and the image made from it exist at the same time
HEARTBEAT_S = 10
PMEM_BYTES = 128 << 20  # the root image is a memory module of the guest, whose size is a multiple of this
PARTS = ("root", "vmlinuz", "initrd", "gate")  # files of a guest, by their keys in the manifest
MEMORY_MAX_MIB = 1 << 20  # a tebibyte, more than any machine lends to a guest

Progress = Callable[[str], None]


def build(
    cache: Path,
    manifest: Path,
    engine: Path,
    progress: Progress,
    *,
    name: str = "base",
    spec: Path = SPEC,
    mirrors: list[str] | None = None,
) -> dict:
    """Build a guest, or find it in the cache, and write its manifest.

    cache: folder that keeps images (created); manifest: JSON file to write; engine: the static load engine that the
    initrd carries; progress: called with one line of text now and then; name: base, or a guest of the description;
    spec: the description; mirrors: lines of an apt sources list, by default from the apt configuration of this machine.

    Returns the manifest: schema, suite, memory_mib, kernel (release), root, vmlinuz, initrd and gate (each file,
    relative to the cache, sha256 and bytes), engine_sha256, lock_sha256, packages {name: version}, and of the modules
    that were compiled modules {file: sha256} and compiled_with {package: version}.
    Raises UserError when something is missing, full, unwritable or unreachable; nothing half-done stays.
    """
    guest = read_spec(spec, name)
    if not engine.is_file():
        raise UserError(f"the load engine {engine} does not exist; build it first")
    with _writable(cache):
        for folder in ("root", "initrd", "modules"):
            (cache / folder).mkdir(parents=True, exist_ok=True)
        root = _root(cache, guest, mirrors, progress)
        folder = f"root/{root['recipe']}"
        carried = [("init", INIT), ("engine", engine), ("nosync.so", build_nosync(cache))]
        initrd = (cache / folder / root["base"]).read_bytes() + cpio(
            [(name, 0o755, path.read_bytes()) for name, path in carried]
        )
        digest = hashlib.sha256(initrd).hexdigest()
        gate = build_gate(cache)
        if not (cache / f"initrd/{digest}.cpio").exists():
            write_bytes(cache / f"initrd/{digest}.cpio", initrd)
    found = {
        "schema": 1,
        "suite": guest["suite"],
        "memory_mib": guest["memory_mib"],
        "kernel": root["kernel"],
        "root": {"file": f"{folder}/{root['root']}", **_identity(cache / folder / root["root"], root["root_sha256"])},
        "vmlinuz": {"file": f"{folder}/{root['vmlinuz']}", **_identity(cache / folder / root["vmlinuz"])},
        "initrd": {"file": f"initrd/{digest}.cpio", **_identity(cache / f"initrd/{digest}.cpio", digest)},
        "gate": {"file": str(gate.relative_to(cache)), **_identity(gate)},
        "engine_sha256": sha256(engine),
        "lock_sha256": root["lock_sha256"],
        "packages": root["packages"],
        **{key: root[key] for key in ("modules", "compiled_with")},
    }
    write_bytes(manifest, (json.dumps(found, indent=1, sort_keys=True) + "\n").encode())
    manifest.touch()  # also when nothing changed: it is newer than what it was made from
    return found


def ensure(name: str, progress: Progress) -> None:
    """Build the guest of this checkout unless all its files exist and match its manifest.

    Raises UserError like `build`.
    """
    manifest, cache = inside(f"data/guest/{name}.json"), cache_folder()
    try:
        parts = json.loads(manifest.read_text())
        whole = [intact(cache / parts[part]["file"], parts[part]["sha256"]) for part in PARTS]
    except (OSError, ValueError, KeyError, TypeError):
        whole = [False]
    if not all(whole):
        build(cache, manifest, engines.build(cache), progress, name=name)


def read_spec(path: Path = SPEC, name: str = "base") -> dict:
    """The description of the guest `name`, checked: the one in envs/guest.yaml, and what its section under guests adds.

    Keys: name, suite, variant, memory_mib, packages, preload, component, userland, modules, modprobe (the last five may
    be empty).
    Raises UserError naming file and key.
    """
    guest = parse(path, str(path))
    kinds = {"suite": str, "variant": str, "memory_mib": int, "packages": list, "preload": list, "guests": dict}
    _check_keys(guest, kinds, f"{path}", kinds.keys() - {"guests", "preload"})
    if not 512 <= guest["memory_mib"] <= MEMORY_MAX_MIB:
        raise UserError(
            f"{path} gives memory_mib {guest['memory_mib']}, but the guest needs at least 512 and can have at most "
            f"{MEMORY_MAX_MIB}"
        )
    known = {"base": {"packages": []}, **guest.pop("guests", {})}
    for other, section in known.items():
        kinds = {"component": str, "userland": str, "packages": list, "preload": list, "modules": str, "modprobe": list}
        _check_keys(section, kinds, f"{path} under guests.{cut(other, 80)}", {"packages"})
    # The first two are options of mmdebstrap, component and userland are in lines of apt's, a guest's name is a file's.
    words = [guest["suite"], guest["variant"], *known]
    for word in words + [
        section[key] for section in known.values() for key in ("component", "userland") if key in section
    ]:
        if not NAME.fullmatch(word):
            raise UserError(f"{path}: {short(word)} must have {NAME_RULE}")
    if name not in known:
        raise UserError(f"there is no guest {short(name)}; the guests of {path} are {cut(', '.join(known))}")
    more = known[name]
    packages = more["packages"] + guest["packages"]
    for package in [*packages, *([more["modules"]] if "modules" in more else [])]:
        if not (isinstance(package, str) and re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", package)):
            raise UserError(f"{path} lists {short(package)} under packages, which is not the name of a Debian package")
    for line in more.get("modprobe", []):
        if not isinstance(line, str):
            raise UserError(f"{path} under guests.{name} gives {short(line)} in modprobe, which is not a line of text")
    preload = guest.get("preload", []) + more.get("preload", [])
    for module in preload:
        if not (isinstance(module, str) and re.fullmatch(r"[a-z0-9_-]+", module)):
            raise UserError(f"{path} lists {short(module)} under preload, which is not the name of a module")
    own = {"packages": packages, "preload": preload, "name": name}
    return {"component": "", "userland": "", "modules": "", "modprobe": [], **guest, **more, **own}


def _check_keys(found: object, kinds: dict[str, type], place: str, needed: set[str]) -> None:
    if not isinstance(found, dict):
        raise UserError(f"{place} must be a mapping with the keys {', '.join(kinds)}")
    for key in found.keys() - kinds.keys():
        raise UserError(f"{place} has the unknown key {short(key)}; known keys are {', '.join(kinds)}")
    for key, kind in kinds.items():
        if (key in found or key in needed) and type(found.get(key)) is not kind:
            raise UserError(f"{place} must give {key} as {kind.__name__}, not {short(found.get(key))}")


def apt_mirrors(suite: str, component: str = "") -> list[str]:
    """Lines of a sources list for `suite`, with the mirrors of this machine's apt. Raises UserError when it has none.

    component: one besides main, or empty.
    """
    listing = _apt_targets()
    if not listing:  # as after a clean-up of /var/lib/apt/lists: apt knows its sources but none of their indexes
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "lists/partial").mkdir(parents=True)
            state = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}"]
            _output(["apt-get", "update", *state])
            listing = _apt_targets(*state)
    lines = []
    for line in listing:
        created_by, part, origin, release, uri = line.split("|")
        if created_by != "Packages" or part != "main" or origin not in ("Debian", "$(ORIGIN)", ""):
            continue
        security = release.endswith("-security")
        if security and suite in ("sid", "unstable"):
            continue  # Debian keeps no security archive for it
        target = f"{suite}-security" if security else suite
        lines.append(f"deb {uri} {target} main {component}".rstrip())
    if not any(line.split()[2] == suite for line in lines):
        raise UserError(
            "the apt configuration of this machine names no Debian mirror to take the guest's packages from "
            f"(apt-get indextargets gives {len(listing)} indexes); "
            "add one to /etc/apt/sources.list.d and run apt-get update"
        )
    return sorted(set(lines))


def _apt_targets(*options: str) -> list[str]:
    """One line for each index that apt has fetched: creator, component, origin, release, mirror."""
    fields = "$(CREATED_BY)|$(COMPONENT)|$(ORIGIN)|$(RELEASE)|$(REPO_URI)"
    return _output(["apt-get", *options, "indextargets", "--format", fields]).splitlines()


def apt_options() -> list[str]:
    """The options by which this machine's apt reaches its mirrors (proxies, retries, date checks), as in apt.conf."""
    names = r"Acquire::(https?::|Retries|ForceIPv|Check-|Max-FutureTime|Languages)"
    return [line for line in _output(["apt-config", "dump"]).splitlines() if re.match(names, line) and '""' not in line]


def cpio(entries: list[tuple[str, int, bytes | None]]) -> bytes:
    """An uncompressed newc archive (the kernel's initramfs format) of (path, mode bits, content; None: a folder).

    The same entries give the same bytes: owner root, times 0, inodes counted. Archives may be joined.
    Source: Documentation/driver-api/early-userspace/buffer-format.rst of Linux.
    """
    out = io.BytesIO()
    for inode, (path, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        kind = 0o040000 if content is None else 0o100000
        data = content or b""
        name = path.encode() + b"\0"
        fields = (inode, kind | mode, 0, 0, 2 if content is None else 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        out.write(b"070701" + b"".join(b"%08x" % field for field in fields) + name)
        out.write(bytes(-out.tell() % 4) + data)
        out.write(bytes(-out.tell() % 4))
    return out.getvalue()


def module_order(dependencies: str, wanted: tuple[str, ...]) -> list[str]:
    """Paths of the modules to insert, in order, for the modules in `wanted`. dependencies: the text of modules.dep."""

    def name(path: str) -> str:
        return re.sub(r"\.ko.*", "", Path(path).name).replace("-", "_")

    needs = {}
    for line in dependencies.splitlines():
        path, _, rest = line.partition(":")
        # The last one named is needed first.
        needs[name(path)] = [*reversed(rest.split()), path]
    order: dict[str, None] = {}
    for module in wanted:
        if module not in needs:
            raise UserError(
                f"the guest's kernel has no module {module}; choose a suite in envs/guest.yaml whose kernel has it"
            )
        order.update(dict.fromkeys(needs[module]))
    return list(order)


def make_image(tree: Path, image: Path) -> None:
    """Make the read-only root image of a tree. The same tree gives the same bytes, wherever it was unpacked and when.

    Not compressed: the guest pays for decompression in counted instructions, and files can be executed in place.
    """
    command = ["mkfs.erofs", f"-T{EPOCH}", f"-U{UUID}", "--all-root", str(image), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", preexec_fn=end_with_parent)
    if done.returncode:
        raise UserError(f"mkfs.erofs could not make the guest's root image: {_last_line(done.stderr + done.stdout)}")
    os.truncate(image, -(-image.stat().st_size // PMEM_BYTES) * PMEM_BYTES)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: two processes never make the same thing at once. The lock ends with its process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _root(cache: Path, guest: dict, mirrors: list[str] | None, progress: Progress) -> dict:
    """Description of this guest's root image, which is built if the cache does not have it."""
    ingredients: list[object] = [BUILDER, EPOCH, UUID, BOOT_MODULES, FINISH.read_text()]
    ingredients += [
        guest["suite"],
        guest["variant"],
        sorted(guest["packages"]),
        guest["modprobe"],
        guest["preload"],
        COMPILER,
    ]
    ingredients += [guest["userland"]] if guest["userland"] else []
    ingredients += [[source, _compile_script(name)] for name, source in _module_sets(guest)]
    recipe = _digest(ingredients)
    started = time.monotonic()

    def say(text: str) -> None:
        progress(f"guest image, {time.monotonic() - started:.0f} s: {text}")

    def make(home: Path) -> dict:
        _check_tools()
        _check_space(cache)
        lines = mirrors or apt_mirrors(guest["suite"], guest["component"])
        return {"recipe": recipe, **_build_root(home, cache, guest, lines, say)}

    return _cached(cache / "root" / recipe, make)


def _cached(home: Path, make: Callable[[Path], dict]) -> dict:
    """Description of the folder `home`; unless it is complete, `make` fills a new one and returns its description.

    The description has at least sizes {file: bytes}.
    """
    note = f"{home.parent.name}.json"
    with locked(home.with_name(f"{home.name}.lock")):
        if not _complete(home, note):
            partial = home.with_name(f"{home.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)  # left by a killed build, since we hold the lock
            shutil.rmtree(home, ignore_errors=True)
            partial.mkdir()
            try:
                description = make(partial)
                sizes = {path.name: path.stat().st_size for path in sorted(partial.iterdir())}
                write_bytes(partial / note, json.dumps({**description, "sizes": sizes}, indent=1).encode())
                partial.rename(home)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return json.loads((home / note).read_text())


def _complete(home: Path, note: str) -> bool:
    """Whether a cached folder is complete: its description is written last, and no file was truncated since."""
    try:
        sizes = json.loads((home / note).read_text())["sizes"]
        return all((home / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError):
        return False


def _check_tools() -> None:
    tools = {"mmdebstrap": "mmdebstrap", "mkfs.erofs": "erofs-utils", "tar": "tar", "unshare": "util-linux"}
    for tool, package in {**tools, "apt-get": "apt"}.items():
        if shutil.which(tool) is None:
            raise UserError(f"{tool} is missing, which builds the guest image; install the Debian package {package}")


def _build_root(home: Path, cache: Path, guest: dict, mirrors: list[str], say: Progress) -> dict:
    """Fill the folder `home` with root image, kernel, base initrd and lock; return their description."""
    tree = home / "tree"
    tree.mkdir()
    say(f"{len(guest['packages'])} packages of Debian {guest['suite']} and what they need")
    # The kernel and its modules come from the guest's own suite, so that all guests have the same one.
    newer = apt_mirrors(guest["userland"]) if guest["userland"] else []
    pin = (
        f"Package: linux-image-* linux-headers-*\nPin: release n={guest['userland']}\nPin-Priority: -1\n"
        if newer
        else ""
    )
    _unpack(tree, guest, guest["packages"], FINISH.read_text(), mirrors + newer, say, pin=pin)
    lock = (tree / "packages.lock").read_bytes()
    (tree / "packages.lock").unlink()
    (tree / "etc/apt/sources.list").unlink()  # the mirror is the builder's choice: every mirror has the same bytes
    packages = _packages(lock)
    (release,) = (path.name for path in (tree / "usr/lib/modules").iterdir())
    compiled = _add_modules(tree, cache, guest, packages, release, mirrors, say)

    say("making the root image")
    vmlinuz = tree / "boot" / f"vmlinuz-{release}"
    files = {"vmlinuz": _store(home, vmlinuz.read_bytes(), ""), "lock": _store(home, lock, ".lock")}
    files["base"] = _store(home, _base_initrd(tree, release), ".cpio")
    shutil.rmtree(tree / "boot")
    (tree / "boot").mkdir()
    make_image(tree, home / "root.partial")
    digest = sha256(home / "root.partial")
    files["root"] = f"{digest}.erofs"
    (home / "root.partial").rename(home / files["root"])
    shutil.rmtree(tree)
    say("done")
    lock_digest = hashlib.sha256(lock).hexdigest()
    found = {"kernel": release, "root_sha256": digest, "lock_sha256": lock_digest, "packages": packages}
    return {**files, **found, **compiled}


def _packages(lock: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lock.decode().splitlines())


def _module_sets(guest: dict) -> list[tuple[str, str]]:
    """What is compiled for the guest's kernel: the name of its script, the package with its source (empty: our own)."""
    return [("modeldisk", ""), *([(guest["name"], guest["modules"])] if guest["modules"] else [])]


def _compile_script(name: str) -> str:
    """The hook that compiles modules; our own source is embedded in its text."""
    text, source = (SCRIPTS / f"{name}.sh").read_text(), SCRIPTS / f"{name}.c"
    first, rest = text.split("\n", 1)
    return f"{first}\nSOURCE={shlex.quote(source.read_text())}\n{rest}" if source.exists() else text


def _add_modules(
    tree: Path, cache: Path, guest: dict, packages: dict[str, str], release: str, mirrors: list[str], say: Progress
) -> dict:
    """Put compiled kernel modules into an unpacked tree, from the cache if it has them.

    packages: what is in the tree; release: of its kernel. Returns modules {file: sha256} and compiled_with {package:
    version}.
    """
    headers = f"linux-headers-{release}={packages[f'linux-image-{release}']}"
    target = tree / "usr/lib/modules" / release / "updates"
    target.mkdir(exist_ok=True)
    found: dict = {"modules": {}, "compiled_with": {}}
    for name, source in _module_sets(guest):
        # The first package of the guest's section has the modules' tools: from the same source, in the same version.
        wanted = [COMPILER, *([f"{source}={packages[guest['packages'][0]]}"] if source else []), headers]
        script = _compile_script(name)

        def make(home: Path, name=name, wanted=wanted, script=script) -> dict:
            say(f"{name}: kernel modules must be compiled for kernel {release}, which is done once")
            _unpack(home, guest, wanted, script, mirrors, say, folder="modules")
            lock = (home / "packages.lock").read_bytes()
            (home / "packages.lock").unlink()
            modules = {path.name: sha256(path) for path in sorted(home.glob("*.ko"))}
            return {"modules": modules, "compiled_with": _packages(lock)}

        key = _digest([script, *wanted])
        compiled = _cached(cache / "modules" / key, make)
        for file in compiled["modules"]:
            shutil.copy(cache / "modules" / key / file, target)
        for part, values in found.items():
            values |= compiled[part]
    (tree / "etc/modprobe.d").mkdir(exist_ok=True)
    (tree / "etc/modprobe.d/reprofs.conf").write_text("".join(f"{line}\n" for line in guest["modprobe"]))
    (tree / "etc/modules-load.d").mkdir(exist_ok=True)
    (tree / "etc/modules-load.d/reprofs.conf").write_text("".join(f"{module}\n" for module in guest["preload"]))
    # The tree's own depmod, run by the tree's own loader: the builder may not be root and may have no depmod.
    command = [tree / "usr/lib64/ld-linux-x86-64.so.2", "--argv0", "depmod", "--library-path"]
    _output([*map(str, [*command, tree / "usr/lib/x86_64-linux-gnu", tree / "usr/bin/kmod", "-b", tree]), release])
    return found


def _digest(ingredients: list[object]) -> str:
    return hashlib.sha256(json.dumps(ingredients).encode()).hexdigest()[:32]


def _store(home: Path, content: bytes, suffix: str) -> str:
    name = hashlib.sha256(content).hexdigest() + suffix
    (home / name).write_bytes(content)
    return name


def _base_initrd(tree: Path, release: str) -> bytes:
    """What must be in memory to reach the root image: a static busybox and a few kernel modules in their order."""
    modules = tree / "usr/lib/modules" / release
    order = module_order((modules / "modules.dep").read_text(), BOOT_MODULES)
    entries: list[tuple[str, int, bytes | None]] = [("bin", 0o755, None), ("modules", 0o755, None)]
    entries.append(("bin/busybox", 0o755, (tree / "usr/bin/busybox").read_bytes()))
    names = []
    for path in order:
        data = (modules / path).read_bytes()
        names.append(re.sub(r"\.ko.*", "", Path(path).name))
        entries.append((f"modules/{names[-1]}.ko", 0o644, lzma.decompress(data) if path.endswith(".xz") else data))
    entries.append(("modules/order", 0o644, "".join(f"{name}\n" for name in names).encode()))
    return cpio(entries)


def _unpack(
    target: Path,
    guest: dict,
    packages: list[str],
    hook: str,
    mirrors: list[str],
    say: Progress,
    *,
    folder: str = "",
    pin: str = "",
) -> None:
    """Unpack packages into the empty folder `target`, owned by the caller and without device files.

    hook: the text of a shell script that is run on the unpacked tree first; folder: take only this one of the tree;
    pin: apt's preferences, see apt_preferences(5).
    """
    # As root mmdebstrap mounts the machine's own /dev/shm, /sys and more in the tree. In namespaces of its own those
    # mounts and all its processes end with it, also when it is killed: nothing is removed through a forgotten mount.
    # The machine's apt is read only there: without its own configuration mmdebstrap would empty the machine's lists.
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    apart += ["sh", "-ec", APT_READ_ONLY, "sh"]
    command = [
        *(apart if os.geteuid() == 0 else []),
        "mmdebstrap",
        "--mode=auto",
        "--format=tar",
        "--architectures=amd64",
    ]
    command += [f"--variant={guest['variant']}", f"--include={','.join(packages)}"]
    command += ['--aptopt=APT::Install-Recommends "false"']
    # As text, because the root of a user namespace may not be able to read the project's folder.
    command += [*(f"--aptopt={option.rstrip(';')}" for option in apt_options()), f"--extract-hook={hook}"]
    if pin:
        command += [f'--setup-hook=printf %s {shlex.quote(pin)} > "$1"/etc/apt/preferences.d/reprofs']
    command += [guest["suite"], "-", *mirrors]
    unpack = ["tar", "--extract", "--preserve-permissions", "--no-same-owner", "--exclude=./dev/*"]
    unpack += [f"--directory={target}", *(["--strip-components=2", f"./{folder}"] if folder else [])]
    with workplace() as place:
        place.chmod(0o755)  # the root of a user namespace is another user
        _sweep(place.parent)
        _pipe(command, unpack, place, mirrors, say)


def _sweep(base: Path) -> None:
    """Remove what killed builds without root left in `base`: files of other user ids, which need a user namespace.

    `workplace` has already removed what this user may remove, including the file `owner`. Folders of other users are
    left alone.
    """
    for left in base.glob("reprofs-work-*") if os.geteuid() else ():
        if left.lstat().st_uid == os.geteuid() and not (left / "owner").exists():
            for inside in (["mmdebstrap", "--unshare-helper"], []):
                command = [*inside, "rm", "-rf", "--one-file-system", "--", str(left)]
                subprocess.run(command, capture_output=True, preexec_fn=end_with_parent)


def _pipe(command: list[str], unpack: list[str], place: Path, mirrors: list[str], say: Progress) -> None:
    """Run mmdebstrap (command) into tar (unpack). place: where mmdebstrap works."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8", "TMPDIR": str(place)}
    environment["REPROFS_PLACE"] = str(place)  # by which reprofs.cleanup knows processes that outlive a kill
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            preexec_fn=end_with_parent,
        ) as debs,
        subprocess.Popen(
            ["sh", "-c", DRAINED, "sh", *unpack],
            stdin=debs.stdout,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=end_with_parent,
        ) as tar,
    ):
        assert debs.stdout and debs.stderr and tar.stderr  # they are pipes
        heard_of, trouble_of = debs.stderr, tar.stderr
        debs.stdout.close()  # only tar has it now, so that mmdebstrap notices when tar ends early
        lines: list[str] = []
        heard, what = time.monotonic(), "starting"
        compiled = 0

        def listen() -> None:
            nonlocal compiled, heard, what
            for line in heard_of:
                lines.append(line.rstrip())
                compiled += line.startswith("  CC ")
                if re.match(r"I: (running (apt|co|the co)|downloading|extracting|cleaning|creating)", line):
                    heard, what = time.monotonic(), line[3:].rstrip()
                    say(what)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        while listener.is_alive():
            listener.join(1)
            if time.monotonic() - heard > HEARTBEAT_S:
                heard = time.monotonic()
                say(f"still {what}" + (f", {compiled} files are compiled" if compiled else ""))
        trouble = trouble_of.read()
        codes = debs.wait(), tar.wait()
    if codes[1] and codes[0] in (0, -13):
        raise UserError(f"the guest's files could not be unpacked into the cache: {_last_line(trouble)}")
    if codes[0]:
        raise _unpack_error(lines, mirrors)


def _unpack_error(lines: list[str], mirrors: list[str]) -> UserError:
    """The error for the user that follows from mmdebstrap's messages."""
    text = re.split(r"(?:E: setup failed: )?E: command failed: #!", "\n".join(lines))[0]  # the hook's text follows
    places = " and ".join(sorted({line.split()[1] for line in mirrors}))
    if "No space left on device" in text:
        return UserError(
            f"no disk space left in {tempfile.gettempdir()} while building the guest image; free some or set TMPDIR"
        )
    compiling = "".join(re.split(r"^I: running (?:configure|the compiler)", text, flags=re.MULTILINE)[1:])
    wrong = re.search(r"^(.*\berror:)[\s*]*(.*)|^make.*\*\*\* \[(.*)", compiling, re.MULTILINE)
    if wrong:
        return UserError(
            f"the guest's kernel modules could not be compiled: {' '.join(filter(None, wrong.groups()))}; "
            "choose a suite in envs/guest.yaml whose kernel and modules fit each other"
        )
    if re.search(r"Version '.*' for '.*' was not found", text):
        return UserError(f"the mirror {places} has newer packages since this build began; build the guest again")
    if "Unable to locate package" in text or "has no installation candidate" in text:
        names = re.findall(r"(?:locate package|Package '?)\s*([a-z0-9+.-]+)", text)
        components = " ".join(dict.fromkeys(word for line in mirrors for word in line.split()[3:]))
        return UserError(
            f"the mirror {places} ({components}) has no package {', '.join(dict.fromkeys(names))}; "
            "correct packages in envs/guest.yaml"
        )
    if "does not have a Release file" in text or re.search(r"apt-get.*update.*failed", text):
        fetch = re.findall(r"Failed to fetch \S+\s+(.*)", text) or re.findall(
            r"^(?:E|Err|W): *(.*)", text, re.MULTILINE
        )
        why = f" ({fetch[0].strip()})" if fetch else ""
        return UserError(
            f"the Debian mirror {places} cannot be used{why}; check the network and the machine's apt configuration"
        )
    if "unable to pick chroot mode" in text or "newuidmap" in text or "subuid" in text:
        return UserError(
            "without root mmdebstrap needs user namespaces; install the Debian package uidmap, or build as root"
        )
    # Its last line says only that it failed; the cause is in the lines before.
    causes = [line for line in lines if re.match(r"(E|tar|sh|make.*\*\*\*|dpkg-deb|chroot): ", line)]
    empty = ("mmdebstrap failed to run", "command failed: #!")
    causes = [line.strip() for line in causes if not any(words in line for words in empty)] or [_last_line(text)]
    return UserError(f"mmdebstrap could not build the guest image: {'; '.join(causes[-3:])}")


def _check_space(cache: Path) -> None:
    """Raises UserError if a build would fill a disk: mmdebstrap works in the temporary folder, we in the cache."""
    needed: dict[int, list[Path]] = {}
    for folder in (cache, Path(tempfile.gettempdir())):
        needed.setdefault(folder.stat().st_dev, []).append(folder)
    for folders in needed.values():
        free = shutil.disk_usage(folders[0]).free
        if free < FREE_BYTES * len(folders):
            raise UserError(
                f"not enough disk space for the guest image: {' and '.join(map(str, folders))} "
                f"has {free / 1e9:.1f} GB free and needs {FREE_BYTES * len(folders) / 1e9:.1f} GB; "
                "free some, or set REPROFS_CACHE and TMPDIR to folders with more space"
            )


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """Turn the operating system's complaints about files in `folder` into one sentence."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write to {error.filename or folder}: {error.strerror}; "
            "set REPROFS_CACHE to a folder with space that you may write to"
        ) from None


def _identity(path: Path, digest: str = "") -> dict:
    return {"sha256": digest or sha256(path), "bytes": path.stat().st_size}


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise UserError(
            f"{command[0]} is missing; the guest image is built from the packages of a machine with Debian's apt"
        ) from None
    except subprocess.CalledProcessError as error:
        raise UserError(f"{' '.join(command[:2])} failed: {_last_line(error.stderr)}") from None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("I:")]
    return lines[-1] if lines else "no message"
