"""`reprofs measure`: how a program gets into the lab, what is said of it there, and how two records are compared."""

import contextlib
import copy
import io
import json
import os
import re
import struct
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from conftest import BIN, ROOT
from helpers import drawn
from reprofs import cli, files
from reprofs.errors import UserError
from reprofs.guest import carried, engine, image
from reprofs.guest.image import EPOCH
from reprofs.guest.steps import IMAGE_AT, IMAGE_OPTION, Exec, Job
from reprofs.guest.trace import image_of
from reprofs.measure import compare, container, program, tree, trials, words
from reprofs.measure.practice import practise
from reprofs.measure.tree import Found, Tree, needed
from reprofs.plan.catalog import Catalog
from reprofs.plan.measured import Measured, read
from reprofs.plan.workload import Workload
from test_verify import deep, mutated, of_bytes, text_of

LISTS = """#!/bin/bash
for i in $(seq 20); do echo "$i" > "f$i"; done
diff <(ls | sort) <(ls | sort -u) && echo same >&2
cat "$1"
exit 3
"""


SPIN = """
#include <pthread.h>
static void *spin(void *turns) { for (volatile long i = 0; i < (long)turns; i++) continue; return 0; }
int main(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], 0, spin, (void *)1000000);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], 0);
    return 0;
}
"""


def parser():
    """Of the command."""
    return next(a for a in cli.parser()._actions if hasattr(a, "choices") and a.choices).choices["measure"]


def tree_at(folder: Path, kind=Tree, **how):
    folder.mkdir()
    return kind(folder, **how)


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


# ---- what comes in


def test_a_path_comes_with_the_links_on_its_way(tmp_path):
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "real/inner/data").write_text("data")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "absolute").symlink_to(tmp_path / "link/inner")
    (tmp_path / "loop").symlink_to("loop")
    found = tree_at(tmp_path / "tree", Found, began=2**63, without=[str(tmp_path / "real/secret")])
    for name in ("absolute/../inner/./data", "absolute/data", "loop/data", "missing", "real/secret/data"):
        found.add(f"{tmp_path}/{name}")
    found.add("/dev/null")
    found.add("/proc/self/status")
    top = f"root{tmp_path}"
    assert below(tmp_path / "tree") == {f"{top}/{name}" for name in ("absolute", "link", "loop", "real/inner/data")}
    assert (tmp_path / "tree" / top / "real/inner/data").read_text() == "data"


def test_folders_have_the_usual_mode_and_shared_ones_theirs(tmp_path):
    (tmp_path / "shared/own").mkdir(parents=True)
    (tmp_path / "shared/own/data").write_text("data")
    (tmp_path / "shared/own").chmod(0o775)
    (tmp_path / "shared").chmod(0o1777)
    found = tree_at(tmp_path / "tree", Found, began=2**63, without=[])
    found.add(f"{tmp_path}/shared/own/data")
    modes = [(tmp_path / f"tree/root{tmp_path}" / name).stat().st_mode & 0o7777 for name in ("shared", "shared/own")]
    assert modes == [0o1777, 0o755]


def test_a_tree_has_a_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr(tree, "MOST_BYTES", 3 << 20)
    made = tree_at(tmp_path / "tree")
    made.put("small", io.BytesIO(bytes(2 << 20)), 0o644)
    endless = SimpleNamespace(read=lambda size: bytes(size))
    with pytest.raises(UserError, match="more than 3 MiB with endless: leave out what it does not need"):
        made.put("endless", endless, 0o644)


def test_what_a_program_changed_itself_stays_out(tmp_path):
    (tmp_path / "made").write_text("by the program")
    found = tree_at(tmp_path / "tree", Found, began=(tmp_path / "made").stat().st_ctime_ns - 1, without=[])
    found.add(f"{tmp_path}/made")
    assert not below(tmp_path / "tree") and found.changed == {f"{tmp_path}/made"}


def test_a_program_comes_with_loader_interpreter_and_libraries(tmp_path):
    shell = os.path.realpath("/bin/sh")
    there = needed(Path(shell))
    assert (
        there[0].startswith("/lib") and any("libc.so" in one for one in there[1:]) and all(map(os.path.exists, there))
    )
    script = tmp_path / "script"
    script.write_text("#! /bin/sh -e\necho")
    assert needed(script) == ["/bin/sh", *there]
    script.write_text(f"#!{script}")
    assert needed(script) == [str(script)] * 4
    for content in ("#!\n", "", "\x7fELF\x02"):
        script.write_text(content)
        assert needed(script) == []


def test_libraries_for_newer_processors_come_with_those_for_older_ones(tmp_path):
    for name in ("glibc-hwcaps/x86-64-v3/", "glibc-hwcaps/x86-64-v2/", ""):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "libx.so").write_text(name)
    found = tree_at(tmp_path / "tree", Found, began=2**63, without=[])
    found.add(f"{tmp_path}/glibc-hwcaps/x86-64-v3/libx.so")
    assert found.files == 3


def test_compiled_python_is_of_a_source_with_the_time_of_the_tree(tmp_path):
    by_time, by_hash = b"cafe" + bytes(4) + b"TIMESIZEcode", b"cafe\x01\0\0\0TIMESIZEcode"
    made = tree_at(tmp_path / "tree")
    for name, code in (("time.pyc", by_time), ("hash.pyc", by_hash), ("short.pyc", b"cafe"), ("time.py", by_time)):
        made.put(name, io.BytesIO(code), 0o644)
    said = {name: (tmp_path / "tree" / name).read_bytes() for name in ("time.pyc", "hash.pyc", "short.pyc", "time.py")}
    assert said == {
        **{"time.pyc": b"cafe" + bytes(4) + struct.pack("<I", EPOCH) + b"SIZEcode", "hash.pyc": by_hash},
        **{"short.pyc": b"cafe", "time.py": by_time},
    }


def test_the_same_input_has_the_same_image_and_another_has_another(tmp_path, guest):
    """Whatever the times of its files, and in whatever order they were made."""
    digests = []
    for number, names in enumerate((["a", "b/c"], ["b/c", "a"], ["a", "b/c"])):
        source = tmp_path / f"source{number}"
        (source / "b").mkdir(parents=True)
        for name in names:
            (source / name).write_text(name if number < 2 else name + " changed")
            os.utime(source / name, (number, number * 1000))
        made = tree_at(tmp_path / f"tree{number}")
        made.take(source, "input")
        digests.append(image.keep(tmp_path / f"tree{number}", files.cache_folder(), print).stem)
    assert digests[0] == digests[1] != digests[2]
    job = Job([Exec(stage="x", arg=["mount", IMAGE_OPTION, digests[0], "8"])])
    assert job.images() == [digests[0]] and not job.programs()
    assert image_of(files.cache_folder(), digests[0]).stat().st_size > 0
    with pytest.raises(UserError, match="missing or damaged"):
        image_of(files.cache_folder(), "0" * 64)


def test_a_run_tells_which_files_a_program_names(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "read").write_text("what is read")
    script = tmp_path / "lists.sh"
    script.write_text(LISTS)
    found = practise(["bash", str(script), "../read"], tmp_path / "run", {"PATH": os.environ["PATH"]}, tmp_path / "out")
    assert found.code == 3 and found.output == "same\nwhat is read"
    assert {os.path.normpath(path) for path in found.paths} >= {str(script), str(tmp_path / "read")}
    assert {Path(path).name for path in found.ran} >= {"bash", "seq", "diff", "sort", "cat"}
    with pytest.raises(UserError, match="nothing-such' cannot be followed: it cannot be started"):
        practise(["/nothing-such"], tmp_path / "run", {}, tmp_path / "out")


# ---- a root file system


def packed(path: Path, entries) -> Path:
    """A tar of (name, content, link, hard link, or None for a folder)."""
    with tarfile.open(path, "w") as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if content is None:
                entry.type = tarfile.DIRTYPE
            elif isinstance(content, tuple):
                entry.type, entry.linkname = content
            data = content.encode() if isinstance(content, str) else b""
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def test_an_exported_container_is_a_root(tmp_path):
    entries = [("bin", None), ("bin/sh", "shell"), ("bin/ash", (tarfile.LNKTYPE, "bin/sh"))]
    entries += [("../../escaped", "inside"), ("dev/null", (tarfile.CHRTYPE, "")), ("sh", (tarfile.SYMTYPE, "/bin/sh"))]
    made = tree_at(tmp_path / "tree")
    assert container.take(packed(tmp_path / "root.tar", entries), made) == {}
    assert below(tmp_path / "tree/root") == {"bin/sh", "bin/ash", "escaped", "sh"}
    assert (tmp_path / "tree/root/bin/ash").read_text() == "shell" and made.special == {"dev/null"}
    assert not (tmp_path / "escaped").exists()


def test_a_saved_image_is_its_layers_one_over_the_other(tmp_path):
    lower = packed(tmp_path / "1", [("etc/old", "old"), ("etc/kept", "kept"), ("var/a/b", "b"), ("var/c", "c")])
    upper = packed(tmp_path / "2", [("etc/.wh.old", ""), ("var/.wh..wh..opq", ""), ("var/d", "d"), ("etc/kept", "new")])
    config = tmp_path / "config"
    config.write_text(json.dumps({"config": {"Env": ["PATH=/opt/bin:/bin", "A=b=c"]}}))
    listed = tmp_path / "manifest.json"
    listed.write_text(json.dumps([{"Config": "config", "Layers": ["1", "2"]}]))
    with tarfile.open(tmp_path / "saved.tar", "w") as tar:
        for path in (lower, upper, config, listed):
            tar.add(path, path.name)
    made = tree_at(tmp_path / "tree")
    assert container.take(tmp_path / "saved.tar", made) == {"PATH": "/opt/bin:/bin", "A": "b=c"}
    assert below(tmp_path / "tree/root") == {"etc/kept", "var/d"}
    assert (tmp_path / "tree/root/etc/kept").read_text() == "new"


@pytest.mark.parametrize("name", ["save", "oci", "export"])
def test_what_podman_writes_is_a_root(tmp_path, name):
    """Of an image of two layers (podman save, podman save --format oci-archive, podman export). The upper one removes a
    file and a folder, makes a folder anew, and a file that has another name in the lower one."""
    made = tree_at(tmp_path / "tree")
    asked = container.take(ROOT / f"tests/fixtures/roots/{name}.tar.gz", made)
    assert asked == ({} if name == "export" else {"WHO": "world", "PATH": "/bin"})
    root = tmp_path / "tree/root"
    assert below(root) == {"bin/app", "etc/hard", "etc/kept", "etc/link", "var/old/new"}
    assert (root / "etc/hard").read_text() == "one\n" and (root / "etc/link").read_text() == "two\n"
    assert (root / "bin/app").stat().st_mode & 0o777 == 0o755 and not (root / "var/gone").exists()


def laid_out(folder: Path, manifests: list, blobs: dict[str, bytes]) -> Path:
    """An image in the layout of OCI, as `tar -C FOLDER -cf image.tar .` packs it."""
    place = folder / "image"
    (place / "blobs/sha256").mkdir(parents=True)
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))
    for name, content in blobs.items():
        (place / "blobs/sha256" / name).write_bytes(content)
    with tarfile.open(folder / "image.tar", "w") as tar:
        tar.add(place, ".")
    return folder / "image.tar"


def test_an_image_for_several_platforms_is_that_for_this_one(tmp_path):
    """In an index of its own, beside what says how it was built."""
    layer = packed(tmp_path / "layer", [("etc/name", "this")]).read_bytes()
    kind = {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
    manifest = {"config": {"digest": "sha256:c"}, "layers": [kind | {"digest": "sha256:l"}]}
    platforms = [("arm64", "sha256:arm"), ("unknown", "sha256:built"), ("amd64", "sha256:m")]
    inner = [{"digest": digest, "platform": {"os": "linux", "architecture": name}} for name, digest in platforms]
    blobs = {"i": json.dumps({"manifests": inner}).encode(), "m": json.dumps(manifest).encode(), "l": layer, "c": b"{}"}
    made = tree_at(tmp_path / "tree")
    assert container.take(laid_out(tmp_path, [{"digest": "sha256:i"}], blobs), made) == {}
    assert (tmp_path / "tree/root/etc/name").read_text() == "this"
    with pytest.raises(UserError, match=r"image has a saved image: pack it by `tar"):
        container.take(tmp_path / "image", made)


@pytest.mark.parametrize(
    ("manifests", "manifest", "sentence"),
    [
        ([], {}, "has 0 images for linux/amd64: save one"),
        (
            [{"digest": "sha256:m"}] * 2,
            {"config": {"digest": "sha256:c"}, "layers": []},
            "has 2 images for linux/amd64",
        ),
        ([{"digest": "sha256:m"}], {"layers": [{"mediaType": "a+zstd"}]}, "has layers of the kind a.zstd: save it by"),
        ([{"digest": "sha256:x"}], {}, "no archive of a root file system"),
        ([{"digest": 1}], {}, "no archive of a root file system"),
        ([7], {}, "no archive of a root file system"),
    ],
)
def test_an_image_that_cannot_be_taken_is_one_sentence(tmp_path, manifests, manifest, sentence):
    image = laid_out(tmp_path, manifests, {"m": json.dumps(manifest).encode()})
    with pytest.raises(UserError, match=sentence):
        container.take(image, tree_at(tmp_path / "tree"))


def test_a_layer_removes_only_what_is_below_it_and_goes_through_links_of_the_root(tmp_path):
    """Whether it says so before or after its own files. A folder takes the place of a file, and the other way round."""
    lower = [("run", None), ("var/run", (tarfile.SYMTYPE, "/run")), ("old/a", "a"), ("file", "f"), ("folder/x", "x")]
    upper = [("var/run/id", "1"), ("old/b", "b"), ("old/.wh..wh..opq", ""), ("file/in", "i"), ("folder", "g")]
    made = tree_at(tmp_path / "tree")
    for number, entries in enumerate((lower, [("file", None), *upper])):
        with tarfile.open(packed(tmp_path / f"{number}.tar", entries)) as layer:
            container._layer(layer, made)
    root = tmp_path / "tree/root"
    assert below(root) == {"run/id", "var/run", "old/b", "file/in", "folder"} and (root / "folder").read_text() == "g"


@pytest.mark.parametrize("content", [b"", b"no archive", bytes(1024)], ids=["empty", "text", "no files"])
def test_what_is_no_root_is_said_in_a_sentence(tmp_path, content):
    (tmp_path / "root.tar").write_bytes(content)
    with pytest.raises(UserError, match="is no folder and no archive of a root file system"):
        container.take(tmp_path / "root.tar", tree_at(tmp_path / "tree"))


def test_an_archive_of_too_much_is_refused_early(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "MOST_ENTRIES", 3)
    entries = [(f"d{number}", None) for number in range(4)]
    for some in (entries, [*entries[:2], ("manifest.json", "[]"), *entries[2:]]):
        with pytest.raises(UserError, match="it has more than 3 entries or 64 GiB"):
            container.take(packed(tmp_path / "root.tar", some), tree_at(tmp_path / f"tree{len(some)}"))
    monkeypatch.setattr(container, "MOST_BYTES", 1000)
    with pytest.raises(UserError, match="it has more than 3 entries or 0 GiB"):
        container.take(packed(tmp_path / "root.tar", [("a", "x" * 2000)]), tree_at(tmp_path / "tree"))


BLOB = {name: f"sha256:{name}" for name in "mcl"}
IMAGES = {  # the layer's name -> what is beside it
    "1": {"manifest.json": [{"Config": "config", "Layers": ["1", "1"]}], "config": {"config": {"Env": ["A=b"]}}},
    "blobs/sha256/l": {
        "oci-layout": {"imageLayoutVersion": "1.0.0"},
        "index.json": {"manifests": [{"digest": BLOB["m"], "platform": {"os": "linux", "architecture": "amd64"}}]},
        "blobs/sha256/m": {
            "config": {"digest": BLOB["c"]},
            "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": BLOB["l"]}] * 2,
        },
        "blobs/sha256/c": {"config": {"Env": ["A=b"]}},
    },
}


@pytest.mark.parametrize("times", [80, pytest.param(5000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("layer_name", IMAGES, ids=["docker", "oci"])
def test_a_damaged_image_is_taken_or_refused_in_one_sentence(tmp_path, times, layer_name):
    """What its JSON says, and its bytes; nothing leaves the tree."""
    draw, layer = drawn(), packed(tmp_path / "1", [("etc/old", "old"), ("../a", "x"), ("l", (tarfile.SYMTYPE, ".."))])
    for number in range(times):
        texts = copy.deepcopy(IMAGES[layer_name])
        name = draw.choice(list(texts))
        made = {key: json.dumps(value).encode() for key, value in texts.items()} | {layer_name: layer.read_bytes()}
        made[name] = deep(draw) if draw.random() < 0.1 else text_of(mutated(draw, texts[name]))
        with tarfile.open(tmp_path / "root.tar", "w") as tar:
            for key, data in made.items():
                entry = tarfile.TarInfo(key)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        if draw.random() < 0.3:
            (tmp_path / "root.tar").write_bytes(of_bytes(draw, (tmp_path / "root.tar").read_bytes()))
        top = tmp_path / f"top{number}"
        top.mkdir()
        with contextlib.suppress(UserError):
            container.take(tmp_path / "root.tar", tree_at(top / "tree"))
        assert [path.name for path in top.iterdir()] == ["tree"]
        assert {path.name for path in (top / "tree").iterdir()} <= {"root", "input"}
        subprocess.run(["rm", "-rf", top], check=True)


@pytest.mark.parametrize("times", [200, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_mutated_record_is_compared_or_refused_in_one_sentence(tmp_path, times):
    draw, base, path = drawn(), record(), tmp_path / "now.json"
    whole = words.written(base).encode()
    for _ in range(times):
        one = draw.random()
        data = deep(draw) if one < 0.02 else of_bytes(draw, whole)
        path.write_bytes(text_of(mutated(draw, json.loads(whole))) if one > 0.2 else data)
        try:
            now = read(path)
            for form in ("text", "markdown", "json"):
                words.measured(now, form).encode()
                for two in ((base, now), (now, base)):
                    words.compared(*two, compare.pairs(*two, 0.01), form).encode()
        except UserError as error:
            assert len(str(error)) < 320 + len(str(path)) and "\n" not in str(error), error


# ---- what is said


def record(**changes) -> Measured:
    """A record of two rows; changes: of the numbers of the first."""
    numbers = {
        **{"time_ns": 1_000_000, "user_ns": 600_000, "kernel_ns": 300_000, "busy_ns": 900_000, "idle_ns": 100_000},
        **{"sync_ns": 50_000, "instructions": 1_800_000, "read_bytes": 0, "written_bytes": 20_000, "flushes": 3},
        **{"exit": 0, "signal": 0, "left": False},
    }
    row = {"filesystem": "ext4+default", "device": "ssd-nvme", "status": "ok", "measurement": "1" * 64}
    rows = [{**row, "numbers": numbers | changes, "output": "done\n"}]
    rows.append({**row, "filesystem": "xfs+default", "numbers": numbers | {"time_ns": 1_100_000}})
    if changes:
        rows[0]["measurement"] = "2" * 64
    whole = {
        **{"schema": 1, "command": ["a program", "x|y"], "environment": {"PATH": "/bin"}, "image": "0" * 64},
        **{"files": 3, "bytes": 9, "cache": "cold", "lab": "exact@v2-0.5ns", "cores": 1, "protocol": 7},
        **{"reprofs": "1", "commit": "", "lock_sha256": "3" * 64, "rows": rows},
    }
    return Measured.adapter().validate_python(whole)


def test_a_record_has_the_schema_and_is_read_again(tmp_path, says, reprofs):
    made = record()
    schema = yaml.safe_load((ROOT / "workflow/schemas/measured.schema.yaml").read_text())
    jsonschema.validate(json.loads(words.written(made)), schema)
    (tmp_path / "a.json").write_text(words.written(made))
    assert read(tmp_path / "a.json").as_json() == made.as_json()
    (tmp_path / "b.json").write_text(words.written(made).replace('"cores"', '"kores"'))
    says(reprofs("compare", tmp_path / "a.json", tmp_path / "b.json"), "b.json", "kores")
    (tmp_path / "b.json").write_text("{")
    says(reprofs("compare", tmp_path / "a.json", tmp_path / "b.json"), "b.json is not valid JSON")
    says(reprofs("compare", tmp_path / "a.json", "quick"), "name two records")


def test_a_table_has_the_difference_from_the_fastest():
    text = words.measured(record(), "text")
    assert "'a program' 'x|y', cache cold, 1 core" in text
    assert [line.split()[-3:] for line in text.splitlines()[3:5]] == [["3", "fastest", "0"], ["+10", "%", "0"]]
    assert text.splitlines()[3].split()[2:9] == ["1.000", "0.050", "0.600", "0.300", "0.100", "1,800,000", "0"]
    assert r"x\|y" not in words.measured(record(), "markdown").splitlines()[0]
    assert "| ext4+default | ssd-nvme | 1.000 |" in words.measured(record(), "markdown")
    assert json.loads(words.measured(record(), "json")) == record().as_json()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"exit": 3}, "the program exited with 3."),
        ({"exit": 128, "signal": 4}, "an instruction that the lab's processor (x86-64-v2) lacks"),
        ({"exit": 128, "signal": 11}, "was ended by signal 11."),
        ({"left": True}, "left processes running"),
    ],
)
def test_a_program_that_failed_is_said(changes, sentence):
    (said,) = words.sentences(record(**changes))
    assert sentence in said and said in words.measured(record(**changes), "text")
    assert not words.sentences(record())


@pytest.mark.parametrize(
    ("time_ns", "least", "verdict"),
    [(1_001_000, 0.001, "slower"), (1_000_999, 0.001, "within"), (990_000, 0.01, "faster"), (1_000_000, 0.01, "equal")],
)
def test_a_tenth_of_a_percent_is_found(time_ns, least, verdict):
    first, second = compare.pairs(record(), record(time_ns=time_ns), least)
    assert (first.verdict, first.worse, second.verdict) == (verdict, verdict == "slower", "equal")


def test_what_fails_now_is_worse_and_other_conditions_are_not_compared(tmp_path, says, reprofs):
    (first, _) = compare.pairs(record(), record(exit=1), 0.01)
    assert first.verdict == "fails now" and first.worse
    (first, _) = compare.pairs(record(exit=1), record(exit=1), 0.01)
    assert not first.worse
    gone = compare.pairs(record(), record().model_copy(update={"rows": record().rows[:1]}), 0.01)
    assert [pair.verdict for pair in gone] == ["equal", "gone"] and gone[1].worse
    for key, value in (("cache", "warm"), ("cores", 2), ("protocol", 6), ("lab", "exact@v1-1ns")):
        with pytest.raises(UserError, match=f"cannot be compared: {key} is"):
            compare.pairs(record(), record().model_copy(update={key: value}), 0.01)
    other = record().model_copy(update={"command": ["other"], "environment": {"PATH": "/x", "A": "b"}})
    assert compare.differences(record(), other) == ["the command", "environment variable A, PATH"]


def test_compare_takes_two_records_and_fails_above(tmp_path, reprofs):
    for name, one in (("base", record()), ("now", record(time_ns=1_020_000, flushes=5))):
        (tmp_path / f"{name}.json").write_text(words.written(one))
    names = [tmp_path / "base.json", tmp_path / "now.json"]
    done = reprofs("compare", *names, "--fail-above", "1%", "--format", "markdown")
    assert done.returncode == 1
    assert "| ext4+default | ssd-nvme | 1.000 | 1.020 | +2 % | same | same | +2 | slower |" in done.stdout
    assert reprofs("compare", *names, "--fail-above", "3%").returncode == 0
    assert reprofs("compare", *names).returncode == 0
    done = reprofs("compare", *names, "--fail-above", "2%", "--format", "json", "--output", tmp_path / "said.json")
    said = json.loads((tmp_path / "said.json").read_text())
    assert done.returncode == 1 and [row["verdict"] for row in said["rows"]] == ["slower", "equal"]
    assert said["rows"][0]["ratio"] == pytest.approx(1.02) and said["differences"] == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--", "no-such-program"], "there is no program 'no-such-program' in PATH"),
        (["--", "./no-such-program"], "there is no program './no-such-program': name one that exists"),
        (["--filesystem", "ext5", "--", "true"], "ext5"),
        (["--device", "floppy", "--", "true"], "floppy"),
        (["--study", "no-such-study", "--", "true"], "no-such-study"),
        (["--study", "networks", "--", "true"], "the study networks has no file system on one device in the exact lab"),
        (["--study", "quick", "--device", "floppy", "--", "true"], "floppy"),
        (["--cores", "3", "--", "true"], "--cores is 3, but CPU models have 1, 2, 4, 8."),
        (["--input", "no-such-folder", "--", "true"], "--input no-such-folder is not a folder"),
        (["--root", "no-such-root", "--", "true"], "--root 'no-such-root' does not exist"),
        (["--env", "=x", "--", "true"], "--env '=x' is not NAME=VALUE."),
        (["--fail-above", "1%", "--", "true"], "add --base RECORD"),
        (["--base", "no-such-record.json", "--", "true"], "there is no file 'no-such-record.json'"),
    ],
)
def test_a_mistake_is_said_before_anything_runs(tmp_path, reprofs, says, options, sentence):
    says(reprofs("measure", *options, cwd=tmp_path), sentence)


def test_what_the_run_here_showed_is_said(tmp_path):
    (tmp_path / "beside.py").write_text("")
    made = tree_at(tmp_path / "tree", Found, began=0, without=[])
    made.changed.add("/var/lib/state")
    run = program.Practice(2, {"/etc/resolv.conf", "/dev/dri/card0"}, set(), "first\nno such file\n")
    notes = program._notes(run, made, ["python3", "beside.py"], tmp_path, None)
    assert [note.split(":")[0] for note in notes] == [
        "Here it exited with 2 (no such file).",
        "It runs in an empty folder, where 'beside.py' is not",
        "It looked up a host name",
        "It used '/dev/dri/card0', which the lab lacks.",
        "/var/lib/state changed while it ran here, so the lab has no such file",
    ]
    assert not program._notes(
        program.Practice(), tree_at(tmp_path / "other", Found, began=0, without=[]), [], tmp_path, None
    )


def test_the_image_is_mounted_where_the_lab_puts_it():
    load = trials.workload("a" * 64, 8192, "warm", 10)
    assert f"{IMAGE_OPTION} {'a' * 64} 16" in load["populate"][0]["run"]
    assert f"linear /dev/programs {IMAGE_AT // 512}" in load["populate"][0]["run"]
    assert load["populate"][1]["run"] == "cp -a /run/program/input/. ." and load["phases"][0]["cache"] == "warm"
    assert len(trials.workload("a" * 64, 8192, "cold", 0)["populate"]) == 1
    assert trials.workload("a" * 64, 8192, "cold", 2 << 30)["scales"]["smoke"]["device_mib"] == 8192
    assert trials.processor(1, Catalog()).name == "v2-0.5ns" and trials.processor(4, Catalog()).count == 4


def test_a_study_names_file_systems_and_devices():
    """Each once, by device; only those on one device in the exact lab."""
    catalog = Catalog()
    systems = ["ext4+default", "xfs+default", "btrfs+none", "reiserfs+default", "f2fs+default", "nilfs2+default"]
    systems += ["jfs+default", "tmpfs+default"]
    assert trials.of_study("quick", [], catalog) == [("ssd", name) for name in systems]
    assert trials.of_study("quick", ["ssd-nvme", "hdd-7200"], catalog)[8:10] == [
        ("hdd-7200", "ext4+default"),
        ("hdd-7200", "xfs+default"),
    ]
    several = trials.of_study("flushed-files", [], catalog)
    assert len(set(several)) == len(several) and several == sorted(
        several, key=lambda pair: [device for device, _ in several].index(pair[0])
    )
    catalog.add(Workload, trials.WORKLOAD, trials.workload("", 0, "cold", 0))
    found = trials.cells(several, trials.processor(1, catalog), catalog)
    assert [(one.profile, one.label) for one in found] == several and trials.guests(found, catalog) == ["base"]


def test_an_image_lies_behind_the_programs_of_its_job(tmp_path):
    (tmp_path / "program").write_bytes(b"program")
    (tmp_path / f"{'a' * 64}.erofs").write_bytes(b"image")
    both = {path.name: path for path in tmp_path.iterdir()}
    carried.write(tmp_path / "module", both, 2 * IMAGE_AT)
    with (tmp_path / "module").open("rb") as module:
        assert b"programs/program" in module.read(4096)
        module.seek(IMAGE_AT)
        assert module.read(6) == b"image\0" and module.seek(0, 2) == 2 * IMAGE_AT
    assert {carried.digest_of(path) for path in both.values()} == {"a" * 64, files.sha256(tmp_path / "program")}
    carried.write(tmp_path / "module", {}, 4096)
    assert (tmp_path / "module").stat().st_size == 4096
    with pytest.raises(UserError, match="at most 64 fit: use a smaller recording"):
        carried.write(tmp_path / "module", {"program": both["program"]}, 64)


# ---- in the lab


@pytest.mark.wide
def test_a_script_with_its_input_is_the_same_twice_and_its_parts_are_its_time(guest, tmp_path, reprofs):
    """On Btrfs, too, which does not unmount while something of the program's root is mounted on it."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given/read").write_text("what is read\n")
    (tmp_path / "given/lists.sh").write_text(LISTS)
    (tmp_path / "given/lists.sh").chmod(0o755)
    found = []
    for name, split in (("first", []), ("second", ["--no-split"])):
        options = ["--filesystem", "btrfs", "--input", "given", "--output", f"{name}.json", *split]
        done = reprofs("measure", *options, "--", "./lists.sh", "read", cwd=tmp_path)
        assert done.returncode == 1 and "the program exited with 3." in done.stdout
        assert done.stderr.endswith("its end:\nsame\nwhat is read\n") and "Here it exited with 3" in done.stderr
        found.append(read(tmp_path / f"{name}.json"))
    assert found[0].image == found[1].image
    row, again = (one.rows[0] for one in found)
    assert row.measurement == again.measurement and again.numbers.user_ns is None
    assert row.status == "ok" and row.output == "same\nwhat is read" and row.numbers.exit == 3
    numbers = row.numbers
    assert numbers.user_ns + numbers.kernel_ns + numbers.idle_ns == numbers.time_ns
    assert numbers.user_ns > 0 and numbers.kernel_ns > 0 and numbers.instructions == 2 * numbers.busy_ns


@pytest.mark.wide
def test_a_program_that_does_nothing_pays_for_no_thread_of_the_kernel(guest, tmp_path, reprofs):
    """Before the program begins, something of F2FS leaves 2.6 MB to write, and something of ext4 writes 67 MB."""
    (tmp_path / "given").mkdir()
    for number in range(300):
        (tmp_path / f"given/{number}").write_bytes(b"x" * 20_000)
    options = [
        "--filesystem",
        "f2fs,btrfs,ext4",
        "--device",
        "ssd-nvme-plp",
        "--warm",
        "--no-split",
        "--input",
        "given",
        "--output",
        "record.json",
    ]
    done = reprofs("measure", *options, "--", "true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for row in read(tmp_path / "record.json").rows:
        assert row.numbers.sync_ns < 100_000 and row.numbers.read_bytes == row.numbers.written_bytes == 0


@pytest.mark.wide
def test_one_more_turn_in_a_thousand_is_found(guest, tmp_path, reprofs):
    """A program with a little more work, in another file of the same name."""
    script = tmp_path / "turns.sh"
    more = ["--base", "base.json", "--fail-above", "0.05%", "--format", "markdown"]
    for turns, name, options in ((20_000, "base", []), (20_020, "now", more)):
        script.write_text(f"i=0; while [ $i -lt {turns} ]; do i=$((i + 1)); done")
        options = ["--filesystem", "ext4", "--no-split", "--output", f"{name}.json", *options]
        done = reprofs("measure", *options, "--", "sh", script, cwd=tmp_path)
        assert done.returncode == (name == "now") and done.stdout.rstrip().endswith("| slower |") == (name == "now")
    (pair,) = compare.pairs(read(tmp_path / "base.json"), read(tmp_path / "now.json"), 0.0005)
    assert pair.verdict == "slower" and 1.0005 < pair.ratio < 1.002


def example_for_ci() -> dict:
    """The job of the workflow in the document."""
    text = (ROOT / "docs/measure.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    return yaml.safe_load(block)["jobs"]["measure"]


def test_the_example_for_ci_is_a_workflow_with_known_options():
    job = example_for_ci()
    runs = "\n".join([job["env"]["MEASURE"], *(step.get("run", "") for step in job["steps"])])
    known = {word for action in parser()._actions for word in getattr(action, "option_strings", [])}
    given = [line.split(" -- ")[0] for line in runs.splitlines() if "measure " in line or "$MEASURE" in line]
    assert len(given) == 3 and set(re.findall(r"--[a-z-]+", " ".join(given))) <= known


@pytest.mark.wide
@pytest.mark.parametrize(
    ("turns", "least", "code", "verdict"),
    [
        (5_000_000, "1%", 0, "equal"),
        (5_100_000, "1%", 1, "slower"),
        (5_005_000, "1%", 0, "within"),
        (5_005_000, "0.05%", 1, "slower"),
    ],
)
def test_the_example_for_ci_finds_what_is_slower(guest, tmp_path, turns, least, code, verdict):
    """Its step with the measurements, as it stands in the document: a loop with 2 % and 0.1 % more turns."""
    job = example_for_ci()
    (step,) = [step["run"] for step in job["steps"] if "$MEASURE" in step.get("run", "")]
    assert step.count("--fail-above 1%") == 1
    for name, number in (("before", 5_000_000), ("after", turns)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Makefile").write_text("program: main.c\n\tgcc -O1 -static -o $@ $<\n")
        loop = f"for (volatile long i = 0; i < {number}; i++) continue;"
        (tmp_path / name / "main.c").write_text(f"int main(void) {{ {loop} return 0; }}\n")
    measure = job["env"]["MEASURE"].replace("reprofs/.venv/bin/reprofs", f"{BIN}/reprofs")
    environment = {**os.environ, "MEASURE": measure, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    step = step.replace("--fail-above 1%", f"--fail-above {least}")
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", step], cwd=tmp_path, env=environment)
    said = (tmp_path / "comment.md").read_text()
    assert done.returncode == code and (tmp_path / "summary.md").read_text() == said
    assert f"| {verdict} |" in said
    (pair,) = compare.pairs(read(tmp_path / "base.json"), read(tmp_path / "now.json"), 0.0005)
    assert 0.8 * (turns / 5e6 - 1) <= pair.ratio - 1 <= turns / 5e6 - 1


@pytest.mark.wide
def test_a_static_program_of_an_exported_container_runs(guest, tmp_path, reprofs):
    """Alone in its root, on two cores, with a variable of its own in its environment."""
    program = engine.build(files.cache_folder(), "walk")
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(program, "opt/walk")
    options = ["--filesystem", "tmpfs", "--cores", "2", "--root", "root.tar", "--env", "A=b", "--no-split"]
    options += ["--output", "record.json"]
    done = reprofs("measure", *options, "--", "/opt/walk", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "usage: engine walk" in done.stderr and "running" not in done.stderr
    (row,), found = read(tmp_path / "record.json").rows, read(tmp_path / "record.json")
    assert row.numbers.user_ns is row.numbers.instructions is row.numbers.written_bytes is None
    assert found.cores == 2 and found.environment["A"] == "b" and 0 < row.numbers.busy_ns < 2 * row.numbers.time_ns


@pytest.mark.soak
def test_user_and_kernel_are_told_apart_on_several_cores(guest, tmp_path, reprofs):
    """By a QEMU that loads plugins, which is compiled once, and measures the same."""
    (tmp_path / "spin.c").write_text(SPIN)
    subprocess.run(["gcc", "-O1", "-static", "-pthread", "-o", "spin", "spin.c"], cwd=tmp_path, check=True)
    options = ["--filesystem", "tmpfs", "--cores", "4", "--output", "record.json"]
    done = reprofs("measure", *options, "--", tmp_path / "spin", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = read(tmp_path / "record.json").rows
    numbers = row.numbers
    assert numbers.user_ns + numbers.kernel_ns == numbers.busy_ns < 4 * numbers.time_ns
    # Four threads of a million turns of at least four instructions, each of half a nanosecond.
    assert 8_000_000 < numbers.user_ns < 16_000_000 and numbers.time_ns < numbers.user_ns
    assert 2 * numbers.user_ns < numbers.instructions <= 2 * numbers.busy_ns
