"""The answer of `reprofs answer -- COMMAND` as text for a terminal."""

from __future__ import annotations

import pandas as pd

from reprofs.data.keys import Setting, distinct
from reprofs.report.marks import Marked, escaped, joined, strong
from reprofs.report.sentences import answer
from reprofs.report.sentences import program as words
from reprofs.report.sentences import recorded as replays
from reprofs.report.text import plain
from reprofs.report.words import slower, time
from reprofs.stats import program, recorded
from reprofs.stats.cells import ENOUGH
from reprofs.stats.compare import FEW
from reprofs.stats.program import Answered, Row

WHY = (
    "Compared: general-purpose file systems for one disk that keep what fsync promises and are in Debian's kernel; "
    "`--filesystem` takes any of `reprofs list`. Each replay is on a new file system, in the exact lab."
)


LEGEND = "Time of all its file-system calls, virtual. Then how much longer others take; ?: too few repetitions to tell."


def text(found: Answered) -> str:
    """The whole page."""
    study, made = found.study, program.rows(found.study)
    parts = [
        strong(study.plan.study.question),
        _sentences(*_of_the_time(found, made)),
        _sentences(replays.summary(program.compared(study).winners), *_unranked(found, made)),
        _table(made),
        Marked(f": {LEGEND}"),
        _items(_what_it_does(found, made)),
        *_changes(found, made),
        _sentences(*_how_sure(found)),
        _sentences(WHY),
        _next(found),
    ]
    return plain("\n\n".join(part for part in parts if part)).rstrip() + "\n"


def _sentences(*told: str) -> Marked:
    return Marked(joined([escaped(one) for one in told if one], " "))


def _items(told: list[str]) -> Marked:
    return Marked("\n".join(f"- {escaped(one)}" for one in told if one))


def _of_the_time(found: Answered, made: list[Row]) -> list[str]:
    if not found.native:
        return ["What the program computes is not known: `reprofs answer -- COMMAND` times it, too."]
    return [
        words.spent(found.native),
        words.matters(found.native, program.widest(made)),
        words.elsewhere(found.native),
    ]


def _unranked(found: Answered, made: list[Row]) -> list[str]:
    """What failed, and what a replay cannot say."""
    trials, head = found.study.trials, found.head
    failed = trials[trials["status"] != "ok"].drop_duplicates("label")
    told = [
        f"{one.label} did not complete on {one.profile}: {str(one.reason).rstrip('.')}." for one in failed.itertuples()
    ]
    foreign = any(not row.verdict for row in made)
    told += [replays.coverage(head, "The recording")] if head.left_out else []
    told.append(words.unshared(found.unshared, head.filesystem))
    return [*told, *replays.caveats(head, "The recording", foreign, False)]


def _table(made: list[Row]) -> Marked:
    """A row a device and cache state; pipes, so that Markdown and terminal have it alike."""
    labels = list(dict.fromkeys(label for row in made for label in sorted(row.ratios)))
    lines = [["device", "caches", "least time", *labels], ["---"] * (3 + len(labels))]
    lines += [[row.device, row.cache, time(row.ns, 3), *(_cell(row, label) for label in labels)] for row in made]
    return Marked(
        "\n".join(f"|{'|'.join(map(escaped, line))}|" if line[0] != "---" else f"|{'|'.join(line)}|" for line in lines)
    )


def _cell(row: Row, label: str) -> str:
    """How much longer than the best, with a question mark where that is not shown; a time where nothing is ranked."""
    if label not in row.ratios:
        return "failed"
    if not row.verdict:
        return time(row.ns * row.ratios[label], 3)
    if label == row.best:
        return row.verdict if row.verdict in ("fastest", "alone") else "least"
    told = slower(row.ratios[label])
    told = f"+{told}" if told.endswith("%") else told
    return f"{told} ?" if label in row.level and row.verdict != "equivalent" else told


def _what_it_does(found: Answered, made: list[Row]) -> list[str]:
    """Which calls take the time, and what reaches the device: on the fastest file system of the last device but one."""
    row = _typical(found, made)
    if not row:
        return []
    times = program.kinds(found.study, row.device, row.cache)
    told = [words.kinds(times.loc[row.best], f"{row.best}, {row.device}, {row.cache}")]
    slowest = max(row.ratios, key=lambda label: row.ratios[label])
    if row.ratios[slowest] >= 1 + found.study.margins["win"]:
        more = (times.loc[slowest] - times.loc[row.best]).rename({recorded.LAST: "last flush"}) / 1e6
        told.append(replays.why(more, f"{row.device}, {row.cache}", slowest, row.best))
    moved = program.traffic(found.study, row.device, row.best)
    return [*told, words.traffic(**moved, where=f"{row.best}, {row.device}, cold")]


def _typical(found: Answered, made: list[Row]) -> Row | None:
    """The replay that sentences are about: the device on which noatime was tried, caches warm."""
    device = program.typical(found.study)
    return next((row for row in made if (row.device, row.cache) == (device, "warm")), None)


def _changes(found: Answered, made: list[Row]) -> list[Marked]:
    """What else was measured, an item each; or that nothing changes it."""
    names = found.study.plan.study.profiles or []
    devices = program.devices(found.study)
    others = program.noatime(found.more) if found.more else []
    if nothing := words.nothing(made, [*devices, *others], found.study.margins["win"]):
        return [_sentences(nothing)]
    before = dict(zip(names[1:], names, strict=False))
    told = [words.change(one, before[one.what]) for one in devices]
    told += [small] if (small := words.small(others, found.study.margins["win"])) else map(words.change, others)
    return [_sentences("What else changes it:"), _items(told)] if told else []


def _how_sure(found: Answered) -> list[str]:
    won = program.compared(found.study).winners
    setting = distinct(found.study.trials, Setting)[0]
    return [replays.how_sure(won), answer.real_machine(found.study, setting, pd.Series(found.study.labels()))]


def _next(found: Answered) -> Marked:
    study = found.study.plan.study
    lines = {
        f"reprofs answer {found.name} --device ssd-nvme": "another device, or --filesystem",
        f"make report STUDY={study.name}": "all of it, with figures",
    }
    if FEW in set(program.compared(found.study).winners["verdict"]):
        lines = {f"reprofs answer {found.name} --rounds {ENOUGH}": "repetitions that tell more"} | lines
    width = max(map(len, lines))
    return Marked("Next:\n\n" + "\n".join(f"    {line:{width}}  # {what}" for line, what in lines.items()))
