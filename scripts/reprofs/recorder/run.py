"""Runs a program in the recorder (scripts/engine/recorder.c), and reads what it does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from reprofs import files
from reprofs.guest import engine
from reprofs.recorder.events import Event, read
from reprofs.workplace import end_with_parent


@contextmanager
def watched(command: Sequence[str], places: Sequence[str], seconds: int, **options: Any) -> Iterator[Iterator[Event]]:
    """The events of a command that is ended after so many seconds; where reading them fails, it is killed.

    places: the folders whose calls count; options: those of Popen.
    """
    recorder = engine.build_recorder(files.cache_folder())
    reading, writing = os.pipe()
    words = [str(recorder), str(seconds), str(writing), *places, "--", *command]
    with (
        os.fdopen(reading, "rb", 1 << 20) as stream,
        subprocess.Popen(words, pass_fds=(writing,), preexec_fn=end_with_parent, **options) as process,
    ):
        os.close(writing)
        try:
            yield read(stream)
        except BaseException:
            process.kill()  # and with it all that it follows
            raise
