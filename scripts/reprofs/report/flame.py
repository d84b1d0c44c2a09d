"""Flame graphs of stacks: a figure for paper and page, and speedscope's format, to zoom and search in.

The form is Brendan Gregg's: a box is a function, its width the share of the instructions executed in it and in what it
called, what lies on it is what it called. Order from left to right is that of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import matplotlib
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure as Plot
from matplotlib.patches import Patch

from reprofs.guest.symbols import Function, label
from reprofs.report.style import GREY, HIGHEST, STYLE, WIDTH
from reprofs.stats.profiles import OWN

NARROW = 0.003  # of the width: boxes below this share are left out
ROW, FONT = 0.14, 8  # inches, points
LETTER = 0.602 * FONT / 72  # inches, of DejaVu Sans Mono
# Parts of the system by colour; the text on them is black.
REST = "all else"
COLOURS = {
    "file system, journal": "#8ec9ef",
    "VFS, page cache": "#8fdcc0",
    "block layer, device": "#f5c77e",
    "allocating, copying": "#e7b5d0",
    REST: "#d9dce0",
}
GROUPS = {
    "file system, journal": (OWN, "journal"),
    "VFS, page cache": ("VFS", "page cache", "file systems' common code"),
    "block layer, device": ("block layer", "device", "MD and device mapper"),
    "allocating, copying": ("allocator", "copying and clearing", "memory of processes"),
}


class Box(NamedTuple):
    """A function in a flame graph: left end and width in inches, callers below it."""

    name: str
    x: float
    width: float
    depth: int


def boxes(stacks: Mapping[str, int]) -> Iterator[Box]:
    """The boxes of a flame graph without those that are too narrow; callers before what they call.

    stacks: "caller;...;function" -> instructions.
    """
    inch = WIDTH / max(sum(stacks.values()), 1)

    def on(below: list[tuple[list[str], int]], depth: int, x: float) -> Iterator[Box]:
        calls = (one for one in below if len(one[0]) > depth)
        for name, own in groupby(calls, lambda one: one[0][depth]):
            inside = list(own)
            width = sum(count for _, count in inside) * inch
            if width >= NARROW * WIDTH:
                yield Box(name, x, width, depth)
                yield from on(inside, depth + 1, x)
            x += width

    return on(sorted((stack.split(";"), count) for stack, count in stacks.items()), 0, 0.0)


def colours(functions: list[dict]) -> dict[str, str]:
    """The functions of a phase of a profile, as stacks name them -> the names of their colours."""
    return {label(Function(one["name"], one["module"])): _colour(one["part"]) for one in functions}


def _colour(part: str) -> str:
    part = OWN if part.startswith("file system ") else part
    return next((name for name, parts in GROUPS.items() if part in parts), REST)


def flame(stacks: Mapping[str, int], colours: Mapping[str, str]) -> Plot:
    """A flame graph of stacks as of `boxes`; colours: as of `colours`."""
    with matplotlib.rc_context(STYLE):
        return _drawn(stacks, colours)


def _drawn(stacks: Mapping[str, int], colours: Mapping[str, str]) -> Plot:
    high, key = int((HIGHEST - 1.2) / ROW), 0.25
    found = [box for box in boxes(stacks) if box.depth < high]
    height = ROW * (1 + max((box.depth for box in found), default=0))
    plot = Plot(figsize=(WIDTH, height + key))
    axes = plot.add_axes((0, 0, 1, height / (height + key)))
    names = [colours.get(box.name, REST) for box in found]
    corners = ((0, 0), (1, 0), (1, 1), (0, 1))
    shapes = [[(box.x + x * box.width, (box.depth + y) * ROW) for x, y in corners] for box in found]
    faces = [COLOURS[name] for name in names]
    axes.add_collection(PolyCollection(shapes, facecolors=faces, edgecolors="#ffffff", linewidths=0.4))
    for box in found:
        room = int((box.width - 0.04) / LETTER)
        if room >= 3:
            words = box.name if len(box.name) <= room else f"{box.name[: room - 1]}…"
            place = (box.x + 0.02, (box.depth + 0.5) * ROW)
            axes.text(*place, words, va="center", fontsize=FONT, family="DejaVu Sans Mono", color="#000000")
    axes.plot([0, WIDTH], [0, 0], color=GREY, lw=0.5)  # all figures are as wide, whatever is left out at their ends
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.axis("off")
    keys = [Patch(color=hue, label=name) for name, hue in COLOURS.items() if name in names]
    plot.legend(handles=keys, loc="upper left", ncols=len(COLOURS), frameon=False, fontsize=FONT, handlelength=1)
    return plot


def speedscope(phases: Mapping[str, Mapping[str, int]], title: str) -> dict:
    """The stacks of several phases, by name, as a file for https://www.speedscope.app: one profile a phase.

    Source: speedscope's file-format-spec.ts.
    """
    frames: dict[str, int] = {}
    profiles = []
    for phase, stacks in phases.items():
        samples = [[frames.setdefault(name, len(frames)) for name in stack.split(";")] for stack in stacks]
        weights = list(stacks.values())
        about = {"type": "sampled", "name": phase, "unit": "none", "startValue": 0, "endValue": sum(weights)}
        profiles.append({**about, "samples": samples, "weights": weights})
    return {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "shared": {"frames": [{"name": name} for name in frames]},
        "profiles": profiles,
    }
