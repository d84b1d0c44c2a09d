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
import math
import os
import platform
import shlex
import subprocess
from pathlib import Path

from reprofs import labs
from reprofs.catalog import Catalog, project_root, unknown
from reprofs.errors import UserError
from reprofs.files import write_text

PROTOCOL = 1  # raise when a change of the rules makes new numbers incomparable with old ones
MOUNTPOINT = "/run/reprofs/mnt"
WORK = f"{MOUNTPOINT}/trial"
SETUP_LIMIT_S = 600
COLD_METHOD = "unmounted, caches dropped, mounted again"
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


def expand(command: str, values: dict[str, str], where: str) -> list[str]:
    """`command` as a list of words, with {placeholders} filled in; a value of several words becomes several words.

    Raises UserError naming `where` for an unknown placeholder or unbalanced quotes.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"{where}: '{command}' cannot be split into words: {error}.") from None
    result: list[str] = []
    for word in words:
        if word.startswith("{") and word.endswith("}") and word[1:-1] in values:
            result += shlex.split(values[word[1:-1]])
            continue
        try:
            result.append(word.format_map(values))
        except (KeyError, ValueError, IndexError):
            known = ", ".join("{" + name + "}" for name in values)
            raise UserError(f"{where}: '{word}' has an unknown placeholder; known: {known}.") from None
    return result


def render_job(trial: dict, catalog: Catalog) -> tuple[str, list[dict]]:
    """The job of a trial (text for the engine), and the block devices it asks for (as for measurement.devices).

    Raises UserError for an unknown name or a bad descriptor.
    """
    filesystem = catalog.get("filesystem", trial["filesystem"])
    if trial["variant"] not in filesystem["variants"]:
        raise unknown(f"variant of {trial['filesystem']}", trial["variant"], filesystem["variants"])
    variant = filesystem["variants"][trial["variant"]]
    stack = catalog.get("stack", trial["stack"])
    profile = catalog.get("device", trial["profile"])
    workload = catalog.get("workload", trial["workload"])
    if trial["scale"] not in workload["scales"]:
        raise unknown("scale", trial["scale"], workload["scales"])
    scale = workload["scales"][trial["scale"]]
    lab = labs.get_lab(trial["lab"])
    where = f"file system {trial['filesystem']}"

    job = Job()
    job.step("seed", ("value", trial["seed"]))
    job.step("clock")
    names: list[str] = []
    values = {"mountpoint": MOUNTPOINT, "make": variant["make"], "mount": variant["mount"]}
    if filesystem["device"]:
        names = [lab.device_name(i) for i in range(stack["disks"])]
        job.lines += lab.device_steps(profile, stack["disks"], scale["device_mib"])
        disks = {f"disk{i}": f"/dev/{name}" for i, name in enumerate(names)}
        for module in stack["modules"]:
            job.command("module", ["modprobe", module])
        for command in stack["build"]:
            job.command("stack", expand(command, disks, f"stack {trial['stack']}"))
        values["device"] = stack["device"].format_map(disks)
    job.step("devices", *(("name", name) for name in names))
    if filesystem.get("module"):
        job.command("module", ["modprobe", filesystem["module"]])
    for command in filesystem["make"]:
        job.command("make", expand(command, values, where))
    for directory in ("/run/reprofs", MOUNTPOINT):
        job.step("mkdir", ("path", directory))

    def mount() -> None:
        for command in filesystem["mount"]:
            job.command("mount", expand(command, values, where))
        expect = (("expect", option) for option in variant["expect"])
        job.step("mounted", ("path", MOUNTPOINT), ("type", filesystem["type"]), *expect)

    def unmount() -> None:
        for command in filesystem["unmount"]:
            job.command("unmount", expand(command, values, where))

    def cold() -> None:
        """Nothing of the file system stays in memory: its superblock is gone, and so are all clean pages."""
        if filesystem["device"]:
            unmount()
        job.step("drop")
        if filesystem["device"]:
            mount()

    mount()
    for command in filesystem["inspect"]:
        job.command("inspect", expand(command, values, where))
    job.step("mkdir", ("path", WORK))
    tree = {key: scale[key] for key in ("files", "directories", "fan_out", "size_median", "size_sigma", "size_max")}
    job.step("tree", ("root", f"{WORK}/tree"), ("seed", trial["seed"]), *tree.items())
    for tool in workload["tools"]:
        job.step("pin", ("tool", tool))
    job.step("settle")
    for phase in workload["phases"]:
        if phase["cache"] == "cold":
            cold()
        common = [("name", phase["name"]), ("cache", phase["cache"]), ("sync", MOUNTPOINT)]
        if "run" in phase:
            words = expand(phase["run"], {}, f"workload {trial['workload']}")
            items = scale["files"] if phase["items"] == "files" else 1
            common += [("operation", "exec"), ("items", items), ("cwd", WORK), ("limit_s", phase["limit_s"])]
            common += [("env", f"{key}={value}") for key, value in workload["environment"].items()]
            job.step("phase", *common, *(("arg", word) for word in words))
        else:
            job.step("phase", *common, ("operation", phase["operation"]), ("order", phase["order"]))
        copy = "tree" if phase.get("operation") in ("create", "rename") else phase.get("copies_to")
        if copy:  # what was written must come back from the device
            cold()
            job.step("verify", ("name", f"{phase['name']}: {copy}"), ("root", f"{WORK}/{copy}"))
    unmount()
    for command in filesystem["check"]:
        job.command("check", expand(command, values, where))
    job.lines.append("teardown")
    for command in filesystem["unmount"]:
        job.command("teardown", expand(command, values, where), ("if_mounted", MOUNTPOINT))
    for command in stack["teardown"] if filesystem["device"] else []:
        job.command("teardown", expand(command, disks, f"stack {trial['stack']}"))
    devices = [
        {
            "name": name,
            "size_bytes": scale["device_mib"] << 20,
            "completion_ns": profile["completion_ns"],
            "bandwidth_mb_s": profile["bandwidth_mb_s"],
        }
        for name in names
    ]
    return job.text(), devices


def obstacle(trial: dict, catalog: Catalog, lab) -> str:
    """Why the lab cannot run this trial at all (a sentence for the reader), or nothing."""
    filesystem = catalog.get("filesystem", trial["filesystem"])
    workload = catalog.get("workload", trial["workload"])
    stack = catalog.get("stack", trial["stack"])
    for package in filesystem["packages"] + workload["packages"] + stack["packages"]:
        if package not in lab.packages:
            return f"The guest has no package {package}: add it to envs/guest.yaml."
    scale = workload["scales"][trial["scale"]]
    content = scale["files"] * min(scale["size_median"] * math.exp(scale["size_sigma"] ** 2 / 2), scale["size_max"])
    if content > lab.data_bytes:
        return (
            f"The tree holds about {content / 2**20:,.0f} MiB, but the {trial['lab']} lab keeps its devices in memory "
            f"and has room for {lab.data_bytes / 2**20:,.0f} MiB: raise memory_mib in envs/guest.yaml or use a "
            "smaller scale."
        )
    return ""


def measurement(events: list[dict], devices: list[dict], clock: str) -> dict:
    """The events of the engine as the `measurement` of a record (see workflow/schemas/record.schema.yaml)."""
    result: dict = {"devices": devices, "commands": [], "phases": [], "verification": []}
    lists = {"command": "commands", "phase": "phases", "verification": "verification"}
    for event in events:
        kind = event.pop("event")
        if kind == "clock":
            result["clock"] = {"name": clock, **event}
        elif kind == "settle":
            result["settle_ns"] = event["settle_ns"]
        elif kind == "mounted" and "mounted" not in result:
            options = [o for key in ("mount_options", "super_options") for o in event.pop(key).split(",")]
            result["mounted"] = {**event, "options": list(dict.fromkeys(options))}
        elif kind in lists:
            result[lists[kind]].append(event)
    for phase in result["phases"]:
        phase["cold"] = _cold(phase) if phase["cache"] == "cold" else None
    return result


def _cold(phase: dict) -> dict:
    if phase["device"] is None:
        return {"method": "caches dropped", "read_bytes": 0, "proved": None, "why": "no device: nothing can be cold"}
    read, content = phase["device"]["read_bytes"], phase["bytes"] if phase["operation"] == "read" else 0
    share = f"{read} bytes came from the device" + (f" for {content} bytes of content" if content else "")
    return {"method": COLD_METHOD, "read_bytes": read, "proved": read > PROVED_SHARE * content, "why": share}


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
        return "failed", f"The guest ended before the job did; the last thing heard was: {last}."
    return "ok", ""


def run_trial(trial: dict, catalog: Catalog, output: Path, time_limit_s: float = 1800.0) -> dict:
    """Runs one trial and writes its raw record to `output`, the console log beside it. Returns the record.

    trial: keys lab, filesystem, variant, stack, profile, workload, scale, round, seed, order.
    Whatever happens inside the lab becomes a record with a status and a reason. Raises UserError for what is wrong
    before that: an unknown name, a bad descriptor, no QEMU, no guest, a folder that cannot be written.
    """
    job, devices = render_job(trial, catalog)
    lab = labs.get_lab(trial["lab"]).open()
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
    reason = obstacle(trial, catalog, lab)
    if reason:
        state, measured, console = "skipped", {}, ""
        environment.update(host_seconds=0.0, lab=lab.environment("not started"))
    else:
        outcome = lab.run(job, time_limit_s)
        events, console = parse_events(outcome.output), outcome.console
        state, reason = status(outcome.ending, events, console, time_limit_s)
        measured = measurement(events, devices, lab.clock)
        environment.update(host_seconds=round(outcome.host_seconds, 3), lab=outcome.environment)
    record = {
        "schema": 1,
        "status": state,
        "reason": reason,
        "trial": trial,
        "measurement": measured,
        "environment": environment,
    }
    log = output.with_suffix(".console.log")
    try:
        write_text(log, console)
        write_text(output, json.dumps(record, ensure_ascii=False) + "\n")
    except UserError:
        with contextlib.suppress(OSError):  # a log without its record would be half a result
            log.unlink()
        raise
    return record


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
