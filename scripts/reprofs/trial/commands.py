"""What a trial will execute, as text to read before it runs: from the same steps that the engine gets."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reprofs.guest.steps import Barrier, Drop, Exec, Mkdir, Module, Phase, Step, Write
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial
from reprofs.plan.plan import Plan
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve


def text(plan: Plan, catalog: Catalog) -> str:
    """The commands of all trials of the first repetition, in order; others differ only in their seeds."""
    return "\n".join(
        "\n".join([f"# {trial.id}", *trial_lines(trial, catalog), ""]) for trial in plan.trials if trial.round == 1
    )


def trial_lines(trial: Trial, catalog: Catalog) -> list[str]:
    """The commands of a trial: those of its lab, then those of its job."""
    setup = resolve(trial, catalog)
    disks = setup.disks
    job = render(setup, trial.seed)
    first = setup.lab.first_commands(disks, setup.filesystem.path or "", bool(setup.filesystem.hosts))
    first += [f"ssh {host}  # client {number} runs there what follows" for number, host in enumerate(job.clients)]
    return [*first, *(line for step in job.steps for line in step_lines(step)), *setup.lab.last_commands(disks)]


def step_lines(step: Step) -> Iterator[str]:
    """A step as a shell would have it; what the engine does by itself as a comment, in the words of its job."""
    match step:
        case Exec():
            when = f", if something is mounted on {step.if_mounted}" if step.if_mounted else ""
            yield f"{_in(step.cwd, step.env)}{shlex.join(step.arg)}  # {step.stage}{when}"
        case Barrier():
            yield f": here every client waits for all others, on {', '.join(dict.fromkeys(step.host))}"
        case Module():
            yield f"modprobe {shlex.quote(step.name)}  # unless the kernel has it"
        case Mkdir():
            yield f"mkdir {shlex.quote(step.path)}"
        case Write():
            yield f"echo {shlex.quote(str(step.text))} > {shlex.quote(step.path)}"
        case Drop():
            yield "sync; echo 3 > /proc/sys/vm/drop_caches"
        case Phase():
            about = f"phase {step.name}, {step.cache}{', not measured' if step.unmeasured else ''}"
            about += f", by {step.clients} clients at once" if step.clients else ""
            what = shlex.join(step.arg) if step.arg else f": engine: {step.operation}"
            yield f"{_in(step.cwd, step.env)}{what}  # {about}"
            yield from (f"sync --file-system {shlex.quote(path)}" for path in step.sync)
        case _:
            yield f": engine: {step.line()}".replace("\t", " ")


def _in(folder: str | None, environment: list[str]) -> str:
    words = [f"cd {shlex.quote(folder)} &&"] if folder else []
    return "".join(f"{word} " for word in [*words, *map(shlex.quote, environment)])
