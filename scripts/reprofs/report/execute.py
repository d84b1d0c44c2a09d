"""Runs a notebook of the report on a study's tables: in a kernel of its own, or in this process."""

from __future__ import annotations

import base64
import io
import logging
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reprofs.errors import UserError, cut
from reprofs.files import HINTS, made, write_bytes, write_sums
from reprofs.workplace import workplace

CELL_S = 600  # of the host; a cell takes seconds
LONGEST = 90  # bytes of a folder with sockets, whose paths have up to 107 (unix(7))
MOST_MB = 20  # of an executed notebook; those of the report have less than one


def execute(notebook: Path, study: str, log: Path, output: Path) -> None:
    """Executes a notebook with the parameter `study`; the copy is `log` while it runs, and `output` when it ran whole.
    Beside `output` is its digest.

    The kernel looks each second whether this process lives (ipykernel), and this process ends with the workflow; what
    is left of both in the work folder is known to the clean-up. Raises UserError with the cell's last words when a cell
    fails.
    """
    import nbformat
    import papermill  # takes a second
    from nbclient.exceptions import DeadKernelError

    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # else every kernel warns of frozen modules
    log.parent.mkdir(parents=True, exist_ok=True)
    options = {"kernel_name": "python3", "language": "python", "progress_bar": False, "execution_timeout": CELL_S}
    printed = _Printed()
    options |= dict.fromkeys(("stdout_file", "stderr_file"), printed)
    try:
        with workplace() as place, _silent():
            printed.place = place
            os.environ["REPROFS_PLACE"] = tempfile.tempdir = str(place)  # of the kernel and its connection file
            papermill.execute_notebook(str(notebook), str(log), {"study": study}, config=_sockets(place), **options)
    except papermill.PapermillExecutionError as error:
        what = cut(f"{error.ename}: {error.evalue}" if error.ename else error, 120)
        raise UserError(f"{notebook}: a cell failed with {what}; see {log}.") from None
    except TimeoutError:
        raise UserError(f"{notebook}: a cell took more than {CELL_S} s, and was ended: make it faster.") from None
    except DeadKernelError:
        if printed.too_much:
            raise UserError(f"{notebook} has printed {MOST_MB} MB, and was ended: print less.") from None
        raise UserError(f"{notebook}: its kernel died in a cell: run it in Jupyter, and look at its memory.") from None
    except (OSError, ValueError, nbformat.ValidationError) as error:
        if isinstance(error, OSError) and error.errno in HINTS:  # of the machine, not of the notebook
            raise
        raise UserError(f"{notebook} cannot be run: {cut(error)}; save it again in Jupyter.") from None
    finally:
        tempfile.tempdir = None
        os.environ.pop("REPROFS_PLACE", None)
    if (size := log.stat().st_size / 1e6) > MOST_MB:
        raise UserError(f"{notebook} shows {size:,.0f} MB, at most {MOST_MB} MB are allowed: print less; see {log}.")
    with made(output.parent):
        write_bytes(output, log.read_bytes())
        write_sums(output.with_name(f"{output.name}.sha256"), [output])


class _Printed:
    """Counts what a notebook prints while it runs, and ends its kernel before memory is full.

    An exception would be heeded only at the end of the cell, while its output fills memory.
    """

    def __init__(self) -> None:
        self.place, self.characters = Path(), 0

    @property
    def too_much(self) -> bool:
        return self.characters > MOST_MB * 1e6

    def write(self, text: str) -> None:
        self.characters += len(text)
        if self.too_much:
            for children in Path(f"/proc/{os.getpid()}/task").glob("*/children"):  # proc(5)
                for pid in map(int, children.read_text().split()):
                    with suppress(OSError):
                        if os.fsencode(self.place) in Path(f"/proc/{pid}/cmdline").read_bytes():
                            os.kill(pid, signal.SIGKILL)

    def flush(self) -> None:
        """As a file has it."""


def _sockets(place: Path) -> Any:
    """Settings of a kernel: its sockets are files in `place`, or ports where the path is too long for a socket.

    Of two kernels that start together, one can take the port that the other has chosen.
    """
    from traitlets.config import Config

    files = {"transport": "ipc", "ip": f"{place}/kernel"}
    return Config({"KernelManager": files if len(os.fsencode(place)) <= LONGEST else {}})


def execute_here(notebook: Path, study: str, output: Path) -> None:
    """Like `execute`, in this process: ten times as fast, for published results, whose notebooks are known to run.

    Nothing else may use IPython here meanwhile. Raises UserError like `execute`.
    """
    import matplotlib
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    executed = nbformat.read(notebook, as_version=4)
    InteractiveShell.clear_instance()
    # What is executed here is in nobody's history.
    matplotlib.use("agg")
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    formatter: Any = shell.display_formatter
    for cell in executed.cells:
        if cell.cell_type != "code":
            continue
        parameters = "parameters" in cell.metadata.get("tags", [])
        with capture_output() as captured:
            result = shell.run_cell(f"{cell.source}\nstudy = {study!r}" if parameters else cell.source)
        if error := result.error_before_exec or result.error_in_exec:
            raise UserError(f"{notebook}: a cell failed with {type(error).__name__}: {cut(error, 120)}.")
        shown = [each.data for each in captured.outputs]
        shown += [formatter.format(result.result)[0]] if result.result is not None else []
        try:
            shown += [{"image/png": picture} for picture in _ordinary()]
        except (ValueError, MemoryError, OverflowError) as why:
            raise UserError(f"{notebook}: a figure cannot be drawn: {cut(why, 120)}.") from None
        cell.outputs = [nbformat.v4.new_output("display_data", data=data) for data in shown]
    output.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(executed, output)


def _ordinary() -> list[str]:
    """The figures that a cell has left open, as PNG in base64, closed: what a kernel shows after a cell."""
    from matplotlib import pyplot as plt

    found = []
    try:
        for number in plt.get_fignums():
            picture = io.BytesIO()
            plt.figure(number).savefig(picture, format="png", bbox_inches="tight")
            found.append(base64.b64encode(picture.getvalue()).decode())
    finally:
        plt.close("all")
    return found


@contextmanager
def _silent() -> Iterator[None]:
    """What a kernel says on its end, tracebacks of its own, goes nowhere: why it ended is said in a sentence."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
