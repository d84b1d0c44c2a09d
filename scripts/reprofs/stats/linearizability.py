"""Whether a history of calls is linearizable: whether one order of them, which respects time, explains all results.

The algorithm is the just-in-time linearization of G. Lowe (Testing for linearizability, Concurrency and Computation:
Practice and Experience 29(4), 2017), a form of Wing and Gong's search (JPDC 17, 1993) that remembers where it was: all
configurations are kept that can explain the calls which have returned so far, and a call is put in order only when it,
or one after it, returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeVar

State = TypeVar("State", bound=Hashable)
MOST = 200_000  # configurations; with more the history is undecided


class Call(NamedTuple):
    """A call: when it began and ended (ns), and what it did; end is infinite for one that may yet take effect, or
    never does.
    """

    start: float
    end: float
    what: object


class Answer(NamedTuple):
    """linearizable: None if there were too many configurations; number: of the call that nothing explains."""

    linearizable: bool | None
    number: int | None = None


def linearizable(
    calls: Sequence[Call], state: State, step: Callable[[State, Any], State | None], most: int = MOST
) -> Answer:
    """Whether an order of the calls exists in which each takes effect between its start and its end.

    state: before all calls; step: the state after a call, or None where its result cannot be had in that state. A call
    without an end may be left out: orders with few of them are tried first. Of calls at the same moment the starts come
    first: they overlap.
    """
    endless = frozenset(number for number, call in enumerate(calls) if call.end == math.inf)
    answer = Answer(True)
    for some in range(len(endless) + 1):
        answer, all_tried = _search(calls, state, step, most, endless, some)
        if answer.linearizable is not False or all_tried:
            break
    return answer


def _search(calls, state, step: Callable, most: int, endless: frozenset[int], some: int) -> tuple[Answer, bool]:
    """The answer with at most `some` of the endless calls, and whether no order was left out for that reason."""
    all_tried = True
    moments = [(call.start, 0, number) for number, call in enumerate(calls)]
    moments += [(call.end, 1, number) for number, call in enumerate(calls) if call.end < math.inf]
    # What can explain all that has returned: the state, and the calls in progress that have taken effect in it.
    configurations: set[tuple[Any, frozenset[int]]] = {(state, frozenset())}
    begun: set[int] = set()
    for _, returns, number in sorted(moments):
        if not returns:
            begun.add(number)
            continue
        found, all_here = _expand(configurations, calls, begun, number, step, most, endless, some)
        all_tried = all_tried and all_here
        if found is None:
            return Answer(None), all_tried
        begun.discard(number)
        configurations = {(state, effective - {number}) for state, effective in found}
        if not configurations:
            return Answer(False, number), all_tried
    return Answer(True), all_tried


def _expand(
    configurations, calls, begun: set[int], last: int, step: Callable, most: int, endless: frozenset[int], some: int
):
    """The configurations in which the call `last` has taken effect; None if there are too many. And as `_search`."""
    seen, waiting, found, all_tried = set(configurations), list(configurations), set(), True
    while waiting:
        state, effective = configuration = waiting.pop()
        if last in effective:
            found.add(configuration)
            continue
        full = len(effective & endless) >= some
        all_tried = all_tried and not (full and endless & begun - effective)
        for number in begun - effective - (endless if full else frozenset()):
            after = step(state, calls[number].what)
            following = (after, effective | {number})
            if after is None or following in seen:
                continue
            if len(seen) >= most:
                return None, all_tried
            seen.add(following)
            waiting.append(following)
    return found, all_tried
