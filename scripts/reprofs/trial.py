"""One trial: the cell of a study becomes a job for the engine, the lab runs it, its events become one raw record.

The rules that make trials comparable are here and nowhere else: order of the steps, cache states, syncing, settling,
verification. Descriptors only supply commands.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
from pathlib import Path

from reprofs import labs, workloads
from reprofs import record as records
from reprofs.catalog import Catalog, unknown
from reprofs.errors import FileError, UserError
from reprofs.files import write_text
from reprofs.labs import _conditions as conditions
from reprofs.project import project_root
from reprofs.stacks import argv, commands, fill, resolve

PROTOCOL = 1  # raise when a change of the rules makes new numbers incomparable with old ones
MOUNTPOINT = "/run/reprofs/mnt"
BASE = "/run/reprofs/base"  # for file systems that lie over another: overlay, a network server
WORK = f"{MOUNTPOINT}/trial"
SETUP_LIMIT_S = 600
AGE_LIMIT_S = 86400
PARSED_BYTES = 65536  # of an output whose samples are read later
RESYNC_LIMIT_S = 86400  # of the lab's clock
COLD_METHOD = "unmounted, caches dropped, mounted again"
RECOVERY = ": recovery"  # after the name of a phase: the mount after its power cut
RECOVERY_METHOD = "power cut, caches dropped, mounted"
CHANGES = ("create", "rename", "remove")  # after a power cut in one of these the tree is what is left of it
PROVED_SHARE = 0.1  # of the content read in a cold phase, from the device; compression may make it less than all


class Job:
    """The text of a job: one step a line."""

    def __init__(self):
        self.lines: list[str] = []

    def step(self, verb: str, *pairs: tuple[str, object]) -> None:
        """Appends `verb<TAB>key=value...`; a key may come more than once."""
        self.lines.append(labs.job_line(verb, *pairs))

    def command(self, stage: str, argv: list[str], *pairs: tuple[str, object]) -> None:
        """Appends a command outside the measured phases."""
        self.step("exec", ("stage", stage), ("limit_s", SETUP_LIMIT_S), *pairs, *(("arg", word) for word in argv))

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def check_cell(trial: dict, catalog: Catalog) -> None:
    """Raises UserError when the parts of a cell exist but cannot be put together."""
    filesystem = catalog.get("filesystem", trial["filesystem"])
    workload = workloads.resolve(trial["workload"], catalog)
    stack, lab = resolve(trial["stack"], catalog), labs.get_lab(trial["lab"])
    name = f"file system {trial['filesystem']}"
    if trial["variant"] not in filesystem["variants"]:
        raise unknown(f"variant of {trial['filesystem']}", trial["variant"], filesystem["variants"])
    if trial["scale"] not in workload["scales"]:
        raise unknown("scale", trial["scale"], workload["scales"])
    workloads.check(trial["workload"], workload, trial["scale"])
    if workload["clients"] > 1 and not lab.provisions:
        raise UserError(f"workload {trial['workload']}: clients need a lab that makes the file system, not {lab.name}.")
    if workload["raw"] and not filesystem["raw"]:
        raise UserError(f"workload {trial['workload']} measures the device itself: choose the file system raw.")
    if filesystem["raw"] and not workload["raw"]:
        raise UserError(f"{name} is none and keeps no files: choose a workload of the device itself, such as device.")
    if stack.filesystem and stack.filesystem != trial["filesystem"]:
        raise UserError(f"stack {stack.name} is made by {stack.filesystem} itself: {name} cannot use it.")
    if stack.state != "healthy" and not workload["populate"]:
        raise UserError(
            f"stack {stack.name} has a fault after the population, and workload {trial['workload']} has none: choose a "
            "workload with the key populate, such as populated."
        )
    if trial["lab"] not in filesystem.get("labs", [trial["lab"]]):
        raise UserError(f"{name} runs in {' and '.join(filesystem['labs'])} only, not in lab {trial['lab']}.")
    if lab.provisions and "path" in filesystem:
        raise UserError(f"{name} is an existing directory, which only the lab mount takes, not {trial['lab']}.")
    if not lab.provisions and "path" not in filesystem:
        raise UserError(
            f"the lab {trial['lab']} makes nothing: {name} needs a key path, as workflow/filesystems/here.yaml has."
        )
    if stack.name != "single" and not (lab.provisions and filesystem["device"]):
        raise UserError(
            f"{name} has no block devices in lab {trial['lab']}: its stack can only be single, not {stack.name}."
        )
    crash = next((phase["name"] for phase in workload["phases"] if "crash" in phase), None)
    if crash:
        _check_crash(f"workload {trial['workload']} cuts the power in phase {crash}", trial, catalog)


def _check_crash(what: str, trial: dict, catalog: Catalog) -> None:
    """Raises UserError when the power of a trial's devices cannot be cut, or its stack not be assembled again."""
    stack = resolve(trial["stack"], catalog)
    if trial["lab"] != "exact":
        raise UserError(f"{what}, which only the lab exact can, not {trial['lab']}.")
    if catalog.get("device", trial["profile"])["backing"] != "model":
        raise UserError(
            f"{what}, but the disks of profile {trial['profile']} cannot lose any: choose one with backing: model, "
            "such as hdd-7200."
        )
    if not catalog.get("filesystem", trial["filesystem"])["device"]:
        raise UserError(f"{what}, but file system {trial['filesystem']} has no device that could lose it.")
    for layer in stack.layers:
        if layer.descriptor["build"] and not layer.descriptor["assemble"]:
            raise UserError(
                f"{what}, but workflow/stacks/{layer.name}.yaml has no key assemble, which says how {layer.name} comes "
                "back afterwards: choose another stack or add it."
            )


def render_job(trial: dict, catalog: Catalog) -> tuple[str, list[dict]]:
    """The job of a trial (text for the engine), and the block devices it asks for (as for measurement.devices).

    Raises UserError for an unknown name, a bad descriptor, or parts that cannot be put together.
    """
    check_cell(trial, catalog)
    filesystem = catalog.get("filesystem", trial["filesystem"])
    variant = filesystem["variants"][trial["variant"]]
    workload = workloads.resolve(trial["workload"], catalog)
    scale = workload["scales"][trial["scale"]]
    lab = labs.get_lab(trial["lab"])
    where = catalog.file("filesystem", trial["filesystem"])
    stack, size, paths, plan = _devices(trial, catalog)
    profile = catalog.get("device", trial["profile"])

    job = Job()
    if lab.seeds:
        job.step("seed", ("value", trial["seed"]))
    job.step("clock")
    if plan:
        try:
            job.lines += lab.device_steps(profile, stack.disks, size)
        except UserError as error:  # figures that no disk has together
            raise FileError(f"{catalog.file('device', trial['profile'])}: {error}") from None
        for module in plan.modules:
            job.command("module", ["modprobe", module])
        for words in plan.build:
            job.command("stack", words)
        for path in plan.resync:
            job.step("await", ("path", path), ("limit_s", RESYNC_LIMIT_S))
    job.step("devices", *(("path", path) for path in paths))
    values = {
        "mountpoint": MOUNTPOINT,
        "base": BASE,
        "make": variant["make"],
        "mount": variant["mount"],
        "layout": plan.layout if plan else "",
        **({"device": plan.devices[0], "devices": " ".join(plan.devices)} if plan else {}),
    }

    def lines(key: str) -> list[list[str]]:
        return [argv(line, values, f"{where}: {key}") for line in filesystem[key]]

    # What a file system wants to be done after a power cut belongs to its recovery.
    recovery = [*lines("recover"), *lines("mount")]
    supply = [("power", f"/sys/block/{Path(path).name}/supply") for path in paths]
    synced = [fill(path, values, f"{where}: sync") for path in filesystem["sync"]]
    syncs = [("sync", path) for path in (MOUNTPOINT, *synced)]
    if filesystem.get("module"):
        job.command("module", ["modprobe", filesystem["module"]])
    for directory in ("/run/reprofs", BASE, MOUNTPOINT) if lab.provisions else ():
        job.step("mkdir", ("path", directory))
    for words in lines("make"):
        job.command("make", words)

    def mount() -> None:
        for words in lines("mount"):
            job.command("mount", words)
        mounted()

    def mounted() -> None:
        kind = variant.get("type", filesystem.get("type"))
        options = [("type", kind)] if kind else []
        options += [] if lab.provisions else [("within", 1)]
        job.step("mounted", ("path", MOUNTPOINT), *options, *(("expect", option) for option in variant["expect"]))

    def unmount() -> None:
        for words in lines("unmount"):
            job.command("unmount", words)

    def cold() -> None:
        """Nothing of the file system stays in memory: its superblock is gone, and so are all clean pages."""
        if not lab.provisions:
            job.step("evict", ("root", WORK))
            return
        if filesystem["device"]:
            unmount()
        job.step("drop")
        for words in plan.cold if plan else []:
            job.command("cold", words)
        if filesystem["device"]:
            mount()

    def readback(checks: list) -> None:
        for words, expected in checks:
            job.command("readback", words, *(("match", expression) for expression in expected))

    clients, runs = workload["clients"], workload["runs"]
    folders = [f"{WORK}/c{number}" for number in range(clients)] if clients > 1 else [WORK]
    # Every client has a seed of its own: the engine puts its number, three digits, in the place of {client}.
    seed = f"{trial['seed']}{{client}}" if clients > 1 else trial["seed"]
    several = [("clients", clients)] if clients > 1 else []

    def verify(name: str, folder: str) -> None:
        """What was written must come back from the device."""
        cold()
        job.step("verify", ("name", name), ("root", f"{WORK}/{folder}"))

    def recover(name: str, run: int) -> None:
        """After a power cut: what was not on the media is gone; the file system is mounted again, which is timed."""
        unmount()
        for words in plan.stop:
            job.command("stop", words)
        job.step("restore", *supply)
        for words in plan.assemble:
            job.command("assemble", words)
        job.step("drop")
        words = recovery[0] if len(recovery) == 1 else ["sh", "-e", "-c", "\n".join(map(shlex.join, recovery))]
        common = [("name", name + RECOVERY), ("cache", "cold"), *syncs]
        common += [("run", run)] if runs > 1 else []
        job.step("phase", *common, *execute(words, 1, SETUP_LIMIT_S, "/"))
        mounted()
        readback(plan.readback)

    def command(text: str, run: int) -> list[str]:
        place = f"{workload['file']}: workload {trial['workload']}"
        return workloads.words(text, workload, trial["scale"], seed, place, run)

    def execute(words: list[str], items: int, limit_s: int, folder: str = WORK) -> list[tuple[str, object]]:
        pairs = [("operation", "exec"), ("items", items), ("cwd", folder), ("limit_s", limit_s)]
        pairs += [("env", f"{key}={value}") for key, value in workload["environment"].items()]
        return pairs + [("arg", word) for word in words]

    def prepare(entry: str | dict) -> None:
        name = entry if isinstance(entry, str) else entry["name"]
        common = [("name", name), ("cache", "warm"), *syncs, ("unmeasured", 1)]
        if isinstance(entry, str):
            job.step("phase", *common, *several, ("operation", entry), ("order", "tree"))
        else:
            job.step("phase", *common, *several, *execute(command(entry["run"], 1), 1, entry.get("limit_s", 3600)))

    def phase_step(phase: dict, run: int) -> None:
        nonlocal tree_there
        operation, crash = phase.get("operation"), phase.get("crash")
        if phase["cache"] == "cold":
            cold()
        common = [("name", phase["name"]), ("cache", phase["cache"]), *syncs, *several]
        common += supply if crash is not None else []
        common += [("cut_ms", crash["after_ms"])] if crash else []
        common += [("run", run)] if runs > 1 else []
        if "run" in phase:
            common += [("tail", PARSED_BYTES)] if "parse" in phase else []
            items = 1 if phase["items"] == "one" else scale[phase["items"]]
            job.step("phase", *common, *execute(command(phase["run"], run), items, phase["limit_s"]))
        else:
            job.step("phase", *common, ("operation", operation), ("order", phase["order"]))
        copy = "tree" if operation in ("create", "rename") else phase.get("copies_to")
        if crash is not None:
            recover(phase["name"], run)
            if operation in CHANGES:
                job.step("verify", ("name", phase["name"]), ("root", f"{WORK}/tree"), ("count", 1))
            elif tree_there:
                verify(f"{phase['name']}: tree", "tree")
        elif copy:
            verify(f"{phase['name']}: {copy}", copy)
        if operation in CHANGES:
            tree_there = crash is None and operation != "remove"
        if "check" in phase:
            cold()
            for number, folder in enumerate(folders):
                argv = [word.replace("{client}", f"{number:03}") for word in command(phase["check"], run)]
                environment = [("env", f"{key}={value}") for key, value in workload["environment"].items()]
                job.command(f"check {phase['name']}", argv, ("cwd", folder), *environment)

    mount()
    readback(plan.readback if plan else [])
    for words in lines("inspect"):
        job.command("inspect", words)
    for folder in dict.fromkeys([WORK, *folders]):
        job.step("mkdir", ("path", folder))
    tree = {key: scale[key] for key in workloads.TREE if key in scale}
    if len(tree) == len(workloads.TREE):
        job.step("tree", ("root", f"{WORK}/tree"), ("seed", trial["seed"]), *several, *tree.items())
    crashes = any("crash" in phase for phase in workload["phases"])
    tools = workload["tools"] + [words[0] for words in recovery if crashes]
    for tool in dict.fromkeys(tools) if lab.provisions else []:
        job.step("pin", ("tool", tool))
    job.step("settle")
    if workload["fill"]:
        content = workloads.needs(trial["workload"], workload, trial["scale"])
        words = ["engine", "age", "--fill", str(workload["fill"]), "--churn", "1", "--seed", str(trial["seed"])]
        words += ["--reserve", str(content), "."]
        common = [("name", "age"), ("cache", "warm"), *syncs, ("unmeasured", 1)]
        job.step("phase", *common, *execute(words, 1, AGE_LIMIT_S, MOUNTPOINT))
    for entry in workload["populate"]:
        prepare(entry)
    if "create" in workload["populate"]:
        verify("populate: tree", "tree")
    if plan and plan.fault:
        for words in plan.fault:
            job.command("fault", words)
        if plan.rebuild:
            job.step("watch", ("path", plan.rebuild))
        readback(plan.faulted)
    tree_there = "create" in workload["populate"]
    for run in range(1, runs + 1):
        for phase in workload["phases"]:
            phase_step(phase, run)
    if plan and plan.rebuild:
        common = [("name", "rebuild"), ("cache", "warm"), *syncs, ("operation", "rebuild")]
        job.step("phase", *common, ("limit_s", RESYNC_LIMIT_S))
    if plan:  # what the phases ran on is still what was asked for; a rebuilt array is whole again
        readback(plan.readback if plan.rebuild or not plan.fault else plan.faulted)
    unmount()
    for words in lines("check"):
        job.command("check", words)
    job.lines.append("teardown")
    for words in lines("unmount"):
        job.command("teardown", words, ("if_mounted", words[-1] if words[0] == "umount" else MOUNTPOINT))
    for words in plan.teardown if plan else []:
        job.command("teardown", words)
    behaviour = {key: profile[key] for key in ("completion_ns", "bandwidth_mb_s")}
    if profile["backing"] == "model":
        behaviour = {"model": profile["disk"]["kind"]}
    devices = [{"name": Path(path).name, "size_bytes": size << 20, **behaviour} for path in paths]
    return job.text(), devices


def _devices(trial: dict, catalog: Catalog):
    """Stack, MiB of a disk, paths of the disks, commands of the stack (None: the file system needs no device)."""
    filesystem, lab = catalog.get("filesystem", trial["filesystem"]), labs.get_lab(trial["lab"])
    stack, profile = resolve(trial["stack"], catalog), catalog.get("device", trial["profile"])
    scale = workloads.resolve(trial["workload"], catalog)["scales"][trial["scale"]]
    size = profile.get("size_mib") or stack.disk_mib(scale["device_mib"])
    if not (filesystem["device"] and lab.provisions):
        return stack, size, [], None
    paths = [lab.device_path(i, profile) for i in range(stack.disks)]
    return stack, size, paths, commands(stack, paths, lab.disks_zeroed(profile), MOUNTPOINT)


def obstacle(trial: dict, catalog: Catalog, lab: labs.Lab) -> str:
    """Why the lab cannot run this trial at all (a sentence for the reader), or nothing."""
    filesystem = catalog.get("filesystem", trial["filesystem"])
    workload = workloads.resolve(trial["workload"], catalog)
    if "unavailable" in filesystem:
        return filesystem["unavailable"]
    plan = _devices(trial, catalog)[3]
    profile = catalog.get("device", trial["profile"])
    needs = filesystem["packages"] + workload["packages"] + (plan.packages if plan else [])
    modules = ([filesystem["module"]] if "module" in filesystem else []) + (plan.modules if plan else [])
    reason = lab.obstacle(list(dict.fromkeys(needs)), _tools(filesystem, workload, plan), modules, profile)
    if reason or lab.data_bytes is None:
        return reason
    content = workloads.needs(trial["workload"], workload, trial["scale"])
    content += workload["scales"][trial["scale"]]["device_mib"] * 2**20 * workload["fill"] // 100
    if content > lab.data_bytes:
        return (
            f"The content is about {content / 2**20:,.0f} MiB, but the {trial['lab']} lab keeps its devices in memory "
            f"and has room for {lab.data_bytes / 2**20:,.0f} MiB: raise memory_mib in envs/guest.yaml or use a "
            "smaller scale."
        )
    return ""


def _tools(filesystem: dict, workload: dict, plan) -> list[str]:
    """The programs a trial runs: the first word of each of its commands."""
    templates = [
        line for key in ("make", "mount", "inspect", "unmount", "recover", "check") for line in filesystem[key]
    ]
    templates += [text for _, text in workloads.commands(workload)]
    tools = [template.split()[0] for template in templates] + workload["tools"]
    if plan:
        tools += [words[0] for words in (*plan.build, *plan.cold, *plan.fault, *plan.assemble, *plan.teardown)]
        tools += [words[0] for words, _ in (*plan.readback, *plan.faulted)]
    return sorted(set(tools) - {"engine"})


def measurement(events: list[dict], devices: list[dict], clock: str, clean: bool = True) -> dict:
    """The events of the engine as the `measurement` of a record (see workflow/schemas/record.schema.yaml).

    clean: whether a cold phase began without anything of the file system in memory, as far as the lab can do that.
    """
    result: dict = {"devices": devices, "commands": [], "phases": [], "verification": []}
    lists = {"command": "commands", "phase": "phases", "verification": "verification"}
    lists |= {"preparation": "preparation", "awaited": "awaited"}
    for event in events:
        kind = event.pop("event")
        if kind == "clock":
            result["clock"] = {"name": clock, **event}
        elif kind == "settle":
            result["settle_ns"] = event["settle_ns"]
        elif kind == "mounted" and "mounted" not in result:
            options = [o for key in ("mount_options", "super_options") for o in event.pop(key).split(",")]
            result["mounted"] = {**event, "options": list(dict.fromkeys(options))}
        elif kind in ("restored", "survivors"):
            crash = next(phase["crash"] for phase in reversed(result["phases"]) if "crash" in phase)
            crash |= event if kind == "restored" else {"survivors": event}
        elif kind in lists:
            result.setdefault(lists[kind], []).append(event)
    for phase in (*result["phases"], *result.get("preparation", [])):
        phase["cold"] = _cold(phase, clean) if phase["cache"] == "cold" else None
    return result


def _cold(phase: dict, clean: bool) -> dict:
    if not clean:
        why = "without root only the pages of the files leave memory, names and inodes may stay"
        return {"method": "pages of the files dropped (posix_fadvise)", "read_bytes": 0, "proved": None, "why": why}
    if phase["device"] is None:
        return {"method": "caches dropped", "read_bytes": 0, "proved": None, "why": "no device: nothing can be cold"}
    method = RECOVERY_METHOD if phase["name"].endswith(RECOVERY) else COLD_METHOD
    if "rebuilding" in phase:
        why = "the reads of the rebuild cannot be told from those of the phase"
        return {"method": method, "read_bytes": phase["device"]["read_bytes"], "proved": None, "why": why}
    read, content = phase["device"]["read_bytes"], phase["bytes"] if phase["operation"] == "read" else 0
    share = f"{read} bytes came from the device" + (f" for {content} bytes of content" if content else "")
    return {"method": method, "read_bytes": read, "proved": read > PROVED_SHARE * content, "why": share}


def parse_events(output: bytes) -> list[dict]:
    """The complete lines of the engine's output; a line cut short by the end of the guest is left out."""
    events = []
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return events


def status(ending: str, events: list[dict], console: str, limit_s: float) -> tuple[str, str]:
    """(status, reason) of a trial that ran, from how the lab ended and what the engine said."""
    failure = next((event for event in events if event["event"] == "failed"), None)
    last = next((f"{e['event']} {e.get('name', e.get('stage', ''))}" for e in reversed(events)), "nothing")
    if failure:
        return ("timeout" if failure["timeout"] else "failed"), failure["reason"]
    if ending == "timeout":
        return "timeout", f"The host's time limit of {limit_s:g} s passed; the last thing heard was: {last}."
    if ending == "panic":
        lines = [line for line in console.splitlines() if "Kernel panic" in line or "Out of memory" in line]
        return (
            "failed",
            f"The guest's kernel panicked after {last}: {lines[-1].strip() if lines else 'see the console log'}",
        )
    if ending != "finished" or not any(event["event"] == "end" for event in events):
        return "failed", f"The lab ended before the job did; the last thing heard was: {last}."
    return "ok", ""


def run_trial(trial: dict, catalog: Catalog, output: Path, time_limit_s: float = 1800.0) -> dict:
    """Runs one trial and writes its raw record to `output`, the console log beside it. Returns the record.

    trial: keys lab, filesystem, variant, stack, profile, workload, scale, round, seed, order.
    Whatever happens inside the lab becomes a record with a status and a reason. Raises UserError for what is wrong
    before that (an unknown name, a bad descriptor, no QEMU, no guest, a folder that cannot be written), and when the
    lab's process was ended from outside: that says nothing of the file system, so no record is written.
    """
    job, devices = render_job(trial, catalog)
    filesystem, profile = catalog.get("filesystem", trial["filesystem"]), catalog.get("device", trial["profile"])
    lab = labs.get_lab(trial["lab"]).open(guest=filesystem["guest"], path=filesystem.get("path", ""))
    started = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    environment = {
        "reprofs": importlib.metadata.version("reprofs"),
        "commit": commit(),
        "protocol": PROTOCOL,
        "started": started,
        "job_sha256": hashlib.sha256(job.encode()).hexdigest(),
        "job": job,
        "host": host(),
    }
    stack, size, paths, _ = _devices(trial, catalog)
    state, measured, console = "skipped", {}, ""
    environment.update(host_seconds=0.0, lab=lab.environment("not started"))
    reason = obstacle(trial, catalog, lab)
    if not reason:
        try:
            with conditions.watched(lab) as noted:
                outcome, attempts = _run(lab, job, time_limit_s, labs.Disks(profile, len(paths), size))
        except labs.Obstacle as found:
            reason = str(found)
    if not reason:
        environment["attempts"] = attempts
        events, console = parse_events(outcome.output), outcome.console
        state, reason = status(outcome.ending, events, console, time_limit_s)
        measured = measurement(events, devices, lab.clock, lab.provisions)
        if paths:
            measured["stack"] = {
                "name": stack.name,
                "disks": stack.disks,
                "initial_sync": stack.initial_sync(lab.disks_zeroed(profile)),
                "state": stack.state,
            }
        environment.update(noted, host_seconds=round(outcome.host_seconds, 3), lab=outcome.environment)
    record = {
        "schema": records.LAYOUT,
        "status": state,
        "reason": reason,
        "trial": trial,
        "measurement": measured,
        "environment": environment,
    }
    record = records.seal(record)
    log = output.with_suffix(".console.log")
    try:
        write_text(log, console)
        write_text(output, json.dumps(record, ensure_ascii=False) + "\n")
    except UserError:
        with contextlib.suppress(OSError):  # a log without its record would be half a result
            log.unlink()
        raise
    return record


def _run(lab: labs.Lab, job: str, time_limit_s: float, disks: labs.Disks) -> tuple[labs.Outcome, int]:
    """What the lab brought back, and the number of attempts. Raises UserError when something ended its process.

    Where the clock counts instructions a second attempt gives the same numbers, so it is made once. On a real clock
    the host is not quiet while somebody kills processes on it.
    """
    last = 2 if lab.clock == "instructions" else 1
    for attempt in range(1, last + 1):
        outcome = lab.run(job, time_limit_s, disks)
        if outcome.ending != "killed":
            return outcome, attempt
    raise UserError(
        f"the process of the lab {lab.name} was killed{', twice' if last > 1 else ''}, and nothing is recorded: "
        "see whether the host ran out of memory (journalctl -k, dmesg), then run this again."
    )


def commit() -> str:
    """The commit of the checkout, with + when files differ from it; empty outside git."""
    git = ["git", "-C", str(project_root())]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+" if changed.strip() else "")


def host() -> dict:
    """What is known of the machine the lab runs on. In the exact lab it has no influence on the numbers."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "",
    )
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 2),
    }
