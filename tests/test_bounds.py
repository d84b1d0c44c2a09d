"""Small files that would become large ones: sizes and counts are bounded before anything is read."""

import hashlib
import io
import json
import lzma
import shutil
import tarfile
from pathlib import Path

import pytest
from reprofs.errors import UserError
from reprofs.files import Unpacking
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


XZ = lzma.compress(b"123" * 1000)
DAMAGES = {
    "holds more": (XZ, 2999),
    "incomplete": (XZ[:-1], 3000),
    "follows": (XZ + b"1", 3000),
    "damaged": (XZ[:100] + b"....", 3000),
    "no xz": (b"1234", 3000),
    "Memory": (lzma.compress(b"1", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 512 << 20}]), 3000),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_what_xz_packed_is_read_in_bounds(what, tmp_path):
    data, most = DAMAGES[what]
    (tmp_path / "x").write_bytes(data)
    with pytest.raises((lzma.LZMAError, EOFError)), io.BufferedReader(Unpacking(tmp_path / "x", most)) as packed:
        packed.read()
    (tmp_path / "x").write_bytes(XZ)
    with io.BufferedReader(Unpacking(tmp_path / "x", 3000)) as packed:
        assert packed.read() == b"123" * 1000
