"""Builds the load engine: a static binary by the pinned compiler of the ziglang wheel, the same bytes everywhere."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from reprofs.errors import UserError

SOURCE = Path(__file__).resolve().parents[2] / "engine"
GATE = SOURCE.parent / "guest" / "gate.c"
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
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def compile_c(sources: list[Path], output: Path, flags: list[str]) -> None:
    """Compiles C files with the compiler of the ziglang wheel. Raises UserError with the compiler's first error."""
    command = [sys.executable, "-m", "ziglang", "cc", *flags, *map(str, sources), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        complaint = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[-300:])
        raise UserError(f"the engine does not compile: {complaint}")


def build(cache: Path) -> Path:
    """The engine, compiled or found in the cache. It is named after its sources, flags and compiler.

    Raises UserError when it does not compile or the cache cannot be written.
    """
    return _build(cache, sorted(SOURCE.glob("*.c")), sorted(SOURCE.glob("*.h")), FLAGS)


def build_gate(cache: Path) -> Path:
    """The library that the exact lab loads into QEMU (scripts/guest/gate.c), like `build`."""
    return _build(cache, [GATE], [], GATE_FLAGS)


def build_nosync(cache: Path) -> Path:
    """The library in which syncs do nothing (scripts/guest/nosync.c), for programs of the guest, like `build`."""
    return _build(cache, [NOSYNC], [], NOSYNC_FLAGS)


def _build(cache: Path, sources: list[Path], headers: list[Path], flags: list[str]) -> Path:
    recipe = [importlib.metadata.version("ziglang"), flags]
    recipe += [[path.name, path.read_text()] for path in [*sources, *headers]]
    output = cache / "engine" / hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]
    if output.exists():
        return output
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=output.parent) as folder:
            compile_c(sources, Path(folder) / "made", flags + WARNINGS)
            (Path(folder) / "made").rename(output)
    except OSError as error:
        raise UserError(
            f"{output.parent} cannot be written: {error.strerror}; set REPROFS_CACHE to another folder."
        ) from None
    return output
