"""Exact profiles: the trial is unchanged, every instruction has a function, and sums agree; flame graphs."""

import copy
import errno
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from conftest import ROOT
from helpers import CATALOG, Late, cell, drawn, rendered
from reprofs import files
from reprofs.data.profiles import load, stacks
from reprofs.errors import UserError
from reprofs.guest import engine as builder
from reprofs.guest import image
from reprofs.guest.subsystems import OTHER, subsystem
from reprofs.guest.symbols import Executable, Function, Symbols, read_kallsyms
from reprofs.labs.exact import ExactLab
from reprofs.records import raw as records
from reprofs.report.beside import beside
from reprofs.report.sentences import kernels
from reprofs.stats.profiles import waits
from reprofs.trial import profile as profiles
from reprofs.trial.profile import profile, summary
from reprofs.trial.resolve import resolve
from test_verify import deep, mutated, of_bytes, text_of

flames, show = Late("reprofs.report.flame"), Late("reprofs.report.show")

SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/profile.schema.yaml").read_text())
KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000000 T start_of_it
ffffffff81000100 t __pfx_vfs_read
ffffffff81000110 t vfs_read.isra.0
ffffffff81000200 T __memcpy
ffffffff81000200 W memcpy
ffffffff81000300 D jiffies
ffffffffc0001000 t ext4_create\t[ext4]
"""


def test_names_of_the_kernel_are_those_of_its_source():
    addresses, functions = read_kallsyms(KALLSYMS)
    assert functions == [
        Function("start_of_it"),
        Function("vfs_read"),
        Function("memcpy"),
        Function("ext4_create", "ext4"),
    ]
    symbols = Symbols(KALLSYMS, [])
    assert symbols.kernel(addresses[1] + 5).name == "vfs_read"
    assert symbols.kernel(addresses[0] - 1).name == f"{addresses[0] - 1:x}"
    assert symbols.user(0x401000, b"\x90").program == "user space"
    # Callers, of which nothing is known but where they called.
    assert symbols.at(addresses[1] + 5, b"").name == "vfs_read"
    assert symbols.at(0x401000, b"").program == "user space"


def test_programs_at_one_address_are_told_apart_by_their_code():
    one = Executable("", 0x1000, b"\x01\x02\x03", {0x1000: "main"})
    two = Executable("fill", 0x1000, b"\x01\x09\x03", {0x1000: "main", 0x1001: "write_all"})
    symbols = Symbols("", [one, two])
    assert symbols.user(0x1001, b"\x02") == Function("main", program="engine")
    assert symbols.user(0x1001, b"\x09") == Function("write_all", program="engine fill")
    assert symbols.user(0x1000, b"\x01").program == "engine"  # both have it: the runner is taken


@pytest.mark.parametrize("name", ["", "stream-fill"])
def test_the_functions_of_the_engine_are_those_of_its_file(name):
    cache = files.cache_folder()
    functions = builder.functions(cache, name)
    program = Executable.read(name, builder.build(cache, name), functions)
    main = next(address for address, function in functions.items() if function == "main")
    start = next(address for address, function in functions.items() if function == "_start")
    assert program.start <= start < main < program.start + len(program.code)
    # crt/x86_64 of musl: xor %rbp,%rbp; mov %rsp,%rdi
    assert program.has(start, b"\x48\x31\xed") and program.has(start + 3, b"\x48\x89\xe7")
    assert not program.has(start, b"\x90\x90")


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (Function("ext4_create", "ext4"), "file system ext4"),
        (Function("jbd2_journal_start", "jbd2"), "journal"),
        (Function("crc32c_pcl_intel_update", "crc32c_intel"), "checksums"),
        (Function("__kmem_cache_alloc_lru"), "allocator"),
        (Function("memcpy_orig"), "copying and clearing"),
        (Function("_raw_spin_lock"), "locks"),
        (Function("filemap_read"), "page cache"),
        (Function("link_path_walk"), "VFS"),
        (Function("blk_mq_submit_bio"), "block layer"),
        (Function("rcu_do_batch"), "RCU"),
        (Function("tomoyo_path_perm"), "security modules"),
        (Function("tree_directory", program="engine"), "engine"),
        (Function("never_heard_of_this"), OTHER),
    ],
)
def test_functions_belong_to_parts_of_the_system(function, part):
    assert subsystem(function) == part


# ---- a trial ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profiled(recorded, tmp_path_factory):
    """A record and its profile, with misses."""
    folder = tmp_path_factory.mktemp("profile")
    record = recorded(cell(workload="metadata@100"))
    (folder / "record.json").write_text(json.dumps(record))
    return record, profile(folder / "record.json", CATALOG, folder / "out", misses=True), folder


@pytest.mark.wide
def test_every_instruction_has_a_function_and_every_phase_its_sum(profiled):
    """The measurement is the record's to the last bit, or there would be no profile."""
    record, found, folder = profiled
    jsonschema.validate(found, SCHEMA)
    assert found["measurement_sha256"] == record["digests"]["measurement"]
    measured = [phase for phase in found["phases"] if phase["measured"]]
    assert [(p["name"], p["wall_ns"]) for p in measured] == [
        (p["name"], p["wall_ns"]) for p in record["measurement"]["phases"]
    ]
    for phase, told in zip(measured, record["measurement"]["phases"], strict=True):
        assert phase["instructions"] == sum(one["instructions"] for one in phase["functions"])
        assert phase["instructions"] == sum(stacks(folder / "out", phase).values())
        # Time is instructions and waiting: without any, to the two readings of the clock.
        assert phase["waiting_ns"] >= -125 * found["ns_per_instruction"]
        # What the kernel says of its idle time is another account of the same.
        assert 1 - phase["waiting_ns"] / phase["wall_ns"] == pytest.approx(told["processor_busy"], abs=0.01)
        misses = phase["misses"]
        assert 0 < misses["llc"] < misses["l1"] < misses["accesses"] < 2 * phase["instructions"]
    text = summary(found)
    assert "create (warm)" in text and "instructions" in text and "misses: L1" in text


@pytest.mark.wide
def test_what_waits_has_a_name_and_adds_up(recorded, tmp_path):
    """Btrfs below 2 GiB waits for room. The system calls of one client wait for all that is no instruction."""
    (tmp_path / "record.json").write_text(json.dumps(recorded(cell("btrfs", workload="metadata@200+device1024"))))
    found = profile(tmp_path / "record.json", CATALOG, tmp_path / "out")
    jsonschema.validate(found, SCHEMA)
    for phase in [phase for phase in found["phases"] if phase["waiting_ns"] > 100_000]:
        calls = sum(one["ns"] for one in phase["waits"] if one["call"])
        assert calls == pytest.approx(phase["waiting_ns"], rel=0.02), phase["name"]  # less what is below a thousandth
    create = next(phase for phase in found["phases"] if phase["name"] == "create")
    assert "openat waits in __reserve_bytes [btrfs]" in summary(found)
    told = kernels.waits("Create files", "btrfs", create)
    assert "most in `__reserve_bytes` (openat, " in told and "sleeps in `flush_space`." in told
    assert waits(create)["ns"].is_monotonic_decreasing and not waits(create | {"waits": []}).size
    assert not kernels.waits("Create files", "btrfs", create | {"waiting_ns": create["wall_ns"] // 11})


def test_the_functions_are_those_that_did_the_work(profiled):
    _, found, folder = profiled
    create = next(phase for phase in found["phases"] if phase["name"] == "create")
    parts = {one["part"] for one in create["functions"]}
    assert {"file system ext4", "journal", "VFS", "allocator", "copying and clearing", "engine"} <= parts
    unknown = sum(one["instructions"] for one in create["functions"] if one["part"] in (OTHER, "user space"))
    assert unknown < 0.1 * create["instructions"]
    below = stacks(folder / "out", create)
    assert any(re.search(r"do_syscall_64;.*path_openat;.*ext4_create_\[ext4\]", stack) for stack in below)
    assert any(re.search(r"worker_thread;process_one_work;.*wb_workfn", stack) for stack in below)


@pytest.mark.soak
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs", "f2fs", "jfs", "nfs-ext4"])
def test_profiles_change_no_measurement_and_have_the_same_bytes_twice(recorded, tmp_path, filesystem):
    image.ensure(resolve(cell(filesystem), CATALOG).guest, print)
    record = recorded(cell(filesystem))
    (tmp_path / "record.json").write_text(json.dumps(record))
    a, b = (profile(tmp_path / "record.json", CATALOG, tmp_path / name) for name in "ab")
    assert a == b and a["measurement_sha256"] == record["digests"]["measurement"]
    for phase in a["phases"]:
        assert stacks(tmp_path / "a", phase) == stacks(tmp_path / "b", phase)


@pytest.mark.soak
def test_misses_are_those_of_caches_that_are_asked_for_every_access(profiled, monkeypatch, tmp_path):
    """The plugin asks only where the line is not the one that its set had last."""
    _, found, folder = profiled
    (tmp_path / "profile").mkdir()
    for path in builder.PROFILER.iterdir():
        text, short = path.read_text(), "if (*before == address >> 6) return;"
        assert (short in text) == (path.name == "profile.c")
        (tmp_path / "profile" / path.name).write_text(text.replace(short, ""))
    monkeypatch.setattr(builder, "PROFILER", tmp_path / "profile")
    assert profile(folder / "record.json", CATALOG, tmp_path / "out", misses=True) == found


# ---- two kernels ----------------------------------------------------------------------------------------------------


def test_the_function_that_costs_more_is_named_first(profiled):
    """Beside a profile in which a function of create takes more, and the cold read waits longer."""
    found = profiled[1]
    slower = copy.deepcopy(found)
    create, read = (
        next(phase for phase in slower["phases"] if (phase["name"], phase["cache"]) == key)
        for key in (("create", "warm"), ("read", "cold"))
    )
    more = 1000 * create["items"]
    next(one for one in create["functions"] if one["name"] == "ext4_create")["instructions"] += more
    next(one for one in create["functions"] if one["part"] == "allocator")["instructions"] -= 10 * create["items"]
    create["instructions"] += more - 10 * create["items"]
    create["wall_ns"] += round(990 * create["items"] * found["ns_per_instruction"])
    read["wall_ns"] += 2000 * read["items"]
    read["waiting_ns"] += 2000 * read["items"]
    lines = beside(found, slower).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("create (warm): 1."))
    assert lines[at].endswith("an item: instructions +495 ns, waiting 0 ns")
    assert re.fullmatch(r" +\+1,000  ext4_create \[ext4\]  \(file system ext4\)", lines[at + 1])
    assert "\N{MINUS SIGN}10" in lines[at + 2] and "(allocator: state)" in lines[at + 2]
    assert any(re.search(r"^read \(cold\): 1\..* instructions 0 ns, waiting \+2.*s$", line) for line in lines)
    assert len(lines) == 2 + sum(phase["measured"] for phase in found["phases"])  # and nothing else differs
    other = found | {"trial": found["trial"] | {"workload": "mdtest"}}
    with pytest.raises(UserError, match="workload is mdtest there and metadata@100 in the record"):
        beside(other, found)


# ---- what cannot be --------------------------------------------------------------------------------------------------


def test_what_has_no_profile_is_one_sentence(recorded, tmp_path):
    record = recorded(cell(workload="metadata@100"))

    def refused(**changes) -> str:
        (tmp_path / "record.json").write_text(json.dumps(records.seal(record | changes)))
        with pytest.raises(UserError) as caught:
            profile(tmp_path / "record.json", CATALOG, tmp_path / "out")
        assert not (tmp_path / "out").exists() and len(str(caught.value)) < 300
        return str(caught.value)

    assert "that failed: make: no" in refused(status="failed", reason="make: no")
    why = profile(tmp_path / "record.json", CATALOG, tmp_path / "failed", failed_too=True)  # as a study asks
    assert why["reason"] == "make: no" and [path.name for path in (tmp_path / "failed").iterdir()] == ["profile.json"]
    jsonschema.validate(why, SCHEMA)
    assert "the lab host" in refused(trial=record["trial"] | {"lab": "host"})
    other = record["trial"] | {"lab": "exact@v2-0.5ns-4c"}
    assert "edited since" in refused(environment=record["environment"] | {"job_sha256": "0" * 64})
    assert "edited since" in refused(trial=other)  # another processor is another job
    (tmp_path / "record.json").write_text(json.dumps(record | {"reason": "edited"}))
    with pytest.raises(UserError, match="was changed after its trial"):
        profile(tmp_path / "record.json", CATALOG, tmp_path / "out")
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(UserError, match="not a raw record"):
        profile(tmp_path / "record.json", CATALOG, tmp_path / "out")


def test_the_trial_runs_again_in_its_own_guest(recorded, tmp_path, monkeypatch):
    """Not in that of its file system, where the programs of its workload may not be."""
    trial = cell(workload="iozone")
    record = recorded(cell(workload="metadata@100"))
    environment = record["environment"] | {"job_sha256": hashlib.sha256(rendered(trial).text().encode()).hexdigest()}
    made = records.seal(record | {"trial": trial.names(), "environment": environment})
    (tmp_path / "record.json").write_text(json.dumps(made))

    def opened(guest, **_):
        raise UserError(f"asked for {guest}")

    monkeypatch.setattr(ExactLab, "open", opened)
    with pytest.raises(UserError, match="asked for iozone"):
        profile(tmp_path / "record.json", CATALOG, tmp_path / "out")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    made = tmp_path_factory.mktemp("plugin") / "plugin"
    flags = ["-std=gnu11", "-O1", "-iquote", str(builder.PROFILER)]
    builder.compile_c([ROOT / "tests/fixtures/plugin.c"], made, flags)
    return made


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("calls", "1000 calls"),
        ("stacks", "100 stacks"),
        ("phases", "10 phases"),
        ("times", "1023 instructions that read the time"),
    ],
)
def test_a_guest_that_makes_the_plugin_keep_too_much_is_ended(plugin, case, said, tmp_path):
    done = subprocess.run([plugin, case, f"out={tmp_path}"], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (3, f"profile: the guest has more than {said}\n")
    assert len(list(tmp_path.iterdir())) <= 30


@pytest.mark.parametrize("content", [None, b"no library"], ids=["missing", "no library"])
def test_a_plugin_that_qemu_cannot_load_is_one_sentence(recorded, tmp_path, monkeypatch, content):
    (tmp_path / "record.json").write_text(json.dumps(recorded(cell(workload="metadata@100"))))
    if content:
        (tmp_path / "plugin.so").write_bytes(content)
    monkeypatch.setattr(builder, "build_profiler", lambda cache: tmp_path / "plugin.so")
    with pytest.raises(UserError, match=r"^the guest cannot be started: QEMU .*; .*plugin\.so") as caught:
        profile(tmp_path / "record.json", CATALOG, tmp_path / "out")
    said = str(caught.value).replace(str(tmp_path), "")
    assert not (tmp_path / "out").exists() and len(said) < 250 and "\n" not in said


def test_a_plugin_that_ends_qemu_is_quoted(recorded, tmp_path, monkeypatch, engine):
    """As where a guest makes it keep too much. Nothing is written."""
    (tmp_path / "record.json").write_text(json.dumps(recorded(cell(workload="metadata@100"))))
    text = (builder.PROFILER / "profile.c").read_text()
    (tmp_path / "profile.c").write_text(re.sub(r"#define NODES .*", "#define NODES 1000", text))
    (tmp_path / "plugin.h").write_bytes((builder.PROFILER / "plugin.h").read_bytes())
    monkeypatch.setattr(builder, "PROFILER", tmp_path)
    with pytest.raises(UserError, match=r"^QEMU ended while it counted; profile: the guest has more than 1000 calls"):
        profile(tmp_path / "record.json", CATALOG, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.wide
def test_marks_of_phases_that_are_not_the_engines_give_no_profile(recorded, tmp_path, monkeypatch):
    (tmp_path / "record.json").write_text(json.dumps(recorded(cell(workload="metadata@100"))))
    ran = ExactLab.run

    def run(lab, *words):
        outcome = ran(lab, *words)
        folder = Path(lab.plugin.partition("out=")[2].partition(",")[0])
        shutil.copy(folder / "0.count", folder / "99.count")
        return outcome

    monkeypatch.setattr(ExactLab, "run", run)
    with pytest.raises(UserError, match="has the engine's marks of phases: it has no profile"):
        profile(tmp_path / "record.json", CATALOG, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        gzip.compress(b"ffffffff81000000 T\n"),
        gzip.compress(b"wrong T _stext\n"),
        gzip.compress(b"\xff\xfe T x\n"),
        gzip.compress(bytes(100 << 20), 1),
        gzip.compress(b"ffffffff81000000 T _stext\n")[:-12] + b"\xff" * 12,
    ],
    ids=["nothing", "short", "number", "bytes", "large", "damaged"],
)
def test_what_a_guest_prints_as_its_symbols_is_checked(said, monkeypatch, tmp_path):
    monkeypatch.setenv("REPROFS_CACHE", str(tmp_path))
    parts = dict.fromkeys(("qemu_sha256", "command", "initrd_sha256", "engine_sha256"), "")
    lab = SimpleNamespace(environment=lambda start: parts, run=lambda job, limit_s: SimpleNamespace(output=said))
    with pytest.raises(UserError, match="did not print its kernel's symbols"):
        profiles._symbols(rendered(cell(workload="metadata@100")), lab)
    assert not list(tmp_path.rglob("*"))


def test_on_a_full_disk_there_is_no_part_of_a_profile(tmp_path, monkeypatch):
    written, one = [], files.write_bytes

    def write_bytes(path, data):
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(one(path, data))

    monkeypatch.setattr(files, "write_bytes", write_bytes)
    with pytest.raises(UserError, match=r"out cannot be written: No space left on device; free space"):
        profiles._kept(tmp_path / "out", {"phases": []}, {"1-create.folded": b"a 1\n"})
    assert written and not list(tmp_path.iterdir())


def a_profile(folder: Path) -> dict:
    """A small one, as a trial writes it."""
    function = {"name": "vfs_read", "module": "", "part": "VFS", "instructions": 90}
    wait = {"call": "fsync", "function": "wait", "stack": "a;b", "ns": 5}
    phase = {
        **{"name": "create", "operation": "create", "cache": "warm", "measured": True, "items": 3, "wall_ns": 100},
        **{"instructions": 90, "waiting_ns": 10, "waits": [wait], "functions": [function], "stacks": "1-create.folded"},
        "misses": {"accesses": 9, "l1": 2, "llc": 1},
    }
    trial = {"workload": "metadata", "scale": "smoke", "round": 1, "seed": 7}
    made = {"schema": 1, "trial": trial, "measurement_sha256": "0" * 64, "ns_per_instruction": 0.5, "kernel": "6.1"}
    made |= {"qemu": "7.2", "phases": [phase]}
    folder.mkdir()
    (folder / "profile.json").write_text(json.dumps(made))
    (folder / "1-create.folded").write_text("a;vfs_read 90\n")
    files.write_sums(folder / files.SUMS, [folder / "profile.json", folder / "1-create.folded"])
    return made


@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_mutated_profile_is_read_or_refused_in_one_sentence(tmp_path, times):
    """As all that read profiles do, also with right digests; nothing but the files beside it is read."""
    draw, folder = drawn(), tmp_path / "it"
    base = a_profile(folder)
    assert load(folder) == base and stacks(folder, base["phases"][0]) == {"a;vfs_read": 90}
    (tmp_path / "elsewhere").write_text("secret 1\n")
    for _ in range(times):
        one = draw.random()
        whole = json.dumps(base).encode()
        data = deep(draw) if one < 0.02 else of_bytes(draw, whole) if one < 0.2 else None
        other = json.loads(whole)
        if one > 0.95:
            other["phases"][0]["stacks"] = draw.choice(["../elsewhere", str(tmp_path / "elsewhere"), "1-../x.folded"])
        (folder / "profile.json").write_bytes(data or text_of(other if one > 0.95 else mutated(draw, other)))
        lines = of_bytes(draw, b"a;vfs_read 90\n") if draw.random() < 0.3 else b"a;vfs_read 90\n"
        (folder / "1-create.folded").write_bytes(lines)
        files.write_sums(folder / files.SUMS, [folder / "profile.json"])
        try:
            found = load(folder)
            assert not [key for phase in found["phases"] for key in stacks(folder, phase) if "secret" in key]
            summary(found).encode()
            for two in ((base, found), (found, base)):
                beside(*two).encode()
        except UserError as error:
            assert len(str(error)) < 320 + len(str(folder)) and "\n" not in str(error), error


# ---- pictures --------------------------------------------------------------------------------------------------------

STACKS = {"main;read;copy": 60, "main;read": 20, "main;<b>&": 20}


def test_a_flame_graph_has_a_box_for_each_call_as_wide_as_its_share():
    found = {box.name: box for box in flames.boxes(STACKS)}
    assert {name: (box.width / flames.WIDTH, box.depth) for name, box in found.items()} == {
        **{"main": (pytest.approx(1), 0), "read": (pytest.approx(0.8), 1), "copy": (pytest.approx(0.6), 2)},
        "<b>&": (pytest.approx(0.2), 1),
    }
    assert found["copy"].x == found["read"].x == pytest.approx(0.2 * flames.WIDTH)  # in the order of names
    written = show.svg(flames.flame(STACKS, {"read": "VFS, page cache"}))
    words = [element.text for element in ET.fromstring(written).iter("{http://www.w3.org/2000/svg}text")]
    assert {"main", "read", "copy", "<b>&", "VFS, page cache"} <= set(words)
    assert "<script" not in written and flames.COLOURS["VFS, page cache"] in written
    assert not list(flames.boxes({})) and "<text" not in show.svg(flames.flame({}, {}))


def test_speedscope_gets_the_same_stacks():
    found = flames.speedscope({"create": STACKS}, "ext4")
    frames = [frame["name"] for frame in found["shared"]["frames"]]
    (create,) = found["profiles"]
    named = {
        ";".join(frames[i] for i in sample): w for sample, w in zip(create["samples"], create["weights"], strict=True)
    }
    assert named == STACKS and create["endValue"] == 100
