"""Commands that import your own programs, trees, benchmark outputs and kernels."""

from __future__ import annotations

from pathlib import Path

from reprofs import files
from reprofs.cli._base import Commands, option, say, seconds
from reprofs.errors import UserError

command = Commands()


@command(
    "record",
    option(
        "--below", type=Path, action="append", default=[], metavar="FOLDER", help="record calls below (default: here)"
    ),
    option(
        "--output",
        required=True,
        metavar="NAME",
        help="name of the recording and its workload, written to workflow/; or a path that ends in NAME.jsonl.xz: "
        "the workload NAME.yaml goes to the same folder",
    ),
    option("--seconds", type=seconds, default=3600, metavar="N", help="end the command after N seconds (3600)"),
    option(
        "--accept",
        action="store_true",
        help="write the recording even if it is incomplete; without a command: the one that was kept",
    ),
    option(
        "--from-strace",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="run nothing; read the output of `strace -f -X raw -v -y -s 0 -o FILE COMMAND` from any x86-64 machine "
        "(--below names folders of that machine)",
    ),
    option("words", nargs="*", metavar="-- COMMAND", help="the command with its arguments, after --"),
)
def _record(arguments) -> None:
    """Record the file-system calls of a command as a workload, without names and contents."""
    from reprofs.recorder import record

    below, output, accept = arguments.below, arguments.output, arguments.accept
    if accept and not arguments.words and not arguments.from_strace:
        print(record.accept(output), end="")
        return
    if bool(arguments.words) == bool(arguments.from_strace):
        raise UserError("record: give either a command after --, or --from-strace FILE.")
    if arguments.from_strace:
        print(record.from_strace(arguments.from_strace, below, output, accept), end="")
    else:
        print(record.record(arguments.words, below, output, arguments.seconds, accept), end="")


@command(
    "scan",
    option("folder", type=Path),
    option("--output", type=Path, required=True, metavar="PROFILE.yaml"),
    option("--names", action="store_true", help="include the names of files and folders"),
)
def _scan(arguments) -> None:
    """Write a small profile of a tree (sizes, depth, fan-out, links), from which synthetic trees are generated."""
    from reprofs.plan import tree

    print(tree.write(arguments.folder, arguments.output, arguments.names))


@command(
    "import",
    option("format", metavar="FORMAT", help="mdtest, ior, fio, ... (an unknown format lists all)"),
    option("files", metavar="FILE", nargs="+", type=Path),
    option("--output", type=Path, required=True, metavar="FOLDER"),
)
def _import(arguments) -> None:
    """Convert the output of other benchmarks into one table with units; print doubts about it."""
    from reprofs import importers

    def tables() -> list[dict]:  # slow to load, and few formats need it
        from reprofs.data.columns import dictionary

        return dictionary()

    for sentence in importers.import_files(arguments.format, arguments.files, arguments.output, tables):
        print(sentence)


@command(
    "kernel",
    option("name", metavar="NAME"),
    option(
        "debs",
        metavar="DEB",
        nargs="*",
        type=Path,
        help="packages with kernel, modules, and headers (for modelled disks)",
    ),
    option("--build", type=Path, metavar="FOLDER", help="folder in which it was built (make bzImage modules)"),
)
def _kernel(arguments) -> None:
    """Check a kernel that you built, and write workflow/kernels/NAME.yaml for it."""
    from reprofs.guest import own

    print(own.write(arguments.name, arguments.debs, arguments.build, files.cache_folder()))


@command(
    "lock",
    option("sets", metavar="SET", nargs="*", help="a set of envs/lab.lock, such as a guest (default: all)"),
    option("--built", action="store_true", help="keep the packages and only build, after a change of building code"),
)
def _lock(arguments) -> None:
    """Update the packages of the labs, build everything, and write envs/lab.lock. This changes every number."""
    from reprofs.guest.freeze import freeze

    freeze(files.cache_folder(), arguments.sets, arguments.built, say)
