"""Whether our own QEMU, built of changed patches, still gives the published numbers.

A sample of trials will not do. A TLB whose indices had 16 bits passed every small trial and failed the first large one;
a later mistake ended F2FS alone, at its mount. So every file system and variant, stack, device, network, workload,
scale, CPU model, kernel and limit of memory of results/ is in at least one trial that is run again, and so is every
result of this protocol.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from reprofs.errors import UserError
from reprofs.files import cache_folder, write_text
from reprofs.guest import image, qemu
from reprofs.guest.lock import read_lock, write_lock
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.project import place
from reprofs.records.identity import CLOCK
from reprofs.records.protocol import PROTOCOL
from reprofs.records.publication import DIGESTS, read, unpack
from reprofs.trial.resolve import resolve
from reprofs.trial.run import run_trial
from reprofs.workplace import scratch

Say = Callable[[str], None]
ALONE_S = 5  # what a trial costs besides its own seconds: of two that show the same the shorter is taken


@dataclass(frozen=True)
class Published:
    """A trial of a result. digest: of its measurement; seconds: of the host that measured it; limit_s: of its study."""

    result: str
    trial: PlannedTrial
    status: str
    digest: str
    seconds: float
    limit_s: float

    @property
    def name(self) -> str:
        return f"{self.result}/{self.trial.id}"

    def shows(self) -> set[tuple]:
        """What of the lab and the catalogue it needs."""
        trial = self.trial
        parts: list[tuple] = [("result", self.result), ("lab", trial.full_lab), ("network", trial.network or "")]
        parts += [("stack", trial.stack), ("device", trial.profile), ("scale", trial.workload, trial.scale)]
        return {*parts, ("file system", trial.filesystem, trial.variant)}


def comparable(folder: Path) -> tuple[list[Path], int]:
    """The results in a folder that have this protocol, and how many there are in all."""
    results = [path.parent for path in sorted(folder.glob(f"*/{DIGESTS}"))]
    return [path for path in results if read(path).protocol == PROTOCOL], len(results)


def published(results: list[Path]) -> Iterator[Published]:
    """The exact trials of results that were run, whatever became of them."""
    for path in results:
        result = read(path)
        with scratch() as work:
            plan = unpack(path, result, work)
        for trial in plan.trials:
            known = result.trials[trial.id]
            if plan.labs[trial.full_lab].clock == CLOCK and known.status not in ("skipped", "timeout"):
                seconds, limit_s = known.host_seconds, plan.study.time_limit_s
                yield Published(result.study, trial, known.status, known.measurement, seconds, limit_s)


def chosen(trials: list[Published]) -> list[Published]:
    """Few of them, in which all that any shows is shown; the longest first."""
    left, found, rest = set[tuple]().union(*(trial.shows() for trial in trials)), list[Published](), list(trials)
    while left:
        best = max(rest, key=lambda trial: len(trial.shows() & left) / (trial.seconds + ALONE_S))
        found.append(best)
        left -= best.shows()
        rest = [trial for trial in rest if trial.shows() & left]
    return sorted(found, key=lambda trial: -trial.seconds)


def accept(say: Say) -> bool:
    """Runs the chosen trials by our own QEMU; envs/lab.lock says how many are as published. Returns whether all are.

    What has run is kept in the cache: a run that was ended goes on where it was. Raises UserError where no result has
    this protocol, for an altered result, and when a guest or QEMU cannot be built.
    """
    cache, lock = cache_folder(), read_lock()
    results, count = comparable(place("results"))
    said = f"{len(results)} of {count} results have protocol {PROTOCOL}"
    if not results:
        raise UserError(f"{said}, and numbers of others are not compared: publish a study first (`make publish`).")
    say(said)
    built = qemu.own(cache, say, lock)
    trials = chosen(list(published(results)))
    kept = cache / f"accepted/{built['sha256']}"
    # By what is published, too: under the next protocol a trial of the same name is another.
    keys = {trial.name: hashlib.sha256(f"{trial.name} {trial.digest}".encode()).hexdigest() for trial in trials}
    known = {name: kept / f"{key}.json" for name, key in keys.items()}
    left = [trial for trial in trials if not known[trial.name].exists()]
    hours = sum(trial.seconds for trial in left) / 3600
    say(f"{len(trials)} trials of them, {len(left)} to run; about {hours:.1f} hours of one core")
    catalog = Catalog()
    for guest in sorted({resolve(trial.trial, catalog).guest for trial in left}):
        image.ensure(guest, say)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as processes:
        running = {processes.submit(_digest, trial): trial for trial in left}
        for number, done in enumerate(as_completed(running), 1):
            trial = running[done]
            write_text(known[trial.name], json.dumps(done.result()))
            same = _same(trial, done.result())
            say(f"{number} of {len(left)}: {'identical' if same else 'DIFFERS'}  {trial.name}")
    found = {trial.name: json.loads(known[trial.name].read_text()) for trial in trials}
    wrong = [trial.name for trial in trials if not _same(trial, found[trial.name])]
    proof = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    identical = len(trials) - len(wrong)
    lock.accepted = {built["sha256"]: ((identical, len(trials)), proof)}
    write_lock(lock)
    say(f"{identical} of {len(trials)} identical" + (f"; different: {', '.join(wrong[:3])}" if wrong else ""))
    return not wrong


def _digest(trial: Published) -> list[str]:
    """Its status and the digest of its measurement, run by our own QEMU."""
    os.environ[qemu.VARIABLE] = "own"
    with scratch() as work:
        record = run_trial(trial.trial, Catalog(), work / "again.json", trial.limit_s, keep=False)
    return [record["status"], record["digests"]["measurement"]]


def _same(trial: Published, found: list[str]) -> bool:
    return found == [trial.status, trial.digest]
