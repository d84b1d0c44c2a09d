"""The topics of the report, one module each; the notebook of a topic has its name, with a number before it.

A module has `applies(plan)`, whether a study with this plan has the topic, and pure functions of a study: facts, tables
and figures. It may have `asked(plan)`, whether such a study asks for this topic above all: then the cells of its
notebook that are tagged `answer` begin the report. Both are run without the rest of their module, so they import what
they need themselves. The notebook has the prose and decides what is shown. To add a topic, add these two files.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import defaultdict
from pathlib import Path

from reprofs.data.keys import Setting


def name_of(notebook: str | Path) -> str:
    """The module that belongs to a notebook, whether it exists or not: 12-power-cuts.ipynb has power_cuts."""
    return re.sub(r"^\d+-", "", Path(notebook).stem).replace("-", "_")


def notebooks(plan: dict, folder: Path) -> list[Path]:
    """The notebooks of a planned study's report, in order: those of its topics, then its own.

    `folder` has the notebooks; the key `notebooks` of a study names further ones in it.
    """
    chosen = [path for path in sorted(folder.glob("[0-9]*.ipynb")) if applies(name_of(path), plan)]
    return chosen + [folder / name for name in plan["study"].get("notebooks", [])]


def applies(topic: str, plan: dict) -> bool:
    """Whether there is a topic of this name which a study with this plan has."""
    return _ask(topic, "applies", plan)


def asked(topic: str, plan: dict) -> bool:
    """Whether a study with this plan asks for this topic above all, so that its answer stands first."""
    return _ask(topic, "asked", plan)


def _ask(topic: str, function: str, plan: dict) -> bool:
    """What a function of a topic's module says of a plan; false without a topic or a function of that name.

    Only that function is run: importing the module would import what its figures are drawn with, seconds at each start
    of the workflow.
    """
    found = importlib.util.find_spec(f"{__name__}.{topic}")
    if not found or not found.origin:
        return False
    code = ast.parse(Path(found.origin).read_text())
    code.body = [part for part in code.body if isinstance(part, ast.FunctionDef) and part.name == function]
    names: dict = {}
    exec(compile(code, found.origin, "exec"), names)
    return bool(names[function](plan)) if function in names else False


def contenders(plan: dict) -> dict[Setting, set[str]]:
    """The file systems with their variants that are compared in each setting of a plan."""
    found = defaultdict(set)
    for trial in plan["trials"]:
        if plan["filesystems"][trial["filesystem"]]["role"] != "ceiling":
            setting = Setting(trial["lab"], trial["stack"], trial["profile"])
            found[setting].add(f"{trial['filesystem']}+{trial['variant']}")
    return found


def compared(plan: dict) -> bool:
    """Whether in some setting two file systems are compared."""
    return any(len(labels) > 1 for labels in contenders(plan).values())


def timed(plan: dict) -> bool:
    """Whether times are a result: phases in which a server is lost last as long as their workload says."""
    return any("outage" not in phase for entry in plan["workloads"].values() for phase in entry["phases"])


def on_stacks(plan: dict) -> bool:
    """Whether a study is on stacks of devices: it has more of them than it compares file systems on any one."""
    stacks = {trial["stack"] for trial in plan["trials"]}
    return len(stacks) > max(map(len, contenders(plan).values()), default=0)
