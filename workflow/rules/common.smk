# What all rules share: the plan of the chosen study. A mistake in any descriptor ends the run here, in one sentence.
import gc
import json
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

from reprofs import cli, labs, sources
from reprofs.plan.catalog import Catalog
from reprofs.plan.override import override
from reprofs.errors import UserError
from reprofs.files import SUMS, cache_folder, changed, sha256, write_text
from reprofs.guest import engine
from reprofs.guest.kernel import recipe_of_kernel
from reprofs.guest.lock import LOCK, packages_of, read_lock
from reprofs.report import contents
from reprofs.plan.config import read_config
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.guest import BASE, common, read_guest
from reprofs.trial import progress, record
from reprofs.plan.plan import write_plan
from reprofs.plan.result import file_of_run
from reprofs.project import place
from reprofs.trial.plan import as_root, check_machine, edited, make_plan

# With thousands of jobs Python would spend a quarter of the time looking for circles of objects every 700 of them.
gc.set_threshold(100_000)

try:
    SETTINGS = read_config(config)
    OVERRIDE = override(
        SETTINGS.lab, SETTINGS.profile, SETTINGS.where, SETTINGS.clients
    )
    STUDY = OVERRIDE.named(SETTINGS.study)
    CATALOG = Catalog(SETTINGS.extra_filesystem_dirs)
    PLAN = make_plan(SETTINGS.study, CATALOG, OVERRIDE)
    write_plan(PLAN, Path(f"data/plan/{STUDY}.json"))
    TRIALS = {trial.id: trial for trial in PLAN.trials}
    if not all(Path(f"data/raw/{STUDY}/{name}.json").exists() for name in TRIALS):
        check_machine(PLAN, CATALOG)
    PROGRAMS = {
        name: sha256(engine.build(cache_folder(), name))
        for workload in PLAN.workloads.values()
        for name in workload.programs
    }
    KERNELS = {
        lab.kernel.name: {"kernel": recipe_of_kernel(read_lock(Path(LOCK)), lab.kernel)}
        for lab in PLAN.labs.values()
        if lab.kernel
    }
    # The run that the report sets the study beside, by the file of its digests.
    BESIDE = file_of_run(SETTINGS.beside) if SETTINGS.beside else None
    if BESIDE == place(f"data/tables/{STUDY}") / SUMS:
        raise UserError(
            f"BESIDE={SETTINGS.beside} is the study itself: name another run."
        )
    NOTEBOOKS = contents.notebooks(PLAN, Path("notebooks"), bool(BESIDE))
    PROFILED = [f"data/profiles/{STUDY}/{trial.id}" for trial in PLAN.profiled()]
    LABS = {lab: labs.get_lab(lab) for lab in {trial.lab for trial in PLAN.trials}}
except UserError as error:
    cli.fail(error)
    sys.exit(2)

# What may be edited while the study runs.
BEGAN = time.time()
DESCRIPTORS = [
    path
    for pattern in ("config/**/*.yaml", "workflow/**/*.yaml", "data/published/*")
    for path in sorted(Path().glob(pattern))
]


def remove_changed(made, sums):
    """Removes what was changed after it was made, so that it is made again, and says so."""
    known = made.is_dir() or (made.exists() and sums.exists())
    if wrong := known and changed(sums):
        what = f"{wrong} is missing or was changed after it was made"
        print(f"reprofs: {what}: {made} is made again.", file=sys.stderr)
        shutil.rmtree(made) if made.is_dir() else made.unlink()


# A dry run changes nothing; the jobs of a cluster read this file while others are writing.
if workflow.is_main_process and not {"-n", "--dry-run", "--dryrun"} & set(sys.argv):
    for made in f"data/tables/{STUDY}", f"data/results/{STUDY}", *PROFILED:
        remove_changed(Path(made), Path(made) / SUMS)
    notebooks = Path(f"report/{STUDY}/notebooks").glob("*.ipynb")
    for made in *notebooks, *Path(f"data/rounds/{STUDY}").glob("*.json"):
        remove_changed(made, Path(f"{made}.sha256"))


# The numbers of rounds after which the study may end: one, or several looks where rounds adapt.
LOOKS = PLAN.study.looks()


def edited_meanwhile():
    """A sentence when the study's files now mean something else than when the run began; else nothing."""
    if any(path.exists() and path.stat().st_mtime > BEGAN for path in DESCRIPTORS):
        return edited(
            PLAN, SETTINGS.study, Catalog(SETTINGS.extra_filesystem_dirs), OVERRIDE
        )
    return ""


def records(rounds):
    """The records of the first rounds."""
    return [
        f"data/raw/{STUDY}/{name}.json"
        for name, trial in TRIALS.items()
        if trial.round <= rounds
    ]


def guest_of(name):
    """The manifest of the guest that a trial runs in; None in a lab without one."""
    if name not in TRIALS:
        cli.fail(
            f"the study {STUDY} has no trial {name}: `reprofs plan {STUDY}` lists its trials"
        )
        sys.exit(2)
    trial = TRIALS[name]
    if not LABS[trial.lab].in_guest:
        return None
    guest = common(
        PLAN.filesystems[trial.filesystem].guest,
        PLAN.workloads[trial.workload].guest,
        PLAN.stacks[trial.stack].guest or BASE,
    )
    return f"data/guest/{guest}.json"


def programs_of(name):
    """The programs of the engine that a trial in a guest uses, and its kernel if it is not the guest's own, with their
    digests."""
    trial = TRIALS[name]
    names = PLAN.workloads[trial.workload].programs if guest_of(name) else []
    return {each: PROGRAMS[each] for each in names} | KERNELS.get(trial.kernel, {})


def guest_spec(name):
    """What envs/guest.yaml and envs/lab.lock say of this guest, and what the lock says of the parts of all (engine, QEMU):
    an edit of another guest must not repeat the trials of this one."""
    source, own = Path("envs/guest.yaml"), Path(f"data/guest/{name}.spec")
    try:
        guest = read_guest(name, source)
        lock = read_lock(Path(LOCK))
        lines = [package.line() for package in packages_of(lock, guest)]
        built = {
            part: digest
            for part, (_, digest) in lock.built.items()
            if Path(part).parts[0] in (name, part)
        }
        text = json.dumps([guest.as_json(), lines, built], indent=1)
    except UserError:  # the rule says it in a sentence
        return str(source)
    if not own.exists() or own.read_text() != text:
        write_text(own, text)
        latest = max(
            (path.stat() for path in (source, Path(LOCK))),
            key=lambda found: found.st_mtime_ns,
        )
        os.utime(own, ns=(latest.st_atime_ns, latest.st_mtime_ns))
    return str(own)


def is_alone(name):
    """Whether a trial has a real clock, so that nothing else may run beside it."""
    return LABS[TRIALS[name].lab].exclusive


def where_alone(value, otherwise):
    """What a trial with a real clock gets, `value()`, and what others get.

    In a study without real clocks it is no function: Snakemake takes a tenth of a millisecond to call one for a job.
    """
    if not any(map(is_alone, TRIALS)):
        return otherwise
    return lambda wildcards: value() if is_alone(wildcards.trial) else otherwise


progress.start(
    {
        Path(f"data/raw/{STUDY}/{name}.json"): (trial.job_sha256, guest_of(name))
        for name, trial in TRIALS.items()
    },
    at_most=len(LOOKS) > 1,
)


wildcard_constraints:
    study=re.escape(STUDY),
    rounds=r"\d+",
    # Not the names of all trials: Snakemake searches the constraint for each file of each job.
    trial=r"r\d+-[^/]+",


onstart:
    if said := as_root(TRIALS.values(), CATALOG, SETTINGS.study):
        print(f"reprofs: {said}", file=sys.stderr)
    if any(map(is_alone, TRIALS)) and "bench_slot" not in workflow.global_resources:
        cli.fail(
            "this study has trials with a real clock, which must run one at a time: use the profile profiles/default, "
            "or add --resources bench_slot=1"
        )
        sys.exit(2)


def trial_options(name):
    """The command-line options of `reprofs trial` for a trial of the plan.

    Where time is counted the order of trials changes none of their numbers. Left out there, it does not make trials run
    again when a study gets further cells, which are anywhere in its order.
    """
    words = [
        f"--{key} {shlex.quote(str(value))}"
        for key, value in TRIALS[name].names().items()
        if key != "order" or is_alone(name)
    ]
    words.append(f"--time-limit {PLAN.study.time_limit_s}")
    if OVERRIDE.where:
        path = CATALOG.get(Filesystem, TRIALS[name].filesystem).path
        words.append(f"--where {shlex.quote(path)}")
    if OVERRIDE.clients:
        words.append(f"--clients {shlex.quote(','.join(OVERRIDE.clients))}")
    words += [
        f"--extra-filesystem-dir {shlex.quote(d)}"
        for d in SETTINGS.extra_filesystem_dirs
    ]
    return " ".join(words)


def files(*patterns):
    """Files of the checkout that a rule depends on."""
    return sorted(str(path) for pattern in patterns for path in Path().glob(pattern))


def code(start):
    """The modules that a stage depends on: what its module or notebook imports, directly or through others."""
    here = Path.cwd()
    try:
        paths = sources.of(start)
    except UserError as error:
        cli.fail(error)
        sys.exit(2)
    return [
        str(path.relative_to(here) if path.is_relative_to(here) else path)
        for path in paths
    ]


# The published numbers that the study is compared with.
PUBLISHED = files(f"data/published/{PLAN.study.published}.*") if PLAN.published else []
