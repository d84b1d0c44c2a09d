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

SOURCE = Path(__file__).resolve().parents[1] / "engine"
FLAGS = ["-target", "x86_64-linux-musl", "-mcpu=x86_64", "-std=gnu11", "-O2", "-static", "-s"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def compile_c(sources: list[Path], output: Path, flags: list[str]) -> None:
    """Compiles C files with the compiler of the ziglang wheel. Raises UserError with the compiler's first complaint."""
    command = [sys.executable, "-m", "ziglang", "cc", *flags, *map(str, sources), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        complaint = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[-300:])
        raise UserError(f"the engine does not compile: {complaint}")


def build(cache: Path) -> Path:
    """The engine, compiled or found in the cache. It is named after its sources, flags and compiler.

    Raises UserError when it does not compile or the cache cannot be written.
    """
    sources = sorted(SOURCE.glob("*.c"))
    recipe = [importlib.metadata.version("ziglang"), FLAGS]
    recipe += [[path.name, path.read_text()] for path in sorted([*sources, *SOURCE.glob("*.h")])]
    engine = cache / "engine" / hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]
    if engine.exists():
        return engine
    try:
        engine.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=engine.parent) as folder:
            compile_c(sources, Path(folder) / "engine", FLAGS + WARNINGS)
            (Path(folder) / "engine").rename(engine)
    except OSError as error:
        raise UserError(
            f"{engine.parent} cannot be written: {error.strerror}; set REPROFS_CACHE to another folder."
        ) from None
    return engine
