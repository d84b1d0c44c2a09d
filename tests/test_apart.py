"""Clients on machines of their own, over ssh: three real ssh servers, each with a host name and a home of its own."""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from helpers import cell, rendered
from reprofs.data import rows
from reprofs.errors import UserError
from reprofs.guest.steps import Barrier, Phase, Tree
from reprofs.labs import _apart, _conditions
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import Trial
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.study import Study
from reprofs.plan.workload import Workload
from reprofs.trial.commands import trial_lines
from reprofs.trial.planning import make_plan
from reprofs.trial.resolve import resolve
from reprofs.trial.run import run_trial

NAMES = ["a", "b", "c"]
OWN = {"title": "t", "question": "q", "scale": "smoke", "rounds": 1, "seed": 7, "labs": ["mount"], "stacks": ["single"]}
OWN |= {"profiles": ["as-found"], "filesystems": ["here"], "workloads": ["metadata"]}
# $1: host name, $2: port, $3: folder with the keys. The key that may enter is in a home that only this server sees.
SERVER = """
hostname "$1"
mount -t tmpfs -o mode=700 home /root
mkdir -m 700 /root/.ssh
cp "$3/user.pub" /root/.ssh/authorized_keys
exec dropbear -F -E -s -r "$3/$1" -p "127.0.0.1:$2"
"""


def catalog_of(folder: Path, hosts: list[str]) -> Catalog:
    catalog = Catalog()
    catalog.add(
        Filesystem,
        "here",
        catalog.get(Filesystem, "here").as_json() | {"path": str(folder), "clients": {"hosts": hosts}},
    )
    return catalog


def trial_of(workload: str) -> Trial:
    return cell("here", lab="mount", workload=workload, profile="as-found")


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A busy host is no reason for a test to wait long."""
    monkeypatch.setattr(_conditions, "SETTLE_LIMIT_S", 1)
    monkeypatch.delenv("REPROFS_SETTLE", raising=False)


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """The hosts a, b and c, which this machine's ssh reaches by their names."""
    if os.geteuid() or not all(map(shutil.which, ("dropbear", "ssh", "ssh-keygen"))):
        pytest.skip("needs root, and dropbear and ssh, which make setup installs for it")
    keys = tmp_path_factory.mktemp("keys")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / "user"], check=True)
    settings, servers = [], []
    for name, port in zip(NAMES, free_ports(3), strict=True):
        subprocess.run(["dropbearkey", "-t", "ed25519", "-f", keys / name], check=True, capture_output=True)
        words = ["unshare", "--mount", "--uts", "sh", "-ec", SERVER, "sh", name, f"{port}", f"{keys}"]
        servers.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        settings += [f"Host {name}", f"Port {port}", "HostName 127.0.0.1"]
    settings += ["Host *", "User root", f"IdentityFile {keys}/user", "IdentitiesOnly yes"]
    settings += [f"UserKnownHostsFile {keys}/known", "StrictHostKeyChecking accept-new"]
    (keys / "config").write_text("\n".join(settings) + "\n")
    commands = keys / "bin"
    commands.mkdir()
    (commands / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {keys}/config "$@"\n')
    (commands / "ssh").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
        for name in NAMES:
            _answers(name)
        yield NAMES
    for server in servers:
        server.kill()
        server.wait()


def _answers(name: str) -> None:
    until = time.monotonic() + 60
    while True:
        done = subprocess.run(["ssh", "-o", "BatchMode=yes", name, "hostname"], capture_output=True, text=True)
        if done.stdout == f"{name}\n":
            return
        assert time.monotonic() < until, done.stderr
        time.sleep(0.1)


def record_of(folder: Path, workload: str, hosts: list[str], output: Path) -> dict:
    return run_trial(trial_of(workload), catalog_of(folder, hosts), output / "r.json", 120)


# ---- the job


def test_a_client_has_the_tree_and_the_seed_that_it_has_beside_others(tmp_path):
    job = rendered(trial_of("metadata@60+clients4"), catalog_of(tmp_path, ["a", "b"]))
    assert job.clients == ["a", "b", "a", "b"]
    (tree,) = (step for step in job.steps if isinstance(step, Tree))
    assert (tree.seed, tree.clients, tree.root) == ("11{client}", None, "/run/reprofs/mnt/trial/tree")
    names = [type(step).__name__ for step in job.steps]
    phases = [place for place, step in enumerate(job.steps) if isinstance(step, Phase)]
    assert phases and all(names[place - 1] == names[place + 1] == "Barrier" for place in phases)
    assert "sh\targ=a\targ=b" in Barrier(host=["a", "b"]).line()


def test_the_commands_say_where_they_run(tmp_path):
    said = trial_lines(trial_of("metadata@60+clients3"), catalog_of(tmp_path, ["a", "me@b"]))
    assert [line.split()[1] for line in said if line.startswith("ssh ")] == ["a", "me@b", "a"]
    assert ": here every client waits for all others, on a, me@b" in said


def test_other_machines_are_another_job(tmp_path):
    """Which a plan then runs again."""
    texts = {rendered(trial_of("metadata"), catalog_of(tmp_path, hosts)).text() for hosts in (["a"], ["b"], ["a", "b"])}
    assert len(texts) == 2  # one client runs on the first


def test_wrong_hosts_are_one_sentence(tmp_path):
    with pytest.raises(UserError, match="a name that ssh knows: host or user@host"):
        catalog_of(tmp_path, ["-oProxyCommand=x"])
    catalog = Catalog()
    with pytest.raises(UserError, match=r"has the key clients without the key path"):
        catalog.add(Filesystem, "own", catalog.get(Filesystem, "ext4").as_json() | {"clients": {"hosts": ["a"]}})
    with pytest.raises(UserError, match=r"\+fill needs one machine, but file system here has the key clients"):
        resolve(trial_of("metadata+fill50"), catalog_of(tmp_path, ["a"]))


# ---- what several say together


def test_phases_of_several_become_one():
    """Two clients: the second starts 40 ns later and ends last; its sync of 5 ns is the only one after all work."""
    clocks = _apart._Clocks({"a": (1000, 1000), "b": (0, 20)})
    shared = {"cache": "warm", "operation": "create", "user_ns": 1, "system_ns": 2, "settle_ns": 3, "settled": True}
    shared |= {"processor_busy": None, "used_bytes": 10, "used_inodes": None}
    latency = {"sub_bucket_bits": 6, "count": 1, "sum_ns": 7, "min_ns": 7, "max_ns": 7, "buckets": [[7, 1]]}
    one = {**shared, "wall_ns": 100, "sync_ns": 30, "driver_ns": 4, "items": 5, "bytes": 6, "latency": latency}
    told = {"processor_busy": 0.5, "used_bytes": 12}
    other = one | told | {"wall_ns": 90, "sync_ns": 5, "latency": latency | {"min_ns": 2, "buckets": [[2, 1], [7, 1]]}}
    starts = [clocks.here("a", 1500), clocks.here("b", 550)]
    made = _apart._together([one, other], starts)
    assert made["clients"][0] == {"start_ns": 0, "wall_ns": 70, "items": 5, "bytes": 6}
    assert made["clients"][1] == {"start_ns": 40, "wall_ns": 85, "items": 5, "bytes": 6}
    assert (made["wall_ns"], made["sync_ns"], made["items"], made["user_ns"]) == (130, 5, 10, 2)
    assert made["latency"]["buckets"] == [[2, 1], [7, 2]] and made["latency"]["min_ns"] == 2
    assert (made["processor_busy"], made["used_bytes"], made["used_inodes"]) == (0.5, 12, None)
    assert clocks.within() == 10


def test_a_clock_is_known_between_the_line_and_its_answer():
    clocks = _apart._Clocks()
    clocks.seen("a", 1050, 0, 100)  # ahead by 950 to 1050
    clocks.seen("a", 2010, 1000, 1020)  # by 990 to 1010
    assert clocks.here("a", 3000) == 2000 and clocks.within() == 10


# ---- on three hosts


def test_four_clients_on_three_hosts(machines, tmp_path):
    """The trees are those of four clients on this machine, all is verified, and nothing stays."""
    place = tmp_path / "shared"
    place.mkdir()
    record = record_of(place, "metadata@40+clients4", machines, tmp_path)
    assert record["status"] == "ok", record["reason"]
    measured, lab = record["measurement"], record["environment"]["lab"]
    assert lab["clients"] == ["a", "b", "c", "a"] and 0 < lab["clocks_within_ns"] < 1e9
    row = rows.trial_row(record, {})
    assert row["starts_within_ns"] == lab["starts_within_ns"] > 0 and row["clocks_within_ns"] == lab["clocks_within_ns"]
    create = next(phase for phase in measured["phases"] if phase["name"] == "create")
    assert create["items"] == create["latency"]["count"] == 160 and len(create["clients"]) == 4
    assert create["wall_ns"] >= max(client["start_ns"] + client["wall_ns"] for client in create["clients"])
    assert min(client["start_ns"] for client in create["clients"]) == 0
    assert not any(command["stage"] == "barrier" for command in measured["commands"])
    alone = run_trial(trial_of("metadata@40+clients4"), catalog_here(place), tmp_path / "alone.json", 120)
    assert alone["status"] == "ok", alone["reason"]
    sums = [
        [(check["name"], check["files"], check["bytes"]) for check in run["measurement"]["verification"]]
        for run in (record, alone)
    ]
    assert sums[0] == sums[1] and sums[0]
    assert not list(place.iterdir())


def catalog_here(folder: Path) -> Catalog:
    catalog = Catalog()
    catalog.add(Filesystem, "here", catalog.get(Filesystem, "here").as_json() | {"path": str(folder)})
    return catalog


def test_programs_of_several_machines_have_samples_of_their_own(machines, tmp_path):
    record = record_of(tmp_path, "compile-round1@20+clients2", machines, tmp_path)
    assert record["status"] == "ok", record["reason"]
    (life,) = record["measurement"]["phases"]
    assert {sample["client"] for sample in life["samples"]} == {0, 1}
    seeds = re.findall(r"--seed (11\S*)", record["environment"]["job"].replace("\targ=", " "))
    assert set(seeds) == {"11{client}"}


def test_one_client_runs_on_the_first_machine(machines, tmp_path):
    record = record_of(tmp_path, "metadata@40", machines, tmp_path)
    assert record["status"] == "ok", record["reason"]
    assert record["environment"]["lab"]["clients"] == ["a"]
    assert all("clients" not in phase for phase in record["measurement"]["phases"])


def test_a_machine_that_fails_fails_the_trial(machines, tmp_path):
    """And the others, which wait for it, end."""
    catalog = catalog_of(tmp_path, machines)
    workload = catalog.get(Workload, "metadata").as_json()
    phase = {"name": "one", "title": "x", "run": 'sh -c "test $(hostname) != b"', "items": "one"}
    catalog.add(Workload, "fails", workload | {"phases": [phase], "populate": []})
    record = run_trial(trial_of("fails+clients3"), catalog, tmp_path / "r.json", 60)
    assert record["status"] == "failed"
    assert record["reason"] == "client 1 on b: one: sh exited with 1: no output"


def test_hosts_that_cannot_be_used_are_one_sentence(machines, tmp_path):
    hidden = Path("/root") / f"reprofs-test-{os.getpid()}"  # each server has a /root of its own
    hidden.mkdir()
    try:
        said = record_of(hidden, "metadata@40", machines, tmp_path)
    finally:
        hidden.rmdir()
    assert said["status"] == "skipped" and "The node a cannot use the directory under test" in said["reason"]
    catalog = catalog_of(tmp_path, machines)
    catalog.add(Workload, "lacks", catalog.get(Workload, "metadata").as_json() | {"tools": ["sh", "no-such-tool"]})
    said = run_trial(trial_of("lacks@40"), catalog, tmp_path / "r.json", 60)
    assert said["status"] == "skipped" and said["reason"] == "The node a has no command no-such-tool: install it there."
    said = record_of(tmp_path, "metadata@40", ["nowhere"], tmp_path)
    assert said["status"] == "skipped" and "The node nowhere cannot be reached over ssh" in said["reason"]


def test_the_table_of_clients_names_the_machines():
    catalog = catalog_of(Path("/mnt"), ["a", "b"])
    catalog.add(Study, "own", OWN)
    plan = make_plan("own", catalog)
    hosts = rows.client_hosts(plan, plan.trials[0])
    phase = {"clients": [{"start_ns": 0, "wall_ns": 1, "items": 1, "bytes": 1}] * 3}
    assert [row["host"] for row in rows.clients(phase, [], hosts)] == ["a", "b", "a"]
