"""When a study has a topic: conditions on its plan, which report/contents.py names.

Nothing large is imported: the workflow asks at each start.
"""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from reprofs.data.keys import Setting
from reprofs.plan import disk, network
from reprofs.plan.cell import Cell
from reprofs.plan.device import Solid
from reprofs.plan.phase import Phase
from reprofs.plan.plan import Plan
from reprofs.plan.workload import COMPRESS, NO_AMOUNT, PULLS, WORKERS, without_room, without_size
from reprofs.project import place

Condition = Callable[[Plan], bool]
ENOUGH_RUNS = 6  # times for a violin, numbers of runs for a smooth line


def always(plan: Plan) -> bool:
    """In every study."""
    return True


def any_of(*conditions: Condition) -> Condition:
    """The condition that one of these holds."""
    return lambda plan: any(condition(plan) for condition in conditions)


def never(plan: Plan) -> bool:
    """In no study."""
    return False


def profiled(plan: Plan) -> bool:
    """Trials are run again to count where their instructions go."""
    return bool(plan.profiled())


def elsewhere(plan: Plan) -> bool:
    """Ratios are predicted for real machines."""
    return bool(plan.machines)


# ---- phases and workloads ------------------------------------------------------------------------------------------


def sampled(*names: str) -> Condition:
    """The condition that a phase has all these samples."""
    return lambda plan: any(set(names) <= set(phase.samples or {}) for phase in _phases(plan))


def recorded(plan: Plan) -> bool:
    """A workload makes the calls of a recorded program again."""
    return any(entry.recording for entry in plan.workloads.values())


def visiting(plan: Plan) -> bool:
    """Crash states are visited."""
    return any(phase.visits == "states" for phase in _phases(plan))


def faulty(plan: Plan) -> bool:
    """Requests of the disk fail, or what is on it rots."""
    return any(phase.visits == "faults" for phase in _phases(plan))


def rotten(plan: Plan) -> bool:
    """A bit of one disk of an array is another."""
    return any(phase.visits == "rot" for phase in _phases(plan))


def timed(plan: Plan) -> bool:
    """Times are a result: some phases last as long as their workload says."""
    return any(phase.timed for phase in _phases(plan))


def failing(plan: Plan) -> bool:
    """A server is lost while a client writes and flushes, or the power of the disks is cut."""
    return any(phase.crash or (phase.outage and not histories([phase])) for phase in _phases(plan))


def coherent(plan: Plan) -> bool:
    """Calls of several clients are recorded one by one."""
    return histories(_phases(plan))


def histories(phases: Iterable[Phase]) -> bool:
    """Whether the calls of one of these are recorded one by one."""
    return any(phase.parse == "history" for phase in phases)


def makes_files(plan: Plan) -> bool:
    """Files are made in new file systems, as a tree or as content that compresses: what is in use then is theirs."""
    new = any(lab.provisions for lab in plan.labs.values())
    return new and (compressible(plan) or any(phase.operation == "create" for phase in _phases(plan)))


def compressible(plan: Plan) -> bool:
    """The size of a workload is how well its content compresses."""
    return any(entry.size == COMPRESS for entry in plan.workloads.values())


def flushing(plan: Plan) -> bool:
    """A workload flushes in a file system, and a device has a flush of one time besides writing its cache."""
    asks = any(re.search("flush|(?<!r)sync", phase.run or "") for phase in _phases(plan)) or recorded(plan)
    return _with_files(plan) and asks and any(device.flush_us is not None for device in plan.devices.values())


def wearing(plan: Plan) -> bool:
    """A trial runs on a disk with a model of its flash, and a phase says how many bytes it writes."""
    says = any(phase.operation or phase.samples or phase.parse for phase in _phases(plan))
    return says and any(isinstance(device.drive, Solid) and device.drive.flash for device in plan.devices.values())


def kept_up(plan: Plan) -> bool:
    """File systems are mounted, checked or scrubbed, and this is timed."""
    return any(phase.upkeep for phase in _phases(plan))


def only_kept_up(plan: Plan) -> bool:
    """Each workload does so."""
    return all(any(phase.upkeep for phase in entry.phases) for entry in plan.workloads.values())


def swept(plan: Plan) -> bool:
    """A phase has the four tests of a sweep, with any prefix to their names."""
    tests = {"write", "rewrite", "read", "reread"}
    return any(tests <= {name.split("-")[-1] for name in phase.samples or {}} for phase in _phases(plan))


def rsync_lists(plan: Plan) -> bool:
    """A phase runs rsync so that it tells of its list of files."""
    commands = (shlex.split(phase.run or "") for phase in _phases(plan))
    return any(words[:1] == ["rsync"] and "--stats" in words for words in commands)


def snapshots(plan: Plan) -> bool:
    """A workload takes a snapshot, reads and removes it, and changes files before and after."""
    parts = {"chmod", "snapshot", "chmod-kept", "read-snapshot", "delete-snapshot"}
    return any(parts <= {phase.name for phase in entry.phases} for entry in plan.workloads.values())


def with_twins(plan: Plan) -> bool:
    """A workload reads a tree that pulls have aged, and its unaged twin."""
    return any(entry.size == PULLS for entry in plan.workloads.values())


def several_clients(plan: Plan) -> bool:
    """A workload is run by several clients at once, and their times count: calls recorded one by one pause between."""
    return any(entry.clients > 1 and not histories(entry.phases) for entry in plan.workloads.values())


def aged(plan: Plan) -> bool:
    """A file system is filled or aged before, or a workload is repeated in the same one."""
    return _repeated(plan) or any(entry.fill or entry.pulls for entry in plan.workloads.values())


def many_runs(plan: Plan) -> bool:
    """A workload is repeated in one file system, or a study beside published numbers has six rounds or more."""
    rounds = (trial.round for trial in plan.trials)
    return _repeated(plan) or (bool(plan.study.published) and max(rounds, default=0) >= ENOUGH_RUNS)


def _repeated(plan: Plan) -> bool:
    return any(entry.runs > 1 for entry in plan.workloads.values())


def _phases(plan: Plan) -> Iterator[Phase]:
    return (phase for entry in plan.workloads.values() for phase in entry.phases)


# ---- what is compared ----------------------------------------------------------------------------------------------


def contended(plan: Plan) -> bool:
    """Times of file systems are a result and a contender runs: even of a single one readers want to see the times."""
    return _with_files(plan) and bool(_contenders(plan))


def _with_files(plan: Plan) -> bool:
    """Times are a result of work in a file system, not on a bare device alone."""
    return timed(plan) and not all(entry.raw for entry in plan.workloads.values())


def with_options(plan: Plan) -> bool:
    """Variants of one file system run in the same setting."""
    return timed(plan) and any(len(labels) > len(systems) for labels, systems in _variants(plan))


def on_options(plan: Plan) -> bool:
    """A study is on options: in a setting it has more than two variants of a file system, on average."""
    many = any(len(labels) > 2 * len(systems) for labels, systems in _variants(plan))
    return timed(plan) and many and not predicted(plan)


def predicted(plan: Plan) -> bool:
    """What the study's changes do was written down before a real machine was measured (`stats.effects`)."""
    return place(plan.study.predictions).exists()


def _variants(plan: Plan) -> list[tuple[set[str], set[str]]]:
    """Labels and file systems of each setting, without upper bounds."""
    found: dict[Setting, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for trial in plan.trials:
        if plan.role_of(trial) != "ceiling":
            labels, systems = found[Setting(trial.full_lab, trial.stack, trial.profile)]
            labels.add(trial.label)
            systems.add(trial.filesystem)
    return [*found.values()]


def several_stacks(plan: Plan) -> bool:
    """Times of a workload are compared on more than one stack in a lab."""
    stacks = defaultdict(set)
    for trial in plan.trials:
        stacks[trial.full_lab, trial.profile, trial.workload, trial.scale].add(trial.stack)
    return timed(plan) and any(len(names) > 1 for names in stacks.values())


def on_stacks(plan: Plan) -> bool:
    """A study is on stacks of devices: it has more of them than it compares file systems on any one."""
    stacks = {trial.stack for trial in plan.trials}
    return len(stacks) > max(map(len, _contenders(plan).values()), default=0)


def rebuilding(plan: Plan) -> bool:
    """A stack is rebuilding."""
    return any(stack.state == "rebuilding" for stack in plan.stacks.values())


def several_sizes(plan: Plan) -> bool:
    """A file system runs a workload at several sizes in one setting, which are amounts of work."""
    sizes = defaultdict(set)
    for trial in plan.trials:
        entry = plan.workloads[trial.workload]
        if entry.size and entry.size not in NO_AMOUNT and plan.role_of(trial) != "ceiling":
            place = (trial.full_lab, trial.stack, trial.profile, trial.label, without_size(trial.workload))
            sizes[place].add(entry.parameters[entry.size])
    return any(len(found) > 1 for found in sizes.values())


def several_workers(plan: Plan) -> bool:
    """Workloads whose size is the number of their workers have several of them."""
    entries = [entry for entry in plan.workloads.values() if entry.size == WORKERS]
    return len({entry.parameters[WORKERS] for entry in entries}) > 1


def several_labs(plan: Plan) -> bool:
    """Trials run in more than one lab, or on several processors; kernels and memory have topics of their own."""
    return len({(trial.lab, trial.processor) for trial in plan.trials}) > 1


def several_kernels(plan: Plan) -> bool:
    """Times are compared of more than one kernel that has a file."""
    return timed(plan) and len({trial.kernel for trial in plan.trials if trial.kernel}) > 1


def limited_memory(plan: Plan) -> bool:
    """Trials may fill different amounts of memory."""
    return len({trial.memory_mib for trial in plan.trials}) > 1


def several_rooms(plan: Plan) -> bool:
    """A workload runs in file systems of different sizes: its name asks for one of them."""
    rooms = defaultdict(set)
    for name, entry in plan.workloads.items():
        rooms[without_room(name)].add(entry.parameters.get("device_mib"))
    return any(len(found) > 1 for found in rooms.values())


def only_sizes(plan: Plan) -> bool:
    """Sizes are compared, not labs; where labs are, sizes are only repetitions."""
    return several_sizes(plan) and not several_labs(plan)


def factors(plan: Plan) -> bool:
    """Cells of a study are factors of a base."""
    return bool(plan.factors)


def unfactored_labs(plan: Plan) -> bool:
    """Trials are repeated in another lab to see whether they agree; with factors a CPU model may be one of them, and
    with several numbers of workers a number of cores."""
    return several_labs(plan) and not factors(plan) and not several_workers(plan)


def published(plan: Plan) -> bool:
    """A study names published numbers; with factors, these are compared with them."""
    return bool(plan.published) and not factors(plan)


def modelled_disks(plan: Plan) -> bool:
    """The models' jobs run on a modelled disk and on a device that gives the time of the software."""
    ran = defaultdict(set)
    for trial in plan.trials:
        if _samples(plan, trial) & set(disk.ACCESSES):
            ran[trial.full_lab, trial.stack, trial.workload, trial.scale].add(trial.profile)
    modelled = {name for name, device in plan.devices.items() if device.drive} - {disk.REFERENCE}
    return any(found & modelled and found & {disk.REFERENCE, disk.UNTIMED} for found in ran.values())


def modelled_networks(plan: Plan) -> bool:
    """The networks' jobs run on a network, and on one of those that give the time of the software."""
    ran = defaultdict(set)
    for trial in plan.trials:
        if trial.network and _samples(plan, trial) & set(network.EXCHANGES):
            ran[trial.full_lab, trial.workload, trial.scale].add(trial.network)
    others = {network.REFERENCE, network.UNTIMED}
    return any(found & others and found - others for found in ran.values())


def _samples(plan: Plan, trial: Cell) -> set[str]:
    return {name for phase in plan.workloads[trial.workload].phases for name in phase.samples or {}}


def _contenders(plan: Plan) -> dict[Setting, set[str]]:
    """The file systems with their variants that are compared in each setting of a plan."""
    found = defaultdict(set)
    for trial in plan.trials:
        if plan.role_of(trial) == "contender":
            found[Setting(trial.full_lab, trial.stack, trial.profile)].add(trial.label)
    return found
