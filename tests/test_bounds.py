"""Small files that would become large ones: sizes and counts are bounded before anything is read."""

import hashlib
import io
import json
import lzma
import re
import shutil
import tarfile
from pathlib import Path

import pytest
from reprofs import importers
from reprofs.errors import UserError
from reprofs.files import LARGEST_JSON, Unpacking, read_json
from reprofs.guest import lanes, trace
from reprofs.plan import recording
from reprofs.project import project_root
from reprofs.publish import write
from reprofs.records import publication

QUICK = project_root() / "results/quick"


def packed(*members: tuple[tarfile.TarInfo | str, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    """An archive of these, compressed by xz."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for name, content in members:
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            entry.size = entry.size or len(content)
            archive.addfile(entry, io.BytesIO(content))
    return lzma.compress(made.getvalue(), preset=0)


def of_kind(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


@pytest.fixture
def add(tmp_path):
    """A copy of a published result with one more archive, whose digest it knows."""

    def make(content: bytes, name: str = "records-2.tar.xz") -> Path:
        folder = tmp_path / "quick"
        shutil.copytree(QUICK, folder)
        (folder / name).write_bytes(content)
        data = json.loads((folder / publication.DIGESTS).read_text())
        data["files"][name] = hashlib.sha256(content).hexdigest()
        (folder / publication.DIGESTS).write_text(json.dumps(data))
        return folder

    return make


ZEROS = bytes(publication.RECORD + 1)
FIRST = next(iter(publication.read(QUICK).trials))
MEMBERS = {
    "nobody names it": [("raw/zeros.json", b"{}")],
    "a second plan": [(publication.PLAN, b"{}")],
    "a record twice": [(f"raw/{FIRST}.json", b"{}")],
    "a record that is none": [("raw/large.json", ZEROS)],
    "a link": [(of_kind(f"raw/{FIRST}.json", tarfile.SYMTYPE, "/etc/passwd"), b"")],
    "a folder": [(of_kind("raw", tarfile.DIRTYPE), b"")],
    "a device": [(of_kind("raw/null", tarfile.CHRTYPE), b"")],
    "a way out": [("../x.json", b"{}")],
    "a profile of nobody": [("profiles/x/1.folded", b"")],
    "a profile that nobody made": [(f"profiles/{FIRST}/1.folded", b"")],
}


@pytest.mark.parametrize("what", MEMBERS)
def test_members_that_no_plan_names_are_refused(what, add, tmp_path):
    folder = add(packed(*MEMBERS[what]))
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(UserError, match="is not named by the result's plan, or larger"):
        publication.unpack(folder, publication.read(folder), into)
    assert not list(tmp_path.rglob("x.json")) and sum(path.stat().st_size for path in into.rglob("*")) < 4 << 20


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_a_member_that_the_plan_names_is_a_file(kind, add, tmp_path):
    publication.unpack(QUICK, publication.read(QUICK), tmp_path / "all")
    plan = (tmp_path / "all" / publication.PLAN).read_bytes()
    odd = of_kind(f"raw/{FIRST}.json", kind, publication.PLAN)
    folder = add(packed((publication.PLAN, plan), (odd, b"")), "records-1.tar.xz")
    with pytest.raises(UserError, match=re.escape(f"raw/{FIRST}.json' is not named by the result's plan, or larger")):
        publication.unpack(folder, publication.read(folder), tmp_path / "into")


def test_members_that_are_too_much_together_are_refused(tmp_path, monkeypatch):
    """Each of them may be so large."""
    publication.unpack(QUICK, publication.read(QUICK), tmp_path / "all")
    sizes = [path.stat().st_size for path in (tmp_path / "all").rglob("*.json")]
    monkeypatch.setattr(publication, "RECORD", max(sizes))
    monkeypatch.setattr(publication, "MEAN", (sum(sizes) - max(sizes)) // (len(sizes) - 1) + 1)
    publication.unpack(QUICK, publication.read(QUICK), tmp_path / "again")
    monkeypatch.setattr(publication, "MEAN", publication.MEAN // 2)
    with pytest.raises(UserError, match="is not named by the result's plan, or larger"):
        publication.unpack(QUICK, publication.read(QUICK), tmp_path / "less")


@pytest.mark.parametrize("form", ["a member", "a long name", "a list of names"])
def test_an_archive_that_unpacks_to_much_more_is_refused(form, add, tmp_path, monkeypatch):
    """In the header of a member, too, which Python reads as a whole."""
    monkeypatch.setattr(publication, "ARCHIVE", 4 << 20)
    size = 32 << 20
    head = tarfile.TarInfo(f"raw/{FIRST}.json")
    head.size = size
    head.type = {"a member": tarfile.REGTYPE, "a long name": tarfile.GNUTYPE_LONGNAME}.get(form, tarfile.XHDTYPE)
    into = tmp_path / "into"
    into.mkdir()
    with io.BytesIO() as made:
        with lzma.open(made, "wb", preset=0) as bomb:
            bomb.write(head.tobuf(tarfile.GNU_FORMAT))
            for _ in range(size >> 24):
                bomb.write(bytes(1 << 24))
        folder = add(made.getvalue(), "records-0.tar.xz")  # the first that is read
    assert (folder / "records-0.tar.xz").stat().st_size < 100_000
    with pytest.raises(UserError, match=r"records-0\.tar\.xz"):
        publication.unpack(folder, publication.read(folder), into)
    assert not list(into.iterdir())


def test_a_file_of_a_result_is_as_small_as_publish_makes_it(add):
    folder = add(b"x" * (publication.LARGEST + 1))
    with pytest.raises(UserError, match=r"has 2,097,153 bytes, but a file of a result at most 2,097,152"):
        publication.read(folder)
    assert (write.LARGEST, write.PACKED < publication.ARCHIVE) == (publication.LARGEST, True)


@pytest.mark.parametrize(("kind", "most"), [("profiles", "PROFILE"), ("records", "RECORD")])
def test_what_unpacking_would_refuse_is_not_published(kind, most, tmp_path, monkeypatch):
    monkeypatch.setattr(write, most, 4)
    (tmp_path / "large").write_bytes(b"12345")
    with pytest.raises(UserError, match=f"large has 5 bytes, but a file of {kind} at most 4 in a result"):
        write._pack(kind, [tmp_path / "large"], tmp_path, tmp_path)
    monkeypatch.setattr(write, most, 5)
    write._pack(kind, [tmp_path / "large"], tmp_path, tmp_path)
    assert (tmp_path / f"{kind}-1.tar.xz").is_file()


XZ = lzma.compress(b"123" * 1000)
DAMAGES = {
    "holds more": (XZ, 2999),
    "incomplete": (XZ[:-1], 3000),
    "follows": (XZ + b"1", 3000),
    "damaged": (XZ[:100] + b"....", 3000),
    "no xz": (b"1234", 3000),
    "Memory": (None, 3000),  # packed by the test, which takes a while
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_xz_packed_is_read_in_bounds(what, tmp_path):
    data, most = DAMAGES[what]
    data = data or lzma.compress(b"1", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}])
    (tmp_path / "x").write_bytes(data)
    with pytest.raises((lzma.LZMAError, EOFError)), io.BufferedReader(Unpacking(tmp_path / "x", most)) as packed:
        packed.read()
    (tmp_path / "x").write_bytes(XZ)
    with io.BufferedReader(Unpacking(tmp_path / "x", 3000)) as packed:
        assert packed.read() == b"123" * 1000


# ---- recordings


HEAD = {"format": 1, "title": "x", "filesystem": "ext4", "kernel": "6.1", "threads": 1, "before": 1, "calls": 1}
HEAD |= {"after": 0, "names": 1, "bytes": 1, "handles": 9}


@pytest.fixture
def recorded(tmp_path):
    """Writes a recording with these calls: the file."""

    def write(calls, before: list = (["d", ".", 0o755],), head: dict | None = None) -> Path:
        first = HEAD | {"before": len(before), "calls": len(calls), **(head or {})}
        path = tmp_path / f"it{recording.SUFFIX}"
        lines = "".join(json.dumps(line) + "\n" for line in [first, *before, *calls])
        path.write_bytes(lzma.compress(lines.encode(), preset=0))
        return path

    return write


COUNTS = {
    "calls": (recording.CALLS + 1, {}),
    "before": (recording.ENTRIES + 1, {}),
    "after": (recording.ENTRIES + 1, {}),
    "follows listings": (recording.LISTED + 1, {"follows_listings": True}),
}


@pytest.mark.parametrize("what", COUNTS)
def test_a_recording_that_announces_too_much_is_refused_by_its_first_line(what, recorded):
    count, more = COUNTS[what]
    path = recorded([], head={"calls" if " " in what else what: count, **more})
    with pytest.raises(UserError, match=what):
        recording.read_head(path)
    with pytest.raises(UserError, match=what):
        next(recording.each(path))


class Held(list):
    """A call that is counted while it is in memory."""

    now = most = 0

    def __init__(self, line: list):
        super().__init__(line)
        Held.now += 1
        Held.most = max(Held.most, Held.now)

    def __del__(self):
        Held.now -= 1


@pytest.mark.parametrize("threads", [0, 2])
def test_a_recording_is_compiled_without_holding_its_calls(threads, recorded, tmp_path):
    calls = [["open", 3, 0, "a", 0, 0, 1], ["close", 0, 1], ["stat", 0, 0, "b", 0]] * 100
    path = recorded([[*call, [0]] for call in calls] if threads else calls, head={"lanes": threads})
    content = trace.compiled(recording.read(path))
    with (tmp_path / "compiled").open("wb") as file:
        trace.write(
            file,
            recording.read_head(path),
            lambda: ((part, Held(line), who) for part, line, who in recording.each(path)),
        )
    assert 0 < Held.most < 5
    assert (tmp_path / "compiled").read_bytes() == content


def test_many_different_paths_are_refused(recorded, monkeypatch):
    many = [["d", ".", 0o755], *(["d", str(number), 0o755] for number in range(100))]
    calls = [["stat", -2, 0, str(number), 0] for number in range(100)]
    threads = [[*call, [number % 2]] for number, call in enumerate(calls)]
    monkeypatch.setattr(recording, "NAMES_BYTES", 100 * recording.NAME_COST)
    with pytest.raises(UserError, match=r"line 10.: the paths of the tree take more than"):
        recording.read(recorded([], many))
    monkeypatch.setattr(trace, "NAMES_BYTES", 99 * recording.NAME_COST)
    with pytest.raises(UserError, match="the paths of a recording take more than"):
        trace.compiled(recording.read(recorded(calls)))
    monkeypatch.setattr(trace, "NAMES_BYTES", 1 << 20)
    monkeypatch.setattr(lanes, "MOST", 99)
    for more in {"lanes": 2}, {"follows_listings": True}:
        with pytest.raises(UserError, match="has at most 99 files and names"):
            trace.compiled(recording.read(recorded(threads if "lanes" in more else calls, head=more)))


def test_lines_that_unpack_to_much_more_are_refused(recorded, monkeypatch):
    monkeypatch.setattr(recording, "UNPACKED_BYTES", 10_000)
    with pytest.raises(UserError, match="lines of more than"):
        recording.read(recorded([["fsync", 0, 0]] * 1000))


# ---- what other benchmarks wrote


@pytest.mark.parametrize("text", ["x" * 5000, "x\n" * 2500])
@pytest.mark.parametrize("form", ["fio", "pwalk", "smallfile"])
def test_a_huge_file_is_not_imported(form, text, tmp_path, monkeypatch):
    monkeypatch.setattr(importers, "TEXT", 4096)
    (tmp_path / "huge").write_text(text)
    with pytest.raises(UserError, match=r"more than|not|no "):
        importers.import_files(form, [tmp_path / "huge"], tmp_path / "out", list)
    source = importers.Source("huge", tmp_path / "huge")
    with pytest.raises(importers.Malformed, match="has more than"):
        source.text  # noqa: B018
    assert not (tmp_path / "out").exists()


def test_a_json_that_is_nested_too_deeply_is_one_sentence(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 200_000)
    for read in (
        lambda: importers.import_files("fio", [tmp_path / "deep.json"], tmp_path / "out", list),
        lambda: read_json(tmp_path / "deep.json"),
    ):
        with pytest.raises(UserError, match="nested too deeply"):
            read()


def test_a_huge_json_is_not_read(tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(LARGEST_JSON + 1)
    with pytest.raises(UserError, match="it has more than 256 MiB"):
        read_json(tmp_path / "huge.json")
