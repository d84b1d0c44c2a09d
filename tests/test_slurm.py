"""profiles/slurm on a cluster of two nodes, which are daemons of this machine: the same tables as without it.

Also when a node is drained and a job is killed in the middle. Needs Debian's slurm-wlm and munge, and the group slurm.
"""

import getpass
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml
from test_workflow import prepare

DAEMONS = ["munged", "slurmctld", "slurmd"]
MISSING = [name for name in DAEMONS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")]
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (apt-get install slurm-wlm munge)"),
    pytest.mark.skipif(
        importlib.util.find_spec("snakemake_executor_plugin_slurm") is None,
        reason="Snakemake's plugin for Slurm is not installed (uv sync --group slurm)",
    ),
]
FILESYSTEMS, ROUNDS = ["ext2", "ext4", "xfs", "jfs", "f2fs", "tmpfs"], 20
NODES = ("n1", "n2")
TRIALS = len(FILESYSTEMS) * ROUNDS


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def configuration(folder: Path) -> str:
    host, user = socket.gethostname().split(".")[0], getpass.getuser()
    nodes = [
        f"NodeName={name} NodeAddr=127.0.0.1 NodeHostname={host} Port={free_port()} CPUs=1 RealMemory=8000"
        for name in NODES
    ]
    keys = {
        "ClusterName": "reprofs",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": free_port(),
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.socket",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "%n.pid",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "ReturnToService": 2,
        "MinJobAge": 3600,
    }
    lines = [*(f"{key}={value}" for key, value in keys.items()), *nodes]
    return "\n".join([*lines, "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP", ""])


@pytest.fixture
def cluster(tmp_path) -> Iterator[dict]:
    """What to add to the environment of a client of the cluster."""
    folder = tmp_path / "cluster"
    for name in ("state", "bin", *NODES):
        (folder / name).mkdir(parents=True)
    (folder / "slurm.conf").write_text(configuration(folder))
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    # A job's environment has no variable of Slurm's, and elsewhere the configuration is where srun looks by itself.
    (folder / "bin/srun").write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    (folder / "bin/srun").chmod(0o755)
    munge = ["--socket", "munge.socket", "--key-file", "key", "--pid-file", "munged.pid", "--log-file", "munged.log"]
    munge = [f"{folder}/{word}" if not word.startswith("--") else word for word in [*munge, "--seed-file", "seed"]]
    commands = [["munged", "--foreground", "--force", *munge], ["slurmctld", "-D", "-f", f"{folder}/slurm.conf"]]
    commands += [["slurmd", "-D", "-N", name, "-f", f"{folder}/slurm.conf"] for name in NODES]
    env = {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{folder}/bin:{os.environ['PATH']}:/usr/sbin"}
    daemons: list[subprocess.Popen] = []
    try:
        for command in commands:
            with (folder / "log").open("a") as log:
                daemons.append(subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | env))
            time.sleep(1)
        wait(lambda: says(env, "sinfo", "--noheader", "--format=%T %D") == "idle 2", 60)
        yield env
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(timeout=60)


def says(env: dict, *command: str) -> str:
    done = subprocess.run(command, env=os.environ | env, capture_output=True, text=True)
    return done.stdout.strip()


def wait(happened, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(1)


def study(folder: Path) -> Path:
    """The checkout in `folder`, with the study in it."""
    plan = yaml.safe_load((folder / "checkout/config/studies/quick.yaml").read_text())
    plan |= {"title": "Small", "filesystems": FILESYSTEMS, "workloads": ["metadata@50"], "rounds": ROUNDS}
    (folder / "checkout/config/studies/small.yaml").write_text(yaml.safe_dump(plan))
    return folder / "checkout"


def snakemake(checkout: Path, env: dict, *arguments: str) -> subprocess.Popen:
    command = [".venv/bin/snakemake", "data/tables/small", *arguments, "--config", "study=small"]
    env = env | {"PATH": f"{checkout}/.venv/bin:{env['PATH']}"}
    with (checkout / "log").open("w") as log:
        return subprocess.Popen(command, cwd=checkout, env=env, stdout=log, stderr=log)


def test_a_study_on_a_cluster_has_the_same_tables(guest, tmp_path, cluster):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    env = prepare(tmp_path / "there") | cluster
    there = study(tmp_path / "there")
    options = ["--profile", "profiles/slurm", "--slurm-no-account", "--slurm-status-command", "squeue"]
    run = snakemake(there, env, *options)
    made = there / "data/raw/small"
    try:
        wait(lambda: len(list(made.glob("*.json"))) >= TRIALS // 6 or run.poll() is not None, 1800)
        assert run.poll() is None, (there / "log").read_text()[-3000:]
        assert not says(cluster, "scontrol", "update", f"NodeName={NODES[1]}", "State=DRAIN", "Reason=test")
        wait(lambda: says(cluster, "squeue", "--noheader", "--states=R", "--format=%i"), 120)
        says(cluster, "scancel", says(cluster, "squeue", "--noheader", "--states=R", "--format=%i").splitlines()[0])
        assert run.wait(timeout=3600) == 0, (there / "log").read_text()[-3000:]
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait(timeout=120)
    assert "Trying to restart job" in (there / "log").read_text()
    assert says(cluster, "sinfo", "--noheader", "--nodes", NODES[1], "--format=%T") == "drained"
    env = prepare(tmp_path / "here")
    here = study(tmp_path / "here")
    run = snakemake(here, env, "--cores", "2")
    assert run.wait(timeout=3600) == 0, (here / "log").read_text()[-3000:]
    records = [(checkout / "data/raw/small").glob("*.json") for checkout in (here, there)]
    measured = [{path.name: json.loads(path.read_text())["digests"]["measurement"] for path in own} for own in records]
    assert measured[0] == measured[1] and len(measured[0]) == TRIALS
    for name in ("phases", "latency", "samples"):
        one, other = (pd.read_parquet(checkout / f"data/tables/small/{name}.parquet") for checkout in (here, there))
        pd.testing.assert_frame_equal(one, other)
