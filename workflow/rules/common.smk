# What all rules share: the plan of the chosen study. A mistake in any descriptor ends the run here, in one sentence.
import gc
import json
import os
import re
import shlex
import sys
from pathlib import Path

from reprofs import cli, labs, sources
from reprofs.plan.catalog import Catalog
from reprofs.plan.override import override
from reprofs.errors import UserError
from reprofs.files import write_text
from reprofs.guest import image
from reprofs.report import topics
from reprofs.plan.study import looks, read_config
from reprofs.trial import progress, record
from reprofs.trial.plan import check_machine, write_plan

# With thousands of jobs Python would spend a quarter of the time looking for circles of objects every 700 of them.
gc.set_threshold(100_000)

try:
    SETTINGS = read_config(config)
    OVERRIDE = override(
        SETTINGS["lab"], SETTINGS["profile"], SETTINGS["where"], SETTINGS["clients"]
    )
    STUDY = OVERRIDE.named(SETTINGS["study"])
    CATALOG = Catalog(SETTINGS["extra_filesystem_dirs"])
    PLAN = write_plan(
        SETTINGS["study"], CATALOG, Path(f"data/plan/{STUDY}.json"), OVERRIDE
    )
    TRIALS = {trial["id"]: trial for trial in PLAN["trials"]}
    if not all(Path(f"data/raw/{STUDY}/{name}.json").exists() for name in TRIALS):
        check_machine(PLAN, CATALOG)
    NOTEBOOKS = topics.notebooks(PLAN, Path("notebooks"))
    LABS = {
        lab: labs.get_lab(lab.partition("@")[0])
        for lab in {t["lab"] for t in PLAN["trials"]}
    }
except UserError as error:
    cli.fail(error)
    sys.exit(2)

# The numbers of rounds after which the study may end: one, or several looks where rounds adapt.
LOOKS = looks(PLAN["study"])


def records(rounds):
    """The records of the first rounds."""
    return [
        f"data/raw/{STUDY}/{name}.json"
        for name, trial in TRIALS.items()
        if trial["round"] <= rounds
    ]


def guest_of(name):
    """The manifest of the guest that a trial runs in; None in a lab without one."""
    if name not in TRIALS:
        cli.fail(
            f"the study {STUDY} has no trial {name}: `reprofs plan {STUDY}` lists its trials"
        )
        sys.exit(2)
    trial = TRIALS[name]
    if not LABS[trial["lab"]].in_guest:
        return None
    return f"data/guest/{CATALOG.get('filesystem', trial['filesystem'])['guest']}.json"


def guest_spec(name):
    """What envs/guest.yaml says of this guest alone: an edit of another guest must not repeat the trials of this one."""
    source, own = Path("envs/guest.yaml"), Path(f"data/guest/{name}.spec")
    try:
        text = json.dumps(image.read_spec(source, name), indent=1)
    except UserError:  # the rule says it in a sentence
        return str(source)
    if not own.exists() or own.read_text() != text:
        write_text(own, text)
        os.utime(own, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
    return str(own)


def is_alone(name):
    """Whether a trial has a real clock, so that nothing else may run beside it."""
    return LABS[TRIALS[name]["lab"]].exclusive


def where_alone(value, otherwise):
    """What a trial with a real clock gets, `value()`, and what others get.

    In a study without real clocks it is no function: Snakemake takes a tenth of a millisecond to call one for a job.
    """
    if not any(map(is_alone, TRIALS)):
        return otherwise
    return lambda wildcards: value() if is_alone(wildcards.trial) else otherwise


progress.start(
    {
        Path(f"data/raw/{STUDY}/{name}.json"): (trial["job_sha256"], guest_of(name))
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
    left = {"id", "job_sha256"} | (set() if is_alone(name) else {"order"})
    options = {
        key.replace("_", "-"): value
        for key, value in TRIALS[name].items()
        if key not in left
    }
    words = [f"--{key} {shlex.quote(str(value))}" for key, value in options.items()]
    words.append(f"--time-limit {PLAN['study']['time_limit_s']}")
    filesystem = CATALOG.get("filesystem", TRIALS[name]["filesystem"])
    if OVERRIDE.where:
        words.append(f"--where {shlex.quote(filesystem['path'])}")
    if OVERRIDE.clients:
        words.append(f"--clients {shlex.quote(','.join(OVERRIDE.clients))}")
    words += [
        f"--extra-filesystem-dir {shlex.quote(d)}"
        for d in SETTINGS["extra_filesystem_dirs"]
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
PUBLISHED = (
    files(f"data/published/{PLAN['study']['published']}.*")
    if "published" in PLAN
    else []
)
