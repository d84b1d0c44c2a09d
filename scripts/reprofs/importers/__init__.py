"""Importers: the output of other benchmarks -> one tidy table with units. Each module is one format.

A format's module has

    WHAT: str                                          what it reads, in a few words
    read(source: Source) -> Result                     raises Malformed at the line that cannot be understood
    compare(results: list[Result]) -> list[Finding]    optional: what is seen only with several files side by side

and knows nothing about files, folders or the command line. Modules whose names begin with an underscore are not
formats. A finding comes from a rule on the data, never from the name of a known file.
"""

import hashlib
import importlib
import json
import os
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path

from reprofs import files as common
from reprofs.errors import UserError, cut, short
from reprofs.importers import _folder
from reprofs.importers._json import json_line, json_path

# The data dictionary and the schema of the tables in one: column | type | unit | meaning. As in `dataset`.
_TABLES = {
    "measurements": """
source        | string |     | File the value was printed in, as named on the command line
place         | string |     | Where in it: a line (line 12), or a path in its JSON ($[0].times[3].cold)
format        | string |     | Importer that read the file
tool          | string |     | Program that made the file
tool_version  | string |     | Its version; empty when the file does not tell
configuration | string |     | What was measured, as far as the file or its name tells: file system, stack, path, host
label         | string |     | What the file itself calls it, where that is not the same
workload      | string |     | Data set or command line of the run
operation     | string |     | What was done, in the words of the tool
phase         | string |     | The same as a short word
iteration     | int64  |     | Repetition, as the file counts it; empty for a statistic over repetitions
client        | string |     | Job, task, thread or host; empty for all together
cache         | string |     | cold or warm, direct when the page cache was bypassed; empty where the file does not tell
quantity      | string |     | time, rate, request rate, throughput (bytes/s), latency, count, bytes, share, score
statistic     | string |     | value (one observation), mean, median, max, min, sd, total, p99 (a percentile), ...
value         | double |     | The value in the unit of the next column
unit          | string |     | s, B, B/s, 1/s, 1 (SI without prefixes; a byte is 8 bits)
printed       | string |     | The value as it is in the file; empty when it was derived here
printed_unit  | string |     | The unit of that; 1 MiB is 2^20 bytes, 1 MB is 10^6 bytes
derived       | bool   |     | Computed here from printed values
items         | int64  |     | Things the operation did, where known
bytes         | int64  | B   | Bytes the operation moved, where known
file_bytes    | int64  | B   | Size of one file, where known
record_bytes  | int64  | B   | Size of one request, where known
""",
    "findings": """
source        | string |     | File, or files with a comma between them
place         | string |     | Where in it; empty for the whole file
rule          | string |     | Name of the rule that found it
what          | string |     | What was found
why           | string |     | Why it matters
""",
}
# Printed unit -> factor and base unit. MB of tools that mean MiB is written MiB by their importers.
_PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
UNITS: dict[str, tuple[int | Decimal, str]] = {
    **{"s": (1, "s"), "ms": (Decimal("1e-3"), "s"), "us": (Decimal("1e-6"), "s"), "ns": (Decimal("1e-9"), "s")},
    **{f"{prefix}B{per}": (factor, f"B{per}") for per in ("", "/s") for prefix, factor in _PREFIXES.items()},
    **{"1/s": (1, "1/s"), "kIOPS": (1000, "1/s"), "MIOPS": (10**6, "1/s"), "1": (1, "1"), "%": (Decimal("0.01"), "1")},
}
LARGEST = 2**62
_LARGE = "a number is larger than any file or count can be"
TEXT = 256 << 20  # characters of a file, or of a line of one that is read line by line
LOG = re.compile(r"^.*\[stdout\] ?")  # what test harnesses put before a line of the program
_LONGEST = 40  # characters of a number that a program prints
# A number as programs print it. Python would also read 1_000, nan, or digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


class Malformed(Exception):
    """The text is not what the importer reads: `line` (from 1, or None) and a sentence without its full stop."""

    def __init__(self, line: int | None, what: str):
        super().__init__(what)
        self.line, self.what = line, cut(what, 200)


@dataclass(frozen=True)
class Finding:
    """One thing to know about imported numbers. `what` and `why` are clauses without a full stop."""

    source: str
    rule: str
    what: str
    why: str
    place: str = ""

    def sentence(self, alike: int = 1) -> str:
        """`FILE, line 3: what: why.` alike: how many there are of its rule, of which it is the first."""
        where = f"{self.source}{', ' if self.place else ''}{self.place}"
        more = f" ({alike:,} findings of this kind, all of them in findings.csv)" if alike > 1 else ""
        return f"{where}: {cut(self.what, 150)}: {self.why}{more}."


@dataclass
class Source:
    """One file to import: its name as the user wrote it, and its path."""

    name: str
    path: Path

    @classmethod
    def of(cls, name: str, text: str) -> "Source":
        """A source without a file."""
        source = cls(name, Path(name))
        source.__dict__["text"] = text  # what the cached property below would have read
        return source

    @cached_property
    def text(self) -> str:
        """The whole text. Raises Malformed when the file is not a text."""
        made, room = [], TEXT
        for line in self.lines():
            room -= len(line)
            if room < 0:
                raise Malformed(None, f"it has more than {TEXT >> 20} MiB")
            made.append(line)
        return "".join(made)

    def lines(self) -> Iterator[str]:
        """The lines with their ends, one at a time. Names in listings need not be UTF-8; a text has no NUL."""
        if "text" in self.__dict__:
            yield from self.text.splitlines(keepends=True)
            return
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for number, line in enumerate(iter(lambda: file.readline(TEXT + 1), ""), 1):
                if len(line) > TEXT:
                    raise Malformed(number, f"the line has more than {TEXT >> 20} MiB")
                if "\0" in line:
                    raise Malformed(number, "it is not a text file (it has a NUL byte)")
                yield line.replace("\r\n", "\n")

    @cached_property
    def rows(self) -> list[str]:
        """The lines without their ends."""
        return self.text.splitlines()

    @property
    def last(self) -> int:
        """The number of the last line."""
        return max(len(self.rows), 1)

    @cached_property
    def json(self):
        """The JSON in the text; lines before the first that begins with { or [ are skipped (programs warn there)."""
        text = self.json_text
        if not text.strip():
            raise Malformed(1, "it has no JSON")
        try:
            return json.loads(text)
        except (RecursionError, ValueError) as error:
            if not isinstance(error, json.JSONDecodeError):
                raise Malformed(1, "the JSON is nested too deeply or has numbers that are too long") from None
            ended = error.pos >= len(text.rstrip())
            raise Malformed(error.lineno, "it ends within the JSON" if ended else f"no JSON: {error.msg}") from None

    @cached_property
    def json_text(self) -> str:
        """The text with the lines before its JSON emptied, so that line numbers stay."""
        start = re.search(r"^[ \t]*[\[{]", self.text, re.MULTILINE)
        return "\n" * self.text.count("\n", 0, start.start()) + self.text[start.start() :] if start else ""

    def wrong(self, path: tuple, what: str) -> Malformed:
        """A Malformed for a place in the JSON, path being its keys and indices: with the line where it begins."""
        return Malformed(json_line(self.json_text, path), f"{json_path(path)} {what}")

    def get(self, path: tuple, kind: type | tuple, default=...):
        """The value at a path of the JSON. Raises Malformed when it is missing without default, or of another type."""
        value = self.json
        for depth, key in enumerate(path):
            if isinstance(value, dict):
                found = key in value
            else:
                found = isinstance(value, list) and isinstance(key, int) and key < len(value)
            if not found:
                if default is not ...:
                    return default
                raise self.wrong(path[:depth], f"has no {key!r}")
            value = value[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong(path, f"is not {_KINDS[kind]}")
        if isinstance(value, NUMBER) and not abs(value) <= LARGEST:
            raise self.wrong(path, "is too large or not finite")
        return value

    def amount(self, path: tuple, kind: type | tuple = (int, float), default=...):
        """As `get`, for a number that cannot be negative: a time, a rate, a count."""
        value = self.get(path, kind, default)
        if isinstance(value, NUMBER) and value < 0:
            raise self.wrong(path, f"is {value}, but cannot be negative")
        return value


NUMBER = (int, float)
_KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", NUMBER: "a number"}
_KINDS[list, int, float] = "a number or a list"
_KINDS[dict, list] = "an object or a list"


@dataclass
class Result:
    """The content of one file: `rows` of measurements, findings, `phases` for the statistics of this project, and
    `facts` that `compare` needs. `common` is what all rows of the file have in common."""

    source: str
    common: dict = field(default_factory=dict)
    rows: list[dict] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    phases: list[dict] = field(default_factory=list)
    facts: dict = field(default_factory=dict)

    def add(self, at: int | str, operation: str, quantity: str, printed, unit: str, **others) -> dict:
        """A row. at: its line, or another place; printed: the number in `unit` (a key of UNITS).

        Raises Malformed for a text that is no number, and when a number does not fit into the table.
        """
        line = at if isinstance(at, int) else None
        if line and isinstance(printed, str):
            number(printed, line)
        factor, base = UNITS[unit]
        derived = others.get("derived", False)
        row = self.common | {
            "source": self.source,
            "place": _place(at),
            "operation": operation,
            "phase": word(operation),
            "quantity": quantity,
            "statistic": "value",
            "value": float(Decimal(str(printed)) * factor),  # 8000 ns are 8e-6 s, to the last bit
            "unit": base,
            "printed": None if derived else str(printed),
            "printed_unit": None if derived else unit,
            "derived": False,
        }
        row |= others
        for key in ("iteration", "items", "bytes", "file_bytes", "record_bytes"):
            if row.get(key) is not None and abs(row[key]) > LARGEST:
                raise Malformed(line, _LARGE)
        self.rows.append(row)
        return row

    def find(self, rule: str, what: str, why: str, at: int | str = "") -> None:
        """A finding about this file, or about a line or another place of it."""
        self.findings.append(Finding(self.source, rule, what, why, _place(at)))


def _place(at: int | str) -> str:
    return f"line {at}" if isinstance(at, int) else at


def formats() -> dict[str, str]:
    """Name of each format -> what its importer reads."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").WHAT for name in names}


def dictionary() -> list[dict]:
    """The data dictionary of measurements and findings: table, column, type, unit, meaning."""
    return common.dictionary(_TABLES)


def import_files(name: str, paths: list[Path], output: Path, tables: Callable[[], list[dict]]) -> list[str]:
    """Read files of the format `name` and write the folder `output`; returns the findings as sentences.

    tables: gives the data dictionary of a study's tables, for formats that have phases.

    Written, for identical input byte for byte the same: measurements.parquet and .csv, findings.csv, dictionary.csv,
    import.json (the files with their SHA-256), files.sha256 (the digests of all these); with formats that have phases
    phases.parquet and .csv in the columns of a study's table. An earlier import in `output` is replaced as a whole.
    findings.csv has every finding; the sentences are one a rule, with the number of its findings. Raises UserError, and
    nothing is written, for a format or file that cannot be read and for a folder that no import made.
    """
    known = formats()
    if name not in known:
        raise UserError(f"import: unknown format {short(name)}; known are {', '.join(known)}.")
    output, paths = Path(output), [Path(path) for path in paths]
    _folder.check(output)
    # realpath, for a link that leads to itself raises nothing there; reading it says what is wrong.
    inside = [path for path in paths if Path(os.path.realpath(output)) in Path(os.path.realpath(path)).parents]
    if inside:
        raise UserError(f"{inside[0]} is in {output}, which would be replaced: choose another --output.")
    module = importlib.import_module(f"{__name__}.{name}")
    results: list[Result] = []
    findings: list[Finding] = []
    seen: dict[str, str] = {}  # digest -> the file that had it first
    files: list[dict] = []
    for path in paths:
        digest = _digest(path)
        if digest in seen:
            what = f"it has the same content as {seen[digest]}, so it was read once"
            findings.append(Finding(str(path), "duplicate", what, "the same runs would count twice"))
            continue
        seen[digest] = str(path)
        results.append(result := _read(name, module, path))
        findings += result.findings
        files.append({"file": str(path), "sha256": digest, "rows": len(result.rows)})
    if hasattr(module, "compare"):
        findings += module.compare(results)
    rows, phases = (list(chain.from_iterable(map(attrgetter(key), results))) for key in ("rows", "phases"))
    described = dictionary() + [row for row in (tables() if phases else []) if row["table"] == "phases"]
    manifest = {"made_by": "reprofs import", "format": name, "files": files}
    _folder.write(output, manifest, described, rows, phases, list(map(vars, findings)))
    alike = Counter(finding.rule for finding in findings)
    first = {finding.rule: finding for finding in reversed(findings)}  # of each rule
    return [finding.sentence(alike[finding.rule]) for finding in findings if finding is first[finding.rule]]


def _read(name: str, module, path: Path) -> Result:
    """A file of a format. Raises UserError."""
    source = Source(str(path), path)
    try:
        result = module.read(source)
        if not result.rows:
            raise Malformed(1, "it has no results")
    except Malformed as error:
        where = f", line {error.line}" if error.line else ""
        raise UserError(f"{path}{where}: {error.what}: give the complete {module.WHAT}.") from None
    for row in result.rows:
        row["format"] = name
    _repeated_lines(source, result)
    return result


def word(text: str) -> str:
    """Small letters, digits and hyphens: `Directory creation` -> directory-creation."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def number(text: str, line: int) -> float:
    """A finite number that is not negative. Raises Malformed."""
    if not _NUMBER.fullmatch(text):
        raise Malformed(line, f"{short(text)} is not a number")
    if len(text) > _LONGEST:
        raise Malformed(line, f"a number has {len(text):,} characters, which no program prints")
    value = float(text)
    if value < 0:
        raise Malformed(line, f"{text} is negative, which no time, rate or count can be")
    if value > LARGEST:
        raise Malformed(line, _LARGE)
    return value


def whole(text: str, line: int) -> int:
    """A whole number that is not negative and that any column can hold. Raises Malformed."""
    number(text, line)
    if not text.isdecimal():
        raise Malformed(line, f"{short(text)} is not a whole number")
    return int(text)


def _repeated_lines(source: Source, result: Result) -> None:
    """Adds a finding when lines of the file occur twice and gave the same rows."""
    given: dict[str, list] = {}  # line -> what its rows measure
    for row in result.rows:
        if re.fullmatch(r"line \d+", row["place"]):
            given.setdefault(row["place"], []).append((row["operation"], row["quantity"], row["unit"]))
    lines = source.rows if given else []
    first: dict[tuple, str] = {}
    again = []
    for place, rows in given.items():
        key = (lines[int(place.split()[1]) - 1].strip(), *rows)
        if first.setdefault(key, place) != place:
            again.append((place, first[key]))
    if again:
        (place, before), more = again[0], f", and {len(again) - 1} more" if len(again) > 1 else ""
        what = f"the line says the same as {before}{more}"
        result.find("repeated-lines", what, "what was copied there by mistake counts twice", place)


def _digest(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise UserError(f"{path} is not a regular file: save the output in a file, and name that.")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}; name readable files.") from None
