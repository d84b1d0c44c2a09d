"""Long histories of calls: what is drawn, what is left when one is shortened, and a file system that breaks."""

import time

import pytest
from helpers import CATALOG
from reprofs.errors import UserError
from reprofs.plan import sequences
from reprofs.plan.cell import Cell
from reprofs.trial import soak, state

SEQ = sequences.read(state.SET)


def of(filesystem: str, calls: int, variant: str = "default") -> soak.Soak:
    cell = Cell(
        lab="exact",
        stack="single",
        profile="crash",
        workload=state.WORKLOAD,
        scale="smoke",
        filesystem=filesystem,
        variant=variant,
    )
    return soak.Soak(cell, CATALOG, calls)


def test_a_seed_draws_the_same_possible_history():
    drawn = [sequences.random_history(SEQ, seed, 24) for seed in range(60)]
    assert drawn[7] == sequences.random_history(SEQ, 7, 24) != drawn[8]
    assert all(len(calls) == 24 and sequences.possible(SEQ, calls) for calls in drawn)
    verbs = {call.split()[0] for calls in drawn for call in calls}
    assert verbs >= {*sequences.WORDS, *sequences.SAVES, "fsync", "fdatasync", "fsyncdir"}
    kept = [call for seed in range(20) for call in sequences.random_history(SEQ, seed, 24, (), ["balance", "snapshot"])]
    assert {call for call in kept if call.startswith("maintain")} == {"maintain balance", "maintain snapshot"}
    assert sequences.possible(SEQ, kept[:24]) and of("btrfs", 4, "none").maintenance == ["balance", "snapshot"]
    fewer = [call for seed in range(20) for call in sequences.random_history(SEQ, seed, 24, {"link", "symlink"})]
    assert not [call for call in fewer if call.startswith(("link", "symlink"))]


@pytest.mark.parametrize(
    ("calls", "possible"),
    [
        (["rename foo bar", "fsync bar"], True),
        (["rename foo bar", "fsync foo"], False),
        (["rmdir B", "create B/x"], False),
        (["unlink foo", "write foo 0 512"], False),
        (["sync", "drop", "remount"], True),
    ],
)
def test_what_is_possible(calls, possible):
    assert sequences.possible(SEQ, calls) is possible


def row(**changes) -> dict:
    return {"failed": "", "states": 2, "findings": []} | changes


LOST = {"kind": "lost", "after": True, "broken": True, "at": 3, "what": "x is nowhere"}


def test_what_breaks_is_shortened(monkeypatch):
    """A guarantee is broken as soon as something is renamed and synced afterwards: two calls are left."""

    def breaks(calls: list[str]) -> bool:
        at = [number for number, call in enumerate(calls) if call.startswith("rename")]
        return bool(at) and "sync" in calls[at[0] :]

    run = of("ext4", 24)
    monkeypatch.setattr(run, "_visit", lambda all_, whose: [row(findings=[LOST] * breaks(calls)) for calls in all_])
    found = list(run.run(1, time.monotonic(), lambda text: None))
    assert found and run.histories == soak.AT_ONCE and run.visited == 2 * soak.AT_ONCE
    assert all(len(one.calls) == 2 and one.calls[1] == "sync" for one in found)
    assert {(one.kind, one.at, one.what) for one in found} == {("lost", 3, "x is nowhere")}


def test_what_it_has_not_got_is_left_out_and_other_failures_are_found(monkeypatch):
    def visit(all_, whose):
        verbs = [{call.split()[0] for call in calls} for calls in all_]
        return [
            row(failed="link: Operation not permitted" if "link" in own else "rmdir: Bad message" * ("rmdir" in own))
            for own in verbs
        ]

    run, said = of("exfat", 24, "clusters-4k"), []
    monkeypatch.setattr(run, "_visit", visit)
    found = list(run.run(1, time.monotonic(), said.append))
    assert run.without == {"link"} and said[0].endswith("link")
    assert found and all(one.kind == "failed" and one.calls[-1].startswith("rmdir") for one in found)
    assert {len(one.calls) for one in found} <= {1, 2}  # a folder of its own may have to be made first


def test_only_broken_guarantees_count(monkeypatch):
    run = of("jfs", 4)
    monkeypatch.setattr(run, "_visit", lambda all_, whose: [row(findings=[LOST | {"broken": False}]) for _ in all_])
    assert list(run.run(1, time.monotonic(), lambda text: None)) == []


def test_a_guest_that_fails_names_the_seeds(monkeypatch):
    def failing(setup):
        raise UserError("the state was not visited: it crashed")

    monkeypatch.setattr(state, "visit", failing)
    with pytest.raises(UserError, match=r"^seeds 5 to 12: the state was not visited"):
        next(of("ext4", 4).run(5, time.monotonic(), lambda text: None))


@pytest.mark.wide
def test_exfat_breaks_and_ext4_does_not(guest):
    """The positive control, and its counterpart."""
    one = next(of("exfat", 8, "clusters-4k").run(1, time.monotonic(), lambda text: None))
    assert one.kind and len(one.calls) <= 4
    assert list(of("ext4", 8, "no-lazy-init").run(1, time.monotonic(), lambda text: None)) == []
