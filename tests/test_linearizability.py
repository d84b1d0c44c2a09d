"""Linearizability: known histories, and every small one against all orders of its calls."""

import itertools
import math

import pytest
from helpers import drawn
from reprofs.stats.linearizability import Answer, Call, linearizable

# ---- a register: ("w", value) writes, ("r", value) reads


def register(value, what):
    """The value after a call; None where the read has another one."""
    kind, own = what
    return own if kind == "w" else value if value == own else None


def answer(*calls, most=10**6):
    """Of (start, end, kind, value); the register is 0 at first."""
    return linearizable([Call(start, end, (kind, value)) for start, end, kind, value in calls], 0, register, most)


@pytest.mark.parametrize(
    ("calls", "fits"),
    [
        ([], True),
        ([(0, 1, "w", 1), (2, 3, "r", 1)], True),
        ([(0, 1, "w", 1), (2, 3, "r", 0)], False),  # a stale read
        ([(0, 9, "w", 1), (1, 2, "r", 0), (3, 4, "r", 1)], True),  # the write takes effect between the reads
        ([(0, 9, "w", 1), (1, 2, "r", 1), (3, 4, "r", 0)], False),  # seen, and gone again
        ([(0, 9, "w", 1), (0, 9, "w", 2), (10, 11, "r", 1)], True),
        ([(0, 9, "w", 1), (0, 9, "w", 2), (1, 2, "r", 2), (3, 4, "r", 1), (10, 11, "r", 2)], False),
        # Herlihy and Wing's definition: what has not returned may have taken effect, or not.
        ([(0, math.inf, "w", 1), (1, 2, "r", 0)], True),
        ([(0, math.inf, "w", 1), (1, 2, "r", 1)], True),
        ([(0, math.inf, "w", 1), (1, 2, "r", 1), (3, 4, "r", 0)], False),
        ([(5, math.inf, "w", 1), (1, 2, "r", 1)], False),  # not before it began
        ([(0, 1, "w", 1), (1, 2, "r", 0)], True),  # at the same moment: they overlap
    ],
)
def test_known_histories(calls, fits):
    assert answer(*calls).linearizable is fits


def test_it_names_the_call_that_nothing_explains():
    assert answer((0, 1, "w", 1), (2, 3, "r", 1), (4, 5, "r", 0), (6, 7, "r", 1)) == Answer(False, 2)


def test_with_too_many_configurations_it_is_undecided_and_not_wrong():
    many = [(0, 100, "w", value) for value in range(1, 12)]
    assert answer(*many, (101, 102, "r", 99), most=500) == Answer(None)
    assert answer(*many, (101, 102, "r", 5)).linearizable is True


def test_many_calls_without_an_end_do_not_multiply():
    lost = [(0, math.inf, "w", 1000 + value) for value in range(40)]
    kept = [(2 * at, 2 * at + 1, "w", at) for at in range(1, 30)]
    assert answer(*lost, *kept, (100, 101, "r", 29), most=2000).linearizable is True
    assert answer(*lost, *kept, (100, 101, "r", 1007), most=20000).linearizable is True


# ---- against all orders


def orders(calls):
    """Whether any order of any set of calls with all that have ended respects time and results: by trying all."""
    endless = [call for call in calls if call.end == math.inf]
    ended = [call for call in calls if call.end < math.inf]
    for size in range(len(endless) + 1):
        for some in itertools.combinations(endless, size):
            for order in itertools.permutations([*ended, *some]):
                late = any(b.end < a.start for a, b in itertools.combinations(order, 2))
                value = 0
                for call in order if not late else ():
                    value = register(value, call.what)
                    if value is None:
                        break
                if not late and value is not None:
                    return True
    return False


def test_every_small_history_is_judged_as_all_orders_judge_it():
    random, found = drawn(), []
    for _ in range(700):
        calls = []
        for _ in range(random.randint(1, 5)):
            start = random.randint(0, 9)
            end = math.inf if random.random() < 0.2 else start + random.randint(1, 6)
            calls.append(Call(start, end, (random.choice("wr"), random.randint(0, 2))))
        known = orders(calls)
        assert linearizable(calls, 0, register).linearizable is known, calls
        found.append(known)
    assert 100 < sum(found) < 600  # both kinds
