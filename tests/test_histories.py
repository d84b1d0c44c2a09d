"""Histories: what clients of a shared folder do and see, from the engine's program to the tables, and lost nodes."""

import itertools
import json
import os
import re
import subprocess

import pytest
from conftest import BIN
from helpers import CATALOG, cell, changed, rendered
from reprofs.data import outputs
from reprofs.errors import UserError
from reprofs.guest import hosts
from reprofs.guest.steps import Exec, Phase
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.workload import Workload, resolve
from reprofs.report.sentences import coherence as words
from reprofs.stats.coherence import MODELS, events, judge, schedules
from reprofs.trial.job import render
from reprofs.trial.planning import SEED
from reprofs.trial.resolve import resolve as resolve_trial
from run import made, shown

pd = pytest.importorskip("pandas")
NFS = cell("nfs-xfs", variant="v4.2-sync@lan-1g", workload="history+clients3")
GLUSTER = cell("gluster", variant="replica-3", stack="servers", workload="history+clients3")


POWER = ("kill -9", "netns pids s3 | grep", " sh cut ", "umount ", " sh restore ", "mount -t xfs ", "glusterd")


def lost(trial: dict) -> list[str]:
    """The lines of the script that runs beside the phase."""
    (found,) = (
        step.arg[-1]
        for step in rendered(trial, CATALOG).steps
        if isinstance(step, Exec) and step.stage == "outage history" and step.arg[-1].startswith("stamp")
    )
    return found.splitlines()


# ---- the program


def run(folder, *words: str, **environment: str) -> list[str]:
    """Runs `engine history` in a folder. Returns the lines that it prints."""
    (folder / "shared").mkdir(exist_ok=True)
    command = [BIN / "engine", "history", *words, folder / "logs"]
    done = subprocess.run(
        command,
        cwd=folder / "shared",
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_one_client_sees_what_it_does(tmp_path):
    lines = run(tmp_path, "--actions", "100", "--seed", "7")
    assert lines[0] == "client 0" and lines[-1] == "end" and not list((tmp_path / "logs").iterdir())
    calls = outputs._calls("\n".join(lines))
    assert {row["call"] for row in calls} == {"create", "open", "read", "write", "fsync", "close", "rename", "unlink"}
    assert {row["name"] for row in calls} == set("abcde") and {row["result"] for row in calls} == {
        "ok",
        "ENOENT",
        "EEXIST",
    }
    assert all(row["wall_ns"] > 0 for row in calls)
    assert all(a["start_ns"] + a["wall_ns"] <= b["start_ns"] for a, b in itertools.pairwise(calls))
    final = outputs._calls("\n".join(run(tmp_path, "--final")))
    assert [row["name"] for row in final if row["call"] == "open"] == list("abcde")
    rows = pd.DataFrame(calls + [row | {"client": outputs.FINAL} for row in final])
    assert all(judge(events(rows), model).holds for model in MODELS)
    at = rows.index[(rows["call"] == "read") & (rows["records"] != "")][-1]
    rows.loc[at, "records"] = ""
    assert judge(events(rows), "posix").holds is False


def test_the_same_seed_does_the_same(tmp_path):
    def done(folder, seed: str) -> list[list[str]]:
        folder.mkdir()
        return [line.split()[2:] for line in run(folder, "--actions", "60", "--seed", seed)]

    assert done(tmp_path / "a", "3") == done(tmp_path / "b", "3") != done(tmp_path / "c", "4")


def test_the_first_client_prints_the_logs_of_all(tmp_path):
    run(tmp_path, "--actions", "30", "--seed", "2", REPROFS_CLIENT="1")
    lines = run(tmp_path, "--actions", "30", REPROFS_CLIENT="0")
    assert [line for line in lines if line[0] in "ce"] == ["client 0", "end", "client 1", "end"]
    records = {row["records"] for row in outputs._calls("\n".join(lines)) if row["call"] == "write"}
    assert records and all(re.fullmatch("[12]0[0-9a-f]{2}", record) for record in records)  # the client is part of it


def test_a_call_that_does_not_return_is_there():
    text = "client 2\n50 007 open a - 0 -\n60 ... write a 3001 ? -\n"
    opened, written = outputs._calls(text)
    assert opened["wall_ns"] == 7 and opened["client"] == 2
    assert (written["wall_ns"], written["result"], written["records"], written["other"]) == (None, None, "3001", "")
    (_, event) = events(pd.DataFrame([opened, written]))
    assert event.end == float("inf") and event.result == "" and event.records == (0x3001,)


@pytest.mark.parametrize("text", ["50 7 open a - 0 -", "client 0\nopen a", "client x", "nothing of it"])
def test_other_output_is_refused(text):
    with pytest.raises(ValueError):
        outputs._calls(text)


# ---- the job


def test_clients_share_the_folder_of_the_first_through_their_own_mounts():
    binds = [step.arg for step in rendered(NFS, CATALOG).steps if isinstance(step, Exec) and "--bind" in step.arg[:2]]
    assert binds[:2] == [
        ["mount", "--bind", f"/run/reprofs/c{n}/trial/c0", f"/run/reprofs/mnt/trial/c{n - 1}"] for n in (2, 3)
    ]
    own = cell("ext4", workload="history+clients3")  # one mount for all
    binds = [step.arg for step in rendered(own, CATALOG).steps if isinstance(step, Exec) and "--bind" in step.arg[:2]]
    assert binds[0] == ["mount", "--bind", "/run/reprofs/mnt/trial/c0", "/run/reprofs/mnt/trial/c1"]
    (phase,) = (step for step in rendered(NFS, CATALOG).steps if isinstance(step, Phase))
    assert phase.tail == 65536 and phase.clients == 3


def test_what_is_lost_follows_from_the_seed():
    pair = lost(changed(GLUSTER, workload="history+clients3+pair"))
    assert pair[2:5] == ["sleep 5", "export seed=11", hosts.later(15)]
    cut, mend = (next(line for line in pair if f" sh {what} " in line) for what in ("cut", "mend"))
    assert cut.split(" sh cut ")[1] == mend.split(" sh mend ")[1]
    stop = lost(changed(GLUSTER, workload="history+clients3+stop"))
    assert all(any(line.endswith(f"sh {signal} s1 s2 s3") for line in stop) for signal in ("STOP", "CONT"))
    assert "ip link set vs1 down" in lost(changed(NFS, workload="history+clients3+cable"))


def test_a_server_loses_its_power_when_nothing_of_it_runs_any_more():
    """What it would still acknowledge, or write, after its disk has lost its cache."""
    power = lost(changed(GLUSTER, workload="history+clients3+power", profile="ssd-nvme"))
    at = [next(k for k, line in enumerate(power) if word in line) for word in POWER]
    assert at == sorted(at), "killed, gone, cut, unmounted; restored, mounted, started"
    assert "/sys/block/modeldisk2/supply" in power[at[2]] and "/sys/block/modeldisk2/supply" in power[at[4]]
    nfs = lost(changed(NFS, workload="history+clients3+power", profile="ssd-nvme", stack="servers"))
    at = [next(k for k, line in enumerate(nfs) if word in line) for word in ("rpc.nfsd 0", " sh cut ", "umount ")]
    assert at == sorted(at) and "/sys/block/modeldisk0/supply" in nfs[at[1]], "its only server has the first disk"


@pytest.mark.parametrize("what", ["", "+pair", "+split", "+cable", "+stop", "+kill"])
def test_the_plan_knows_the_job_of_each_schedule(what):
    """The plan writes a job once, with a mark for the seed: with a number in its place it is the job of the trial."""
    trial = changed(GLUSTER, workload=f"history+clients3{what}")
    setup = resolve_trial(trial, CATALOG)
    assert render(setup, SEED).text().replace(SEED, "11") == render(setup, 11).text() == rendered(trial, CATALOG).text()


def test_every_pair_and_every_split_comes_once():
    servers, clients = ["s1", "s2", "s3"], ["c1", "c2", "c3"]
    pairs = hosts.pairs(servers, clients)
    assert len(pairs) == len({tuple(map(tuple, both)) for both in pairs}) == 12
    assert all("s" in one[0] + other[0] for (one, other) in pairs)
    assert hosts.pairs(["s1"], clients) == [(["s1"], [client]) for client in clients]
    splits = hosts.splits(servers, clients)
    assert len({tuple(few) for few, _ in splits}) == 18
    for few, many in splits:
        assert sorted(few + many) == sorted(servers + clients)
        assert sum(name in few for name in servers) == 1 and {name[0] for name in many} == {"s", "c"}
    assert {name[0] for few, _ in splits for name in few} == {"s", "c"}
    assert all(few[0][0] == "c" and "s1" in many for few, many in hosts.splits(["s1"], clients))


def test_the_time_of_the_loss_is_spread_evenly():
    line = hosts.later(15).replace("sleep", "echo")
    script = f"for seed in $(seq 20261129 20261140) 1000000000000; do {line}; done"
    told = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True).stdout.split()
    times = sorted(map(float, told[:12]))
    assert 0 <= times[0] < 1.5 and 13.5 < times[-1] < 15 and max(b - a for a, b in itertools.pairwise(times)) < 2.5
    assert 0 <= float(told[12]) < 15


@pytest.mark.parametrize(("what", "number"), [("cut", 7), ("mend", 8)])
def test_two_sides_become_deaf_and_hear_again(tmp_path, what, number):
    """Each node of one side to each of the other, both ways; ip is a stand-in that says how it was called."""
    (tmp_path / "ip").write_text('#!/bin/sh\nprintf "%s\\n" "$*"\n')
    (tmp_path / "ip").chmod(0o755)
    sides = [(["s1"], ["s2"]), (["s1", "c1"], ["s2"])]
    words = hosts.apart(what, sides)
    path = f"{tmp_path}:{os.environ['PATH']}"
    told = subprocess.run(
        words, env={"PATH": path, "seed": f"{number}"}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    ways = [("s1", "10.88.0.2"), ("s2", "10.88.0.1")]
    if number == 7:
        ways += [("c1", "10.88.0.2"), ("s2", "10.88.0.101")]
        assert told[0] == "nodes s1=10.88.0.1,c1=10.88.0.101:s2=10.88.0.2"
    how = (
        "neigh replace {} lladdr 02:00:00:00:ff:ff dev eth0 nud permanent" if what == "cut" else "neigh del {} dev eth0"
    )
    assert told[1:] == [f"-n {name} {how.format(there)}" for name, there in ways]


def test_modifiers_with_an_outage_change_this_workload_alone():
    assert resolve("history+clients3+split", CATALOG).phases[0].outage.what == "split"
    assert resolve("history+clients3", CATALOG).phases[0].outage is None
    assert resolve("server-lost", CATALOG).phases[0].outage.what == "server-killed"
    data = CATALOG.get(Workload, "history").as_json()
    with pytest.raises(UserError, match="on_servers and outage"):
        Catalog().add(Workload, "own", data | {"on_servers": True})


def test_a_model_is_declared_with_its_source():
    assert CATALOG.get(Filesystem, "nfs-xfs").coherence.model == "close-to-open"
    assert CATALOG.get(Filesystem, "cephfs").coherence.model == "posix"
    for name in CATALOG.paths(Filesystem):
        found = CATALOG.get(Filesystem, name)
        assert found.coherence or not found.hosts or found.raw, name
    data = CATALOG.get(Filesystem, "cephfs").as_json()
    with pytest.raises(UserError, match=r"coherence.*(posix|model)"):
        Catalog().add(Filesystem, "own", data | {"coherence": {"model": "eventual", "source": "none"}})


# ---- in the guest


def judged(record: dict) -> dict[str, bool]:
    """Model -> whether the calls of a record fit it."""
    assert record["status"] == "ok", record["reason"]
    planned = {("history", "warm"): resolve(record["trial"]["workload"], CATALOG).phases[0]}
    record = outputs.parsed(json.loads(json.dumps(record)), planned)
    assert record["status"] == "ok", record["reason"]
    (phase,) = record["measurement"]["phases"]
    rows = pd.DataFrame(outputs.calls(record, phase))
    assert set(rows["client"]) == {0, 1, 2, 1000, 1001, 1002} and len(rows) > 100
    return {model: judge(events(rows), model).holds for model in MODELS}


def test_on_one_host_all_calls_have_an_order(recorded):
    assert judged(recorded(cell("ext4", workload="history+clients3"))) == dict.fromkeys(MODELS, True)


def test_the_weaker_model_of_nfs_is_seen(recorded):
    """The positive control: NFS keeps what it declares, and is not taken for a file system that keeps more."""
    assert judged(recorded(NFS)) == {"posix": False, "close-to-open": True, "none": True}


@pytest.mark.parametrize(("variant", "keeps"), [("v4.2-sync@lan-1g", True), ("v4.2-async@lan-1g", False)])
def test_a_server_without_power_keeps_what_was_on_its_disk(recorded, variant, keeps):
    """The positive control: who answers before the data are on the disk loses what clients have flushed."""
    keys = {"stack": "servers", "profile": "ssd-nvme", "workload": "history+clients3+power"}
    trial = cell("nfs-xfs", variant=variant, **keys)
    assert judged(recorded(trial))["close-to-open"] is keeps


@pytest.mark.soak
@pytest.mark.parametrize(
    "trial", [changed(NFS, workload="history+clients3+pair"), changed(GLUSTER, workload="history+clients3+split")]
)
def test_a_schedule_twice_has_the_same_bytes(engine, root, tmp_path, trial):
    from reprofs import files
    from reprofs.guest import image
    from reprofs.trial.run import run_trial

    name = CATALOG.get(Filesystem, trial.filesystem).guest
    image.build(files.cache_folder(), root / f"data/guest/{name}.json", engine, print, name=name)
    first, second = (run_trial(trial, CATALOG, tmp_path / f"{number}.json") for number in (1, 2))
    assert judged(first)["none"] and first["digests"]["measurement"] == second["digests"]["measurement"]


# ---- from records to sentences

RIGHT = """client 0
1000000 010 create a - 0 -
1000020 010 write a - 0 1000
1000040 010 fsync a - 0 -
1000060 010 close a - 0 -
end
client 1
2000000 010 open a - 0 -
2000020 010 read a - 0 1000
2000040 010 close a - 0 -
3000000 010 rename a b 5 -
end"""
STALE = RIGHT.replace("read a - 0 1000", "read a - 0 =")
LOG = "begin 3.00\nlost 8.25\nnodes s1=10.88.0.1:c2=10.88.0.102\nlost-done 8.26\nback 78.25\nback-done 78.30\n"
LOG += "healing 78.30\nhealed 78.40\nexit 0"


def histories(data: dict) -> None:
    """A record (or the plan) in which two clients were heard; on XFS one read nothing of what was flushed before."""
    if "measurement" in data:
        phase, commands = data["measurement"]["phases"][1], data["measurement"]["commands"]
        phase["output"] = STALE if data["trial"]["filesystem"] == "xfs" else RIGHT
        final = "client 0\n9000000 010 open b - 2 -\nend"
        for stage, output in (("outage", ""), ("outage", LOG), ("check", final)):
            commands.append(dict(commands[0], stage=f"{stage} {phase['name']}", output=output))
    else:
        outage = {"what": "pair-cut", "after_s": 5, "within_s": 15, "for_s": 70}
        data["workloads"]["metadata"]["phases"][1] |= {"outage": outage, "parse": "history"}


def test_what_clients_saw_is_in_the_tables_and_sentences(tmp_path):
    study = made(tmp_path, histories)
    calls = study.calls[study.calls["label"] == "xfs"]
    assert calls["call"].tolist() == ["create", "write", "fsync", "close", "open", "read", "close", "rename", "open"]
    assert calls["client"].tolist() == [0] * 4 + [1] * 4 + [1000] and calls["result"].iloc[-2] == "EIO"
    assert set(study.trials["status"]) == {"ok"}
    found = schedules(study).set_index("label")
    assert found["holds"].to_dict() == {"ext4": True, "xfs": False} == found["posix"].to_dict()
    assert set(found["after_s"]) == {5.25} and set(found["errors"]) == {1} and set(found["calls"]) == {9}
    text = shown(tmp_path, "coherence")
    for sentence in (
        "What clients saw contradicts the declared model on xfs in 1 of 1 schedule.",
        "In no schedule what clients saw contradicts the declared model on ext4 (1).",
        "none in 1 schedule still allows one in up to 95.0 % of such schedules",
        "no order of the calls explains read(a) = nothing by c2 at 0.002 s.",
        "s1 from c2",
        "uv run reprofs trial --lab exact",
    ):
        assert sentence in text, sentence
    assert "nan" not in text and "Undecided" not in text


def test_a_study_without_a_history_says_so(tmp_path):
    def failed(data: dict) -> None:
        histories(data)
        if "measurement" in data:
            data["measurement"]["phases"][1]["output"] = "client 0\nit broke"

    study = made(tmp_path, failed)
    assert schedules(study).empty and set(study.trials["status"]) == {"failed"}
    assert "No calls were recorded." in shown(tmp_path, "coherence")


def test_one_record_is_judged_by_a_command(tmp_path):
    made(tmp_path, histories)
    for path in (tmp_path / "raw").glob("*.json"):
        record = json.loads(path.read_text())
        record["trial"]["workload"] = "history"
        record["measurement"]["phases"] = [
            record["measurement"]["phases"][1] | {"name": "history", "cache": "warm", "exit": 0}
        ]
        path.write_text(json.dumps(record))
        done = subprocess.run([BIN / "reprofs", "history", path], capture_output=True, text=True)
        bad = record["trial"]["filesystem"] == "xfs"
        assert done.returncode == bad and f"posix (declared): {'contradicted' if bad else 'fits'}" in done.stdout
        assert "rename(a, b) = EIO by c2" in done.stdout
    (tmp_path / "other.json").write_text('{"trial": 3}')
    done = subprocess.run([BIN / "reprofs", "history", tmp_path / "other.json"], capture_output=True, text=True)
    assert done.returncode == 2 and "is no record of a trial: give a file" in done.stderr and not done.stdout


def sentences(**columns) -> pd.DataFrame:
    return pd.DataFrame({"undecided": [0, 0], "strict": [0, 0], "model": ["posix"] * 2} | columns, index=["one", "two"])


def test_sentences_say_who_keeps_it_and_who_does_not():
    found = sentences(run=[60, 48], broken=[2, 0], strict=[2, 48], model=["posix", "close-to-open"])
    assert words.broken(found) == "What clients saw contradicts the declared model on one in 2 of 60 schedules."
    assert words.kept(found) == "In no schedule what clients saw contradicts the declared model on two (48)."
    told = "Judged as POSIX, which it does not declare, two contradicts it in 48 of 48 schedules."
    assert words.stricter(found) == told and words.undecided(found) == ""
    assert words.weaker(found.assign(weak=[2, 0])).startswith("All 2 fit close-to-open, the model of NFS: names")
    assert words.weaker(found.assign(weak=[1, 0])) == "Of these 2, 1 fits close-to-open, the model of NFS."
    assert words.weaker(found.assign(broken=0, weak=0)) == ""
    found = sentences(run=[1, 2], broken=[0, 0], undecided=[1, 0])
    assert words.undecided(found) == "Undecided, with too many orders to try: 1 schedule on one."
    assert words.kept(found).endswith("on two (2).") and words.broken(found) == words.stricter(found) == ""
    row = {name: name for name in words.OPTIONS} | {"round": 3, "variant": "a+b@lan-1g"}
    assert "--variant a+b@lan-1g --stack stack" in words.replay(row) and "--round 3 --seed seed" in words.replay(row)
