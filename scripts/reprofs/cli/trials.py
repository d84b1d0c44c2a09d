"""Commands that run trials, and that examine or clean this machine."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from pathlib import Path

from reprofs import files
from reprofs.cli._base import CATALOG, CLIENTS, Commands, integer, limit, number, option, say, share, together
from reprofs.cli._base import catalog as catalog_of
from reprofs.errors import UserError
from reprofs.plan import NETWORK, PROCESSOR
from reprofs.trial import progress

command = Commands()
DRAWN = 20  # one in so many of the records that are taken is checked by a run
SEED_MAX = 10**13  # above that of any study and its rounds


@command(
    "trial",
    *(option(f"--{name}", required=True) for name in ("lab", "stack", "profile", "workload", "scale")),
    option("--filesystem", help="a name of workflow/filesystems (or give --where)"),
    option("--processor", help=f"CPU model of the lab exact (default: {PROCESSOR})"),
    option("--kernel", help="a kernel of workflow/kernels instead of the guest's own (lab exact)"),
    option("--memory-mib", type=integer, metavar="N", help="memory limit of the phases (default: none)"),
    option("--variant", help="variant of the file system (default: the first of its file)"),
    option("--network", help=f"network of a file system with nodes (default: {NETWORK})"),
    option("--round", type=integer, required=True, help="number of the repetition, from 1"),
    option("--seed", type=integer, required=True, help="seed of names, sizes, contents and order"),
    option("--output", type=Path, required=True, metavar="FILE"),
    option("--where", metavar="FOLDER", help="existing directory instead of a file system (lab mount)"),
    CLIENTS,
    option("--order", type=number, help="position in the random order of a study"),
    option(
        "--take",
        action="store_true",
        help="take the record if this machine has measured it (REUSE=1: or if it is published)",
    ),
    option("--job", default="", metavar="SHA256", help="digest of the planned job; a different job is refused"),
    option(
        "--time-limit",
        type=limit,
        default=1800.0,
        metavar="SECONDS",
        help="host time after which the trial is recorded as timeout (default: 1800; on a real clock longer if the "
        "work may need it)",
    ),
    CATALOG,
)
def _trial(arguments) -> None:
    """Run one trial and write its record. Exit code 0 means recorded, even if the trial failed."""
    from reprofs.guest import image
    from reprofs.trial import run
    from reprofs.trial.resolve import resolve

    catalog = catalog_of(arguments)
    trial = _named(arguments, catalog)
    setup = resolve(trial, catalog)  # a mistake is said before a guest is built
    if setup.lab.in_guest:
        image.ensure(setup.guest, say)
    files.check_writable(arguments.output)
    if not progress.in_workflow():  # which has said it
        from reprofs.trial import planning

        if said := planning.as_root([setup.cell], catalog):
            say(f"reprofs: {said}")
    started = time.monotonic()
    one, limit_s = run.ready(trial, catalog, arguments.job), arguments.time_limit
    if arguments.take:
        draw = secrets.randbelow(DRAWN) == 0
        record, origin = run.take_or_run(one, arguments.output, limit_s, bool(os.environ.get("REUSE")), draw)
    else:
        record, origin = run.measure(one, arguments.output, limit_s), ""
    print(progress.line(record, arguments.output, time.monotonic() - started, origin), file=sys.stderr, flush=True)


def _named(arguments, catalog):
    """The trial that the options name; a directory of --where is added to the catalogue."""
    from reprofs.plan.cell import Trial, apart, lab_parts
    from reprofs.plan.filesystem import variant_of

    if arguments.round < 1:
        raise UserError(f"--round is {arguments.round}, but the first repetition is 1.")
    if not 0 <= arguments.seed <= SEED_MAX:
        raise UserError(f"--seed is {str(arguments.seed)[:40]}, but must be from 0 to {SEED_MAX}.")
    filesystem, variant = _filesystem(arguments, catalog), arguments.variant
    if variant is None:
        filesystem, variant = variant_of(filesystem, catalog)
    variant, network = apart(variant)
    place = lab_parts(arguments.lab)
    parts = {}
    for name in ("processor", "kernel", "memory_mib"):
        given, named = getattr(arguments, name), getattr(place, name)
        if given is not None and named is not None and given != named:
            option = name.replace("_", "-")
            raise UserError(f"--lab {arguments.lab} has {named}, but --{option} is {given}: leave one of them out.")
        parts[name] = named if given is None else given
    same = {name: getattr(arguments, name) for name in ("stack", "profile", "workload", "scale")}
    return Trial(
        lab=place.lab,
        filesystem=filesystem,
        variant=variant,
        network=arguments.network or network,
        round=arguments.round,
        seed=arguments.seed,
        order=arguments.order,
        **same,
        **parts,
    )


def _filesystem(arguments, catalog) -> str:
    if not (arguments.where or arguments.clients):
        if not arguments.filesystem:
            raise UserError("--filesystem is missing: name one of `reprofs list`, or a directory with --where.")
        return arguments.filesystem
    from reprofs.plan.override import add_places, override, place_name

    if arguments.filesystem:
        raise UserError("--where and --filesystem exclude each other: leave one of them out.")
    change = override(arguments.lab, where=arguments.where or "", clients=arguments.clients)
    if len(change.where) > 1:
        raise UserError("--where names several directories, but a trial uses one: name one.")
    add_places(catalog, change.where[:1], change.clients)
    return place_name(change.where[0])


@command(
    "state",
    option("filesystem", help="a name of workflow/filesystems, with its variant: ext4+no-lazy-init"),
    option("sequence", help='calls separated by ; such as "write foo 8192 4096;fsync foo" (workflow/sequences)'),
    option(
        "--at", type=integer, metavar="N", help="tell one state at length; without it what was found in all of them"
    ),
    option("--again-at", type=integer, metavar="N", help="with --at: of a second cut, while that state recovers"),
    option("--image", type=Path, metavar="FILE", help="with --at: write what is on the disk, a sparse raw image"),
    option("--full", choices=("bytes", "inodes"), help="there is no room, or no inodes (workload full-disk)"),
    option("--kernel", help="a kernel of workflow/kernels instead of the guest's own"),
    option("--profile", default="crash", help="device profile: crash, or crash-no-cache"),
    option("--scale", default="smoke", help="which subsets of the writes: smoke, laptop or paper (smoke)"),
    CATALOG,
)
def _state(arguments) -> None:
    """Visit the states that a power cut may leave of a sequence of calls, in the lab exact."""
    from reprofs.guest import image
    from reprofs.plan.cell import Cell
    from reprofs.plan.filesystem import variant_of
    from reprofs.trial import state

    if arguments.at is None and (arguments.image or arguments.again_at is not None):
        raise UserError("state: --image and --again-at need --at, the number of a state: leave it out to see which.")
    catalog = catalog_of(arguments)
    filesystem, variant = variant_of(arguments.filesystem, catalog)
    names = {"profile": arguments.profile, "workload": state.WORKLOAD, "scale": arguments.scale}
    cell = Cell(lab="exact", stack="single", filesystem=filesystem, variant=variant, kernel=arguments.kernel, **names)
    numbers = {"--at": arguments.at, "--again-at": arguments.again_at, "--full": arguments.full}
    options = [word for name, value in numbers.items() if value is not None for word in (name, f"{value}")]
    options += ["--save", state.IMAGE] if arguments.image else []
    setup = state.setup_of(cell, arguments.sequence, options, catalog)
    image.ensure(setup.guest, say)
    said = state.visit(setup, arguments.image)
    print(said if arguments.at is not None else state.table(said))


@command(
    "soak",
    option("filesystem", help="a name of workflow/filesystems, with its variant: ext4+no-lazy-init"),
    option("--seed", type=number, default=1, help="of the first history (1)"),
    option("--hours", type=float, default=0.1, help="of host time (0.1)"),
    option("--calls", type=number, default=24, metavar="N", help="of a history, at most 60 (24)"),
    option("--kernel", help="a kernel of workflow/kernels instead of the guest's own"),
    option("--memory-mib", type=number, metavar="N", help="memory limit of the histories (none)"),
    CATALOG,
)
def _soak(arguments) -> None:
    """Look for a history of calls after which a file system breaks a guarantee. Exit code 1 if there is one."""
    from reprofs.guest import image
    from reprofs.plan.cell import Cell
    from reprofs.plan.filesystem import variant_of
    from reprofs.trial import soak, state

    if not 1 <= arguments.calls <= 60 or not arguments.hours >= 0:
        raise UserError("soak: --calls must be from 1 to 60, and --hours not negative.")
    catalog = catalog_of(arguments)
    filesystem, variant = variant_of(arguments.filesystem, catalog)
    names = {"profile": "crash", "workload": state.WORKLOAD, "scale": "smoke", "kernel": arguments.kernel}
    own = {"filesystem": filesystem, "variant": variant, "memory_mib": arguments.memory_mib}
    cell = Cell(lab="exact", stack="single", **own, **names)
    image.ensure(state.setup_of(cell, "sync", [], catalog).guest, say)
    run, found = soak.Soak(cell, catalog, arguments.calls), 0
    for one in run.run(arguments.seed, time.monotonic() + 3600 * arguments.hours, say):
        found += 1
        place = "" if one.at is None else f" --at {one.at}" + ("" if one.again is None else f" --again-at {one.again}")
        kernel = f" --kernel {arguments.kernel}" if arguments.kernel else ""
        print(f"seed {one.seed}: {one.kind}: {one.what}")
        print(f'  reprofs state {arguments.filesystem} "{";".join(one.calls)}"{place}{kernel}', flush=True)
    print(f"{run.histories} histories, {run.visited:,} crash states, {found} with a broken guarantee")
    sys.exit(1 if found else 0)


@command(
    "profile",
    option("record", type=Path, help="record of the exact lab: a file in data/raw"),
    option("--misses", action="store_true", help="also count misses of modelled caches; takes longer"),
    option("--beside", type=Path, metavar="FOLDER", help="compare with this profile of the same trial"),
    option("--failed-too", action="store_true", help="for a failed trial, write the reason instead"),
    option("--output", type=Path, required=True, metavar="FOLDER"),
    CATALOG,
)
def _profile(arguments) -> None:
    """Run a record's trial again and count its instructions per phase, function and call."""
    from reprofs.data.profiles import FILE, load, stacks
    from reprofs.report import flame, show
    from reprofs.trial.profile import profile, summary
    from reprofs.workplace import scratch

    files.check_writable(arguments.output / FILE)
    base = load(arguments.beside) if arguments.beside else None
    with scratch() as work:
        found = profile(
            arguments.record, catalog_of(arguments), work, arguments.misses, failed_too=arguments.failed_too
        )
        name, named = arguments.record.stem, {}
        for phase in found["phases"]:
            own = named[phase["stacks"].removesuffix(".folded")] = stacks(work, phase)
            picture = work / phase["stacks"].replace(".folded", ".svg")
            files.write_text(picture, show.svg(flame.flame(own, flame.colours(phase["functions"]))))
        if named:
            speedscope = json.dumps(flame.speedscope(named, name), separators=(",", ":"))
            files.write_text(work / "speedscope.json", speedscope + "\n")
        made = [FILE, *(phase["stacks"] for phase in found["phases"])]
        files.write_sums(work / files.SUMS, [work / each for each in made])
        files.write_together(arguments.output, {path.name: path.read_bytes() for path in sorted(work.iterdir())})
    print(summary(found) or f"no profile: {found['reason']}")
    if base:
        from reprofs.report.beside import beside

        print(f"\ncompared with {arguments.beside}, per item:\n{beside(base, found)}")


@command(
    "measure",
    together(
        option("--filesystem", default="", metavar="A,B", help="names of `reprofs list` (ext4,xfs,btrfs)"),
        option("--study", default="", metavar="NAME", help="the file systems and device models of a study"),
        exclusive=True,
    ),
    option("--device", default="", metavar="A,B", help="device models (ssd-nvme)"),
    option("--cores", type=number, default=1, metavar="N", help="processors of the lab (1)"),
    option("--input", type=Path, metavar="FOLDER", help="is copied onto the file system; the command runs in the copy"),
    option(
        "--root", type=Path, metavar="ROOT", help="root file system of the command: a folder, or a container's .tar"
    ),
    option("--env", action="append", default=[], metavar="NAME=VALUE", help="an environment variable of the command"),
    together(
        option("--cold", dest="cache", action="store_const", const="cold", default="cold", help="the default"),
        option(
            "--warm", dest="cache", action="store_const", const="warm", help="its input is in memory when it begins"
        ),
        exclusive=True,
    ),
    option("--no-split", action="store_true", help="do not tell user and kernel apart, which takes a second run"),
    option("--base", type=Path, metavar="RECORD", help="compare with this record, and print the comparison instead"),
    option("--fail-above", metavar="SHARE", help="with --base: exit code 1 if slower by this much, such as 1%%"),
    option("--output", type=Path, metavar="RECORD", help="write the record (JSON)"),
    option("--format", choices=("text", "markdown", "json"), default="text"),
    option("--time-limit", type=limit, default=1800.0, metavar="SECONDS", help="of host time, for each trial (1800)"),
    option("words", nargs="+", metavar="-- COMMAND", help="the command with its arguments, after --"),
    CATALOG,
)
def _measure(arguments) -> None:
    """Measure a whole program in the exact lab: its own instructions, the kernel's, and the disk's time."""
    from reprofs.measure import compare, measure, words
    from reprofs.plan import measured

    if arguments.fail_above and not arguments.base:
        raise UserError("--fail-above needs a record to compare with: add --base RECORD.")
    least = share(arguments.fail_above or words.LEAST)
    base = measured.read(arguments.base) if arguments.base else None
    if arguments.output:
        files.check_writable(arguments.output)
    wanted = measure.Wanted(
        words=arguments.words,
        filesystems=_names(arguments.filesystem),
        devices=_names(arguments.device),
        study=arguments.study,
        cores=arguments.cores,
        cache=arguments.cache,
        given=arguments.input,
        root=arguments.root,
        environment=dict(map(_variable, arguments.env)),
        limit_s=arguments.time_limit,
        split=not arguments.no_split,
    )
    record = measure.measure(wanted, catalog_of(arguments), say)
    if arguments.output:
        files.write_text(arguments.output, words.written(record))
    pairs = compare.pairs(base, record, least) if base else []
    if base:
        print(words.compared(base, record, pairs, arguments.format), end="")
    else:
        print(words.measured(record, arguments.format), end="")
    sys.stdout.flush()
    print(words.output(record, 20), end="", file=sys.stderr)
    failed = any(row.numbers is None or row.numbers.exit for row in record.rows)
    sys.exit(int(failed or (bool(arguments.fail_above) and any(pair.worse for pair in pairs))))


def _names(text: str) -> list[str]:
    return text.split(",") if text else []


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(f"--env {text[:60]!a} is not NAME=VALUE.")
    return name, value


@command("doctor", CATALOG)
def _doctor(arguments) -> None:
    """Show which labs, file systems and stacks work on this machine, and what the others need."""
    from reprofs import doctor

    text, works = doctor.examine(catalog_of(arguments))
    print(text)
    sys.exit(0 if works else 1)


@command(
    "calibrate",
    CATALOG,
    option("name", metavar="NAME"),
    option(
        "--disk",
        type=Path,
        metavar="FOLDER|DEVICE",
        help="measure the flush of this disk instead, and write the device model workflow/devices/NAME.yaml",
    ),
    option("--like", default="ssd-nvme", metavar="MODEL", help="device model with all its other figures (ssd-nvme)"),
)
def _calibrate(arguments) -> None:
    """Measure what things cost on this machine, and write workflow/machines/NAME.yaml."""
    from reprofs import calibrate

    if arguments.disk:
        print(calibrate.calibrate_disk(arguments.name, arguments.disk, arguments.like, catalog_of(arguments)))
    else:
        print(calibrate.calibrate(arguments.name))


@command("cleanup")
def _cleanup(arguments) -> None:
    """Remove devices, processes and folders that killed trials left, and nothing else."""
    from reprofs import cleanup, leftovers

    lines = cleanup.sweep() + cleanup.sweep_cache() + leftovers.sweep()
    for line in lines:
        print(f"removed {line}")
    if not lines:
        print(f"nothing to remove{' for this user' if os.geteuid() else ''}")
