"""IO500: the result summary, with the score computed again."""

import math
import re

from . import Malformed, Result, Source, number

WHAT = "the result_summary.txt of io500"

_RESULT = re.compile(
    r"\[(RESULT|\s*)\s*(INVALID)?\]\s+(\S+)\s+(\S+)\s+(GiB/s|kIOPS)\s*:\s*time\s+(\S+)\s+seconds\s*(.*)$"
)
_SCORE = re.compile(
    r"\[SCORE\s*(INVALID)?\s*\]\s+Bandwidth\s+(\S+)\s+(GB/s|GiB/s)\s*:\s*IOPS\s+(\S+)\s+kiops\s*:\s*TOTAL\s+(\d+\.\d{6})\b\s*(.*)$"
)
_BANDWIDTH = [f"ior-{kind}-{what}" for kind in ("easy", "hard") for what in ("write", "read")]
_RATES = [f"mdtest-{kind}-{what}" for kind in ("easy", "hard") for what in ("write", "stat", "delete")]
_RATES += ["mdtest-hard-read", "find"]
_UNITS = {"GiB/s": ("throughput", "GiB/s"), "kIOPS": ("rate", "kIOPS")}


def read(source: Source) -> Result:
    """Rate and time of each phase, the printed score and the score computed from the phases.

    Raises Malformed for a line that cannot be read and when the last line, the score, is missing.
    """
    result = Result(source.name, {"tool": "io500"})
    values, score, invalid, line_number = {}, None, [], 0
    for line_number, line in enumerate(source.text.splitlines(), 1):
        line, place = line.strip(), f"line {line_number}"
        if found := re.match(r"IO500 version (\S+)", line):
            result.common["tool_version"] = found[1]
        elif line.startswith("ERROR"):
            result.find("invalid", f"io500 said: {line}", "the run does not keep the rules of the list", place)
        elif line.startswith("[SCORE"):
            score = _SCORE.match(line)
            if not score:
                raise Malformed(line_number, "the line of the score is cut short or of an unknown version")
            _score(result, score, values, line_number)
            if "INVALID" in line:
                invalid.append("the score")
        elif line.startswith("["):
            found = _RESULT.match(line)
            if not found:
                raise Malformed(line_number, "the line is cut short or of an unknown version")
            if not found[1].strip():
                continue  # timestamp and phases outside the score
            name, (quantity, unit) = found[3], _UNITS[found[5]]
            values[name] = number(found[4], line_number)
            number(found[6], line_number)
            result.add(place, name, quantity, found[4], unit, iteration=0)
            result.add(place, name, "time", found[6], "s", iteration=0)
            if "INVALID" in line:
                invalid.append(name)
            elif name.endswith("-write") and float(found[6]) < 300:
                result.find("short-write", f"{name} wrote for {float(found[6]):g} s only",
                            "the rules ask for 300 s, so that caches do not decide", place)  # fmt: skip
    if not score:
        raise Malformed(line_number or 1, "the line of the score ('[SCORE ') is missing up to the end")
    if invalid:
        what = f"marked INVALID by io500: {', '.join(invalid)}"
        result.find("invalid", what, "these numbers keep not the rules of the list and compare with none")
    return result


def _score(result: Result, score: re.Match, values: dict, line: int) -> None:
    place = f"line {line}"
    for name, group, quantity, unit in (
        ("bandwidth score", 2, "throughput", "GiB/s"),  # old versions print GB/s and mean GiB/s
        ("rate score", 4, "rate", "kIOPS"),
        ("score", 5, "score", "1"),
    ):
        number(score[group], line)
        result.add(place, name, quantity, score[group], unit, statistic="geometric mean")
    missing = [name for name in _BANDWIDTH + _RATES if values.get(name, 0) <= 0]
    if missing:
        why = "a score needs them all"
        result.find("score-without-phases", f"without a rate: {', '.join(missing)}", why, place)
        return
    bandwidth, rate = (math.exp(sum(math.log(values[n]) for n in names) / len(names)) for names in (_BANDWIDTH, _RATES))
    total = math.sqrt(bandwidth * rate)
    # Six decimals are printed: what their rounding can do to a geometric mean, relative to it.
    loose_bandwidth, loose_rate = (sum(6e-7 / values[n] for n in names) / len(names) for names in (_BANDWIDTH, _RATES))
    result.add(place, "score", "score", total, "1", statistic="geometric mean", derived=True)
    for name, printed, computed, loose in (
        ("bandwidth", float(score[2]), bandwidth, loose_bandwidth),
        ("rate", float(score[4]), rate, loose_rate),
        ("total", float(score[5]), total, (loose_bandwidth + loose_rate) / 2),
    ):
        if abs(printed - computed) > loose * computed + 1e-6:
            what = f"the printed {name} score is {printed:g}, the phases give {computed:.6f}"
            result.find("score-differs", what, "a number was changed, or the score is of other phases", place)
