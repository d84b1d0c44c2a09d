"""The exact profile of a trial: its instructions by function and by call, cut at the phases."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from reprofs.errors import UserError
from reprofs.files import cache_folder, read_json, write_bytes, write_together
from reprofs.guest import engine
from reprofs.guest.steps import Exec, Job, Phase
from reprofs.guest.subsystems import subsystem
from reprofs.guest.symbols import USER, Executable, Function, Symbols, label, read_kallsyms
from reprofs.labs.exact import ExactLab
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial, apart, taken_apart
from reprofs.records.identity import first_difference
from reprofs.records.raw import broken, digest, measurement, parse_events, status
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import devices
from reprofs.workplace import workplace

LIMIT_S = 3600.0  # of the host
# Functions that put a task to sleep; who called them is asked for.
SLEEPS = re.compile(r"_*(io_)?schedule(_timeout)?$|_*(bit_|out_of_line_|rq_qos_|folio_)?wait_|bit_wait|rq_qos_wait")
CALL = re.compile(r"^_*((do|x64|ia32)_)?(k?sys_)?")  # what the kernel puts before a system call's name
SYMBOLS = 64 << 20  # bytes of the kernel's list of symbols
KALLSYMS = ["sh", "-c", "grep -i ' [tw] ' /proc/kallsyms | gzip -1 > /run/symbols; cat /run/symbols > /dev/ttyS1"]


class Part(NamedTuple):
    """What was counted in one phase: event: the engine's; counts: address, content and instructions; calls: addresses
    of callers and of the end of a piece of code, and instructions; waits: addresses of calls that slept, and ticks of
    the processor's counter in which it was idle; misses: accesses, l1, llc, if they were counted.

    Addresses and contents are as the plugin writes them, hexadecimal, those of calls joined by semicolons: there are
    millions.
    """

    event: dict[str, Any]
    counts: list[tuple[str, str, int]]
    calls: list[tuple[str, int]]
    waits: list[tuple[str, int]]
    misses: dict[str, int] | None


def profile(
    path: Path, catalog: Catalog, folder: Path, misses: bool = False, failed_too: bool = False
) -> dict[str, Any]:
    """Runs the trial of a raw record again under a plugin that counts, and writes its profile into `folder`.

    misses: with misses of modelled caches. Written are profile.json (workflow/schemas/profile.schema.yaml), which is
    returned, and for phase N, counted from 1, N-NAME.folded: lines "caller;...;function INSTRUCTIONS", of which flame
    graphs are made. failed_too: for a trial that did not end well only profile.json, which says why, is written.

    Raises UserError for a record that is none of a trial that ended well in the exact lab with one core, when a file of
    the trial was edited since, and when the second run does not give the same measurement, to the last bit.
    """
    record = _read(path, failed_too)
    if record["status"] != "ok":
        return _kept(folder, {"schema": 1, "trial": record["trial"], "reason": record["reason"], "phases": []})
    trial = Trial.model_validate(taken_apart(record["trial"]))
    setup = resolve(trial, catalog)
    job = render(setup, trial.seed)
    if hashlib.sha256(job.text().encode()).hexdigest() != record["environment"]["job_sha256"]:
        raise UserError(f"{path}: files of its trial were edited since: run the trial again first.")
    with workplace() as place:
        lab = ExactLab.open(guest=setup.guest, processor=setup.processor, kernel=setup.kernel)
        if lab.processor.count > 1:
            raise UserError(
                f"{path}: profiles need a lab with one core, but {lab.full_name} has {lab.processor.count}."
            )
        lab.plugin = f"{engine.build_profiler(cache_folder())},out={place}{',misses=on' if misses else ''}"
        outcome = lab.run(job, LIMIT_S)
        events = parse_events(outcome.output)
        state, reason = status(outcome.ending, events, outcome.console, LIMIT_S)
        if state != "ok":
            raise UserError(f"{path}: the profiled trial ended differently: {reason}")
        phases = [event for event in events if event["event"] in ("phase", "preparation")]
        if len(list(place.glob("*.count"))) > len(phases):
            raise UserError(f"{path}: a program of the trial has the engine's marks of phases: it has no profile.")
        parts = [_part(place, number, dict(phase)) for number, phase in enumerate(phases)]
        measured = measurement(events, devices(setup), lab.clock, lab.provisions) | _beside(record)
        if digest(measured) != record["digests"]["measurement"]:
            raise UserError(f"{path}: {_difference(record, measured, outcome.environment)}; nothing was written.")
        lab.plugin = ""
        symbols = _symbols(render(setup, 0), lab)
    return _write(folder, record, parts, symbols, lab.processor.ns_per_instruction)


def _read(path: Path, failed_too: bool) -> dict[str, Any]:
    record = read_json(path)
    try:
        if broken(record):
            raise UserError(f"{path} was changed after its trial: run the trial again.")
        if record["status"] != "ok" and not failed_too:
            raise UserError(f"{path} is the record of a trial that failed: {record['reason']}")
        if apart(record["trial"]["lab"])[0] != ExactLab.name:
            raise UserError(f"{path} is a record of the lab {record['trial']['lab']}: profiles need the exact lab.")
    except (KeyError, TypeError):
        raise UserError(f"{path} is not a raw record: name a file of data/raw.") from None
    return record


def _beside(record: dict[str, Any]) -> dict[str, Any]:
    """What a trial adds to what its engine measured: of descriptors alone."""
    return {key: record["measurement"][key] for key in ("stack",) if key in record["measurement"]}


def _difference(record: dict[str, Any], measured: dict[str, Any], lab: dict[str, Any]) -> str:
    """Why the measurement is another one (a clause)."""
    then = record["environment"]["lab"]
    parts = [key for key in sorted(then.keys() & lab.keys() - {"start"}) if then[key] != lab[key]]
    if parts:
        return f"the lab differs from the record's ({', '.join(parts)}): run the trial again first"
    return f"the profiled trial differs from the record, {first_difference(record['measurement'], measured)}"


def _part(folder: Path, number: int, event: dict[str, Any]) -> Part:
    try:
        words = (folder / f"{number}.count").read_text().split()
        counts = list(zip(words[::3], words[1::3], map(int, words[2::3]), strict=True))
        words = (folder / f"{number}.stack").read_text().split()
        calls = list(zip(words[::2], map(int, words[1::2]), strict=True))
        words = (folder / f"{number}.wait").read_text().split()
        waits = list(zip(words[::2], map(int, words[1::2]), strict=True))
        words = (folder / f"{number}.misses").read_text().split() if (folder / f"{number}.misses").exists() else []
    except OSError:
        raise UserError(f"the phase {event['name']} was not counted: the engine has no marks in it.") from None
    misses = dict(zip(words[::2], map(int, words[1::2]), strict=True)) or None
    return Part(event, counts, calls, waits, misses)


def _symbols(job: Job, lab: ExactLab) -> Symbols:
    """The functions of the guest with the modules that the job has loaded before its first phase, where they are.

    The kernel's list is asked of the guest once for all trials that begin alike, whatever their seed.
    """
    first = next(number for number, step in enumerate(job.steps) if isinstance(step, Phase))
    short = replace(job, steps=[*job.steps[:first], Exec(stage="symbols", limit_s=600, arg=KALLSYMS)])
    parts = lab.environment("")
    key = digest(
        [short.text(), *(parts[name] for name in ("qemu_sha256", "command", "initrd_sha256", "engine_sha256"))]
    )
    kept = cache_folder() / "symbols" / key
    try:
        text = lzma.decompress(kept.read_bytes()).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError):  # not there, or damaged
        output = lab.run(short, LIMIT_S).output
        try:
            text = zlib.decompressobj(31).decompress(output[output.index(b"\x1f\x8b") :], SYMBOLS).decode()
            read_kallsyms(text)
        except (ValueError, zlib.error):
            raise UserError("the guest did not print its kernel's symbols: see the trial's console log.") from None
        write_bytes(kept, lzma.compress(text.encode(), preset=1))
    names = ["", *job.programs()]
    cache = cache_folder()
    return Symbols(text, [Executable.read(n, engine.build(cache, n), engine.functions(cache, n)) for n in names])


class _Labels(dict[str, str]):
    """Address -> function. Where nothing was executed, only in what it called, no content tells programs apart."""

    def __init__(self, symbols: Symbols):
        self.symbols = symbols

    def __missing__(self, address: str) -> str:
        found = self[address] = label(self.symbols.at(int(address, 16), b""))
        return found


def _write(
    folder: Path, record: dict[str, Any], parts: list[Part], symbols: Symbols, ns_per_instruction: float
) -> dict[str, Any]:
    phases, files, unknown = [], {}, label(USER)
    for number, part in enumerate(parts, 1):
        functions, labels = Counter[Function](), _Labels(symbols)
        for address, content, count in part.counts:
            function = symbols.at(int(address, 16), bytes.fromhex(content))
            functions[function] += count
            labels.setdefault(address, label(function))
        folded = Counter[str]()
        for sites, count in part.calls:
            frames = [labels[site] for site in sites.split(";")]
            if unknown in frames:  # what several of them called each other is not known either
                frames = [one for at, one in enumerate(frames) if not at or (one, frames[at - 1]) != (unknown, unknown)]
            folded[";".join(frames)] += count
        instructions = sum(functions.values())
        if instructions != sum(folded.values()):
            raise UserError(
                f"phase {part.event['name']}: calls and instructions have different sums: please report this."
            )
        name = f"{number}-{part.event['name']}"
        files[f"{name}.folded"] = "".join(f"{stack} {count}\n" for stack, count in sorted(folded.items())).encode()
        one_client = "clients" not in part.event
        phases.append(
            {
                "name": part.event["name"],
                "operation": part.event["operation"],
                "cache": part.event["cache"],
                "measured": part.event["event"] == "phase",
                "items": part.event["items"],
                "wall_ns": part.event["wall_ns"],
                "instructions": instructions,
                "waiting_ns": round(part.event["wall_ns"] - instructions * ns_per_instruction) if one_client else None,
                "waits": _waits(part, labels, ns_per_instruction),
                "misses": part.misses,
                "functions": [
                    {"name": one.name, "module": one.module, "part": subsystem(one), "instructions": count}
                    for one, count in sorted(functions.items(), key=lambda pair: (-pair[1], pair[0]))
                ],
                "stacks": f"{name}.folded",
            }
        )
    lab = record["environment"]["lab"]
    return _kept(
        folder,
        {
            "schema": 1,
            "trial": record["trial"],
            "measurement_sha256": record["digests"]["measurement"],
            "ns_per_instruction": ns_per_instruction,
            "kernel": lab["kernel"],
            "qemu": lab["qemu"],
            "phases": phases,
        },
        files,
    )


def _waits(part: Part, labels: _Labels, ns_per_tick: float) -> list[dict[str, Any]]:
    """Where the kernel slept while the processor was idle, the longest first: system calls, and work of its threads.

    A thread that sleeps until there is work is left out, and what is less than a thousandth of the phase.
    """
    found = []
    for sites, ticks in part.waits:
        frames = [labels[site] for site in sites.split(";")]
        works = any(name in ("do_syscall_64", "process_one_work") or name.endswith("]") for name in frames[:-3])
        if frames[-1] != "__schedule" or not works:
            continue
        call = frames[frames.index("do_syscall_64") + 1] if "do_syscall_64" in frames else ""
        function = next((name for name in reversed(frames) if not SLEEPS.match(name)), frames[0])
        names = {"call": CALL.sub("", call), "function": function.replace("_[", " ["), "stack": ";".join(frames)}
        found.append(names | {"ns": round(ticks * ns_per_tick)})
    least = part.event["wall_ns"] / 1000
    return sorted((one for one in found if one["ns"] > least), key=lambda one: (-one["ns"], one["stack"]))


def _kept(folder: Path, found: dict[str, Any], files: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, Any]:
    text = json.dumps(found, ensure_ascii=False) + "\n"
    write_together(folder, {**files, "profile.json": text.encode()})
    return found


def summary(found: dict[str, Any], most: int = 5) -> str:
    """The profile as text: each phase, and the functions in which it spent the most instructions."""
    lines = []
    for phase in found["phases"]:
        waiting = phase["waiting_ns"]
        waited = "" if waiting is None else f", {max(0, waiting) / 1e6:.2f} ms of waiting"
        misses = phase["misses"]
        missed = f"; misses: L1 {misses['l1']:,}, LLC {misses['llc']:,} of {misses['accesses']:,}" if misses else ""
        head = f"{phase['name']} ({phase['cache']}): {phase['wall_ns'] / 1e6:.2f} ms"
        lines.append(f"{head} = {phase['instructions']:,} instructions{waited}{missed}")
        waits = Counter[str]()
        for one in phase.get("waits", []):
            waits[f"{one['call'] or 'a thread of the kernel'} waits in {one['function']}"] += one["ns"]
        lines += [f"  {ns / 1e6:>9.2f} ms  {what}" for what, ns in waits.most_common(most)]
        for one in phase["functions"][:most]:
            share = one["instructions"] / phase["instructions"]
            module = f" [{one['module']}]" if one["module"] else ""
            lines.append(f"  {one['instructions']:>12,}  {share:6.1%}  {one['name']}{module}  ({one['part']})")
    return "\n".join(lines)
