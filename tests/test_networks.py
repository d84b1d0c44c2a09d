"""Networks and hosts: descriptors, closed forms by hand, the engine's program, and what it measures in the guest."""

import contextlib
import json
import os
import re
import subprocess
from dataclasses import replace

import pytest
import test_contract
from helpers import CATALOG, cell, changed, job_of, names, outputs, rendered, shell
from reprofs import files
from reprofs.errors import UserError
from reprofs.guest import hosts
from reprofs.guest import image as guest_builder
from reprofs.guest.steps import Exec, Pause, Phase, Pin
from reprofs.plan import PROCESSOR
from reprofs.plan.catalog import Catalog
from reprofs.plan.filesystem import Filesystem
from reprofs.plan.network import EXCHANGES, UNTIMED, Exchange, Network
from reprofs.plan.plan import Plan
from reprofs.plan.study import Study
from reprofs.plan.workload import Workload
from reprofs.stats.networks import BAND
from reprofs.trial.planning import make_plan
from reprofs.trial.run import run_trial

NAMES = sorted(CATALOG.paths(Network))
OWN = {"title": "t", "rate_mbit": 800, "delay_us": 100, "queue_frames": 50, "mtu": 1500, "sources": ["s"]}
STUDY = {"title": "t", "question": "q", "scale": "smoke", "rounds": 1, "seed": 7, "labs": ["exact"]}
STUDY |= {"stacks": ["single"], "profiles": ["ssd"], "filesystems": ["nfs-ext4", "ext4"], "workloads": ["metadata"]}


@pytest.fixture(scope="module")
def net_guest(engine, root) -> dict:
    """The guest with the tools of networks."""
    return guest_builder.build(files.cache_folder(), root / "data/guest/net.json", engine, print, name="net")


def network(**changes) -> Network:
    return Network(**OWN | changes)


def planned(**changes) -> Plan:
    catalog = Catalog()
    catalog.add(Study, "own", STUDY | changes)
    return make_plan("own", catalog)


# ---- descriptors


def test_a_network_is_an_axis_of_the_file_systems_with_hosts():
    plan = planned(networks=["lan-1g", "wan-20ms"])
    jobs = {trial.id: trial.job_sha256 for trial in plan.trials}
    middle = "exact@v2-0.5ns-single-ssd"
    assert sorted(jobs) == [
        f"r1-{middle}-ext4+default-metadata-smoke",
        f"r1-{middle}-nfs-ext4+v3-sync@lan-1g-metadata-smoke",
        f"r1-{middle}-nfs-ext4+v3-sync@wan-20ms-metadata-smoke",
    ]
    assert len(set(jobs.values())) == 3  # so that an edit of a network repeats its trials
    assert plan.networks.keys() == {"lan-1g", "wan-20ms"}
    assert planned().trials[0].full_variant in ("default", "v3-sync@lan-1g")
    assert not planned(filesystems=["ext4"], networks=["lan-1g"]).networks


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"networks": ["lan-1"]}, "network 'lan-1' does not exist: did you mean lan-1g?"),
        (
            {"filesystems": ["wire"]},
            "wire is the bare network without files",
        ),
        (
            {"filesystems": ["raw"], "workloads": ["network"]},
            "measures the network itself: choose the file system wire",
        ),
        ({"filesystems": ["wire"], "workloads": ["device"]}, "measures the device itself: choose the file system raw"),
        ({"workloads": ["power-cut"], "profiles": ["hdd-7200"]}, "nfs-ext4 has nodes, whose power cannot be cut yet"),
        ({"labs": ["host"]}, "nfs-ext4 runs in exact and vm only, not in the lab host"),
    ],
)
def test_parts_that_do_not_fit_are_one_sentence(changes, told):
    with pytest.raises(UserError, match=re.escape(told)):
        planned(**changes)


def test_a_network_for_a_file_system_without_hosts_is_refused(reprofs, says, tmp_path):
    asked = names(network="lan-1g", output=tmp_path / "r.json")
    made = reprofs("trial", *(word for key, value in asked.items() if value for word in (f"--{key}", value)))
    says(made, "ext4 has no nodes and no network: leave lan-1g out")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"host": "s2", "run": "true"}, "has a line for the node s2 under make, which is not in the key hosts"),
        ({"host": "x1", "run": "true"}, "servers, clients, or one host: c1, s1, s2"),
        ({"host": "s1"}, "must have one of the keys run and wait"),
        ({"host": "s1", "wait": "true"}, "must have the keys wait and expect together"),
        ({"host": "s1", "start": "true"}, "unknown key 'start' at make.0"),
    ],
)
def test_wrong_lines_for_hosts_are_one_sentence(line, told):
    data = Catalog().get(Filesystem, "nfs-ext4").as_json()
    with pytest.raises(UserError, match=re.escape(told)):
        Catalog().add(Filesystem, "own", data | {"make": [line]})


def test_lines_run_on_their_hosts():
    catalog = Catalog()
    data = catalog.get(Filesystem, "nfs-ext4").as_json()
    lines = [
        "echo {s3} {c1}",
        {"host": "servers", "run": "serve {number} {disk} {host}"},
        {"host": "c1", "wait": "ask", "expect": "yes", "limit_s": 5},
    ]
    hosted = {"servers": 3, "private": ["/var/lib/x"], "logs": ["/var/log/x*.log"]}
    mount = [*data["mount"], {"host": "s1", "run": "/usr/sbin/sshd -f none"}]
    catalog.add(Filesystem, "own", data | {"hosts": hosted, "make": lines, "mount": mount})
    trial = changed(cell("nfs-ext4", stack="servers"), filesystem="own")
    steps = rendered(trial, catalog).steps
    made = [step.arg for step in steps if getattr(step, "stage", "") == "make"]
    assert made[0] == ["echo", "10.88.0.3", "10.88.0.101"]
    inside = [f"--{kind}=/run/hosts/s2.{end}" for kind, end in (("net", "net"), ("uts", "uts"), ("mount", "mnt"))]
    assert made[2] == ["nsenter", *inside, "--", "serve", "2", "/dev/nullb1", "s2"]
    assert len(made) == 5 and made[4][4:6] == ["yes", "5"] and made[4][6:] == hosts.inside("c1", ["ask"])
    assert [step.name for step in steps if isinstance(step, hosts.Host)] == ["s1", "s2", "s3", "c1"]
    assert len([step for step in steps if getattr(step, "stage", "") == "logs"]) == 4  # of the servers; the syslog
    tools = [step.tool for step in steps if isinstance(step, Pin)]
    assert "sshd" in tools and not any("/" in tool for tool in tools)  # they are looked up along PATH
    with pytest.raises(UserError, match="has 3 servers, but stack single has 1 disks: choose the stack servers@3"):
        rendered(changed(trial, stack="single"), catalog)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rate_mbit": 0.01}, "must have a rate_mbit of at least 0.1, or 0 for unlimited"),
        ({"rate_mbit": 1e6, "delay_us": 1e6}, "would have more than 1,000,000 frames in flight"),
        ({"mtu": 100}, "mtu is 100, but must be at least 576"),
        ({"sources": []}, "sources has 0 entries, but must have at least 1"),
    ],
)
def test_figures_that_no_network_has_are_one_sentence(changes, told):
    with pytest.raises(UserError, match=re.escape(told)):
        Catalog().add(Network, "own", OWN | changes)


def test_clients_of_a_workload_are_on_hosts_of_their_own():
    """The second works in its folder through its own mount, also after caches were made cold."""
    steps = rendered(cell("nfs-ext4", workload="metadata@60+clients2")).steps
    assert [step.name for step in steps if isinstance(step, hosts.Host)] == ["s1", "c1", "c2"]
    words = [step.arg for step in steps if isinstance(step, Exec)]
    bind = ["mount", "--bind", "/run/reprofs/c2/trial/c1", "/run/reprofs/mnt/trial/c1"]
    mount = hosts.inside("c2", ["mount", "-t", "nfs", "-o", "vers=3,nolock", "s1:/run/reprofs/base", "/run/reprofs/c2"])
    assert words.count(bind) == words.count(mount) > 2
    # Not at the first mount, when there is no folder yet; afterwards at each.
    assert words.index(bind) > words.index(mount) and words[words.index(bind) + 1][0] != "mount"
    phase = next(step for step in steps if isinstance(step, Phase) and step.name == "create")
    assert phase.sync == ["/run/reprofs/mnt", "/run/reprofs/c2", "/run/reprofs/base"]


def test_many_clients_are_spread_over_six_hosts():
    steps = rendered(cell("nfs-ext4", workload="metadata@60+clients30")).steps
    assert [step.name for step in steps if isinstance(step, hosts.Host)][1:] == [f"c{n}" for n in range(1, 7)]
    binds = {step.arg[-1]: step.arg[-2] for step in steps if isinstance(step, Exec) and "--bind" in step.arg}
    assert len(binds) == 25  # five are on the first host
    assert binds["/run/reprofs/mnt/trial/c8"] == "/run/reprofs/c3/trial/c8"
    assert "/run/reprofs/mnt/trial/c6" not in binds


def test_clients_on_the_servers_have_their_network_and_the_mounts_of_all():
    """As the key on_servers of a workload asks; a client's mount is seen by the engine, which runs outside."""
    on = rendered(cell("gluster", workload="compile-round1@20+clients4", stack="servers", variant="replica-3")).steps
    assert [step.name for step in on if isinstance(step, hosts.Host)] == ["s1", "s2", "s3"]
    (bridge,) = (step for step in on if isinstance(step, hosts.Bridge))
    assert bridge.names == {"s1": "s1", "s2": "s2", "s3": "s3", "c1": "s1", "c2": "s2", "c3": "s3"}
    assert "\targ=10.88.0.2\targ=c2\t" in bridge.line()
    (mount, *_) = (step.arg for step in on if isinstance(step, Exec) and "/run/reprofs/c2" in step.arg)
    assert mount[:4] == ["nsenter", "--net=/run/hosts/s2.net", "--uts=/run/hosts/s2.uts", "--"]
    # A file system with one server, as the study's NFS: its clients have hosts of their own.
    one = rendered(cell("nfs-ext4", workload="compile-round1@20+clients2")).steps
    assert [step.name for step in one if isinstance(step, hosts.Host)] == ["s1", "c1", "c2"]


def test_each_server_has_one_of_several_processors():
    """What it starts inherits that; the engine, and so its clients, have the others. One processor is shared."""
    several = cell("gluster", lab="exact@v2-0.5ns-4c", workload="metadata@20", stack="servers", variant="replica-3")
    found = [step for step in rendered(several).steps if isinstance(step, Exec)]
    stays = [step for step in found if step.stage not in ("logs", "atime")]  # these start nothing that goes on
    of_s2 = [step.arg for step in stays if "--uts=/run/hosts/s2.uts" in step.arg]
    before = [words[: words.index("nsenter")][-3:] for words in of_s2]
    assert len(before) > 2 and all(words == ["taskset", "-c", "1"] for words in before)
    of_c1 = [step.arg for step in found if "--uts=/run/hosts/c1.uts" in step.arg]
    assert of_c1 and not any("taskset" in words[: words.index("nsenter")] for words in of_c1)
    (engine,) = (step for step in found if "Cpus_allowed_list" in str(step.arg))
    assert (engine.arg[-1], engine.match) == ("3", ["^Cpus_allowed_list:\\s+3$"])
    tools = [step.tool for step in rendered(several).steps if isinstance(step, Pin)]
    assert "taskset" in tools and not any("/" in tool or tool.isdigit() for tool in tools)
    shared = [changed(several, processor=name) for name in (PROCESSOR, "v2-0.5ns-2c")]
    shared.append(changed(several, workload="compile-round1@20+clients4"))  # on the servers
    for trial in shared:
        assert not any("taskset" in step.arg for step in rendered(trial).steps if isinstance(step, Exec))


def test_what_a_saved_cluster_holds_is_the_beginning_of_the_job():
    job = rendered(cell("nfs-ext4"))
    (place,) = (number for number, step in enumerate(job.steps) if isinstance(step, Pause))
    setup, *rest = job.text().partition(f"{job.steps[place].line()}\n")
    assert job.setup() == setup + rest[0] and len(job.setup().splitlines()) == place + 1
    assert rendered(cell()).setup() == ""  # without hosts nothing is worth a state of its own


@pytest.mark.parametrize("name", ["cephfs", "gluster", "moosefs", "nfs-xfs"])
def test_what_comes_after_it_does_not_ask_for_another_saved_cluster(name):
    """Setting one up takes a fifth to a half of what a small trial takes."""
    first = cell(name, stack=CATALOG.get(Filesystem, name).simplest_stack(), workload="compile-round2@100")
    alike = [{"round": 2, "seed": 8}, {"workload": "compile-round2@200"}, {"workload": "server-lost"}]
    (setup,) = {rendered(changed(first, **change)).setup() for change in ({}, *alike)}
    other = [{"workload": "compile-round2@100+clients2"}, {"network": "wan-20ms"}, {"profile": "ram"}]
    assert setup and setup not in {rendered(changed(first, **change)).setup() for change in other}


def test_a_server_is_not_lost_with_clients_on_it():
    data = Catalog().get(Workload, "server-lost").as_json()
    with pytest.raises(UserError, match="has the keys on_servers and outage, so that clients would be lost"):
        Catalog().add(Workload, "own", data | {"on_servers": True})


# ---- closed forms


@pytest.mark.parametrize("name", NAMES)
def test_every_network_becomes_words_for_tc(name):
    words = CATALOG.get(Network, name).qdisc()
    assert words[:2] == ["netem", "limit"] if name != UNTIMED else words == []


def test_the_queue_has_room_for_what_is_under_way():
    # A frame of 1538 bytes takes 15.38 µs at 800 Mbit/s; 7 of them leave in 100 µs.
    assert network().qdisc() == ["netem", "limit", "57", "delay", "100us", "rate", "800000kbit", "24"]
    assert network(loss_percent=0.1, rate_mbit=0).qdisc() == ["netem", "limit", "50", "delay", "100us", "loss", "0.1%"]


def test_a_message_by_hand():
    # 100 bytes a µs; 62 + 38 bytes, sent by the host and by the switch, two delays: 2 µs + 200 µs.
    assert network().way(34, 28) == 202_000
    # Two full frames and one of 62 + 38: the switch has the last one when it has sent the two: 15.38 * 3 + 1 µs.
    assert network(delay_us=0).way(2 * 1472 + 34, 28) == pytest.approx(3 * 15_380 + 1000)
    assert network().expected(Exchange(34, 34, 28), 5000) == 2 * 202_000 + 5000


def test_a_stream_takes_the_longer_of_wire_and_window():
    stream = Exchange(14_480, 1, 52, window=4)  # ten frames
    assert network(delay_us=0).expected(stream) == pytest.approx(10 * 15_380)
    # Eleven frames and an answer of 53 + 38 bytes, four delays, for four messages.
    far = network(delay_us=1000)
    assert far.expected(stream) == pytest.approx((11 * 15_380 + 2 * 910 + 4e6) / 4)


# ---- the program


def ask(engine, *words, samples=None, code=0) -> subprocess.CompletedProcess:
    environment = {**os.environ, **({"REPROFS_SAMPLES": str(samples)} if samples else {})}
    done = subprocess.run(
        [engine, "network", *map(str, words)], capture_output=True, text=True, env=environment, timeout=60
    )
    assert done.returncode == code, done.stderr
    return done


# One worker: all listen on one port of this machine.
@pytest.mark.xdist_group("networks")
@pytest.mark.parametrize(
    ("words", "items", "size"), [(("round-trips", 20, 64), 20, 64), (("requests", 20, "1K"), 20, 1024)]
)
def test_messages_are_answered_one_by_one(engine, tmp_path, words, items, size):
    ask(engine, *words, samples=tmp_path / "s")
    (sample,) = map(json.loads, (tmp_path / "s").read_text().splitlines())
    assert (sample["name"], sample["items"], sample["bytes"]) == (words[0], items, items * size)
    assert sample["wall_ns"] > 0


@pytest.mark.xdist_group("networks")
def test_the_second_half_of_a_stream_is_timed(engine, tmp_path):
    ask(engine, "--window", 2, "stream", 9, "64K", samples=tmp_path / "s")
    (sample,) = map(json.loads, (tmp_path / "s").read_text().splitlines())
    assert (sample["items"], sample["bytes"]) == (5, 5 << 16)
    assert 0 < sample["wall_ns"] < 60e9


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("walk", 9, 9), "test cannot be walk; known are round-trips, requests, stream"),
        (("stream", 1, 9), "the count must be from 2 to 1G, not 1"),
        (("round-trips", 9, 1401), "the bytes of round-trips must be from 1 to 1400, not 1401"),
        (("--window", 0, "stream", 9, 9), "--window must be from 1 to 1M, not 0"),
        (("--port", 1, "stream", 9, 9), "unknown option --port"),
        (("stream", 9, 9, 9), "9 is one argument too many"),
        (("stream", 9), "usage: network"),
        (("--to",), "--to needs a value"),
        (("--address", "x", "stream", 9, 9), "x is no IPv4 address"),
    ],
)
def test_wrong_arguments_are_one_sentence(engine, words, told):
    said = ask(engine, *words, code=2).stderr
    assert told in said and said.count("\n") == 1


def test_a_missing_network_is_one_sentence(engine):
    assert "cannot make a socket in /nowhere" in ask(engine, "--to", "/nowhere", "stream", 9, 9, code=1).stderr


# ---- in the guest


def test_a_network_in_the_guest_does_what_its_file_says(net_guest, recorded):
    """All jobs of lan-1g; the time of the software, which the study takes from other networks, is below 20 µs."""
    record = recorded(cell("wire", variant="default@lan-1g", profile="ram", workload="network"))
    assert record["status"] == "ok", record["reason"]
    lan = CATALOG.get(Network, "lan-1g")
    samples = [sample for phase in record["measurement"]["phases"] for sample in phase["samples"]]
    assert [sample["name"] for sample in samples] == list(EXCHANGES)
    for sample in samples:
        time, expected = sample["wall_ns"] / sample["items"], lan.expected(EXCHANGES[sample["name"]])
        if sample["name"] == "stream":
            assert time == pytest.approx(expected, rel=BAND)
        else:
            assert 10_000 < time - expected < 20_000
    counted = next(c for c in record["measurement"]["commands"] if "its end:" in c["output"])
    sent = [int(number) for number in re.findall(r"Sent (\d+) bytes", counted["output"])]
    assert len(sent) == 4 and sent[1] == sent[2] > 256 << 16  # what the client sends, the switch sends to the server


def hosted(name):
    return bool(CATALOG.get(Filesystem, name).hosts)


@pytest.mark.soak
@pytest.mark.parametrize("name", [n for n in test_contract.NAMES if hosted(n)])
def test_file_system_with_hosts_in_the_guest(engine, root, outcome, name):
    guest = CATALOG.get(Filesystem, name).guest
    guest_builder.build(files.cache_folder(), root / f"data/guest/{guest}.json", engine, print, name=guest)
    for trial in test_contract.in_all_variants(name):  # hosts keep what they made, such as keys
        test_contract.run(outcome, [trial])


@pytest.mark.soak
@pytest.mark.parametrize("workload", ["metadata@60", "compile-round1@20+clients30"])
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *((n, next(iter(CATALOG.get(Filesystem, n).variants))) for n in test_contract.NAMES if hosted(n)),
        ("gluster", "replica-3-small-files"),  # caches of the client that the servers invalidate
        ("cephfs", "fuse"),
    ],
)
def test_same_bytes_with_and_without_a_saved_cluster(engine, root, tmp_path, monkeypatch, name, variant, workload):
    """Rounds share it: what servers draw at random is the same in all of them. The second runs on a busy machine."""
    filesystem = CATALOG.get(Filesystem, name)
    guest = filesystem.guest
    guest_builder.build(files.cache_folder(), root / f"data/guest/{guest}.json", engine, print, name=guest)
    stack = filesystem.simplest_stack()
    trial = cell(name, variant=variant, stack=stack, workload=workload)
    made = []
    for number, start in enumerate(("auto", "auto", "cold boot")):
        monkeypatch.setenv("REPROFS_START", start)
        with contextlib.ExitStack() as busy:
            for _ in range(2 * (os.cpu_count() or 1) if number == 1 else 0):
                busy.callback(subprocess.Popen(["nice", "sh", "-c", "while :; do :; done"]).kill)
            made.append(run_trial(trial, CATALOG, tmp_path / f"{number}.json"))
    assert [record["status"] for record in made] == ["ok"] * 3
    assert len({record["digests"]["measurement"] for record in made}) == 1
    starts = [record["environment"]["lab"]["start"] for record in made]
    assert starts == ["snapshot of what was set up"] * 2 + ["cold boot"]


@pytest.mark.soak
@pytest.mark.parametrize(("name", "variant"), [("nfs-ext4", "v4.2-sync@lan-1g"), ("sshfs", "default@lan-1g")])
def test_the_same_bytes_from_cold_boot_on_a_busy_machine(engine, root, recorded, tmp_path, monkeypatch, name, variant):
    """NFS in the kernel and a file system in user space; all others in the test above."""
    guest = CATALOG.get(Filesystem, name).guest
    guest_builder.build(files.cache_folder(), root / f"data/guest/{guest}.json", engine, print, name=guest)
    trial = cell(name, variant=variant, workload="metadata@30+clients2")
    first = recorded(trial)
    monkeypatch.setenv("REPROFS_START", "cold boot")
    with contextlib.ExitStack() as busy:
        for _ in range(os.cpu_count() or 1):
            busy.callback(subprocess.Popen(["nice", "sh", "-c", "while :; do :; done"]).kill)
        second = run_trial(trial, CATALOG, tmp_path / "second.json")
    assert [record["status"] for record in (first, second)] == ["ok", "ok"]
    assert second["environment"]["lab"]["start"] == "cold boot"
    assert first["environment"]["lab"]["start"] != "cold boot"
    assert first["digests"]["measurement"] == second["digests"]["measurement"]


@pytest.mark.wide
def test_every_client_reads_and_writes_over_its_own_cable(net_guest, recorded):
    """A kernel NFS server and two clients, through all phases, with cold caches and content that comes back."""
    record = recorded(cell("nfs-ext4", variant="v4.2-sync@lan-1g", workload="metadata@30+clients2"))
    assert record["status"] == "ok", record["reason"]
    measurement = record["measurement"]
    assert [(check["files"], check["mismatches"]) for check in measurement["verification"]] == [(60, 0)] * 2
    (cold,) = [phase["cold"] for phase in measurement["phases"] if phase["operation"] == "read" and phase["cold"]]
    assert cold["proved"]
    counted = next(c for c in measurement["commands"] if "its end:" in c["output"])
    sent = [int(number) for number in re.findall(r"Sent (\d+) bytes", counted["output"])]
    # Clients of one name would be one to the server, which then makes each wait for seconds.
    assert max(phase["wall_ns"] for phase in measurement["phases"]) < 0.5e9
    written = min(check["bytes"] for check in measurement["verification"]) / 2
    assert len(sent) == 6 and sent[2] > 0.5 * written and sent[4] > 0.5 * written
    assert any(c["stage"] == "logs" and "rpc.mountd" in c["output"] for c in measurement["commands"])


def test_the_vm_lab_makes_the_same_hosts():
    changes = {"variant": "v4.2-sync@wan-20ms", "workload": "metadata@60+clients3"}
    own = rendered(cell("nfs-xfs", **changes)).steps
    there = rendered(cell("nfs-xfs", lab="vm", profile="ram", **changes)).steps
    assert not any(line.startswith("pause") for line in (step.line() for step in there))  # it saves no state

    def of_hosts(found):
        return [step.arg for step in found if isinstance(step, Exec) and "/run/hosts/" in str(step.arg)]

    assert len(of_hosts(there)) > 10 and of_hosts(there) == of_hosts(own)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("nfs-xfs", "v4.2-async"),
        ("sshfs", "default"),
        ("ganesha", "v4.2"),
        ("gluster", "replica-3"),
        ("moosefs", "goal-3"),
        ("saunafs", "goal-3"),
        ("cephfs", "kernel"),
    ],
)
def test_hosts_in_the_vm_lab(engine, root, tmp_path, monkeypatch, name, variant):
    """Two clients on hosts of their own, on a real clock, from mkfs to the check of the file system."""
    monkeypatch.setenv("REPROFS_SETTLE", "0")
    guest = CATALOG.get(Filesystem, name).guest
    guest_builder.build(files.cache_folder(), root / f"data/guest/{guest}.json", engine, print, name=guest)
    stack = CATALOG.get(Filesystem, name).simplest_stack()
    hosts_of = {"variant": f"{variant}@lan-1g", "stack": stack, "workload": "metadata@30+clients2"}
    trial = cell(name, lab="vm", profile="ram", **hosts_of)
    record = run_trial(trial, CATALOG, tmp_path / "r.json")
    assert record["status"] == "ok", record["reason"]
    measurement = record["measurement"]
    assert [(check["files"], check["mismatches"]) for check in measurement["verification"]] == [(60, 0)] * 2
    assert all(len(phase["clients"]) == 2 for phase in measurement["phases"])
    assert record["environment"]["lab"]["name"] == "vm"


@pytest.mark.parametrize(
    ("command", "limit_s", "code", "told"),
    [
        ("echo ready", 0, 0, "ready\n"),
        ("echo still; false", 0, 1, "still\nit did not say '^ready$' within 0 s"),
        ("if rm mark 2> /dev/null; then echo not yet; else echo ready; fi", 50, 0, "ready\n"),
    ],
)
def test_waiting_ends_with_what_is_expected_or_with_a_sentence(tmp_path, command, limit_s, code, told):
    (tmp_path / "mark").touch()
    words = hosts.waiting(["sh", "-c", command], "^ready$", limit_s)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and done.stdout.startswith(told), done


SAME_CHUNKS = (
    "for s in s1 s2 s3; do (cd /run/reprofs/$s/chunks; find . -name '{}' | sort > /run/$s.chunks); done;"
    " cmp /run/s1.chunks /run/s2.chunks; cmp /run/s1.chunks /run/s3.chunks; test $(wc -l < /run/s3.chunks) -gt 200"
)
COPIES = {  # file system -> a command that fails unless all three servers have every file of the first client
    "gluster": "for s in s1 s2 s3; do diff -r /run/reprofs/mnt/trial/c0/tree /run/reprofs/$s/brick/trial/c0/tree; done",
    "moosefs": SAME_CHUNKS.format("*.mfs"),
    "saunafs": SAME_CHUNKS.format("chunk_*.met"),
    "nfs-xfs": "true",
}


@pytest.mark.wide
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "nfs-xfs" else pytest.mark.soak) for n in COPIES])
def test_what_one_client_writes_another_reads_and_every_server_has(engine, root, tmp_path, name):
    """200 files of the first client, after a cold mount, through the mount of the second and on the servers' disks."""
    catalog = Catalog()
    filesystem, metadata = catalog.get(Filesystem, name), catalog.get(Workload, "metadata").as_json()
    guest = filesystem.guest
    guest_builder.build(files.cache_folder(), root / f"data/guest/{guest}.json", engine, print, name=guest)
    script = "diff -r /run/reprofs/mnt/trial/c0/tree /run/reprofs/c2/trial/c0/tree; " + COPIES[name]
    script += "; find /run/reprofs/c2/trial/c0/tree -type f | wc -l"
    phases = [phase for phase in metadata["phases"] if phase["name"] in ("make-tree", "create")]
    phases.append({"name": "look", "title": "Look", "cache": "cold", "items": "one"} | {"run": f'sh -ec "{script}"'})
    catalog.add(Workload, "own", metadata | {"phases": phases, "tools": ["diff"]})
    variant = next(iter(filesystem.variants))
    stack = filesystem.simplest_stack()
    trial = cell(name, variant=variant, stack=stack, workload="own@200+clients2")
    record = run_trial(trial, catalog, tmp_path / "r.json")
    assert record["status"] == "ok", record["reason"]
    (look,) = (phase for phase in record["measurement"]["phases"] if phase["name"] == "look")
    assert look["output"].split()[-1] == "200"


STOP_CEPH = """
umount /run/reprofs/c2 /run/reprofs/mnt
pkill -x ceph-mds
pkill -x ceph-osd
while pgrep -x ceph-osd > /dev/null; do sleep 0.1; done
"""
ON_DISK = "dd if=/dev/nullb{0} bs=1M iflag=direct status=none | grep -zao 'file [0-9]* of c1;' | tr '\\0' '\\n'"


@pytest.mark.soak
def test_three_object_stores_have_what_one_client_wrote_and_another_reads(engine, root):
    """The content of every file is on each disk once the stores are down."""
    guest_builder.build(files.cache_folder(), root / "data/guest/ceph.json", engine, print, name="ceph")
    trial = cell("cephfs", stack="servers", workload="metadata@60+clients2")
    steps = rendered(trial).steps
    begin = steps[: next(number for number, step in enumerate(steps) if isinstance(step, Pause))]
    scripts = [
        'cd /run/reprofs/mnt; for n in $(seq 200); do echo "file $n of c1;" > f$n || exit; done; sync',
        "cat /run/reprofs/c2/f*",
        STOP_CEPH,
        *(ON_DISK.format(number) for number in (0, 1, 2)),
    ]
    looks = [replace(shell(script), tail=hosts.KEPT_BYTES) for script in scripts]
    outcome = test_contract.open_lab(trial).run(job_of(*begin, *looks), 1200)
    _, read, _, *found = [text.split("\n") for text in outputs(outcome, "test")]
    written = {f"file {number} of c1;" for number in range(1, 201)}
    assert len(read) == 200 and set(read) == written
    assert [set(lines) for lines in found] == [written] * 3


@pytest.mark.soak
def test_saunafs_alone_reads_all_from_the_server_on_its_clients_machine(engine, root, tmp_path):
    """The published claim r1-read-nfs rests on it. Where a round trip takes 40 ms, one read from elsewhere is seen."""
    reads = {}
    for name, variant in (("saunafs", "goal-3"), ("moosefs", "goal-3")):
        guest_builder.build(files.cache_folder(), root / f"data/guest/{name}.json", engine, print, name=name)
        for wires in ("lan-1g", "wan-20ms"):
            trial = cell(name, variant=f"{variant}@{wires}", stack="servers", workload="compile-round1@25")
            (phase,) = run_trial(trial, CATALOG, tmp_path / f"{name}.json")["measurement"]["phases"]
            (reads[name, wires],) = [s["wall_ns"] for s in phase["samples"] if s["name"] == "read-compiled-tree"]
    assert reads["saunafs", "wan-20ms"] < 1.05 * reads["saunafs", "lan-1g"]
    assert reads["moosefs", "wan-20ms"] > reads["moosefs", "lan-1g"] + 40e6
