"""`make bench`: what a study does not vary and its intervals therefore do not hold: how far another link order of the
engine and another QEMU with its firmware move the ratios of file systems, beside other inputs and moments of the start.

Runs a round of the study `quick` each. Times of the exact lab do not depend on what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from reprofs import project
from reprofs.plan.catalog import Catalog
from reprofs.plan.study import study_of
from reprofs.stats.cells import FLOOR

STUDY = "quick"
SHUFFLED = """
import random
from reprofs.guest import engine
plain = engine.sources
def sources(name=""):
    found = list(plain(name))
    return found if name else random.Random({}).sample(found, len(found))
engine.sources = sources
"""
ORDERS = {f"link order {number}": (0, SHUFFLED.format(number), {}) for number in range(1, 6)}
MAIN = "import sys; from reprofs.cli import main; sys.exit(main())"
CASES = {  # what differs: seeds added to that of the first round, code before the command, environment
    "as published": (0, "", {}),
    "other inputs and start": (1, "", {}),
    "and others": (2, "", {}),
    **ORDERS,
    "QEMU and firmware of this machine": (0, "", {"REPROFS_QEMU": "host"}),
}


def times(seed: int, before: str, environment: dict[str, str], labels: list[str]) -> pd.DataFrame:
    """Nanoseconds: phases by file systems."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for label in labels:
            name, variant = label.split("+")
            words = ["--lab", "exact", "--stack", "single", "--profile", "ssd", "--workload", "metadata"]
            words += ["--scale", "smoke", "--filesystem", name, "--variant", variant, "--round", "1"]
            words += ["--seed", f"{seed}", "--output", f"{folder}/{name}.json"]
            done = subprocess.run(
                [sys.executable, "-c", before + MAIN, "trial", *words],
                cwd=project.project_root(),
                env=os.environ | environment,
                stderr=subprocess.DEVNULL,
            )
            record = json.loads(Path(folder, f"{name}.json").read_text())
            if done.returncode or record["status"] != "ok":
                sys.exit(f"{label}: {record.get('reason')}")
            found[label] = {(row["name"], row["cache"]): row["wall_ns"] for row in record["measurement"]["phases"]}
    return pd.DataFrame(found)


def main() -> None:
    labels = ["ext4+default", "xfs+default", "btrfs+none", "reiserfs+default", "f2fs+default", "nilfs2+default"]
    seed = study_of(STUDY, Catalog()).seed + 1
    base, logs = None, []
    print("ratio to ext4 of all operations together; the largest change of such a ratio, of all and of an operation")
    for case, (more, before, environment) in CASES.items():
        found = times(seed + more, before, environment, labels)
        whole, each = found.sum() / found["ext4+default"].sum(), found.div(found["ext4+default"], axis=0)
        base = base or (whole, each)
        changes = [abs(one / other - 1).to_numpy().max() for one, other in zip((whole, each), base, strict=True)]
        ratios = " ".join(f"{label.split('+')[0]} {ratio:.4f}" for label, ratio in whole.items())
        print(f"{case:34} {ratios}   {changes[0]:.2%}   {changes[1]:.2%}", flush=True)
        if case in ORDERS:
            logs.append(np.log(whole / base[0]).drop("ext4+default"))
    # Link order as a random effect on a ratio: what stats.cells.FLOOR, the half-width of an interval, stands for.
    spread = float(np.sqrt(np.square(pd.concat(logs)).mean()))
    print(f"link order: standard deviation {spread:.2%}, 95 % of ratios within {1.96 * spread:.2%}; FLOOR {FLOOR:.1%}")


if __name__ == "__main__":
    main()
