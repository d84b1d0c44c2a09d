"""Writes docs/CATALOG.md, tables of what a checkout has, from the files of its folders.

python scripts/catalog.py [--check]     --check only compares
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

import yaml
from reprofs.plan.catalog import UNAVAILABLE
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.study import Verdict

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/CATALOG.md"
VERDICTS = get_args(Verdict)
OPEN = {"undecided", "same regime", "at another size", "not decidable here", "not available"}
OWN = "my-"  # of the user: made by `reprofs answer`, and no part of this repository (.gitignore)
HEAD = """# Catalogue

What this checkout has, one file each. `make catalog` writes this page from these files; how to add one is in
[CONTRIBUTING.md](../CONTRIBUTING.md#one-file-each).
"""


class Table(NamedTuple):
    """A section with a table of a folder's files, by name: the text of each further column, from a file's content."""

    title: str
    about: str
    folder: str
    columns: dict[str, Callable[[dict], object]]


def _labs(study: dict) -> str:
    return ", ".join(dict.fromkeys(lab for cell in [study, *study.get("cells", [])] for lab in cell.get("labs", [])))


def _counted(published: dict) -> int:
    """Claims, without those about products that nobody can have here."""
    absent = set(published.get("products", ()))
    labels = [{value.get("label") for value in claim["of"] + [claim.get("at", {})]} for claim in published["claims"]]
    return sum(not own & absent for own in labels)


def _verdicts(study: dict) -> str:
    return ", ".join(f"{len(claims)} {name}" for name in VERDICTS if (claims := study["expected"].get(name)))


def _servers(filesystem: dict) -> object:
    return "cannot be had" if "unavailable" in filesystem else filesystem.get("hosts", {}).get("servers", "")


def _title(part: dict) -> object:
    return part["title"]


VERDICTS_TABLE = Table(
    "Verdicts on published claims",
    """Today's [rules](methods/published.md#verdicts-on-claims) give these on the records of results/, whose pages [may
be older](methods/published.md#older-pages). `make report STUDY=NAME STRICT=1` fails on others. Most studies are far
smaller than the published ones.""",
    "config/studies",
    {"published": lambda study: study["published"], "verdicts": _verdicts},
)
TABLES = [
    Table(
        "Studies",
        """`make report STUDY=NAME` runs one, at its *scale*; the lab `host` needs root. `STUDY=NAME@laptop` takes the
larger scale, `@paper` the published study's own, for real hardware. *Measured* is the time on one core, and a link to
the published result.""",
        "config/studies",
        {
            "title": _title,
            "labs": _labs,
            "scale": lambda study: study["scale"],
            "measured": lambda study: study["measured"],
        },
    ),
    VERDICTS_TABLE,
    Table(
        "Published numbers",
        """Studies by others: their numbers, and their claims as tests. *Decided* are claims on which a study above has
a verdict at a comparable size, other than undecided.""",
        "data/published",
        {"by whom": _title, "claims": _counted, "decided": lambda entry: entry["decided"]},
    ),
    Table(
        "File systems",
        """Those with servers are distributed: servers and clients are nodes in the guest. `uv run reprofs doctor` says
what works on this machine, and why some cannot be had.""",
        "workflow/filesystems",
        {
            "": _title,
            "variants": lambda entry: ", ".join(f"`{name}`" for name in entry["variants"]),
            "servers": _servers,
        },
    ),
    Table(
        "Workloads",
        """Each file names its source. Modifiers change any of them: `metadata@50000` (size),
`compile-round1+clients30`, `git-annex+aged10`, `mdtest+fill80`; a workload may have some of its own
(`git-annex-small+nosync`).""",
        "workflow/workloads",
        {"what it does": _title},
    ),
    Table(
        "Ages",
        "Profiles of Geriatrix: `metadata+agrawal80` ages the file system so, and fills it to 80 %.",
        "workflow/ages",
        {"": _title},
    ),
    Table(
        "Stacks",
        "What lies under a file system. `md-raid6@12` has twelve disks, `md-raid6+lvm` has LVM on top.",
        "workflow/stacks",
        {"": _title},
    ),
    Table("Device models", "How the disks of a trial behave.", "workflow/devices", {"": _title}),
    Table("Networks", "The links between nodes.", "workflow/networks", {"": _title}),
    Table(
        "Kernels",
        "They replace the kernel of the exact lab's guest: `exact@v2-0.5ns@debian-6.1`.",
        "workflow/kernels",
        {"": _title},
    ),
    Table("CPU models", "Of the exact lab.", "workflow/processors", {"": _title}),
    Table(
        "Machines",
        "Constants of real machines, by `reprofs calibrate`.",
        "workflow/machines",
        {"": _title},
    ),
]


def read(root: Path, table: Table) -> dict[str, tuple[Path, dict]]:
    """Name -> file and content of what a table has, sorted. Raises SystemExit for a file that cannot be read."""
    found = {}
    unavailable = root / table.folder / UNAVAILABLE
    files = [path for path in (root / table.folder).glob("[!_.]*.yaml") if not path.name.startswith(OWN)]
    for path in [*files, *([unavailable] if unavailable.is_file() else [])]:
        try:
            content = dict(yaml.load(path.read_text(), yaml.CSafeLoader))
        except (yaml.YAMLError, TypeError, ValueError) as error:
            sys.exit(f"{path.relative_to(root)} cannot be read: {' '.join(str(error).split())}")
        if path == unavailable:
            new = {name: entry | Filesystem.listed for name, entry in content.items() if name not in found}
        else:
            new = {path.stem: content}
        for name, entry in new.items():
            if table is not VERDICTS_TABLE or "expected" in entry:  # else beside no published claims, or not run
                found[name] = path.relative_to(root), entry
    return dict(sorted(found.items()))


def decided(root: Path) -> dict[str, int]:
    """Published study -> how many of its claims at least one study decides."""
    found: dict[str, set[str]] = {}
    for _, study in read(root, VERDICTS_TABLE).values():
        for verdict, claims in study["expected"].items():
            if verdict not in OPEN:
                found.setdefault(study["published"], set()).update(claims or ())
    return {name: len(claims) for name, claims in found.items()}


def measured(root: Path, study: str) -> str:
    """A link to the published result of a study with its minutes of one core; nothing where none is published."""
    digests = root / "results" / study / "digests.json"
    if not digests.is_file():
        return ""
    hours = json.loads(digests.read_text())["host_hours"]
    return f"[{f'{hours:.2g} h' if hours >= 1 else f'{hours * 60:.2g} min'}](../results/{study}/ABOUT.md)"


def page(root: Path) -> str:
    """The page as it should be. Raises SystemExit for a file that cannot be read or lacks a key."""
    numbers, text = decided(root), HEAD
    for table in TABLES:
        rows = [["name", *table.columns], ["---"] * (len(table.columns) + 1)]
        for name, (path, content) in read(root, table).items():
            entry = content | {"decided": numbers.get(name, 0), "measured": measured(root, name)}
            try:
                cells = [" ".join(str(column(entry)).split()).replace("|", r"\|") for column in table.columns.values()]
            except KeyError as key:
                sys.exit(f"{path} has no {key}.")
            rows.append([f"[`{name}`](../{path})", *cells])
        text += f"\n## {table.title}\n\n{table.about}\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return text


def main(arguments: list[str], root: Path = ROOT) -> None:
    """The command. Raises SystemExit with one sentence when --check finds the page out of date."""
    if arguments not in ([], ["--check"]):
        sys.exit("usage: catalog.py [--check]")
    place, wanted = root / PAGE, page(root)
    if not arguments:
        place.write_text(wanted)
    elif not place.is_file() or place.read_text() != wanted:
        sys.exit(f"{PAGE} is not current: run `make catalog`.")


if __name__ == "__main__":
    main(sys.argv[1:])
