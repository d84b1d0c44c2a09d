"""The flash of modelled disks (scripts/guest/modeldisk_flash.h), compiled outside of the kernel: against published
formulas and curves, and a simulation that shares no code with it.
"""

import itertools
import random
import subprocess
import sys

import pytest
from conftest import ROOT
from helpers import CATALOG, drawn
from reprofs.errors import UserError
from reprofs.plan.device import Device, Flash
from reprofs.plan.flash import Simulation, write_amplification

KEYS = ("blocks", "spare", "fifo", "erase_ns", "slc", "slc_full", "slc_rate", "filled", "overwritten")
GB = 10**9


@pytest.fixture(scope="module")
def flash(tmp_path_factory):
    """Runs lines of tests/flash.c on a disk of so many pages: the numbers of each `p`."""
    program = tmp_path_factory.mktemp("flash") / "flash"
    words = ["-O2", "-Wall", "-Wextra", "-Werror", str(ROOT / "tests/flash.c"), "-o", str(program)]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *words], check=True)

    def run(pages: int, lines: str, write_rate: int = GB, read_rate: int = GB, **setting) -> list[list[int]]:
        numbers = [int(setting.get(key, 0)) for key in KEYS]
        command = [str(program), *map(str, [pages * 4096, *numbers, write_rate, read_rate])]
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
        return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]

    return run


def amplification(flash, spare: float, blocks: int, fifo: bool) -> float:
    """Pages programmed a page written at random places, once that is steady; blocks of 64 pages."""
    pages = int(blocks * 64 / (1 + spare)) + 1
    lines = f"r {6 * pages} 1\np\nr {8 * pages} 2\np\n"
    before, after = flash(pages, lines, blocks=blocks, spare=spare * 1e6, fifo=fifo, filled=1e6)
    return 1 + (after[1] - before[1]) / (after[0] - before[0])


@pytest.mark.parametrize(("spare", "told"), [(0.07, 7.82), (0.15, 4.02), (0.28, 2.48), (0.30, 2.364), (0.5, 1.716)])
def test_fifo_has_the_published_write_amplification(flash, spare, told):
    assert write_amplification(spare) == pytest.approx(told, rel=0.001)
    assert amplification(flash, spare, 2048, fifo=True) == pytest.approx(told, rel=0.01)


@pytest.mark.parametrize(("spare", "told", "within"), [(0.30, 2.348, 0.01), (0.15, 3.988, 0.02)])
def test_greedy_collection_has_the_known_write_amplification(flash, spare, told, within):
    found = amplification(flash, spare, 256, fifo=False)
    assert found == pytest.approx(told, rel=within)
    assert found < amplification(flash, spare, 256, fifo=True)


@pytest.mark.parametrize("fifo", [False, True])
def test_it_does_what_the_simulation_does(flash, fifo):
    """Random places, runs of pages and discards: the same pages moved, the same blocks erased."""
    chance: random.Random = drawn()
    for _ in range(4):
        each, blocks = chance.randrange(4, 40), chance.randrange(16, 60)
        pages, lines = each * (blocks - 3), []
        other = Simulation(blocks, each, fifo)
        for _ in range(1500):
            first = chance.randrange(pages)
            count = chance.randrange(1, 1 + min(8, pages - first))
            if chance.random() < 0.2:
                lines.append(f"t {first} {count}")
                for page in range(first, first + count):
                    other.forget(page)
            else:
                lines.append(f"w {first} {count} -1")
                other.write(range(first, first + count))
        ((written, moved, erased, fast, _),) = flash(
            pages, "\n".join([*lines, "p"]), blocks=blocks, spare=1e6 * (blocks * each - pages + 0.5) / pages, fifo=fifo
        )
        assert (written, moved, erased, fast) == (other.written, other.moved, other.erased, 0)
        assert erased > 20


@pytest.mark.parametrize(
    ("size", "fast", "fast_rate", "rate", "measured", "off"),
    [
        (1000, 341, 4.0, 0.45, 0.596, 0.0825),  # WD SN580 1 TB, TechPowerUp: mean of writing all of it
        (1000, 113, 4.0, 1.5, 1.9, -0.1505),  # Samsung 980 Pro 1 TB
    ],
)
def test_a_fast_region_has_the_published_curve(flash, size, fast, fast_rate, rate, measured, off):
    """In MB for GB: shares of the disk are the same."""
    pages = size * 10**6 // 4096
    lines = "".join(f"w {first} 100 -1\np\n" for first in range(0, pages - 100, 100))
    share = fast / size * 1e6
    setting = {"blocks": 1024, "spare": 70_000, "slc": share, "slc_full": share, "slc_rate": fast_rate * GB}
    found = flash(pages, lines, write_rate=int(rate * GB), read_rate=3 * GB, **setting)
    speed = [409600 / (b[4] - a[4]) for a, b in itertools.pairwise(found)]
    ends = next(i for i, one in enumerate(speed) if one < fast_rate / 2) * 409600 / 1e6
    assert ends == pytest.approx(fast, rel=0.01)
    assert speed[0] == pytest.approx(fast_rate, rel=0.01) and speed[-1] == pytest.approx(rate, rel=0.01)
    mean = found[-1][0] * 4096 / found[-1][4]
    assert mean == pytest.approx(size / (fast / fast_rate + (size - fast) / rate), rel=0.01)
    assert mean / measured - 1 == pytest.approx(off, abs=0.003)  # as docs/methods/devices.md says


def test_the_fast_region_is_emptied_while_the_disk_is_idle(flash):
    setting = {"blocks": 64, "spare": 100_000, "slc": 100_000, "slc_full": 100_000, "slc_rate": 10 * GB}
    full = "w 0 1000 0\np\n"  # of 10,000 pages: all of it
    (first,), (_, at_once), (_, half), (_, later) = (
        [row[4] - int(since) for row in flash(10_000, lines, **setting)]
        for lines, since in ((full, 0), *((f"{full}w 2000 400 {t}\np\n", t) for t in (409_600, 2_500_000, 5_000_000)))
    )
    assert first == 409_600  # 4 MB at 10 GB/s
    assert at_once == 400 * 4096  # at 1 GB/s
    assert half == later == 163_840  # owed were 4.1 ms; after 2.1 of them there is room for 400 pages


def test_a_full_disk_has_less_of_it(flash):
    setting = {"blocks": 64, "spare": 100_000, "slc": 140_000, "slc_full": 12_000, "slc_rate": 10 * GB}
    lines = "w 0 1200 0\np\n"
    assert flash(10_000, lines, **setting)[0][3] == 1200
    assert flash(10_000, lines, filled=1e6, **setting)[0][3] == 0
    assert flash(10_000, "w 0 100 0\np\n", filled=1e6, **setting)[0][3] == 100


def test_discards_spare_work(flash):
    setting = {"blocks": 256, "spare": 70_000, "filled": 1e6, "overwritten": 3e6}
    busy = "r 60000 1\np\n"
    ((_, kept, *_),) = flash(15_000, busy, **setting)
    ((_, spared, *_),) = flash(15_000, f"t 0 7500\n{busy}", **setting)
    assert spared < kept
    assert flash(15_000, busy, **setting) == flash(15_000, busy, **setting)


def test_profiles_of_flash():
    new, worn, qlc = (CATALOG.get(Device, f"ssd-{name}").drive for name in ("new", "worn", "qlc-full"))
    assert new.flash.model_copy(update={"filled_percent": 100, "overwritten": 3, "discards": False}) == worn.flash
    assert worn.parameters()["no_discard"] == 1 and new.parameters()["no_discard"] == 0
    assert qlc.flash.filled_percent == 100 and qlc.write_mb_s < new.write_mb_s
    assert "blocks" not in CATALOG.get(Device, "ssd-nvme").drive.parameters()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"blocks": 16, "spare_percent": 7}, "fewer than the two that garbage collection needs"),
        ({"fast_percent": 10}, "fast_mb_s is missing"),
    ],
)
def test_a_flash_that_cannot_work_is_refused(changes, told):
    with pytest.raises(UserError, match=told):
        Flash(**{"spare_percent": 7, "erase_us": 0} | changes).parameters()
