"""`reprofs record --from-strace`: the text of strace becomes the calls of a recording, and the tree before them."""

import lzma
import random
import re
from pathlib import Path

import pytest
from conftest import ROOT
from reprofs.errors import UserError
from reprofs.plan import recording
from reprofs.plan.read import read_yaml
from reprofs.plan.recording import SUFFIX, _Calls, _Entries
from reprofs.plan.workload import Workload
from reprofs.recorder import retell, strace
from reprofs.recorder.before import Before
from reprofs.recorder.follow import Follower
from reprofs.recorder.names import AsTheyAre

# A shell script: cat, tar, mv, rm in the background, dd; its output went to notes/diary.log.
THESIS = ROOT / "tests/fixtures/strace/thesis.txt"
LAB = "/srv/lab"
BEGIN = f'1 openat(-100<{LAB}>, "/etc/some.cache", 0x80000) = 3</etc/some.cache>\n1 close(3</etc/some.cache>) = 0\n'


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder that counts as a checkout, in which one works."""
    (tmp_path / "workflow" / "schemas").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Retold:
    """What strace's text becomes, with its own names."""

    def __init__(self, folder: Path, *texts: str) -> None:
        paths = [folder / f"text.{number}" for number in range(1, len(texts) + 1)]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="latin-1")
        found = strace.survey(paths)
        self.follower = Follower([LAB], found.folder, found.umask or 0o022, AsTheyAre(), here=False)
        self.reader = retell.Reader(paths, found, [LAB])
        for event in self.reader.events():
            self.follower.take(event)
        self.calls, self.who = self.follower.calls()
        before = Before(AsTheyAre(), 1, self.follower.told)
        for line in self.calls:
            before.take(line)
        self.before, self.guesses = before.entries(), before.guesses()

    def check(self) -> None:
        """As a recording is checked when it is read."""
        calls, entries = _Calls(self.follower.lines.handles, 0), _Entries()
        for line in self.calls:
            calls(line)
        for entry in self.before:
            entries(entry)


def process(lines) -> list[str]:
    """Lines without a process are of the first."""
    return [line if re.match(r"\d+ ", line) else f"1 {line}" for line in lines]


@pytest.fixture
def retold(tmp_path):
    """Calls and tree of lines; what process 1 does first is added."""

    def read(*lines: str) -> Retold:
        return Retold(tmp_path, BEGIN + "".join(f"{line}\n" for line in process(lines)))

    return read


def test_a_program_of_another_machine_is_replayed_wholly_and_no_name_is_kept(reprofs, place):
    done = reprofs("record", "--from-strace", THESIS, "--output", "it", cwd=place)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "73 calls below the roots, by 8 threads" in said and "100.00 %" in said
    assert "73 of 73 results as recorded" in said and "It used 1 file that it was not seen to open" in said
    assert "as recorded; the tree after" not in said and "umask; it is taken to be 022" in said
    path = place / "workflow/recordings" / f"it{SUFFIX}"
    content = recording.read(path)
    assert content.head.unchecked == 0 and not content.head.left_out and content.head.filesystem == "unknown"
    read_yaml(place / "workflow/workloads/it.yaml", Workload)
    whole, text = lzma.decompress(path.read_bytes()).decode(), THESIS.read_text()
    names = ["thesis", "manuscript", "chapters", "figures", "opening", "middle", "curve", "diary", "machine", "backup"]
    assert [name in text for name in names] == [True] * len(names)
    assert not [name for name in names if name in whole]

    # Three files with their sizes, one by two names, a folder that was reached by a link, and before it was moved.
    kinds = [line[0] for line in content.before]
    assert [kinds.count(kind) for kind in "dflh"] == [5, 4, 2, 1]
    assert sorted(line[3] for line in content.before if line[0] == "f") == [0, 3001, 6002, 20000]
    link = next(
        line for line in content.before if line[0] == "l" and "/" in line[1] and len(line[1].split("/")[1]) == 5
    )
    folder = next(line[1] for line in content.before if line[0] == "d" and line[1].endswith(f"/{link[2]}"))
    assert {line[1].rpartition("/")[0] for line in content.before if line[0] == "f"} >= {folder}
    assert sorted(line[3] for line in content.after if line[0] == "f") == [5, 3001, 6002, 9003, 9003, 20000, 30720]


CALLS = {
    "the result of a call that was resumed, in the order in which calls began": (
        [
            "1 clone(child_stack=NULL, flags=0x11, child_tidptr=0x7f) = 2",
            '1 openat(-100</srv/lab>, "a", 0x41, 0600 <unfinished ...>',
            f'2 mkdirat(-100<{LAB}>, "b", 0750) = 0',
            f"1 <... openat resumed>) = 3<{LAB}/a>",
        ],
        [["open", 0, 0, "a", 0o101, 0o600, 1], ["mkdir", 0, 0, "b", 0o750]],
    ),
    "no call that is made again, and errors as numbers": (
        [
            'rmdir("a") = ? ERESTARTSYS (To be restarted if SA_RESTART is set)',
            "--- SIGALRM {si_signo=14, si_code=0x80} ---",
            'rmdir("a") = -1 EINTR (Interrupted system call)',
            'rmdir("a") = -1 ENOENT (No such file or directory)',
        ],
        [["rmdir", -2, 0, "a"]],
    ),
    "descriptors through dup, fork and exec": (
        [
            f'openat(-100<{LAB}>, "a", 0x80041, 0600) = 3<{LAB}/a>',
            f"dup2(3<{LAB}/a>, 9) = 9<{LAB}/a>",
            "vfork( <unfinished ...>",
            '2 execve("/bin/tool", [""...], [""...]) = 0',
            f'2 write(9<{LAB}/a>, ""..., 70) = 70',
            "2 exit_group(0) = ?",
            "2 +++ exited with 0 +++",
            "<... vfork resumed>) = 2",
            "--- SIGCHLD {si_signo=17} ---",
            f"close(9<{LAB}/a>) = 0",
            f"close(3<{LAB}/a>) = 0",
        ],
        [["open", 0, 0, "a", 0x80041, 0o600, 1], ["write", 70, 1, 70], ["close", 0, 1]],
    ),
    "folders that paths begin in": (
        [
            'chdir("in") = 0',
            f'openat(-100<{LAB}/in>, "..", 0x210000) = 4<{LAB}>',
            f'unlinkat(4<{LAB}>, "old", 0x200) = 0',
            f'renameat2(4<{LAB}>, "x", -100<{LAB}/in>, "y", 0x1) = 0',
            f"fchdir(4<{LAB}>) = 0",
            'truncate("z", 5) = 0',
        ],
        [
            *(["enter", 0, 0, "in", 1], ["open", 0, 0, ".", 0x210000, 0, 2], ["rmdir", 0, 2, "old"]),
            *(["rename", 0, 2, "x", 1, "y", 1], ["close", 0, 1], ["truncate", 0, 2, "z", 5]),
        ],
    ),
    "the working folder of who went through a link": (
        ['chdir("/srv/lab/way") = 0', f'newfstatat(-100<{LAB}/real/inner>, "../a", {{st_mode=0100644}}, 0) = 0'],
        [["enter", 0, 0, "way", 1], ["stat", 0, 0, "real/a", 0]],
    ),
    "structures": (
        [
            f'openat2(-100<{LAB}>, "a", {{flags=0x42, mode=0640, resolve=0x8}}, 24) = 3<{LAB}/a>',
            f"fcntl(3<{LAB}/a>, 0x6, {{l_type=0x1, l_whence=0, l_start=-7, l_len=9}}) = 0",
            f"copy_file_range(3<{LAB}/a>, [5], 3<{LAB}/a>, NULL, 10, 0) = 10",
            f"sendfile(3<{LAB}/a>, 3<{LAB}/a>, [3] => [8], 5) = 5",
            f'pwritev2(3<{LAB}/a>, [{{iov_base=""..., iov_len=4}}, {{iov_base=""..., iov_len=2}}], 2, 40, 0) = 6',
            f"utimensat(3<{LAB}/a>, NULL, [{{tv_sec=1, tv_nsec=2}} /* 1970-01-01 */, NULL], 0) = 0",
            f'statx(-100<{LAB}>, "a", , 0x7ff, {{stx_mask=0x17ff, stx_mode=0100640}}) = 0',
        ],
        [
            *(["open", 0, 0, "a", 0x42, 0o640, 1], ["lock", 0, 1, 1, 0, -7, 9], ["copy", 10, 1, 1, 10, 5, -1]),
            *(["send", 5, 1, 1, 5, 3], ["pwrite", 6, 1, 6, 40], ["fset-times", 0, 1], ["stat", 0, 0, "a", 0]),
        ],
    ),
    "names with all kinds of letters, in both ways to print them": (
        [r'mkdir("a\"\\\303\251\n(,", 0700) = 0', r'mkdir("\x62\x3e", 0700) = 0', r'rmdir("/srv/lab/c>d") = 0'],
        [["mkdir", 0, 0, 'a"\\é\n(,', 0o700], ["mkdir", 0, 0, "b>", 0o700], ["rmdir", 0, 0, "c>d"]],
    ),
    "files that were open before": (
        [
            f'write(1<{LAB}/log>, ""..., 9) = 9',
            f'read(5<{LAB}/in put\\76>, ""..., 9) = 4',
            'write(2</var/log/x>, ""..., 1) = 1',
        ],
        [
            *(["open", 0, 0, "log", 0o2001, 0, 1], ["write", 9, 1, 9]),
            *(["open", 0, 0, "in put>", 0, 0, 2], ["read", 4, 2, 9]),
        ],
    ),
    "mappings, of which all pages are used": (
        [
            f'openat(-100<{LAB}>, "a", 0x2) = 3<{LAB}/a>',
            f"mmap(NULL, 5000, 0x3, 0x1, 3<{LAB}/a>, 0x1000) = 0x7f0000000000",
            "mmap(NULL, 5000, 0x3, 0x22, -1, 0) = 0x7f0000100000",
            "msync(0x7f0000001000, 904, 0x4) = 0",
            "mremap(0x7f0000000000, 8192, 16384, 0x1) = 0x7f0000200000",
            "munmap(0x7f0000200000, 16384) = 0",
            f"mmap(NULL, 100, 0x1, 0x2, 3<{LAB}/a>, 0) = 0x7f0000000000",
            f"mmap(0x7f0000000000, 100, 0x1, 0x12, 3<{LAB}/a>, 0) = 0x7f0000000000",
            'execve("/bin/tool", [""...], [""...]) = 0',
        ],
        [
            *(["open", 0, 0, "a", 2, 0, 1], ["map", 0, 1, 4096, 5000, 3, 1, 2], ["touch", 0, 2, 0, 2, 1]),
            *(["msync", 0, 2, 4096, 904, 4], ["unmap", 0, 2], ["map", 0, 1, 0, 100, 1, 2, 2], ["touch", 0, 2, 0, 1, 0]),
            *(["map", 0, 1, 0, 100, 1, 2, 3], ["unmap", 0, 2], ["touch", 0, 3, 0, 1, 0], ["unmap", 0, 3]),
        ],
    ),
    "mappings of who shares memory, until the last has left it": (
        [
            f'openat(-100<{LAB}>, "a", 0) = 3<{LAB}/a>',
            f"mmap(NULL, 100, 0x1, 0x2, 3<{LAB}/a>, 0) = 0x7f0000000000",
            "vfork() = 2",
            "2 msync(0x7f0000000000, 50, 0x1) = 0",
            '2 execve("/bin/tool", [""...], [""...]) = 0',
            "2 msync(0x7f0000000000, 60, 0x1) = -1 ENOMEM (Cannot allocate memory)",
            "2 +++ exited with 0 +++",
            "msync(0x7f0000000000, 70, 0x1) = 0",
        ],
        [
            *(["open", 0, 0, "a", 0, 0, 1], ["map", 0, 1, 0, 100, 1, 2, 2], ["touch", 0, 2, 0, 1, 0]),
            *(["msync", 0, 2, 0, 50, 1], ["msync", 0, 2, 0, 70, 1]),
        ],
    ),
    "attributes, and the mode in an access list": (
        [
            'getxattr("a", "user.x", ""..., 10) = -1 ENODATA (No data available)',
            r'setxattr("a", "system.posix_acl_access", "\x02\0\0\0\1\0\6\0\377\377\377\377\4\0\4\0\377\377\377\377 \0'
            r'\4\0\377\377\377\377", 28, 0) = 0',
        ],
        [["getxattr", -61, 0, "a", 6, 10, 0], ["setxattr", 0, 0, "a", 2, 0o644, 0, 0]],
    ),
    "a thread that starts another program": (
        [
            f'openat(-100<{LAB}>, "a", 0) = 3<{LAB}/a>',
            "clone3({flags=0x3d0f00, exit_signal=0, stack=0x7f, stack_size=0x7f} => {parent_tid=[2]}, 88) = 2",
            "futex(0x7f, 0x89, 0 <unfinished ...>",
            f'2 execve("{LAB}/tool", [""...], [""...] <pid changed to 1 ...>',
            "1 <... futex resumed> <unfinished ...>) = ?",
            "1 +++ superseded by execve in pid 2 +++",
            "1 <... execve resumed>) = 0",
            f"1 fsync(3<{LAB}/a>) = 0",
            "1 +++ killed by SIGTERM +++",
        ],
        [["open", 0, 0, "a", 0, 0, 1], ["fsync", 0, 1], ["close", 0, 1]],
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_lines_become(retold, what):
    lines, calls = CALLS[what]
    found = retold(*lines)
    assert found.calls == calls
    assert found.follower.left_out == ({"start of a program below the roots": 1} if "thread" in what else {})
    if all(str(line).isascii() and "\\" not in str(line) for line in calls):
        found.check()


def test_what_a_replay_cannot_make_is_counted_by_kind(retold):
    fd = f"3<{LAB}/a>"
    found = retold(
        f'openat(-100<{LAB}>, "a", 0) = {fd}',
        'getxattr("a", ""..., ""..., 10) = 4',
        'getxattr("/etc/hosts", ""..., ""..., 10) = -1 ENODATA (No data available)',
        "syscall_0x1c4(0xffffff9c, 0x558026cb13df, 0x1a4, 0, 0x73, 0) = 0",
        "syscall_0x1ff(0x1) = 0",
        f'preadv2({fd}, [{{iov_base=""..., iov_len=4}}], 1, 40, 0x2) = 4',
        "io_uring_enter(21<anon_inode:[io_uring]>, 2, 2, 0x1, NULL, 0) = 2",
        "recvmsg(17<socket:[1]>, {msg_control=[{cmsg_len=20, cmsg_level=0x1, cmsg_type=0x1, cmsg_data=[18]}]}, 0) = 1",
        f"fanotify_mark(4<anon_inode:[fanotify]>, 0x1, 0x1, -100<{LAB}>, NULL) = 0",
        f"poll([{{fd={fd}, events=0x1}}], 1, 10) = 1",
        "poll([{fd=5<TCP:[10.0.0.1:22->10.0.0.2:4]>, events=0x1}], 1, 10) = 1",
        f'getcwd("{LAB}", 4096) = 9',
        'stat64("a", {st_mode=0100644}) = 0',
        f"_llseek({fd}, 0, [0], 0x1) = 0",
    )
    assert found.calls == [["open", 0, 0, "a", 0, 0, 1]]
    assert found.follower.left_out == {
        "attribute whose name was not printed (strace -s 255 prints it)": 1,
        "fchmodat2, which that strace did not know": 1,
        "io_uring, whose operations are no calls": 1,
        "descriptor passed through a socket": 1,
        "fanotify_mark": 1,
        "preadv2 with flags": 1,
        "call of a 32-bit program": 2,
    }
    assert found.follower.said["unknown calls"] == 1 and found.reader.code is None


def test_threads_are_lanes(retold):
    found = retold(
        "clone3({flags=0x3d0f00, exit_signal=0, stack=0x7f, stack_size=0x7f} => {parent_tid=[7]}, 88) = 7",
        'mkdir("a", 0700 <unfinished ...>',
        '7 mkdir("b", 0700) = 0',
        "1 <... mkdir resumed>) = 0",
        "7 exit(0) = ?",
        "7 +++ exited with 0 +++",
        'rmdir("a") = 0',
    )
    assert [line[:4] for line in found.calls] == [["mkdir", 0, 0, "a"], ["mkdir", 0, 0, "b"], ["rmdir", 0, 0, "a"]]
    assert found.who == [[0], [1], [0, 1, 1]]


def test_a_file_for_each_process_is_read_by_their_times(tmp_path):
    start = BEGIN.replace("1 openat", "100.0 openat").replace("1 close", "100.1 close")
    first = start + '100.3 fork() = 2\n100.5 mkdir("b", 0700) = 0\n100.7 +++ killed by SIGHUP +++\n'
    second = '100.4 mkdir("a", 0700) = 0\n100.6 mkdir("c", 0700) = 0\n100.65 +++ exited with 3 +++\n'
    found = Retold(tmp_path, first, second)
    assert [line[3] for line in found.calls] == ["a", "b", "c"] and found.who == [[1], [0], [1]]
    assert found.reader.code == 128 + 1 and found.reader.lacks() == []
    with pytest.raises(UserError, match=r"text\.2: line 1 has no time.*add -ttt to strace"):
        Retold(tmp_path, first, "2 sync() = 0\n")


STAT = "{{st_dev=0x1, st_ino={}, st_mode={}, st_nlink={}, st_uid=0, st_gid=0, st_blocks={}, st_size={}}}"
TREES = {
    "sizes, modes and holes as stat tells them, in the order of inodes": (
        [
            f'stat("a", {STAT.format(9, "0100600", 1, 16, 5000)}) = 0',
            f'stat("b", {STAT.format(8, "0100640", 1, 8, 9000)}) = 0',
            f'stat("c/d", {STAT.format(7, "040700", 2, 8, 4096)}) = 0',
        ],
        [["d", "c", 0o755], ["d", "c/d", 0o700], ["f", "b", 0o640, 9000, 4096], ["f", "a", 0o600, 5000, 5000]],
    ),
    "what a listing tells": (
        [
            f'openat(-100<{LAB}>, "c", 0x90800) = 3<{LAB}/c>',
            f'getdents64(3<{LAB}/c>, [{{d_ino=2, d_off=1, d_reclen=24, d_type=0x4, d_name=".."}}, {{d_ino=9, d_off=2, '
            'd_reclen=24, d_type=0x8, d_name="f,}"}, {d_ino=5, d_off=3, d_reclen=24, d_type=0x4, d_name="g"}, '
            '{d_ino=4, d_off=4, d_reclen=24, d_type=0xa, d_name="l"}], 32768) = 96',
            f"getdents64(3<{LAB}/c>, [], 32768) = 0",
            f'openat(-100<{LAB}>, "c/new", 0x42, 0600) = 4<{LAB}/c/new>',
            f'read(4<{LAB}/c/new>, ""..., 100) = 9',
        ],
        [["d", "c", 0o755], ["d", "c/g", 0o755], ["l", "c/l", "x"], ["f", "c/f,}", 0o644, 0, 0]],
    ),
    "as large as what is read of it": (
        [
            f'openat(-100<{LAB}>, "a", 0x2) = 3<{LAB}/a>',
            f'pread64(3<{LAB}/a>, ""..., 100, 900) = 100',
            f'pwrite64(3<{LAB}/a>, ""..., 100, 5000) = 100',
            f'pread64(3<{LAB}/a>, ""..., 50, 5000) = 50',
            f'openat(-100<{LAB}>, "b", 0) = 4<{LAB}/b>',
            f"lseek(4<{LAB}/b>, -10, 0x2) = 290",
            f"lseek(4<{LAB}/b>, 0, 0) = 0",
            f'openat(-100<{LAB}>, "c", 0) = 5<{LAB}/c>',
            f'read(5<{LAB}/c>, ""..., 500) = 44',
            f"mmap(NULL, 5000, 0x1, 0x2, 4<{LAB}/b>, 0) = 0x7f0000000000",
        ],
        [["f", "a", 0o644, 1000, 1000], ["f", "b", 0o644, 300, 300], ["f", "c", 0o644, 44, 44]],
    ),
    "nothing of what the program made, wherever it is now": (
        [
            'mkdir("new", 0700) = 0',
            'rename("old", "new/old") = 0',
            'rename("new", "newer") = 0',
            f'stat("newer/old/inside/file", {STAT.format(4, "0100644", 1, 8, 7)}) = 0',
            'unlink("newer/old/inside/file") = 0',
            'unlink("newer/old/inside/file") = -1 ENOENT (No such file or directory)',
            'symlink("old", "newer/link") = 0',
            'chmod("newer/link/inside/other", 0600) = 0',
        ],
        [
            *(["d", "old", 0o755], ["d", "old/inside", 0o755], ["f", "old/inside/file", 0o644, 7, 7]),
            ["f", "old/inside/other", 0o644, 0, 0],
        ],
    ),
    "links, by what they hold and by where they lead": (
        [
            'readlink("a", "b/c", 100) = 3',
            f'openat(-100<{LAB}>, "a/d", 0) = 3<{LAB}/b/c/d>',
            f'stat("short/f", {STAT.format(6, "0100600", 1, 8, 5)}) = 0',
            f'openat(-100<{LAB}>, "short/e", 0) = 4<{LAB}/long/way/e>',
            f'newfstatat(-100<{LAB}>, "far", {STAT.format(5, "0120777", 1, 0, 4)}, 0x100) = 0',
        ],
        [
            *(["d", "b", 0o755], ["d", "long", 0o755], ["d", "b/c", 0o755], ["d", "long/way", 0o755]),
            *(["l", "far", "xxxx"], ["l", "a", "b/c"], ["f", "b/c/d", 0o644, 0, 0], ["l", "short", "long/way"]),
            *(["f", "long/way/e", 0o644, 0, 0], ["f", "long/way/f", 0o600, 5, 5]),
        ],
    ),
    "one file by two names": (
        [
            f'stat("a", {STAT.format(5, "0100644", 2, 8, 30)}) = 0',
            f'stat("b", {STAT.format(5, "0100644", 2, 8, 30)}) = 0',
        ],
        [["f", "a", 0o644, 30, 30], ["h", "b", "a"]],
    ),
    "what failed calls tell": (
        [
            'mkdir("a", 0700) = -1 EEXIST (File exists)',
            'rmdir("b") = -1 ENOTEMPTY (Directory not empty)',
            f'openat(-100<{LAB}>, "c", 0x10000) = -1 ENOTDIR (Not a directory)',
            f'openat(-100<{LAB}>, "d", 0x2) = -1 EISDIR (Is a directory)',
            f'openat(-100<{LAB}>, "e", 0x20000) = -1 ELOOP (Too many levels of symbolic links)',
            f'openat(-100<{LAB}>, "f", 0) = -1 ENOENT (No such file or directory)',
            f'openat(-100<{LAB}>, "f", 0x42, 0600) = 3<{LAB}/f>',
            f'read(3<{LAB}/f>, ""..., 100) = 9',
        ],
        [
            *(["d", "a", 0o755], ["d", "b", 0o755], ["d", "d", 0o755], ["f", "b/something", 0o644, 0, 0]),
            *(["f", "c", 0o644, 0, 0], ["l", "e", "x"]),
        ],
    ),
    "a file that may have been made, by what is in it": (
        [
            f'openat(-100<{LAB}>, "there", 0x42, 0600) = 3<{LAB}/there>',
            f'read(3<{LAB}/there>, ""..., 100) = 100',
            f'openat(-100<{LAB}>, "made", 0x42, 0600) = 4<{LAB}/made>',
            f'read(4<{LAB}/made>, ""..., 100) = 0',
            f'openat(-100<{LAB}>, "log", 0x441, 0600) = 5<{LAB}/log>',
            f'write(5<{LAB}/log>, ""..., 20) = 20',
            f'stat("log", {STAT.format(5, "0100600", 1, 8, 120)}) = 0',
            f'openat(-100<{LAB}>, "emptied", 0x241, 0600) = 6<{LAB}/emptied>',
            f'stat("emptied", {STAT.format(6, "0100600", 1, 8, 120)}) = 0',
        ],
        [["f", "log", 0o644, 100, 100], ["f", "there", 0o644, 100, 100]],
    ),
}


@pytest.mark.parametrize("what", TREES)
def test_the_tree_before_has(retold, what):
    lines, tree = TREES[what]
    found = retold(*lines)
    found.check()
    assert sorted(map(str, found.before)) == sorted(map(str, [["d", ".", 0o755], *tree]))
    if "order" in what:
        assert found.before == [["d", ".", 0o755], *tree]


BAD = {
    "names of flags": ('1 openat(AT_FDCWD</x>, "a", O_RDONLY) = 3</x/a>', "line 3: flags are names", "-X raw"),
    "a number by name": ("1 lseek(3</x>, 0, SEEK_SET) = 0", "line 3: it has 'SEEK_SET'", "-X raw"),
    "descriptors without places": ('1 openat(-100</x>, "a", 0) = 3', "line 3: it does not say", "add -y"),
    "a name that was cut": ('1 mkdir("aaa"..., 0700) = 0', "line 3: a name in it was cut", "record again"),
    "a process from nowhere": ("7 sync() = 0", "line 3: nothing before it starts process 7", "with -f"),
    "a thread from nowhere": ("1 +++ superseded by execve in pid 9 +++", "line 3: nothing before it starts thread 9"),
    "no line of strace": ("make: *** [all] Error 2", "line 3: 'make: *** [all] Error 2' is not output", "-o FILE"),
    "a line that was cut": ('1 openat(-100</x>, "a', "line 3: a string in it does not end"),
    "a call that was cut": ("1 mmap(NULL, 10", "line 3: it has other arguments"),
    "an unknown error": ("1 sync() = -1 ESTRANGE (Strange)", "line 3: it failed with ESTRANGE"),
    "no result": ("1 sync() and more", "line 3: after its arguments it has ' and more'"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_line_is_one_sentence(reprofs, says, place, what):
    line, *said = BAD[what]
    (place / "text").write_text(f"{BEGIN}{line}\n1 sync() = 0\n")
    says(reprofs("record", "--from-strace", "text", "--output", "it", cwd=place), "text: ", *said)
    assert not list((place / "workflow").rglob("it*"))


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (None, (), ["text cannot be read"]),
        ("", (), ["has no working directory", "strace -f -X raw -v -y -s 0 -o FILE COMMAND"]),
        ('1 execve("/bin/x", [""...], [""...]) = 0\n' + BEGIN, (), ["does not look like x86-64"]),
        (BEGIN, (), [f"made no call below {LAB}"]),
        (BEGIN, ("--below", "lab"), ["--below lab is not an absolute path"]),
        (BEGIN, ("--below", "/"), ["the whole machine"]),
        (BEGIN, ("--below", LAB, "--below", f"{LAB}/x"), ["is in another --below"]),
        (BEGIN, ("--", "true"), ["either a command", "or --from-strace"]),
    ],
)
def test_what_cannot_be_read_is_one_sentence(reprofs, says, place, text, options, said):
    if text is not None:
        (place / "text").write_text(text)
    says(reprofs("record", "--output", "it", "--from-strace", "text", *options, cwd=place), *said)


def test_less_than_the_program_is_written_only_when_accepted(reprofs, place):
    """It ends before the program, had a file that nobody can have made, and made a FIFO."""
    lines = [
        'mkdir("a", 0700) = 0',
        'stat("a/b", {st_mode=0100644, st_size=9}) = 0',
        'mknodat(-100</srv/lab>, "p", 010600) = 0',
    ]
    (place / "text").write_text(BEGIN + "".join(f"1 {line}\n" for line in lines))
    words = ["record", "--from-strace", "text", "--output", "it"]
    refused = reprofs(*words, cwd=place)
    assert refused.returncode == 2 and "is kept" in refused.stderr
    for said in ("1 result was another", "the text ends before the program does", "1 device, socket or FIFO is not"):
        assert said in " ".join(refused.stderr.split())
    assert reprofs(*words, "--accept", cwd=place).returncode == 0


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (['mkdir("a", 0700) = 0'], 0, ""),
        (
            ["1 vfork() = 2", 'mkdir("a", 0700) = 0'],
            0,
            "line 3: process 2, started here, is missing: add -f",
        ),
        (
            [f'openat(-100<{LAB}>, "a", 0x90800) = 3<{LAB}/a>', f"getdents64(3<{LAB}/a>, 0x7f /* 2 entries */, 9) = 9"],
            0,
            "-v",
        ),
        (['mkdir("a", 0700) = 0'], 2, "exited with code 2"),
    ],
)
def test_text_that_is_less_than_the_program_is_refused(reprofs, place, lines, code, said):
    lines = process([*lines, f"exit_group({code}) = ?", f"+++ exited with {code} +++"])
    (place / "text").write_text(BEGIN + "".join(f"{line}\n" for line in lines))
    done = reprofs("record", "--from-strace", "text", "--output", "it", cwd=place)
    assert done.returncode == (2 if said else 0) and said in done.stderr


def test_several_roots_are_folders_of_one_tree(reprofs, place):
    roots = [word for name in ("manuscript", "figures") for word in ("--below", f"/home/ada/thesis/{name}")]
    done = reprofs("record", "--from-strace", THESIS, *roots, "--output", "it", "--accept", cwd=place)
    assert done.returncode == 0, done.stderr
    before = recording.read(place / "workflow/recordings" / f"it{SUFFIX}").before
    assert sum(line[0] == "d" and line[1] != "." and "/" not in line[1] for line in before) == 2


def test_a_path_is_written_to_with_the_workload_beside_it(reprofs, says, place):
    words = ("record", "--from-strace", THESIS, "--output")
    done = reprofs(*words, f"mine/it{SUFFIX}", cwd=place)
    assert done.returncode == 0 and "Written: mine/it.jsonl.xz and mine/it.yaml.\nNext: put them into " in done.stdout
    assert recording.read(place / "mine/it.jsonl.xz").head.calls == 73 and (place / "mine/it.yaml").is_file()
    assert not list((place / "workflow").rglob("it*"))
    says(reprofs(*words, f"mine/it{SUFFIX}", cwd=place), "it.jsonl.xz exists", "--output")
    says(reprofs(*words, "mine/it", cwd=place), "--output 'mine/it' is invalid", f"ends in NAME{SUFFIX}")
    done = reprofs(*words, place / f"workflow/recordings/it{SUFFIX}", cwd=place / "mine")  # as --output it
    assert done.returncode == 0 and "workflow/workloads/it.yaml.\nNext: `reprofs answer it` replays" in done.stdout


def test_strace_that_was_told_to_leave_calls_out_is_found(reprofs, place):
    text = "".join(line for line in THESIS.read_text().splitlines(keepends=True) if "exit_group" not in line)
    (place / "text").write_text(text)
    done = reprofs("record", "--from-strace", "text", "--output", "it", cwd=place)
    assert done.returncode == 2 and "strace was told to leave calls out (-e)" in done.stderr.splitlines()[-1]


def test_an_older_strace_does_not_tell_where_paths_begin(reprofs, place):
    """Then getcwd and chdir do."""
    text = re.sub(r"-100<[^>]*>", "-100", THESIS.read_text())
    assert text != THESIS.read_text()
    (place / "text").write_text(text)
    done = reprofs("record", "--from-strace", "text", "--output", "it", cwd=place)
    assert done.returncode == 0 and "73 of 73 results as recorded" in done.stdout, done.stderr
    (place / "text").write_text(re.sub(r".*getcwd.*\n", "", text))
    done = reprofs("record", "--from-strace", "text", "--output", "other", cwd=place)
    assert done.returncode == 2 and "has no working directory" in done.stderr


@pytest.mark.parametrize(("ordered", "found"), [(list, True), (sorted, False)])
def test_visits_in_the_order_of_a_listing_are_found(retold, ordered, found):
    names = [f"entry{number}" for number in random.Random(1).sample(range(100), 40)]
    parts = [
        ", ".join(f'{{d_ino=7, d_off=1, d_type=0x8, d_name="{name}"}}' for name in half)
        for half in (names[:20], names[20:])
    ]
    lines = [f'openat(-100<{LAB}>, "a", 0x90800) = 3<{LAB}/a>']
    lines += [f"getdents64(3<{LAB}/a>, [{part}], 32768) = 480" for part in parts]
    lines += [f'access("a/{name}", 0) = 0' for name in ordered(names)]
    assert retold(*lines).follower.order.is_that_of_listings() == found


@pytest.mark.parametrize("times", [12, pytest.param(300, marks=pytest.mark.soak)])
def test_damaged_text_is_never_more_than_a_sentence(times, tmp_path):
    """Lines are lost, doubled and cut, letters are others."""
    good, chance = THESIS.read_text().replace("/home/ada/thesis", LAB).splitlines(), random.Random(1)
    outcomes = set()
    for _ in range(times):
        lines = list(good)
        for _ in range(chance.choice((1, 3, 30))):
            at, how = chance.randrange(len(lines)), chance.randrange(4)
            line = lines[at]
            cut = chance.randrange(len(line) + 1)
            sign = chance.choice('"<>()[]{},\\=0x-1 ')
            lines[at : at + 1] = ([], [line, line], [line[:cut]], [line[:cut] + sign + line[cut + 1 :]])[how]
        try:
            found = Retold(tmp_path, "".join(f"{line}\n" for line in lines))
            outcomes.add("read")
        except UserError as error:
            outcomes.add("refused")
            assert "\n" not in str(error)
            continue
        entries = _Entries()
        for entry in found.before:
            if "\\" not in str(entry) and str(entry).isascii():
                entries(entry)
    assert outcomes == {"read", "refused"}
