"""Where clients and servers of a trial run: nodes, mounts, cores and folders."""

from __future__ import annotations

from dataclasses import dataclass

from reprofs.records.protocol import BESIDE, MOUNTPOINT, WORK
from reprofs.trial.setup import Setup


@dataclass(frozen=True)
class Places:
    """clients: how many the job itself starts, each in its one of `folders`."""

    clients: int
    folders: list[str]
    apart: list[str]  # machines of their own: each runs the job as if it was alone
    hosts: dict[str, str]  # of a file system with hosts: see Filesystem.host_names
    mounts: list[str]  # of the clients' hosts: the first at the mount point, the others beside it
    elsewhere: dict[str, str]  # folders of clients that are not on the first host, or share its folder -> their mounts
    cores: dict[str, int]  # of servers that have a processor of their own


def places(setup: Setup) -> Places:
    """The places of a setup. Clients are assigned to machines, nodes and mounts in turn."""
    there, asked = setup.filesystem.clients, setup.workload.clients
    apart = [there.hosts[number % len(there.hosts)] for number in range(asked)] if there else []
    clients = 1 if apart else asked
    folders = [f"{WORK}/c{number}" for number in range(clients)] if clients > 1 else [WORK]
    hosts = setup.filesystem.host_names(clients, setup.workload.on_servers)
    mounts = [MOUNTPOINT, *(f"{BESIDE}/{name}" for name in hosts if name[0] == "c" and name != "c1")]
    elsewhere = _elsewhere(folders, mounts, setup.workload.shared)
    # Of several processors each server has one of its own, unless clients run on servers.
    servers = [name for name in hosts if name[0] == "s"]
    on_servers = any(name != place for name, place in hosts.items())
    own = setup.processor and setup.processor.apart(len(servers)) and not on_servers
    cores = {name: number for number, name in enumerate(servers)} if own else {}
    return Places(clients, folders, apart, hosts, mounts, elsewhere, cores)


def _elsewhere(folders: list[str], mounts: list[str], shared: bool) -> dict[str, str]:
    """Each client sees its folder of the workload, or the shared one, through the mount of its own host."""
    seen = {folder: mounts[number % len(mounts)] for number, folder in enumerate(folders)}
    return {folder: mount for folder, mount in seen.items() if mount != MOUNTPOINT or (shared and folder != folders[0])}
