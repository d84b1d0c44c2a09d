"""Sentences of the answer: who is fastest, how sure that is, and on what it was measured."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from reprofs.data.keys import Load, Setting, distinct, select
from reprofs.plan.cell import Cell, lab_parts, taken_apart
from reprofs.plan.processor import Order
from reprofs.report.marks import Marked, strong
from reprofs.report.words import count, counts, digits, first_upper, known, listing, longer, size, slower, time, verb
from reprofs.stats import trust
from reprofs.stats.cells import FLOOR
from reprofs.stats.compare import FEW
from reprofs.stats.study import Study

HERE = " in this lab"
SEVERAL = 1.5  # file systems whose sizes differ by this factor are of several sizes, not of several kinds


def fastest(rows: pd.DataFrame, title: str, small: bool = False, here: bool = False) -> str:
    """The fastest file system of a workload. rows: of `totals.ranked`, one workload and setting; title: the workload's.

    small: the difference is of those that did not carry over to a real machine; here: something in it was never
    compared with one (`trust.only_here`).

    `**ext4 is fastest in this lab**: life cycle of a tree takes 258 ms; nilfs2 takes 3.3 % longer, f2fs 85 % longer.`
    """
    ranked = rows[rows["role"] == "contender"]
    if ranked.empty:
        return f"No file system completed: {title}."
    best, (verdict, *_) = ranked.iloc[0], ranked["verdict"]
    front = list(ranked.loc[ranked["verdict"] == verdict, "label"])
    took = f"{title} takes {time(best['geometric_mean_ns'], 3)}"
    place = HERE if small or here else ""
    if verdict == "alone":
        return f"Only {best['label']} has a result: {took}."
    rest = _others(ranked, small)
    if (ranked["n"] == 1).all():
        return f"{best['label']} took the least time, but one repetition shows no difference: {took}{rest}."
    if verdict == "fastest":
        return strong(f"{best['label']} is fastest{place}") + Marked(": ") + f"{took}{rest}."
    names = strong(listing(front, most=4))
    how = "are equally fast" if verdict == "equally fast" else "are not significantly different"
    if verdict == FEW:
        how = f"cannot be told apart by {count(int(best['n']), 'repetition')}"
    how += place
    return names + f" {how}: {took} on {best['label']}{rest}."


def summary(rows: pd.DataFrame, here: bool = False) -> str:
    """In how many workloads each file system is fastest. rows: of `totals.ranked`, one setting; here: as in `fastest`.

    `**f2fs is fastest in 6 of 10 workloads**, xfs in 3; in 1 no file system is significantly fastest.`
    """
    ranked = rows[rows["role"] == "contender"]
    total = ranked["workload"].nunique()
    return wins(ranked.loc[ranked["verdict"] == "fastest", "label"], total, "workload", HERE if here else "")


def wins(fastest: pd.Series, total: int, noun: str, place: str = "") -> str:
    """In how many of `total` each file system is fastest, the most first. fastest: labels, one where there is one."""
    won = fastest.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    if won.empty:
        return f"In none of {count(total, noun)} is one file system significantly fastest{place}."
    (label, number), *others = won.items()
    told = strong(f"{label} is fastest in {number} of {count(total, noun)}{place}")
    told += "".join(f", {other} in {times}" for other, times in others)
    left = total - int(won.sum())
    return told + (f"; in {left} no file system is significantly fastest." if left else ".")


def _others(ranked: pd.DataFrame, small: bool) -> str:
    """The next and the slowest; ranked: contenders, the fastest first."""
    paired = ranked[1:].dropna(subset="ratio")
    if paired.empty:
        return ""
    near, far = paired.iloc[0], paired.iloc[-1]
    told = f"; {near['label']} takes {longer(near['ratio'])}"
    told += f", {far['label']} {longer(far['ratio'])}" if len(paired) > 1 else ""
    return told + (". The smaller difference may not hold on a real machine" if small else "")


def family(study: Study, setting: Setting) -> str:
    """What the verdicts of a setting are corrected over, after a caption; empty for one test."""
    tests = int(select(study.results.cheapest, setting)["p"].notna().sum())
    return f" Verdicts are Holm-corrected over its {tests} workloads." if tests > 1 else ""


def how_sure(study: Study, ranked: pd.DataFrame) -> list[str]:
    """How sure rankings are: repetitions, corrections, and what a real machine showed. ranked: of `totals.ranked`.

    A sentence of all settings of which the same is known; several name theirs.
    """
    alike: dict[tuple[str, str], list[Setting]] = {}
    for setting in distinct(ranked, Setting):
        rows = select(ranked, setting)
        told = counts(rows["n"], "repetition")
        tests = int(select(study.results.cheapest, setting)["p"].notna().sum())
        told += (
            f", Holm-corrected over {tests} workload totals" if tests > 1 else "" if tests else "; nothing was tested"
        )
        if study.lab(setting.lab).exact:
            told += f"; intervals contain the {100 * FLOOR:g} % that another build of the lab may change"
        alike.setdefault((told, machine(study, setting, rows["label"])), []).append(setting)
    found = []
    for (told, known_of), settings in alike.items():
        where = f" ({listing((study.differing(one) for one in settings), most=4)})" if len(alike) > 1 else ""
        more = not_compared(study, settings, pd.concat(select(ranked, one)["label"] for one in settings))
        found.append(" ".join(filter(None, [f"How sure{where}: {told}.", known_of, more])))
    return found


def real_machine(study: Study, setting: Setting, labels: pd.Series) -> str:
    """How far differences of an exact lab held on a real machine; empty where the lab's own clock is real."""
    return " ".join(filter(None, [machine(study, setting, labels), not_compared(study, [setting], labels)]))


def machine(study: Study, setting: Setting, labels: pd.Series) -> str:
    """`real_machine` without what was not compared there."""
    if not trust.processor(study, setting.lab):
        return ""
    if missing := trust.unmeasured(study, setting.lab, labels):
        return f"No real machine was compared for {missing}."
    found = trust.known(study, setting.lab)
    assert found  # else it is unmeasured
    own = study.trials.loc[study.trials["label"].isin(list(labels)), "filesystem"]
    return " ".join(filter(None, [bands(found.order), biased(found.order, own)]))


def not_compared(study: Study, settings: Iterable[Setting], labels: pd.Series) -> str:
    """File systems and device models of these settings that no real machine was compared for; empty if all were.

    `Not part of that test: zfs, device models hdd-7200 and ssd.`
    """
    outside = [trust.outside(study, one, labels) for one in settings if not trust.unmeasured(study, one.lab, labels)]
    names = sorted({name for own, _ in outside for name in own})
    devices = list(dict.fromkeys(device for _, device in outside if device))
    parts = [*names, *([_named("device model", devices)] if devices else [])]
    return f"Not part of that test: {listing(parts)}." if parts else ""


def _named(what: str, names: Iterable[str]) -> str:
    """`device models hdd-7200 and ssd`."""
    found = list(dict.fromkeys(names))
    return f"{what}{'s' * (len(found) > 1)} {listing(found, most=4)}"


def bands(order: Order) -> str:
    """How often differences had the same sign on a real machine, by their size: the one place that says it.

    `On one real machine 0 of 3 differences of single operations from 2 % to 10 % had the same sign, 0 of 4 from 10 %
    to 50 %, 13 of 15 above. Totals had the same order.`
    """
    parts: list[str] = []
    low = order.least
    for one in order.leads:
        which = f"from {_percent(low)} to {_percent(one.below)}" if low and one.below else "above"
        which = f"below {_percent(one.below)}" if one.below and not low else which
        parts.append(f"{one.same} of {one.leads} {'differences of single operations ' if not parts else ''}{which}")
        low = one.below or low
        parts[-1] += " had the same sign" if len(parts) == 1 else ""
    whole = f" Totals had {'the same order' if order.same_order() else 'another order'}." if order.totals else ""
    return f"On one real machine {', '.join(parts)}.{whole}"


def biased(order: Order, filesystems: Iterable[str]) -> str:
    """How the size of a difference was off there: `btrfs over xfs: 1.89 in the exact lab, 1.33 there.`

    Empty where the two ratios are within 10 %, or two of the file systems were not compared.
    """
    found = trust.bias(order, filesystems)
    if not found or 1 / 1.1 < found[2] / found[3] < 1.1:
        return ""
    slow, fast, lab, machine = found
    return f"{first_upper(slow)} over {fast}: {digits(lab, 3)} in the exact lab, {digits(machine, 3)} there."


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def setup(study: Study, ranked: pd.DataFrame) -> str:
    """On what rankings were measured: device models, sizes, stacks, labs, CPU models, kernels, memory, scales.

    ranked: of `totals.ranked`. Empty where nothing was ranked.
    `Setup: device models hdd-7200 and ssd (3.81 GiB), stack single, lab exact, CPU model v2-0.5ns, scale smoke.`
    """
    settings = distinct(ranked, Setting)
    if not settings:
        return ""
    places = [lab_parts(setting.lab) for setting in settings]
    on_devices = study.trials[study.trials["role"] != "ceiling"]  # tmpfs has the memory of the guest
    rooms = [select(on_devices, setting, status="ok")["mounted_total_bytes"].dropna() for setting in settings]
    room = pd.concat(rooms)
    several = len(room) > 0 and room.max() > SEVERAL * room.min()
    sizes = [size(end) for end in ((room.min(), room.max()) if several else (room.median(),))] if len(room) else []
    parts = [_named("device model", (one.profile for one in settings))]
    parts[0] += f" ({' to '.join(sizes)})" if sizes else ""
    parts += [_named("stack", (one.stack for one in settings)), _named("lab", (one.lab for one in places))]
    processors, kernels = ([getattr(one, key) for one in places] for key in ("processor", "kernel"))
    parts += [_named("CPU model", filter(None, processors))] if any(processors) else []
    parts += [_named("kernel", filter(None, kernels))] if any(kernels) else []
    limits = [f"{one.memory_mib} MiB" for one in places if one.memory_mib]
    parts += [f"memory {listing(dict.fromkeys(limits))}"] if limits else []
    parts += [_named("scale", ranked["scale"])]
    return f"Setup: {', '.join(parts)}."


def amount(study: Study, setting: Setting, load: Load) -> str:
    """How much a workload does: `1,000 files, 11 MiB`; empty where its title says it."""
    entry = study.plan.workloads[load.workload]
    key = entry.size or "files"
    number, noun = entry.parameters.get(key), key.replace("_", " ")
    parts = [count(number, noun.removesuffix("s"), noun)] if isinstance(number, int) else []
    content = select(study.phases, setting, load, status="ok")["bytes"].max()
    parts += [size(content)] if known(content) and content else []
    return ", ".join(words for words in parts if words not in entry.title)


def no_total(title: str, why: str | None) -> str:
    """A workload without a total, and why. why: None where no file system completed it."""
    return f"{title}: no total, because {why}." if why else f"{title}: no file system completed it."


def opening(study: Study) -> str:
    """The question of a study, as shown before its answer."""
    return study.opening(study.plan.study.question.strip())


def small_scale(study: Study) -> str:
    """That a study is a demonstration, and how to run a larger one; empty where it is none."""
    if not study.demonstration:
        return ""
    own = study.plan.study
    override = f" {own.override.text}" if own.override else ""
    command = f"make report STUDY={own.name.partition('+')[0]}@laptop{override}"
    return f"A demonstration: at scale smoke a tree fits in memory and in a journal; for large trees run `{command}`."


def incomplete(study: Study) -> str:
    """How many trials have no complete result, and why; empty where all have.

    `14 of 66 trials have no complete result: 14 findings.`
    """
    missing = study.ended[study.ended != "ok"]
    if missing.empty:
        return ""
    told = f"{len(missing):,} of {count(len(study.trials), 'trial')} {verb(len(missing), 'has', 'have')}"
    return f"{told} no complete result: {ends(missing)}."


def ends(missing: pd.Series) -> str:
    """`14 findings, 3 unavailable here and 1 failed`. missing: of `Study.ended`, without `ok`."""
    words = {"finding": "finding", "unavailable": "unavailable here", "failed": "failed"}
    counts = {kind: int((missing == kind).sum()) for kind in words}
    return listing(
        count(number, words[kind], None if kind == "finding" else words[kind])
        for kind, number in counts.items()
        if number
    )


def not_durable(study: Study) -> list[str]:
    """Variants that are not durable, with the reason; excluded from rankings."""
    found: dict[str, str] = {}
    rows = select(study.trials, role="no-promise").sort_values("label")
    for row in rows.drop_duplicates(["label", "stack", "profile"]).to_dict("records"):
        cell = Cell.model_construct(**taken_apart(row))
        own = study.plan.filesystems[cell.filesystem].variants[cell.variant].promise
        stack = study.plan.stacks.get(cell.stack)
        place = f"stack {cell.stack}" if stack and stack.why else cell.profile
        found.setdefault(row["label"] if own else f"everything on {place}", study.plan.unkept(cell))
    return [f"{label} is not ranked, because fsync is not durable: {why}." for label, why in found.items()]


def not_cold(study: Study) -> list[str]:
    """File systems that are not ranked in a workload, because a cold phase is not proved to be cold.

    `cephfs is not ranked in mdtest: in content-stat cold caches are not proved (too little was read).`
    """
    found = []
    rows = select(study.phases, role="not-cold").sort_values("label")
    for label, own in rows.groupby("label", sort=True):
        where, phases = listing(sorted(set(own["workload"])), most=4), listing(sorted(set(own["phase"])), most=4)
        why = f"in {phases} cold caches are not proved (too little was read)"
        found.append(f"{label} is not ranked in {where}: {why}.")
    return found


def weighted(study: Study, setting: Setting, load: Load, rows: pd.DataFrame) -> str:
    """How the answer changes with the time of an instruction on the real machine; empty where that is not known."""
    own = trust.weighted(study, setting, load)
    ranked = rows[rows["role"] == "contender"]
    if own is None or len(ranked) < 2 or not known(ranked["ratio"].iloc[1]):
        return ""
    best, near = ranked.iloc[0], ranked.iloc[1]
    told = f"With a real machine's time for each instruction {own['best']} would be fastest"
    told += f", {own['runner_up']} {longer(own['ratio'])}"
    same = (best["label"], near["label"]) == (own["best"], own["runner_up"])
    return told + (f" (here {slower(near['ratio'])})." if same else f" (here {best['label']}).")


def turns(family: pd.DataFrame) -> str:
    """Whether the fastest stays the same wherever a workload ran. family: rows of `totals.places`."""
    won = family.loc[family["verdict"] == "fastest", "best"].value_counts().sort_index()
    where = count(len(family), "setting or size", "settings and sizes")
    if won.empty:
        return f"{family['family'].iloc[0]} ran in {where}; in none of them is one file system significantly fastest."
    wins = listing(f"{label} in {number}" for label, number in won.items())
    return f"{family['family'].iloc[0]} ran in {where}; significantly fastest: {wins}."


def constant(study: Study) -> str:
    """What the study has only one of, so that it cannot say what a change would do; empty where it varies all."""
    one = {"lab": "lab and CPU model", "stack": "stack", "profile": "device model", "scale": "scale"}
    found = [words for key, words in one.items() if study.trials[key].nunique() == 1]
    return f"The study has one {listing(found)}: what a change would do was not measured." if found else ""


def md_thread(stacks: list[str]) -> Marked:
    """That streams over many disks of RAID 5 and 6 measure MD's thread. stacks: their names; empty without any."""
    if not stacks:
        return Marked("")
    names = listing(stacks) if len(stacks) <= 6 else count(len(stacks), "stack")
    return Marked(f"On {names} a stream is limited by MD's thread, not by the disks (`docs/methods/limits.md`).")
