"""Topics of series, from clients to modelled disks: which studies have them, what they find, show and draw.

The statistics behind them have their own tests, test_series.py.
"""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import make
import numpy as np
import pandas as pd
import pytest
import reprofs
import run
from helpers import CATALOG, device, plan_with
from reprofs.data import columns
from reprofs.data.keys import Load, Setting, select
from reprofs.plan import disk
from reprofs.plan.catalog import Catalog
from reprofs.plan.device import Device
from reprofs.plan.filesystem import PlannedHosts
from reprofs.plan.network import Network
from reprofs.plan.plan import Plan, PlannedWorkload, read_plan
from reprofs.plan.processor import Processor
from reprofs.plan.read import validate
from reprofs.plan.workload import Scale
from reprofs.records import raw as seals
from reprofs.report import contents, plots, when
from reprofs.report.display import DASH
from reprofs.report.topics import (
    ageing,
    answer,
    clients,
    cores,
    disks,
    fill,
    iterations,
    lists,
    methods,
    power_cuts,
    rates,
    runs,
    scaling,
    sweep,
    windows,
)
from reprofs.stats.cores import curves
from reprofs.stats.disks import comparison
from reprofs.stats.study import Study
from reprofs.trial.planning import make_plan
from test_disks import SOLID, profile
from test_series import WHOLE, client_rows, filling, swept, table, three_windows

pytestmark = pytest.mark.xdist_group("topics_series")  # one worker: the studies are made once

TOPICS = {"clients", "cores", "fill", "sweep", "windows", "scaling", "ageing", "power_cuts", "disks"}
PLACE = Setting("exact", "single", "ssd"), Load("metadata", "smoke")


# ---- which studies have which topic ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        ("quick", []),
        ("degraded", []),
        ("small-files", ["clients"]),
        ("streaming", ["fill", "sweep", "windows"]),
        ("streaming-disks", []),
        ("many-inodes", ["scaling"]),
        ("cores", ["cores"]),
        ("plug-2020", ["scaling"]),
        ("git-annex", ["ageing"]),
        ("power-cuts", ["power_cuts"]),
        ("devices", ["disks"]),
        ("metadata", ["ageing"]),  # file systems that are filled; of fio and mdtest one size and one record each
    ],
)
def test_the_plan_tells_which_topics_a_study_has(study, expected):
    plan = make_plan(study, Catalog())
    assert [topic.name for topic in contents.topics(plan) if topic.name in TOPICS] == expected


def test_a_filled_file_system_is_an_aged_one():
    assert when.aged(plan_with(make.plan(), fill=50)) and not when.aged(make.plan())


def test_sizes_of_different_file_systems_are_no_scaling():
    plan = make_plan("many-inodes", Catalog())
    one = {"ext4": "many-inodes", "xfs": "many-inodes@x2"}
    trials = [trial for trial in plan.trials if one[trial.filesystem] == trial.workload]
    assert trials and not when.several_sizes(plan.model_copy(update={"trials": trials}))


def test_without_the_time_of_the_software_no_disk_is_compared():
    plan = make_plan("devices", Catalog())
    trials = [trial for trial in plan.trials if trial.profile not in ("ram", "reference")]
    assert not when.modelled_disks(plan.model_copy(update={"trials": trials}))
    trials = [trial.model_copy(update={"profile": "ram"}) for trial in trials]
    assert not when.modelled_disks(plan.model_copy(update={"trials": trials}))


# ---- a study with all of it ------------------------------------------------------------------------------------------


def rows_of(samples: list[dict]) -> list[dict]:
    """Samples as a record has them."""
    keys = ("name", *WHOLE, "extents", "blocks", "contiguous")
    default = {"name": "write", "start_ns": 0, "wall_ns": 0, "items": 1, "bytes": 0}
    return [{key: value for key, value in (default | row).items() if key in keys} for row in samples]


LAYOUT = [
    {"name": "layout-before", "items": 9, "extents": 18, "blocks": 90, "contiguous": 81},
    {"name": "layout-after", "items": 9, "extents": 27, "blocks": 90, "contiguous": 72},
]
CHECK = {"written": 9, "promised": 9, "kept": 7, "broken": 2, "short": 1, "wrong": 0, "missing": 1, "extra": 4}
TESTS = ("write", "rewrite", "read", "reread")


def everything(data: dict) -> None:
    """A record (or the plan) with a fill, windows, a sweep, three clients, a layout, a power cut, one after another."""
    if "measurement" in data:
        if not data["measurement"]:
            return
        phases = data["measurement"]["phases"]
        data["environment"]["lab"]["memory_mib"] = 2**14
        phases[1]["samples"] = rows_of(filling([1, 1, 4, 1, 1, 1]))
        phases[2]["samples"] = rows_of([*three_windows(), {"name": "alone", "wall_ns": 5, "bytes": 5, "client": 0}])
        phases[4]["samples"] = rows_of({**row, "name": f"sweep-{row['name']}"} for row in swept() if row["round"] == 1)
        times = [(0, 3 * 10**9), (10**9, 10**9), (0, 5 * 10**9)]
        phases[6]["clients"] = [{"start_ns": s, "wall_ns": w, "items": 100, "bytes": 0} for s, w in times]
        data["measurement"]["preparation"] = [dict(phases[0], name="age", output="", samples=rows_of(LAYOUT))]
        recovery = dict(phases[7], name=f"{phases[7]['name']}: recovery", cache="cold", wall_ns=7_000_000)
        phases[7]["crash"] = {"cut_ns": 250_000_000, "lost_bytes": 8192}
        phases.insert(8, recovery)
        commands, check = data["measurement"]["commands"], CHECK
        if data["trial"]["filesystem"] != "ext4":
            check = CHECK | {"broken": 0, "kept": 9, "short": 0, "missing": 0}
        told = json.dumps(check, separators=(",", ":"))
        commands.append(dict(commands[0], stage=f"check {phases[7]['name']}", output=f"{told}\nengine: promise: …"))
    else:
        entry = data["workloads"]["metadata"]
        entry |= {"fill": 50, "clients": 3}
        entry["phases"][1]["samples"] = {"write": "Write a file", "full": "Fill"}
        entry["phases"][2]["samples"] = {"alone": "Alone", "write": "Write", "read": "Read"}
        entry["phases"][4]["samples"] = {f"sweep-{test}": "Test" for test in TESTS}
        entry["phases"][7]["crash"] = {}


def made(folder: Path, change, **options) -> Study:
    """The tables of a study of ext4 and XFS whose plan and records were changed by `change(data)`."""
    options = {"rounds": 1, "systems": ["ext4", "xfs"], "workloads": ["metadata"], "failures": {}} | options
    make.make(folder, **options)
    for path in [folder / "plan.json", *(folder / "raw").glob("*.json")]:
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(seals.seal(data) if "digests" in data else data))
    return run.build(folder)


def shown(folder: Path, name: str) -> str:
    """What a notebook shows as text; how its figures look is seen elsewhere, and takes the longest."""
    with mock.patch.object(plots, "svg", lambda plot: "<svg/>"):
        return run.text(run.execute(folder, [name]) / f"{name}.ipynb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("series")
    made(place, everything)
    return place


@pytest.fixture(scope="module")
def study(folder) -> Study:
    return run.open_study(str(folder / "tables"))


@pytest.fixture(scope="module")
def failed(tmp_path_factory) -> Path:
    """The same study without a trial that gave anything."""
    place = tmp_path_factory.mktemp("failed")
    bad = {(name, "metadata", 1): ("timeout", "It took too long.") for name in ("ext4", "xfs")}
    made(place, everything, failures=bad)
    return place


NOTEBOOKS = {
    "clients": ("No trial with several clients completed.", "Three clients started together.", "Jain's index is"),
    "fill": (
        "No trial that fills a device completed.",
        "**ext4** writes 5 whole files in 1 round at ",
        "Of its files none reaches 1 Gbit/s.",
        "with 1 dip to 25.0 %.",
        "When the space ran out, content took up 104.0 % of the capacity.",
    ),
    "sweep": (
        "No sweep over sizes of records completed.",
        "may show the rate of memory",
        "Rates go from 50,000 MB/s",
        "rate over the size of a record, a line a file system",
    ),
    "windows": (
        "No trial with a reader beside a writer completed.",
        "**ext4** keeps 30.8 % of its rate beside a reader",
        "recovers within 8.00 s",
    ),
    "scaling": ("No operation completed at several sizes.",),
    "cores": ("No operation completed with several numbers of workers.",),
    "ageing": ("No trial of it completed.", "filled to 50 %", "Smith and Seltzer"),
    "power_cuts": (
        "In no trial was the power cut.",
        "every file was whole afterwards on xfs: 9 files in 1 cut.",
        "these were lost or damaged: 2 of 9 files on ext4 (1 of 1 cut).",
    ),
    "disks": ("No modelled disk can be compared with its model",),
    "outages": ("In no trial was a server lost.",),
    "iterations": ("No trial of it completed.",),
    "runs": ("No operation completed six times.",),
    "lists": ("No trial of it completed.",),
    "rates": ("No trial of it completed.",),
}


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_say_what_was_found(folder, study, name):
    _, *words = NOTEBOOKS[name]
    text = shown(folder, name)
    for word in words:
        assert word in text
    assert "nan" not in text


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_of_trials_that_all_failed_say_so(failed, name):
    word, *others = NOTEBOOKS[name]
    text = shown(failed, name)
    assert word in text and "data-figure" not in text
    assert not any(other in text for other in others)


# ---- facts and tables ------------------------------------------------------------------------------------------------


def test_clients_have_the_sum_and_the_honest_total(study):
    found = clients.facts(study, *PLACE)
    assert found["clients"] == 3 and found["least"]["first_done_ns"] == 2e9 and found["least"]["last_done_ns"] == 5e9
    row = clients.table(study, *PLACE).rows[0]
    # Rates of 100 items in 3, 1 and 5 s; all 300 in 5 s.
    assert list(row.values())[1:9] == ["ext4", "items/s", "153", "60.0", "1.80", "3.00 s", "2.00 s", "5.00 s"]
    assert found["apart"] == 0
    # One after the other: none is there at the same time as another.
    later = study.clients.assign(start_ns=study.clients["client"] * 10**10)
    changed = dataclasses.replace(study, clients=later)
    found = clients.facts(changed, *PLACE)
    assert found["apart"] == found["rows"] and found["alone"]["at_once"] < 1
    (figure,) = clients.figures(study, *PLACE)
    assert "3 clients" in figure.alt and len(figure.plot.axes) == 1
    assert clients.rates(study, *PLACE) == []  # these clients moved no bytes


def test_rates_of_all_numbers_of_clients_stand_beside_each_other():
    place = PLACE[0]._asdict() | {"scale": "smoke", "status": "ok", "role": "contender", "label": "ext4"}
    many, one = [], []
    for phase, size in (("create", 50 * 10**6), ("delete", 0)):
        place |= {"phase": phase, "cache": "warm", "round": 1, "items": 1}
        many += [
            place
            | {"workload": f"metadata+clients{number}", "trial": f"{number}", "client": client, "start_ns": 0}
            | {"wall_ns": 10**9 * (client + 1), "bytes": size * (client + 1)}
            for number in (2, 3)
            for client in range(number)
        ]
        one.append(place | {"workload": "metadata", "trial": "a", "wall_ns": 10**9, "bytes": size * 8 // 5})
    loads = [Load(name, "smoke") for name in ("metadata", "metadata+clients2", "metadata+clients3", "other+clients9")]
    study = SimpleNamespace(clients=pd.DataFrame(many), phases=pd.DataFrame(one), title=lambda _, phase, cache: phase)
    study.loads = lambda setting: loads
    found = clients.together(study, PLACE[0], loads[2])
    create, delete = (select(found, title=title) for title in ("create", "delete"))
    assert list(create["clients"]) == [1, 2, 3] and list(create["value"]) == pytest.approx([80, 100, 150])
    assert list(delete["value"]) == pytest.approx([1, 1.5, 2]) and set(create["unit"]) == {"MB/s"}
    left, right = clients.bars(found).axes
    assert [bar.get_height() for bar in left.patches] == pytest.approx([80, 100, 150])
    assert (left.get_ylabel(), right.get_ylabel()) == ("MB/s", "s")
    (figure,) = clients.rates(study, PLACE[0], loads[2])
    assert "1, 2 and 3 clients" in figure.caption
    assert clients.rates(study, PLACE[0], loads[1]) == []  # it is in the figure of three
    sized = Load("metadata@100", "smoke")
    study.phases["workload"] = sized.workload
    study.loads = lambda setting: [sized, *loads[1:]]
    assert sorted(set(clients.together(study, PLACE[0], loads[2])["clients"])) == [1, 2, 3]
    (figure,) = clients.rates(study, PLACE[0], loads[2])
    assert "Sizes differ: metadata and metadata@100." in figure.caption
    study.loads = lambda setting: [sized, Load("metadata@200", "smoke"), *loads[1:]]  # which of the two is not said
    assert sorted(set(clients.together(study, PLACE[0], loads[2])["clients"])) == [2, 3]


def test_a_bar_that_dwarfs_those_of_all_others_is_cut():
    def panel(title, **values):
        rows = [(label, title, 30, "MB/s", value) for label, value in values.items()]
        return pd.DataFrame(rows, columns=clients.GROUPED)

    rates = panel("copy", ext4=100.0, xfs=80.0, btrfs=500.0)
    (axes,) = clients.bars(rates).axes
    assert axes.get_ylim()[1] == 125 and [text.get_text() for text in axes.texts] == ["500 →"]
    assert "over 5 times" in clients._told_cut(pd.concat([rates, panel("delete", ext4=1.0)]))
    for others in (panel("copy", ext4=100.0, xfs=80.0, btrfs=499.0), panel("copy", ext4=0.0, xfs=0.0, btrfs=1.0)):
        (axes,) = clients.bars(others).axes
        assert axes.get_ylim()[1] > others["value"].max() and not axes.texts and not clients._told_cut(others)


def test_fill_has_dips_shares_and_capacity(study):
    (place,) = fill.places(study)
    assert place == (*PLACE, "create")
    first = fill.facts(study, *place)[0]
    assert (first["label"], first["files"], first["dips"], first["period"]) == ("ext4", 5, 1, None)
    assert (first["share"], first["full"]) == (1.04, True)
    assert first["mean_mb_s"] == pytest.approx(0.85e-3) and first["depth"] == 0.25
    assert first["reached"] == {1: 0, 2: 0, 4: 0, 8: 0}
    assert fill.reaching({1: 1.0, 2: 1.0, 4: 0.25, 8: 0.0, 16: 0.0}) == (
        "Of its files all reach 2, 25.0 % reach 4, none reaches 8 Gbit/s."
    )
    assert fill.reaching({}) == ""
    row = fill.table(study, *place, required=[1e-6, 4]).rows[0]
    assert [row[key] for key in ("Dips", "Period", "P ≥ 4 Gbit/s", "Capacity reached")] == [
        1,
        DASH,
        f"0.00 (0 {DASH} 0.43)",
        "104.0 %",
    ]
    assert [figure.name.split("-")[0] for figure in fill.figures(study, *place)] == ["fill", "exceedance"]
    one = study.samples[(study.samples["name"] != "write") | (study.samples["iteration"] == 0)]
    alone = dataclasses.replace(study, samples=one)
    assert [figure.name.split("-")[0] for figure in fill.figures(alone, *place)] == ["exceedance"]


def test_windows_have_means_slowdown_and_recovery(study):
    (place,) = windows.places(study)
    row = windows.facts(study, *place)[0]
    assert row["slowdown"] == pytest.approx(25 / ((100 + 62.5) / 2)) and row["recovery_ns"] == pytest.approx(8e9)
    assert windows.table(study, *place).rows[0]["Recovered after"] == "8.00 s"
    assert windows.figure(study, *place).caption.startswith("metadata (smoke), lab exact, stack single")


def test_sweep_knows_what_memory_may_have_served(study):
    (place,) = sweep.places(study)
    found = sweep.facts(study, *place)
    assert found["memory"] == 2**34
    assert found["held"] == {"file_bytes": [10 << 30], "operations": list(TESTS)}
    assert (found["least"]["operation"], found["most"]["operation"]) == ("write", "reread")
    assert found["most"]["mb_s"] == pytest.approx(400_000)
    lines = sweep.line_figure(study, *place).plot
    assert [text.get_text() for text in lines.legends[0].get_texts()] == study.contenders(place[0]) == ["ext4", "xfs"]
    figure = sweep.figure(study, *place)
    assert figure.caption.endswith("Hatched: the file fits in the memory of the machine.")
    assert "from 50,000 to 400,000 MB/s" in figure.alt


def test_a_sweep_past_the_cache_has_nothing_hatched(tmp_path):
    def change(data):
        everything(data)
        if "measurement" in data:
            for row in data["measurement"]["phases"][4]["samples"]:
                row["name"] = f"direct-{row['name']}"
        else:
            data["workloads"]["metadata"]["phases"][4]["samples"] = {f"direct-{name}": "Test" for name in TESTS}
            assert when.swept(Plan.model_validate(data))

    study = made(tmp_path, change, systems=["ext4"])
    (place,) = sweep.places(study)
    figure = sweep.figure(study, *place)
    assert sweep.facts(study, *place)["held"] is None and "Hatched" not in figure.caption
    assert not [patch for axes in figure.plot.axes for patch in axes.patches if patch.get_hatch()]


def test_layout_before_and_after_the_churn(study):
    table = ageing.layout(study, *PLACE)
    assert list(table.rows[0].values()) == ["ext4", "2.000", "0.9000", "3.000", "0.8000"]
    assert ageing.facts(study, *PLACE)["fill"] == 50 and ageing.facts(study, *PLACE)["most"] is None


def repeated(data: dict) -> None:
    """A record (or the plan) of a workload that runs twice in one file system; all but the first phase get slower."""
    if "measurement" in data:
        phases = data["measurement"]["phases"]
        again = [
            dict(phase, run=2, wall_ns=phase["wall_ns"] * (3 if number else 1) // 2)
            for number, phase in enumerate(phases)
        ]
        data["measurement"]["phases"] = [dict(phase, run=1) for phase in phases] + again
    else:
        data["workloads"]["metadata"]["runs"] = 2


def test_drift_over_runs_in_one_file_system(tmp_path):
    study = made(tmp_path, repeated)
    (place,) = ageing.places(study)
    rows = ageing.runs(study, *place).rows
    assert len(rows) == 18 and rows[0]["Last to first"] == "0.500" and rows[0]["Spearman"] == "\N{MINUS SIGN}1.00"
    found = ageing.facts(study, *place)
    assert (found["runs"], found["changes"], found["slower"]) == (2, 18, 16)
    assert found["most"]["ratio"] == pytest.approx(1.5, rel=1e-6)
    text = shown(tmp_path, "ageing")
    assert "The work was done 2 times" in text and "In 16 of 18 operations" in text and "layout" not in text.lower()
    # Two times are rings alone, and no line goes through them.
    (violins,), (trends,) = runs.violins(study, *place), runs.trends(study, *place)
    assert "there are rings alone" in violins.caption and not any(axes.collections for axes in violins.plot.axes)
    assert "in the same file system" in trends.caption and "there is no smooth line" in trends.caption
    first = [line.get_xydata() for line in trends.plot.axes[0].lines]
    assert [list(points[:, 0]) for points in first] == [[1, 2], [1, 2]]
    assert all(points[1, 1] == pytest.approx(points[0, 1] / 2, rel=1e-6) for points in first)
    assert "there are rings alone" in shown(tmp_path, "runs")


@pytest.mark.wide
def test_runs_of_one_that_is_not_ranked_are_shown_but_not_of_an_upper_bound(tmp_path):
    def unkept(data):
        if "filesystems" in data:
            data["filesystems"]["jfs"]["variants"]["default"] |= {"promise": "none", "why": "it flushes nothing"}

    study = made(tmp_path, unkept, rounds=6, systems=["ext4", "xfs", "jfs", "tmpfs"])
    (place,) = runs.places(study)
    (violins,), (trends,) = runs.violins(study, *place), runs.trends(study, *place)
    labels = [label.get_text() for label in violins.plot.axes[0].get_yticklabels()]
    assert sorted(labels[:2]) == ["ext4", "xfs"] and labels[2:] == ["jfs"]
    assert [text.get_text() for text in trends.plot.legends[0].get_texts()] == labels


@pytest.mark.wide
def test_six_rounds_have_violins_and_smooth_lines(tmp_path):
    study = made(tmp_path, lambda data: None, rounds=6)
    (place,) = runs.places(study)
    (violins,), (trends,) = runs.violins(study, *place), runs.trends(study, *place)
    own = runs.values(study, *place)
    for figure, scale in ((violins, "xscale"), (trends, "yscale")):
        assert len(figure.plot.axes) == 9 and {getattr(axes, f"get_{scale}")() for axes in figure.plot.axes} == {"log"}
        assert "alone" not in figure.caption
    assert plots.svg(violins.plot) == plots.svg(runs.violins(study, *place)[0].plot)
    labels = [label.get_text() for label in violins.plot.axes[0].get_yticklabels()]
    assert sorted(labels) == ["ext4", "xfs"]
    create = own[own["phase"] == "create"]
    panel = next(axes for axes in violins.plot.axes if axes.get_title("left").startswith("Create"))
    for y, label in enumerate(labels):
        times = create.loc[create["label"] == label, "wall_ns"].astype(float) / 1e6
        edge = panel.collections[y].get_paths()[0].vertices
        assert (edge[:, 0].min(), edge[:, 0].max()) == pytest.approx((times.min(), times.max()))
        assert edge[:, 1].max() - edge[:, 1].min() == pytest.approx(0.84) and abs(edge[:, 1].mean() - y) < 0.1
        assert sorted(x for x, at in rings(panel) if at == y) == pytest.approx(sorted(times))
    smooth = [line for line in trends.plot.axes[0].lines if line.get_linestyle() != "None"]
    assert [list(line.get_xdata()) for line in smooth] == [[1, 2, 3, 4, 5, 6]] * 2
    assert "No operation" not in shown(tmp_path, "runs")


MDTEST = {"file-create": (400, 1.0), "file-stat": (3000, 0.5), "file-remove": (450, 2.0)}  # rate, seconds


def summarised(data: dict) -> None:
    """A record (or the plan) in which a phase is mdtest of three iterations, of two clients each."""
    if "measurement" in data:
        rows, start = [], 0.0
        for iteration in range(3):
            for name, (rate, seconds) in MDTEST.items():
                row = {"name": name, "iteration": iteration, "start_ns": round(start * 1e9), "bytes": 0}
                row |= {"wall_ns": round(seconds * 1e9), "items": round(rate * seconds / 2)}
                rows += [row | {"client": client} for client in (0, 1)]
                start += seconds
        data["measurement"]["phases"][1]["samples"] = rows_of(rows)
    else:
        data["workloads"]["metadata"]["phases"][1]["samples"] = {name: name.title() for name in MDTEST}


def test_rates_over_the_time_of_a_command(tmp_path):
    study = made(tmp_path, summarised)
    (place,) = iterations.places(study)
    (figure,) = iterations.figures(study, *place)
    assert [axes.get_title("left") for axes in figure.plot.axes] == study.contenders(place[0]) != []
    for axes in figure.plot.axes:
        bars = [line.get_xydata().tolist() for line in axes.lines]
        assert len(bars) == 9 and bars[:3] == [[[0, 400], [1, 400]], [[1, 3000], [1.5, 3000]], [[1.5, 450], [3.5, 450]]]
        assert bars[-1][1] == [10.5, 450] and axes.get_yscale() == "log"
    text = shown(tmp_path, "iterations")
    assert "within it the rate is not known" in text and "the table has the rates over the iterations" in text


def test_operations_over_the_time_of_a_command(tmp_path):
    def change(data):
        summarised(data)
        if "measurement" in data:
            phase = data["measurement"]["phases"][1]
            for row in [dict(row) for row in phase["samples"] if row["name"] == "file-stat"]:
                halves = {"name": "file-stat-over-time", "wall_ns": row["wall_ns"] // 2}
                row.pop("iteration")
                phase["samples"] += rows_of([row | halves | {"items": row["items"]}])
                phase["samples"] += rows_of([row | halves | {"start_ns": row["start_ns"] + 25 * 10**7, "items": 0}])

    study = made(tmp_path, change)
    (place,) = iterations.places(study)
    (figure,) = iterations.figures(study, *place)
    for axes in figure.plot.axes:
        steps = [patch.get_data() for patch in axes.patches]
        assert len(steps) == 3 and steps[0].edges.tolist() == [1, 1.25, 1.5] and steps[0].values[0] == 6000
        assert 0 < steps[0].values[1] < 6000  # a log axis has no zero
    assert "where nothing ended" in shown(tmp_path, "iterations")


def test_rates_of_kernel_trees(tmp_path):
    def change(data):
        if "measurement" in data:
            rows = [
                {"name": "compile", "iteration": i, "client": client, "wall_ns": 10**9, "items": 30, "bytes": 5 * 10**7}
                for i in range(2)
                for client in (0, 1)
            ]
            rows.append({"name": "delete", "iteration": 0, "client": 0, "wall_ns": 2 * 10**9, "items": 40})
            data["measurement"]["phases"][1]["samples"] = rows_of(rows)
        else:
            data["workloads"]["metadata"]["phases"][1]["samples"] = {"delete": "Delete a tree", "compile": "Compile it"}

    study = made(tmp_path, change, systems=["ext4"])
    (place,) = rates.places(study)
    delete, compiled = rates.table(study, *place).rows  # in the order of the plan
    assert list(delete.values()) == [
        "Delete a tree",
        "ext4",
        1,
        DASH,
        "20.0",
        DASH,
        f"20.0 {DASH} 20.0",
        DASH,
        "2.00 s",
    ]
    assert list(compiled.values())[:5] == ["Compile it", "ext4", 4, "100", "60.0"]
    assert compiled["A client's MB/s"] == f"50.0 {DASH} 50.0"
    assert "the slowest and fastest client" in shown(tmp_path, "rates")


RSYNC = """Number of files: 550 (reg: 500, dir: 50)
File list size: 0
File list generation time: {} seconds
File list transfer time: 0.002 seconds
Total bytes sent: 5,745,875
"""


def copied(data: dict) -> None:
    """A record (or the plan) in which a phase is a run of rsync."""
    if "measurement" in data:
        generation = "0.003" if data["trial"]["filesystem"] == "ext4" else "1,000.500"
        argv = ["rsync", "-a", "--stats", "tree/", "copy/"]
        phase = data["measurement"]["phases"][1]
        phase |= {"operation": "exec", "argv": argv, "output": RSYNC.format(generation), "latency": None}
        phase |= {"wall_ns": 5 * 10**9 if generation == "0.003" else 2 * 10**12}
    else:
        phase = data["workloads"]["metadata"]["phases"][1]
        del phase["operation"]
        phase["run"] = "rsync -a --stats tree/ copy/"


def test_rsync_tells_of_its_list(tmp_path):
    study = made(tmp_path, copied)
    (place,) = lists.places(study)
    own = study.samples.set_index(["label", "name"])["wall_ns"]
    assert (own["ext4", "list-generation"], own["ext4", "list-transfer"]) == (3_000_000, 2_000_000)
    ext4, xfs = lists.table(study, *place).rows
    assert list(ext4.values()) == ["Create files", "ext4", "3.00 ms", "2.00 ms", "5.00 s", "5.00 s", "0.10 %"]
    assert list(xfs.values())[1:3] == ["xfs", "1,000 s"] and xfs["Share of the list"] == "50.0 %"
    text = shown(tmp_path, "lists")
    assert (
        "## Life of a directory tree (metadata, smoke)" in text and "until the first part of the list is there" in text
    )
    # The phase itself is in the tables as any other.
    assert select(study.phases, label="ext4", phase="create")["wall_ns"].tolist() == [5 * 10**9]


def test_repeated_runs_of_rsync_are_runs_as_well(tmp_path):
    def change(data):
        copied(data)
        repeated(data)

    study = made(tmp_path, change)
    (place,) = lists.places(study)
    assert len(lists.table(study, *place).rows) == 2
    assert {"Create files"} <= set(ageing.drift(study, *place)["title"])


def test_cuts_have_a_row_with_all_that_is_counted(study):
    row = study.phases[study.phases["label"] == "ext4"].set_index("phase").loc["remove"]
    assert (row["crash_cut_ns"], row["crash_lost_bytes"], row["crash_recovery_ns"]) == (250_000_000, 8192, 7_000_000)
    assert {key: row[f"crash_{key}"] for key in CHECK} == CHECK
    assert study.phases["crash_cut_ns"].notna().sum() == 2
    assert study.title("metadata", "remove: recovery", "cold") == "Mount after the power cut in remove"
    first = list(power_cuts.table(study, *PLACE).rows[0].values())[1:]
    assert first == ["ext4", 1, "250 ms", "8 KiB", "7.00 ms", "9", "2", "9", "7", "1", "0", "1"]
    assert {row["column"] for row in columns.dictionary() if row["column"].startswith("crash_")} >= {"crash_broken"}


def test_promises_count_in_failed_trials_too(tmp_path):
    def change(data):
        everything(data)
        if "measurement" in data and data["trial"]["filesystem"] == "ext4":
            data["status"], data["reason"] = "failed", "check remove: engine exited with 1: …"

    study = made(tmp_path, change)
    found = power_cuts.facts(study)
    assert found["broken"] == [{"label": "ext4", "promised": 9, "broken": 2, "cuts": 1, "bad_cuts": 1}]
    assert (found["kept"], found["kept_files"], found["kept_cuts"], found["untested"]) == (["xfs"], 9, 1, [])
    assert (found["fewest"], found["unseen"]) == (1, pytest.approx(0.95))  # what a single cut can say
    assert [row["ns"] for row in found["recovery"]] == [7_000_000, 7_000_000] and found["left"] == []
    assert [row["File system"] for row in power_cuts.table(study, *PLACE).rows] == ["ext4", "xfs"]
    assert found["failed"] == []  # a broken promise is told as one
    study = dataclasses.replace(study, phases=study.phases.assign(crash_broken=0))
    found = power_cuts.facts(study)["failed"]
    assert found == [{"label": "ext4", "number": 1, "of": 1, "reason": "check remove: engine exited with 1: …"}]


def test_files_that_were_never_flushed_count_apart(study):
    def with_(**columns) -> dict:
        return power_cuts.facts(dataclasses.replace(study, phases=study.phases.assign(**columns)))

    assert with_(crash_broken=0)["broken"] == [] and with_(crash_broken=0)["kept"] == ["ext4", "xfs"]
    found = with_(crash_promised=0)
    assert (found["kept"], found["broken"], found["untested"]) == ([], [], ["ext4", "xfs"])
    assert (found["fewest"], found["unseen"]) == (0, None)
    assert {row["label"]: row["share"] for row in found["left"]} == {"ext4": 7 / 9, "xfs": 1.0}


# ---- scaling ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grown(tmp_path_factory) -> Path:
    """Three rounds of a workload with 2,000 and 4,000 files; xfs at one size only."""
    place = tmp_path_factory.mktemp("grown")

    def change(data):
        if data.get("measurement") and data["trial"]["workload"] == "metadata@x2":
            for phase in data["measurement"]["phases"]:
                phase["wall_ns"] *= 2
        elif "trials" in data:
            data["trials"] = [t for t in data["trials"] if (t["filesystem"], t["workload"]) != ("xfs", "metadata@x2")]

    made(place, change, rounds=3, workloads=["metadata", "metadata@x2"])
    return place


def test_scaling_has_exponents_for_what_has_several_sizes(grown):
    study = run.open_study(str(grown / "tables"))
    assert when.several_sizes(read_plan(grown / "plan.json"))
    ((place, own),) = scaling.measurements(study).items()
    assert place == (PLACE[0], "metadata")
    rows = scaling.table(*place, own).rows
    assert len(rows) == 9 and {row["File system"] for row in rows} == {"ext4"} and {row["Sizes"] for row in rows} == {2}
    assert all(0.9 < float(row["Exponent"]) < 1.1 for row in rows)
    found = scaling.facts(own)
    assert (found["unit"], found["sizes"]) == ("files", [2000, 4000])
    assert found["least"]["exponent"] <= found["most"]["exponent"]
    figures = scaling.figures(*place, own, beyond=100)
    assert [len(figure.plot.axes) for figure in figures] == [6, 3]
    assert "to 100 times the largest size." in figures[0].caption  # two sizes leave no interval
    text = shown(grown, "scaling")
    assert "With 2,000 and 4,000 files the time grows with an exponent (1: in proportion) between that of" in text
    assert "cannot be tested: that needs three sizes and two rounds" in text


# ---- cores -----------------------------------------------------------------------------------------------------------


def several_workers(data: dict) -> None:
    """A record (or the plan) whose sizes are workers: two do twice as much, XFS in 1.6 times the time."""
    two = data.get("trial", {}).get("workload") == "metadata@x2"
    if two and data["measurement"]:
        for phase in data["measurement"]["phases"]:
            phase["items"] = 2 * phase["items"]
            phase["wall_ns"] = round(phase["wall_ns"] * (1.6 if data["trial"]["filesystem"] == "xfs" else 1.0))
    for workers, entry in enumerate(data.get("workloads", {}).values(), 1):
        entry |= {"size": "workers", "scale": entry["scale"] | {"workers": workers}}


def test_more_workers_have_rates_and_a_speed_up(tmp_path):
    study = made(tmp_path, several_workers, rounds=3, workloads=["metadata", "metadata@x2"])
    assert when.several_workers(study.plan) and not when.several_sizes(study.plan)
    ((curve, own),) = cores.curves(study).items()
    assert (curve.by, curve.lab, curve.workload) == ("workers", "exact", "metadata")
    last = own[own["n"] == 2].groupby("label")[["speedup", "efficiency"]].mean()
    assert last.loc["ext4"].tolist() == pytest.approx([2, 1], rel=0.05)
    assert last.loc["xfs"].tolist() == pytest.approx([1.25, 0.625], rel=0.05)
    found = cores.facts(own)
    assert (found["fewest"], found["most"], found["best"][0], found["worst"][0]) == (1, 2, "ext4", "xfs")
    rows = cores.table(curve, own).rows
    assert len(rows) == 2 * 9 and {"Items/s with 1", "Speed-up with 2", "Efficiency with 2"} <= set(rows[0])
    rate, efficiency = cores.figures(curve, own)
    assert len(rate.plot.axes) == len(efficiency.plot.axes) == 9
    text = shown(tmp_path, "cores")
    assert f"{study.plan.workloads['metadata'].title}: more workers." in text.replace("*", "")
    assert "From 1 to 2 workers the rates grow" in text and "the most on ext4 (2.0" in text
    assert "memory behind one lock" not in text  # an SSD has a bandwidth
    (known,) = study.plan.devices.values()
    for change, limited in (({"bandwidth_mb_s": 0}, True), ({"bandwidth_mb_s": 500}, False)):
        devices = {curve.profile: known.model_copy(update=change)}
        one = dataclasses.replace(study, plan=study.plan.model_copy(update={"devices": devices}))
        assert cores.one_lock(one, curve) == limited


def test_labs_that_differ_in_cores_only_are_one_curve():
    """With a worker on each core; several workers in one lab are a curve of their own."""
    names = ["v2-0.5ns", "v2-0.5ns-2c", "v2-0.5ns-4c", "v1-1ns"]
    labs = {f"exact@{name}": SimpleNamespace(processor=CATALOG.get(Processor, name)) for name in names}
    sized = {n: SimpleNamespace(size="workers", parameters={"workers": n}) for n in (1, 2, 4)}
    plan = SimpleNamespace(labs=labs, workloads={f"cores@{n}": entry for n, entry in sized.items()})
    known = {"status": "ok", "stack": "single", "profile": "ram", "scale": "smoke", "cache": "warm", "phase": "create"}
    known |= {"operation": "exec", "label": "ext4", "role": "contender", "position": 0, "round": 1}
    measured = [("v2-0.5ns", 1, 100), ("v2-0.5ns-2c", 2, 125), ("v2-0.5ns-4c", 4, 200), ("v2-0.5ns-4c", 1, 90)]
    rows = [
        known | {"lab": f"exact@{name}", "workload": f"cores@{n}", "items": 10 * n, "wall_ns": time}
        for name, n, time in [*measured, ("v1-1ns", 1, 300)]
    ]
    found = curves(pd.DataFrame(rows), plan)
    assert [(curve.by, curve.lab) for curve in found] == [("cores", "exact@v2-0.5ns"), ("workers", "exact@v2-0.5ns-4c")]
    cores_of, workers_of = found.values()
    assert cores_of["n"].tolist() == [1, 2, 4] and cores_of["speedup"].tolist() == pytest.approx([1, 1.6, 2])
    assert cores_of["efficiency"].tolist() == pytest.approx([1, 0.8, 0.5])
    assert workers_of["n"].tolist() == [1, 4] and workers_of["speedup"].tolist() == pytest.approx([1, 1.8])


# ---- modelled disks --------------------------------------------------------------------------------------------------


def disk_study(measured: dict[str, float]) -> SimpleNamespace:
    """Four jobs on a disk, a device that answers at once (5 µs of software) and one that takes 80 µs (7 µs)."""
    known = {"lab": "exact", "stack": "single", "workload": "device", "scale": "smoke", "status": "ok", "cache": "warm"}
    rows = []
    for name, us in measured.items():
        syncs = 2 if disk.ACCESSES[name].sync else 1
        for where, time in (("mine", us), ("ram", 5), ("reference", 80 * syncs + 7)):
            rows += [
                known | {"profile": where, "name": name, "items": 1000, "wall_ns": round(1e6 * time * factor)}
                for factor in (0.99, 1.01)
            ]
    constant = dict.fromkeys(["read_us", "write_us", "flush_us"], 80) | dict.fromkeys(["read_mb_s", "link_mb_s"], 1e6)
    data = {"mine": profile(SOLID) | {"model": "A disk."}, "reference": profile(SOLID, **constant)}
    devices = {name: validate(value, Device, name) for name, value in data.items()} | {"ram": device()}
    entry = PlannedWorkload(title="x", phases=[], scale=Scale(device_mib=16384))
    plan = Plan.model_construct(devices=devices, workloads={"device": entry})
    samples = pd.DataFrame(rows)
    return SimpleNamespace(
        plan=plan,
        samples=samples,
        trials=samples,
        title=lambda workload, phase, cache: f"job {phase}",
        differing=lambda **parts: "",
    )


WHERE = Setting("exact", "single", "mine"), Load("device", "smoke")


def test_measured_is_compared_with_disk_and_software():
    told = disk_study({"random-read-1": 117.24, "random-read-32": 30, "sync-random": 535, "write-cached": 28})
    found = comparison(told, *WHERE).set_index("name")
    assert found.loc["random-read-1", "expected"] == pytest.approx(117_240, rel=1e-4)  # 7 µs of software are added
    assert found.loc["random-read-32", "expected"] == pytest.approx(25_000)  # 5 µs of software are hidden
    assert found.loc["random-read-32", "ratio"] == pytest.approx(1.2)
    assert found.loc["sync-random", "ratio"] == pytest.approx(1.0, rel=1e-4)
    assert found["compared"].all()
    facts = disks.facts(found)
    assert (facts["jobs"], facts["compared"], facts["inside"]) == (4, 4, 2)
    assert facts["outside"] == ["job random-read-32", "job write-cached"]
    both = pd.concat([comparison(told, *WHERE)] * 2)  # as of two disks: numbers of rows come twice
    assert disks.facts(both)["compared"] == 8 and disks.facts(both)["worst"]["title"] == facts["worst"]["title"]
    (figure,) = disks.figures(told, *WHERE, comparison(told, *WHERE))  # a solid disk has no seek curve
    assert "<svg" in plots.svg(figure.plot) and figure.alt.startswith("4 jobs of fio. The ratio farthest from 1 is")
    assert disks.table(*WHERE, comparison(told, *WHERE)).rows[0]["Software"] == "7.00 µs"


def test_the_notebook_compares_every_disk_with_its_model(folder, monkeypatch):
    told = disk_study({"random-read-1": 117.24, "random-read-32": 30, "sync-random": 535, "write-cached": 28})
    monkeypatch.setattr(reprofs, "open", lambda study: told)
    text = shown(folder, "disks")
    assert "**No: only 2 of 4 comparisons of a modelled disk with its model are within 3 %.**" in text
    assert "Of 4 jobs that the disk decides, 2 are within 3 % of the model; not so: job random-read-32 and job" in text
    assert "## a (mine)" in text and "A disk. Where its figures come from:\n\n- b" in text


def test_a_rotating_disk_has_a_seek_curve_and_zones():
    drive = Catalog().get(Device, "hdd-7200").drive
    seeks, zones = disks.geometry(drive).axes
    marks = sorted(tuple(line.get_xydata()[0]) for line in seeks.lines if line.get_marker() == "o")
    assert [y for _, y in marks] == [drive.track_to_track_ms, drive.average_seek_ms, drive.full_stroke_ms]
    assert (marks[0][0], marks[-1][0]) == (0, 100)
    (steps,) = zones.patches
    assert len(steps.get_data().values) == drive.zones


def test_the_overview_has_every_ratio():
    told = disk_study({"random-read-1": 117.24, "random-read-32": 30, "sync-random": 535})
    assert list(disks.compared(told)) == [WHERE]
    assert [row["mine"] for row in disks.overview(told, disks.compared(told)).rows] == ["1.000", "1.200", "1.000"]
    told.plan.devices.pop("mine")
    assert disks.compared(told) == {} and disks.overview(told, {}).rows == []


def test_what_the_processor_limits_is_not_compared():
    told = disk_study({"random-read-32": 30})
    told.samples.loc[told.samples["profile"] == "ram", "wall_ns"] *= 5  # 25 µs of software, as long as the disk takes
    found = comparison(told, *WHERE)
    assert not found["compared"].any()
    assert disks.facts(found)["worst"] is None
    assert disks.table(*WHERE, found).rows[0]["From"] == "bound by the processor"
    assert disks.overview(told, {WHERE: found}).rows[0]["mine"] == DASH
    (figure,) = disks.figures(told, *WHERE, found)
    assert "not compared" in [text.get_text() for text in figure.plot.axes[1].texts]


def test_other_settings_have_nothing_to_compare():
    told = disk_study({"random-read-1": 117})
    assert comparison(told, WHERE[0]._replace(profile="ram"), WHERE[1]).empty
    assert comparison(told, WHERE[0], Load("metadata", "smoke")).empty


# ---- figures of samples ----------------------------------------------------------------------------------------------


def rings(axes) -> list[tuple]:
    """Places of the marks that are rings."""
    found = [line.get_xydata() for line in axes.lines if line.get_marker() == "o" and line.get_linestyle() == "None"]
    return [tuple(point) for points in found for point in points]


def test_fill_marks_the_dip_where_it_is():
    times = [1, 1, 4, 1, 1, 1]
    figure = fill.filling(table(filling(times) + filling([2, 2, 2, 2, 2, 2], label="xfs+default")))
    first, second = figure.axes
    assert rings(first) == [(60.0, pytest.approx(1000 / 4e9 * 1e3))]  # third file of 1,000 in a capacity of 5,000
    assert rings(second) == []
    assert "1 dip" in first.get_title("right") and "no dips" in second.get_title("right")
    assert (first.get_title("left"), second.get_title("left")) == ("ext4+default", "xfs+default")
    crosses = [line.get_xdata()[0] for line in first.lines if line.get_marker() == "x"]
    assert crosses == [pytest.approx(104)]  # 5,200 bytes of content: a file system may hold more than it says
    assert first.get_xlim()[1] > 104
    written = plots.svg(figure)
    assert "currentColor" in written
    again = fill.filling(table(filling(times) + filling([2, 2, 2, 2, 2, 2], label="xfs+default")))
    assert plots.svg(again) == written


def test_fill_without_capacity_is_in_gib():
    rows = [row for row in filling([1, 1, 1]) if row.get("name") != "capacity"]
    assert fill.filling(table(rows)).get_supxlabel() == "written, GiB"


def test_exceedance_is_the_share_of_files_that_reach_a_rate():
    rows = [{"start_ns": i, "wall_ns": 10**9, "bytes": i * 125_000_000} for i in (1, 2, 3, 4)]  # 1 to 4 Gbit/s
    (axes,) = fill.exceedance(table(rows)).axes
    (line,) = [line for line in axes.lines if len(line.get_xdata()) > 2]
    x, y = line.get_xdata(), line.get_ydata()
    for rate, share in ((0.5, 1), (1.5, 0.75), (2.5, 0.5), (3.5, 0.25)):
        assert y[np.flatnonzero(x <= rate)[-1]] == pytest.approx(share)
    assert [text.get_text() for text in axes.texts] == ["1 Gbit/s", "2 Gbit/s", "4 Gbit/s"]  # 8 is far away


def test_surface_has_every_rate_and_hatches_what_fits():
    read = [row for row in swept() if row["name"] == "read"]
    figure = sweep.surface(table(read), memory_bytes=12 << 30)
    panel = figure.axes[0]
    hatched = [patch for patch in panel.patches if patch.get_hatch()]
    assert {patch.get_x() for patch in hatched} == {0.0} and len(hatched) == 2  # 10 GiB of 10 and 50, two records
    assert [label.get_text() for label in panel.get_xticklabels()] == ["10 G", "50 G"]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["4 K", "1 M"]
    assert [text.get_text() for text in panel.texts][:4] == ["200,000", "100,000"] * 2
    direct = sweep.surface(table([row | {"name": "direct-read"} for row in read]), memory_bytes=12 << 30)
    assert not [patch for axes in direct.axes for patch in axes.patches if patch.get_hatch()]
    whole = sweep.surface(table(swept() + swept(label="xfs+default")))
    assert "xfs+default" in [text.get_text() for axes in whole.axes for text in axes.texts]
    assert not [patch for axes in whole.axes for patch in axes.patches if patch.get_hatch()]


def test_records_have_a_line_for_each_file_system_and_a_panel_for_each_size():
    figure = sweep.lines(table(swept() + swept(label="xfs+default")))
    assert len(figure.axes) == 8  # four operations, two sizes
    read = figure.axes[2]
    assert read.get_title("left") == "read, 10 G" and len(read.lines) == 2
    assert read.lines[0].get_xydata() == pytest.approx(np.array([(4096, 200_000), (1 << 20, 200_000)]))
    assert [label.get_text() for label in figure.axes[6].get_xticklabels()] == ["4 K", "1 M"]  # below the lowest


def test_windows_show_means_reader_and_recovery():
    (axes,) = windows.over_time(table(three_windows())).axes
    assert "0.31 of its rate" in axes.get_title("right") and "recovered after 8.0 s" in axes.get_title("right")
    bars = [line for line in axes.lines if line.get_linestyle() == "-"]
    assert [bar.get_ydata()[0] * 1e6 for bar in bars] == [pytest.approx(rate) for rate in (100, 25, 62.5)]
    steps, shade = sorted(axes.patches, key=lambda patch: hasattr(patch, "get_width"))
    assert set(np.round(steps.get_data().values * 1e6, 6)) == {25}  # 50 bytes in 2 s, whatever the steps
    assert (shade.get_x(), shade.get_x() + shade.get_width()) == (10, 50)


def test_clients_are_in_the_order_in_which_they_finish():
    late = 7 * 10**9  # a program's earlier phases: time counts from the first start of this one
    rows = client_rows([(late, 3 * 10**9), (late + 10**9, 10**9), (late, 5 * 10**9)])
    figure = clients.finish(rows)
    (axes,) = figure.axes
    (line,) = axes.lines
    assert list(line.get_xdata()) == [1, 2, 3]
    assert list(line.get_ydata()) == [2, 3, 5]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ext4"]


def test_scaling_continues_the_law():
    rows = [{"label": "x", "names": n, "wall_ns": 1000 * n} for n in (10, 100, 1000)]
    rows.append({"label": "lone", "names": 10, "wall_ns": 5000})
    figure = scaling.growth(pd.DataFrame(rows), beyond=10)
    (axes,) = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x", "lone"]
    assert max(line.get_xdata().max() for line in axes.lines if len(line.get_xdata())) == pytest.approx(10_000)


@pytest.mark.wide
def test_page_one_says_what_there_is_instead_of_a_total(tmp_path):
    """Of one process there is a sum, whatever its command times; of what ran at once and of means there is none."""
    one = {"name": "one", "start_ns": 0, "wall_ns": 4 * 10**8}
    two = {"name": "two", "start_ns": 4 * 10**8, "wall_ns": 10**8}
    samples = {
        "in-turn": [one, two],
        "at-once": [one, two | {"start_ns": 1}],
        "repeated": [one, two, one | {"iteration": 1, "start_ns": 5 * 10**8}],
    }

    def change(data: dict, kind: str) -> None:
        if "measurement" in data:
            data["measurement"]["phases"][0]["samples"] = rows_of(samples[kind])
        else:
            data["workloads"]["metadata"]["phases"][0]["samples"] = {"one": "One", "two": "Two"}

    said = {}
    for kind in samples:
        study = made(tmp_path / kind, lambda data, kind=kind: change(data, kind), rounds=2)
        (setting,) = study.settings
        said[kind] = shown(tmp_path / kind, "answer")
        title = study.plan.workloads["metadata"].title
        costs, others = answer.costs(study, setting), answer.without_total(study, setting)
        assert [one["title"] for one in (costs if kind == "in-turn" else others)] == [title]
        assert not (others if kind == "in-turn" else costs)
    assert "The time of all operations of a workload together" in said["in-turn"]
    assert "no total" not in said["in-turn"] and "is the cheapest" in said["in-turn"]
    for kind, why in (("at-once", "parts of it run at the same time"), ("repeated", "a command repeats what is timed")):
        assert f"**{title}**: no total, for {why}; its operations are compared one by one." in said[kind]
        assert "The time of all operations of a workload together" not in said[kind]


def test_nothing_to_draw_is_said():
    nothing = table(filling([1, 1])).iloc[:0]
    for draw in (fill.filling, fill.exceedance, sweep.surface, windows.over_time, clients.finish, scaling.growth):
        with pytest.raises(ValueError, match="no samples"):
            draw(nothing)


def test_only_what_hosts_of_one_machine_measured_has_a_limit(study):
    assert study.limit == ""
    ext4, exact = study.plan.filesystems["ext4"], study.plan.labs["exact"]
    hosted = {"nfs": ext4.model_copy(update={"hosts": PlannedHosts(servers=1, clients=1)}), "ext4": ext4}
    one = CATALOG.get(Processor, "v2-0.5ns")
    several = one.model_copy(update={"cores": 2})
    for processor, words in ((one, "one processor"), (several, "core of its own"), (None, "the processors")):
        lab = exact.model_copy(update={"processor": processor})
        plan = study.plan.model_copy(update={"filesystems": hosted, "labs": {"any": lab}})
        assert words in dataclasses.replace(study, plan=plan).limit
    # As many cores as servers leave none to the clients.
    hosted["nfs"] = ext4.model_copy(update={"hosts": PlannedHosts(servers=2, clients=1)})
    lab = exact.model_copy(update={"processor": several})
    plan = study.plan.model_copy(update={"filesystems": hosted, "labs": {"any": lab}})
    assert "share the processors" in dataclasses.replace(study, plan=plan).limit


def test_the_table_of_hosts_says_whose_the_processors_are(study):
    one = CATALOG.get(Processor, "v2-0.5ns")
    four, exact = one.model_copy(update={"cores": 4}), study.plan.labs["exact"]
    processors = {"a": one, "b": four, "c": None}
    labs = {name: exact.model_copy(update={"processor": processor}) for name, processor in processors.items()}
    ext4 = study.plan.filesystems["ext4"]
    systems = {
        f"on{count}": ext4.model_copy(update={"hosts": PlannedHosts(servers=count, clients=6)}) for count in (3, 4)
    }
    trials = pd.DataFrame([(lab, name) for lab in "abc" for name in systems], columns=["lab", "filesystem"])
    plan = study.plan.model_copy(update={"filesystems": systems, "labs": labs})
    told = methods.hosts(SimpleNamespace(plan=plan, trials=trials)).rows
    whose = [row["Processors"] for row in told]
    assert whose[:4] == ["1, for all", "1, for all", "one for each server, 1 for the clients", "4, for all"]
    assert whose[4:] == ["those of the machine, for all"] * 2 and told[0]["Servers"] == "3"
    assert methods.hosts(SimpleNamespace(plan=plan.model_copy(update={"filesystems": {}}), trials=trials)) is None


def test_the_table_of_networks_has_their_figures_and_what_their_queues_counted():
    lan = Network(title="a switch", rate_mbit=1000, delay_us=10, queue_frames=340, sources=["s"])
    free = lan.model_copy(update={"rate_mbit": 0, "delay_us": 0})
    trials = [("v3@lan", 5000, 2), ("v3@lan", 6000, 0), ("v3@free", None, None), ("default", None, None)]
    study = SimpleNamespace(plan=Plan.model_construct(networks={"lan": lan, "free": free}))
    study.trials = pd.DataFrame(trials, columns=["variant", "network_frames", "network_dropped"])
    shaped, unshaped = (list(row.values()) for row in methods.networks(study).rows)
    head = ["lan", "a switch", "1,000 Mbit/s", "10 µs", "0 %", "340 frames", "1,500 bytes"]
    assert shaped == [*head, "5,000 to 6,000", "0 to 2"]
    assert unshaped[2] == "not limited" and unshaped[-2:] == [DASH, DASH]
    study.plan = Plan.model_construct()
    assert methods.networks(study) is None
