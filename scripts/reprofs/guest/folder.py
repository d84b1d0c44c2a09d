"""A folder with files of strangers, in which no name and no link leads outside.

Each folder on the way is opened by the descriptor of the one above and never through a link (O_NOFOLLOW). A link is
read instead, and leads as in a system that has the folder for its root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from reprofs.errors import UserError, cut, middle

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # without waiting for the writer of a pipe
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LINKS = 40  # that one name may follow, as in Linux
LONGEST = 500  # bytes of a name; tools take no more than 4,095 with the folder's own, and fewer levels than this
FILES = 200_000  # that may be made in a folder; the largest guest has a tenth
# What a stranger's name or file may give; all other errors are this machine's.
THEIRS = {errno.EACCES, errno.EEXIST, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENAMETOOLONG}
THEIRS |= {errno.ENODEV, errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.EPERM, errno.EXDEV}


def below(name: str) -> str:
    """A name as seen from the root: `../x`, `/x` and `./x` are x."""
    return posixpath.normpath(posixpath.join("/", name)).lstrip("/")


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """Turns errors that a stranger's files cause into one sentence."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL, or no Unicode
        if isinstance(error, OSError) and error.errno not in THEIRS:
            raise
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else cut(error, 80)
        raise UserError(f"{middle(ascii(name)[1:-1], 120)} cannot be used: {why}; correct the package.") from None


class Folder:
    """The folder. Names are below it; every method raises UserError for what is not there or is of another kind."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made = 0

    def real(self, folder: str) -> str:
        """Where a folder is, after its links. It is made if it is missing."""
        at, name = self._opened(folder, make=True)
        os.close(at)
        return name

    def kind(self, name: str) -> int:
        """What has this name, as S_IFMT of its mode; 0 for nothing. A link is a link."""
        try:
            with self._above(name, make=False) as (at, base):
                return stat.S_IFMT(os.lstat(base, dir_fd=at).st_mode)
        except UserError:
            return 0

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted; nothing if there is none."""
        try:
            at, _ = self._opened(folder)
        except UserError:
            return []
        try:
            return sorted(os.listdir(at))  # noqa: PTH208
        finally:
            os.close(at)

    def files(self, folder: str) -> Iterator[str]:
        """All that is below a folder but folders, each by its name from the root. No link is followed."""
        for name in self.names(folder):
            path = posixpath.join(folder, name)
            if self.kind(path) == stat.S_IFDIR:
                yield from self.files(path)
            else:
                yield path

    def read(self, name: str, most: int = 1 << 30) -> bytes:
        """The content of a file, which is no link and has up to `most` bytes."""
        with self._above(name, make=False) as (at, base):
            file = os.open(base, FILE, dir_fd=at)
            with os.fdopen(file, "rb") as opened:
                state = os.fstat(file)
                if not stat.S_ISREG(state.st_mode):
                    raise ValueError("it is not a file")
                if state.st_size > most:
                    raise ValueError(f"it has {state.st_size:,} bytes, more than {most:,}")
                return opened.read(most)

    def size(self, name: str) -> int:
        """The bytes of a file."""
        with self._above(name, make=False) as (at, base):
            return os.lstat(base, dir_fd=at).st_size

    @contextlib.contextmanager
    def new(self, name: str, mode: int = 0o644) -> Iterator[BinaryIO]:
        """A new file to write to, which takes the place of a file or link."""
        with self._above(name) as (at, base):
            self._count(name)
            _remove(at, base)
            with os.fdopen(os.open(base, NEW, 0o600, dir_fd=at), "wb") as file:
                yield file
                file.flush()
                os.fchmod(file.fileno(), mode & 0o7777)  # last: what an ordinary user writes is setuid no more

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """A file with this content, which takes the place of a file or link."""
        with self.new(name, mode) as file:
            file.write(content)

    def folder(self, name: str, mode: int | None = None) -> None:
        """A folder, new or as it is there. mode: for both; whoever owns it may always use it."""
        at, _ = self._opened(name, make=True)
        try:
            if mode is not None:
                os.fchmod(at, mode & 0o7777 | 0o700)
        finally:
            os.close(at)

    def link(self, name: str, target: str) -> None:
        """A symbolic link, which takes the place of a file or link."""
        with self._above(name) as (at, base):
            self._count(name)
            _remove(at, base)
            os.symlink(target, base, dir_fd=at)

    def hard_link(self, name: str, target: str) -> None:
        """Another name of a file or link, which takes the place of a file or link."""
        with self._above(target, make=False) as (source, old), self._above(name) as (at, base):
            self._count(name)
            state = os.lstat(old, dir_fd=source)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(state, os.lstat(base, dir_fd=at)):
                    return  # removed first, it would be gone
            _remove(at, base)
            os.link(old, base, src_dir_fd=source, dst_dir_fd=at, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Removes a file or link, or a folder with all that is in it; nothing if there is none."""
        if self.kind(name) == stat.S_IFDIR:
            with self._above(name, make=False) as (at, base):
                shutil.rmtree(base, dir_fd=at)
        elif self.kind(name):
            with self._above(name, make=False) as (at, base):
                _remove(at, base)

    def copy(self, name: str, to: Path) -> None:
        """Copies a file out of the folder, to a path of this machine; of its mode, whether it is a program."""
        to.write_bytes(self.read(name))
        with self._above(name, make=False) as (at, base):
            to.chmod(0o755 if os.lstat(base, dir_fd=at).st_mode & 0o100 else 0o644)

    @contextlib.contextmanager
    def _above(self, name: str, make: bool = True) -> Iterator[tuple[int, str]]:
        """The descriptor of the folder that a name is in, and the last part of the name."""
        above, base = posixpath.split(below(name))
        at, real = self._opened(above, make)
        try:
            with told(name):
                _check_length(f"{real}/{base}")
                yield at, base
        finally:
            os.close(at)

    def _opened(self, folder: str, make: bool = False) -> tuple[int, str]:
        """The descriptor of a folder, and its name after all links."""
        name = folder
        with told(folder):
            for _ in range(LINKS):
                name = below(name)
                _check_length(name)
                at, link = self._walked(name.split("/") if name else [], make)
                if at is not None:
                    return at, name
                name = link
            raise OSError(errno.ELOOP, "")

    def _walked(self, parts: list[str], make: bool) -> tuple[int | None, str]:
        """The descriptor of a folder; or nothing, and where it leads by its first link."""
        at = os.open(self.root, FOLDER & ~os.O_NOFOLLOW)
        try:
            for number, part in enumerate(parts):
                if make:
                    self._make_folder(at, part)
                try:
                    inner = os.open(part, FOLDER, dir_fd=at)
                except OSError as error:
                    if error.errno not in (errno.ENOTDIR, errno.ELOOP) or not _is_link(part, at):
                        raise
                    link = posixpath.join("/", *parts[:number], os.readlink(part, dir_fd=at), *parts[number + 1 :])
                    os.close(at)
                    return None, link
                os.close(at)
                at = inner
            return at, ""
        except BaseException:
            os.close(at)
            raise

    def _make_folder(self, at: int, part: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=at)
            self._count(part)
            os.chmod(part, 0o755, dir_fd=at)  # whatever the umask is

    def _count(self, name: str) -> None:
        self._made += 1
        if self._made > FILES:
            raise UserError(f"{middle(ascii(name)[1:-1], 120)} is one file more than {FILES:,}, the most in a tree.")


def _is_link(part: str, at: int) -> bool:
    return stat.S_ISLNK(os.lstat(part, dir_fd=at).st_mode)


def _remove(at: int, base: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(base, dir_fd=at)


def _check_length(name: str) -> None:
    if len(os.fsencode(name)) > LONGEST:
        raise OSError(errno.ENAMETOOLONG, "")
