"""Figures: the same bytes every time, ink that follows the page, nothing loaded from elsewhere, words for all."""

import os
import re
import subprocess
import sys

import make
import numpy as np
import pytest
import run
from reprofs import dataset, figures, gallery, words


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    make.make(
        folder, systems=["ext4", "xfs", "jfs", "tmpfs"], failures={("jfs", "metadata", 1): ("failed", "It broke.")}
    )
    study = run.build(folder)
    return gallery.catalogue(study, dataset.results(study))


def test_the_catalogue_has_every_kind(items):
    kinds = [item.kind for item in items]
    # Phases that execute commands have no latencies of single operations.
    assert kinds == ["heatmap", "ranks", "intervals", "latencies", "intervals"]
    assert len({item.name for item in items}) == len(items)


def test_captions_and_words_for_those_who_cannot_see(items):
    for item in items:
        assert item.caption.endswith(".") and item.alt.endswith(".")
        assert "nan" not in item.caption + item.alt
    intervals = next(item for item in items if item.kind == "intervals")
    assert "not measurement noise" in intervals.caption and "ceiling, tmpfs" in intervals.caption


def test_the_same_bytes_twice_in_the_ink_of_the_page(items, tmp_path):
    for item in items:
        first = figures.save(item.draw(), tmp_path / "a" / f"{item.name}.svg").read_bytes()
        again = figures.save(item.draw(), tmp_path / "b" / f"{item.name}.svg").read_bytes()
        assert first == again
        text = first.decode()
        assert "currentColor" in text and figures.INK not in text
        assert "<text" not in text and "<image" not in text  # paths: no font, no bitmap
        assert not re.search(r'(href|src)="(?!#)', text)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(f"{item.name}.svg" for item in items)


def test_the_same_ranks_in_every_process(tmp_path):
    """Python's sets have another order in each, and bars that join more than two systems are drawn from sets."""
    code = (
        "import itertools, sys, pandas as pd; from reprofs import figures\n"
        "names = [f'fs{n}' for n in range(8)]\n"
        "table = pd.DataFrame({'label': names, 'mean_rank': [1 + n / 2 for n in range(8)]})\n"
        "pairs = [(a, b, float(int(b[2]) - int(a[2]) < 4)) for a, b in itertools.combinations(names, 2)]\n"
        "figures.save(figures.ranks(table, pd.DataFrame(pairs, columns=['a', 'b', 'p'])), sys.argv[1])\n"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(tmp_path / seed)]
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_the_printed_width_is_that_of_the_page(items):
    for item in items:
        drawn = item.draw()
        assert drawn.get_size_inches()[0] == figures.WIDTH
        assert drawn.get_size_inches()[1] < 9.5  # fits an A4 page with its caption
        sizes = {
            text.get_fontsize()
            for text in drawn.findobj(lambda thing: hasattr(thing, "get_fontsize"))
            if text.get_text()
        }
        assert min(sizes) >= 8
        figures.plt.close(drawn)


def test_the_ceiling_is_no_row_among_contenders(items):
    intervals = next(item for item in items if item.kind == "intervals").draw()
    rows = [label.get_text() for label in intervals.axes[0].get_yticklabels()]
    assert "tmpfs" not in rows and set(rows) == {"ext4", "xfs", "jfs"}
    figures.plt.close(intervals)


def test_a_part_of_the_heat_map_shows_those_who_are_in_it(tmp_path, monkeypatch):
    lost = {("jfs", "metadata", number): ("failed", "It broke.") for number in (1, 2, 3)}
    make.make(tmp_path, systems=["ext4", "xfs", "jfs"], failures=lost)
    study = run.build(tmp_path)
    monkeypatch.setattr(gallery, "ROWS", 1)  # a part for each workload
    parts = [item for item in gallery.catalogue(study, dataset.results(study)) if item.kind == "heatmap"]
    assert ["2 file systems" in item.alt for item in parts] == [True, False]
    for item in parts:
        figures.plt.close(item.draw())


def test_no_contender_no_figure(tmp_path):
    make.make(tmp_path, systems=["tmpfs"], failures={})
    study = run.build(tmp_path)
    assert gallery.catalogue(study, dataset.results(study)) == []


LAYOUTS = ["single", "md-raid5@3", "md-raid5", "md-raid5@12", "md-raid6", "md-raid5-degraded", "btrfs-raid1"]


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """Figures of two file systems on stacks of several levels and numbers of disks."""
    folder = tmp_path_factory.mktemp("stacked")
    make.make(folder, systems=["ext4", "btrfs"], workloads=["metadata"], failures={}, stacks=LAYOUTS)
    study = run.build(folder)
    return gallery.catalogue(study, dataset.results(study))


def test_stacks_have_heat_maps_and_lines_instead_of_sections(stacked):
    kinds = [item.kind for item in stacked]
    # One setting in full, whatever the number of stacks; for each file system one heat map and one of the disks.
    assert kinds == ["heatmap", "ranks", "intervals", "latencies", *["stacks"] * 3, *["disks"] * 3]
    assert {item.setting for item in stacked if item.kind in ("heatmap", "intervals")} == {("exact", "single", "ssd")}
    assert len({item.name for item in stacked}) == len(stacked)
    for item in stacked:
        assert item.caption.endswith(".") and item.alt.endswith(".") and "nan" not in item.caption + item.alt


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_the_heat_map_of_stacks_names_them_and_colours_what_is_shown(stacked):
    item = next(item for item in stacked if item.name.endswith("ext4") and item.kind == "stacks")
    drawn = item.draw()
    names = [text for text in texts(drawn) if text in LAYOUTS]
    assert names == [name for name in LAYOUTS if name not in ("single", "btrfs-raid1")]  # not itself, not another's
    table = item.draw.args[0]
    proved = ((table["value"] > 0) & table["shown"]).sum()
    assert 0 < proved < len(table) and len(drawn.axes[0].patches) == proved
    assert drawn.get_size_inches()[0] == figures.WIDTH
    figures.plt.close(drawn)


def test_the_lines_of_disks_have_shapes_and_the_single_device_a_line_across(stacked):
    drawn = next(item for item in stacked if item.kind == "disks").draw()
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["single", "md-raid5"]
    lines = drawn.axes[0].get_lines()
    assert any(list(line.get_xdata()) == [3, 6, 12] for line in lines)
    assert len({line.get_marker() for line in lines if line.get_marker() != "None"} - {"|", "_"}) >= 2
    assert drawn.axes[0].get_ylim()[0] == 0
    figures.plt.close(drawn)


def test_many_file_systems_are_rows_and_their_panels_fit_on_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "SYSTEMS", {f"fs{i:02}": (1 + i / 10, 1.0, 1.0, 0.01) for i in range(24)})
    make.make(tmp_path, rounds=2, systems=list(make.SYSTEMS), workloads=["metadata"], failures={})
    study = run.build(tmp_path)
    results = dataset.results(study)
    items = gallery.catalogue(study, results)
    pages = [item for item in items if item.kind == "intervals"]
    assert len(pages) > 1 and pages[0].caption.endswith(f"Part 1 of {len(pages)}.")
    for item in items:
        drawn = item.draw()
        assert drawn.get_size_inches()[1] < 9.5, item.name
        figures.plt.close(drawn)
    heat = next(item for item in items if item.kind == "heatmap").draw()
    rows = [text for text in texts(heat) if text.startswith("fs")]
    assert rows == gallery.label_order(results, ("exact", "single", "ssd"))
    figures.plt.close(heat)


def test_two_labs_meet_in_one_figure_without_units(tmp_path):
    make.make(tmp_path, systems=["ext4", "xfs", "tmpfs"], workloads=["metadata"], failures={}, labs=["exact", "host"])
    study = run.build(tmp_path)
    items = gallery.catalogue(study, dataset.results(study))
    both = [item for item in items if item.kind == "agreement"]
    assert len(both) == 1 and both[0].setting == ("exact", "host", "single", "ssd")
    table = both[0].draw.args[0]
    assert set(table["label"]) == {"ext4", "xfs", "tmpfs"}
    logs = table.assign(x=np.log(table["x"]), y=np.log(table["y"])).groupby(["phase", "cache"])[["x", "y"]].sum()
    assert np.allclose(logs, 0)  # relative to the geometric mean: whatever the clocks' units, they are gone
    drawn = both[0].draw()
    labels = {text.get_text() for text in drawn.findobj(figures.matplotlib.text.Text)}
    assert {"relative cost, lab exact", "relative cost, lab host"} <= labels
    assert not labels & {name for name, _ in words.UNITS}
    figures.plt.close(drawn)
    for item in items:
        if item.kind != "agreement":
            assert sum(lab in item.setting for lab in ("exact", "host")) == 1
