"""envs/lab.lock: every package that the labs consist of, and the digests of what is built of them.

The packages are in sets: one for each guest, what compiles kernel modules, QEMU, and so on. A guest's own set has what
it needs beside the set `base`, so that a change of one changes no byte of the others. Only `reprofs lock` writes the
file (resolve.py); everything else fetches and builds exactly what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from reprofs.errors import UserError, cut, legible, middle
from reprofs.files import write_text
from reprofs.guest.cache import digest_of
from reprofs.plan.guest import BASE, FILE, Guest, Guests, LocalPackage
from reprofs.plan.kernel import Kernel
from reprofs.project import project_root

LOCK = "envs/lab.lock"
TITLE = """\
# What the labs consist of, to the byte. Written by `reprofs lock`, and by nothing else: what builds, builds from here.
# A set: its name, the suites of Debian, what was asked for; then its packages, one a line:
# name version architecture sha256 bytes place-in-the-archive. Then what is built: name, of what (a digest), sha256.
# Last the QEMU of the numbers, as far as published trials were run by it again (`make accept`): sha256, how many of how
# many were identical, and a digest of what they measured.
"""
MODULES = "modules"  # the set that compiles kernel modules; the one of guest G with sources of its own: G-modules
QEMU, QEMU_OWN, EROFS = "qemu", "qemu-own", "erofs"
# QEMU 7.2: fewer CPU seconds a trial than 10.0, and the one that the patches fit.
QEMU_SUITE = "bookworm"
# What compiles modules, besides their source.
COMPILER = (
    "base-files base-passwd bash binutils coreutils dash diffutils findutils gcc grep gzip kmod libc-bin libc6-dev "
    "linux-headers-amd64 make mawk perl-base sed tar"
)
QEMU_COMPILER = (
    "base-files base-passwd bash binutils bzip2 coreutils dash diffutils findutils gawk gcc grep gzip libc-bin "
    "libc6-dev libfdt-dev libglib2.0-dev libpixman-1-dev make meson ninja-build patch pkg-config python3 "
    "python3-distutils qemu-system-data seabios sed tar xz-utils zlib1g-dev"
)
KERNEL = "linux-image-amd64"
# Of all that a kernel asks for: packages with what runs, and those for which modules are compiled.
KERNEL_FILES = re.compile(r"linux-(image|binary|modules|base)-\d")
HEADERS = re.compile(r"linux-(headers|kbuild)-\d")

# Of a package, or (underscores) of a file of a source package.
NAME = re.compile(r"[a-z0-9][\w.+~-]{0,199}", re.ASCII)
VERSION = re.compile(r"[\w.+~:-]{1,199}", re.ASCII)
ARCHITECTURE = re.compile("all|amd64|source")
DIGEST = re.compile("[0-9a-f]{64}")
SIZE = re.compile("[1-9][0-9]{0,9}")
PLACE = re.compile(r"pool(/[\w+~:][\w.+~:-]*)+", re.ASCII)


@dataclass(frozen=True, order=True)
class Package:
    """One file of a Debian archive: a binary package, or (architecture source) a file of a source package."""

    name: str
    version: str
    arch: str
    sha256: str
    size: int
    path: str  # below the address of a mirror

    def line(self) -> str:
        return f"{self.name} {self.version} {self.arch} {self.sha256} {self.size} {self.path}"


@dataclass(frozen=True)
class Wish:
    """What a set is resolved from. component: of the archive besides main; below: the set that it adds to."""

    suites: tuple[str, ...]
    wanted: tuple[str, ...]
    component: str = ""
    below: str = ""
    source: str = ""  # a source package, besides
    kernel: bool = False  # of what it needs only the kernel itself and its headers


@dataclass
class Set:
    """The packages of a set; asked: suites and what was asked for, as text."""

    asked: str
    packages: list[Package] = field(default_factory=list)


@dataclass
class Lock:
    """The whole file.

    built: name -> of what, SHA-256. accepted: SHA-256 of a QEMU -> (identical, of how many published trials), proof.
    """

    date: str
    sets: dict[str, Set] = field(default_factory=dict)
    built: dict[str, tuple[str, str]] = field(default_factory=dict)
    accepted: dict[str, tuple[tuple[int, int], str]] = field(default_factory=dict)

    def packages(self, name: str, wish: Wish) -> list[Package]:
        """All packages of a set, with those of the set below, by name. Raises UserError when it asks for others."""
        found = self.sets.get(name)
        if found is None or found.asked != asked(wish):
            what = "has no set" if found is None else f"was made for other suites or packages ({FILE}) in the set"
            raise UserError(f"{LOCK} {what} {name}: run `reprofs lock {name}`, then `reprofs lock --built`.")
        below = self.sets[wish.below].packages if wish.below else []
        return sorted({package.name: package for package in [*found.packages, *below]}.values())

    def compare(self, name: str, recipe: str, digest: str) -> bool:
        """Whether something is built as the file says: of the same, with the same bytes.

        Raises UserError when it was built of the same and has other bytes.
        """
        of, expected = self.built.get(name, ("", ""))
        if of == recipe and digest != expected:
            raise UserError(
                f"{name} has the SHA-256 {digest[:16]}…, but {LOCK} expects {expected[:16]}… from the same "
                "sources. Remove the cache and build again; if that does not help, report it."
            )
        return of == recipe


def asked(wish: Wish) -> str:
    """Suites and wanted packages, as a set's line says them."""
    source = f" source:{wish.source}" if wish.source else ""
    component = f"/{wish.component}" if wish.component else ""
    return f"{'+'.join(wish.suites)}{component}: {' '.join(sorted(wish.wanted))}{source}"


def wish_of(guest: Guest) -> Wish:
    """What a guest's set is resolved from."""
    if guest.userland:  # nothing of it is that of the base but the kernel
        return Wish((guest.suite, guest.userland), tuple(guest.packages), guest.component)
    return Wish((guest.suite,), tuple(guest.own), guest.component, BASE if guest.name != BASE else "")


def modules_wish(guest: Guest, own: bool) -> Wish:
    """What the set that compiles modules is resolved from; own: the one with a guest's own sources."""
    if own:
        return Wish((guest.suite,), (guest.modules,), guest.component, MODULES)
    return Wish((guest.suite,), tuple(COMPILER.split()))


def compiler(lock: Lock, guest: Guest) -> list[Package]:
    """What compiles modules for any kernel: without the guest's own and its headers. Raises like `Lock.packages`."""
    found = lock.packages(MODULES, modules_wish(guest, False))
    return [package for package in found if not (KERNEL_FILES.match(package.name) or HEADERS.match(package.name))]


def kernel_set(name: str) -> str:
    """The set of a kernel of workflow/kernels."""
    return f"kernel-{name}"


def built_module(name: str, kernel: str | None) -> str:
    """The name in `Lock.built` of a module that jobs bring: for a kernel of workflow/kernels, or the guests' own."""
    return f"{kernel_set(kernel)}/{name}.ko" if kernel else f"{name}.ko"


def kernel_wish(kernel: Kernel) -> Wish:
    """What the set of a kernel of Debian is resolved from."""
    headers = kernel.package.replace("image", "headers", 1)
    return Wish(tuple(kernel.suites or ()), (kernel.package, headers), kernel=True)


def tool_wishes(suite: str) -> dict[str, Wish]:
    """The sets of what runs on the host."""
    return {
        EROFS: Wish((suite,), ("erofs-utils",)),
        QEMU: Wish((QEMU_SUITE,), ("qemu-system-x86",)),
        QEMU_OWN: Wish((QEMU_SUITE,), tuple(QEMU_COMPILER.split()), source="qemu"),
    }


def wishes(guests: Guests, kernels: Iterable[Kernel] = ()) -> dict[str, Wish]:
    """All sets, each after the one below it. kernels: those of workflow/kernels."""
    base = guests.guest(BASE)
    found = {BASE: wish_of(base), MODULES: modules_wish(base, False)}
    for name in guests.guests:
        guest = guests.guest(name)
        found[name] = wish_of(guest)
        if guest.modules:
            found[f"{name}-{MODULES}"] = modules_wish(guest, True)
    found |= {kernel_set(kernel.name): kernel_wish(kernel) for kernel in kernels if kernel.suites}
    return found | tool_wishes(base.suite)


def packages_of(lock: Lock, guest: Guest) -> list[Package]:
    """All packages that take part in a guest: its own, and what compiles its modules, makes its image and runs it.

    Raises UserError like `Lock.packages`.
    """
    wanted = {guest.name: wish_of(guest), MODULES: modules_wish(guest, False)}
    wanted |= {name: wish for name, wish in tool_wishes(guest.suite).items() if name != QEMU_OWN}
    if guest.modules:
        wanted[f"{guest.name}-{MODULES}"] = modules_wish(guest, True)
    return [package for name, wish in wanted.items() for package in lock.packages(name, wish)]


def parts_of_lab(guest: str, kernel: str | None) -> dict[str, str]:
    """What a record of the exact lab says of its lab (key of environment.lab) -> the name of that in `Lock.built`.

    kernel: in the place of the guest's own; what it starts with is made of parts that are locked, and is not itself.
    """
    parts = {"engine_sha256": "engine", "gate_sha256": "gate", "image_sha256": f"{guest}/root", "qemu_sha256": QEMU_OWN}
    if kernel:
        own = kernel_set(kernel)
        return parts | {"kernel_sha256": f"{own}/vmlinuz", "modules_sha256": f"{own}/drivers"}
    return parts | {"kernel_sha256": f"{guest}/kernel", "initrd_sha256": f"{guest}/initrd"}


def versions(packages: list[Package]) -> dict[str, str]:
    """Package -> version."""
    return {package.name: package.version for package in packages}


def recipe_of(packages: Iterable[Package | LocalPackage]) -> str:
    """A digest of packages."""
    return digest_of([package.sha256 for package in packages])


def read_lock(path: Path | None = None) -> Lock:
    """The lock of this checkout, or of a file. Raises UserError when it is missing or a line is none."""
    path = path or project_root() / LOCK
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({cut(error, 80)}): restore it from the repository.") from None
    lock, into = Lock(""), None
    for number, line in enumerate(lines, 1):
        words = line.split()
        try:
            if not words or line.startswith("#"):
                continue
            if words[0] == "date":
                lock.date = words[1]
            elif words[0] == "set":
                into = lock.sets[words[1]] = Set(line.split(maxsplit=2)[2])
            elif words[0] == "built":
                lock.built[words[1]] = (words[2], words[3])
            elif words[0] == "accepted":
                identical, count = map(int, words[2].split("/"))
                lock.accepted[words[1]] = ((identical, count), words[3])
            else:
                assert into is not None
                into.packages.append(package_of(*words))
        except (TypeError, ValueError, IndexError, AssertionError):
            where = f"{middle(str(path))}, line {number}"
            raise UserError(f"{where} is invalid: {cut(legible(line), 60)}; restore it from the repository.") from None
    return lock


def package_of(name: str, version: str, arch: str, digest: str, size: str, place: str) -> Package:
    """A package, whose name and digest are also names of files. Raises ValueError when it cannot be one."""
    forms = {NAME: name, VERSION: version, ARCHITECTURE: arch, DIGEST: digest, SIZE: size, PLACE: place}
    if wrong := [word for form, word in forms.items() if not form.fullmatch(word)]:
        raise ValueError(f"{cut(ascii(wrong[0]), 60)} is wrong")
    return Package(name, version, arch, digest, int(size), place)


def write_lock(lock: Lock, path: Path | None = None) -> None:
    """Writes the lock of this checkout, or another file."""
    lines = [TITLE, f"date {lock.date}\n"]
    for name, found in lock.sets.items():
        lines += [f"\nset {name} {found.asked}\n", *(f"{package.line()}\n" for package in sorted(found.packages))]
    lines += ["\n", *(f"built {name} {of} {digest}\n" for name, (of, digest) in sorted(lock.built.items()))]
    accepted = ((qemu, f"{same}/{count}", proof) for qemu, ((same, count), proof) in sorted(lock.accepted.items()))
    lines += ["\n", *(f"accepted {' '.join(words)}\n" for words in accepted)]
    write_text(path or project_root() / LOCK, "".join(lines))
