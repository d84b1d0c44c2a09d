"""The trials of a program: one a file system and device, in the exact lab."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from reprofs.errors import UserError, several
from reprofs.files import cache_folder
from reprofs.guest import engine
from reprofs.guest.steps import IMAGE_AT, IMAGE_OPTION
from reprofs.labs.exact import ExactLab
from reprofs.plan import PROCESSOR
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial
from reprofs.plan.filesystem import Filesystem, variant_of
from reprofs.plan.measured import Numbers, Row
from reprofs.plan.processor import Processor
from reprofs.plan.study import study_of
from reprofs.plan.workload import ROOM_MIB
from reprofs.records.raw import measurement, parse_events
from reprofs.trial import run
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import devices
from reprofs.workplace import workplace

LAB, STACK, SCALE, WORKLOAD = "exact", "single", "smoke", "measure"
SEED = 1
PLACE = "/run/program"  # where the image is in the guest
SECTOR = 512
LIMIT_S = 86_400  # of virtual time
MIB = 1 << 20
# The device mapper shows the part of the memory module that holds the image.
MOUNT = (
    f'echo "0 $2 linear /dev/programs {IMAGE_AT // SECTOR}" | dmsetup create program; mkdir {PLACE}; '
    f"mount -t erofs -o ro /dev/mapper/program {PLACE}"
)


def processor(cores: int, catalog: Catalog) -> Processor:
    """The CPU model with so many cores and no more features than the default. Raises UserError where there is none."""
    first = catalog.get(Processor, PROCESSOR)
    known = {}
    for name in catalog.paths(Processor):
        found = catalog.get(Processor, name)
        if (found.ns_per_instruction, found.features) == (first.ns_per_instruction, first.features):
            known[found.count] = found
    if cores not in known:
        raise UserError(f"--cores is {cores}, but CPU models have {several([str(one) for one in sorted(known)])}.")
    return known[cores]


def workload(digest: str, size: int, cache: str, content: int) -> dict[str, Any]:
    """The workload that runs the program of an image, cold or warm, as a descriptor has it.

    digest, size: of the image, in bytes; content: bytes that the program finds in its folder.
    """
    mount = shlex.join(["sh", "-ec", MOUNT, IMAGE_OPTION, digest, str(size // SECTOR)])
    populate = [{"name": "program", "run": mount}]
    if content:
        populate.append({"name": "input", "run": f"cp -a {PLACE}/input/. ."})
    scale = {"device_mib": max(ROOM_MIB, 4 * content // MIB)}
    return {
        "title": "A whole program",
        "description": "A program with its own files for a root, in a folder on the file system.",
        "source": "Made by reprofs measure.",
        "scales": {"smoke": scale, "laptop": scale, "paper": scale},
        "populate": populate,
        "phases": [
            {
                "name": "program",
                "title": "Run the program",
                "run": f"engine whole-program --tree {PLACE} --bytes {content}",
                "cache": cache,
                "items": "one",
                "limit_s": LIMIT_S,
            }
        ],
    }


def of_study(name: str, devices: Sequence[str] | None, catalog: Catalog) -> list[tuple[str, str]]:
    """(device, file system with its variant) of a study's configurations on one device in the exact lab, each once.

    devices: in the place of its own. Raises UserError for an unknown study, or one that has none.
    """
    crosses = study_of(name, catalog).crosses(catalog, (LAB,))
    ones = [cell for _, own in crosses for cell in own if (cell.lab, cell.stack) == (LAB, STACK)]
    ones = [cell for cell in ones if not (cell.network or catalog.get(Filesystem, cell.filesystem).raw)]
    if not ones:
        raise UserError(
            f"the study {name} has no file system on one device in the exact lab: name file systems by --filesystem."
        )
    specs = dict.fromkeys(f"{cell.filesystem}+{cell.variant}" for cell in ones)
    if devices:
        return list(itertools.product(devices, specs))
    pairs = dict.fromkeys((cell.profile, f"{cell.filesystem}+{cell.variant}") for cell in ones)
    order = list(dict.fromkeys(device for device, _ in pairs))
    return sorted(pairs, key=lambda pair: order.index(pair[0]))


def cells(pairs: Iterable[tuple[str, str]], model: Processor, catalog: Catalog) -> list[Trial]:
    """A trial for each device and file system, checked. Raises UserError for what is unknown or does not fit."""
    found = []
    for device, spec in pairs:
        name, variant = variant_of(spec, catalog)
        names = {"lab": LAB, "processor": model.name, "stack": STACK, "profile": device, "filesystem": name}
        names |= {"variant": variant, "workload": WORKLOAD, "scale": SCALE}
        trial = Trial.model_validate({**names, "round": 1, "seed": SEED})
        resolve(trial, catalog)
        found.append(trial)
    return found


def guests(trials: Iterable[Trial], catalog: Catalog) -> list[str]:
    """Which guests they need, each once."""
    return list(dict.fromkeys(resolve(trial, catalog).guest for trial in trials))


def rows(
    trials: Sequence[Trial], model: Processor, catalog: Catalog, limit_s: float, split: bool
) -> Iterator[tuple[Row, dict]]:
    """Runs the trials; of each its row, and its environment.

    limit_s: of the host, for each; split: run each again, to count the instructions of user and kernel.
    """
    for trial in trials:
        with workplace() as place:
            record = run.run_trial(trial, catalog, place / "record.json", limit_s, keep=False)
        both = None
        if split and record["status"] == "ok":
            both = counted(record, trial, catalog, limit_s)
        yield row(record, trial, model, both), record["environment"]


def counted(record: Mapping[str, Any], trial: Trial, catalog: Catalog, limit_s: float) -> tuple[int, int] | None:
    """Instructions of the program and what it started, and those of the kernel, by a second run under a plugin that
    counts.

    None where that run measured something else.
    """
    one = run.ready(trial, catalog)
    assert isinstance(one.lab, ExactLab)
    with workplace() as place:
        one.lab.plugin = f"{engine.build_splitter(cache_folder())},out={place}"
        outcome = one.lab.run(one.job, limit_s, one.setup.disks)
        again = measurement(parse_events(outcome.output), devices(one.setup), one.lab.clock)
        if again["phases"] != record["measurement"]["phases"]:
            return None
        last = len(again.get("preparation", []))  # the phases before have files, too
        _, user, _, kernel = (place / f"{last}.split").read_text().split()
        return int(user), int(kernel)


def row(record: Mapping[str, Any], trial: Trial, model: Processor, split: tuple[int, int] | None) -> Row:
    """The row of a trial's record. split: instructions of program and kernel, where they were counted."""
    phases = record["measurement"].get("phases", [])
    phase = phases[0] if phases else {}
    ok = record["status"] == "ok"
    return Row(
        filesystem=trial.label,
        device=trial.profile,
        status=record["status"],
        reason=record["reason"],
        numbers=_numbers(phase, model, split) if ok else None,
        output=phase.get("output", ""),
        measurement=record["digests"]["measurement"],
    )


def _numbers(phase: Mapping[str, Any], model: Processor, split: tuple[int, int] | None) -> Numbers:
    """What the samples of `engine whole-program` say. The counters of the phase have what was before it, too."""
    samples = {one["name"]: one for one in phase["samples"]}
    times = {name: one["wall_ns"] for name, one in samples.items()}
    counts = {name: one["items"] for name, one in samples.items()}
    time_ns, disks = times["program"] + times["sync"], bool(phase["device"])
    user_ns = min(round(split[0] * model.ns_per_instruction), times["busy"]) if split else None
    instructions = sum(split) if split else None  # while a core waits for a lock its time goes on without
    if model.count == 1:
        instructions = round(times["busy"] / model.ns_per_instruction)
    return Numbers(
        time_ns=time_ns,
        user_ns=user_ns,
        kernel_ns=None if user_ns is None else times["busy"] - user_ns,
        busy_ns=times["busy"],
        idle_ns=max(time_ns * model.count - times["busy"], 0),
        sync_ns=times["sync"],
        instructions=instructions,
        read_bytes=samples["read"]["bytes"] if disks else None,
        written_bytes=samples["written"]["bytes"] if disks else None,
        flushes=counts["flushes"] if disks else None,
        exit=counts["exit"],
        signal=counts["signal"],
        left=bool(counts["left"]),
    )
