"""Numbers and lists as words: what tables, captions and sentences say them with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from reprofs.errors import count as count
from reprofs.report.marks import joined

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
WIDEST = 100  # an interval whose ends are farther apart says nothing
UNITS = [("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)]


def counts(numbers: Iterable[float], noun: str) -> str:
    """`6 repetitions`, `5 to 6 repetitions`: of the least and the largest number; 0 without any."""
    known = sorted({int(number) for number in numbers}) or [0]
    return (f"{known[0]} to " if len(known) > 1 else "") + count(known[-1], noun)


def listing(items: Iterable, last: str = "and", most: int | None = None) -> str:
    """`a`, `a and b`, `a, b and c`; `none` for nothing; beyond `most` items: `a, b and 3 others`."""
    found = list(items)
    if most and len(found) > most:
        found = [*found[:most], count(len(found) - most, "other")]
    if len(found) < 2:
        return joined(found, "") or "none"
    return joined([joined(found[:-1], ", "), found[-1]], f" {last} ")


def opening(number: int, noun: str, plural: str | None = None) -> str:
    """`count` at the beginning of a sentence: small numbers as words, with a capital."""
    if 0 < number <= len(NUMBERS):
        return first_upper(f"{NUMBERS[number - 1]} {noun if number == 1 else plural or noun + 's'}")
    return first_upper(count(number, noun, plural))


def verb(number: int, one: str, many: str) -> str:
    """The form of a verb that agrees with `number` things."""
    return one if number == 1 else many


def first_upper(text: str) -> str:
    """The sentence with a capital at its beginning and the rest untouched."""
    return text[:1].upper() + text[1:]


def known(value: Any) -> bool:
    """Whether there is a value: neither None nor NaN."""
    return value is not None and not pd.isna(value)


def digits(value: float, significant: int = 4) -> str:
    """A number with that many significant digits, never in scientific notation; a dash for None or NaN."""
    if not known(value):
        return DASH
    if value == 0 or not math.isfinite(value):
        return f"{value:g}".replace("inf", "∞")
    places = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".replace("-", MINUS)


def scientific(value: float, significant: int = 3) -> str:
    """`digits`, but with a power of ten below one thousandth and from ten million on."""
    if not known(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return digits(value, significant)
    mantissa, _, exponent = f"{value:.{significant - 1}e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa} \N{MULTIPLICATION SIGN} 10{raised}".replace("-", MINUS)


def small(p: float) -> str:
    """A p value with two digits; none below one in ten thousand."""
    return "< 0.0001" if p < 0.0001 else digits(p, 2)


def chance(p: float) -> str:
    """A p value in a sentence: p = 0.012, p < 0.0001."""
    told = small(p)
    return f"p {told}" if told.startswith("<") else f"p = {told}"


def time(ns: float, significant: int = 4) -> str:
    """A time in ns as a number with a suitable unit."""
    if not known(ns):
        return DASH
    name, size = next((pair for pair in UNITS if abs(ns) >= pair[1]), UNITS[-1])
    return f"{digits(ns / size, significant)} {name}"


def alike(value: float, low: float, high: float) -> list[str]:
    """A value and the ends of its interval, of three digits; a fourth where it tells the ends apart.

    More would be below what any lab repeats, see `stats.cells.FLOOR`. Ends that look the same are no interval: the
    value alone.
    """
    least = max(0, 2 - math.floor(math.log10(abs(value))))
    for places in (least, least + 1):
        told = [f"{number:,.{places}f}" for number in (value, low, high)]
        if told[1] != told[2]:
            return told
    return [f"{value:,.{least}f}"]


def ratio(value: float, low: float, high: float) -> str:
    """`1.033 (1.032 - 1.034)`: a ratio and its interval, if it has one."""
    if not known(value) or not (known(low) and known(high)):
        return digits(value, 3)
    if low <= 0 or high / low > WIDEST:
        return f"{digits(value, 3)} ({confidence(low, high)})"
    own, *ends = alike(value, low, high)
    return f"{own} ({f' {DASH} '.join(ends)})" if ends else own


def span(low: float, high: float, scale: float = 1.0, significant: int = 3) -> str:
    """`low - high`, both divided by `scale`, with a digit more where it tells them apart; a dash if there is none."""
    if not (known(low) and known(high)):
        return DASH
    low, high = low / scale, high / scale
    # The ends of an interval of two or three rounds may have fifty digits.
    show = digits if (low == 0 or abs(low) >= 1e-6) and abs(high) < 1e9 else scientific
    for places in (significant, significant + 1):
        ends = [show(low, places), show(high, places)]
        if ends[0] != ends[1]:
            return f" {DASH} ".join(ends)
    return DASH


def confidence(low: float, high: float, scale: float = 1.0, significant: int = 3) -> str:
    """`span` of a confidence interval, or that it has too few rounds to say anything; a dash if there is none."""
    if known(low) and known(high) and low > 0 and high / low > WIDEST:
        return f"wider than {WIDEST} times: too few rounds"
    return span(low, high, scale, significant)


def reach(low: float, high: float, show: Any) -> str:
    """`2 to 5` with both ends as `show` writes them; only one if they look the same."""
    return show(low) if show(low) == show(high) else f"{show(low)} to {show(high)}"


def size(value: float) -> str:
    """A number of bytes in binary units."""
    if not known(value):
        return DASH
    for name in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or name == "GiB":
            break
        value /= 1024
    return f"{value:,.0f} {name}" if name == "B" or value >= 100 else f"{value:,.3g} {name}"


def percent(share: float) -> str:
    """A share (of 1) as a percentage with one or two decimal places, between 0.01 and 1,000 %."""
    if not known(share):
        return DASH
    if share and abs(share) < 0.00005:
        return "< 0.01 %"
    if share > 10:
        return "> 1,000 %"
    return f"{share * 100:.{1 if abs(share) >= 0.1 else 2}f} %"


def slug(*parts: object) -> str:
    """Parts of a name, tuples flattened, joined so that they serve as file name and anchor."""
    flat = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
    return "-".join("".join(c if c.isalnum() else "-" for c in str(item)) for item in flat if str(item))


def slower(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """How much slower something with this ratio of times is: `3.3 %`, from a factor of two on `2.4 times`.

    With the ends of its interval: `3.3 % (3.2 to 3.4 %)`. Below 1 the difference is negative.
    """
    if not known(ratio):
        return DASH
    ends = [value for value in (low, high) if value is not None and known(value)]
    if ratio >= 2:
        own, unit = [digits(value, 3) for value in (ratio, *ends)], "times"
    else:
        places = 0 if abs(ratio - 1) >= 0.1 else 1
        own = [f"{100 * (value - 1):.{places}f}".replace("-", MINUS) for value in (ratio, *ends)]
        unit = "%"
    if len(own) < 3:
        return f"{own[0]} {unit}"
    return f"{own[0]} {unit} ({own[1]} to {own[2]})" if own[1] != own[2] else f"{own[0]} {unit}"


def longer(ratio: float, low: float | None = None, high: float | None = None) -> str:
    """A ratio of times: `8 % longer`, `2.41 times as long`, `35 % less time`, `equally long` (interval holds 1)."""
    if low is not None and high is not None and known(low) and known(high) and low <= 1 <= high:
        return "equally long"
    if ratio < 1:
        return f"{slower(2 - ratio)} less time"
    told = slower(ratio)
    return f"{told} as long" if told.endswith("times") else f"{told} longer"
