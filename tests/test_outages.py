"""Outages: a server is killed, or its cable cut, in the middle of a phase."""

import json
import subprocess

import pytest
from conftest import ROOT
from helpers import CATALOG, cell, changed, rendered
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import hosts
from reprofs.guest import image as guest_builder
from reprofs.guest.steps import Exec, Phase
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.study import Study
from reprofs.report import contents
from reprofs.trial.planning import make_plan
from reprofs.trial.run import run_trial
from run import made, shown

NFS = cell("nfs-xfs", variant="v4.2-sync@lan-1g", workload="server-lost")
GLUSTER = cell("gluster", variant="replica-3", stack="servers", workload="server-lost")


def scripts(trial: dict) -> dict[str, str]:
    """Phase -> what happens beside it."""
    return {
        step.stage: step.arg[-1]
        for step in rendered(trial, CATALOG).steps
        if isinstance(step, Exec) and step.stage.startswith("outage ") and step.arg[-1].startswith("stamp")
    }


# ---- the job


def test_the_last_server_is_lost_beside_the_phase_and_comes_back():
    told = scripts(GLUSTER)
    killed, cut = told["outage server-killed"].splitlines(), told["outage link-cut"].splitlines()
    assert killed[1:5] == ["stamp begin", "sleep 5", "stamp lost", "sh -c 'ip netns pids s3 | xargs -r kill -9'"]
    assert killed[5:7] == ["stamp lost-done", "sleep 10"] and "glusterd --log-level WARNING" in killed[8]
    assert cut[4] == "ip link set vs3 down" and cut[8] == "ip link set vs3 up"
    assert [line for line in cut if "heal gv info" in line] == [line for line in killed if "heal gv info" in line] != []
    steps = rendered(GLUSTER, CATALOG).steps
    for number, step in enumerate(steps):
        if isinstance(step, Phase):
            assert steps[number - 1].stage == steps[number + 1].stage == f"outage {step.name}"
            assert steps[number + 1].limit_s == 600 + 5 + 10 + 60  # with the limit of healing
    assert "rpc.nfsd 0" in scripts(NFS)["outage server-killed"]  # no signal kills threads of the kernel


def test_how_long_healing_takes_is_not_told_in_steps_of_seconds():
    """A wait looks every 0.1 s. CephFS's servers say every five seconds what they have, so it is asked no sooner."""
    for name in CATALOG.paths(Filesystem):
        outage = CATALOG.get(Filesystem, name).outage
        for line in outage.healed if outage else ():
            assert name == "cephfs" or "sleep" not in (line.wait or ""), name
    assert "\n    sleep 0.1\n" in (ROOT / "scripts/shell/wait.sh").read_text()


@pytest.mark.parametrize(
    ("trial", "told"),
    [
        (cell("ext4", workload="server-lost"), "file system ext4 has none: choose a file system with the key hosts"),
        (
            cell("nfs-ext4", variant="v3-sync", workload="server-lost"),
            "kills a server in phase server-killed, but file system nfs-ext4 has no key outage",
        ),
        (changed(NFS, workload="server-lost+clients2"), "server-lost"),
    ],
)
def test_what_cannot_lose_a_server_is_refused(trial, told):
    with pytest.raises(UserError, match=told):
        rendered(trial, CATALOG)


def test_a_line_for_a_host_that_is_not_there_is_one_sentence():
    data = CATALOG.get(Filesystem, "nfs-xfs").as_json()
    with pytest.raises(UserError, match=r"has a line for the node s2 under outage\.back, which"):
        Catalog().add(Filesystem, "own", data | {"outage": {"back": [{"host": "s2", "run": "serve"}]}})


@pytest.mark.parametrize(("mend", "code"), [("true", 0), ("false", 1)])
def test_what_happens_is_stamped_and_a_failure_is_one(tmp_path, mend, code):
    parts = {"lost": [["echo", "it is", "gone"]], "back": [[mend]], "healed": []}
    first, last = hosts.outage("outage p", 0, 0, parts, 9)
    own = [[word.replace(hosts.OUTAGE, str(tmp_path / "log")) for word in step.arg] for step in (first, last)]
    subprocess.run(own[0], check=True, timeout=20)
    done = subprocess.run(own[1], capture_output=True, text=True, timeout=20)
    lines = done.stdout.splitlines()
    assert done.returncode == code and lines[-1] == f"exit {code}" and "it is gone" in lines
    names = [line.split()[0] for line in lines if line.split()[-1].replace(".", "").isdigit()][:-1]
    assert names[:4] == ["begin", "lost", "lost-done", "back"] and ("healed" in names) == (code == 0)


# ---- from records to sentences

SEEN = {"promised": 40, "failed": 0, "longest_ns": 10_100_000_000, "gap_ns": 10_300_000_000, "errors": {}}
CHECK = {"written": 40, "promised": 40, "kept": 40, "broken": 0, "short": 0, "wrong": 0, "missing": 0, "extra": 1}
LOG = "begin 3.00\nlost 8.00\nlost-done 8.01\nback 18.00\nsome line 7.0\nback-done 18.10\n"
LOG += "healing 18.10\n3\nhealed 20.50\nexit 0"


def lost(data: dict) -> None:
    """A record (or the plan) in which a server was killed; XFS saw errors and lost a file."""
    if "measurement" in data:
        phases, commands = data["measurement"]["phases"], data["measurement"]["commands"]
        bad = data["trial"]["filesystem"] == "xfs"
        errors = {"failed": 2, "errors": {"Input/output error": 1, "Stale file handle": 1}} if bad else {}
        check, log = CHECK, LOG
        if bad:
            check, log = CHECK | {"broken": 1, "kept": 39, "missing": 1}, LOG.replace("20.50", "18.10")  # of one copy
        phases[1]["output"] = json.dumps(SEEN | errors, separators=(",", ":"))
        for stage, output in (("outage", ""), ("outage", log), ("check", json.dumps(check, separators=(",", ":")))):
            commands.append(dict(commands[0], stage=f"{stage} {phases[1]['name']}", output=output))
    else:
        data["workloads"]["metadata"]["phases"][1]["outage"] = {"what": "server-killed", "after_s": 5, "for_s": 10}


def test_what_the_client_saw_is_in_the_tables_and_sentences(tmp_path):
    study = made(tmp_path, lost)
    rows = study.phases.dropna(subset="outage_what").set_index("label")
    assert len(rows) == 2 and set(rows["outage_what"]) == {"server-killed"} and set(rows["outage_ns"]) == {10 * 10**9}
    assert rows["outage_stall_ns"].tolist() == [10_300_000_000] * 2
    assert rows["outage_heal_ns"].to_dict()["ext4"] == 2_500_000_000 and rows["outage_heal_ns"].isna()["xfs"]
    assert rows["outage_errors"].to_dict() == {"ext4": "", "xfs": "1 Input/output error, 1 Stale file handle"}
    text = shown(tmp_path, "durability")
    for words in (
        "whole afterwards on ext4: 40 files in 1 injected fault.",
        "no loss in 1 injected fault still allows one in up to 95.0 %",
        "Not durable: xfs lost or damaged 1 of 40 files (in 1 of 1 injected fault).",
        "When a server was killed for 10.0 s, the client stalled for 10.3 s (ext4) to 10.3 s (xfs).",
        "xfs, repetition 1, when a server was killed: 1 Input/output error, 1 Stale file handle.",
        "After a server was killed, all copies were back after 2.50 s (ext4).",
    ):
        assert words in text
    assert "nan" not in text and "still missing" not in text


def test_copies_that_do_not_come_back_are_told(tmp_path):
    def late(data):
        lost(data)
        for command in data.get("measurement", {}).get("commands", []):
            if command["stage"].startswith("outage"):
                command["output"] = command["output"].replace("\nhealed 20.50", "\nunhealed 80.50")

    study = made(tmp_path, late)
    (row,) = (row for row in study.phases.to_dict("records") if row["label"] == "ext4" and row["outage_what"])
    assert row["outage_healed"] is False and row["outage_heal_ns"] == 62_500_000_000
    text = shown(tmp_path, "durability")
    assert "After a server was killed, copies were still missing after 62.5 s (ext4)" in text
    assert "all copies were back after" not in text


# ---- in the guest


def whole(record: dict) -> dict[str, dict]:
    """Phase -> what its client said, of a trial that completed with everything kept."""
    assert record["status"] == "ok", record["reason"]
    for check in (c for c in record["measurement"]["commands"] if c["stage"].startswith("check ")):
        counted = json.loads(check["output"])
        assert counted["promised"] == counted["kept"] > 50
    return {phase["name"]: json.loads(phase["output"]) for phase in record["measurement"]["phases"]}


def test_nfs_loses_its_server(recorded):
    seen = whole(recorded(NFS))
    assert all(one["failed"] == 0 for one in seen.values())  # it is mounted hard: the client waits
    # Ten seconds away, then the ten seconds in which a server lets clients claim what they had.
    assert 20e9 < seen["server-killed"]["gap_ns"] < 35e9
    assert 10e9 < seen["link-cut"]["gap_ns"] < 15e9


@pytest.mark.soak
@pytest.mark.parametrize("trial", [NFS, GLUSTER, changed(GLUSTER, filesystem="moosefs", variant="goal-3")])
def test_an_outage_twice_has_the_same_bytes(engine, root, tmp_path, trial):
    name = CATALOG.get(Filesystem, trial.filesystem).guest
    guest_builder.build(files.cache_folder(), root / f"data/guest/{name}.json", engine, print, name=name)
    first, second = (run_trial(trial, CATALOG, tmp_path / f"{number}.json") for number in (1, 2))
    seen = whole(first)
    assert first["digests"]["measurement"] == second["digests"]["measurement"]
    if trial is GLUSTER:
        assert seen["server-killed"]["gap_ns"] < 2e9  # two of three copies are enough


@pytest.mark.parametrize(("loads", "ranked"), [(["server-lost"], False), (["server-lost", "metadata"], True)])
def test_phases_whose_length_is_given_are_not_ranked(loads, ranked):
    study = {"title": "t", "question": "q", "scale": "smoke", "rounds": 1, "seed": 7, "labs": ["exact"]}
    study |= {"stacks": ["single"], "profiles": ["ssd"], "filesystems": ["nfs-xfs+v3-sync", "nfs-xfs+v4.2-sync"]}
    catalog = Catalog()
    catalog.add(Study, "own", study | {"workloads": loads})
    plan = make_plan("own", catalog)
    names = {topic.name for topic in contents.topics(plan)}
    assert names & {"durability", "operations"} == ({"durability", "operations"} if ranked else {"durability"})
