"""The plan of a study: its trials in order, the digest of each job, and descriptions of their parts."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reprofs import labs
from reprofs.errors import FileError, UserError, cut, several
from reprofs.plan import recording
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Cell, PlannedTrial, Trial, apart, trial_id
from reprofs.plan.device import Device, profile_names
from reprofs.plan.filesystem import Filesystem, PlannedFilesystem
from reprofs.plan.machine import Machine
from reprofs.plan.override import PLACES, Override, add_places, overridden
from reprofs.plan.plan import LabFacts, Plan, PlannedWorkload
from reprofs.plan.published import Published
from reprofs.plan.read import unknown
from reprofs.plan.study import ABSENT, NOT_HERE, Entry, PlannedStudy, Study, Verdict, factors, study_of
from reprofs.plan.workload import Modified
from reprofs.project import project_root
from reprofs.records.protocol import PROTOCOL
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import Setup

ID_MAX = 200  # a file name has at most 255 bytes, and a trial's files have suffixes
SEED, ROUND = "\0", "\1"  # stand for seed and round in the job of a cell: no command has such characters


def make_plan(name: str, catalog: Catalog, change: Override | None = None) -> Plan:
    """The plan of a study: the study itself, its trials in order, and the descriptions that records and results need.

    Round r uses the seed `study seed + r` for all its trials: names, sizes and order are the same for every file system
    of a round. change: what takes the place of the study's own labs, profiles or file systems; cells that cannot be
    had with it are left out, and the plan says which and why.

    Raises UserError for an unknown name, a descriptor that does not fit its schema, or if no cell is left.
    """
    study = study_of(name, catalog)
    file = catalog.get(Study, study.base).file
    if change:
        study = _changed(study, catalog, change)
    _check_notebooks(study.notebooks or [], file)
    try:
        crosses = study.crosses(catalog, labs.with_processors())
        cells = list(dict.fromkeys(cell for _, cross in crosses for cell in cross))
        if change:
            setups, left_out = _possible(cells, catalog, change)
            study = study.with_left_out(left_out)
        else:
            setups = [resolve(cell, catalog) for cell in cells]
        changed = factors(crosses)
        published = catalog.get(Published, study.published) if study.published else None
        machines = {name: catalog.get(Machine, name) for name in study.predict or []}
    except FileError:
        raise
    except UserError as error:  # the study asks for parts that do not exist or do not fit
        raise FileError(f"{file}: {error}") from None
    jobs = [render(setup, SEED, ROUND) for setup in setups]  # they differ in nothing else from round to round
    trials = _trials(study, setups, [job.text() for job in jobs], crosses)
    _check_ids([trial.id for trial in trials], file)
    plan = Plan(
        protocol=PROTOCOL,
        study=study,
        trials=trials,
        factors=changed,
        published=published,
        machines=machines,
        siblings=_siblings(study, catalog),
        **_parts(setups, {setup.cell.workload: job.programs() for setup, job in zip(setups, jobs, strict=True)}),
    )
    if not change:
        _check_profile(plan, file)
    return plan


def _check_profile(plan: Plan, file: str) -> None:
    """Raises FileError when the study's key profile names what the study has not, or no trial can be profiled."""
    asked = plan.study.profile
    if not asked:
        return
    phases = {phase.name for workload in plan.workloads.values() for phase in workload.phases}
    systems = {name for trial in plan.trials for name in (trial.filesystem, trial.label)}
    for what, names, known in ("phase", asked.phases, phases), ("file system", asked.filesystems or [], systems):
        if other := next((name for name in names if name not in known), None):
            raise FileError(f"{file}: profile: {unknown(f'{what} of this study', other, known)}")
    if not plan.profiled():
        raise FileError(
            f"{file}: profile: none of these trials can have one. It needs the exact lab with one core, and a "
            "combination of phase and file system that exists."
        )


def _siblings(study: PlannedStudy, catalog: Catalog) -> dict[str, dict[str, Verdict]]:
    """Claim -> study -> its verdict, of the other studies beside the same published numbers that have one."""
    found: dict[str, dict[str, Verdict]] = {}
    for name in catalog.paths(Study) if study.published else ():
        other = catalog.get(Study, name)
        if name == study.base or other.published != study.published:
            continue
        for verdict, claims in (other.expected or {}).items():
            for claim in claims if verdict not in (NOT_HERE, ABSENT) else ():
                found.setdefault(claim, {})[name] = verdict
    return found


def _changed(study: PlannedStudy, catalog: Catalog, change: Override) -> PlannedStudy:
    """The study with an override, whose directories the catalog then has. Raises UserError for an unknown name."""
    if change.lab:
        labs.get_lab(apart(change.lab)[0])
    if change.profile:
        for name in profile_names(change.profile):
            catalog.get(Device, name)
    add_places(catalog, change.where, change.clients)
    return overridden(study, change)


def _trials(
    study: PlannedStudy, setups: list[Setup], jobs: list[str], crosses: list[tuple[Entry, list[Cell]]]
) -> list[PlannedTrial]:
    """The trials of a study in order; an entry may give its cells fewer rounds. jobs: of cells, with SEED, ROUND."""
    most: dict[Cell, int] = {}
    for entry, cells in crosses:
        for cell in cells:
            most[cell] = max(most.get(cell, 0), entry.rounds or study.most_rounds())
    trials: list[PlannedTrial] = []
    for number, place in study.order(len(setups)):
        cell = setups[place].cell
        if number > most[cell]:
            continue
        trial = Trial(**dict(cell), round=number, seed=study.seed + number, order=len(trials) + 1)
        job = jobs[place].replace(SEED, f"{trial.seed}").replace(ROUND, f"{number}")
        job = hashlib.sha256(job.encode()).hexdigest()
        trials.append(PlannedTrial(**dict(trial), id=trial_id(trial), job_sha256=job))
    return trials


def _parts(setups: list[Setup], programs: dict[str, list[str]]) -> dict[str, Any]:
    """What the plan says of each part of its cells, by name. programs: of the engine, by workload."""
    return {
        "labs": {one.cell.full_lab: _lab(one) for one in setups},
        "filesystems": _filesystems(setups),
        "workloads": {
            one.cell.workload: _workload(one.workload, one.cell.scale, programs[one.cell.workload]) for one in setups
        },
        "devices": {
            name: profile
            for one in setups
            for name, profile in zip(profile_names(one.cell.profile), one.profiles, strict=True)
        },
        "networks": {one.network.name: one.network for one in setups if one.network},
        "stacks": {one.stack.name: one.stack for one in setups},
    }


def _lab(setup: Setup) -> LabFacts:
    own = {"kernel": setup.kernel, "memory_mib": setup.cell.memory_mib}
    return setup.lab.facts(setup.processor).model_copy(update=own)


def _filesystems(setups: list[Setup]) -> dict[str, PlannedFilesystem]:
    """With the variants that are in no file: those with further mount options."""
    found: dict[str, PlannedFilesystem] = {}
    for one in setups:
        system, variant = one.filesystem, one.cell.variant
        known = found.get(one.cell.filesystem, system)
        variants = {**known.variants}
        variants.setdefault(variant, system.variant(variant))
        found[one.cell.filesystem] = known.model_copy(update={"variants": variants})
    return found


def _workload(found: Modified, scale: str, programs: list[str]) -> PlannedWorkload:
    replayed = found.recording()
    own: dict[str, Any] = {
        "scale": found.scale(scale),
        "programs": programs,
        "recording": recording.read_head(recording.path_of(replayed)) if replayed else None,
    }
    own |= {name: getattr(found, name) for name in PlannedWorkload.model_fields if name not in own}
    return PlannedWorkload.model_construct(**own)


def _possible(cells: list[Cell], catalog: Catalog, change: Override) -> tuple[list[Setup], list[str]]:
    """The cells that can be had in an overridden study, and sentences about the others.

    Raises UserError if there are none.
    """
    chosen: list[Setup] = []
    lost: dict[str, list[str]] = {}
    for cell in cells:
        try:
            setup = resolve(cell, catalog)
            why = setup.filesystem.unavailable or next(filter(None, map(setup.lab.unsuited, setup.profiles)), "")
        except FileError:
            raise
        except UserError as error:
            why = str(error)
        if why:
            words = f"{cell.label} on {cell.stack}, {cell.profile}, {cell.workload}"
            lost.setdefault(why.rstrip("."), []).append(words)
        else:
            chosen.append(setup)
    if not chosen:
        first = next(iter(lost))
        more = f" And {len(lost) - 1} other reasons." if len(lost) > 1 else ""
        hint = "; choose one with PROFILE=." if not change.profile and "device model" in first else ""
        raise UserError(f"no configuration is possible with {change}: {first}{hint}{more}")
    said = [f"{'; '.join(which)} {'is' if len(which) == 1 else 'are'} left out: {why}" for why, which in lost.items()]
    return chosen, said


def edited(plan: Plan, name: str, catalog: Catalog, change: Override | None = None) -> str:
    """A sentence when the files of a study say something else than the plan that was made of them; else nothing."""
    begun = "was edited during the run. The report shows the study as it was at the start: run it again."
    try:
        same = make_plan(name, catalog, change).as_json() == plan.as_json()
    except UserError as error:
        return f"a file of the study {name} {begun} Now: {error}"
    return "" if same else f"a file of the study {name} {begun}"


def as_root(cells: Iterable[Cell], catalog: Catalog, study: str = "STUDY") -> str:
    """A sentence when trials run what files say as root on this machine: which files, and how to read it before."""
    files: dict[str, None] = {}
    for cell in {(cell.lab, cell.filesystem, cell.stack, cell.workload): cell for cell in cells}.values():
        if labs.get_lab(cell.lab).as_root:
            setup = resolve(cell, catalog)
            parts = (setup.filesystem, *(placed.layer for placed in setup.stack.placed), setup.workload)
            files |= dict.fromkeys(part.file for part in parts)
    if not files:
        return ""
    return (
        f"the commands of {cut(', '.join(sorted(files)), 150)} run as root on this machine. `reprofs plan "
        f"{study} --commands` prints them; read them first (SECURITY.md)."
    )


def on_one_system(cells: Iterable[Cell], catalog: Catalog) -> str:
    """A sentence when directories that are compared lie on one file system: which; else nothing."""
    names = {cell.filesystem for cell in cells if apart(cell.lab)[0] == PLACES}
    found: dict[int, list[str]] = {}
    for path in sorted(catalog.get(Filesystem, name).path or "" for name in names):
        with contextlib.suppress(OSError):  # not there: its trials are skipped, which says so
            found.setdefault((project_root() / Path(path).expanduser()).stat().st_dev, []).append(path)
    first, *more = [several(paths, 300) for paths in found.values() if len(paths) > 1] or [""]
    told = f"{first} are on the same file system{''.join(f', and so are {paths}' for paths in more)}"
    return first and f"{cut(told, 700)}: how their times differ says nothing about file systems."


def check_machine(plan: Plan, catalog: Catalog) -> None:
    """Raises UserError when an overridden study cannot run on this machine, before its first trial."""
    if not plan.study.override:
        return
    found: dict[type[labs.Lab], tuple[Device, int]] = {}
    for cell in dict.fromkeys(Cell(**{key: getattr(trial, key) for key in Cell.model_fields}) for trial in plan.trials):
        setup = resolve(cell, catalog)
        profile, count = found.get(setup.lab, (setup.profile, 0))
        real = setup.profile.backing == "device"
        found[setup.lab] = (setup.profile, max(count, len(setup.paths))) if real else (profile, count)
    for lab, (profile, count) in found.items():
        if why := lab.refusal(profile, count):
            raise UserError(f"{plan.study.override.text}: {why}")


def _check_notebooks(names: list[str], file: str) -> None:
    """Raises FileError when one of the study's own notebooks is missing."""
    for name in names:
        if not (project_root() / "notebooks" / name).is_file():
            raise FileError(
                f"{file}: notebooks names {name}, which is not in notebooks/: add it there, or remove it here."
            )


def _check_ids(ids: list[str], file: str) -> None:
    """Raises FileError when two trials of a study would have the same name, or a name too long for a file."""
    twice = next((one for one, count in Counter(ids).items() if count > 1), None)
    if twice:  # as of stack a on profile b-c and stack a-b on profile c
        raise FileError(f"{file}: two different trials would have the name {twice}: rename a descriptor.")
    longest = max(ids, key=len)
    if len(longest) > ID_MAX:
        raise FileError(
            f"{file}: the name of trial {cut(longest, 150)} has {len(longest)} characters, but may have at most "
            f"{ID_MAX}: shorten the names of its parts."
        )


def table(plan: Plan) -> str:
    """The plan as text, one line per trial."""
    study = plan.study
    numbers, words = ("order", "round", "seed"), ("lab", "stack", "profile", "file system", "workload", "scale")
    rows: list[dict] = [dict(zip(numbers + words, numbers + words, strict=True))]  # the heading
    rows += [{**trial.names(), "file system": trial.label} for trial in plan.trials]
    widths = {key: max(len(str(row[key])) for row in rows) for key in numbers + words}
    lines = [
        f"{study.name}: {study.question}",
        f"{_extent(study, len(plan.trials))}, shuffled with seed {study.seed}",
        *([f"overridden: {study.override.text}", *study.override.left_out] if study.override else []),
        *(
            f"workload {name}: its recording is incomplete: {'; '.join(one.recording.incomplete)}"
            for name, one in plan.workloads.items()
            if one.recording and one.recording.incomplete
        ),
        "",
    ]
    for row in rows:
        cells = [f"{row[key]:>{widths[key]}}" for key in numbers] + [f"{row[key]:{widths[key]}}" for key in words]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _extent(study: PlannedStudy, trials: int) -> str:
    rule = study.rule
    if not rule:
        return f"{trials} trials in {study.rounds} repetitions"
    *first, last = map(str, study.looks())
    after = f"{', '.join(first)} or {last}" if first else last
    return f"at most {trials} trials: {after} repetitions, until ratios are known within ±{rule.until}"
