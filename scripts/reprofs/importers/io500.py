"""IO500: the result summary, also within the log of its job, and result.txt; with the score computed again.

Units: GiB/s (until late 2020 written GB/s) and kIOPS, times are s. Source: the program, and public results from the
shell script of 2017 on.
"""

import math
import re

from reprofs.importers import Malformed, Result, Source, number

WHAT = "the result_summary.txt or result.txt of io500, or the log that has the summary"

# Until late 2020 the unit is written GB/s and kiops, with `BW   phase 1` in front of the name in the first versions.
_RESULT = re.compile(
    r"\[(RESULT|\s*)(?:[\s-]*(INVALID))?\]\s+(?:(?:BW|IOPS)\s+phase\s+\d+\s+)?(\S+)\s+(\S+)\s+(G(?:i?)B/s|kIOPS)\s*:"
    r"\s*time\s+(\S+)\s+seconds\s*(.*)$",
    re.IGNORECASE,
)
_SCORE = re.compile(
    r"\[(SCOREX?)\s*[\s-]*(?:INVALID|valid)?\s*\]\s+Bandwidth\s+(\S+)\s+(?:GB/s|(GiB/s))\s*:\s*IOPS\s+(\S+)\s+kiops\s*:"
    r"\s*TOTAL\s+(\d+(?:\.\d+)?|\.\d+)(?:\s.*)?$",
    re.IGNORECASE,
)
# A line in brackets that is io500's: its kinds, or blanks. In the log of a job there are others, of its libraries or of
# the first version's shell script. mpirun and srun may put the number of the process in front of each line.
_OWN = re.compile(r"\[\s*(RESULT|INVALID|\])", re.IGNORECASE)
_PROCESS = re.compile(r"(\[\d+,\d+\]<std(out|err)>:|(?<!\d)\d+:) *")
_BANDWIDTH = [f"ior-{kind}-{what}" for kind in ("easy", "hard") for what in ("write", "read")]
_RATES = [f"mdtest-{kind}-{what}" for kind in ("easy", "hard") for what in ("write", "stat", "delete")]
_RATES += ["mdtest-hard-read", "find"]
_PHASES = _BANDWIDTH + _RATES
_SCORES = {"SCORE": "the score", "SCOREX": "the extended score"}
_ERROR = "io500 prints errors for what breaks the rules of the list"
# GB/s of the old versions are 2^30 bytes too: they divided ior's MiB by 1024 (io500_fixed.sh of io-500-dev).
_UNITS = {"gib/s": ("throughput", "GiB/s"), "gb/s": ("throughput", "GiB/s"), "kiops": ("rate", "kIOPS")}


def read(source: Source) -> Result:
    """Rate and time of each phase, the printed scores and the score computed from the phases.

    Raises Malformed for a line that cannot be read, and without the score unless all phases that it is made of are
    there.
    """
    result = Result(source.name, {"tool": "io500"})
    if re.search(r"^(\[run\]|result-dir\s*=.*)\s*$", source.text, re.MULTILINE):
        return _long(source, result)
    values: dict = {}
    scored, wanted, invalid = set(), {"SCORE"}, []
    for at, line in enumerate(source.text.splitlines(keepends=True), 1):
        ends, line = line.endswith("\n"), _PROCESS.sub("", line.strip(), 1)
        marked = "INVALID" in line.upper()
        if found := re.match(r"IO500 version (\S+)", line):
            result.common["tool_version"] = found[1]
            wanted |= {"SCOREX"} if line.endswith("(extended)") else set()
        elif line.startswith("ERROR"):
            result.find("invalid", f"a line says: {line}", _ERROR, at)
        elif line.upper().startswith("[SCORE"):
            found = _SCORE.match(line)
            # Six decimals are whole; the first version printed fewer, which only the end of the line tells from a part.
            if not found or not (re.fullmatch(r"\d+\.\d{6}", found[5]) or (ends and not found[3])):
                raise Malformed(at, "the line of the score is cut short or of an unknown version")
            kind, printed = found[1].upper(), [(found[group], at) for group in (2, 4, 5)]
            _score(result, kind, printed, values, first=not found[3])
            scored.add(kind)
            invalid += [_SCORES[kind]] if marked else []
        elif _OWN.match(line):
            invalid += _phase(result, at, line, marked, values)
    if wanted - scored:
        missing = min(wanted - scored)
        if missing != "SCORE" or any(name not in values for name in _PHASES):
            raise Malformed(source.last, f"the line of the score ('[{missing}') is missing up to the end")
        _no_end(result, values, source.last)
    _invalid(result, invalid)
    return result


def _phase(result: Result, at: int, line: str, marked: bool, values: dict) -> list[str]:
    """The rows of a phase; its name if it is marked as invalid."""
    found = _RESULT.match(line)
    if not found:
        raise Malformed(at, "the line is cut short or of an unknown version")
    name, (quantity, unit) = found[3], _UNITS[found[5].lower()]
    rate, seconds = number(found[4], at), number(found[6], at)
    if name == "timestamp":
        return []  # it makes the file that find compares with, and has no rate
    # In the list's names the first versions have an underscore.
    values[name.replace("_", "-")] = (rate, found[4])
    result.add(at, name, quantity, found[4], unit, iteration=0)
    result.add(at, name, "time", found[6], "s", iteration=0)
    if not marked:
        _short(result, name, seconds, at)
    return [name] if marked else []


def _long(source: Source, result: Result) -> Result:
    """result.txt: a section a phase, with its rate (score), its time, and its rate until the stonewall.

    A phase that has no score yet is left out: io500 writes while it runs. Raises Malformed when none has one.
    """
    values: dict = {}
    scores: dict = {}  # section -> key -> text, line
    section, invalid = "", []
    for at, line in enumerate(source.text.splitlines(keepends=True), 1):
        ends, line = line.endswith("\n"), line.strip()
        key, equal, text = (words.strip() for words in line.partition("="))
        if found := re.fullmatch(r"\[([\w-]+)\]", line):
            section = found[1]
        elif re.match(r"; *ERROR", line):
            result.find("invalid", f"a line says: {line}", _ERROR, at)
            invalid += [section] if section and section not in invalid else []
        elif line.startswith(";") or not equal or not ends:
            continue  # of a line that does not end the number may not be whole
        elif key == "version":
            result.common["tool_version"] = text
        elif section in _SCORES:
            scores.setdefault(section, {})[key] = (text.removesuffix("[INVALID]").strip(), at)
            invalid += [_SCORES[section]] if "[INVALID]" in text else []
        else:
            _value(result, at, section, key, text, values)
    if not values:
        raise Malformed(source.last, "no phase has a score up to the end")
    for kind, own in scores.items():
        if {"BW", "MD", "SCORE"} <= set(own):
            _score(result, kind, [own["BW"], own["MD"], own["SCORE"]], values)
    if "SCORE" not in scores.get("SCORE", {}):
        _no_end(result, values, source.last)
    _invalid(result, invalid)
    return result


def _value(result: Result, at: int, section: str, key: str, text: str, values: dict) -> None:
    """The row of a line of a phase's section."""
    quantity, unit = _UNITS["gib/s" if section.startswith("ior") else "kiops"]
    if key in ("throughput-stonewall", "rate-stonewall"):
        result.add(at, f"{section} (stonewall)", quantity, text, unit, iteration=0)
    elif key == "score":
        values[section] = (number(text, at), text)
        result.add(at, section, quantity, text, unit, iteration=0)
    elif key == "t_delta" and section in values:
        _short(result, section, number(text, at), at)
        result.add(at, section, "time", text, "s", iteration=0)


def _short(result: Result, name: str, seconds: float, at: int) -> None:
    if name.endswith("write") and seconds < 300:
        result.find("short-write", f"{name} wrote for {seconds:g} s only",
                    "the rules ask for 300 s, so that caches do not decide", at)  # fmt: skip


def _no_end(result: Result, values: dict, line: int) -> None:
    lack = sum(name not in values for name in _PHASES)
    what = "the score is missing up to the end" + (f", and so are {lack} of its {len(_PHASES)} phases" if lack else "")
    result.find("no-end", what, "the run ended early, or the text is cut short", line)


def _invalid(result: Result, names: list[str]) -> None:
    if names:
        what = f"marked INVALID by io500: {', '.join(names)}"
        result.find("invalid", what, "these numbers break the rules of the list, so they do not compare with others")


def _score(result: Result, kind: str, printed: list[tuple[str, int]], values: dict, first: bool = False) -> None:
    """The rows of a score, and whether it is that of the phases. That of an extended run has phases of its own.

    printed: text and line of bandwidth, rate and total; first: as the first versions printed it, whose total may be the
    product.
    """
    extended, at = "extended " if kind == "SCOREX" else "", printed[2][1]
    for (text, line), name, quantity, unit in zip(
        printed,
        ("bandwidth score", "rate score", "score"),
        ("throughput", "rate", "score"),
        ("GiB/s", "kIOPS", "1"),
        strict=True,
    ):
        result.add(line, extended + name, quantity, text, unit, statistic="geometric mean")
    if extended:
        return
    missing = [name for name in _PHASES if values.get(name, (0, ""))[0] <= 0]
    if missing:
        why = "a score needs them all"
        result.find("score-without-phases", f"without a rate: {', '.join(missing)}", why, at)
        return
    (bandwidth, loose_bandwidth), (rate, loose_rate) = (_mean(values, names) for names in (_BANDWIDTH, _RATES))
    total, said = math.sqrt(bandwidth * rate), [text for text, _ in printed]
    result.add(at, "score", "score", total, "1", statistic="geometric mean", derived=True)
    if first and abs(float(said[2]) / (bandwidth * rate) - 1) <= loose_bandwidth + loose_rate + 0.001:
        why = "later versions take the root of that, so totals do not compare"
        result.find("score-is-product", f"the printed total {said[2]} is bandwidth times rate", why, at)
        return
    for name, text, computed, loose in (
        ("bandwidth", said[0], bandwidth, loose_bandwidth),
        ("rate", said[1], rate, loose_rate),
        ("total", said[2], total, (loose_bandwidth + loose_rate) / 2),
    ):
        if abs(float(text) - computed) > loose * computed + 2 * _half_digit(text):
            what = f"the printed {name} score is {float(text):g}, the phases give {computed:.6f}"
            result.find("score-differs", what, "a number was changed, or the score is of other phases", at)


def _mean(values: dict, names: list[str]) -> tuple[float, float]:
    """The geometric mean of rates, and what the rounding of their printed digits can do to it, relative to it."""
    loose = sum(1.2 * _half_digit(values[name][1]) / values[name][0] for name in names) / len(names)
    return math.exp(sum(math.log(values[name][0]) for name in names) / len(names)), loose


def _half_digit(printed: str) -> float:
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])
