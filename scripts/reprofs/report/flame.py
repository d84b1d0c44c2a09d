"""Flame graphs: where the instructions of a phase went, by call, as one SVG file that needs nothing else.

The form is Brendan Gregg's: a box is a function, its width the share of the instructions executed in it and in what it
called, what stands on it is what it called. Order from left to right is that of names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

WIDTH, ROW, TOP, LETTER = 1200, 17, 58, 6.6  # pixels
LEAST = 0.5  # pixels: narrower boxes are left out
SCRIPT = Path(__file__).parents[3] / "report" / "flame.js"
STYLE = """
text { font: 11px ui-monospace, monospace; fill: #111; pointer-events: none }
.head { font: 14px system-ui, sans-serif } .button { cursor: pointer; pointer-events: auto; fill: #0b57a4 }
.frame { cursor: pointer } .frame:hover rect { stroke: #111 } rect.hit { fill: #d64bd6 }
"""


class Box(NamedTuple):
    """A function in a flame graph: left end and width in its unit, callers below it, instructions in it and above."""

    name: str
    x: float
    width: float
    depth: int
    instructions: int


@dataclass
class _Node:
    total: int = 0
    below: dict[str, _Node] = field(default_factory=dict)


def flame(stacks: Mapping[str, int], title: str) -> str:
    """The SVG. stacks: "caller;...;function" -> instructions; title: plain text."""
    total, placed = sum(stacks.values()), boxes(stacks, WIDTH, LEAST)
    height = TOP + ROW * (max((box.depth for box in placed), default=0) + 1) + 30
    frames = "\n".join(_frame(box, height - 30, total) for box in placed)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' data-width="{WIDTH}" role="img" aria-label="{escape(title)}">\n<style>{STYLE}</style>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n<text class="head" x="8" y="20">{escape(title)}</text>\n'
        f'<text id="told" x="8" y="{height - 10}">{total:,} instructions; click a function to zoom</text>\n'
        f'<text id="reset" class="button" x="{WIDTH - 150}" y="20">whole</text>\n'
        f'<text id="search" class="button" x="{WIDTH - 80}" y="20">search</text>\n'
        f'<text id="found" x="{WIDTH - 300}" y="40"></text>\n{frames}\n'
        f"<script><![CDATA[\n{SCRIPT.read_text()}]]></script>\n</svg>\n"
    )


def boxes(stacks: Mapping[str, int], width: float, least: float) -> list[Box]:
    """The boxes of a flame graph of that width, without those narrower than `least`; callers before what they call."""
    root = _Node()
    for stack, count in stacks.items():
        node = root
        node.total += count
        for name in stack.split(";"):
            node = node.below.setdefault(name, _Node())
            node.total += count
    found: list[Box] = []
    _place(root, 0.0, 0, width / max(root.total, 1), least, found)
    return found


def _place(node: _Node, x: float, depth: int, scale: float, least: float, found: list[Box]) -> None:
    for name, one in sorted(node.below.items()):
        width = one.total * scale
        if width >= least:
            found.append(Box(name, x, width, depth, one.total))
            _place(one, x, depth + 1, scale, least, found)
        x += width


def _frame(box: Box, base: int, total: int) -> str:
    name, x, width, depth, count = box
    room = int((width - 6) / LETTER)
    shown = "" if room < 3 else name if len(name) <= room else f"{name[: room - 1]}…"
    digits = hashlib.sha256(name.encode()).digest()
    colour = f"hsl({15 + digits[0] % 40} {70 + digits[1] % 25}% {66 + digits[2] % 12}%)"
    y = base - ROW * (depth + 1)
    return (
        f'<g class="frame" tabindex="0" data-name="{escape(name)}" data-x="{x:.2f}" data-w="{width:.2f}"'
        f' data-depth="{depth}"><title>{escape(name)}: {count:,} instructions, {count / total:.2%}</title>'
        f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{ROW - 1}" rx="1" fill="{colour}"/>'
        f'<text x="{x + 3:.2f}" y="{y + 12}">{escape(shown)}</text></g>'
    )


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
