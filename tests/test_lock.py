"""envs/lab.lock: what it says is what is fetched, unpacked and run; everything else is one sentence."""

import copy
import hashlib
import http.server
import io
import os
import re
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from conftest import ROOT
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import engine as engines
from reprofs.guest import fetch, freeze, image, lock, modules, packages, qemu, rootfs, unpack
from reprofs.plan.catalog import Catalog
from reprofs.plan.guest import BASE, FILE, Guests, read_guest
from reprofs.plan.kernel import Kernel
from reprofs.plan.read import read_yaml
from reprofs.publish.accept import comparable

GUESTS = read_yaml(ROOT / FILE, Guests)
CATALOG = Catalog()
WISHES = lock.wishes(GUESTS, [CATALOG.get(Kernel, name) for name in CATALOG.paths(Kernel)])


@pytest.fixture(scope="module")
def known() -> lock.Lock:
    return lock.read_lock()


def test_it_has_all_that_the_guests_ask_for_and_nothing_else(known):
    assert known.sets.keys() == WISHES.keys()
    for name, wish in WISHES.items():
        found = lock.versions(known.packages(name, wish))
        assert wish.kernel or set(wish.wanted) <= found.keys()  # of a kernel what asks for the newest is not needed
    below = {package.name for package in known.sets[BASE].packages}
    for name in GUESTS.guests:
        if WISHES[name].below:
            assert not below & {package.name for package in known.sets[name].packages}


def test_it_has_the_digests_of_what_this_checkout_builds(known, engine):
    """Of all guests, made of the same packages by the same code; after a change of that: `reprofs lock --built`."""
    cache = files.cache_folder()
    made_of = {part: of for part, (of, _) in known.built.items()}
    for name in (BASE, *GUESTS.guests):
        recipe = image.recipe_of_root(known, read_guest(name))
        assert made_of[f"{name}/root"] == made_of[f"{name}/kernel"] == recipe
        assert f"{name}/initrd" in made_of
    for name, recipe in zip(("modeldisk.ko", "zfs.ko"), modules.modules_recipe(known, read_guest("zfs")), strict=True):
        assert made_of[name] == recipe
    assert known.compare("engine", engine.name, files.sha256(engine))
    gate = engines.build_gate(cache)
    assert known.compare("gate", gate.name, files.sha256(gate))
    assert made_of[lock.QEMU_OWN] == qemu.recipe_of_own(known)
    (identical, count), _ = known.accepted[known.built[lock.QEMU_OWN][1]]  # not there: `make accept`
    assert 0 < identical <= count
    assert identical == count or not comparable(ROOT / "results")[0], "another QEMU, other numbers: `make accept`"
    kernels = {digest for part, (_, digest) in known.built.items() if part.endswith("/kernel")}
    assert len(kernels) == 1, "all guests have one kernel"


def test_the_guest_and_its_qemu_are_those_of_the_lock(guest, known):
    assert guest["unlocked"] == []
    for part, (of, digest) in guest["built"].items():
        assert known.built[part] == (of, digest)


def test_reading_is_the_reverse_of_writing(known, tmp_path):
    lock.write_lock(known, tmp_path / "lab.lock")
    assert (tmp_path / "lab.lock").read_text() == (ROOT / lock.LOCK).read_text()


@pytest.mark.parametrize(
    "line",
    [
        *("bash 5.2 amd64 abc", "set", "built root", "bash 5.2 amd64 abc many pool/x"),
        "bash 5.2 amd64 ../../victim 7 pool/x",  # it would have been removed, as a damaged file of the cache
        f"../bash 5.2 amd64 {'0' * 64} 7 pool/x",
    ],
)
def test_a_line_that_is_none_is_named(known, tmp_path, line):
    lock.write_lock(known, tmp_path / "lab.lock")
    count = len((tmp_path / "lab.lock").read_text().splitlines())
    with (tmp_path / "lab.lock").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match=rf"lab\.lock, line {count + 1} is invalid: {re.escape(line[:40])}"):
        lock.read_lock(tmp_path / "lab.lock")


def test_a_lock_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"lab\.lock cannot be read .*: restore it from the repository"):
        lock.read_lock(tmp_path / "lab.lock")


def test_other_packages_than_the_lock_was_made_for_are_refused(known):
    changed = lock.Wish(("trixie",), (*WISHES["net"].wanted, "strace"), below=BASE)
    with pytest.raises(UserError, match=r"was made for other .* in the set net: run `reprofs lock net`"):
        known.packages("net", changed)
    with pytest.raises(UserError, match=r"has no set mine: run `reprofs lock mine`"):
        known.packages("mine", changed)


def test_other_bytes_of_the_same_are_refused_and_of_something_else_are_told(known):
    (of, digest) = known.built["base/root"]
    assert known.compare("base/root", of, digest)
    assert not known.compare("base/root", "another", "0" * 64)
    assert not known.compare("mine/root", of, digest)
    with pytest.raises(UserError, match=r"base/root has the SHA-256 0000.*, but .* expects "):
        known.compare("base/root", of, "0" * 64)


def test_a_package_more_in_one_guest_is_no_change_of_the_others(known):
    """Rule: numbers depend on what a study uses only."""
    more = copy.deepcopy(known)
    more.sets["net"].packages.append(lock.Package("strace", "6.13", "amd64", "0" * 64, 1, "pool/strace.deb"))
    before = {name: image.recipe_of_root(known, read_guest(name)) for name in (BASE, *GUESTS.guests)}
    after = {name: image.recipe_of_root(more, read_guest(name)) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"net"}


def test_an_unknown_set_is_one_sentence(reprofs, says):
    says(reprofs("lock", "moon"), "has no set 'moon': known are base, modules")


def test_what_is_frozen_is_built_of_the_sets_that_were_asked_for(monkeypatch, known, tmp_path):
    """The packages of the others, and their digests, stay as they are."""
    resolved, built = [], []

    def build(cache, manifest, engine, say, *, name, lock):
        built.append(name)
        assert lock.built == {}  # nothing is compared with what it was before
        return {"built": {f"{name}/root": ["of", name]}}

    monkeypatch.setattr(freeze, "resolve", lambda lock, asked, names, say: resolved.extend(names))
    monkeypatch.setattr(freeze.image, "build", build)
    monkeypatch.setattr(freeze, "write_lock", lambda lock: written.append(lock))
    written: list = []
    freeze.freeze(tmp_path, ["net"], False, print)
    assert (resolved, built) == (["net"], ["net"])
    assert written[-1].built == known.built | {"net/root": ("of", "net")}
    assert written[-1].sets == known.sets
    freeze.freeze(tmp_path, ["zfs-modules"], True, print)
    assert (resolved, built) == (["net"], ["net", "zfs"])


# ---- fetching


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Folders that are served by HTTP: `add(name)` makes one and returns it; they are asked in that order."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *words):
            super().__init__(*words, directory=str(tmp_path / "mirrors"))

        def log_message(self, form, *words):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    names: list[str] = []

    def add(name: str) -> Path:
        (tmp_path / "mirrors" / name / "pool").mkdir(parents=True)
        names.append(f"http://127.0.0.1:{server.server_port}/{name}")
        monkeypatch.setenv(fetch.VARIABLE, " ".join(names))
        return tmp_path / "mirrors" / name

    monkeypatch.setenv("PATH", str(tmp_path))  # a machine without apt
    add.asked = asked
    yield add
    server.shutdown()
    server.server_close()


def package(name: str, content: bytes, path: str = "") -> lock.Package:
    digest = hashlib.sha256(content).hexdigest()
    return lock.Package(name, "1+b2", "amd64", digest, len(content), path or f"pool/{name}_1+b2.deb")


def test_what_one_mirror_has_not_another_gives(mirror, tmp_path):
    first, second = mirror("first"), mirror("second")
    here, there = package("here", b"one"), package("there", b"two")
    (first / here.path).write_bytes(b"one")
    (first / there.path).write_bytes(b"six")  # of the same size: only its digest tells
    (second / there.path).write_bytes(b"two")
    found = fetch.fetch(tmp_path / "cache", lock.Lock("today"), [here, there], print)
    assert {name: path.read_bytes() for name, path in found.items()} == {"here": b"one", "there": b"two"}
    assert fetch.fetch(tmp_path / "cache", lock.Lock("today"), [here, there], pytest.fail) == found  # kept
    assert not list((tmp_path / "cache/packages").glob(".*"))


def test_updates_for_security_are_asked_of_their_own_archive_first(mirror, tmp_path):
    mirror("debian")
    update = package("update", b"x", "pool/updates/update.deb")
    (mirror("debian-security") / "pool/updates").mkdir()
    (tmp_path / "mirrors/debian-security" / update.path).write_bytes(b"x")
    fetch.fetch(tmp_path / "cache", lock.Lock(""), [update], print)
    assert mirror.asked == ["/debian-security/pool/updates/update.deb"]


def test_a_package_that_is_gone_is_named_with_what_to_do(mirror, tmp_path):
    mirror("only")
    with pytest.raises(UserError) as caught:
        fetch.fetch(tmp_path / "cache", lock.Lock("20260101T000000Z"), [package("old", b"x")], print)
    said = str(caught.value)
    assert said.startswith("1 of 1 packages of envs/lab.lock are on none of 1 mirrors, first old 1+b2 (http://127")
    assert "404" in said and "as of 20260101T000000Z" in said and "REPROFS_MIRROR" in said
    assert not list((tmp_path / "cache/packages").iterdir())


def test_mirrors_are_those_of_apt_then_the_users(monkeypatch, tmp_path):
    script = tmp_path / "apt-get"
    script.write_text(
        "#!/bin/sh\necho \"'http://a/debian/dists/x/InRelease' x 0\"\n"
        "echo \"'http://a/debian/dists/y/InRelease' y 0\"\n"
        "echo \"'cdrom:/dists/x/InRelease' x 0\"\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv(fetch.VARIABLE, "https://old/debian/2026  http://a/debian")
    assert fetch.mirrors_of_this_machine() == ["http://a/debian", "https://old/debian/2026"]


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="this machine has no apt")
def test_the_proxy_of_apt_is_used(monkeypatch, tmp_path):
    (tmp_path / "apt.conf").write_text('Acquire::http::Proxy "http://user:word@proxy:3128/";\n')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    assert fetch._proxies()["http"] == "http://user:word@proxy:3128/"


# ---- unpacking


def deb(path: Path, *entries: tuple[str, bytes | str | None], mode: int = 0o644, compression: str = "xz") -> Path:
    """A package of these: (name, content), (name, "-> target"), (name, "= hard link"), (name, None) for a folder."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=f"w:{compression}") as archive:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.mode, member.uname, member.uid = mode, "somebody", 1234
            if content is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, str):
                kind, member.linkname = content.split()
                member.type = tarfile.SYMTYPE if kind == "->" else tarfile.LNKTYPE
            else:
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    control = io.BytesIO()
    with tarfile.open(fileobj=control, mode="w:gz") as archive:
        text = b"Package: thing\nVersion: 1:2-3\nDescription: x\n"
        member = tarfile.TarInfo("./control")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    out = b"!<arch>\n"
    for name, content in (
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", control.getvalue()),
        (f"data.tar.{compression}", data.getvalue()),
    ):
        out += f"{name:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(content):<10}`\n".encode() + content
        out += b"\n" * (len(content) % 2)
    path.write_bytes(out)
    return path


def test_a_tree_has_modes_of_its_packages_whatever_the_umask(tmp_path):
    made = deb(tmp_path / "thing.deb", ("./usr/bin/", None), ("./usr/bin/a", b"a"), ("./opt/x/b", b"b"), mode=0o4755)
    before = os.umask(0o077)
    try:
        assert unpack.Tree(tmp_path / "tree").add(made) == ("thing", "1:2-3")
    finally:
        os.umask(before)
    for name, mode in (("usr/bin/a", 0o4755), ("opt/x/b", 0o4755), ("opt/x", 0o755), ("usr", 0o755), ("", 0o755)):
        assert (tmp_path / "tree" / name).stat().st_mode & 0o7777 == mode
    assert (tmp_path / "tree/usr/bin/a").stat().st_uid == os.geteuid()


def test_nothing_is_written_outside_of_the_tree(tmp_path):
    """Through no link of a package, absolute or not, and no name."""
    outside = tmp_path / "outside"
    outside.mkdir()
    made = deb(
        tmp_path / "thing.deb",
        ("./var/run", f"-> {outside}"),
        ("./var/run/a", b"a"),
        ("./up", "-> ../../../outside"),
        ("./up/b", b"b"),
        ("../outside/c", b"c"),
        (f"{outside}/d", b"d"),
        ("./file", f"-> {outside}/e"),
        ("./file", b"a file in the place of a link"),
    )
    unpack.Tree(tmp_path / "tree").add(made)
    assert not list(outside.iterdir())
    assert (tmp_path / "tree" / str(outside).lstrip("/") / "a").read_bytes() == b"a"
    assert (tmp_path / "tree/outside/b").read_bytes() == b"b" and not (tmp_path / "tree/file").is_symlink()


def test_folders_that_are_links_stay_links(tmp_path):
    """Older packages have /lib and /bin; all of it is in /usr, as an install script would arrange it."""
    made = deb(
        tmp_path / "thing.deb",
        ("./lib/", None),
        ("./lib/x.so", b"library"),
        ("./bin/run", b"program"),
        ("./usr/bin/same", "= ./bin/run"),
        ("./lib64", "-> usr/lib64"),
    )
    unpack.Tree(tmp_path / "tree").add(made)
    for name in unpack.MERGED:
        assert (tmp_path / "tree" / name).readlink() == Path("usr", name)
    assert (tmp_path / "tree/usr/lib/x.so").read_bytes() == b"library"
    assert (tmp_path / "tree/usr/bin/same").samefile(tmp_path / "tree/bin/run")


def test_what_no_guest_needs_is_left_out(tmp_path):
    made = deb(tmp_path / "thing.deb", ("./usr/share/doc/x/copyright", b"a"), ("./usr/share/documents", b"b"))
    unpack.Tree(tmp_path / "tree").add(made, skip=rootfs.SKIP)
    assert [path.name for path in (tmp_path / "tree/usr/share").iterdir()] == ["documents"]


def test_a_damaged_package_is_removed_and_told(tmp_path):
    made = deb(tmp_path / "thing.deb", ("./a", b"a"))
    with pytest.raises(UserError, match=r"thing\.deb was damaged and was removed: run again"):
        unpack.Tree(tmp_path / "tree").add(made, "0" * 64)
    assert not made.exists()


@pytest.mark.parametrize("cut", [3, 100, 400])
def test_a_package_that_is_cut_is_one_sentence(tmp_path, cut):
    made = deb(tmp_path / "thing.deb", ("./a", os.urandom(9000)))
    made.write_bytes(made.read_bytes()[:cut])
    with pytest.raises(UserError, match=r"thing\.deb is not a Debian package"):
        unpack.Tree(tmp_path / "tree").add(made)


def test_an_unknown_compression_says_how_to_build_it(tmp_path):
    made = deb(tmp_path / "thing.deb", ("./a", b"a"))
    made.write_bytes(made.read_bytes().replace(b"data.tar.xz ", b"data.tar.zst"))
    with pytest.raises(UserError, match=r"data\.tar\.zst is not compressed .*: build it with -Zxz"):
        unpack.Tree(tmp_path / "tree").add(made)


def test_modules_are_unpacked_and_lose_their_signatures(tmp_path):
    import lzma

    signature = b"signed" * 10
    end = bytes(8) + len(signature).to_bytes(4, "big") + rootfs.SIGNED
    tree = unpack.Tree(tmp_path / "tree")
    tree.write("usr/lib/modules/1/deep/a.ko.xz", lzma.compress(b"module" + signature + end))
    tree.write("usr/lib/modules/1/b.ko", b"unsigned")
    rootfs.plain_modules(tree, "1")
    assert tree.read("usr/lib/modules/1/deep/a.ko") == b"module"
    assert tree.read("usr/lib/modules/1/b.ko") == b"unsigned"
    assert tree.names("usr/lib/modules/1/deep") == ["a.ko"]


# ---- QEMU


def test_qemu_runs_without_a_library_of_this_machine(guest):
    """By its own loader: what it has mapped is in its folder."""
    folder = files.cache_folder() / guest["qemu"]["folder"]
    listed = subprocess.run(
        [folder / qemu.LOADER, "--inhibit-cache", "--library-path", folder, "--list", folder / qemu.PROGRAM],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = [line.split(" => ")[1].rpartition(" (")[0] for line in listed.splitlines() if " => " in line]
    libraries = [path for path in paths if not path.endswith(qemu.LOADER)]
    assert len(libraries) > 20 and all(path.startswith(f"{folder}/") for path in libraries)
    assert set(qemu.FIRMWARE) | {qemu.LICENCES, qemu.MODULE} < guest["qemu"]["files"].keys()
    assert "GNU GENERAL PUBLIC LICENSE" in (folder / qemu.LICENCES).read_text().upper()


def test_what_the_loader_lists_is_copied_into_the_folder_and_nowhere_else(tmp_path, monkeypatch):
    """The loader names itself by an absolute path: once, that was written to."""
    root, home, outside = tmp_path / "root", tmp_path / "home", tmp_path / "outside"
    for name in (rootfs.LOADER, qemu.DEBIANS, f"{rootfs.LIBRARIES}/liba.so.1", f"{qemu.MODULE_FOLDER}/{qemu.MODULE}"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    for name in qemu.FIRMWARE:
        (root / "usr/share/seabios").mkdir(parents=True, exist_ok=True)
        (root / "usr/share/seabios" / name).touch()
    home.mkdir()
    outside.write_text("precious")
    listed = f"\tliba.so.1 => {rootfs.LIBRARIES}/liba.so.1 (0x1)\n\t{outside} => {rootfs.LOADER} (0x2)\n"
    monkeypatch.setattr(rootfs, "run", lambda *_, loader=(): listed if loader else "version 7.2.22 (Debian)")
    assert qemu._gather(root, home) == "7.2.22"
    assert outside.read_text() == "precious"
    assert {path.name for path in home.iterdir()} == {
        *("liba.so.1", qemu.LOADER, qemu.PROGRAM, qemu.MODULE, qemu.LICENCES),
        *qemu.FIRMWARE,
    }
    monkeypatch.setattr(rootfs, "run", lambda *_, loader=(): "\tlibb.so => /usr/lib/libb.so (0x1)\n")
    with pytest.raises(UserError, match=r"libb\.so, which QEMU loads, is not in the locked packages"):
        qemu._gather(root, home)


# ---- resolving


@pytest.mark.wide
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
def test_mirrors_of_this_machine_for_another_release():
    main, more = packages.apt_mirrors("trixie"), packages.apt_mirrors("trixie", "contrib")
    assert all(line.endswith(" main") for line in main)
    assert more == [f"{line} contrib" for line in main]
    newer = packages.apt_mirrors("sid")  # Debian has no archive for its security
    assert newer and all(line.split()[2] == "sid" for line in newer)


@pytest.mark.wide
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="this machine has no apt")
def test_mirrors_are_found_without_fetched_lists(tmp_path, monkeypatch):
    known = packages.apt_mirrors("trixie")
    (tmp_path / "apt.conf").write_text(f'Dir::State::lists "{tmp_path}/lists";')  # as after rm -r /var/lib/apt/lists/*
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    assert packages.apt_targets() == []
    assert packages.apt_mirrors("trixie") == known


def test_a_line_of_apt_is_a_package():
    line = f"'http://m/debian/pool/main/n/n/n_1%3a2+b3_amd64.deb' n_1%3a2+b3_amd64.deb 12 SHA256:{'a' * 64}"
    found = packages.listed(line)
    assert found == lock.Package("n", "1:2+b3", "amd64", "a" * 64, 12, "pool/main/n/n/n_1:2+b3_amd64.deb")
    with pytest.raises(UserError, match="no SHA-256 for a package"):
        packages.listed("'http://m/pool/n.deb' n.deb 12 MD5Sum:abc")


@pytest.mark.soak
def test_resolving_asks_for_what_a_set_needs(known):
    """A small set, anew: the mirrors may have newer versions, of the same packages or a few others."""
    fresh = copy.deepcopy(known)
    packages.resolve(fresh, WISHES, [lock.EROFS], print)
    names = {package.name for package in fresh.sets[lock.EROFS].packages}
    assert {"erofs-utils", "libc6"} <= names
    assert fresh.date > known.date and fresh.sets[BASE] == known.sets[BASE]
