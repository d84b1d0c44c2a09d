"""Published values and those of a study in one form, side by side: at the left the published ones."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib import pyplot as plt

from reprofs.report.display import count
from reprofs.report.plots import BLUE, GREY, HIGHEST, WIDTH, Figure, Plot, grid_lines, log_axis, part, rows, styled

TITLES = ("published", "this study")


def figures(name: str, caption: str, frame: pd.DataFrame) -> list[Figure]:
    """Pages of `twins`: a line of panels for each title with two names or more."""
    groups = [own for _, own in frame.groupby("title", sort=False) if own["name"].nunique() > 1]
    caption += (
        " Both axes go over the same factor, so that equal ratios have equal lengths; the order is the published one."
    )
    pages: list[list[pd.DataFrame]] = []
    left = 0.0
    for own in groups:
        height = twin_height(own)
        if height > left:
            pages.append([])
            left = HIGHEST - 0.4
        pages[-1].append(own)
        left -= height
    found = []
    for number, page in enumerate(pages):
        own_name, text = part(name, caption, number, len(pages))
        alt = (
            f"{count(len(page), 'line')} of two panels, published and of this study; the table beside has the numbers."
        )
        found.append(Figure(own_name, text, alt, twins(page)))
    return found


def twin_height(own: pd.DataFrame) -> float:
    """Inches of a line of `twins`."""
    return 0.5 + 0.125 * len(own)


@styled
def twins(lines: list[pd.DataFrame]) -> Plot:
    """Published values at the left and those of this study at the right, one line of panels per frame.

    Columns: title (one a frame), name, published and own, and of both _low and _high, the ends of a bar, or NaN.
    """
    heights = [twin_height(own) for own in lines]
    size = (WIDTH, 0.25 + sum(heights))
    figure, panels = plt.subplots(
        len(lines), 2, figsize=size, squeeze=False, layout="constrained", height_ratios=heights, sharey="row"
    )
    for line, (own, pair) in enumerate(zip(lines, panels, strict=True)):
        own = own.sort_values("published", kind="stable")
        ends = {who: own[[who, f"{who}_low", f"{who}_high"]] for who in ("published", "own")}
        ends = {who: found.where(found > 0) for who, found in ends.items()}
        reach = 1.25 * max(math.sqrt(found.max().max() / found.min().min()) for found in ends.values())
        for axes, (who, found), colour, told in zip(pair, ends.items(), (GREY, BLUE), TITLES, strict=True):
            low, high = found.min().min(), found.max().max()
            axes.hlines(range(len(own)), found[f"{who}_low"], found[f"{who}_high"], color=colour, lw=1.4)
            axes.plot(found[who], range(len(own)), ls="", marker="o", ms=3.6, color=colour)
            middle = math.sqrt(low * high)
            log_axis(axes, "x")
            axes.set_xlim(middle / reach, middle * reach)
            axes.set_title(own["title"].iloc[0] if who == "published" else "", loc="left")
            if not line:  # above the first panel's own title, which may be as wide as the panel
                space = {"xytext": (0, 22), "xycoords": "axes fraction", "textcoords": "offset points"}
                axes.annotate(told, (0, 1), **space, fontsize=8, fontweight="bold")
        rows(pair[0], list(own["name"]))
        grid_lines(pair[1], "x")
        pair[1].tick_params(axis="y", length=0)
    return figure
