"""Published claims: verdicts of every kind against known truth, values of samples by hand, expected verdicts."""

import math
import subprocess
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from reprofs.data import tables
from reprofs.errors import UserError
from reprofs.plan.catalog import Catalog, validate
from reprofs.report.topics import published as topic
from reprofs.stats import claims, published
from reprofs.stats.claims import Ground, Interval
from reprofs.stats.study import Study
from reprofs.trial.plan import make_plan

GROUND = Ground("exact", "ssd")
REPRODUCED, SAME, CONTRADICTED, UNDECIDED = "reproduced", "same direction", "contradicted", "undecided"


def claim(kind: str, of=("xfs", "ext4"), **more) -> dict:
    """A claim about one phase on file systems, with the defaults of its model."""
    own = {"id": "it", "where": "page 1", "says": "so", "kind": kind, "needs": "both"}
    own |= {"of": [{"label": label} for label in of], "at": {"phase": "create", "cache": "warm"}} | more
    about = {"title": "t", "source": "s", "numbers": "n", "claims": [own]}
    about["differs"] = [{"what": "w", "there": "t", "here": "h", "follows": "f"}]
    return validate(about, "published", "mine.yaml")["claims"][0]


def around(ratio: float, share: float = 0.01) -> Interval:
    return Interval(ratio, ratio * (1 - share), ratio * (1 + share))


OVER = [{"phase": phase, "cache": "cold"} for phase in ("a", "b", "c")]


# ---- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "found", "value", "verdict"),
    [
        # A ratio of 3.05 is reproduced by an interval with it or with a factor of it, not by any above 1.
        (claim("ratio"), [around(3.0)], 3.05, REPRODUCED),
        (claim("ratio"), [around(2.5)], 3.05, REPRODUCED),  # 3.05 / 1.25 is 2.44
        (claim("ratio", within=1.05), [around(2.5)], 3.05, SAME),
        (claim("ratio"), [around(1.1)], 3.05, SAME),
        (claim("ratio"), [around(9.0)], 3.05, SAME),
        (claim("ratio"), [Interval(1.1, 0.9, 1.3)], 3.05, CONTRADICTED),  # whatever its side, it is nothing like 3.05
        (claim("ratio"), [Interval(2.0, 0.9, 4.0)], 3.05, UNDECIDED),
        (claim("ratio"), [around(0.4)], 3.05, CONTRADICTED),
        (claim("ratio"), [around(0.33)], 1 / 3.05, REPRODUCED),  # the same below 1
        (claim("ratio"), [around(0.9)], 1 / 3.05, SAME),
        (claim("ratio"), [around(1.1)], 1 / 3.05, CONTRADICTED),
        (claim("ratio"), [Interval(3.0, math.nan, math.nan)], 3.05, UNDECIDED),  # one round
        (claim("ratio", of=["ext4"], value=100.0), [around(110)], 100.0, REPRODUCED),  # a value alone
        (claim("ratio", of=["ext4"], value=100.0), [around(300)], 100.0, CONTRADICTED),
        (claim("bound", least=5), [around(6)], math.nan, REPRODUCED),
        (claim("bound", least=5), [around(2)], math.nan, SAME),
        (claim("bound", least=5), [around(0.9)], math.nan, CONTRADICTED),
        (claim("bound", least=5), [Interval(2, 0.8, 5.5)], math.nan, UNDECIDED),
        (claim("bound", least=0.75), [around(0.6)], math.nan, CONTRADICTED),
        (claim("bound", most=1.3), [around(1.2)], math.nan, REPRODUCED),
        (claim("bound", most=1.3), [around(1.4)], math.nan, CONTRADICTED),
        (claim("bound", most=1.3), [around(1.3)], math.nan, UNDECIDED),
        (claim("bound", most=0.5), [around(0.8)], math.nan, SAME),
        (claim("bound", of=["a", "b", "c"], most=1), [around(0.5), around(0.9)], math.nan, REPRODUCED),
        (claim("bound", of=["a", "b", "c"], most=1), [around(0.5), around(1.1)], math.nan, CONTRADICTED),
        (claim("bound", of=["a", "b", "c"], most=1), [around(0.5), around(1.0)], math.nan, UNDECIDED),
        (claim("bound", of=["a"], most=0.5), [around(0.7)], math.nan, CONTRADICTED),  # a value alone has no direction
        (
            claim("bound", most=0.02) | {"of": [{"label": "a", "quantity": "system"}, {"label": "a"}]},
            [around(0.1)],
            math.nan,
            CONTRADICTED,  # that a part is less than the whole is no direction
        ),
        (claim("bound", of=["a"], least=5e8), [around(1.2e9)], math.nan, REPRODUCED),
        (claim("order", of="abc"), [around(1.1), around(1.2)], math.nan, REPRODUCED),
        (claim("order", of="abc"), [around(1.1), around(1.0)], math.nan, UNDECIDED),
        (claim("order", of="abc"), [around(1.0), around(0.9)], math.nan, CONTRADICTED),
        (claim("monotone", of="abc"), [Interval(1, 1, 1), around(2), around(2)], math.nan, REPRODUCED),
        (claim("monotone", of="abc"), [around(2), around(0.9), around(1.8)], math.nan, CONTRADICTED),
        (claim("monotone", of="abc"), [around(1), around(2), around(2)], math.nan, UNDECIDED),
        (claim("monotone", of="abc"), [Interval(1, 1, 1)] * 3, math.nan, UNDECIDED),  # the last is not smaller
        (claim("within", of="ab", within=1.05), [around(1.02)], math.nan, REPRODUCED),
        (claim("within", of="ab", within=1.05), [around(0.97)], math.nan, REPRODUCED),
        (claim("within", of="ab", within=1.05), [around(1.05)], math.nan, UNDECIDED),
        (claim("within", of="abc", within=1.05), [around(1), around(1), around(1.2)], math.nan, CONTRADICTED),
        (claim("no-winner", over=OVER), [around(1.2), around(0.8), around(1)], math.nan, REPRODUCED),
        (claim("no-winner", over=OVER), [around(1.2), around(1.2), around(1)], math.nan, CONTRADICTED),
        (claim("no-winner", over=OVER), [around(1.2), around(1), around(1)], math.nan, UNDECIDED),
    ],
)
def test_verdicts(own, found, value, verdict):
    assert claims.decide(own, found, value) == verdict


@pytest.mark.parametrize(
    ("own", "pairs"),
    [
        (claim("bound", of="abc", least=1), ["ab", "ac"]),
        (claim("order", of="abc"), ["ab", "bc"]),
        (claim("monotone", of="abc"), ["ab", "bc", "ac"]),
        (claim("monotone", of="ab"), ["ab"]),
        (claim("within", of="abc", within=2), ["ab", "ac", "bc"]),
    ],
)
def test_what_is_compared(own, pairs):
    assert [first["label"] + second["label"] for first, second in claims.comparisons(own)] == pairs
    steps = claims.comparisons(claim("no-winner", over=OVER))
    assert [(first["label"], second["label"], first["phase"]) for first, second in steps] == [
        ("xfs", "ext4", phase) for phase in "abc"
    ]


# ---- a study ---------------------------------------------------------------------------------------------------------


PHASES = [
    {"name": "create", "cache": "warm"},
    {"name": "life", "cache": "warm", "samples": {"create": "", "write": "", "full": ""}},
]


def row(label: str, number: int, **more) -> dict:
    own = {"trial": f"r{number}-{label}-{more.get('stack', 'single')}", "label": label, "role": "contender"}
    own |= {"status": "ok", "lab": "exact", "profile": "ssd", "stack": "single", "workload": "metadata"}
    return own | {"scale": "smoke", "round": number, "phase": "create", "cache": "warm"} | more


def study(own: list[dict], times: dict, samples: list[dict] = (), **about) -> Study:
    """A study whose phase took (label, stack) -> seconds, tenths of a percent apart, beside these claims."""
    phases = [
        row(
            label,
            number,
            stack=stack,
            position=0,
            operation="create",
            wall_ns=round(second * (1e9 + number * len(label) * 1e6)),
        )
        | {"user_ns": round(second * 4e8), "system_ns": round(second * 1e8)}
        for (label, stack), second in times.items()
        for number in (1, 2, 3)
    ]
    plan = {
        "study": {"name": "mine", "published": "mine", **about},
        "published": {"title": "t", "claims": own, "differs": []},
        "workloads": {"metadata": {"scale": {}, "phases": PHASES}},
    }
    nothing = pd.DataFrame()
    frames = pd.DataFrame(phases), pd.DataFrame(list(samples))
    return Study(nothing, frames[0], frames[1], nothing, nothing, plan, {"values": {}}, {}, folder=Path("unused"))


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    """Writes published numbers: (label, value) pairs of the phase, in seconds."""
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    (tmp_path / "mine.yaml").write_text("")

    def write(*pairs, **more):
        rows = [
            {"place": "page 1", "label": label, "phase": "create", "cache": "warm", "quantity": "time", "unit": "s"}
            | {"statistic": "single", "value": value, "origin": "printed"}
            | more
            for label, value in pairs
        ]
        pd.DataFrame(rows, columns=list(published.COLUMNS)).to_csv(tmp_path / "mine.csv", index=False)

    return write


def verdicts(found: Study) -> dict[str, str]:
    return dict(claims.claims(found, GROUND)[["id", "verdict"]].itertuples(index=False))


def test_every_verdict_of_a_study_and_what_its_source_says_itself(numbers):
    numbers(("ext4", 2.0), ("xfs", 6.1))
    own = [
        claim("ratio") | {"id": "three"},
        claim("ratio", value=2.0) | {"id": "two"},  # which its own numbers do not bear out
        claim("order", of=["ext4", "xfs"]) | {"id": "turned"},
        claim("within", within=1.6) | {"id": "near"},
        claim("order", of=["btrfs+none", "ext4"]) | {"id": "absent"},
    ]
    found = study(own, {("ext4", "single"): 1.0, ("xfs", "single"): 1.5})
    table = claims.claims(found, GROUND).set_index("id")
    assert table["verdict"].to_dict() == {
        "three": SAME, "two": SAME, "turned": CONTRADICTED, "near": REPRODUCED, "absent": "not decidable here",
    }  # fmt: skip
    assert table["own"].to_dict() == {
        "three": "", "two": SAME, "turned": CONTRADICTED, "near": CONTRADICTED, "absent": "",
    }  # fmt: skip
    (one,) = table.loc["three", "found"]
    assert one.low < one.ratio < one.high and one.ratio == pytest.approx(1.5, rel=0.01)
    assert table.loc["three", "claimed"] == pytest.approx(3.05)
    assert table.loc["three", "waits"] == pytest.approx((0.5, 0.5), abs=0.01)
    assert claims.claims(study(own, {("ext4", "single"): 1.0}), GROUND)["found"].map(len).eq(0).all()


def test_a_value_is_never_compared_with_itself(numbers):
    """Two published runs of one cell are one cell here."""
    numbers(("xfs", 10.0))
    own = claim("within", within=1.03)
    own["of"] = [{"label": "xfs", "place": "page 1"}, {"label": "xfs", "place": "page 2"}]
    assert verdicts(study([own], {("xfs", "single"): 1.0})) == {"it": "not decidable here"}


def test_stacks_and_file_systems_stand_in_where_the_study_says_so_and_the_claim_lets_them(numbers):
    numbers(("xfs", 1.0))
    own = claim("order", at={"stack": "md-raid5@24", "phase": "create"})
    measured = {("xfs", "md-raid5"): 2.0, ("ext4", "md-raid5"): 1.0}
    assert verdicts(study([own], measured)) == {"it": "not decidable here"}
    instead = {"md-raid5@24": "md-raid5"}
    assert verdicts(study([own], measured, stands_in=instead)) == {"it": REPRODUCED}
    assert verdicts(study([own | {"own_stack": True}], measured, stands_in=instead)) == {"it": "not decidable here"}
    relative = {("gluster+replica-3@lan-1g", "md-raid5"): 2.0, ("ext4", "md-raid5"): 1.0}
    instead |= {"xfs": "gluster+replica-3@lan-1g"}
    assert verdicts(study([own], relative, stands_in=instead)) == {"it": REPRODUCED}


def test_a_study_that_is_too_small_does_not_decide(numbers):
    numbers(("xfs", 1.0))
    own = claim("order", least_size=1000)
    assert verdicts(study([own], {("xfs", "single"): 2.0, ("ext4", "single"): 1.0})) == {"it": "not decidable here"}


def test_more_claims_need_clearer_differences(numbers):
    """Intervals hold for all claims together, so each is wider than alone."""
    numbers(("xfs", 1.0))
    own = [claim("order") | {"id": f"c{number}"} for number in range(20)]
    measured = {("xfs", "single"): 1.01, ("ext4", "single"): 1.0}
    alone, among = (claims.claims(study(own[:many], measured), GROUND).iloc[0] for many in (1, 20))
    assert alone["verdict"] == REPRODUCED and among["verdict"] == UNDECIDED
    assert among["found"][0].high > alone["found"][0].high


def sample(
    label: str, number: int, name: str, client, seconds: float, items: int, size: int, iteration: int = 0
) -> dict:
    own = {"name": name, "client": client, "iteration": iteration, "start_ns": iteration * 10**9}
    own |= {"wall_ns": round(seconds * 1e9), "items": items, "bytes": size, "file_bytes": size}
    return row(label, number, phase="life", **own)


def test_values_of_samples_by_hand(numbers):
    numbers()
    rows = [
        # Two clients of one command: rates are summed, times averaged; no deviation of several clients.
        sample("ext4", 1, "create", 0, 2.0, 100, 4_000_000),
        sample("ext4", 1, "create", 1, 4.0, 100, 4_000_000),
        # Four files of a fill of one client: mean rate and its deviation, then the device is full.
        *(sample("xfs", 1, "write", None, seconds, 1, 8_000_000, n) for n, seconds in enumerate((1.0, 2.0, 1.0, 2.0))),
        sample("xfs", 1, "write", None, 0.001, 1, 2_000_000, 4) | {"file_bytes": 8_000_000},  # here the space ended
        sample("xfs", 1, "create", None, 1.0, 7, 0) | {"phase": "create"},  # no declared part of that phase
        sample("xfs", 1, "capacity", None, 1e-9, 1, 68_000_000),
        sample("xfs", 1, "full", None, 7.0, 1, 0),
    ]
    found = study([], {}, rows)
    phases = [
        row(label, 1, phase=phase, position=0, operation="exec", wall_ns=10**10, user_ns=10**9, system_ns=0)
        for label, phase in (("ext4", "create"), ("xfs", "other"))  # parts of a phase are phases, too
    ]
    found = Study(**{**vars(found), "phases": pd.DataFrame(phases)})
    table = claims.values(found, GROUND).set_index(["label", "phase", "quantity"])["value"].to_dict()
    assert table["ext4", "create", "rate"] == pytest.approx(2e6 + 1e6)
    assert table["ext4", "create", "operations"] == pytest.approx(50 + 25)
    assert table["ext4", "create", "time"] == pytest.approx(3.0)
    assert ("ext4", "create", "rate-sd") not in table
    assert table["xfs", "write", "rate"] == pytest.approx(6e6)
    assert table["xfs", "write", "rate-sd"] == pytest.approx(4e6 / math.sqrt(3))  # of 8, 4, 8, 4 MB/s
    assert table["xfs", "write", "rate-min"] == pytest.approx(4e6)
    assert table["xfs", "write", "operations-sd"] == pytest.approx(0.5 / math.sqrt(3))
    assert ("xfs", "create", "operations") not in table
    assert table["xfs", "life", "share"] == pytest.approx(0.5)
    assert table["xfs", "other", "time"] == 10 and table["xfs", "other", "user"] == 1
    assert ("xfs", "other", "system") not in table  # nothing has no ratio


def test_a_phase_without_user_time_has_no_value_of_it(numbers):
    """As in the tables, whose whole numbers may be missing; a part of a command has no user time."""
    numbers()
    found = study([], {("xfs", "single"): 2.0, ("ext4", "single"): 1.0}, [sample("ext4", 1, "create", 0, 2.0, 9, 9)])
    phases = found.phases.astype(dict.fromkeys(("user_ns", "system_ns"), "Int64"))
    phases.loc[phases["label"] == "xfs", ["user_ns", "system_ns"]] = pd.NA
    values = claims.values(replace(found, phases=phases), GROUND)
    assert set(values.loc[values["quantity"] == "user", "label"]) == {"ext4"}


def test_published_rates_stand_beside_ours_in_their_unit(numbers):
    numbers(("xfs", 1131), stack="single", quantity="rate", unit="MB/s", sd=121, phase="write", statistic="mean")
    rows = [
        sample("xfs", number, "write", None, 1.0, 1, size, iteration)
        for number in (1, 2, 3)
        for iteration, size in enumerate((8_000_000, 9_000_000, 10_000_000))
    ]
    found = study([], {("xfs", "single"): 1.0}, rows)
    (one,) = claims.beside(found, GROUND).to_dict("records")
    assert (one["value"], one["sd"], one["unit"], one["own"]) == (1131, 121, "MB/s", pytest.approx(9.0))
    assert one["own_sd"] == pytest.approx(1.0)
    assert topic.value_twin_figures(found, GROUND) == []  # one system has nobody beside it


def test_several_published_cells_of_one_name_are_a_mistake(numbers):
    numbers(("xfs", 1.0), ("ext4", 2.0))
    with pytest.raises(UserError, match="values of several published cells: say more of them"):
        claims.told(published.load("mine"), {"phase": "create"})


DECIDED = {  # by what a study measures at its own scale
    "datalad-2015": "get-ext4 get-xfs tar-ext4 tar-xfs du-reiserfs rm-zfs btrfs-get btrfs-tar btrfs-clone btrfs-untar"
    " reiserfs-get reiserfs-rm zfs-slowest-rm zfs-slowest-du zfs-warm-du lzo-clone zlib-clone compression-clone"
    " lzo-or-zlib",
    "plug-2020": "extract-many find du tar lazy-init find-waits tar-user-time tar-system-time tar-to-null",
    "streaming": "fill-xfs-ext4 spread-xfs-ext4 raid0-raid5-xfs raid0-raid5-ext4 weaker-one-disk weaker-six-disks"
    " dips degraded-slower degraded-as-ext4 reader-stops-writer writer-recovers",
    "streaming-disks": "raid0-raid5-xfs raid0-raid5-ext4 disks-xfs disks-ext4 weaker-one-disk weaker-three-disks"
    " weaker-six-disks stronger-twelve-disks four-gbit eight-gbit",
    "small-files": "r1-create-nfs-30",
    # all but: a client on its own server, a full CephFS, two clients of LizardFS, and OrangeFS
    "small-files-distributed": "r1-create-ceph r1-compile-ceph r1-delete-lizard r1-delete-gluster r1-create-nfs-30"
    " r1-create-lizard-30 r1-create-gluster-30 r1-create-ceph-30 r1-compile-lizard-30 r1-read-lizard-30"
    " r1-read-gluster-30 r1-read-ceph-30 r1-delete-nfs-30 r1-delete-gluster-30 r2-create-ceph r2-read-ceph"
    " r2-compile-ceph r2-clean-ceph r2-delete-ceph r2-lizard-gluster r2-delete-gluster r2-create-nfs-30"
    " r2-read-nfs-30 r2-compile-nfs-30 r2-clean-lizard-30 r2-delete-lizard-30 r2-delete-lizard-scale",
    "metadata": "rsync-list-xfs client-cache",
}


def as_planned(name: str) -> Study:
    """A study as if every phase and every part of one had taken the same time, with three rounds."""
    plan = make_plan(name, Catalog())
    phases, samples = [], []
    for trial in plan["trials"]:
        own = {key: trial[key] for key in ("lab", "stack", "profile", "workload", "scale", "round")}
        own |= {"trial": trial["id"], "label": tables.label(trial, plan), "role": "contender"}
        own |= {"status": "ok", "operation": "exec"}
        time = {"wall_ns": 10**9, "user_ns": 4 * 10**8, "system_ns": 10**8, "position": 0}
        for phase in plan["workloads"][trial["workload"]]["phases"]:
            place = own | {"phase": phase["name"], "cache": phase["cache"]}
            parts = phase.get("samples", {})
            phases += [place | time | {"phase": part} for part in (parts or [phase["name"]])]
            for part in [*parts, *(["capacity"] if "full" in parts else [])]:
                one = {"name": part, "client": pd.NA, "items": 1, "bytes": 8 * 10**6, "file_bytes": 4 * 10**6}
                samples += [place | one | {"start_ns": n, "iteration": n, "wall_ns": 10**9 + n} for n in (0, 10**8)]
    frames = pd.DataFrame(phases), pd.DataFrame(samples)
    nothing = pd.DataFrame()
    return Study(nothing, *frames, nothing, nothing, plan, {"values": {}}, {}, folder=Path("unused"))


@pytest.mark.parametrize("name", DECIDED)
def test_what_shipped_studies_can_decide(name):
    """A claim whose cells have other names than the study's would never be decided; none is expected to be."""
    found = as_planned(name)
    (ground,) = claims.grounds(found)
    table = claims.claims(found, ground)
    assert set(table.loc[table["verdict"] != "not decidable here", "id"]) == set(DECIDED[name].split())
    for verdict, names in found.plan["study"].get("expected", {}).items():
        assert set(names).isdisjoint(DECIDED[name].split()) == (verdict == "not decidable here")


# ---- verdicts that are expected --------------------------------------------------------------------------------------


def test_a_changed_verdict_is_told(numbers):
    numbers(("xfs", 3.0), ("ext4", 1.0))
    own = [claim("order") | {"id": "up"}, claim("ratio") | {"id": "three"}]
    measured = {("xfs", "single"): 2.0, ("ext4", "single"): 1.0}
    held = {REPRODUCED: ["up"], SAME: ["three"]}
    assert claims.changes(study(own, measured, expected=held)) == []
    (sentence,) = claims.changes(study(own, measured, expected={REPRODUCED: ["up", "three"]}))
    assert "three" in sentence and "is same direction, but config/studies/mine.yaml expects reproduced" in sentence
    # What is expected of no claim is that it is not decidable; that counts, too, when it no longer is.
    assert len(claims.changes(study(own, measured, expected={}))) == 2
    with pytest.raises(UserError, match="has no key expected: put there what `reprofs claims mine` prints"):
        claims.changes(study(own, measured))
    assert len(claims.changes(study(own, {("xfs", "single"): 2.0}, expected=held))) == 2
    with pytest.raises(UserError, match="claim 'thre' does not exist: did you mean three"):
        claims.changes(study(own, measured, expected={SAME: ["thre"]}))
    assert claims.changes(study([], measured, name="mine@laptop")) == []  # without claims there is nothing to hold
    with pytest.raises(UserError, match="those of its own scale"):
        claims.changes(study(own, measured, expected=held, name="mine@laptop"))


def test_a_strict_report_ends_with_the_verdicts(root):
    done = [
        subprocess.run(["make", "-n", "report", "STUDY=plug-2020", *more], cwd=root, capture_output=True, text=True)
        for more in ([], ["STRICT=1"])
    ]
    assert [one.returncode for one in done] == [0, 0]
    assert "reprofs claims plug-2020 --strict" in done[1].stdout and '[ -z "1" ]' in done[1].stdout
    assert '[ -z "" ]' in done[0].stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "bound"}, ["mine.yaml", "claims.0 of kind bound must have the key least or most"]),
        ({"kind": "bound", "least": 1, "most": 2}, ["must have the key least or most"]),
        ({"kind": "within"}, ["must have the key within"]),
        ({"kind": "order", "least": 2}, ["of kind order must not have the key least"]),
        ({"kind": "ratio", "of": [{}]}, ["of kind ratio must not have 1 value in of"]),
        ({"kind": "ratio", "of": [{}, {}, {}]}, ["of kind ratio must not have 3 values in of"]),
        ({"kind": "larger"}, ["claims.0.kind is 'larger'"]),
        ({"id": "Up"}, ["claims.0.id is 'Up'", "lower-case"]),
        ({"of": [{"speed": 1}, {}]}, ["unknown key 'speed' at claims.0.of.0"]),
        ({"at": {"quantity": "times"}}, ["claims.0.at.quantity is 'times'", "did you mean time"]),
        ({"needs": None}, ["key 'needs' is missing at claims.0"]),
    ],
)
def test_a_wrong_claim_is_one_sentence(change, words):
    own = {"id": "it", "where": "page 1", "says": "so", "kind": "order", "needs": "both", "of": [{}, {}]} | change
    own = {key: value for key, value in own.items() if value is not None}
    about = {"title": "t", "source": "s", "numbers": "n", "claims": [own]}
    about["differs"] = [{"what": "w", "there": "t", "here": "h", "follows": "f"}]
    with pytest.raises(UserError) as caught:
        validate(about, "published", "mine.yaml")
    assert all(word in str(caught.value) for word in words), caught.value
    assert str(caught.value).count(". ") == 0


def test_an_id_is_given_once():
    own = yaml.safe_load("{id: it, where: p, says: s, kind: order, of: [{}, {}], needs: n}")
    about = {"title": "t", "source": "s", "numbers": "n", "claims": [own, own]}
    about["differs"] = [{"what": "w", "there": "t", "here": "h", "follows": "f"}]
    with pytest.raises(UserError, match="must not have two claims with the id it"):
        validate(about, "published", "mine.yaml")
