"""The guests of the labs (envs/guest.yaml): which Debian packages and modules each has, and how much memory."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from reprofs.errors import UserError, meant, short
from reprofs.plan.parts import Descriptor, Filled, Part, Word, text, wrong
from reprofs.plan.read import read_yaml
from reprofs.project import project_root

FILE = "envs/guest.yaml"
BASE = "base"
MEMORY_MAX_MIB = 1 << 20  # a tebibyte, more than any machine lends to a guest

Package = Annotated[str, text(r"^[a-z0-9][a-z0-9+.-]+$", "the name of a Debian package")]
Module = Annotated[str, text(r"^[a-z0-9_-]+$", "the name of a kernel module")]


class LocalPackage(Part):
    """A Debian package that somebody built."""

    file: Filled = Field(description="Its place on this machine; from the checkout, where it is not absolute")
    sha256: Annotated[str, text("^[0-9a-f]{64}$", "a SHA-256 in 64 hexadecimal digits, as sha256sum prints it")]


class Guest(Part):
    """One guest, with all that it has."""

    component: str
    userland: str
    modules: str
    modprobe: list[str]
    suite: str
    memory_mib: int
    preload: list[str]
    packages: list[str]
    own: list[str]  # of the packages: those that the guests have not in common
    debs: list[LocalPackage] = []
    name: str


class Further(Part):
    """What a guest has beside that of all."""

    component: Word | None = Field(None, description="Of the Debian archive, besides main")
    userland: Word | None = Field(None, description="Suite of all packages but the kernel")
    packages: list[Package]
    debs: list[LocalPackage] = Field(
        [], description="Packages that are in no archive; what they need belongs under packages, for nobody looks"
    )
    preload: list[Module] = []
    modules: Package | None = Field(
        None, description="Source of kernel modules, in the version of the first package; compiled once"
    )
    modprobe: list[str] = Field([], description="Lines of modprobe's configuration")

    def has(self, other: "Further") -> bool:
        """Whether this guest has everything of another."""
        lists = ("packages", "preload", "modprobe", "debs")
        whole = all(all(part in getattr(self, key) for part in getattr(other, key)) for key in lists)
        return whole and all(getattr(other, key) in (None, getattr(self, key)) for key in ("modules", "userland"))


class Guests(Descriptor):
    kind = "guest"
    model_config = ConfigDict(title="envs/guest.yaml, the Linux guests in which trials run")

    suite: Word = Field(description="Of Debian")
    memory_mib: Annotated[int, Field(ge=512, le=MEMORY_MAX_MIB)]
    preload: list[Module] = Field([], description="Modules that the guest loads when it starts, in this order")
    packages: list[Package]
    guests: dict[Word, Further] = Field({}, description="Further guests: all of the above and a little more")

    def guest(self, name: str) -> Guest:
        """One of them. Raises UserError when there is none of that name."""
        if name != BASE and name not in self.guests:
            raise UserError(f"{self.file} has no guest {short(name)}: {meant(name, [BASE, *self.guests])}")
        more = self.guests.get(name, Further(packages=[]))
        return Guest(
            component=more.component or "",
            userland=more.userland or "",
            modules=more.modules or "",
            modprobe=more.modprobe,
            suite=self.suite,
            memory_mib=self.memory_mib,
            preload=self.preload + more.preload,
            packages=more.packages + self.packages,
            own=more.packages if name != BASE else self.packages,
            debs=more.debs,
            name=name,
        )


def read_guest(name: str = BASE, path: Path | None = None) -> Guest:
    """A guest of envs/guest.yaml, or of the file `path`. Raises UserError naming file and key."""
    return read_yaml(path or project_root() / FILE, Guests).guest(name)


def common(*asked: str | None) -> str:
    """The one of these guests that has everything of the others; None: base. Empty if there is none."""
    guests = _guests_of_checkout().guests
    names = [BASE if name is None else name for name in asked]

    def has(whole: str, part: str) -> bool:
        if part in (BASE, whole):
            return True
        return whole in guests and part in guests and guests[whole].has(guests[part])

    return next((whole for whole in names if all(has(whole, part) for part in names)), "")


def known_guest(name: str) -> str:
    """The name of a guest, for a field. Raises PydanticCustomError when there is none of that name."""
    found = _guests_of_checkout()
    if name != BASE and name not in found.guests:
        raise wrong(f"must be one of the guests of {FILE}: {BASE}, {', '.join(found.guests)}")
    return name


def _guests_of_checkout() -> Guests:
    path = project_root() / FILE
    return _guests(path, path.stat().st_mtime_ns) if path.exists() else read_yaml(path, Guests)


@cache
def _guests(path: Path, changed: int) -> Guests:
    """Every file system asks; changed: when the file was."""
    return read_yaml(path, Guests)
