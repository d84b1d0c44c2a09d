"""The JSON of the 2015 study of git-annex repositories: seconds of each command, cold and warm, run by run.

One file is one configuration: a list of {fs, test_repo, run, times: [{command, cold, warm}]}, named
TEST_REPO-CONFIGURATION.json. All runs of a file were made one after another in the same file system.
"""

import re
from collections import Counter, defaultdict
from itertools import combinations
from statistics import mean, median, stdev

from reprofs.importers import NUMBER, Finding, Malformed, Result, Source, word

WHAT = "the JSON of the 2015 git-annex study"

NOT_MEASURED = -10
# In the table of phases a step has the name and the cache state that it has in the workload git-annex, so that both can
# be set side by side. Caches were dropped before the repository was made, but that reads nothing old.
_OURS = {"annex-get": "get", "annex-drop": "drop", "annex-unlock": "unlock", "annex-lock": "lock"}
_OURS |= {"annex-direct": "direct", "annex-indirect": "indirect", "make-repository": "create"}
_OBJECT = re.compile(r"<(?:function|class|bound method|built-in function)\s+'?(?:[\w.]*\.)?(\w+)'?[^>]*>")
# What a command does -> name of its phase. Other commands get their words for a name.
_PHASES = [
    (r"make_test_repo", "make-repository"),
    (r"du -scm test", "du"),
    (r"du -scm test\.clone", "du-clone"),
    (r"tar -cf test\.tar test", "tar"),
    (r"pigz test\.tar", "pigz"),
    (r"chmod \+w -R .*", "chmod"),
    (r"git clone test test\.clone", "clone"),
    (r"cd test\.clone; git annex get \.", "annex-get"),
    (r"cd test\.clone; git annex drop \.", "annex-drop"),
    (r"cd test; git annex (direct|indirect|unlock|lock)", r"annex-\1"),
    (r"rm -rf test", "rm"),
    (r"rm -rf test\.clone", "rm-clone"),
    (r"tar -xzf test\.tar\.gz", "untar"),
]


def read(source: Source) -> Result:
    """Seconds of each command as measurements, and as phases: one trial per run, one phase per command and cache state.

    The configuration is taken from the file's name, so that files with one label are not pooled. Raises Malformed.
    """
    if not isinstance(source.json, list) or not source.json:
        raise Malformed(1, "it is not a list of runs")
    result, series, runs = Result(source.name), defaultdict(list), []
    objects: dict = {}
    counts: Counter = Counter()
    labels: Counter = Counter()
    repositories: Counter = Counter()
    shapes: Counter = Counter()
    for index in range(len(source.json)):
        label, repository = source.get((index, "fs"), str), source.get((index, "test_repo"), str)
        run, times = source.get((index, "run"), int), source.get((index, "times"), list)
        if not 0 <= run < 10**6:
            raise source.wrong((index, "run"), "is not the number of a run")
        configuration = _configuration(source.path.stem, repository, label)
        labels[label] += 1
        repositories[repository] += 1
        runs.append(run)
        shapes[len(times)] += 1
        seen: Counter = Counter()
        for position in range(len(times)):
            at = (index, "times", position)
            command = source.get((*at, "command"), str)
            if _OBJECT.search(command) and command != plain(command, run):
                objects.setdefault(command, f"$[{index}].times[{position}]")
            operation = plain(command, run)
            phase = _phase(operation)
            seen[phase] += 1
            if seen[phase] > 1:
                phase += f"-{seen[phase]}"
            for cache in ("cold", "warm"):
                seconds = source.get((*at, cache), NUMBER)
                if seconds <= 0:
                    counts[cache, "not measured" if seconds == NOT_MEASURED else "impossible"] += 1
                    continue
                counts[cache, "measured"] += 1
                series[phase, cache].append((run, seconds))
                row = result.add(
                    f"$[{index}].times[{position}].{cache}", operation, "time", repr(seconds), "s", cache=cache,
                    phase=phase, iteration=run, configuration=configuration, label=label, workload=repository,
                    items=_files(repository), tool="test_fs.py",
                )  # fmt: skip
                result.phases.append(_phase_row(row, source.path.stem, plain_label(configuration), position))
    result.facts = {
        "labels": {plain_label(label) for label in labels},
        "repositories": set(repositories),
        "configuration": configuration,
        "runs": len(set(runs)),
        "series": dict(series),
    }
    _identity_findings(result, source.path.stem, labels, repositories, objects)
    _run_findings(result, runs, shapes, counts)
    _series_findings(result, series)
    return result


def plain(command: str, run: int) -> str:
    """A command without what differs from run to run: the run's number and the address of an object."""
    command = _OBJECT.sub(r"\1", " ".join(command.split()))
    return re.sub(rf"\btest{run}\b", "test", command)


def plain_label(label: str) -> str:
    """A label without the printed form of a class in it: <class '__main__.EXT4'>_MD -> EXT4_MD."""
    return _OBJECT.sub(r"\1", label)


def _configuration(stem: str, repository: str, label: str) -> str:
    """The part of the file's name after the repository; the label if the name has none."""
    before, found, after = stem.partition(repository)
    rest = (before + after.removeprefix("-")).strip("-_") if found else ""
    return rest or plain_label(label)


def _files(repository: str) -> int | None:
    """Files of a repository named simpleannex_ndirs=20_nfiles=100."""
    found = re.search(r"ndirs=([0-9]+)_nfiles=([0-9]+)", repository)
    return int(found[1]) * int(found[2]) if found and len(found[1] + found[2]) < 18 else None


def _phase(operation: str) -> str:
    for pattern, name in _PHASES:
        if found := re.fullmatch(pattern, operation):
            return found.expand(name)
    return word(operation)


def _parts(configuration: str) -> tuple[str, str, str]:
    """File system, stack and variant: r2_BTRFS_MD_raid6-old_compress=lzo is btrfs, md-raid6 and compress=lzo_old_r2.

    The file system is the first word; words with = or a leading - are its variant, the others its stack. A repetition
    of the study (r2 in front) and a note (-old) are neither: they go to the variant, which keeps the data apart. The
    stack is written as in this project, from the disks upwards: LVM_MD_raid6 is md-raid6+lvm.
    """
    found = re.match(r"(r\d+)_", configuration)
    repetition = found[1] if found else None
    first, *words = configuration[found.end() if found else 0 :].split("_")
    options = [word for word in words if "=" in word or word.startswith("-")]
    layers = [word.partition("-") for word in words if word not in options]
    notes = [note for _, _, note in layers if note] + ([repetition] if repetition else [])
    stack, variant = "-".join(layer.lower() for layer, _, _ in layers), "_".join(options + notes)
    stack = re.sub(r"^lvm-(md-.*)", r"\1+lvm", stack)
    stack = stack or ("zfs-raidz2" if "layout=raid6" in options else "unknown")
    return first.lower(), stack, variant or "default"


def _phase_row(row: dict, stem: str, configuration: str, position: int) -> dict:
    """A row of the table of phases. Rounds are counted from 1; cold comes before warm."""
    filesystem, stack, variant = _parts(configuration)
    name, _, scale = row["workload"].partition("_")
    nanoseconds = round(row["value"] * 1e9)
    return {
        "trial": f"{stem}-r{row['iteration'] + 1:03d}",
        "label": filesystem if variant == "default" else f"{filesystem}+{variant}",
        "role": "contender",
        "status": "ok",
        "lab": "imported",
        "stack": stack,
        "profile": "unknown",
        "filesystem": filesystem,
        "variant": variant,
        "workload": name,
        "scale": scale or "unknown",
        "round": row["iteration"] + 1,
        "position": 2 * position + (row["cache"] == "warm"),
        "phase": _OURS.get(row["phase"], row["phase"]),
        "cache": "warm" if row["phase"] == "make-repository" else row["cache"],
        "operation": "exec",
        "command": row["operation"],
        "wall_ns": nanoseconds,
        "items": row["items"],
        "wall_ns_per_item": nanoseconds / row["items"] if row["items"] else None,
    }


def _identity_findings(result: Result, stem: str, labels: Counter, repositories: Counter, objects: dict) -> None:
    configuration = result.facts["configuration"]
    for label in labels:
        if label != plain_label(label):
            why = "programs that group by label see another configuration"
            result.find(
                "object-in-label", f"the label inside is {label!r}, the printed form of a class", why, "$[0].fs"
            )
        if plain_label(label) != configuration:
            what = f"the label inside says {plain_label(label)}, the file's name says {configuration}"
            result.find(
                "label-differs", what, "one of the two is wrong, and a table by label shows the first", "$[0].fs"
            )
    for what, found in (("configurations", labels), ("repositories", repositories)):
        if len(found) > 1:
            result.find(f"several-{what}", f"the file mixes {', '.join(map(repr, found))}", "they are no replicates")
    if not all(repository in stem for repository in repositories):
        what = f"the repository inside is {next(iter(repositories))}, which the file's name does not have"
        result.find("repository-differs", what, "the file was renamed or holds another test", "$[0].test_repo")
    if objects:
        command, place = next(iter(objects.items()))
        what = f"a command is the printed form of an object, with its address ({command})"
        result.find("object-in-command", what, "the same command has another name in every file", place)


def _run_findings(result: Result, runs: list[int], shapes: Counter, counts: Counter) -> None:
    repeated = sorted(run for run, count in Counter(runs).items() if count > 1)
    if repeated:
        why = "they are counted as replicates, or overwrite each other"
        result.find("repeated-runs", f"run numbers that come more than once: {_several(repeated)}", why)
    missing = sorted(set(range(max(runs) + 1)) - set(runs))
    if missing:
        why = "nothing tells whether the missing runs were like the others"
        result.find("missing-runs", f"of the runs 0 to {max(runs)} there is no {_several(missing)}", why)
    if len(shapes) > 1:
        usual = shapes.most_common(1)[0][0]
        other = sum(count for shape, count in shapes.items() if shape != usual)
        result.find("incomplete-runs", f"{other} of {len(runs)} runs have not the {usual} commands of the others",
                    "a run that broke off is shorter, not faster")  # fmt: skip
    for cache in ("cold", "warm"):
        absent, all_of = counts[cache, "not measured"], sum(n for key, n in counts.items() if key[0] == cache)
        if absent:
            what = f"{absent} of {all_of} {cache} values are {NOT_MEASURED}, which stands for not measured"
            result.find("not-measured", what, "they are left out here; as seconds they would make means too small")
        if counts[cache, "impossible"]:
            what = f"{counts[cache, 'impossible']} of {all_of} {cache} values are zero or negative"
            result.find("impossible-times", what, "no command takes such a time; they are left out here")


def _series_findings(result: Result, series: dict) -> None:
    drifts: list[tuple[float, float, str]] = []  # p, rho, phase
    for (phase, cache), values in series.items():
        seconds = [value for _, value in values]
        if cache != "cold" or len(values) < 5 or len(set(seconds)) < 2:
            continue
        drifts.append((*_drift(values), phase))
        spread = stdev(seconds) / mean(seconds)
        if spread > 0.5:
            what = f"the cold times of {phase} vary by {100 * spread:.0f} % (standard deviation over mean)"
            result.find("wide-spread", what, "a mean says little of them")
    drifting = [(rho, phase) for p, rho, phase in drifts if p < 0.05]
    if len(drifting) > max(1, 0.05 * len(drifts)):
        rho, phase = max(drifting, key=lambda pair: abs(pair[0]))
        what = (
            f"{len(drifting)} of {len(drifts)} cold series drift with the run number (Spearman, 5 %; by chance about "
            f"{0.05 * len(drifts):.1f}), most {phase} with rho {rho:+.2f}"
        )
        result.find("drift", what, "the runs share one ageing file system and are no replicates")
    for phase in [phase for phase, cache in series if cache == "warm"]:
        _warm_findings(result, phase, series[phase, "warm"], dict(series.get((phase, "cold"), [])))


def _drift(values: list[tuple[int, float]]) -> tuple[float, float]:
    """p and rho of Spearman's test of times on run numbers."""
    from scipy import stats  # here, for every import lists all formats and it is slow to load

    found = stats.spearmanr([run for run, _ in values], [value for _, value in values])
    return float(found.pvalue), float(found.statistic)


def _warm_findings(result: Result, phase: str, warm: list[tuple[int, float]], cold: dict[int, float]) -> None:
    pairs = [(cold[run], seconds) for run, seconds in warm if run in cold]
    idle = sum(again < 0.02 * first and again < 0.02 for first, again in pairs)
    if pairs and 2 * idle > len(pairs):
        what = f"{phase}: {idle} of {len(pairs)} warm times are below 20 ms and 2 % of the cold one"
        result.find("warm-no-op", what, "the first call had changed the state, so the repeat probably did nothing")
    ratios = [again / first for first, again in pairs]
    if ratios and median(ratios) > 0.5:
        what = f"{phase}: a warm time is {100 * median(ratios):.0f} % of the cold one in the median"
        result.find("warm-as-cold", what, "either cold was not cold, or nothing stayed in the cache")


def compare(results: list[Result]) -> list[Finding]:
    """What only shows in several files together: one label on several data sets, unequal numbers of runs."""
    findings, by_label, by_repository = [], defaultdict(list), defaultdict(list)
    for result in results:
        for repository in sorted(result.facts["repositories"]):
            by_repository[repository].append(result)
            for label in sorted(result.facts["labels"]):
                by_label[label, repository].append(result)
    for (label, repository), group in by_label.items():
        if len(group) > 1:
            ratio, phase = max((_distance(a, b) for a, b in combinations(group, 2)), default=(1.0, ""))
            what = (
                f"{len(group)} data sets carry the label {label} ({repository}); their cold medians differ up to "
                f"{ratio:.2f} times ({phase})"
            )
            why = "a table by label pools them as one configuration; they are kept apart here, by file name"
            findings.append(Finding(_names(group), "one-label", what, why))
    for repository, group in by_repository.items():
        counts = Counter(result.facts["runs"] for result in group)
        if len(counts) > 1:
            least = min(counts)
            few = [result for result in group if result.facts["runs"] == least]
            what = f"{least} runs where other configurations of {repository} have {max(counts)}"
            why = "cutting all to the shortest throws runs away, and with drift the first runs are not typical"
            findings.append(Finding(_names(few), "unequal-runs", what, why))
    if results:
        what = "kernel, programs, hardware and mount options are in none of the files"
        why = "a difference between two files may be one of versions"
        findings.append(Finding(_names(results), "no-environment", what, why))
    return findings


def _distance(a: Result, b: Result) -> tuple[float, str]:
    """The largest ratio of two data sets' cold medians, and its phase."""
    found = [(1.0, "")]
    for key in a.facts["series"].keys() & b.facts["series"].keys():
        first, second = (median(value for _, value in r.facts["series"][key]) for r in (a, b))
        if key[1] == "cold":
            found.append((max(first, second) / min(first, second), key[0]))
    return max(found)


def _names(results: list[Result]) -> str:
    names = [result.source for result in results]
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} others"


def _several(numbers: list[int]) -> str:
    """At most eight numbers, and how many more."""
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return ", ".join(map(str, numbers[:8])) + more
