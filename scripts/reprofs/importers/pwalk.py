"""pwalk: its list of a tree, one CSV line per entry. Names are read, checked and discarded: only sums are kept.

Units: st_size in bytes, st_blocks in 512 bytes. Versions: before March 2017 (15 columns) and after (17), also with
columns of others behind. Source: pwalk.c and public lists.
"""

import csv
import math
import re
from array import array
from collections import Counter

from reprofs.errors import short
from reprofs.importers import LARGEST, Malformed, Result, Source

WHAT = "the CSV that pwalk prints"

COLUMNS = ["inode", "parent-inode", "directory-depth", "filename", "fileExtension", "UID", "GID", "st_size", "st_dev"]
COLUMNS += ["st_blocks", "st_nlink", "st_mode", "st_atime", "st_mtime", "st_ctime", "pw_fcount", "pw_dirsum"]
_OLD = [name for name in COLUMNS if name not in ("st_dev", "st_nlink")]  # until March 2017
_KINDS = {0o10: "files", 0o4: "directories", 0o12: "symbolic links"}
_WHOLE = re.compile(r"-?\d{1,20}", re.ASCII)
_MODE = re.compile(r"0[0-7]{6}")  # which tells where the column of the mode is
_TEXTS = ("filename", "fileExtension", "st_mode")
_IDS = ("inode", "parent-inode", "st_dev", "pw_dirsum")  # of 64 bits; some versions print the largest as negative ones


def read(source: Source) -> Result:
    """Numbers of entries by kind, bytes, depth, fan-out and quantiles of the sizes of a listed tree.

    Columns that somebody has put behind pwalk's own are not read. Memory: 8 bytes a file, and a set of those with
    several names. Raises Malformed for a line that is no entry.
    """
    tree, last = _Tree(), ""

    def remember():
        nonlocal last
        for line in source.lines():
            last = line
            yield line

    reader = csv.reader(remember(), strict=True)
    try:
        for row in reader:
            tree.take(row, reader.line_num)
    except csv.Error as error:
        raise Malformed(reader.line_num or 1, f"the line is not CSV ({error}) or is cut short") from None
    if not tree.kinds:
        raise Malformed(1, "it lists nothing")
    if not last.endswith("\n"):
        raise Malformed(reader.line_num, "the last line does not end, so the list is cut short")
    result = Result(source.name, {"tool": "pwalk"})
    _rows(result, tree)
    _form_findings(result, tree)
    _findings(result, tree)
    return result


class _Tree:
    """Sums over the entries so far. linked: device and inode of files with several names -> names in the list."""

    def __init__(self) -> None:
        self.layout, self.width = COLUMNS, 0
        self.kinds, self.depths, self.devices = Counter[str](), Counter[int](), Counter[int]()
        self.linked: Counter[tuple[int, int]] = Counter()
        self.sizes, self.fan_out = array("Q"), array("Q")
        self.allocated = self.double = self.odd = self.newest = self.newest_changed = 0
        self.before: list[str] = []
        self.repeated = self.first = 0  # lines that say the same as the one before, and the first of them

    def take(self, row: list[str], at: int) -> None:
        """A line. Raises Malformed."""
        if at == 1 and row[:1] == ["inode"]:
            if row != COLUMNS:
                raise Malformed(1, f"the head has other columns than the {len(COLUMNS)} of pwalk")
            return
        if not self.width:
            self.layout, self.width = _layout(row, at), len(row)
        values = _entry(row, at, self.layout, self.width)
        if row == self.before:
            self.repeated, self.first = self.repeated + 1, self.first or at
        self.before = row
        kind = _KINDS.get(values["st_mode"] >> 12, "other entries")
        self.kinds[kind] += 1
        self.depths[values["directory-depth"]] += 1
        self.devices[values.get("st_dev", 0)] += 1
        self.newest = max(self.newest, values["st_mtime"])
        self.newest_changed = max(self.newest_changed, values["st_ctime"])
        self.odd += (kind == "directories") != (values["pw_fcount"] >= 0)
        if kind == "directories":
            self.fan_out.append(max(values["pw_fcount"], 0))
        elif kind == "files":
            self._file(values)

    def _file(self, values: dict[str, int]) -> None:
        if values.get("st_nlink", 1) > 1:
            key = (values["st_dev"], values["inode"])
            self.linked[key] += 1
            if self.linked[key] > 1:
                self.double += values["st_size"]
                return
        self.sizes.append(values["st_size"])
        self.allocated += values["st_blocks"] * 512


def _layout(row: list[str], line: int) -> list[str]:
    """pwalk's columns in a list whose first entry is `row`: the mode stands elsewhere in older ones."""
    for layout in (COLUMNS, _OLD):
        if len(row) >= len(layout) and _MODE.fullmatch(row[layout.index("st_mode")]):
            return layout
    for layout in (COLUMNS, _OLD):
        if len(row) == len(layout):
            return layout
    raise Malformed(line, f"{len(row)} columns stand where pwalk prints {len(COLUMNS)}, or {len(_OLD)} in old versions")


def _entry(row: list[str], line: int, layout: list[str], width: int) -> dict[str, int]:
    """The numbers of an entry, by the name of their column; the inode and the device as unsigned ones."""
    if len(row) != width:
        raise Malformed(line, f"{len(row)} columns stand where the lines before have {width}")
    values: dict[str, int] = {}
    for name, text in zip(layout, row, strict=False):
        if name in _TEXTS:
            continue
        if not _WHOLE.fullmatch(text):
            raise Malformed(line, f"{name} is {short(text)}, not a whole number")
        values[name] = int(text)
        if abs(values[name]) > LARGEST and (name not in _IDS or not -(2**63) <= values[name] < 2**64):
            raise Malformed(line, f"{name} is {text}, which no file has")
        if name in _IDS:
            values[name] %= 2**64
    mode = row[layout.index("st_mode")]
    if values["st_size"] < 0 or values["st_blocks"] < 0 or not mode or len(mode) > 20 or set(mode) - set("01234567"):
        numbers = f"st_size is {values['st_size']}, st_blocks {values['st_blocks']}"
        raise Malformed(line, f"{numbers} and st_mode {short(mode)}, which no file has")
    return values | {"st_mode": int(mode, 8)}


def _rows(result: Result, tree: _Tree) -> None:
    for kind, count in sorted(tree.kinds.items()):
        result.add("", kind, "count", count, "1", statistic="total", derived=True)
    ordered = sorted(tree.sizes)
    total = sum(ordered)
    result.add("", "file content", "bytes", total, "B", statistic="total", derived=True, items=len(ordered))
    result.add("", "file allocation", "bytes", tree.allocated, "B", statistic="total", derived=True, items=len(ordered))
    for operation, values, unit in (("file size", ordered, "B"), ("directory fan-out", sorted(tree.fan_out), "1")):
        if not values:
            continue
        others = {"derived": True, "items": len(values)}
        quantity = "bytes" if unit == "B" else "count"
        result.add("", operation, quantity, sum(values) / len(values), unit, statistic="mean", **others)
        for name, share in (("min", 0), ("p10", 0.1), ("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1)):
            value = values[max(math.ceil(share * len(values)) - 1, 0)]
            result.add("", operation, quantity, value, unit, statistic=name, **others)
    entries = sum(tree.depths.values())
    mean = sum(depth * count for depth, count in tree.depths.items()) / entries
    result.add("", "depth", "count", mean, "1", statistic="mean", derived=True, items=entries)
    result.add("", "depth", "count", max(tree.depths), "1", statistic="max", derived=True, items=entries)


def _form_findings(result: Result, tree: _Tree) -> None:
    if tree.repeated:
        more = f", and {tree.repeated - 1} more" if tree.repeated > 1 else ""
        what = f"the line says the same as the one before{more}"
        result.find("repeated-lines", what, "what was copied there by mistake counts twice", tree.first)
    if tree.layout is _OLD:
        what = "the list has no numbers of links and devices, as pwalk printed it until March 2017"
        result.find("no-links", what, "files with several names, if there are any, count once for each")
    if tree.width > len(tree.layout):
        what = f"columns behind the {len(tree.layout)} of pwalk: {tree.width - len(tree.layout)}"
        result.find("own-columns", what, "somebody added them, and they are not read", 1)


def _findings(result: Result, tree: _Tree) -> None:
    twice = sum(count - 1 for count in tree.linked.values())
    if twice:
        what = f"further hard links in the list: {twice}, with {tree.double} bytes that are counted once here"
        result.find("hard-links", what, "a sum over all lines counts their content again")
    outside = sum(1 for count in tree.linked.values() if count == 1)
    if outside:
        what = f"files with further names outside the list: {outside}"
        result.find("hard-links-outside", what, "their space is not freed or copied with this tree alone")
    if len(tree.devices) > 1:
        what = f"the entries are on {len(tree.devices)} devices"
        result.find("several-devices", what, "the list is of several file systems, so its rates belong to none")
    if tree.newest > tree.newest_changed + 1:
        what = f"a file was modified {tree.newest - tree.newest_changed} s after the last change of any file"
        result.find("future-times", what, "its time was set by hand or a clock was wrong")
    if tree.odd:
        what = f"entries that are directories by their mode and not by pw_fcount, or reversed: {tree.odd}"
        result.find("kind-differs", what, "lines were changed, or are of another version")
    content, allocated = sum(tree.sizes), tree.allocated
    if content > 2 * allocated and content > 2**20:
        what = f"{content} bytes of content occupy {allocated}"
        result.find("sparse-or-compressed", what, "the tree is sparse, compressed or inline, and a copy may be larger")
