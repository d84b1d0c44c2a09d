"""What the rules of the workflow compute (workflow/rules): the plan of the chosen study, and what each stage needs.

The rules are wiring: which command makes which file of which. A mistake of the user ends the run in one sentence.
"""

from __future__ import annotations

import gc
import hashlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from reprofs import cli, labs, sources
from reprofs.errors import UserError
from reprofs.files import SUMS, cache_folder, changed, sha256
from reprofs.guest import engine
from reprofs.guest.kernel import recipe_of_kernel
from reprofs.guest.lock import packages_of, read_lock
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.config import read_config
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.guest import read_guest
from reprofs.plan.override import override
from reprofs.plan.plan import write_plan
from reprofs.plan.result import file_of_run
from reprofs.project import place
from reprofs.records.raw import LAYOUT
from reprofs.report import contents
from reprofs.trial import planning as trials
from reprofs.trial import progress

DRY = {"-n", "--dry-run", "--dryrun"}
FEW = 100_000  # objects between two looks for circles: by default, of 700, a quarter of the time with thousands of jobs


class Flow:
    """The workflow for one study. config: Snakemake's. Raises UserError for a mistake in any descriptor."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        gc.set_threshold(FEW)
        self.began = time.time()
        self.settings = read_config(dict(config))
        self.override = override(self.settings.lab, self.settings.profile, self.settings.where, self.settings.clients)
        self.study = self.override.named(self.settings.study)
        self.catalog = Catalog(self.settings.extra_dirs)
        self.plan = trials.make_plan(self.settings.study, self.catalog, self.override)
        write_plan(self.plan, Path(f"data/plan/{self.study}.json"))
        self.trials = {trial.id: trial for trial in self.plan.trials}
        self.looks = self.plan.study.looks()  # numbers of rounds after which it may end: one, or several
        if not all(map(Path.exists, map(Path, self.records()))):
            trials.check_machine(self.plan, self.catalog)
        # The run that the report sets the study beside, by the file of its digests.
        self.beside = file_of_run(self.settings.beside) if self.settings.beside else None
        if self.beside == place(f"data/tables/{self.study}") / SUMS:
            raise UserError(f"BESIDE={self.settings.beside} is this study itself: name another run.")
        self.notebooks = contents.notebooks(self.plan, Path("notebooks"), bool(self.beside))
        self.first = contents.first(self.plan, bool(self.beside))
        self.profiled = [f"data/profiles/{self.study}/{trial.id}" for trial in self.plan.profiled()]
        self.real_clocks = {name for name, trial in self.trials.items() if labs.get_lab(trial.lab).exclusive}
        names = {name for workload in self.plan.workloads.values() for name in workload.programs}
        self._programs = {name: sha256(engine.build(cache_folder(), name)) for name in names}
        kernels = [lab.kernel for lab in self.plan.labs.values() if lab.kernel]
        self._kernels = {kernel.name: recipe_of_kernel(read_lock(), kernel) for kernel in kernels}
        progress.start([Path(record) for record in self.records()], at_most=len(self.looks) > 1)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Flow:
        """The same; a UserError ends the run with its message."""
        return said(cls, config)

    def records(self, rounds: int | None = None) -> list[str]:
        """The records of the first repetitions, or of all."""
        names = [name for name, trial in self.trials.items() if rounds is None or trial.round <= rounds]
        return [f"data/raw/{self.study}/{name}.json" for name in names]

    def trial(self, name: str) -> PlannedTrial:
        """A trial by its name; an unknown one ends the run."""
        if name not in self.trials:
            why = f"the study {self.study} has no trial {name}: `reprofs plan {self.study}` lists its trials"
            sys.exit(cli.fail(UserError(why)))
        return self.trials[name]

    def guest_of(self, name: str) -> list[str]:
        """The manifest of the guest that a trial runs in; nothing in a lab without one."""
        trial = self.trial(name)
        if not labs.get_lab(trial.lab).in_guest:
            return []
        return [f"data/guest/{self.plan.guest_of(trial.filesystem, trial.stack, trial.workload)}.json"]

    def made_of(self, name: str) -> str:
        """A digest of what fixes a trial and is known before its guest is built: job, engine programs, kernel, rules.
        If it changes, the trial is requested again; its identity decides whether it runs."""
        trial = self.trial(name)
        own = [self._programs[each] for each in self.plan.workloads[trial.workload].programs]
        kernel = self._kernels.get(trial.kernel or "")
        parts = [trial.job_sha256, own if self.guest_of(name) else [], kernel, self.plan.protocol, LAYOUT]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def guest_made_of(self, name: str) -> str:
        """A digest of what envs/guest.yaml and envs/lab.lock say of a guest, and of the parts of all (engine, QEMU): an
        edit of another guest must not repeat the trials of this one. A mistake is said by the rule."""
        try:
            guest, lock = read_guest(name), read_lock()
            lines = [package.line() for package in packages_of(lock, guest)]
        except UserError:
            return ""
        built = {part: digest for part, (_, digest) in lock.built.items() if Path(part).parts[0] in (name, part)}
        return hashlib.sha256(json.dumps([guest.as_json(), lines, built]).encode()).hexdigest()

    def where_alone(self, value: Callable[[], Any], otherwise: Any) -> Any:
        """`value()` for trials on a real clock, a default for others.

        Without real clocks it is no function: Snakemake takes a tenth of a millisecond to call one for a job.
        """
        if not self.real_clocks:
            return otherwise
        return lambda wildcards: value() if wildcards.trial in self.real_clocks else otherwise

    def options(self, name: str) -> str:
        """The options of `reprofs trial` for a trial of the plan.

        Where time is counted the order of trials changes none of their numbers. Left out there, it does not make trials
        run again when a study gets further cells, which are anywhere in its order.
        """
        trial = self.trial(name)
        words: list[str] = []
        for key, value in trial.names().items():
            words += [f"--{key}", str(value)] if key != "order" or name in self.real_clocks else []
        words += ["--time-limit", str(self.plan.study.time_limit_s)]
        if self.override.where:
            words += ["--where", self.catalog.get(Filesystem, trial.filesystem).path or ""]
        if self.override.clients:
            words += ["--clients", ",".join(self.override.clients)]
        return f"{shlex.join(words)} {self.folders}".rstrip()

    @property
    def folders(self) -> str:
        """The options of commands for further folders of descriptors."""
        return shlex.join(word for each in self.settings.extra_dirs for word in ("--extra-dir", each))

    @property
    def published(self) -> list[str]:
        """The published numbers that the study is compared with."""
        return files(f"data/published/{self.plan.study.published}.*") if self.plan.published else []

    @property
    def others(self) -> list[str]:
        """What says of the other published results which trials they have, larger ones of the same workload, too."""
        return [path for path in files("results/*/digests.json") if Path(path).parent.name != self.study]

    def remove_changed(self) -> None:
        """Removes outputs that were edited, so that they are made again, and says so; not in a dry run."""
        if DRY & set(sys.argv):
            return
        for folder in map(Path, (f"data/tables/{self.study}", f"data/results/{self.study}", *self.profiled)):
            _remove_changed(folder, folder / SUMS)
        notebooks = Path(f"report/{self.study}/notebooks").glob("*.ipynb")
        for made in (*notebooks, *Path(f"data/rounds/{self.study}").glob("*.json")):
            _remove_changed(made, Path(f"{made}.sha256"))

    def deploys(self, methods: Iterable[Any]) -> None:
        """Refuses conda: no digest says what it would install."""
        if any(method.name == "CONDA" for method in methods):
            why = "conda would install packages that no digest fixes: leave out --software-deployment-method (--sdm)"
            sys.exit(cli.fail(UserError(f"{why}; the environment is that of uv.lock, made by `make setup`")))

    def start(self, resources: Mapping[str, Any]) -> None:
        """Says what runs as root, and what is on one file system; refuses trials on a real clock in parallel."""
        planned = self.trials.values()
        said = trials.as_root(planned, self.catalog, self.settings.study), trials.on_one_system(planned, self.catalog)
        for why in filter(None, said):
            print(f"reprofs: {why}", file=sys.stderr)
        if self.real_clocks and "bench_slot" not in resources:
            why = "this study has trials on a real clock, which must run one at a time: use the profile"
            sys.exit(cli.fail(UserError(f"{why} profiles/default, or add --resources bench_slot=1")))

    def last_plan(self, look: Callable[[int], str]) -> str:
        """The plan of the repetitions that the study ends with. look: the plan after a number of repetitions."""
        if not self.plan.study.rule:
            return f"data/plan/{self.study}.json"
        for rounds in self.looks:
            path = look(rounds)
            if json.loads(Path(path).read_text())["stopping"]["enough"]:
                return path
        raise ValueError(f"{path} does not end the study")

    def last_records(self, last_plan: str) -> list[str]:
        """The records of these repetitions."""
        return self.records(int(Path(last_plan).stem) if self.plan.study.rule else self.looks[0])

    def edited_meanwhile(self) -> str:
        """A sentence if the study's files changed during the run; else empty."""
        descriptors = [*map(Path, files("config/**/*.yaml", "workflow/**/*.yaml", "data/published/*"))]
        descriptors += [path for each in self.settings.extra_dirs for path in Path(each).glob("*/*.yaml")]
        if not any(path.stat().st_mtime > self.began for path in descriptors):
            return ""
        catalog = Catalog(self.settings.extra_dirs)
        return trials.edited(self.plan, self.settings.study, catalog, self.override)


def said(call: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call; a UserError ends the run with its message."""
    try:
        return call(*arguments)
    except UserError as error:
        sys.exit(cli.fail(error))


def _remove_changed(made: Path, sums: Path) -> None:
    known = made.is_dir() or (made.exists() and sums.exists())
    if wrong := known and changed(sums):
        print(f"reprofs: {wrong} is missing or was changed: {made} is made again.", file=sys.stderr)
        shutil.rmtree(made) if made.is_dir() else made.unlink()


def files(*patterns: str) -> list[str]:
    """Files of the checkout that a rule depends on."""
    return sorted(str(path) for pattern in patterns for path in Path().glob(pattern))


def code(start: str) -> list[str]:
    """The modules that a stage depends on: what its module or notebook imports, directly or through others."""
    here = Path.cwd()
    found = said(sources.of, start)
    return [str(path.relative_to(here) if path.is_relative_to(here) else path) for path in found]
