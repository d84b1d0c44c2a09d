"""From a setup to a job: the order of the steps of every trial."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reprofs.errors import FileError, UserError
from reprofs.guest import hosts, memory, shell, steps
from reprofs.guest.steps import CLIENT, Barrier, Exec, Job, Mkdir, Phase, Step
from reprofs.plan.cell import Trial
from reprofs.plan.command import argv, fill
from reprofs.plan.filesystem import HostLine
from reprofs.plan.phase import Phase as PhaseKeys
from reprofs.plan.stack import Commands
from reprofs.plan.workload import TREE
from reprofs.records.protocol import (
    AGE_LIMIT_S,
    BASE,
    BESIDE,
    CHANGES,
    CLUSTER_SEED,
    GROUPS,
    MOUNTPOINT,
    OFFSET_WITHIN_NS,
    PARSED_BYTES,
    RECOVERY,
    REST_NS,
    RESYNC_LIMIT_S,
    SETUP_LIMIT_S,
    WORK,
)
from reprofs.trial import upkeep
from reprofs.trial.nodes import places
from reprofs.trial.outages import around
from reprofs.trial.setup import Setup
from reprofs.trial.timeout import check_limit_s
from reprofs.trial.visits import remounting


def render(setup: Setup, seed: Any = None, repetition: Any = None) -> Job:
    """The job of a setup. seed, repetition: in the place of its trial's seed and round.

    Raises UserError for commands or figures of its descriptors that cannot be used.
    """
    if seed is None or repetition is None:
        assert isinstance(setup.cell, Trial), "a cell has no seed of its own"
        seed, repetition = setup.cell.seed if seed is None else seed, setup.cell.round
    return _Writer(setup, seed, repetition).write()


class _Writer:
    """Writes the job of one setup."""

    def __init__(self, setup: Setup, seed: Any, repetition: Any):
        self.setup = setup
        self.filesystem = setup.filesystem
        self.steps: list[Step] = []
        self.stack = setup.commands or Commands([])
        self.seed = seed
        self.runs = setup.workload.runs
        self.at = places(setup)
        if self.at.apart and setup.workload.clients > 1:  # each with the seed that it always has
            self.seed = f"{self.seed}{CLIENT}"
        self.several = self.at.clients if self.at.clients > 1 else None
        self.supply = [f"/sys/block/{Path(path).name}/supply" for path in setup.paths]
        self.aged = bool(setup.workload.fill or setup.workload.pulls)
        # What is the same in many trials can be saved for them: a cluster in all, an aged file system in each round.
        self.pauses = self.setup.lab.pause_steps() if self.filesystem.hosts or self.aged else []
        self.begins = repetition if self.aged else CLUSTER_SEED
        self.together = False  # whether those folders are in place
        self.tree_there = False  # whether the engine's tree is whole and on the device, so that it can be compared

    def write(self) -> Job:
        """The whole job."""
        self.devices()
        self.network()
        self.make()
        self.mount()
        self.readback(self.stack.readback)
        first = len(self.steps)
        self.age()
        self.pause()
        before = first if self.aged else len(self.steps)
        self.inspect()
        self.limit()
        self.prepare()
        self.fault()
        for run in range(1, self.runs + 1):
            for phase in self.setup.workload.phases:
                self.phase(phase, run)
        self.finish()
        self.teardown()
        if Job(self.steps).programs():  # which may be others in trials that begin alike, and go on from one saved state
            before = 0 if Job(self.steps).modules() else before  # a module comes with them, and makes the disk
            self.steps[before:before] = self.setup.lab.program_steps()
        taken = self.lines("taken", self.filesystem.taken)
        return Job(self.steps, MOUNTPOINT, self.stack.makes, taken, self.at.apart, engine_alone=self.setup.engine_alone)

    @functools.cached_property
    def values(self) -> dict[str, str]:
        """The values of the placeholders in a file system's commands."""
        own = {
            "mountpoint": MOUNTPOINT,
            "base": BASE,
            "make": self.setup.variant.make,
            "mount": ",".join(filter(None, (self.setup.variant.mount, self.stack.mount))),
            "layout": self.stack.layout,
        }
        own |= {name: hosts.address(place) for name, place in self.at.hosts.items()}
        if self.filesystem.hosts:
            own |= {f"s{number}_disk": device for number, device in enumerate(self.stack.devices, 1)}
        if not self.stack.devices:
            return own
        return own | {"device": self.stack.devices[0], "devices": " ".join(self.stack.devices)}

    @functools.cached_property
    def syncs(self) -> list[str]:
        """The file systems that are synced at the end of every phase."""
        where = f"{self.filesystem.file}: sync"
        return [*self.at.mounts, *(fill(path, self.values, where) for path in self.filesystem.sync)]

    @functools.cached_property
    def recovery(self) -> list[list[str]]:
        """The commands that mount the file system after a power cut, preceded by those that repair it."""
        return [*self.lines("recover", self.filesystem.recover), *self.lines("mount", self.filesystem.mount)]

    def lines(self, key: str, templates: Sequence[str | HostLine]) -> list[list[str]]:
        """The commands under a key of the file system; a variant may have its own key check."""
        where = f"{self.filesystem.file}: {key}"
        found = []
        for line in templates:
            if isinstance(line, HostLine):
                found += self.on_hosts(line, where)
            else:
                found.append(argv(line, self.values, where))
        return found

    def on_hosts(self, line: HostLine, where: str) -> list[list[str]]:
        """One step per node for a command of the file system."""
        chosen = [name for name in self.at.hosts if line.host in (name, "servers" if name[0] == "s" else "clients")]
        found = []
        for name in chosen:
            own = {"host": name, "number": name[1:]}
            if name[0] == "c":
                own["mountpoint"] = self.at.mounts[int(name[1:]) - 1]
            if f"{name}_disk" in self.values:
                own["disk"] = self.values[f"{name}_disk"]
            words = argv(line.run or line.wait or "", self.values | own, where)
            words = hosts.inside(name, words, self.at.hosts[name], self.at.cores.get(name))
            found.append(hosts.waiting(words, line.expect or "", line.limit_s) if line.wait else words)
        return found

    def commands(self, stage: str, commands: list[list[str]]) -> None:
        """Adds commands that run outside the measured phases, in order."""
        self.steps += [Exec(stage=stage, limit_s=SETUP_LIMIT_S, arg=words) for words in commands]

    def modules(self, names: list[str]) -> None:
        """Loads kernel modules."""
        self.steps += [steps.Module(name=name, limit_s=SETUP_LIMIT_S) for name in names]

    def devices(self) -> None:
        """Sets up the clock, the disks, and the stack on them."""
        if self.setup.lab.seeds:
            self.steps.append(steps.Seed(value=self.begins if self.pauses else self.seed))
        self.processor()
        self.steps.append(steps.Clock())
        if self.setup.paths:
            try:
                self.steps += self.setup.lab.device_steps(self.setup.disks)
            except UserError as error:  # figures that no disk has together
                raise FileError(f"{self.setup.profile.file}: {error}") from None
            self.modules(self.stack.modules)
            self.commands("stack", self.stack.build)
            self.steps += [steps.Await(path=path, limit_s=RESYNC_LIMIT_S) for path in self.stack.resync]
        self.steps.append(steps.Devices(path=self.setup.paths, flash=self.setup.flash))

    def age(self) -> None:
        """Ages the file system before anything of the trial's own is made, by a seed of the round."""
        for name, words in self.setup.workload.ageing(self.begins).items():
            self.unmeasured(name, None, **self.execute(words, 1, AGE_LIMIT_S, MOUNTPOINT))

    def pause(self) -> None:
        """Where servers had to start or a file system aged first: the lab may save what they are now."""
        if self.pauses:
            self.steps += [*self.pauses, steps.Seed(value=self.seed)]
            self.offset()

    def offset(self) -> None:
        """Where time is computed, the seed also draws where a trial begins between the kernel's ticks and timers."""
        if self.setup.lab.exact:
            self.steps.append(steps.Offset(seed=self.seed, within_ns=OFFSET_WITHIN_NS))

    def processor(self) -> None:
        """Checks the CPU model."""
        if self.setup.processor:
            self.steps += self.setup.lab.processor_steps(self.setup.processor)

    def network(self) -> None:
        """Makes the nodes and their network."""
        network, asked = self.setup.network, self.filesystem.hosts
        if not network or not asked:
            return
        self.modules(hosts.modules(network.qdisc()))
        self.steps.append(hosts.Bridge(mtu=network.mtu, names=self.at.hosts))
        self.steps += [
            hosts.Host(name=name, number=number, mtu=network.mtu, qdisc=network.qdisc(), private=asked.private)
            for number, name in enumerate(dict.fromkeys(self.at.hosts.values()), 1)
        ]
        if self.at.cores and self.setup.processor:
            self.steps.append(hosts.cores(len(self.at.cores), self.setup.processor.count - 1))

    def make(self) -> None:
        """Makes the file system."""
        self.modules(self.setup.modules)
        if not self.pauses:  # after which the rounds differ
            self.offset()
        folders = (BESIDE, BASE, *self.at.mounts) if self.setup.lab.provisions else ()
        self.steps += [Mkdir(path=folder) for folder in folders]
        self.commands("make", self.lines("make", self.filesystem.make))

    def mount(self) -> None:
        """Mounts the file system and checks the mount."""
        self.commands("mount", self.lines("mount", self.filesystem.mount))
        if self.at.cores and self.filesystem.hosts and self.filesystem.hosts.threads:
            self.steps.append(hosts.pinned(self.filesystem.hosts.threads, self.at.cores["s1"]))
        self.mounted()
        if self.together:
            self.bind()

    def bind(self) -> None:
        """Puts the folders of the clients on other hosts, each seen through its own host's mount, in their place."""
        self.together = True
        for folder, place in self.at.elsewhere.items():
            own = self.at.folders[0] if self.setup.workload.shared else folder
            self.commands("mount", [["mount", "--bind", f"{place}/{Path(own).relative_to(MOUNTPOINT)}", folder]])

    def mounted(self) -> None:
        """Checks that type and options of the mount are those asked for."""
        variant = self.setup.variant
        kind = self.filesystem.type if variant.type is None else variant.type
        within = None if self.setup.lab.provisions else 1
        self.steps.append(steps.Mounted(path=MOUNTPOINT, type=kind, within=within, expect=variant.expect))

    def unmount(self) -> None:
        """Unmounts the file system."""
        self.commands("unmount", [["umount", folder] for folder in self.at.elsewhere])
        self.commands("unmount", self.lines("unmount", self.filesystem.unmount))

    def cold(self) -> None:
        """Makes caches cold: neither the superblock nor any clean page of the file system stays in memory."""
        if not self.setup.lab.provisions:
            self.steps.append(steps.Evict(root=WORK))
            return
        self.emptied()
        if self.filesystem.device:
            self.mount()

    def emptied(self) -> None:
        """Empties all caches, for which a file system on a device is unmounted."""
        if self.filesystem.device:
            self.unmount()
        self.steps.append(steps.Drop())
        self.commands("cold", self.stack.cold)

    def renew(self) -> None:
        """Makes the file system anew, on the same devices."""
        self.unmount()
        self.steps.append(steps.Drop())
        self.commands("make", self.lines("make", self.filesystem.make))
        self.mount()
        self.steps += [Mkdir(path=folder) for folder in dict.fromkeys([WORK, *self.at.folders])]

    def readback(self, checks: list) -> None:
        """Checks that the stack reports to be what was asked for."""
        self.steps += [
            Exec(stage="readback", limit_s=SETUP_LIMIT_S, match=expected, arg=words) for words, expected in checks
        ]

    def verify(self, name: str, folder: str) -> None:
        """Compares what the device returns with what was written."""
        self.cold()
        self.unnoticed(steps.Verify(name=name, root=f"{WORK}/{folder}"))

    def unnoticed(self, *checks: Step) -> None:
        """Adds steps that read and leave the time of last access alone: with relatime, a first read is to write it.

        Servers have mounts of their own. Of clients' mounts the kernel writes no such time (NFS, FUSE).
        """
        own = self.setup.lab.provisions and not self.filesystem.raw
        places = [MOUNTPOINT] if own and "noatime" not in self.setup.variant.mount else []
        places += [path for path in self.syncs if own and path not in self.at.mounts and not path.startswith("/dev/")]
        for option, between in (("noatime", checks), ("relatime", ())):
            for path in places:
                words = ["mount", "-i", "-o", f"remount,bind,{option}", path]
                if path != MOUNTPOINT and self.filesystem.hosts:
                    words = hosts.inside(Path(path).name if Path(path).name in self.at.hosts else "s1", words)
                self.commands("atime", [words])
            self.steps += between

    def inspect(self) -> None:
        """Adds the output of the file system's tools, the folders, and the tree that the engine will make."""
        setup = self.setup
        self.commands("inspect", self.lines("inspect", self.filesystem.inspect))
        self.steps += [Mkdir(path=folder) for folder in dict.fromkeys([WORK, *self.at.folders])]
        self.bind()
        values = setup.scale.parameters()
        tree = {key: values[key] for key in TREE if key in values}
        if len(tree) == len(TREE):
            self.steps.append(steps.Tree(root=f"{WORK}/tree", seed=self.seed, clients=self.several, **tree))
        crashes = any(phase.crash for phase in setup.workload.phases)
        # What makes the caches cold would else be read from the guest's image each time, and translated again by QEMU.
        between = [*self.lines("unmount", self.filesystem.unmount), *self.stack.cold]
        between += [*self.lines("mount", self.filesystem.mount), *(self.recovery if crashes else [])]
        between += [words for key in upkeep.asked(setup) for words in upkeep.commands(key, setup, self.lines)]
        tools = setup.workload.tools + [Path(program).name for words in between for program in hosts.programs(words)]
        self.steps += [steps.Pin(tool=tool) for tool in (dict.fromkeys(tools) if setup.lab.provisions else [])]
        self.steps.append(steps.Settle())

    def limit(self) -> None:
        """Limits the memory that all later steps may fill; nothing of the file system is in memory when it begins."""
        if limit := self.setup.cell.memory_mib:
            self.steps += memory.begin(limit, GROUPS)
            self.cold()

    def prepare(self) -> None:
        """What precedes the measured phases: the population, which is verified from the device."""
        for entry in self.setup.workload.populate:
            if isinstance(entry, str):
                self.unmeasured(entry, self.several, operation=entry, order="tree")
            else:
                words = self.words(entry.run, 1)
                self.unmeasured(entry.name, self.several, **self.execute(words, 1, entry.limit_s))
        self.tree_there = "create" in self.setup.workload.populate
        if self.tree_there:
            self.verify("populate: tree", "tree")

    def unmeasured(self, name: str, clients: int | None, **what: Any) -> None:
        """Adds a phase that no statistic includes."""
        what |= {"sync": self.syncs, "clients": clients, "space": self.space}
        self.steps.append(Phase(name=name, cache="warm", unmeasured=1, **what))

    def fault(self) -> None:
        """The fault of a stack that has one."""
        if self.stack.fault:
            self.commands("fault", self.stack.fault)
            self.steps += [steps.Watch(path=self.stack.rebuild)] if self.stack.rebuild else []
            self.readback(self.stack.faulted)

    def phase(self, phase: PhaseKeys, run: int) -> None:
        """Adds a measured phase, the recovery if its power is cut, and the verification of its content."""
        operation, crash = phase.operation, phase.crash
        self.begin(phase)
        before, after = around(phase, self.setup, list(self.at.hosts), self.seed, self.lines)
        together = [Barrier(host=self.at.apart)] if self.at.apart else []  # nobody does anything else during a phase
        self.rest()
        self.steps += [*before, *together]
        self.steps.append(
            Phase(
                name=phase.name,
                cache=phase.cache,
                sync=[] if phase.upkeep == "check" else self.syncs,
                clients=self.several,
                power=self.supply if crash else [],
                cut_ms=crash.after_ms if crash else None,
                space=None if phase.upkeep == "check" else self.space,
                run=self.numbered(run),
                tail=PARSED_BYTES if phase.parse or phase.visits else None,
                **self.work(phase, run),
            )
        )
        self.steps += [*after, *together]
        if phase.upkeep == "mount":
            self.mounted()
        elif upkeep.unmounted(phase.upkeep):
            self.mount()
        copy = "tree" if operation in ("create", "rename") else phase.copies_to
        if crash:
            self.recover(phase.name, run)
            if operation in CHANGES:
                self.unnoticed(steps.Verify(name=phase.name, root=f"{WORK}/tree", count=1))
            elif self.tree_there:
                self.verify(f"{phase.name}: tree", "tree")
        elif copy:
            self.verify(f"{phase.name}: {copy}", copy)
        if operation in CHANGES:
            self.tree_there = not crash and operation != "remove"
        if phase.check:
            self.check(phase.name, phase.check, run)

    def begin(self, phase: PhaseKeys) -> None:
        """Makes the file system anew or the caches cold, as a phase asks."""
        if phase.fresh:
            self.renew()
        elif upkeep.unmounted(phase.upkeep):
            self.emptied()
        elif phase.cache == "cold":
            self.cold()

    def work(self, phase: PhaseKeys, run: int) -> dict[str, Any]:
        """What a phase does: an operation of the engine, or a command."""
        if phase.operation:
            return {"operation": phase.operation, "order": phase.order}
        items = self.setup.scale.count(phase.items) or 1
        if phase.upkeep:
            words = shell.one_command(upkeep.commands(phase.upkeep, self.setup, self.lines))
            return self.execute(words, items, phase.limit_s, "/")
        words = self.words(phase.run or "", run) + remounting(phase, self.setup, self.lines, self.checks())
        return self.execute(words, items, phase.limit_s)

    def checks(self) -> list[list[str]]:
        """The commands that check the unmounted file system."""
        return upkeep.commands("check", self.setup, self.lines)

    def rest(self) -> None:
        """Lets the kernel do what unmounting left, before a phase; an array that rebuilds is not given that time."""
        if not self.stack.rebuild:
            self.steps.append(steps.Rest(ns=REST_NS))

    @property
    def space(self) -> str | None:
        """The file system whose space a phase records."""
        return None if self.setup.workload.raw else MOUNTPOINT

    def recover(self, name: str, run: int) -> None:
        """After a power cut, when only what was on the media is left: mounts the file system again, timed."""
        self.unmount()
        self.commands("stop", self.stack.stop)
        self.steps.append(steps.Restore(power=self.supply))
        self.commands("assemble", self.stack.assemble)
        self.steps.append(steps.Drop())
        what = self.execute(shell.one_command(self.recovery), 1, SETUP_LIMIT_S, "/") | {
            "run": self.numbered(run),
            "space": self.space,
        }
        self.rest()
        self.steps.append(Phase(name=name + RECOVERY, cache="cold", sync=self.syncs, **what))
        self.mounted()
        self.readback(self.stack.readback)

    def check(self, phase: str, command: str, run: int) -> None:
        """The workload's own comparison of what a phase has written, with cold caches, for each client."""
        self.cold()
        limit = SETUP_LIMIT_S if self.setup.lab.in_guest else check_limit_s(self.setup, SETUP_LIMIT_S)
        checks = []
        for number, folder in enumerate(self.at.folders):
            words = self.words(command, run)
            if self.at.clients > 1:
                words = [word.replace("{client}", f"{number:03}") for word in words]
            checks.append(Exec(stage=f"check {phase}", limit_s=limit, cwd=folder, env=self.environment(), arg=words))
        self.unnoticed(*checks)

    def numbered(self, run: int) -> int | None:
        """The number of the run, where there are several in one file system."""
        return run if self.runs > 1 else None

    def words(self, text: str, run: int) -> list[str]:
        """A command of the workload."""
        # Every client has a seed of its own: the engine puts its number, three digits, in the place of {client}.
        seed = f"{self.seed}{{client}}" if self.at.clients > 1 else self.seed
        workload, names = self.setup.workload, self.setup.cell
        text = text.replace("engine replay ", f"engine {self.setup.replay} ")
        return workload.words(text, names.scale, seed, f"{workload.file}: workload {names.workload}", run)

    def execute(self, words: list[str], items: int, limit_s: int, folder: str = WORK) -> dict[str, Any]:
        """The part of a phase that executes a command."""
        what = {"operation": "exec", "items": items, "cwd": folder, "limit_s": limit_s}
        return {**what, "env": self.environment(), "arg": words}

    def environment(self) -> list[str]:
        """Environment variables of the workload's commands."""
        return [f"{key}={value}" for key, value in self.setup.workload.environment.items()]

    def finish(self) -> None:
        """Waits for the end of a rebuild, reads the stack back again, and checks the file system."""
        stack = self.stack
        if stack.rebuild:
            what: dict[str, Any] = {"space": self.space, "operation": "rebuild", "limit_s": RESYNC_LIMIT_S}
            self.steps.append(Phase(name="rebuild", cache="warm", sync=self.syncs, **what))
        self.steps += memory.end(GROUPS) if self.setup.cell.memory_mib else []
        # A rebuilt array is whole again.
        self.readback(stack.readback if stack.rebuild or not stack.fault else stack.faulted)
        self.unmount()
        self.steps += [steps.Wear()] * (self.setup.flash or 0)
        self.commands("check", self.checks())
        self.processor()  # nobody changed its timer on the way

    def teardown(self) -> None:
        """Unmounts and takes the stack down, even after a failure."""
        self.steps.append(steps.Teardown())
        for folder in self.at.elsewhere:
            self.steps.append(Exec(stage="teardown", limit_s=SETUP_LIMIT_S, if_mounted=folder, arg=["umount", folder]))
        for words in self.lines("unmount", self.filesystem.unmount):
            mounted = words[-1] if "umount" in hosts.programs(words) else MOUNTPOINT
            self.steps.append(Exec(stage="teardown", limit_s=SETUP_LIMIT_S, if_mounted=mounted, arg=words))
        if self.filesystem.hosts:
            self.steps += hosts.ends(list(dict.fromkeys(self.at.hosts.values())), self.filesystem.hosts.logs)
        self.commands("teardown", self.stack.teardown)
