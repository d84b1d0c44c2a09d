"""What a job brings into a guest, as the content of a memory module: programs, recordings, and behind them an image."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import sha256
from reprofs.guest.initrd import cpio
from reprofs.guest.steps import IMAGE_AT
from reprofs.guest.trace import IMAGE


def write(module: Path, programs: dict[str, Path], size: int) -> None:
    """Writes the module in place, so that a machine that is paused has it in its memory.

    programs: as `trace.programs` returns them, with one image at most; size: of the module, in bytes. Raises UserError
    when they do not fit.
    """
    image = next((path for path in programs.values() if path.suffix == IMAGE), None)
    files = [(f"programs/{name}", 0o755, path.read_bytes()) for name, path in programs.items() if path != image]
    archive = cpio([("programs", 0o755, None), *files])
    room = IMAGE_AT if image else size
    if len(archive) > room:
        raise UserError(
            f"programs and recordings of the job have {len(archive)} bytes, but at most {room} "
            "fit: use a smaller recording."
        )
    with module.open("wb") as to:
        to.write(archive)
        if image:
            to.seek(IMAGE_AT)
            with image.open("rb") as file:
                shutil.copyfileobj(file, to, 1 << 24)
    os.truncate(module, size)


def digest_of(path: Path) -> str:
    """SHA-256 of what `trace.programs` names; an image has it in its own name."""
    return path.stem if path.suffix == IMAGE else sha256(path)
