"""Sentences computed from the data: the answer, the findings, the methods, the threats. Each function returns Prose.

Every sentence must hold for any study: no trial completed, one file system, one round, several settings.
"""

import pandas as pd

from . import stats, tables, words
from .dataset import Results, Study
from .words import Prose, code, count, digits, first_upper, listing, opening, percent, span, time, verb

# What the clock of a lab means: the same words wherever its numbers are shown.
CLOCKS = {
    "exact": (
        "In the exact lab time is counted instructions (one is one nanosecond) plus the modelled time of the devices."
        " There are no processor caches, no other processors and no contention for locks, so a real machine may rank"
        " file systems differently."
    ),
    "vm": (
        "In the lab vm time is the real time of a virtual machine. Emulation or virtualisation of the processor and"
        " whatever else ran on the host are part of it."
    ),
    "host": (
        "In the lab host time is the real time of this machine's own kernel. Whatever else ran on it is part of the"
        " times."
    ),
    "mount": (
        "In the lab mount time is the real time of a directory that was there before. Its state, its devices, and"
        " whoever else used it are part of the times; caches cannot be proved cold."
    ),
}


def question(study: Study) -> Prose:
    """The question of the study, as its file asks it."""
    return Prose(study.plan["study"].get("question", study.plan["study"].get("title", study.plan["study"]["name"])))


def answer(study: Study, results: Results) -> Prose:
    """The answer first: for every main setting the ranking and the wins, then what stacks and labs change."""
    ranked = tables.settings(results.ranks)
    chosen = [setting for setting in tables.main_settings(study) if setting in ranked]
    paragraphs = [] if chosen else ["No contender completed a trial, so there is no answer."]
    for setting in chosen:
        place = tables.differing(study, setting)
        head = f"**{first_upper(place)}.** " if place else ""
        paragraphs.append(head + _ranking(results, setting))
        paragraphs.append(_wins(study, results, setting))
    paragraphs += [_stacks(study, results, place) for place in tables.places(study)]
    paragraphs += [_rebuilds(results, lab) for lab in sorted(set(results.rebuilds["lab"]))]
    paragraphs.append(_promises(study.phases))
    paragraphs.append(agreement(study, results).text)
    bad = study.trials[study.trials["status"] != "ok"]
    if len(bad):
        skipped = int((bad["status"] == "skipped").sum())
        why = f", {skipped:,} of them because the lab cannot run {verb(skipped, 'it', 'them')}" if skipped else ""
        paragraphs.append(
            f"Of {count(len(study.trials), 'trial')} {len(bad):,} {verb(len(bad), 'has', 'have')} no complete"
            f" result{why}; {verb(len(bad), 'it is', 'they are')} listed in []({_anchor('failures')})."
        )
    clocks = [CLOCKS[lab] for lab in sorted({setting[0] for setting in chosen}) if lab in CLOCKS]
    return Prose(*paragraphs, *clocks)


def _stacks(study: Study, results: Results, place: tuple) -> str:
    """What the stacks change at one place: the range of typical costs, and what a fault costs."""
    lab, profile, workload, _ = place
    chosen = tables.select(results.typical, tables.PLACE, place).query("role != 'ceiling'")
    if chosen.empty:
        return ""
    lines = []
    plain = chosen[chosen["relation"] == "base"]
    for label, group in list(plain.groupby("label"))[:5]:
        ordered = group.sort_values(["ratio", "stack"])
        low, high = ordered.iloc[0], ordered.iloc[-1]
        other = f" to {_times(high)} on {high['stack']}" if len(ordered) > 1 else ""
        lines.append(f"{label}: {_times(low)} on {low['stack']}{other}, each relative to {low['reference']}.")
    more = plain["label"].nunique() - len(lines)
    if more > 0:
        lines.append(f"{opening(more, 'more file system')}: see []({_anchor('stacks', *place, 0)}).")
    # Where every stack is beside a common one, the cost of a fault has its table further down.
    for (stack, reference), group in [] if len(plain) else chosen.groupby(["stack", "reference"], sort=False):
        costs = listing(f"{row['label']} {_times(row)}" for _, row in group.sort_values("label").iterrows())
        lines.append(f"{stack} relative to {reference}: {costs}.")
    head = (
        f"**Stacks, {workload}{_elsewhere(study, lab, profile)}.** Time relative to the same file system on another"
        f" stack, geometric mean over all operations with its 95 % interval:"
    )
    return f"{head}\n\n" + "\n".join(f"* {line}" for line in lines)


def _elsewhere(study: Study, lab: str, profile: str) -> str:
    """The lab and the profile, where there are several."""
    parts = [f"lab {lab}"] if study.trials["lab"].nunique() > 1 else []
    parts += [f"device profile {profile}"] if study.trials["profile"].nunique() > 1 else []
    return "".join(f", {part}" for part in parts)


def _times(row) -> str:
    bounds = span(row["low"], row["high"], significant=3)
    return digits(row["ratio"], 3) + (f" ({bounds})" if bounds != words.DASH else "")


def _rebuilds(results: Results, lab: str) -> str:
    ordered = results.rebuilds[results.rebuilds["lab"] == lab].sort_values(["mean_ns", "label"])
    first, last = ordered.iloc[0], ordered.iloc[-1]
    text = (
        f"**Rebuild, lab {lab}.** While the workload ran, the array was whole again after {time(first['mean_ns'], 3)}"
    )
    where = lambda row: f"{row['label']}, {row['stack']}"  # noqa: E731
    if len(ordered) == 1:
        return f"{text} ({where(first)})."
    return f"{text} ({where(first)}) to {time(last['mean_ns'], 3)} ({where(last)})."


def _promises(phases: pd.DataFrame) -> str:
    """Who kept what fsync promised when the power was cut, in failed trials too; empty where nothing was promised."""
    told = phases[phases["crash_promised"].fillna(0) > 0]
    sums = told.groupby("label")[["crash_promised", "crash_broken"]].sum()
    kept, broken = sums[sums["crash_broken"] == 0], sums[sums["crash_broken"] > 0]
    parts = []
    if len(kept):
        files = count(int(kept["crash_promised"].sum()), "file")
        parts.append(
            f"What fsync had promised before the power was cut was whole afterwards on {listing(kept.index)} ({files})."
        )
    if len(broken):
        each = [f"{row.Index} {row.crash_broken:,} of {row.crash_promised:,} files" for row in broken.itertuples()]
        parts.append(f"Of what fsync had promised there were lost or damaged: on {listing(each)}.")
    return " ".join(["**Power cuts.**", *parts]) if parts else ""


def agreement(study: Study, results: Results) -> Prose:
    """How far the order of file systems in one lab can be trusted in another: a sentence or two for two labs."""
    parts = []
    for row in results.agreement.itertuples():
        place = tables.differing(study, ("", row.stack, row.profile)).removeprefix("lab , ").removeprefix("lab ")
        where = f", {place}" if place else ""
        told = (
            f"of {count(row.told, 'pair')} of file systems that both labs tell apart, {row.same:,}"
            f" ({percent(row.same / row.told)}) have the same order in both"
            if row.told
            else "no pair of file systems is told apart by both labs"
        )
        interval = f" (95 % interval {span(row.low, row.high, significant=2)})" if not pd.isna(row.low) else ""
        parts.append(
            f"**Agreement of {row.a} and {row.b}{where}.** Over {count(row.operations, 'operation')}, {told}; Kendall's"
            f" τ-b between the orders is {digits(row.tau, 2)} on average{interval}."
            f" So in the lab {row.b} the order of the lab {row.a} holds {_trust(row)}."
        )
    return Prose(*parts)


def _trust(row) -> str:
    """A word for a share of pairs with the same order, never better than its data."""
    if not row.told:
        return "for nothing that could be tested"
    share = row.same / row.told
    if share >= 0.95:
        return "for nearly every pair that differs measurably"
    if share >= 0.8:
        return "for most pairs that differ measurably, not for each"
    return "for many pairs only; take it as a hint" if share > 0.5 else "no better than by chance"


def _ranking(results: Results, setting: tuple) -> str:
    ranks = tables.select(results.ranks, stats.SETTING, setting)
    if len(ranks) == 1:
        return f"Only {ranks['label'].iloc[0]} has results, so there is nothing to compare it with."
    leader, blocks = ranks.iloc[0], int(ranks["blocks"].iloc[0])
    if not blocks:
        return "There is no operation that every contender completed, so there is no ranking over operations."
    text = (
        f"Over {count(blocks, 'operation')} **{leader['label']} has the best mean rank,"
        f" {digits(leader['mean_rank'], 3)}** among {len(ranks)} contenders"
    )
    pairs = tables.select(results.nemenyi, stats.SETTING, setting)
    if pairs.empty:
        return f"{text}. There is no test of the ranks: it needs three contenders and two operations."
    mine = pairs[(pairs["a"] == leader["label"]) | (pairs["b"] == leader["label"])]
    others = mine.assign(other=[b if a == leader["label"] else a for a, b in zip(mine["a"], mine["b"], strict=True)])
    position = {label: place for place, label in enumerate(ranks["label"])}
    same = sorted(others.loc[~(others["p"] < 0.05), "other"], key=position.get)
    worse = sorted(others.loc[others["p"] < 0.05, "other"], key=position.get)
    if not same:
        return (
            f"{text}, better than {verb(len(worse), 'the other one', 'every other one')} at the 5 % level (Nemenyi's"
            " test)."
        )
    if not worse:
        return f"{text}, but Nemenyi's test cannot tell it from any other at the 5 % level."
    return (
        f"{text}. At the 5 % level Nemenyi's test puts it before {listing(worse)}, but cannot tell it from"
        f" {listing(same)}."
    )


def _wins(study: Study, results: Results, setting: tuple) -> str:
    chosen = tables.select(results.winners, stats.SETTING, setting)
    if not tables.compared(study, setting):
        return ""
    won = chosen.loc[chosen["verdict"] == "winner", "best"].value_counts()
    won = sorted(won.items(), key=lambda pair: (-pair[1], pair[0]))
    parts = []
    if won:
        shares = [f"{label} wins {number}" for label, number in won]
        parts.append(
            f"Of {count(len(chosen), 'operation')} with a result, {listing(shares)}: there the joint 95 %"
            " intervals tell the winner from every other contender."
        )
    for verdict, one, many in (
        (
            "tie",
            "is a tie: its best contender cannot be told from another",
            "are ties: the best contender cannot be told from another",
        ),
        (
            "unproved",
            "has no proof of a winner: one round has no interval",
            "have no proof of a winner: one round has no interval",
        ),
        ("alone", "was completed by one contender only", "were completed by one contender only"),
    ):
        number = int((chosen["verdict"] == verdict).sum())
        if number and not (verdict == "alone" and len(tables.select(results.ranks, stats.SETTING, setting)) == 1):
            parts.append(f"{opening(number, 'operation')} {verb(number, one, many)}.")
    cost = stats.relative(tables.select(results.statistics, stats.SETTING, setting))
    typical = tables.typical_cost(cost).sort_values()
    if len(typical) > 1:
        low, high = typical.index[0], typical.index[-1]
        parts.append(
            "Typical cost, the geometric mean of the time relative to the best contender of each operation, goes from "
            f"{digits(typical[low], 3)} ({low}) to {digits(typical[high], 3)} ({high})."
        )
    return " ".join(parts)


def findings(study: Study, results: Results, setting: tuple, workload: tuple) -> Prose:
    """One sentence or two for each operation of a workload (name, scale), as a list."""
    chosen = tables.select(results.winners, [*stats.SETTING, "workload", "scale"], (*setting, *workload)).sort_values(
        "position"
    )
    lines = [f"* {_operation(study, results, row)}" for row in chosen.itertuples()]
    return Prose("\n".join(lines) or "No contender completed a trial of this workload.")


def _operation(study: Study, results: Results, row) -> str:
    keys = [*stats.SETTING, *stats.OPERATION]
    key = [getattr(row, name) for name in keys]
    same = tables.select(results.statistics, keys, key)
    centre = _centre(same[same["label"] == row.best].iloc[0])
    title = f"**{study.title(row.workload, row.phase, row.cache)}:**"
    if row.verdict == "alone":
        only = len(tables.select(results.ranks, stats.SETTING, [getattr(row, name) for name in stats.SETTING])) == 1
        return f"{title} {row.best} needs {centre}{'' if only else '; no other contender completed it'}."
    pairs = tables.select(results.pairwise, keys, key)
    others = stats.versus(pairs[pairs["contenders"]], row.best).sort_values(["ratio", "other"])
    last = others.iloc[-1]
    slowest = (
        f" The slowest, {last['other']}, takes {digits(last['ratio'], 3)} times as long." if len(others) > 1 else ""
    )
    nearest = f"{row.runner_up} takes {digits(row.ratio, 4)} times as long"
    if row.verdict == "unproved":
        return f"{title} {row.best} has the smallest time, {centre}; {nearest}. One round proves no winner.{slowest}"
    if row.verdict == "winner":
        bounds = span(row.joint_low, row.joint_high, significant=4)
        return f"{title} {row.best} wins with {centre}. Next, {nearest} (joint interval {bounds}).{slowest}"
    tied = [_tied(pair, row.n) for pair in others.itertuples() if pair.other in row.tied.split()]
    # With more than the few that fit a sentence the table of comparisons is the better place.
    shown = tied[:3] + (
        [f"{opening(len(tied) - 3, 'other').lower()} ([]({_anchor('against', *key[:5])}))"] if len(tied) > 3 else []
    )
    return (
        f"{title} a tie. {row.best} is the fastest on average with {centre}, but cannot be told from"
        f" {listing(shown)}.{slowest}"
    )


def _tied(pair, rounds: int) -> str:
    bounds = (
        f"joint interval {span(pair.joint_low, pair.joint_high, significant=4)}"
        if not pd.isna(pair.joint_low)
        else "no interval"
    )
    few = f", only {count(pair.n, 'common round')}" if pair.n < rounds else ""
    return f"{pair.other} ({digits(pair.ratio, 4)} times, {bounds}{few})"


def _centre(cell: pd.Series) -> str:
    unit, scale = words.unit_of(cell["mean_ns"])
    bounds = span(cell["low_ns"], cell["high_ns"], scale)
    if cell["interval"].startswith("order"):
        return (
            f"a median of {time(cell['median_ns'])} ({percent(cell['coverage'])} interval {bounds} {unit}, n ="
            f" {cell['n']})"
        )
    if cell["interval"] == "none":
        return f"{time(cell['mean_ns'])} in its single round"
    return f"a mean of {time(cell['mean_ns'])} (95 % interval {bounds} {unit}, n = {cell['n']})"


def left_out(study: Study, results: Results) -> Prose:
    """Which settings an appendix shows in full, when there are others."""
    main = tables.main_settings(study) + tables.further_settings(study)
    others = [setting for setting in tables.settings(results.statistics) if setting not in main]
    if not others:
        return Prose("")
    return Prose(
        f"Cells, ranks and comparisons of file systems are shown of"
        f" {listing(f'({tables.setting_name(s)})' for s in main)}. The same of {count(len(others), 'other setting')}"
        f" is in the files only; what the stacks change is in the tables of ratios."
    )


def design(study: Study) -> Prose:
    """What was run: cells, rounds, seeds, devices, caches, sync, all as recorded."""
    trials, phases = study.trials, study.phases
    rounds, seeds = sorted(trials["round"].unique()), sorted(trials["seed"].unique())
    cells = len(trials[[*stats.SETTING, "label", "workload", "scale"]].drop_duplicates())
    found = tables.settings(trials)
    several = (("lab", "lab", "labs"), ("stack", "stack", "stacks"), ("profile", "device profile", "device profiles"))
    where = (
        listing(count(trials[key].nunique(), one, many) for key, one, many in several)
        if len(found) > 3
        else listing(f"{tables.setting_name(setting)}" for setting in found)
    )
    pairs = "file system by workload" + (" by setting" if len(found) > 1 else "")
    seed_text = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]} ({len(seeds)} different)"
    order = study.plan["study"].get("seed")
    parts = [
        f"The study ran {count(cells, 'cell')} ({pairs}) in {count(len(rounds), 'round')},"
        f" {count(len(trials), 'trial')} in all: {where}. Each round is a complete block of all cells in random order"
        + (f" (seed {order} of the study)" if order is not None else "")
        + f"; the rounds used {seed_text} for names, sizes, order and hash functions. Every trial made a new file"
        " system.",
    ]
    if study.plan["study"].get("stop"):
        parts[0] += f" Why so many rounds: {study.plan['study']['stop'].rstrip('.')}."
    parts.append(_described(study))
    devices = sorted(set(trials["devices"].dropna()) - {""})
    if stacked(study):
        parts.append(
            f"What the stacks were is in []({_anchor('stacks')}). Before a fault, and before the measured phases of"
            f" such trials, the tree was written; that preparation is in the records and enters no statistic."
            if (trials["stack_state"].dropna() != "healthy").any()
            else f"What the stacks were is in []({_anchor('stacks')})."
        )
    elif devices:
        parts.append(f"Block devices, as found by the trials: {listing([code(d) for d in devices], 'or')}.")
    methods = sorted(set(stats.measured(phases)["cold_method"].dropna()) - {""})
    if methods:
        parts.append(
            f"What was done before a phase with cold caches: {listing([f'“{m}”' for m in methods], 'or')}. That"
            " counts as cold only if the phase then"
            f" read from the device ([]({_anchor('cold')})). Phases with warm caches followed the phase before them"
            " directly."
        )
    parts.append(_sync(study))
    counts = {"instructions": "counts instructions", "wall": "is the real time of the host"}
    for (lab, clock), group in trials.dropna(subset=["clock_name"]).groupby(["lab", "clock_name"]):
        cost = _reach([group["clock_read_ns"].min(), group["clock_read_ns"].max()], "{:,}".format)
        parts.append(f"The clock of the lab {lab} {counts.get(clock, f'counts {clock}')}; one reading costs {cost} ns.")
    return Prose(*parts)


def stacked(study: Study) -> bool:
    """Whether there is a stack that is more than a single device, so that the table of stacks is worth showing."""
    return set(study.trials["stack"]) != {"single"}


def _described(study: Study) -> str:
    """Titles of what the study is made of, and where a workload comes from."""
    lines, told = [], set()
    for name in sorted(study.trials["workload"].unique()):
        entry = study.plan["workloads"].get(name, {})
        about = f" {entry['description'].rstrip('.')}." if entry.get("description") else ""
        about += f" Source: {entry['source'].rstrip('.')}." if entry.get("source") else ""
        about += f" Beside the source: {entry['differs'].rstrip('.')}." if entry.get("differs") else ""
        about = "" if about in told else about  # of a workload with modifiers only the title is new
        told.add(about)
        lines.append(f"* Workload {code(name)}: {entry.get('title', name).rstrip('.')}.{about}")
    kinds = [("Device profile", "profile", "devices")]
    for kind, column, plan in kinds if stacked(study) else [*kinds, ("Stack", "stack", "stacks")]:
        for name in sorted(study.trials[column].unique()):
            lines.append(
                f"* {kind} {code(name)}: {study.plan.get(plan, {}).get(name, {}).get('title', name).rstrip('.')}."
            )
    return "\n".join(lines)


def _sync(study: Study) -> str:
    synced = study.phases.groupby(["workload", "phase", "cache"], sort=False)["sync_ns"].max() > 0
    if not len(synced):
        return ""
    caches = study.phases.groupby(["workload", "phase"])["cache"].nunique()

    def names(chosen: pd.Series) -> str:
        found = chosen.index[chosen]
        return listing(dict.fromkeys(code(p) + (f" ({c})" if caches[w, p] > 1 else "") for w, p, c in found))

    text = "After every phase the trial waited, outside the time, until the device was idle."
    if synced.all():
        return f"{text} The time of every phase includes its final sync of the file system."
    if synced.any():
        text += f" The time includes the final sync of the file system in these phases: {names(synced)}."
    if (~synced).any():
        text += f" No sync was measured in these: {names(~synced)}."
    return text


def methods(study: Study, results: Results) -> Prose:
    """The statistics used here, chosen by the number of rounds that there are."""
    kinds = set(results.statistics["interval"])
    parts = [
        "Times are compared by arithmetic means, rates by harmonic and ratios by geometric means. Outliers are marked"
        " by Tukey's rule and kept."
    ]
    if "order statistics of the median" in kinds:
        parts.append(
            "Cells with six rounds or more have an interval of the median from order statistics, which assumes no"
            " distribution."
        )
    if "Student t of the mean" in kinds:
        parts.append(
            "Cells with two to five rounds have Student's t interval of the mean, which assumes normal values: with so"
            " few, no interval of the median that is free of assumptions reaches 95 %. It is cut at zero."
        )
    if "none" in kinds:
        parts.append("Cells with a single round have no interval, and nothing is claimed about them.")
    pairs = results.pairwise[results.pairwise["contenders"]]
    if len(pairs):
        parts.append(
            "Two file systems are compared round by round, because a round gives all of them the same input: the ratio"
            " of geometric means has an interval from the paired log ratios (Student's t; BCa bootstrap from six rounds"
            " on). The best contender is called winner only if its ratio to every other one lies beyond 1 in the joint"
            " interval (Student's t with Bonferroni's correction for the number of comparisons), else the operation is"
            " a tie."
        )
        parts.append(_mann_whitney(pairs))
    return Prose(" ".join(parts), _friedman(study, results), _stack_methods(results), _drift(study))


def _mann_whitney(pairs: pd.DataFrame) -> str:
    n = int(pairs["n"].max())
    family = int(pairs.groupby([*stats.SETTING, *stats.OPERATION]).size().max())
    smallest = stats.smallest_p(n, n)
    text = (
        f"The Mann-Whitney test is exact; with {count(n, 'round')} its smallest possible p is {digits(smallest, 2)},"
        f" and Holm's correction covers up to {count(family, 'pair')} an operation."
    )
    if smallest * family >= 0.05:
        needed = stats.rounds_to_reject(family)
        return (
            f"{text} It therefore cannot reject at 5 % here, whatever the data ({needed} rounds could); it is shown,"
            " not used."
        )
    return f"{text} So it can reject at 5 %."


def _stack_methods(results: Results) -> str:
    text = ""
    if len(results.stacks):
        text = (
            "A stack is compared with its reference by the ratio of times of the same file system in the same rounds;"
            " intervals of single operations are not corrected for their number, so about one in twenty that shows a"
            " difference may do so by chance."
        )
    if len(results.agreement):
        text += (
            " Labs are compared by orders and ratios only. Kendall's τ-b of an operation has an exact p; its mean over"
            " operations has a percentile interval by a bootstrap over operations. Ceilings take part there, because"
            " they ran in both labs."
        )
    return text.strip()


def _friedman(study: Study, results: Results) -> str:
    tested = results.ranks.dropna(subset="p").drop_duplicates(stats.SETTING)
    main = pd.DataFrame(tables.main_settings(study), columns=stats.SETTING)
    tested = tested.merge(main, on=stats.SETTING)
    several = len(tested) > 1
    parts = []
    for row in tested.itertuples():
        where = f" ({tables.setting_name((row.lab, row.stack, row.profile))})" if several else ""
        p = "below 0.0001" if row.p < 0.0001 else digits(row.p, 2)
        left = (
            f" {opening(row.left_out, 'operation')} without a result of every contender"
            f" {verb(row.left_out, 'is', 'are')} left out."
            if row.left_out
            else ""
        )
        parts.append(
            f"Friedman's test over {count(row.blocks, 'operation')} as blocks{where} gives χ² ="
            f" {digits(row.statistic, 3)} and p {p if p.startswith('below') else '= ' + p}; Nemenyi's critical"
            f" difference of mean ranks is {digits(row.critical_difference, 3)}.{left}"
        )
    return " ".join(parts)


def _drift(study: Study) -> str:
    found = stats.drift(study.phases)
    if found.empty:
        return (
            f"Drift with the order of trials is not tested: that needs {stats.ENOUGH} rounds with different times in a"
            " cell."
        )
    hit = int((found["p_holm"] < 0.05).sum())
    return (
        f"Spearman's correlation of time with the place in the order was tested in {count(len(found), 'cell')}:"
        f" {count(hit, 'cell')} {verb(hit, 'shows', 'show')} a drift at 5 % after Holm's correction."
    )


def quality(study: Study) -> Prose:
    """Completeness and verification in two sentences."""
    trials = study.trials
    ok = trials[trials["status"] == "ok"]
    files, wrong = int(ok["verified_files"].sum()), int(trials["verified_mismatches"].sum())
    unverified = ok[(ok["verified_files"] == 0) & (ok["checks"] == 0)]
    checks = int(ok["checks"].sum())
    parts = [
        f"Of {count(len(trials), 'trial')} {len(ok):,} completed.",
        (
            f"The content of {count(files, 'file')} ({words.size(ok['verified_bytes'].sum())}) was compared after it"
            f" was written: {count(wrong, 'file')} differed."
        ),
        (
            f"Commands of the workloads compared what they had written {count(checks, 'time')}, on a file system that"
            " was mounted again."
            if checks
            else ""
        ),
    ]
    if len(unverified):
        listed = listing(sorted(unverified["workload"].unique()))
        parts.append(f"{opening(len(unverified), 'trial')} ({listed}) compared no content.")
    environment = study.environment
    twice = environment.get("ran_twice")
    if twice:
        parts.append(f"{opening(twice, 'trial')} ran twice, because the lab's process was killed the first time.")
    if environment.get("set_aside"):
        number = environment["set_aside"]
        parts.append(
            f"{opening(number, 'earlier record')} {verb(number, 'was', 'were')} set aside, and"
            f" {verb(number, 'its trial', 'their trials')} made again."
        )
    failed = int(trials["commands_failed"].sum())
    total = int(trials["commands"].sum())
    parts.append(
        f"Of {count(total, 'command')} outside the measured phases {count(failed, 'command')} ended with an error."
        if failed
        else ""
    )
    return Prose(" ".join(filter(None, parts)))


def threats(study: Study, results: Results) -> Prose:
    """Threats to validity, each from something in the records."""
    ok, phases = study.trials[study.trials["status"] == "ok"], stats.measured(study.phases)
    lines = [CLOCKS[lab] for lab in sorted(set(study.trials["lab"])) if lab in CLOCKS]
    lines += _real_clocks(study)
    if ok["devices"].str.contains("µs").any():
        lines.append(
            "The devices are models with a fixed completion time and bandwidth: no seeks, no wear, no cache of their"
            " own."
        )
    if ok["devices"].str.contains("modelled").any():
        lines.append(
            "Modelled disks do what their figures and equations say (METHODOLOGY.md, Modelled disks). That does not"
            " make them the products whose figures they have: no defects, no wear, no choices of a firmware."
        )
        lines.append(_model_threat(study, phases))
    lines += _stack_threats(study)
    rounds = ok.groupby([*stats.SETTING, "label", "workload", "scale"]).size()
    if len(rounds) and rounds.min() < stats.ENOUGH:
        lines.append(
            f"The cell with the fewest completed rounds has {count(int(rounds.min()), 'round')}. Intervals from fewer"
            f" than {stats.ENOUGH} rest on the assumption of normal values, which so few cannot check."
        )
    lines.append(
        tables.spread_note(set(study.trials["lab"]))
        + " It covers the seeds used, not other kinds of files or directory trees."
    )
    new = set(study.trials["lab"]) - {"mount"}
    if new:
        entries = study.plan["workloads"]
        aged = [name for name, entry in entries.items() if entry.get("fill") or entry.get("runs", 1) > 1]
        measured = f"are measured by {listing(sorted(aged))} only" if aged else "are not measured"
        lines.append(f"Every file system was new. Ageing, fragmentation and full devices {measured}.")
    lines += [_cold_threat(phases), *_driver_threats(study, phases), _commands_threat(phases)]
    lines.append(_ceiling_threat(study, results))
    bad = study.trials[(study.trials["status"] != "ok") & (study.trials["status"] != "skipped")]
    if len(bad):
        lines.append(
            f"Results are missing for {listing(sorted(bad['label'].unique()))} ([]({_anchor('failures')})); ratios use"
            " the rounds that both have."
        )
    skipped = study.trials[study.trials["status"] == "skipped"]
    if len(skipped):
        lines.append(
            f"{opening(len(skipped), 'trial')} ({listing(sorted(skipped['label'].unique()))})"
            f" {verb(len(skipped), 'was', 'were')} skipped, because the lab cannot run"
            f" {verb(len(skipped), 'it', 'them')}: what is not there cannot win or lose ([]({_anchor('failures')}))."
        )
    if results.ranks["p"].notna().any():
        lines.append(
            "The operations that serve as blocks of Friedman's test are phases of the same workloads, so they are not"
            " independent."
        )
    unverified = ok[(ok["verified_files"] == 0) & (ok["checks"] == 0)]
    if len(unverified):
        lines.append(f"The content written by {listing(sorted(unverified['workload'].unique()))} was not verified.")
    return Prose("\n".join(f"* {line}" for line in lines if line))


def _real_clocks(study: Study) -> list[str]:
    """What disturbs real clocks, lab by lab, with what was seen of it."""
    lines = []
    for lab, found in sorted(study.environment.get("conditions", {}).items()):
        seen = []
        if "load_1min" in found:
            seen.append(f"the load of the host was {_reach(found['load_1min'], '{:.2f}'.format)}")
        if "steal_share" in found:
            seen.append(f"others took {_reach(found['steal_share'], percent)} of the processor time")
        if "frequency_mhz" in found:
            seen.append(f"the processor's frequency was {_reach(found['frequency_mhz'], '{:,.0f}'.format)} MHz")
        else:
            seen.append("the machine does not tell its processor's frequency")
        if "temperature_c" in found:
            seen.append(f"its temperature up to {found['temperature_c'][1]:.0f} °C")
        lines.append(f"Over {count(found['trials'], 'trial')} of the lab {lab}, {listing(seen)}.")
        if found["unsettled"]:
            reasons = sorted(study.trials.loc[study.trials["lab"] == lab, "settling_reason"].dropna().unique())
            why = f" (for example: {reasons[-1].rstrip('.')})" if reasons else ""
            lines.append(
                f"{opening(found['unsettled'], 'trial')} of the lab {lab} began before the host was quiet{why}."
            )
    real = sorted(set(study.trials["lab"]) - {"exact"})
    hosts = study.environment["values"].get("host.cpu", {})
    if real and len(hosts) == 1:
        lines.append(
            f"The times of {listing(f'the lab {lab}' for lab in real)} are from one machine ({next(iter(hosts))}):"
            " nothing is known of others."
        )
    return lines


def _reach(bounds: list, show) -> str:
    low, high = bounds
    return show(low) if show(low) == show(high) else f"{show(low)} to {show(high)}"


def _model_threat(study: Study, phases: pd.DataFrame) -> str:
    share = (phases["device_model_ns"].astype(float) / phases["wall_ns"].astype(float)).dropna()
    if share.empty:
        return ""
    worst = phases.loc[share.idxmax()]
    return (
        "The code that models the disks runs on the guest's processor, as the driver of a real disk does: it took"
        f" {percent(share.median())} of the time of a phase in the median and at most {percent(share.max())}"
        f" ({study.title(worst['workload'], worst['phase'], worst['cache'])}, {worst['label']})."
    )


def _stack_threats(study: Study) -> list[str]:
    known = study.trials[study.trials["stack_state"].notna()]
    assumed = sorted(set(known.loc[known["stack_initial_sync"].str.startswith("assumed").fillna(False), "stack"]))
    lines = []
    if assumed:
        lines.append(
            f"The redundancy of {listing(assumed) if len(assumed) <= 6 else count(len(assumed), 'stack')} was assumed"
            f" to be complete, not written: the disks read as zeros, for which parity is right from the start."
            f" Writing it for the first time is therefore not measured."
        )
    over = study.phases[(study.phases["status"] == "ok") & (study.phases["operation"] != "rebuild")]
    over = over[(over["rebuilding"] == False).fillna(False)]  # noqa: E712 (nullable)
    if len(over):
        names = listing(sorted(set(over["stack"])))
        lines.append(
            f"In {count(len(over), 'phase')} on {names} the rebuild was over when the phase ended, so it disturbed that"
            " phase only in part or not at all."
        )
    return lines


def _cold_threat(phases: pd.DataFrame) -> str:
    failed = phases[(phases["cache"] == "cold") & (phases["cold_proved"] == False)]  # noqa: E712 (nullable)
    if failed.empty:
        return ""
    names = sorted(set(failed["label"] + " " + failed["phase"]))
    names = listing(names if len(names) <= 8 else [*names[:8], count(len(names) - 8, "other")])
    return f"Cold caches are asked for but not proved in {count(len(failed), 'phase')}: {names}."


def _driver_threats(study: Study, phases: pd.DataFrame) -> list[str]:
    """Where the driver's own work narrows ratios between contenders, lab by lab."""
    lines = []
    phases = phases[phases["wall_ns"] > 0].assign(share=stats.driver_bound)
    for lab, own in phases[phases["role"] != "ceiling"].dropna(subset="share").groupby("lab"):
        where = f" in the lab {lab}" if study.trials["lab"].nunique() > 1 else ""
        high, most = own[own["share"] > 0.1], percent(own["share"].max())
        names = [
            f"{study.title(*key)} ({listing(sorted(set(group['label'])))})"
            for key, group in high.groupby(["workload", "phase", "cache"])
        ]
        lines.append(
            "Between the operations the driver makes names, order and content, which takes"
            f" {'up to' if names else 'at most'} {most} of the time of a contender's phase{where}"
            + (f" and narrows the ratios; more than 10 % in {listing(names)}." if names else ".")
            + " This is an upper bound: the driver does the same for every file system of a round, so it takes no"
            " longer than the shortest time between the operations of any of them."
        )
    return lines


def _ceiling_threat(study: Study, results: Results) -> str:
    """Where a ceiling is no bound: its best is slower than the best contender."""
    keys = [*stats.SETTING, *stats.OPERATION]
    table = results.statistics
    best = table[table["role"] != "ceiling"].groupby(keys)["mean_ns"].min()
    bound = table[table["role"] == "ceiling"].groupby(keys)["mean_ns"].min()
    slower = (bound / best)[lambda ratio: ratio > 1]
    if slower.empty:
        return ""
    places = [study.title(key[3], key[5], key[6]) + _elsewhere(study, key[0], key[2]) for key in slower.index]
    ceiling = listing(study.labels("ceiling"))
    return f"The ceiling, {ceiling}, bounds nothing in {listing(dict.fromkeys(places))}: a contender is faster there."


def _commands_threat(phases: pd.DataFrame) -> str:
    commands = phases[phases["operation"] == "exec"]
    if commands.empty:
        return ""
    names = listing(sorted({code(command.split()[0]) for command in commands["command"] if command}))
    return (
        f"Phases that execute {names} measure that program as well; its own work is the same on every file system and"
        " narrows the ratios."
    )


def reproduce(study: Study) -> Prose:
    """The commands that repeat the study, or one trial of it."""
    name = study.plan["study"]["name"]
    first = study.trials.sort_values("order").iloc[0] if len(study.trials) else None
    one = (
        f"One trial, here the first of the order:\n\n```\nuv run {tables.trial_command(first)}\n```"
        if first is not None
        else ""
    )
    exact = "exact" in set(study.trials["lab"])
    return Prose(
        "The whole study, set-up included, or another one by its name:\n\n```\nmake report\nuv run snakemake --cores"
        f" all --config study={name}\n```",
        one,
        (
            "With the image and QEMU version of []("
            + _anchor("environment")
            + ") the exact lab gives the same tables bit for bit: compare their digests."
            if exact
            else ""
        ),
    )


def _anchor(*parts: str) -> str:
    return f"#tbl-{tables.slug(*parts)}"
