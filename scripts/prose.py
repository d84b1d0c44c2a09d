"""Checks that no line of a notebook has more than 120 characters: ruff does not read the prose of `%%say` cells."""

import json
import sys
from pathlib import Path

LONGEST = 120


def main() -> None:
    """Names each line that is too long; the exit code says whether there is one."""
    wrong = [
        f"{path}: {len(line)} characters, but {LONGEST} are the most: break this line: {line[:60]}…"
        for path in sorted(Path("notebooks").glob("*.ipynb"))
        for cell in json.loads(path.read_text())["cells"]
        for line in "".join(cell["source"]).splitlines()
        if len(line) > LONGEST
    ]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
