"""Writes the tables of studies, published studies, verdicts and workloads in README.md from files; --check compares.

    python scripts/readme.py [--check]

A table stands between the lines `<!-- NAME -->` and `<!-- end -->`.
"""

import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def _labs(study: dict) -> str:
    return ", ".join(dict.fromkeys(lab for cell in [study, *study.get("cells", [])] for lab in cell.get("labs", [])))


VERDICTS = ("reproduced", "same direction", "contradicted", "undecided", "not decidable here")


def _verdict(name: str):
    return lambda study: str(len(study["expected"].get(name) or ()))


TABLES = {  # name: (folder, heading of each column, text of each column but the first from a file's content)
    "studies": ("config/studies", ("study", "question", "labs"), (lambda study: study["question"], _labs)),
    "published": (
        "data/published",
        ("published", "by whom", "claims"),
        (lambda published: published["title"], lambda published: str(len(published["claims"]))),
    ),
    "verdicts": (
        "config/studies",
        ("study", "published", *VERDICTS),
        (lambda study: study["published"], *map(_verdict, VERDICTS)),
    ),
    "workloads": ("workflow/workloads", ("workload", "what it does"), (lambda workload: workload["title"],)),
}


def table(root: Path, name: str) -> str:
    """The Markdown table of a folder's files, by name. Raises SystemExit for a file it cannot read."""
    folder, heading, columns = TABLES[name]
    rows = [heading, ["---"] * len(heading)]
    for path in sorted((root / folder).glob("[!_.]*.yaml"), key=lambda path: path.stem):
        try:
            content = yaml.safe_load(path.read_text())
            if name == "verdicts" and "expected" not in content:  # no study of published claims, or not run
                continue
            texts = [" ".join(column(content).split()).replace("|", r"\|") for column in columns]
        except KeyError as key:
            sys.exit(f"{folder}/{path.name} has no {key}.")
        except (yaml.YAMLError, TypeError, AttributeError) as error:
            sys.exit(f"{folder}/{path.name} cannot be read: {' '.join(str(error).split())}")
        rows.append([f"[`{path.stem}`]({folder}/{path.name})", *texts])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def current(root: Path) -> str:
    """README.md as it should be. Raises SystemExit when a marker is missing."""
    text = (root / "README.md").read_text()
    for name in TABLES:
        pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            sys.exit(
                f"README.md has no lines <!-- {name} --> and <!-- end -->: the table of {name} stands between them."
            )
        text = pattern.sub(lambda found, name=name: found[1] + table(root, name) + found[2], text)
    return text


def main(arguments: list[str], root: Path = ROOT) -> None:
    """The command. Raises SystemExit with one sentence when --check finds README.md out of date."""
    if arguments not in ([], ["--check"]):
        sys.exit("usage: readme.py [--check]")
    wanted = current(root)
    if not arguments:
        (root / "README.md").write_text(wanted)
    elif (root / "README.md").read_text() != wanted:
        sys.exit("README.md is not current: run `make readme`.")


if __name__ == "__main__":
    main(sys.argv[1:])
