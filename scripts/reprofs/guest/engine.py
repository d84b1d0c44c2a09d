"""Builds the load engine: static binaries by the pinned compiler of the ziglang wheel, the same bytes everywhere.

The runner (engine.c) runs jobs. Programs of workloads, one file each in programs/, are executables of their own, so
that adding or changing one leaves the bytes of all others alone. An executable is made of its file, of the headers that
this includes, directly or through others, and of the files beside those headers.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from reprofs.errors import UserError, cut, meant, short
from reprofs.files import cache_folder, sha256, whole, write_text
from reprofs.workplace import scratch

SOURCE = Path(__file__).resolve().parents[2] / "engine"
GATE = SOURCE.parent / "guest" / "gate.c"
PROFILER = SOURCE.parent / "guest" / "profile"
SPLITTER = SOURCE.parent / "guest" / "split"
GATE_FLAGS = ["-target", "x86_64-linux-gnu.2.36", "-std=gnu11", "-O2", "-shared", "-fPIC", "-s"]  # glibc of Debian 12
FLAGS = ["-target", "x86_64-linux-musl", "-mcpu=x86_64", "-std=gnu11", "-O2", "-static", "-s"]
NOSYNC = SOURCE.parent / "guest" / "nosync.c"
NOSYNC_FLAGS = [
    "-target",
    "x86_64-linux-gnu.2.36",
    "-mcpu=x86_64",
    "-std=gnu11",
    "-O2",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-s",
]
LEAST_FREE = 1 << 20  # bytes of a disk on which the compiler can write
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def names() -> list[str]:
    """The names of all programs: `engine NAME`."""
    return sorted(path.stem for path in (SOURCE / "programs").glob("*.c"))


def sources(name: str = "") -> list[Path]:
    """The files that a program is made of, or without a name the runner. Raises UserError for an unknown name."""
    if name and name not in names():
        raise UserError(f"the engine has no program {short(name)}: {meant(name, names(), 80)}")
    return _with_headers(SOURCE / "programs" / f"{name}.c" if name else SOURCE / "engine.c")


def _with_headers(first: Path) -> list[Path]:
    files = [first]
    for path in files:  # which grows meanwhile
        for header in re.findall(r'^#include "([\w/-]+)\.h"', path.read_text(), re.MULTILINE):
            beside = [SOURCE / f"{header}.h", SOURCE / f"{header}.c", path.parent / f"{header}.h"]
            files += [file for file in dict.fromkeys(beside) if file.exists() and file not in files]
    return sorted(files)


def compile_c(files: Iterable[Path], output: Path, flags: list[str]) -> str:
    """Compiles C files (others are left out) with the compiler of the ziglang wheel. Returns what it prints.

    Raises UserError with the compiler's first error.
    """
    command = [sys.executable, "-m", "ziglang", "cc", *flags, "-iquote", str(SOURCE)]
    command += [*(str(file) for file in files if file.suffix == ".c"), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(_complaint(done, output.parent))
    return done.stdout


def _complaint(done: subprocess.CompletedProcess, folder: Path) -> str:
    """Why the compiler failed, a sentence. A full disk comes first: on one it ends by a signal, or with many words."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    for place in (folder, Path(os.environ.get("ZIG_GLOBAL_CACHE_DIR") or Path(base) / "zig")):
        if place.exists() and shutil.disk_usage(place).free < LEAST_FREE:
            return (
                f"the engine does not compile: the disk of {place} is full: free space, or set REPROFS_CACHE and "
                "ZIG_GLOBAL_CACHE_DIR to other folders."
            )
    said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip())
    return f"the engine does not compile: {cut(said) or f'the compiler ended with {done.returncode} and said nothing'}"


def build(cache: Path, name: str = "") -> Path:
    """A program, or without a name the runner, compiled or found in the cache.

    Raises UserError for an unknown name, when it does not compile, or when the cache cannot be written.
    """
    return _build(cache, sources(name), FLAGS)


def build_all(cache: Path, programs: Iterable[str]) -> dict[str, Path]:
    """These programs by name, like `build`."""
    return {name: build(cache, name) for name in programs}


def build_gate(cache: Path) -> Path:
    """The library that the exact lab loads into QEMU (scripts/guest/gate.c), like `build`."""
    return _build(cache, [GATE], GATE_FLAGS)


def build_profiler(cache: Path) -> Path:
    """The plugin of QEMU that counts the instructions of a trial (scripts/guest/profile), like `build`."""
    return _build(cache, sorted(PROFILER.glob("*.[ch]")), GATE_FLAGS)


def build_splitter(cache: Path) -> Path:
    """The plugin of QEMU that counts a trial's instructions of programs and kernel (scripts/guest/split), like
    `build`."""
    return _build(cache, [*sorted(SPLITTER.glob("*.c")), PROFILER / "plugin.h"], GATE_FLAGS)


def functions(cache: Path, name: str = "") -> dict[int, str]:
    """Address -> name of the functions of a program or of the runner, after the linker's map of its stripped file."""
    program = build(cache, name)
    kept = program.with_suffix(".map")
    if not kept.exists():
        with scratch(cache / "work") as folder:
            made = folder / "made"
            text = compile_c(sources(name), made, [*FLAGS, "-Wl,--print-map"])
            if made.read_bytes() != program.read_bytes():
                raise UserError(f"{program} does not match its sources: remove it and run the trial again.")
        write_text(kept, text)
    code = kept.read_text().partition(" .text\n")[2]
    found = re.findall(r"^ +([0-9a-f]+) +[0-9a-f]+ +[0-9a-f]+ +\d+ {17}(\S+)$", code, re.MULTILINE)
    return {int(address, 16): function for address, function in found}


def build_recorder(cache: Path) -> Path:
    """The program that records the calls of another program (scripts/engine/recorder.c), like `build`. It runs in no
    lab."""
    return _build(cache, _with_headers(SOURCE / "recorder.c"), FLAGS)


def build_contain(cache: Path) -> Path:
    """The program that keeps a replay in its folder (scripts/engine/contain.c), like `build`. No guest has it."""
    return _build(cache, [SOURCE / "contain.c"], FLAGS)


def build_calibrate(cache: Path) -> Path:
    """The program that measures constants of a machine (scripts/engine/calibrate.c), like `build`. No guest has it."""
    return _build(cache, [SOURCE / "calibrate.c"], FLAGS)


def build_nosync(cache: Path) -> Path:
    """The library in which syncs do nothing (scripts/guest/nosync.c), for programs of the guest, like `build`."""
    return _build(cache, [NOSYNC], NOSYNC_FLAGS)


def build_for_guests(cache: Path) -> Path:
    """The runner, like `build`, with the two libraries that every guest has besides."""
    build_gate(cache)
    build_nosync(cache)
    return build(cache)


def _build(cache: Path, files: list[Path], flags: list[str]) -> Path:
    """A file named after its sources, flags and compiler, with its digest beside it. A damaged one is made again."""
    recipe = [importlib.metadata.version("ziglang"), flags, *([path.name, path.read_text()] for path in files)]
    output = cache / "engine" / hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]
    if whole(output):
        return _executable(output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if whole(output):  # made by another process meanwhile
                return output
            with scratch(cache / "work") as folder:
                made = folder / "made"
                compile_c(files, made, flags + WARNINGS)
                digest = sha256(made)
                made.rename(output)
            write_text(output.with_suffix(".sha256"), digest)
    except OSError as error:
        raise UserError(
            f"{output.parent} cannot be written: {error.strerror}; set REPROFS_CACHE to another folder."
        ) from None
    return _executable(output)


def _executable(path: Path) -> Path:
    """The file itself. Raises UserError where nothing can be executed."""
    if os.statvfs(path.parent).f_flag & os.ST_NOEXEC:
        raise UserError(
            f"{path.parent} is mounted noexec, but programs must run there: set REPROFS_CACHE to another folder."
        )
    return path


def main() -> None:
    """The command `engine` of a checkout: a program, or the runner on a job, as in a lab."""
    words = sys.argv[1:]
    name = words[0] if words and words[0] != "run" else ""
    try:
        usage = f"usage: engine PROGRAM ARGUMENTS, or engine run JOB; programs are {', '.join(names())}"
        if words in (["--help"], ["-h"]):
            print(usage)
            return
        if not words:
            raise UserError(usage)
        os.execv(build(cache_folder(), name), [name, *words[1:]] if name else ["engine", *words])
    except UserError as error:
        print(f"engine: {error}", file=sys.stderr)
        sys.exit(2)
