"""Packages of strangers: hostile and damaged ones are unpacked into their tree or refused in one sentence.

Whatever is in them, nothing is read, written or executed outside of it, and they take no more room than was known
before. What they are refused for is in `test_what_is_wrong_is_one_sentence`; the fuzz draws some more.
"""

import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import random
import shutil
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from helpers import drawn
from reprofs import files
from reprofs.cleanup import MEMORY
from reprofs.errors import UserError
from reprofs.guest import enter, fetch, inside, kernel, lock, own, packages, rootfs, unpack
from reprofs.guest.folder import Folder
from reprofs.guest.initrd import base_initrd
from reprofs.plan.guest import read_guest
from test_fuzz import LONGEST as SENTENCE
from test_fuzz import scratched, verdict
from test_kernels import CONFIG, built_tree, elsewhere  # noqa: F401

RELEASE = "6.99-x"
MODULES = f"usr/lib/modules/{RELEASE}"
CONTROL = b"Package: thing\nVersion: 1:2-3\nDescription: x\n"
COMPRESS = {".xz": lambda data: lzma.compress(data, preset=0), ".gz": gzip.compress, ".bz2": bz2.compress}
COMPRESS |= {"": bytes}
MODULE, ZEROS_PACKED = (lzma.compress(content, preset=0) for content in (b"a module", bytes(10**6)))
GUEST = read_guest()
FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
MANY = [pytest.param(60, id="drawn"), pytest.param(10_000, id="many", marks=pytest.mark.soak)]


class Member(tarfile.TarInfo):
    """With its content."""

    content: bytes


def entry(name: str, content: bytes | str | None = b"", kind: bytes | None = None, **also) -> Member:
    """A member of a tar: a file with bytes, a folder (None), a link with a target."""
    made = Member(name)
    made.content = content if isinstance(content, bytes) else b""
    made.type = kind or (tarfile.DIRTYPE if content is None else tarfile.REGTYPE)
    made.mode = 0o755 if content is None else 0o644
    if isinstance(content, str):
        made.type, made.linkname = kind or tarfile.SYMTYPE, content
    for key, value in also.items():
        setattr(made, key, value)
    return made


def tar(entries: list[Member], form: int = tarfile.GNU_FORMAT, end: bool = True) -> bytes:
    """By hand, for tarfile makes no wrong ones. A size that is not the content's is written all the same."""
    out = io.BytesIO()
    for one in entries:
        one.size = one.size or len(one.content)
        out.write(one.tobuf(form, "utf-8", "surrogateescape") + one.content)
        out.write(bytes(-out.tell() % 512))
    return out.getvalue() + bytes(1024) * end


def ar(members: dict[str, bytes]) -> bytes:
    out = b"!<arch>\n"
    for name, content in members.items():
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    return out


def deb(path: Path, *entries: Member, control: list | None = None, ending=".xz", form=FORMATS[0]) -> Path:
    control = [entry("./control", CONTROL)] if control is None else control
    data = COMPRESS[ending](tar(list(entries), form))
    path.write_bytes(
        ar({"debian-binary": b"2.0\n", "control.tar.gz": gzip.compress(tar(control)), f"data.tar{ending}": data})
    )
    return path


def usual() -> list[Member]:
    """What the packages of a guest have, in small."""
    return [
        *(entry(f"./{name}", None) for name in ("usr", "etc", "boot", "var", MODULES, f"{MODULES}/kernel")),
        entry(f"./boot/vmlinuz-{RELEASE}", b"MZ a kernel"),
        entry(f"./boot/config-{RELEASE}", CONFIG.encode()),
        entry(f"./{MODULES}/kernel/a.ko.xz", MODULE),
        entry(f"./{MODULES}/kernel/b.ko", b"another"),
        entry(f"./{MODULES}/modules.dep", b"kernel/a.ko:\nkernel/b.ko: kernel/a.ko\n"),
        entry(f"./{MODULES}/modules.builtin", b"kernel/fs/ext4.ko\n"),
        entry(f"./{MODULES}/build", "/usr/src/linux"),
        entry("./lib/x.so.1", b"library"),
        entry("./lib/x.so", "x.so.1"),
        entry("./bin/busybox", b"program", mode=0o4755),
        entry("./bin/same", "./bin/busybox", tarfile.LNKTYPE),
        entry("./usr/share/base-passwd/passwd.master", b"root:x:0:0:::\n"),
        entry("./usr/share/base-passwd/group.master", b"root:x:0:\n"),
        entry("./etc/resolv.conf", "/run/resolv.conf"),
    ]


def used(package: Path, tree: Path) -> None:
    """All that is done with a package but running its programs: as a guest's, and as a kernel's."""
    into = unpack.Tree(tree)
    into.add(package, skip=rootfs.SKIP)
    release = rootfs.release_of(into)
    for part in ("vmlinuz", "config"):
        kernel.part_of(into, release, part)
    rootfs.plain_modules(into, release)
    into.folder(f"{MODULES}/updates")
    into.write(f"{MODULES}/updates/mine.ko", b"mine")
    kernel._names(into, MODULES)
    rootfs.finish(into, GUEST, release)
    base_initrd(into, release, into, ("a", "b"))
    into.remove(f"{MODULES}/build")
    into.remove("boot")
    into.folder("boot")


@pytest.fixture
def decoy(tmp_path):
    """A folder of this machine with a file, and what must not change of it."""
    folder = tmp_path / "decoy"
    for name in ("cache/ldconfig", "kernel", "base-passwd"):
        (folder / name).mkdir(parents=True)
    for name in ("a.ko", "a.ko.xz", "passwd", "cache/ldconfig/aux-cache", "kernel/b.ko", "base-passwd/passwd.master"):
        (folder / name).write_bytes(b"precious")
    (folder / "passwd").chmod(0o640)
    return folder


def state_of(folder: Path) -> list:
    """Names, kinds, modes and contents of all that is in a folder."""
    found = []
    for path in (folder, *sorted(folder.rglob("*"))):
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found.append((str(path), state.st_mode, state.st_nlink, state.st_mtime_ns, content))
    return found


@pytest.fixture
def no_programs(monkeypatch):
    monkeypatch.setattr(rootfs, "run", lambda *words, **also: "")


def test_a_usual_package_is_accepted(tmp_path, no_programs):
    for ending in COMPRESS:
        for form in FORMATS:
            used(deb(tmp_path / "thing.deb", *usual(), ending=ending, form=form), tmp_path / "tree")
            tree = Folder(tmp_path / "tree")
            assert tree.read(f"{MODULES}/kernel/a.ko") == b"a module" and tree.read("lib/x.so.1") == b"library"
            assert (tmp_path / "tree/usr/bin/same").stat().st_nlink == 2
            assert tree.read("etc/passwd").startswith(b"root:x:0:0:::\n_rpc:")
            shutil.rmtree(tmp_path / "tree")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user is tried by root")
def test_modes_are_those_of_the_package_for_an_ordinary_user(tmp_path):
    """What he writes loses setuid, so modes come last."""
    os.chown(tmp_path, 65534, 65534)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.chdir(tmp_path)
            os.setuid(65534)
            tree = Folder(Path())
            tree.write("program", b"x", 0o6755)
            os._exit(0 if Path("program").stat().st_mode & 0o7777 == 0o6755 else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


# ---- what was harmful, or ended with a traceback

DEEP = "/".join("d" * 200)
ZEROS = bytes(2 << 20)
LINK, HARD, FIFO, NODE = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE
WRONG = {
    "control-a-link": ({"control": [entry("./control", "/etc/passwd")]}, [], "control file has no valid Package"),
    "control-a-folder": ({"control": [entry("./control", None)]}, [], "control file has no valid Package"),
    "control-huge": ({"control": [entry("./control", CONTROL + b"x" * (1 << 20))]}, [], "no valid Package"),
    "no-version": ({"control": [entry("./control", b"Package: thing\n")]}, [], "no valid Version"),
    "a-name-that-is-none": ({"control": [entry("./control", b"Package: ../x\nVersion: 1\n")]}, [], "valid Package"),
    "link-loop": (
        {},
        [entry("./a", "b"), entry("./b", "a"), entry("./a/x", b"x")],
        "a cannot be used: Too many levels",
    ),
    "link-to-itself": ({}, [entry("./a", "a/a"), entry("./a/x", b"x")], "cannot be used: "),
    "deep": ({}, [entry(f"./{DEEP}/{DEEP}/x", b"x")], "cannot be used: File name too long"),
    "deep-by-links": (
        {},
        [entry(f"{'l' * n}", f"{'l' * (n - 1)}/{DEEP}" if n > 1 else DEEP) for n in range(1, 5)] + [entry("./llll/x")],
        "cannot be used: File name too long",
    ),
    "long": ({}, [entry(f"./{'x' * 300}", b"x")], "cannot be used: File name too long"),
    "a-file-for-a-folder": ({}, [entry("./etc/x", None), entry("./etc/x", b"x")], "etc/x cannot be used: Is a dir"),
    "a-folder-for-a-file": ({}, [entry("./etc/x", b"x"), entry("./etc/x", None)], "etc/x cannot be used: Not a dir"),
    "below-a-file": ({}, [entry("./etc/x", b"x"), entry("./etc/x/y", b"y")], "etc/x cannot be used: Not a directory"),
    "hard-link-to-nothing": ({}, [entry("./x", "./nothing", HARD)], "cannot be used: No such file"),
    "hard-link-to-a-folder": ({}, [entry("./x", "./usr", HARD)], "cannot be used: Operation not permitted"),
    "a-huge-size": ({}, [entry("./x", b"x", size=1 << 40)], "unpacks to more than "),
    "a-negative-size": ({}, [entry("./x", b"x", size=-(1 << 40))], "thing.deb is not a Debian package: "),
    "zeros": ({}, [entry(f"./{n}", ZEROS) for n in range(4)], "unpacks to more than "),
    "a-sparse-file": ({}, [entry("./x", b"x", tarfile.GNUTYPE_SPARSE)], "thing.deb is not a Debian package: "),
    "a-huge-header": ({}, [entry("././@LongLink", ZEROS, tarfile.GNUTYPE_LONGNAME)], "a header has a wrong size"),
    "a-huge-header-of-pax": ({}, [entry("x", ZEROS, tarfile.XHDTYPE)], "a header has a wrong size"),
    "headers-of-headers": ({}, [entry("x", b"x", tarfile.GNUTYPE_LONGNAME)] * 2000, "thing.deb is not a Debian pack"),
    "a-module-a-link": ({}, [entry(f"./{MODULES}/c.ko", "/etc/passwd")], "c.ko is a link or device"),
    "a-damaged-module": ({}, [entry(f"./{MODULES}/c.ko.xz", b"x")], "c.ko.xz is damaged: "),
    "a-module-of-zeros": (
        {},
        [entry(f"./{MODULES}/c.ko.xz", lzma.compress(bytes(8 << 20), preset=0))],
        "c.ko.xz unpacks to more than ",
    ),
    "two-kernels": ({}, [entry("./usr/lib/modules/other", None)], "the packages have modules of 2 kernels"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_sentence(tmp_path, no_programs, monkeypatch, name):
    for module in (unpack, rootfs):
        monkeypatch.setattr(module, "ROOM", 1 << 20)  # smaller, so that the test takes less time
    also, entries, words = WRONG[name]
    package = deb(tmp_path / "thing.deb", *usual(), *entries, **also)
    with pytest.raises(UserError) as told:
        used(package, tmp_path / "tree")
    said = str(told.value).replace(str(tmp_path), "")
    assert words in said and len(said) <= SENTENCE
    assert sum(path.stat().st_size for path in (tmp_path / "tree").rglob("*") if path.is_file()) < 3 << 20
    shutil.rmtree(tmp_path / "tree")


@pytest.mark.parametrize("release", ["-b", "a\nb", "x" * 200, "--help", "a b"])
def test_a_release_is_a_name_that_is_no_option(tmp_path, release):
    tree = unpack.Tree(tmp_path / "tree")
    tree.add(deb(tmp_path / "thing.deb", entry(f"./usr/lib/modules/{release}", None)))
    with pytest.raises(UserError, match="is no release of a kernel"):
        rootfs.release_of(tree)


def places(decoy: Path) -> dict[str, list[Member]]:
    """Links from where the tree is changed or read later, to a folder of this machine."""
    to = str(decoy)
    folders = ("etc", "var", "var/cache", "boot", "tmp", "usr/lib/modules", MODULES, f"{MODULES}/kernel", "usr/share")
    links = {name: [entry(f"./{name}", to)] for name in (*folders, f"{MODULES}/updates", "usr/share/base-passwd")}
    one = {name: [entry(f"./{name}", f"{to}/passwd")] for name in ("etc/passwd", "etc/hosts", "usr/bin/awk")}
    one |= {name: [entry(f"./{name}", f"{to}/a.ko")] for name in (f"boot/vmlinuz-{RELEASE}", f"{MODULES}/modules.dep")}
    packed = entry(f"./{MODULES}/z/a.ko.xz", lzma.compress(b"of a stranger"))
    one["module"] = [entry(f"./{MODULES}/z/a.ko", f"{to}/a.ko"), packed]
    one["hard"] = [entry("./l", f"{to}/passwd"), entry("./m", "./l", HARD), entry("./m", b"of a stranger", mode=0o666)]
    return links | one


@pytest.mark.parametrize("name", places(Path("/decoy")))
def test_no_link_leads_out_of_the_tree(tmp_path, decoy, no_programs, name):
    """Whatever is a link: it comes first, so that no folder is in its place."""
    before, entries = state_of(decoy), places(decoy)[name]
    rest = [one for one in usual() if not (one.isdir() and one.name == f"./{name}")]
    package = deb(tmp_path / "thing.deb", *entries, *rest, *entries)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(decoy)
        told = verdict(lambda: used(package, tmp_path / "tree"), tmp_path, "")
    assert not told and state_of(decoy) == before
    tree = Folder(tmp_path / "tree")
    files_in_it = [path for path in tree.files("") if tree.kind(path) == stat.S_IFREG]
    assert not [path for path in files_in_it if b"precious" in tree.read(path)]


# ---- programs of a package

LOADER = """#!/bin/sh
exec 2> /errors
echo of a stranger > {decoy}/passwd
cat {decoy}/passwd > /seen
echo "$(id -u) $(ls /) $(ip link | grep -c LOOPBACK) $(ip link | grep -vc lo)" > /seen-too
{more}
"""


@pytest.fixture
def stranger(tmp_path, decoy):
    """A function that makes a tree whose loader is a stranger's script, which busybox interprets."""

    def make(more: str = "") -> unpack.Tree:
        (packed,) = [one for one in lock.read_lock().sets["base"].packages if one.name == "busybox-static"]
        tree = unpack.Tree(tmp_path / "tree")
        tree.add(fetch.fetch(files.cache_folder(), lock.read_lock(), [packed], print)["busybox-static"])
        for name in ("sh", "cat", "id", "ls", "ip", "grep", "sleep", "mount", "mkdir", "chroot"):
            tree.link(f"usr/bin/{name}", "busybox")
        script = entry(f"./{rootfs.LOADER}", LOADER.format(decoy=decoy, more=more).encode(), mode=0o755)
        others = [one for one in usual() if "bin/" not in one.name]
        tree.add(deb(tmp_path / "thing.deb", *others, script))
        return tree

    return make


def test_a_program_of_a_package_sees_its_tree_alone(decoy, stranger):
    before, tree = state_of(decoy), stranger("mkdir /p; mount -t proc p /p; cat /p/1/environ; exit 0")
    rootfs.finish(tree, read_guest("base"), RELEASE)
    assert state_of(decoy) == before
    assert tree.read("seen") == b""
    user, *names, loops, others = tree.read("seen-too").decode().split()
    assert user == "0" and {"usr", "etc"} <= set(names) and "work" not in names
    assert (loops, others) == ("1", "0")
    assert not Path("/seen").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("echo no good; exit 3", "ldconfig of the locked packages failed: no good"),
        ("exit 125", "ldconfig of the locked packages failed: exit code 125"),
        ("while :; do :; done", "it ran longer than 1 s"),
        ("while :; do echo yyyyyyyyyyyyyyyy; done", "it ran longer than 1 s, or said more than 4,096 bytes"),
        ("sleep 60 & exit 4", "failed: exit code 4"),
    ],
)
def test_a_program_that_fails_hangs_or_chatters_is_one_sentence(stranger, monkeypatch, more, words):
    monkeypatch.setattr(rootfs, "RUN_S", 1)
    monkeypatch.setattr(rootfs, "OUTPUT", 4096)
    with pytest.raises(UserError, match=words):
        rootfs.run(stranger(more).root, "usr/sbin/ldconfig", "-i")


# ---- the folder in which a kernel was built


def hostile_build(folder: Path, decoy: Path, name: str) -> None:
    victim = decoy / "passwd"

    def replace(file: str) -> Path:
        (folder / file).unlink(missing_ok=True)
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        return folder / file

    match name:
        case "a-link":
            replace(".config").symlink_to(victim)
        case "a-folder-that-is-a-link":
            shutil.rmtree(folder / "fs/xfs")
            (decoy / "xfs.ko").write_bytes(b"precious")
            replace("fs/xfs").symlink_to(decoy)
        case "a-module-above":
            replace("modules.order").write_text(f"kernel/{os.path.relpath(victim, folder)}\n")
        case "an-absolute-module":
            replace("modules.order").write_text(f"{victim}\n")
        case "a-pipe":
            os.mkfifo(replace(".config"))
        case "a-huge-module":
            with replace("fs/xfs/xfs.ko").open("wb") as file:
                file.truncate(1 << 42)
        case "a-huge-list":
            with replace("modules.order").open("wb") as file:
                file.truncate(1 << 42)
        case "a-huge-configuration":
            with replace(".config").open("wb") as file:
                file.truncate(1 << 42)
        case "a-long-name":
            replace("modules.order").write_text(f"fs/{'x' * 5000}.o\n")
        case "a-release-above":
            replace("include/config/kernel.release").write_text("../../x\n")
        case "a-release-that-is-an-option":
            replace("include/config/kernel.release").write_text("--help\n")


HOSTILE = {
    "a-link": "/linux/.config is no file in it: build the kernel",
    "a-folder-that-is-a-link": "fs/xfs/xfs.ko is missing: build the modules",
    "a-module-above": " is missing: build the modules",
    "an-absolute-module": " is missing: build the modules",
    "a-pipe": "/linux/.config is no file in it",
    "a-huge-module": "has 4,398,046,5",
    "a-huge-list": "modules.order cannot be used: it has 4,398,046,511,104 bytes, more than 16,777,216",
    "a-huge-configuration": "bytes, and may have 2,147,483,648: strip it",
    "a-long-name": " is missing: build the modules",
    "a-release-above": "has no kernel release",
    "a-release-that-is-an-option": "has no kernel release",
}


def test_what_changes_after_it_was_looked_at_is_not_followed(tmp_path, monkeypatch):
    """A file that is a link or a pipe by the time it is read, or a link where a new file goes."""
    (top := tmp_path / "top").mkdir()
    (precious := tmp_path / "precious").write_text("precious")
    (top / "link").symlink_to(precious)
    os.mkfifo(top / "pipe")
    folder = Folder(top)
    for name, why in (("link", "Too many levels of symbolic links"), ("pipe", "it is not a file")):
        with pytest.raises(UserError, match=f"{name} cannot be used: {why}"):
            folder.read(name)
    monkeypatch.setattr("reprofs.guest.folder._remove", lambda at, base: None)  # somebody puts it there again
    with pytest.raises(UserError, match="link cannot be used: File exists"):
        folder.write("link", b"altered")
    assert precious.read_text() == "precious"


def test_a_tree_of_too_many_files_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("reprofs.guest.folder.FILES", 4)
    folder = Folder(tmp_path)
    folder.write("a/b", b"")
    folder.link("a/c", "b")
    folder.folder("d")
    for more in (lambda: folder.write("e", b""), lambda: folder.hard_link("e", "a/b"), lambda: folder.folder("e")):
        with pytest.raises(UserError, match="is one file more than 4, the most in a tree"):
            more()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_build_folder_is_one_sentence(tmp_path, decoy, elsewhere, name):  # noqa: F811
    """Links that lead out, pipes, huge files, names that lead up: nothing is read, and nothing is written."""
    folder = built_tree(tmp_path / "linux")
    hostile_build(folder, decoy, name)
    before = state_of(decoy)
    with pytest.raises(UserError) as told:
        own.write("mine", [], folder, tmp_path / "cache")
    said = str(told.value).replace(str(tmp_path), "")
    assert HOSTILE[name] in said and len(said) <= SENTENCE and "precious" not in said
    assert state_of(decoy) == before and not list(elsewhere.iterdir()) and not (tmp_path / "cache").exists()


def test_nothing_of_a_build_folder_is_executed(tmp_path, elsewhere, monkeypatch):  # noqa: F811
    folder = built_tree(tmp_path / "linux")
    for name in ("Makefile", "GNUmakefile", "scripts/extract-ikconfig", "scripts/setlocalversion", ".git/config"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"all:\n$(shell touch {tmp_path}/ran)\n")
    (folder / "modules.order").write_text("fs/a\nb.o fs/xfs/xfs.o\n")
    for name in ("fs/a", "b.ko"):
        (folder / name).write_text("of a name with a line's end")
    monkeypatch.setattr("subprocess.Popen", lambda *words, **also: pytest.fail(f"{words} was run"))
    assert own.write("mine", [], folder, tmp_path / "cache").is_file() and not (tmp_path / "ran").exists()


# ---- fuzz


def odd_name(draw: random.Random, decoy: Path) -> str:
    there = [one.name for one in usual()]
    parts = ("a", "..", ".", "usr", "lib", "etc", "\n", "x" * 255, "x" * 256, "\udcff", "é", "-b", "kernel", RELEASE)
    some = "/".join(draw.choice(parts) for _ in range(draw.randrange(1, 8)))
    ways = (some, f"/{some}", f"{decoy}/{draw.choice(['passwd', 'new', 'kernel'])}", f"{draw.choice(there)}/x", DEEP)
    return draw.choice((*ways, draw.choice(there), f"../{some}", f"{DEEP}/{DEEP}/{DEEP}", "", ".", "/", "usr", "a\0b"))


def odd_entry(draw: random.Random, decoy: Path) -> Member:
    """A member that no honest package has: in the place of another, or beside them."""
    there = [one.name for one in usual()]
    also = [f"./{MODULES}/updates", f"./{MODULES}/c.ko.xz", "./etc/passwd", "./var/cache/ldconfig", "./usr/share"]
    name = draw.choice([*there, *also, odd_name(draw, decoy)])
    target = draw.choice([str(decoy), f"{decoy}/passwd", f"{decoy}/kernel", "..", ".", "a", *there])
    target = draw.choice([target, odd_name(draw, decoy)])
    content = draw.choice([b"", b"x", b"\0" * 5000, ZEROS_PACKED, b"\xfd7zXZ\0"])
    kind = draw.choice([None, None, LINK, LINK, LINK, HARD, HARD, FIFO, NODE, tarfile.DIRTYPE, tarfile.DIRTYPE])
    if draw.random() < 0.1:
        kind = draw.choice([tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, b"Z"])
    made = entry(name, target if kind in (LINK, HARD) else content, kind)
    made.mode = draw.choice([0, 0o644, 0o755, 0o7777, 0o200, 0o6755])
    if kind not in (LINK, HARD) and draw.random() < 0.1:
        made.size = draw.choice([1, 513, 10**6, 2**33, 2**62, 2**63, -1, -(2**40)])
    return made


def odd_package(draw: random.Random, path: Path, decoy: Path) -> str:
    """Writes a mutated package; tells what was done."""
    entries, control, done = usual(), [entry("./control", CONTROL)], []
    for _ in range(draw.choice([0, 1, 1, 2, 4])):
        odd, at = odd_entry(draw, decoy), draw.randrange(len(entries) + 1)
        entries.insert(at, odd)
        done.append(f"{at}: {odd.name[:80]!r} {odd.type!r} {odd.linkname[:80]!r} {odd.size} {odd.mode:o}")
        if draw.random() < 0.3:
            gone = entries.pop(draw.randrange(len(entries)))
            done.append(f"without {gone.name[:80]!r}")
    if draw.random() < 0.1:
        control = draw.choice([[], [odd_entry(draw, decoy)], [entry("./control", None)], [entry("./control", "x")]])
        done.append("control")
    ending = draw.choice(["", "", ".gz", ".gz", ".bz2", ".xz"])  # the last takes most of the time
    raw = [tar(control), tar(entries, draw.choice(FORMATS), draw.random() < 0.9)]
    for number in range(2):
        if draw.random() < 0.15 and any(raw[number]):
            how, raw[number] = scratched(draw, raw[number])
            done.append(f"tar {number}: {how}")
    packed = [gzip.compress(raw[0]), COMPRESS[ending](raw[1])]
    for number in range(2):
        if draw.random() < 0.1 and packed[number]:
            at = draw.randrange(len(packed[number]))
            packed[number] = draw.choice(
                [packed[number][:at], packed[number][:at] + b"\xff" + packed[number][at + 1 :]]
            )
            done.append(f"packed {number} at {at}")
    name = draw.choice([f"data.tar{ending}"] * 20 + ["data.tar.zst", "data.tar", "data.tar.gz", "x"])
    data = ar({"debian-binary": b"2.0\n", "control.tar.gz": packed[0], name: packed[1]})
    if draw.random() < 0.1:
        how, data = scratched(draw, data)
        done.append(f"ar: {how}")
    path.write_bytes(data)
    return f"{ending} {name} {done}"


@pytest.mark.parametrize("times", MANY)
def test_packages(times, tmp_path, decoy, no_programs, request):
    """Nothing outside of the tree is changed, and the tree can be removed."""
    draw, wrong, before = drawn(), [], state_of(decoy)
    package, tree = tmp_path / "thing.deb", tmp_path / "tree"
    if MEMORY.is_dir():  # which is faster
        tree = Path(tempfile.mkdtemp(dir=MEMORY, prefix="reprofs-test-")) / "tree"
        request.addfinalizer(lambda: shutil.rmtree(tree.parent))
    for number in range(times):
        done = odd_package(draw, package, decoy)
        found = verdict(lambda: used(package, tree), tmp_path, "")
        if state_of(decoy) != before or set(os.listdir(tmp_path)) - {"tree"} != {"decoy", package.name}:  # noqa: PTH208
            found += " outside was changed"
        shutil.rmtree(tree, ignore_errors=True)
        if tree.exists():
            found += " the tree stays"
            break
        wrong += [(number, done, found)] if found else []
        if wrong and "outside" in found:
            break
    assert not wrong, "\n".join(map(str, wrong[:20]))


LINE = f"'http://m/debian/pool/main/n/n/n_1%3a2+b3_amd64.deb' n_1%3a2+b3_amd64.deb 12 SHA256:{'a' * 64}"
LOCK = f"# a lock\ndate 20260101T000000Z\n\nset base trixie: n\nn 1:2 amd64 {'a' * 64} 12 pool/n/n_1.deb\nbuilt x y z\n"


@pytest.mark.parametrize("times", MANY)
def test_lines_of_apt_and_locks(times, tmp_path):
    """What is accepted names files below the cache alone."""
    draw, wrong = drawn(), []
    odd = ("../../x", "/etc/passwd", "a" * 63, "..", "_", "%2e%2e%2f", "\x1b[2J", "9" * 5000, "-1", "é", "", "0", "'")

    def check(package: lock.Package) -> None:
        place = Path("/cache/packages", package.sha256)
        assert place.parent == Path("/cache/packages") and "/" not in package.name and package.size > 0
        assert ".." not in package.path.split("/") and package.path.startswith("pool/")

    for number in range(times):
        text = draw.choice([LINE, LOCK])
        if draw.random() < 0.5:
            words = text.split(" ")
            words[draw.randrange(len(words))] = draw.choice(odd)
            done, made = "word", " ".join(words).encode()
        else:
            done, made = scratched(draw, text.encode())
        (tmp_path / "lab.lock").write_bytes(made)

        def read(text=text, made=made) -> None:
            if text == LINE:
                check(packages.listed(made.decode(errors="replace")))
            else:
                for found in lock.read_lock(tmp_path / "lab.lock").sets.values():
                    list(map(check, found.packages))

        found = verdict(read, tmp_path, "")
        wrong += [(number, done, made, found)] if found else []
    assert not wrong, "\n".join(map(str, wrong[:20]))


def test_root_enters_without_user_namespaces(monkeypatch):
    """Some machines allow none; others than root are refused there."""
    asked = []

    def call(name, flags):
        asked.append(flags)
        if flags & enter.NEWUSER:
            raise OSError(28, "unshare: No space left on device")

    monkeypatch.setattr(enter, "call", call)
    monkeypatch.setattr(enter.os, "geteuid", lambda: 0)
    enter.apart()
    assert len(asked) == 2 and not asked[1] & enter.NEWUSER
    monkeypatch.setattr(enter.os, "geteuid", lambda: 1000)
    with pytest.raises(OSError, match="unshare"):
        enter.apart()
    said = inside._error("enter: unshare: No space left on device")
    assert "user namespaces" in str(said)
