"""Commands that take in something of one's own: a program's calls, a tree, other benchmarks' output, a kernel."""

from __future__ import annotations

from pathlib import Path

from reprofs import files
from reprofs.cli._base import Commands, option, printable, say, seconds
from reprofs.errors import UserError

command = Commands()


@command(
    "record",
    option(
        "--below", type=Path, action="append", default=[], metavar="FOLDER", help="whose calls (default: this folder)"
    ),
    option(
        "--output",
        required=True,
        metavar="NAME",
        help="of the recording and of its workload, which go where studies find them; or a path ending in "
        "NAME.jsonl.xz: the workload, NAME.yaml, is then beside it",
    ),
    option("--seconds", type=seconds, default=3600, metavar="N", help="after which it is ended (3600)"),
    option("--accept", action="store_true", help="write it also where it is less than the program"),
    option(
        "--from-strace",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="run nothing: take the text of `strace -f -X raw -v -y -s 0 -o FILE COMMAND`, made on any x86-64 machine; "
        "--below then names folders of that machine",
    ),
    option("words", nargs="*", metavar="-- COMMAND", help="the command and its arguments, after --"),
)
def _record(arguments) -> None:
    """Record the file-system calls of a command, without names and contents, as a workload that replays them."""
    from reprofs.recorder import record

    below, output, accept = arguments.below, arguments.output, arguments.accept
    if bool(arguments.words) == bool(arguments.from_strace):
        raise UserError("record takes either a command, after --, or --from-strace FILE.")
    if arguments.from_strace:
        print(record.from_strace(arguments.from_strace, below, output, accept), end="")
    else:
        print(record.record(arguments.words, below, output, arguments.seconds, accept), end="")


@command(
    "scan",
    option("folder", type=Path),
    option("--output", type=Path, required=True, metavar="PROFILE.yaml"),
    option("--names", action="store_true", help="put the names of files and folders into the profile too"),
)
def _scan(arguments) -> None:
    """Make a small profile of a tree (sizes, depth, fan-out, links), to generate look-alikes."""
    from reprofs.plan import tree

    print(tree.write(arguments.folder, arguments.output, arguments.names))


@command(
    "import",
    option("format", metavar="FORMAT", help="mdtest, ior, fio, ... (an unknown one lists them)"),
    option("files", metavar="FILE", nargs="+", type=Path),
    option("--output", type=Path, required=True, metavar="FOLDER"),
)
def _import(arguments) -> None:
    """Turn the output of other benchmarks into one table with units; print what is wrong or uncertain in it."""
    from reprofs import importers

    def tables() -> list[dict]:  # slow to load, and few formats need it
        from reprofs.data.columns import dictionary

        return dictionary()

    for sentence in importers.import_files(arguments.format, arguments.files, arguments.output, tables):
        print(printable(sentence))


@command(
    "kernel",
    option("name", metavar="NAME"),
    option("debs", metavar="DEB", nargs="*", type=Path, help="packages with the kernel and its modules"),
    option("--build", type=Path, metavar="FOLDER", help="in which it was built (make bzImage modules)"),
)
def _kernel(arguments) -> None:
    """Write workflow/kernels/NAME.yaml for a kernel that you built, after a look at its configuration."""
    from reprofs.guest import own

    print(own.write(arguments.name, arguments.debs, arguments.build, files.cache_folder()))


@command(
    "lock",
    option("sets", metavar="SET", nargs="*", help="of envs/lab.lock, such as a guest (default: all)"),
    option("--built", action="store_true", help="keep the packages; only build, after a change of what builds"),
)
def _lock(arguments) -> None:
    """Take today's packages for the labs, build all that consists of them, and write both into envs/lab.lock: a
    change of every number."""
    from reprofs.guest.freeze import freeze

    freeze(files.cache_folder(), arguments.sets, arguments.built, say)
