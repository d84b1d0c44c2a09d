"""IO500: the result summary, with the score computed again."""

import math
import re

from reprofs.importers import Malformed, Result, Source, number

WHAT = "the result_summary.txt of io500"

# Until late 2020 the unit is written GB/s and kiops, with `BW   phase 1` in front of the name in the first versions.
_RESULT = re.compile(
    r"\[(RESULT|\s*)(?:[\s-]*(INVALID))?\]\s+(?:(?:BW|IOPS)\s+phase\s+\d+\s+)?(\S+)\s+(\S+)\s+(G(?:i?)B/s|kIOPS)\s*:"
    r"\s*time\s+(\S+)\s+seconds\s*(.*)$",
    re.IGNORECASE,
)
_SCORE = re.compile(
    r"\[(SCOREX?)\s*[\s-]*(?:INVALID|valid)?\s*\]\s+Bandwidth\s+(\S+)\s+(?:GB/s|(GiB/s))\s*:\s*IOPS\s+(\S+)\s+kiops\s*:"
    r"\s*TOTAL\s+(\d*\.?\d+)(?:\s.*)?$",
    re.IGNORECASE,
)
# What the shell script that was the first version says on its way.
_SAID = re.compile(
    r"\[(Summary|Starting|Exec|Results|Find|Warning|Leaving|Removing|Creating|Skipping)\]", re.IGNORECASE
)
_BANDWIDTH = [f"ior-{kind}-{what}" for kind in ("easy", "hard") for what in ("write", "read")]
_RATES = [f"mdtest-{kind}-{what}" for kind in ("easy", "hard") for what in ("write", "stat", "delete")]
_RATES += ["mdtest-hard-read", "find"]
# GB/s of the old versions are 2^30 bytes too: they divided ior's MiB by 1024 (io500_fixed.sh of io-500-dev).
_UNITS = {"gib/s": ("throughput", "GiB/s"), "gb/s": ("throughput", "GiB/s"), "kiops": ("rate", "kIOPS")}


def read(source: Source) -> Result:
    """Rate and time of each phase, the printed scores and the score computed from the phases.

    Raises Malformed for a line that cannot be read and when the last line, the score, is missing.
    """
    result = Result(source.name, {"tool": "io500"})
    values: dict = {}
    scored, wanted, invalid, line_number = set(), {"SCORE"}, [], 0
    for line_number, line in enumerate(source.text.splitlines(keepends=True), 1):
        ends, line, place = line.endswith("\n"), line.strip(), f"line {line_number}"
        if found := re.match(r"IO500 version (\S+)", line):
            result.common["tool_version"] = found[1]
            wanted |= {"SCOREX"} if line.endswith("(extended)") else set()
        elif line.startswith("ERROR"):
            result.find("invalid", f"io500 said: {line}", "the run does not keep the rules of the list", place)
        elif line.upper().startswith("[SCORE"):
            found = _SCORE.match(line)
            # Six decimals are whole; the first version printed fewer, which only the end of the line tells from a part.
            whole = found and (re.fullmatch(r"\d+\.\d{6}", found[5]) or (ends and not found[3]))
            if not found or not whole:
                raise Malformed(line_number, "the line of the score is cut short or of an unknown version")
            _score(result, found, values, line_number)
            scored.add(found[1].upper())
            if "INVALID" in line.upper():
                invalid.append("the score" if found[1].upper() == "SCORE" else "the extended score")
        elif line.startswith("[") and not _SAID.match(line):
            found = _RESULT.match(line)
            if not found:
                raise Malformed(line_number, "the line is cut short or of an unknown version")
            name, (quantity, unit) = found[3], _UNITS[found[5].lower()]
            rate, seconds = number(found[4], line_number), number(found[6], line_number)
            if name == "timestamp":
                continue  # it makes the file that find compares with, and has no rate
            # In the list's names the first versions have an underscore.
            values[name.replace("_", "-")] = (rate, found[4])
            result.add(place, name, quantity, found[4], unit, iteration=0)
            result.add(place, name, "time", found[6], "s", iteration=0)
            if "INVALID" in line.upper():
                invalid.append(name)
            elif name.endswith("write") and seconds < 300:
                result.find("short-write", f"{name} wrote for {seconds:g} s only",
                            "the rules ask for 300 s, so that caches do not decide", place)  # fmt: skip
    if wanted - scored:
        missing = min(wanted - scored)
        raise Malformed(line_number or 1, f"the line of the score ('[{missing}') is missing up to the end")
    if invalid:
        what = f"marked INVALID by io500: {', '.join(invalid)}"
        result.find("invalid", what, "these numbers break the rules of the list, so they do not compare with others")
    return result


def _score(result: Result, score: re.Match, values: dict, line: int) -> None:
    """The rows of a score, and whether it is that of the phases. That of an extended run has phases of its own."""
    place, kind = f"line {line}", "extended " if score[1].upper() == "SCOREX" else ""
    for name, group, quantity, unit in (
        ("bandwidth score", 2, "throughput", "GiB/s"),
        ("rate score", 4, "rate", "kIOPS"),
        ("score", 5, "score", "1"),
    ):
        number(score[group], line)
        result.add(place, kind + name, quantity, score[group], unit, statistic="geometric mean")
    if kind:
        return
    missing = [name for name in _BANDWIDTH + _RATES if values.get(name, (0, ""))[0] <= 0]
    if missing:
        why = "a score needs them all"
        result.find("score-without-phases", f"without a rate: {', '.join(missing)}", why, place)
        return
    (bandwidth, loose_bandwidth), (rate, loose_rate) = (_mean(values, names) for names in (_BANDWIDTH, _RATES))
    total = math.sqrt(bandwidth * rate)
    result.add(place, "score", "score", total, "1", statistic="geometric mean", derived=True)
    if not score[3] and abs(float(score[5]) / (bandwidth * rate) - 1) <= loose_bandwidth + loose_rate + 0.001:
        why = "later versions take the root of that, so totals do not compare"
        result.find("score-is-product", f"the printed total {score[5]} is bandwidth times rate", why, place)
        return
    for name, printed, computed, loose in (
        ("bandwidth", score[2], bandwidth, loose_bandwidth),
        ("rate", score[4], rate, loose_rate),
        ("total", score[5], total, (loose_bandwidth + loose_rate) / 2),
    ):
        if abs(float(printed) - computed) > loose * computed + 2 * _half_digit(printed):
            what = f"the printed {name} score is {float(printed):g}, the phases give {computed:.6f}"
            result.find("score-differs", what, "a number was changed, or the score is of other phases", place)


def _mean(values: dict, names: list[str]) -> tuple[float, float]:
    """The geometric mean of rates, and what the rounding of their printed digits can do to it, relative to it."""
    loose = sum(1.2 * _half_digit(values[name][1]) / values[name][0] for name in names) / len(names)
    return math.exp(sum(math.log(values[name][0]) for name in names) / len(names)), loose


def _half_digit(printed: str) -> float:
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])
