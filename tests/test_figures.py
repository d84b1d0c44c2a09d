"""Figures: the same bytes every time, ink that follows the page, nothing loaded from elsewhere, words for all."""

import re
import sys
from pathlib import Path

import pytest
from reprofs import dataset, figures, gallery, stats

sys.path.insert(0, str(Path(__file__).parent / "fixtures"))
import make
import run


def results_of(study: dataset.Study) -> dataset.Results:
    table, pairs = stats.statistics(study.phases), stats.pairwise(study.phases)
    return dataset.Results(table, pairs, stats.winners(table, pairs), *stats.ranks(table))


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    make.make(
        folder, systems=["ext4", "xfs", "jfs", "tmpfs"], failures={("jfs", "metadata", 1): ("failed", "It broke.")}
    )
    study = run.build(folder)
    return gallery.catalogue(study, results_of(study))


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


def test_no_contender_no_figure(tmp_path):
    make.make(tmp_path, systems=["tmpfs"], failures={})
    study = run.build(tmp_path)
    assert gallery.catalogue(study, results_of(study)) == []
