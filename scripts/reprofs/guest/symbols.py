"""Which function an address of the guest belongs to: the kernel's own list, and the engine's executables."""

from __future__ import annotations

import bisect
import functools
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KERNEL = 1 << 47  # addresses from here on are the kernel's (x86-64, four levels of page tables)
# What the compiler adds to the name of a function that it cut or cloned: differs from build to build.
CLONE = re.compile(r"(\.(isra|part|constprop|cold|llvm|localalias)(\.\d+)?)+$")
PADDING = ("__pfx_", "__cfi_")  # room before a function, which is never executed


class Function(NamedTuple):
    """name: without what the compiler adds to clones; module: of the kernel, empty for what is built in; program of
    user space where it is none of the kernel's."""

    name: str
    module: str = ""
    program: str = ""


@functools.cache
def label(function: Function) -> str:
    """The function as folded stacks have it: its name and, after it, the module; without their marks in it."""
    text = f"{function.name} [{function.module}]" if function.module else function.name
    return re.sub("[; ]", "_", text)


USER = Function("(not the engine's)", program="user space")


def clean(name: str) -> str:
    """The name of a function as its source has it."""
    return CLONE.sub("", name) if "." in name else name


def read_kallsyms(text: str) -> tuple[list[int], list[Function]]:
    """Addresses, ascending, and the functions that begin there, of /proc/kallsyms (proc_kallsyms of Linux, kallsyms.c).

    Of several names for one address the one without underscores is taken, then the shortest.
    """
    found: dict[int, Function] = {}
    for line in text.splitlines():
        address, kind, name, *module = line.split()
        if kind not in "tTwW" or name.startswith(PADDING):
            continue
        one = Function(clean(name), module[0].strip("[]") if module else "")
        place = int(address, 16)
        other = found.setdefault(place, one)
        if other is not one and _rank(one) < _rank(other):
            found[place] = one
    addresses = sorted(found)
    return addresses, [found[address] for address in addresses]


def _rank(function: Function) -> tuple[bool, int, str]:
    return function.name.startswith("_"), len(function.name), function.name


@dataclass
class Executable:
    """A static program: its code, and the functions in it by address. Its last part may be data."""

    name: str
    start: int
    code: bytes
    functions: Mapping[int, str]

    def __post_init__(self) -> None:
        self.addresses = sorted(self.functions)

    @classmethod
    def read(cls, name: str, path: Path, functions: Mapping[int, str]) -> Executable:
        """The segment of an ELF file (64 bits, little endian) that is executed. Source: elf(5)."""
        data = path.read_bytes()
        place, size, count = struct.unpack_from("<Q14xHH", data, 32)
        for number in range(count):
            kind, flags, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, place + number * size)
            if kind == 1 and flags & 1:  # PT_LOAD, PF_X
                return cls(name, address, data[offset : offset + length], functions)
        raise ValueError(f"{path} has nothing to execute")

    def has(self, address: int, content: bytes) -> bool:
        """Whether these bytes are at this address."""
        at = address - self.start
        return 0 <= at < len(self.code) and self.code[at : at + len(content)] == content


class Symbols:
    """Functions by address. kallsyms: of the guest in the state of the trial; executables: of the engine."""

    def __init__(self, kallsyms: str, executables: Iterable[Executable]):
        self.addresses, self.functions = read_kallsyms(kallsyms)
        self.executables = list(executables)

    def kernel(self, address: int) -> Function:
        """The function of an address of the kernel."""
        at = bisect.bisect(self.addresses, address) - 1
        return self.functions[at] if at >= 0 else Function(f"{address:x}")

    def user(self, address: int, content: bytes) -> Function:
        """The function of an address below the kernel's, known by what was executed there.

        All programs of the engine begin at one address; the first that has these bytes there is taken.
        """
        for one in self.executables:
            if one.has(address, content):
                at = bisect.bisect(one.addresses, address) - 1
                found = one.functions[one.addresses[at]] if at >= 0 else f"{address:x}"
                return Function(clean(found), program=f"engine {one.name}".strip())
        return USER

    def at(self, address: int, content: bytes) -> Function:
        """The function of an address; content: what was executed there, if it is known."""
        return self.kernel(address) if address >= KERNEL else self.user(address, content)
