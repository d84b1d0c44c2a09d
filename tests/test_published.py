"""A study beside published numbers: ranks, ratios, laws and sentences against worked examples; the files of data."""

import functools
import itertools
import json
import math
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import make
import nbformat
import numpy as np
import pandas as pd
import pypandoc
import pytest
import reprofs as package
import run
import study2015
from conftest import ROOT
from helpers import CATALOG, Late
from reprofs import cli
from reprofs.data.keys import Phase, Place
from reprofs.errors import UserError
from reprofs.plan.published import CLAIMS as KINDS
from reprofs.plan.published import Published
from reprofs.plan.read import validate
from reprofs.plan.study import Study as StudyFile
from reprofs.report import when
from reprofs.report.sentences import published as sentences
from reprofs.stats.published import claims, numbers, ranks
from reprofs.stats.published.comparison import Comparison
from reprofs.stats.published.growth import Growth
from reprofs.stats.published.orders import Orders
from reprofs.stats.published.sides import Sides
from reprofs.stats.published.values import Ground
from reprofs.stats.published.verdicts import Claims, Judged
from reprofs.stats.study import Study
from reprofs.trial.planning import make_plan

stats = Late("scipy.stats")

pytestmark = pytest.mark.xdist_group("published")  # one worker: the study is made once

NOTEBOOK = "published"


planned = functools.cache(lambda name: make_plan(name, CATALOG))


def study(name: str, seconds, skip=(), rounds: int = 3) -> Study:
    """The study of that name as if it had run: `seconds` of (label, stack, phase, cache, size, round); None is no row.

    `skip` are labels whose trials failed.
    """
    plan = planned(name)
    size = plan.published.size
    rows = []
    for trial in plan.trials:
        label = trial.filesystem + (f"+{trial.full_variant}" if trial.variant != "default" else "")
        if trial.round > rounds:
            continue
        entry, names = plan.workloads[trial.workload], trial.names()
        for position, phase in enumerate(entry.phases):
            key = (label, trial.stack, phase.name, phase.cache, entry.parameters.get(size), trial.round)
            time = seconds(*key)
            if time is not None:
                keys = ("lab", "stack", "profile", "workload", "scale", "round")
                rows.append(
                    {key: names[key] for key in keys}
                    | {"trial": trial.id, "label": label, "role": "contender", "position": position}
                    | {"status": "failed" if label in skip else "ok", "operation": "exec", "phase": phase.name}
                    | {"cache": phase.cache, "wall_ns": round(time * 1e9)}
                    | {"user_ns": round(time * 0.2e9), "system_ns": round(time * 0.1e9), "processor_busy": 0.3}
                )
    phases = pd.DataFrame(rows).convert_dtypes()
    environment = {"values": {"lab.kernel": {"6.12.0": 1}}}
    nothing = pd.DataFrame()
    return Study(nothing, phases, *[nothing] * 7, plan, environment, {}, folder=Path("unused"))


NUMBERS = numbers.load("datalad-2015")
DATALAD = numbers.times(NUMBERS)
SMALL = DATALAD[DATALAD["size"] == 2000].set_index(["stack", "label", "phase", "cache"])["median_s"]


def as_published(label, stack, phase, cache, size, number, factor=0.5, bend=1.0):
    """The published time, half of it, a percent apart from round to round; Btrfs' compression has none."""
    told = SMALL.get(
        (stack, label.replace("btrfs+lzo", "btrfs+none").replace("btrfs+zlib", "btrfs+none"), phase, cache)
    )
    if told is None:
        return 1.0
    more = {"btrfs+lzo": 1.2, "btrfs+zlib": 1.3}.get(label, 1)
    return factor * more * told**bend * (1 + 0.001 * number + 0.0001 * len(label))


@pytest.fixture(scope="module")
def same():
    return study("datalad-2015", as_published)


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Executes the notebook on a study and returns what it shows in the body and in the appendix.

    How its figures look is seen by the last test of this module only: that takes the longest.
    """

    def execute(found: Study) -> tuple[str, str]:
        monkeypatch.setattr(package, "open", lambda name: found, raising=False)
        (tmp_path / "plan.json").write_text("{}")
        return said(run.execute(tmp_path, [NOTEBOOK]))

    with run.without_pictures():
        yield execute


def said(folder: Path) -> tuple[str, str]:
    """Markdown and text of the body and of the appendix of the executed notebook in a folder."""
    parts = {False: "", True: ""}
    for cell in nbformat.read(folder / f"{NOTEBOOK}.ipynb", as_version=4).cells:
        for output in cell.get("outputs", []):
            shown = output.data.get("text/markdown") or output.data.get("text/plain", "")
            parts["appendix" in cell.metadata.get("tags", [])] += shown + "\n\n"
    return parts[False], parts[True]


PLACE = Place("exact@v2-0.5ns", "hdd-st4000nm0033", "git-annex", "laptop")
GROUND = Ground("exact@v2-0.5ns", "hdd-st4000nm0033")


def orders_of(found: Study, place: Place = PLACE) -> Orders:
    return Orders(Sides(found), place)


def judged(found: Study, ground: Ground = GROUND) -> dict[str, Judged]:
    return {one.claim.id: one for one in Claims(Sides(found), ground).judged}


def said_of(found: Study) -> dict[str, str]:
    return {name: one.verdict.word for name, one in judged(found).items()}


# ---- the files of data -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CATALOG.paths(Published))
def test_every_file_is_whole_and_its_claims_can_be_tested(name):
    table, about = numbers.load(name), CATALOG.get(Published, name)
    for claim in about.claims:
        ratios, _ = claims.by_its_numbers(table, claim)  # every value it names is one cell, or none
        assert about.size_of(claim), f"{claim.id}: how large was that?"
        assert claim.kind != "ratio" or claim.value or not math.isnan(ratios[0]), claim.id
        assert len({str(pair) for pair in claims.comparisons(claim)}) == len(claims.comparisons(claim)), claim.id
    for entry in about.differs:
        entry.here.format(kernel="", sizes="", rounds="", lab="", profile="")


def test_bibliography_has_every_published_study():
    command = [pypandoc.get_pandoc_path(), "-f", "biblatex", "-t", "csljson", str(ROOT / "data/references.bib")]
    found = {
        entry["id"]: entry for entry in json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    }
    assert set(CATALOG.paths(Published)) <= set(found)
    assert all(entry.get("author") and entry.get("title") and entry.get("issued") for entry in found.values())


def test_there_are_claims_of_every_kind():
    files = [CATALOG.get(Published, name) for name in CATALOG.paths(Published)]
    assert {claim.kind for about in files for claim in about.claims} == set(KINDS)


# What was counted by hand in the sources of these; others need no count.
CLAIMS = {
    "datalad-2015": 32,
    "metadata-2019": 19,
    "plug-2020": 17,
    "pulls-2024": 11,
    "small-files-2017": 33,
    "streaming-2012": 33,
}
COUNTS = {  # place in the source: rows, and printed or computed numbers; of each study as its tables have them
    "datalad-2015": {
        # Configurations times commands, cold and warm: medians; of five also deviation, quartiles, least and largest.
        "small repository": (19 * (11 + 4), (19 + 5 * 5) * (11 + 4)),
        "large repository": (10 * (15 + 7), (10 + 5 * 5) * (15 + 7)),
        "notebook, means": (7, 7),
        "notebook, ratings": (18 + 7, 25),
        "comment in the script": (19 + 20, 39),
    },
    "streaming-2012": {
        "table 2": (6 * 2, 12),
        **{f"table {number}": (3, 3) for number in (3, 4, 5, 6)},
        "table 7": (4, 8),  # mean and standard deviation
        "section 2.1": (4, 4),
        **{f"section 2.{number}": (1, 1) for number in (2, 3)},
        "section 2.4": (2, 4),  # a rate, and how many files are between two dips
    },
    "plug-2020": {
        "runs": (13 * 3 + 2, 41),  # elapsed, user, system; find was also counted twice
        "closing summary": (8, 8),
        "text between the runs": (3, 3),
        "told, not timed": (4, 4),
    },
    # Mean, deviation, least and largest of five rows; five middle iterations and one duration recovered from them.
    "metadata-2019": {f"mdtest, {name}": (5 + 5 + 1, 5 * 4 + 5 + 1) for name in ("BeeGFS", "Avere", "NFS")},
    "small-files-2017": {},  # charts alone: relations, see RELATIONS
}
# Of the source without numbers, what its text tells of: section -> claims.
RELATIONS = {
    "round 1, one client": 5,
    "round 1, 30 clients": 11,
    "round 2, one client": 7,
    "round 2, 30 clients": 8,
    "round 2, text": 2,
}


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_of_a_source_is_there(name):
    assert len(CATALOG.get(Published, name).claims) == CLAIMS[name]


def test_the_source_without_numbers_has_all_relations():
    assert not Path(numbers.FOLDER, "small-files-2017.csv").exists()
    places = [claim.where for claim in CATALOG.get(Published, "small-files-2017").claims]
    assert {where: places.count(where) for where in places} == RELATIONS


@pytest.mark.parametrize("name", COUNTS)
def test_every_table_of_a_source_has_all_of_its_numbers(name):
    table = numbers.load(name)
    place = table["place"]
    if name == "plug-2020":
        place = place.where(place.isin(COUNTS[name]), "runs")
    printed = table[numbers.NUMBERS].notna().sum(axis=1)
    for where, (rows, values) in COUNTS[name].items():
        own = place == where
        assert own.sum() == rows, where
        assert printed[own].sum() == values, where
    assert len(table) == sum(rows for rows, _ in COUNTS[name].values())


def test_deviations_and_recovered_iterations_fit_the_printed_ones():
    """mdtest 1.9 divides by n: maximum, minimum and the recovered middle one have the printed mean and deviation."""
    table = numbers.load("metadata-2019")
    wide = table[table["quantity"] == "operations"].set_index(["label", "phase", "statistic"])
    for label, phase in {key[:2] for key in wide.index}:
        row, middle = wide.loc[label, phase, "mean"], wide.loc[label, phase, "middle"]["value"]
        three = [row["min"], middle, row["max"]]
        assert row["min"] <= middle <= row["max"]
        assert np.mean(three) == pytest.approx(row["value"], abs=0.001)
        assert np.std(three) == pytest.approx(row["sd"], abs=0.002)
    assert set(table.loc[table["origin"] == "recovered", "statistic"]) == {"middle", "single"}


def test_several_runs_of_a_cell_are_one_time_and_repeated_numbers_none():
    times = numbers.times(numbers.load("plug-2020")).set_index(["label", "phase", "size"])
    xfs = times.loc["xfs", "extract-many", 497_716_103]
    assert (xfs["n"], xfs["min_s"], xfs["max_s"]) == (2, 42677.118, 43825.915)
    assert xfs["median_s"] == pytest.approx((42677.118 + 43825.915) / 2)
    assert times.loc["ext4", "find", 497_716_103]["median_s"] == 119025.609  # not the 12.1 h of the summary
    assert times.loc["ext4", "extract-one", 448_763_242]["median_s"] == 183 * 3600
    assert {key[0] for key in times.index if key[1] in ("du", "tar")} == {"ext4+no-lazy-init", "xfs"}
    assert numbers.times(numbers.load("streaming-2012")).empty
    none = numbers.load("small-files-2017")
    assert none.empty and numbers.times(none).empty


def test_studies_name_published_numbers_that_meet_theirs():
    studies = {name: CATALOG.get(StudyFile, name).published for name in CATALOG.paths(StudyFile)}
    sized = {name for name, told in studies.items() if told and CATALOG.get(Published, told).size}
    timed = {name for name in sized if len(numbers.times(numbers.load(studies[name])))}
    assert {"arrays-2015", "datalad-2015", "plug-2020", "why-2015"} <= timed
    assert {"streaming", "streaming-disks"} <= sized - timed
    for name in timed:
        assert Sides(study(name, lambda *_: 1.0)).places, name


def test_medians_and_quartiles_are_those_of_the_runs(tmp_path):
    from reprofs.importers import Source, datalad

    names = {"make-repository": "create", "annex-get": "get", "annex-drop": "drop", "du-2": "du-direct"}
    names |= {"annex-direct": "direct", "annex-indirect": "indirect"}
    compared = 0
    for path in study2015.write(tmp_path):
        result = datalad.read(Source(path.name, path))
        own = DATALAD[DATALAD["note"].str.split(";").str[0] == result.facts["configuration"]]
        own = own[own["size"] == (100_000 if "big" in path.name else 2000)]
        for (phase, cache), values in result.facts["series"].items():
            seconds = [value for _, value in values]
            state = "warm" if phase == "make-repository" else cache  # it reads nothing old
            for row in own[(own["phase"] == names.get(phase, phase)) & (own["cache"] == state)].itertuples():
                assert row.n == len(seconds), (path.name, phase)
                assert row.median_s == pytest.approx(np.median(seconds), rel=1e-3), (path.name, phase)
                if not math.isnan(row.q1_s):
                    quartiles = tuple(np.quantile(seconds, [0.25, 0.75]))
                    assert (row.q1_s, row.q3_s) == pytest.approx(quartiles, rel=1e-3), (path.name, phase)
                compared += 1
    assert compared == 26


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns="note"), ["the columns are"]),
        (lambda f: f.assign(value=[1.0, -2.0]), ["line 3", "value is -2.0", "above zero"]),
        (lambda f: f.assign(value=[1.0, "inf"]), ["line 3", "value is inf", "above zero"]),
        (lambda f: f.assign(value=""), ["line 2", "value is empty", "must be a value"]),
        (lambda f: f.assign(n=["many", 3]), ["line 2", "n is many"]),
        (lambda f: f.assign(quantity="speed"), ["line 2", "quantity is speed", "rate"]),
        (lambda f: f.assign(unit=["s", "MB/s"]), ["line 3", "unit is MB/s", "one of s, min, h for this quantity"]),
        (lambda f: f.assign(origin="guessed"), ["line 2", "origin is guessed", "printed"]),
        (lambda f: f.assign(phase="du", value=1.0), ["line 3", "an earlier line has this number of this cell"]),
    ],
)
def test_mistakes_in_a_file_are_told_in_a_sentence(change, words, tmp_path, monkeypatch):
    monkeypatch.setattr(numbers, "FOLDER", tmp_path)
    two = NUMBERS[NUMBERS["cache"] == "cold"].iloc[:2][list(numbers.COLUMNS)]
    change(two).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(UserError) as caught:
        numbers.load("mine")
    assert all(word in str(caught.value) for word in words), caught.value
    with pytest.raises(UserError, match="cannot be read"):
        numbers.load("none")


def test_an_unknown_name_is_told_with_the_nearest(checkout, reprofs, says, edit_yaml):
    edit_yaml(checkout / "config/studies/quick.yaml", lambda s: s.update(published="datalad-2016"))
    says(reprofs("plan", "quick", cwd=checkout), "set of published numbers 'datalad-2016'", "did you mean datalad-2015")


# ---- ranks -----------------------------------------------------------------------------------------------------------


def test_all_relabellings_of_three_by_hand():
    # Ranks 1 2 3 against 1 2 3: rho over the six orders is 1, 0.5, 0.5, -0.5, -0.5, -1.
    rho, null, exact = ranks.relabelled([[1, 2, 3]], [[10, 20, 70]])
    assert rho == pytest.approx([1.0]) and exact
    assert sorted(np.round(null[:, 0], 9)) == [-1, -0.5, -0.5, 0.5, 0.5, 1]


@pytest.mark.parametrize("seed", range(3))
def test_rho_is_spearmans_and_p_the_share_of_permutations(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 5, (2, 6)).astype(float), rng.lognormal(0, 1, (2, 6))  # x has ties
    rho, null, _ = ranks.relabelled(x, y)
    for i in range(2):
        assert rho[i] == pytest.approx(stats.spearmanr(x[i], y[i]).statistic)
        brute = [stats.spearmanr(x[i], list(order)).statistic for order in itertools.permutations(y[i])]
        assert np.mean(np.array(brute) >= rho[i] - 1e-9) == pytest.approx(ranks.share(null[:, i], rho[i]))
    assert null.shape == (720, 2)


def test_values_without_order_correlate_with_nothing_and_many_configurations_are_drawn():
    rho, null, _ = ranks.relabelled([[3, 3, 3]], [[1, 2, 3]])
    assert rho[0] == 0 and not null.any()
    rho, null, exact = ranks.relabelled([range(10)], [range(10)])
    assert not exact and len(null) == ranks.DRAWN + 1
    assert ranks.share(null[:, 0], rho[0]) == pytest.approx(1 / (ranks.DRAWN + 1))


def test_only_configurations_of_the_same_stack_are_exchanged():
    x, y = np.array([[1.0, 2, 3, 4, 5]]), np.array([[1.0, 2, 3, 5, 4]])
    rho, null, exact = ranks.relabelled(x, y, ["md", "zfs", "md", "zfs", "single"])
    swaps = [[0, 1, 2, 3, 4], [2, 1, 0, 3, 4], [0, 3, 2, 1, 4], [2, 3, 0, 1, 4]]
    assert exact and sorted(null[:, 0]) == pytest.approx(
        sorted(stats.spearmanr(x[0], y[0, order]).statistic for order in swaps)
    )
    alone = ranks.relabelled(x, y, list("abcde"))[1]
    assert len(alone) == 1 and ranks.share(alone[:, 0], rho[0]) == 1
    # Too many to count: every drawn one still stays within its stacks.
    groups = ["a"] * 9 + ["b"]
    _, null, exact = ranks.relabelled([[*range(9), 100]], [[*range(9), 100]], groups)
    assert not exact and null.min() > ranks.relabelled([range(10)], [range(10)])[1].min()


def test_pairs_keep_their_level_over_all_operations():
    """Where this study knows no difference, hardly one comparison in twenty names a pair, whichever order it has."""
    rng, found = np.random.default_rng(3), []
    names, steps = list("abcd"), [Phase(f"p{i}", "cold") for i in range(5)]
    index = pd.MultiIndex.from_tuples(steps, names=Phase._fields)
    wide = {"published_ns": pd.DataFrame([[4.0, 3, 2, 1]] * 5, index=index, columns=names)}
    wide["published_error"] = wide["published_ns"] * math.nan
    for _ in range(100):
        rounds = {step: pd.DataFrame(rng.lognormal(0, 0.1, (4, 4)), columns=names) for step in steps}
        found.append(ranks.ordered_pairs(rounds, wide)["shown"])
    assert all(len(shown) == 5 * 6 for shown in found)
    assert sum((shown != 0).any() for shown in found) <= 11


def test_quartiles_tell_which_pairs_have_a_published_order():
    index = pd.MultiIndex.from_tuples([Phase("p", "cold")], names=Phase._fields)
    rounds = {("p", "cold"): pd.DataFrame(np.ones((3, 3)), columns=list("abc"))}
    published_ns = pd.DataFrame([[1.15, 1.05, 1.0]], index=index, columns=list("abc"))

    def pairs(*errors) -> set[str]:
        wide = {"published_ns": published_ns, "published_error": published_ns * 0 + np.array(errors)}
        return {row.slow + row.fast for row in ranks.ordered_pairs(rounds, wide).itertuples()}

    assert pairs(math.nan, math.nan, math.nan) == {"ac"}  # 10 % where nothing is known
    assert pairs(0.01, 0.01, 0.01) == {"ab", "bc", "ac"}  # each more than 1.96 * sqrt(2) %
    assert pairs(0.2, 0.01, 0.01) == {"bc"} and pairs(0.2, 0.2, math.nan) == {"ac"}


# ---- orders and ratios -----------------------------------------------------------------------------------------------


@pytest.mark.wide
def test_the_published_order_is_found_again(same, pages):
    assert Comparison(same).places == list(Comparison(same).orders) == [PLACE] and not Comparison(same).growth
    found = orders_of(same)
    table = found.operations
    # Four of the six configurations are on one stack; each of the others is alone on its own.
    assert len(found.configurations) == 6 and len(found.ranks.null) == 24 and found.ranks.exact and not found.left_out
    assert found.p == pytest.approx(1 / 24) == found.smallest_p and found.rho == pytest.approx(1, abs=0.02)
    assert len(table) == 15 and set(table["verdict"]) == {"same order"}
    assert (table["reversed"] == 0).all() and (table["same"] == table["pairs"]).all()
    assert table["ratio"].to_numpy() == pytest.approx(0.5, rel=0.01)
    assert ((table["low"] < table["ratio"]) & (table["ratio"] < table["high"])).all()
    body, appendix = pages(same)
    assert "15 of 15 operations have the published ranking; 0 have a reversed pair, 0 are undecided." in body
    assert "4.17 % of the 24 exchanges of configurations within their stacks give as much." in body
    own = Claims(Sides(same), GROUND)
    # What another study measured is named with that study.
    assert f"Measured by other studies: 17 of the {len(own.open)} claims not measured here (arrays-2015)." in body
    assert appendix.count("published ranking") == 15 and "2 claims are contradicted by their own" in body


def test_ratings_are_medians_of_ranks_beside_the_printed_ones(same):
    own = orders_of(same)
    found = own.ratings.set_index("name")
    assert set(found["operations"]) == {11} and list(found["own"]) == list(found["published"]) == sorted(found["own"])
    assert found.loc["reiserfs", ["own", "printed"]].tolist() == [0, 1] and found.loc["xfs", "printed"] == 9
    ranks = SMALL.loc[["md-raid6+lvm", "zfs-raidz2", "zfs-mirrors"]].unstack("phase").xs("cold", level="cache")
    six = [
        key for key in ranks.index if key[1] in ("btrfs+none", "ext4+no-lazy-init", "reiserfs", "xfs", "zfs+ashift12")
    ]
    by_hand = {}
    for key in six:
        faster = [sum(ranks.loc[other, phase] < ranks.loc[key, phase] for other in six) for phase in ranks]
        by_hand[key] = np.median(faster)
    assert (
        sorted(by_hand.values()) == sorted(found["published"])
        and by_hand["md-raid6+lvm", "ext4+no-lazy-init"] == found.loc["ext4+no-lazy-init", "published"]
    )


def test_ratings_of_the_opposite_order_and_of_one_configuration():
    opposite = orders_of(study("datalad-2015", lambda *key: as_published(*key, bend=-1.0))).ratings
    assert (opposite["own"] + opposite["published"]).tolist() == [5] * 6
    one = orders_of(study("datalad-2015", as_published, skip=("zfs+ashift12", "reiserfs", "btrfs+none", "xfs")))
    assert one.ratings.empty


def test_ratios_of_one_cell_by_hand(same):
    own = orders_of(same)
    cells = own.cells.set_index(["stack", "label", "phase", "cache"])
    row = cells.loc["md-raid6+lvm", "ext4+no-lazy-init", "get", "cold"]
    told = SMALL["md-raid6+lvm", "ext4+no-lazy-init", "get", "cold"]
    rounds = [0.5 * told * (1 + 0.001 * number + 0.0017) for number in (1, 2, 3)]
    assert row["median_ns"] == pytest.approx(rounds[1] * 1e9)
    assert row["ratio"] == pytest.approx(math.exp(np.mean(np.log(np.array(rounds) / told))))
    reach = 4.302653 * np.log(rounds).std(ddof=1) / math.sqrt(3)
    assert row["high"] == pytest.approx(row["ratio"] * math.exp(reach)) and math.isnan(row["published_error"])
    assert row["published_ns"] == pytest.approx(told * 1e9) and row["published_n"] == 100
    # Half the raw files are known: RAID-Z2's quartiles are, those of ext4 over LVM are not.
    assert math.isnan(row["published_low_ns"])
    known = cells.loc["zfs-raidz2", "zfs+ashift12", "get", "cold"]
    assert not known.isna().any()
    # A median is known to about 1.25 of the runs' standard deviation over the root of their number.
    spread = math.log(known["published_high_ns"] / known["published_low_ns"]) / 1.349
    assert known["published_error"] == pytest.approx(1.2533 * spread / math.sqrt(known["published_n"]), rel=1e-3)
    assert known["high"] / known["ratio"] > row["high"] / row["ratio"]
    assert not (cells.index.get_level_values("label") == "btrfs+lzo").any()


@pytest.mark.wide
def test_the_opposite_order_is_another_order(pages):
    opposite = study("datalad-2015", lambda *key: as_published(*key, bend=-1.0))
    found = orders_of(opposite)
    table = found.operations
    assert set(table["verdict"]) == {"another order"} and found.rho < -0.95 and found.p > 0.99
    assert (table["same"] == 0).all() and (table["reversed"] == table["turned"].map(len)).all()
    get = table[table["phase"] == "get"].iloc[0]
    assert ("ext4+no-lazy-init", "btrfs+none") in get["turned"]  # three times as long, as published
    body, appendix = pages(opposite)
    assert "0 of 15 operations have the published ranking; 15 have a reversed pair" in body
    assert appendix.count("pairs reversed") == 15
    verdicts = said_of(opposite)
    assert verdicts["lzo-clone"] == "at another size"
    verdicts = said_of(study("git-annex-2015", lambda *key: as_published(*key, bend=-1.0)))
    assert {verdicts[name] for name in ("get-ext4", "get-xfs", "btrfs-get", "zfs-slowest-rm")} == {"contradicted"}


@pytest.mark.wide
def test_one_round_confirms_no_pair_and_equal_times_decide_nothing(pages):
    one = study("datalad-2015", as_published, rounds=1)
    table = orders_of(one).operations
    assert (table["same"] == 0).all() and (table["reversed"] == 0).all()
    assert orders_of(one).cells["low"].isna().all()
    assert set(said_of(one).values()) == {"at another size", "not decidable here"}
    small = study("git-annex-2015", as_published, rounds=1)
    assert set(said_of(small).values()) == {"undecided", "not decidable here"}
    flat = study("datalad-2015", lambda *_: 1.0)
    found = orders_of(flat)
    assert set(found.operations["verdict"]) == {"undecided"} and found.p == 1
    assert "15 are undecided." in pages(flat)[0]


@pytest.mark.wide
def test_few_configurations_decide_little_by_ranks_and_the_report_says_so(pages):
    three = study("datalad-2015", as_published, skip=("zfs+ashift12", "reiserfs"))
    found = orders_of(three)
    assert found.configurations == ["btrfs+none", "ext4+no-lazy-init", "xfs"]
    assert found.smallest_p == pytest.approx(1 / 6)
    assert set(found.operations["verdict"]) == {"same order"}  # the rounds decide, whatever ranks can
    assert "No smaller p than 0.17 is possible with so few." in pages(three)[0]
    one = study("datalad-2015", as_published, skip=("zfs+ashift12", "reiserfs", "btrfs+none", "xfs"))
    assert orders_of(one).operations.empty
    body, _ = pages(one)
    assert "Ranking" not in body and "Spearman" not in body and "of configurations with" not in body


@pytest.mark.wide
def test_a_configuration_without_an_operation_is_left_out_and_told(pages):
    def partly(label, stack, phase, *more):
        return None if (label, phase) == ("xfs", "untar") else as_published(label, stack, phase, *more)

    found = study("datalad-2015", partly)
    own = orders_of(found)
    assert len(own.configurations) == 5 and own.left_out == ["xfs"]
    assert "Not ranked, because an operation is missing: xfs." in pages(found)[0]


@pytest.mark.wide
def test_another_size_is_set_beside_the_nearest_and_told(pages):
    large = study("datalad-2015@paper", as_published)
    ((_, own),) = Comparison(large).orders.items()
    assert set(own.cells["published_size"]) == {100_000} and own.size == 100_000
    assert "The verdicts are from" not in pages(large)[0]
    small = study("datalad-2015@smoke", as_published)
    ((_, own),) = Comparison(small).orders.items()
    assert (own.size, own.published_size) == (20, 2000)
    # Half the published time for a hundredth of the files is fifty times the time for each of them.
    assert re.search(r"50 +published ranking", pages(small)[1])


@pytest.mark.wide
def test_claims_by_hand(same):
    small = study("git-annex-2015", as_published)
    own, of_small = (Claims(Sides(one), GROUND) for one in (same, small))
    rows = {one.claim.id: one for one in (*of_small.decided, *own.far)}
    get, lzo = rows["get-ext4"], rows["lzo-clone"]
    assert get.published == [pytest.approx(33.5 / 11, rel=0.001)] and get.verdict == ("reproduced", 2000, "")
    (found,) = get.found
    assert found.ratio == pytest.approx(33.5 / 11, rel=0.01) and found.low < found.ratio < found.high
    assert lzo.published_size == 100_000 and lzo.verdict == ("at another size", 300, "")
    assert lzo.published == [pytest.approx(96.97 / 67.75, rel=0.001)]
    assert lzo.found[0].ratio == pytest.approx(1.2, rel=0.01) and math.isnan(lzo.expected)
    slip = rows["compression-clone"]
    assert sentences.claimed(slip) == "at least 0.769, at most 1 (0.699, 0.642; these contradict it)"
    assert sentences.busy(get) == "30 %"
    busy = replace(small, phases=small.phases.assign(processor_busy=0.25))
    assert sentences.busy(judged(busy)["get-ext4"]) == "25 %"
    # What was published of other stacks, and of 100,000 files only, stays open, with what it would take.
    left = [sentences.needed(own, one) for one in own.open]
    assert "a git-annex that has direct" in left and len(left) == 25
    assert {one.verdict[:2] for one in own.open} == {("not decidable here", 0)}
    assert (len(own.decided), len(own.far), len(own.open), own.slips) == (0, 7, 25, 2)
    assert (len(of_small.decided), len(of_small.far), len(of_small.open)) == (17, 0, 15)


# ---- extrapolated laws -----------------------------------------------------------------------------------------------


def law(exponent_ext4=1.2, bend=0.0):
    """ext4 grows with that exponent, XFS in proportion; a percent apart from round to round."""

    def seconds(label, stack, phase, cache, size, number):
        if size > 128_000:  # in one round only
            return None
        power = exponent_ext4 if label == "ext4" else 1.0
        return 1e-4 * size**power * math.exp(bend * math.log(size / 16000) ** 2) * (1 + 0.01 * number)

    return study("plug-2020", seconds)


GROUND_GROWN = Ground("exact@v2-0.5ns", "hdd-7200")
GROWN = Place("exact@v2-0.5ns", "hdd-7200", "many-inodes", "smoke")


@pytest.mark.wide
def test_a_law_is_extrapolated_to_the_published_hours(pages):
    found = law()
    assert Comparison(found).places[0] == GROWN and GROWN in Comparison(found).growth
    own = Growth(Sides(found), GROWN)
    table = own.laws.set_index(["label", "phase", "published_size"])
    row = table.loc["ext4", "find", 497_716_103]
    assert row["exponent"] == pytest.approx(1.2) and row["last"] == pytest.approx(1.2) and row["n"] == 4
    rounds = np.exp(np.log([1.01, 1.02, 1.03]).mean())
    assert row["expected_ns"] == pytest.approx(1e5 * 497_716_103**1.2 * rounds, rel=0.001)
    assert row["by_last_ns"] == pytest.approx(row["expected_ns"], rel=0.001)
    assert math.isnan(row["expected_low_ns"]) and row["inside"] is None  # decades away
    assert row["published_ns"] == pytest.approx((1983 * 60 + 45.609) * 1e9)
    assert row["factor"] == pytest.approx(row["published_ns"] / row["expected_ns"])
    assert row["decades"] == pytest.approx(math.log10(497_716_103 / row["most"]))
    assert row["fit_p"] > 0.05
    assert len(table) == 12
    body, appendix = pages(found)
    assert "that is no test, because the published sizes are" in body and "prediction interval" not in body + appendix
    assert "0 of 12 power laws are significantly off" in body and "Two scenarios" in appendix


@pytest.mark.wide
def test_the_answer_leaves_out_a_place_without_anything_to_compare(pages):
    found = law()
    comparison = Comparison(found)
    # The second place is tar-to-null, measured on XFS only.
    assert len(comparison.growth) == 1 and [own.operations.empty for own in comparison.orders.values()] == [True]
    body, _ = pages(found)
    assert "Growth: many-inodes" in body and "Ranking" not in body


@pytest.mark.wide
def test_a_published_time_within_half_a_decade_is_inside_or_outside(tmp_path, monkeypatch, pages):
    near = DATA_PLUG[DATA_PLUG["quantity"] == "time"].assign(
        size=300_000, value=1e-4 * 300_000, unit="s", origin="printed"
    )
    near = near.drop_duplicates(["size", *numbers.SUBJECT])[list(numbers.COLUMNS)]
    near.loc[near["label"] == "xfs", "value"] *= 3
    near.to_csv(tmp_path / "plug-2020.csv", index=False)
    monkeypatch.setattr(numbers, "FOLDER", tmp_path)
    rng = np.random.default_rng(6)
    found = study("plug-2020", lambda *key: 1e-4 * key[4] * rng.lognormal(0, 0.02))
    table = Growth(Sides(found), GROWN).laws
    assert (table["expected_low_ns"] < table["expected_ns"]).all()
    assert not table.loc[table["label"] == "xfs", "inside"].any()
    assert table.loc[table["label"] != "xfs", "inside"].mean() > 0.5
    body, _ = pages(found)
    assert "near the measured sizes lie in the 95 % prediction interval." in body and "that is no test" not in body


DATA_PLUG = numbers.load("plug-2020")


@pytest.mark.wide
def test_a_law_that_does_not_fit_is_told(pages):
    bent = law(bend=0.05)
    assert "12 of 12 power laws are significantly off" in pages(bent)[0]
    row = Growth(Sides(bent), GROWN).laws.iloc[0]
    assert row["last"] > row["exponent"] and row["by_last_ns"] > row["expected_ns"]


@pytest.mark.wide
def test_a_ratio_is_extrapolated_too(pages):
    grown = law()
    own = Claims(Sides(grown), GROUND_GROWN)
    rows = {one.claim.id: one for one in own.far}
    ratio = 128_000**0.2  # 10.5: that of find is 46, that of extraction 1.8
    assert [rows[name].found[0].ratio for name in ("find", "extract-many")] == pytest.approx([ratio] * 2, rel=0.001)
    assert rows["find"].expected == pytest.approx(497_716_103**0.2, rel=0.001)
    assert {one.claim.id for one in own.open} >= {"find-12-hours", "find-again", "extract-twice", "one-archive"}
    # So far from the published size nothing is said of the claim, but where it was measured.
    find = rows["find"]
    assert sentences.verdict(find) == "not at comparable scale"
    assert sentences.sizes(find) == "497,716,103 / 128,000"
    assert own.decided == []
    body, _ = pages(grown)
    assert "**This study decides none of 17 published claims**; it measured 11 of them at a size that is" in body
    assert re.search(r"not at comparable scale +11 ", body) and "497,716,103 names; measured: 128,000" in body


def test_one_size_has_no_law(pages):
    def seconds(label, stack, phase, cache, size, number):
        return 1.0 if size == 2000 or phase == "remove" else None

    found = study("plug-2020", seconds)
    assert Growth(Sides(found), GROWN).laws.empty
    assert "Growth:" not in pages(found)[0]


def test_a_claim_measured_at_one_common_size_is_not_extrapolated():
    def seconds(label, stack, phase, cache, size, number):
        return None if (label, phase) == ("xfs", "find") and size < 1_000_000 else 1e-4 * size * (1 + 0.01 * number)

    rows = judged(study("plug-2020", seconds), GROUND_GROWN)
    assert [name for name in ("find", "extract-many", "du", "tar") if math.isnan(rows[name].expected)] == ["find"]


# ---- what is shown ---------------------------------------------------------------------------------------------------


def test_the_table_of_differences_names_this_study(same):
    comparison = Comparison(same)
    assert comparison.ground == GROUND
    rows = sentences.differences(comparison)
    assert any(row["this study"] == "Linux 6.12.0" for row in rows)
    (size,) = comparison.sizes(PLACE)
    assert any(f"{size:,} files" in row["this study"] for row in rows)
    assert not any("{" in value for row in rows for value in row.values())


def test_a_study_without_published_numbers_has_nothing(same):
    plan = same.plan.model_copy(update={"published": None})
    assert when.published(same.plan) and not when.published(plan)
    assert Comparison(replace(same, plan=plan)).places == []


@pytest.mark.wide
def test_a_study_in_which_nothing_completed_says_so(same, pages):
    failed = replace(same, phases=same.phases.assign(status="failed"))
    assert Comparison(failed).places == []
    body, appendix = pages(failed)
    assert "decides none of 32 published claims" in body and "All claims" in appendix
    assert "What differs" not in pages(replace(same, phases=same.phases.iloc[:0]))[0]


ABOUT = {
    "title": "Numbers of a fixture",
    "source": "Nowhere.",
    "numbers": "Medians.",
    "size": "files",
    "claims": [
        {"id": "create", "where": "page 1", "says": "files are created faster on ext4", "kind": "order"}
        | {"at": {"phase": "create", "cache": "warm"}, "of": [{"label": "xfs"}, {"label": "ext4"}], "needs": "both"}
    ],
    "differs": [{"what": "Kernel", "there": "none", "here": "Linux {kernel}", "follows": "Nothing."}],
}


def told(words: list[str]) -> None:
    """Runs a command in this process."""
    arguments = cli.parser().parse_args(words)
    arguments.run(arguments)


def test_the_notebook_belongs_to_the_report_of_a_study_with_published_numbers(tmp_path, monkeypatch, capsys):
    """From records, through tables on the disk."""
    path = make.make(tmp_path, systems=["ext4", "xfs", "btrfs", "jfs", "tmpfs"], workloads=["metadata"], failures={})
    plan = json.loads(path.read_text())
    assert NOTEBOOK not in run.names_of(tmp_path)
    plan["study"]["published"] = "fixture"
    plan["published"] = validate(ABOUT, Published, "fixture").as_json()
    path.write_text(json.dumps(plan))
    assert NOTEBOOK in run.names_of(tmp_path)
    rows = [
        {"place": "page 1", "size": 1000, "stack": "single", "label": label, "phase": phase, "cache": cache, "n": 5}
        | {"quantity": "time", "unit": "s", "statistic": "median", "value": 1.0 + i + j, "origin": "printed"}
        for i, label in enumerate(("ext4", "xfs", "jfs", "btrfs+none", "tmpfs"))
        for j, (phase, cache) in enumerate((("create", "warm"), ("stat", "cold"), ("remove", "warm")))
    ]
    pd.DataFrame(rows, columns=list(numbers.COLUMNS)).to_csv(tmp_path / "fixture.csv", index=False)
    monkeypatch.setattr(numbers, "FOLDER", tmp_path)
    found = run.build(tmp_path)
    comparison = Comparison(found)
    (own,) = comparison.orders.values()
    assert set(own.cells["name"]) == {"ext4", "xfs", "jfs", "btrfs+none"}  # no upper bound
    (claims,) = comparison.claims.values()
    (one,) = claims.judged
    assert sentences.verdict(one) == "direction reproduced" and one.verdict.word == "reproduced"
    tables = str(tmp_path / "tables")
    told(["claims", tables])
    assert capsys.readouterr().out == "lab exact, device model ssd\n  reproduced: [create]\n"
    with pytest.raises(UserError, match="has no key expected: put there what `reprofs claims "):
        told(["claims", tables, "--strict"])
    body, appendix = said(run.execute(tmp_path, [NOTEBOOK]))
    for words in ("Numbers of a fixture", "files are created faster on ext4", "the 24 exchanges", "Ranking: metadata"):
        assert words in body, words
    assert "All claims, with their place in the source." in appendix
