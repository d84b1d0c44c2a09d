"""`reprofs answer -- COMMAND`: which file system is best for a program, from its recording to the ranking."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import yaml

from reprofs import files
from reprofs.data import tables
from reprofs.errors import UserError, count, cut, short
from reprofs.guest import image, qemu
from reprofs.guest.lock import read_lock
from reprofs.plan import recording
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.device import Device
from reprofs.plan.filesystem import variant_of
from reprofs.plan.parts import NAME, NAME_RULE
from reprofs.plan.plan import Plan, write_plan
from reprofs.plan.study import Study
from reprofs.plan.workload import Workload
from reprofs.project import place
from reprofs.recorder import record
from reprofs.stats import study as studies
from reprofs.stats.program import Answered, Native, best, makes, reads, typical
from reprofs.trial import planning, run
from reprofs.workplace import die_with_parent, scratch
from reprofs.workplace import run as start

Say = Callable[[str], None]
# Those of the study `applications`; one disk of each kind, of which the drives with capacitors flush at once.
FILESYSTEMS = ("ext4", "xfs", "btrfs", "f2fs")
DEVICES = ("hdd-7200", "ssd-sata", "ssd-nvme-plp")
ROUNDS = 2  # decide most of what six do (docs/your-program.md)
CALLS = 1_000_000  # that a trial can replay in its time
LOOKS = frozenset(("enter", "close", "stat", "fstat", "access", "readlink", "statfs"))  # what any shell does
SEED = 20261128
SHELLS = ("sh", "bash")
OWN, NOATIME = "my-", "noatime"  # how names of studies begin that this makes; .gitignore has them


def check(filesystems: Sequence[str], devices: Sequence[str]) -> None:
    """Raises UserError for a file system or device model that there is not: before a program runs for an hour."""
    catalog = Catalog()
    for name in filesystems:
        variant_of(name, catalog)
    for name in devices:
        catalog.get(Device, name)


def recorded(command: Sequence[str], folder: Path, name: str, seconds: int, say: Say) -> str:
    """Records a command twice run in copies of a folder: alone, for its time, and followed. Returns its name.

    name: of the recording, empty: one that follows from the command. Raises UserError, with nothing written, for a
    program that cannot be started, fails, does not end in time, or makes no call in its folder.
    """
    if not folder.is_dir():
        raise UserError(f"{short(str(folder))} is not a folder: name one in which the program starts (--in).")
    if name and not NAME.fullmatch(name):
        raise UserError(f"--name {short(name)} is invalid: it must have {NAME_RULE}.")
    name, told = _free(name or _name_of(command)), short(shlex.join(command))
    with _copy(folder) as own:
        elapsed, cpu = _alone(command, own, seconds)
    with _copy(folder) as own:
        try:
            content, facts = record.made(command, [own], name, seconds, own, _environment())
            nothing, elsewhere = LOOKS.issuperset(line[0] for line in content.calls), str(facts.elsewhere)
        except record.NoCalls as none:
            nothing, elsewhere = True, none.elsewhere
    if nothing:
        more = f" It {elsewhere}: name that folder (--in)." if elsewhere else ""
        raise UserError(f"{told} opens and changes no file in its folder, so no file system matters to it.{more}")
    if facts.code or content.head.ended:
        raise UserError(f"{told} ended well alone, but not while it was recorded (exit code {facts.code}).")
    if facts.untried:
        raise UserError(f"{told} was recorded, but cannot be replayed. {facts.untried}")
    if content.head.calls > CALLS:
        raise UserError(
            f"{told} makes {content.head.calls:,} calls in its folder, but the exact lab replays {CALLS:,} at most: "
            "give the program less to do."
        )
    record.write(name, content, facts)
    say(f"recorded as {name}: {count(content.head.calls, 'call')}")
    native = Native(elapsed, facts.calls_ns, str(facts.elsewhere), cpu)
    files.write_text(_native(name), json.dumps(native._asdict()) + "\n")
    return name


def measured(name: str, filesystems: Sequence[str], devices: Sequence[str], rounds: int, say: Say) -> Answered:
    """The replays of a recording, measured or taken from the store, and what noatime changes in them.

    filesystems, devices, rounds: without any, those of the study NAME if there is one; else the usual ones. Raises
    UserError where no trial of a device completes.
    """
    head, study = recording.read_head(recording.path_of(name)), name if name.startswith(OWN) else f"{OWN}{name}"
    file = place(Study.folder) / f"{study}.yaml"
    if filesystems or devices or rounds or not file.exists():
        content = _study(name, filesystems or FILESYSTEMS, devices or DEVICES, rounds or ROUNDS)
        planning.make_plan(study, _with(study, content))  # a mistake is said before anything is written
        files.write_text(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=110))
    if not qemu.has_own(files.cache_folder(), read_lock()):  # it takes longer to compile than these trials by Debian's
        os.environ.setdefault(qemu.VARIABLE, "debian")
    catalog = Catalog()
    found = _run(planning.make_plan(study, catalog), catalog, say)
    if not (found.trials["status"] == "ok").any():
        first = found.trials.iloc[0]
        raise UserError(
            f"no replay of {name} completed: {first['label']} on {first['profile']}: {cut(first['reason'])}"
        )
    native = Native(**files.read_json(_native(name))) if _native(name).exists() else None
    label, device = best(found, typical(found)), typical(found)
    answered = Answered(name, found, head, native, unshared=_unshared(name) if makes(found, "clone") else 0)
    if not label or not reads(found):  # without reading there is no time of access
        return answered
    own = "+".join(variant_of(label, catalog))
    more = {"profiles": [device], "filesystems": [own, f"{own}+{NOATIME}"]}
    other = f"{study}-{NOATIME}"
    catalog = _with(other, catalog.get(Study, study).as_json() | more)
    return replace(answered, more=_run(planning.make_plan(other, catalog), catalog, say))


def _unshared(name: str) -> int:
    """How many calls of a recording asked in vain to share blocks."""
    calls = (line for part, line, _ in recording.each(recording.path_of(name)) if part == recording.CALL)
    return sum(line[0] == "clone" and (line[1] or 0) < 0 for line in calls)


def _native(name: str) -> Path:
    """What is known of a program on this machine: not in its recording, which holds no time."""
    return place(f"data/answers/{name}.json")


def _name_of(command: Sequence[str]) -> str:
    """`my-git-clone` of `git clone -q a b`, also behind `sh -c`: the program, and what looks like its command."""
    words = list(command)
    if len(words) == 3 and words[0] in SHELLS and words[1] == "-c":
        with suppress(ValueError):  # quotes that only a shell understands
            words = shlex.split(words[2]) or words
    own = [Path(words[0]).name, *(word for word in words[1:2] if re.fullmatch(r"[a-z]{2,20}", word))]
    return "-".join([OWN[:-1], *filter(None, (re.sub(r"[^a-z0-9.]+", "-", word.lower()).strip("-.") for word in own))])[
        :50
    ]


def _free(name: str) -> str:
    """The name, or with a number behind it, of which there is neither recording nor study."""
    taken = {*recording.paths(), *Catalog().paths(Workload), *Catalog().paths(Study)}
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, 10**6))) if one not in taken)


@contextmanager
def _copy(folder: Path) -> Iterator[Path]:
    """A copy of a folder, on a disk. Raises UserError where it does not fit, or cannot be read."""
    with scratch(files.cache_folder() / "work") as work:
        needs = int(subprocess.run(["du", "-s", "-B1", "--", folder], capture_output=True).stdout.split()[0])
        if 2 * needs > shutil.disk_usage(work).free:
            raise UserError(
                f"{short(str(folder))} has {needs / 2**30:,.1f} GiB, too much to copy to {files.cache_folder()}: start "
                "the program in a smaller folder (--in), or record it there (reprofs record)."
            )
        done = subprocess.run(
            ["cp", "-a", "--reflink=auto", "--", f"{folder}/.", work / "copy"], capture_output=True, text=True
        )
        if done.returncode:
            raise UserError(f"{short(str(folder))} cannot be copied: {cut(done.stderr, 120)}.")
        yield work / "copy"


def _with(name: str, content: dict[str, Any]) -> Catalog:
    """The catalogue with a study that has no file, or another content than its file."""
    catalog = Catalog()
    catalog.add(Study, name, content)
    return catalog


def _study(name: str, filesystems: Sequence[str], devices: Sequence[str], rounds: int) -> dict[str, Any]:
    """The study of a recording, as its file has it."""
    return {
        "title": f"Which file system for the recorded program {name}?",
        "question": f"On which file system do the file-system calls of the program {name} take the least time?",
        "labs": ["exact"],
        "stacks": ["single"],
        "profiles": list(devices),
        "filesystems": list(filesystems),
        "workloads": [name],
        "scale": "smoke",
        "rounds": rounds,
        "seed": SEED,
    }


def _run(plan: Plan, catalog: Catalog, say: Say) -> studies.Study:
    """Runs the trials of a plan on all processors, but takes those that this machine has measured; their tables."""
    name = plan.study.name
    file, raw, made = (place(f"data/{part}") for part in (f"plan/{name}.json", f"raw/{name}", f"tables/{name}"))
    write_plan(plan, file)
    for guest in sorted({plan.guest_of(one.filesystem, one.stack, one.workload) for one in plan.trials}):
        image.ensure(guest, say)
    raw.mkdir(parents=True, exist_ok=True)
    known = catalog.extra_dirs
    # A copy of this process (fork) could wait for ever for a lock of one of its threads.
    workers = min(len(os.sched_getaffinity(0)), len(plan.trials))
    with ProcessPoolExecutor(workers, get_context("spawn"), die_with_parent) as pool:
        running = [
            pool.submit(_trial, one, known, raw / f"{one.id}.json", plan.study.time_limit_s) for one in plan.trials
        ]
        try:
            for number, done in enumerate(as_completed(running), 1):
                if line := done.result():
                    say(f"trial {number} of {len(running)}: {line}")
        except BrokenProcessPool:
            raise UserError(
                "a process that ran trials was killed: check whether this machine ran out of memory (journalctl -k, "
                f"dmesg), then run `reprofs answer {name}`."
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
    tables.build(file, raw, made)
    return studies.open(name)


def _trial(trial: PlannedTrial, extra_dirs: list[str], output: Path, limit_s: float) -> str:
    """Runs or takes one trial; a line about a run."""
    began = time.monotonic()
    record, origin = run.take_or_run(
        run.ready(trial, Catalog(extra_dirs), trial.job_sha256), output, limit_s, bool(os.environ.get("REUSE")), False
    )
    ending = f"{record['status']} in {time.monotonic() - began:.0f} s" + f": {cut(record['reason'])}" * bool(
        record["reason"]
    )
    return "" if origin else f"{trial.label} on {trial.profile}: {ending}"


def _environment() -> dict[str, str]:
    """The environment of the user's shell, in which `python3` is not that of this project (`uv run`, make)."""
    own = (Path(sys.prefix) / "bin", place(".uv/bin"))
    path = [folder for folder in os.environ.get("PATH", os.defpath).split(":") if Path(folder) not in own]
    kept = {name: value for name, value in os.environ.items() if value != sys.prefix}  # VIRTUAL_ENV
    return kept | {"PATH": ":".join(path)}


def _cpu_ns() -> int:
    """What all ended children used of processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((used.ru_utime + used.ru_stime) * 1e9)


def _alone(command: Sequence[str], folder: Path, seconds: int) -> tuple[int, int]:
    """Runs a command in a folder; its elapsed time and that of processors, ns.

    Raises UserError if it cannot be started, fails, or does not end in time.
    """
    told = short(shlex.join(command))
    with (folder.parent / "output").open("w+b") as output:
        began, used = time.perf_counter_ns(), _cpu_ns()
        try:
            streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            done = start(folder.parent, command, cwd=folder, timeout=seconds, env=_environment(), **streams)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"{told} did not end in {seconds:,} s: give it more time (--seconds), or less to do."
            ) from None
        except OSError as error:
            raise UserError(
                f"{told} cannot be started: {error.strerror}: name a program that exists, after --."
            ) from None
        took, code = (time.perf_counter_ns() - began, _cpu_ns() - used), done.returncode
        if code:
            output.seek(max(0, output.tell() - 4096))
            lines = output.read().decode(errors="replace").strip().splitlines()
            said = f": {cut(lines[-1], 100)}" if lines else ""
            raise UserError(f"{told} failed with exit code {code}{said}; nothing was recorded.")
    return took
