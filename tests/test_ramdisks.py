"""Disks in memory of the host lab: which driver makes them, that only a trial's own are found, and that they go."""

import os
from pathlib import Path

import pytest
from reprofs import cleanup, ramdisks
from reprofs.workplace import workplace

ZRAM = Path("/sys/class/zram-control/hot_add")
needs_zram = pytest.mark.skipif(os.geteuid() != 0 or not ZRAM.exists(), reason="needs root and a kernel with zram")


def test_the_exact_labs_driver_is_taken_first(tmp_path, monkeypatch):
    monkeypatch.setattr(ramdisks, "SYS", tmp_path)
    monkeypatch.setattr(ramdisks.subprocess, "run", lambda *_, **__: None)
    assert ramdisks.driver() is None, "a kernel with neither: the lab takes loop devices"
    (tmp_path / "class/zram-control").mkdir(parents=True)
    (tmp_path / "class/zram-control/hot_add").write_text("3")
    assert ramdisks.driver() == "zram"
    (tmp_path / "kernel/config/nullb").mkdir(parents=True)
    assert ramdisks.driver() == "null_blk"


def test_a_null_block_device_is_like_the_exact_labs(tmp_path, monkeypatch):
    monkeypatch.setattr(ramdisks, "SYS", tmp_path)
    made = tmp_path / "kernel/config/nullb"
    made.mkdir(parents=True)
    place, notes = Path("/dev/shm/reprofs-work-abc"), []
    assert ramdisks.make("null_blk", place, 1, 64, notes.append) == "/dev/nullb"  # no index in this /sys
    folder = made / "reprofs-work-abc-1"
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written["size"] == "64" and written["memory_backed"] == written["power"] == "1" and written["irqmode"] == "0"
    assert notes == [{"null_blk": "reprofs-work-abc-1"}]
    (folder / "index").write_text("7\n")
    assert ramdisks.found(place, notes[0]) == "nullb7"
    (tmp_path / "block/reprofs-work-abc-1").mkdir(parents=True)  # a kernel that names it like the folder
    assert ramdisks.found(place, notes[0]) == "reprofs-work-abc-1"
    assert ramdisks.found(Path("/dev/shm/reprofs-work-other"), notes[0]) == "", "somebody else's"
    assert ramdisks.make("null_blk", place, 1, 64, notes.append) is None, "the name is taken"


@needs_zram
def test_a_zram_device_of_a_killed_trial_is_removed_and_no_other():
    with workplace(cleanup.MEMORY) as place:
        disk: dict[str, str] = {}
        path = ramdisks.make("zram", place, 0, 64, disk.update)
        name = ramdisks.found(place, disk)
        assert path == f"/dev/{name}" and Path(path).is_block_device()
        for key in ("diskseq", "boot"):  # its number again, as another device or after another start
            assert ramdisks.found(place, {**disk, key: "0"}) == ""
        cleanup.note(place, disk={**disk, "diskseq": "0"})
        assert cleanup.release(place) == [] and Path(path).exists()
        cleanup.note(place, disk=disk)
        with Path(path).open("r+b", buffering=0) as device:
            assert device.write(os.urandom(4096)) == 4096
        assert cleanup.release(place) == [f"disk in memory {path}"]
        assert not Path(path).exists() and ramdisks.found(place, disk) == ""
