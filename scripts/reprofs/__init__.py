"""ReproFS: a file-system benchmark with reproducible results.

In a notebook: `%load_ext reprofs`, `study = reprofs.open("quick")`.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from reprofs.errors import UserError

# With AVX-512, numpy's logarithms differ in the last bit, and it orders equal values otherwise. Without it, a report
# has the same bytes on every x86-64 machine with AVX2. Processes that this one starts inherit it.
if os.uname().machine == "x86_64":
    os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")

# Loaded on first use: a trial does not need what a notebook needs.
_SHOWN = ("figure", "table", "say", "items", "head", "ref")
_LATER = {
    "open": "reprofs.stats.study",
    "style": "reprofs.report.style",
    **dict.fromkeys(_SHOWN, "reprofs.report.show"),
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module reprofs has no attribute {name}")


def load_ipython_extension(shell: Any) -> None:
    """Show a UserError as one sentence."""
    shell.set_custom_exc((UserError,), _one_sentence)


def _one_sentence(shell: Any, kind: type, error: UserError, _: Any, tb_offset: Any = None) -> None:
    """What is wrong with a user's study or tables is one sentence in a notebook, too, as on the command line."""
    shell._showtraceback(kind, error, [f"reprofs: {error}"])
