"""An archive of a published result: one file with all that it takes to run its trials again, without a network.

In it are the checkout with the result, the guests, QEMU and the engine that its trials need, a Python of its own, and
`verify`, which checks all files and runs trials. It needs Linux on x86-64, a shell and sha256sum.
"""

from __future__ import annotations

import importlib.metadata
import io
import lzma
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path

from reprofs import version
from reprofs.errors import UserError, cut
from reprofs.files import cache_folder, check_writable, made, read_json, sha256, write_text
from reprofs.guest import engine, image, kernel, python, qemu
from reprofs.guest.fetch import fetch
from reprofs.guest.lock import kernel_set, kernel_wish, packages_of, read_lock, tool_wishes, wish_of
from reprofs.labs.exact import ExactLab
from reprofs.plan.catalog import Catalog
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.guest import read_guest
from reprofs.plan.result import Result
from reprofs.project import place, project_root
from reprofs.publish import describe
from reprofs.publish.derive import derive, pool
from reprofs.publish.log import LOG
from reprofs.publish.sealed import SUMS, listed
from reprofs.publish.verify import other_lab
from reprofs.records.publication import checked, read, unpack
from reprofs.trial.job import render
from reprofs.trial.resolve import resolve
from reprofs.trial.setup import Setup
from reprofs.workplace import beside, scratch

Say = Callable[[str], None]
# What a trial imports besides the standard library, with what these import.
WHEELS = ("annotated-types", "orjson", "pydantic", "pydantic-core", "pyyaml", "typing-extensions", "typing-inspection")
ONLY_VERSIONS = ("reprofs", "ziglang")  # which are there, and nothing else of them
PRESET = 2  # of xz: 6 takes more than three times as long
VERIFY = """#!/bin/sh
# Checks all files, then runs trials of the result again, each of which must be identical. Options: --trials N, --all,
# --trial NAME, --seed N. Exit code 0: identical; 1: not; 2: could not be checked. Writes below this folder and TMPDIR.
umask 022
cd "$(dirname "$0")" || exit 2
echo "verify: checking the files of SHA256SUMS" >&2
sha256sum --check --quiet SHA256SUMS >&2 || exit 2
export HOME="${{HOME:-$PWD}}" REPROFS_CACHE="$PWD/cache" LC_ALL=C.UTF-8
export PYTHONHOME="$PWD/python" PYTHONPATH="$PWD/checkout/scripts:$PWD/python/site"
export PYTHONDONTWRITEBYTECODE=1 PYTHONNOUSERSITE=1
unset LD_PRELOAD LD_LIBRARY_PATH REPROFS_QEMU REPROFS_START
cd checkout || exit 2
exec ../python/{loader} --inhibit-cache --library-path ../python/{libraries} ../python/{program} \\
    -c 'import sys; from reprofs.cli import main; sys.exit(main())' verify results/{study} --own-code "$@"
"""
README = """# {title}

This archive runs the trials of a published result again, and checks that their numbers are equal to the byte.
It needs Linux on x86-64, a shell and sha256sum. It needs no network, root or Python.

    ./verify          checks all files, then runs three random trials; about a minute
    ./verify --all    runs all {count} trials; {minutes:.0f} minutes of one core

Exit code 0: all identical; 1: a trial differs; 2: something could not be checked.

| folder | content |
|---|---|
| `checkout/results/{study}` | the result: report, records, digests |
| `checkout` | ReproFS {version}, commit {commit}: more checks are in `docs/check-results.md` |
| `tables`, `datapackage.json` | its tables, a Frictionless data package |
| `notebooks` | the executed notebooks |
| `licences` | copyright files of its Debian packages, and where to get their sources |
| `sbom.cdx.json`, `ro-crate-metadata.json` | bill of materials (CycloneDX), description as a Workflow Run RO-Crate |
| `cache` | guests, QEMU and load engine of the lab, as fixed by `checkout/envs/lab.lock` |
| `python` | Debian's Python {python}, and the modules that a trial needs |

To recompute tables, verdicts and the report (`reprofs verify results/{study} --claims`), set up `checkout` as its
README says.
"""


def archive(name: str, output: Path, say: Say) -> Path:
    """Writes the archive of results/NAME to `output`, the same bytes each time; returns it.

    Raises UserError when files of the checkout are not committed, when the result is of another lab than this
    checkout's or of none that is exact, and when something cannot be had or written; nothing half-written stays.
    """
    commit = version.commit()
    if not commit or commit.endswith("+"):
        raise UserError("cannot make an archive: there are uncommitted changes. Commit them first.")
    folder = place(f"results/{name}")
    result = read(folder)
    check_writable(output)
    with made(output.parent), beside(output.parent) as work:
        plan = unpack(folder, result, Path(work) / "records")
        trials = [trial for trial in plan.trials if plan.labs[trial.full_lab].clock == "instructions"]
        if not trials:
            raise UserError(
                f"{folder} has no exact-lab trials, which an archive runs again: publish a study of the exact lab."
            )
        raw = Path(work) / "records/raw"
        content = {trial.id: (raw / f"{trial.id}.json").read_bytes() for trial in trials}
        records = {name: checked(data, folder, result, name) for name, data in content.items()}
        if found := other_lab(trials, records):
            raise UserError(
                f"{folder} was measured in a different lab ({found[0]}): make the archive at its commit "
                f"{result.rendered.commit[:12]}, or a later one with the same lab."
            )
        top = Path(work) / f"reprofs-{name}"
        _checkout(top / "checkout", commit, name, folder)
        setups, programs = _setups(trials)
        _lab(top, setups, programs, say)
        say("putting Python together")
        _python(top / "python", say)
        _describe(top, Path(work), result, setups, commit, say)
        write_text(
            top / "README.md",
            README.format(
                title=result.title,
                study=name,
                count=len(trials),
                minutes=sum(result.trials[trial.id].host_seconds for trial in trials) / 60,
                version=version.VERSION,
                commit=commit,
                python=python.VERSION,
            ),
        )
        names = {"loader": python.LOADER, "libraries": python.LIBRARIES, "program": python.PROGRAM}
        write_text(top / "verify", VERIFY.format(study=name, **names))
        (top / "verify").chmod(0o755)
        write_text(top / SUMS, "".join(f"{sha256(top / file)}  {file}\n" for file in listed(top)))
        say(f"compressing {sum((top / file).stat().st_size for file in listed(top)) / 1e6:.0f} MB")
        _pack(top, Path(work) / "packed")
        (Path(work) / "packed").rename(output)
    return output


def _describe(top: Path, work: Path, result: Result, setups: list[Setup], commit: str, say: Say) -> None:
    """What is in it, for others' tools, and tables and executed notebooks, which `verify` does not need."""
    say("tables, licences, bill of materials")
    lock, cache, guests = read_lock(), cache_folder(), {setup.guest for setup in setups}
    tools = tool_wishes(read_guest().suite)
    sets = [lock.packages(qemu.QEMU, tools[qemu.QEMU]), python.packages(lock)]
    sets += [lock.packages(name, wish_of(read_guest(name))) for name in sorted(guests)]
    used = {package for name in guests for package in packages_of(lock, read_guest(name))}
    used |= set(lock.packages(qemu.QEMU_OWN, tools[qemu.QEMU_OWN]))
    for setup in setups:
        if setup.kernel and setup.kernel.suites:
            sets.append(lock.packages(kernel_set(setup.kernel.name), kernel_wish(setup.kernel)))
    files = [fetch(cache, lock, packages, say) for packages in sets]
    described = [{each: at[each.name] for each in packages} for packages, at in zip(sets, files, strict=True)]
    describe.licences(top, described)
    found = (path.name.removesuffix(".dist-info").rpartition("-") for path in (top / "python/site").glob("*.dist-info"))
    wheels = {name: number for name, _, number in found if name not in ONLY_VERSIONS}
    describe.sbom(top, result.study, commit, {each for packages in sets for each in packages}, used, wheels)
    with pool() as processes:
        made = derive(work / "records", processes)
    describe.tables(top, work / "records/tables", result)
    shutil.copytree(made.report / "notebooks", top / "notebooks", ignore=shutil.ignore_patterns("*.sha256"))
    describe.crate(top, result, commit)


def _checkout(target: Path, commit: str, name: str, result: Path) -> None:
    """The files of a commit, with no other result than this one, and the log of all."""
    done = version.git(project_root(), "archive", commit, "--", ".", ":(exclude)results")
    if done.returncode:
        raise UserError(
            f"git archive of {commit[:12]} failed: {cut(done.stderr.decode(errors='replace').strip(), 150)}"
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
        files.extractall(target, filter="data")
    shutil.copytree(result, target / f"results/{name}")
    if (log := place(LOG)).is_file():
        shutil.copyfile(log, target / LOG)


def _setups(trials: Iterable[PlannedTrial]) -> tuple[list[Setup], set[str]]:
    """One setup of each guest, processor and kernel; the programs of the engine that the trials use."""
    catalog, programs, setups = Catalog(), set(), {}
    for trial in trials:
        setup = resolve(trial, catalog)
        setups[setup.guest, setup.cell.processor, setup.cell.kernel] = setup
        programs |= set(render(setup, trial.seed).programs())
    return list(setups.values()), programs


def _lab(top: Path, setups: list[Setup], programs: set[str], say: Say) -> None:
    """Guests, kernels, QEMU, engine and programs, from the cache or built."""
    source, target = cache_folder(), top / "cache"
    files: set[str] = set()
    folders = {qemu.own(source, say)["folder"]}
    for guest in sorted({setup.guest for setup in setups}):
        image.ensure(guest, say)
        known = read_json(place(f"data/guest/{guest}.json"))
        files |= {known[part]["file"] for part in image.FILES}
        folders.add(known["qemu"]["folder"])
        manifest = top / f"checkout/data/guest/{guest}.json"
        manifest.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place(f"data/guest/{guest}.json"), manifest)
    for setup in setups:
        lab = ExactLab.open(guest=setup.guest, processor=setup.processor, kernel=setup.kernel)
        files |= {str(path.relative_to(source)) for path in lab.files.values()}
        if setup.kernel:
            folders.add(f"kernel/{kernel.recipe_of_kernel(read_lock(), setup.kernel)}")
    for path in [engine.build(source), engine.build_gate(source), engine.build_nosync(source)]:
        files |= {str(path.relative_to(source)), str(path.with_suffix(".sha256").relative_to(source))}
    for path in engine.build_all(source, sorted(programs)).values():
        files |= {str(path.relative_to(source)), str(path.with_suffix(".sha256").relative_to(source))}
    for folder in sorted(folders):
        files |= {
            str(path.relative_to(source))
            for path in (source / folder).iterdir()
            if path.is_file() and not path.name.endswith(".checked")
        }
    for file in sorted(files):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / file, target / file)


def _python(home: Path, say: Say) -> None:
    """Python, the modules that a trial imports as uv.lock has them, and the versions of what it asks only those of."""
    python.gather(home, cache_folder(), read_lock(), say)
    uv = str(place(".uv/bin/uv")) if place(".uv/bin/uv").is_file() else "uv"
    with scratch() as work:
        wanted = Path(work) / "requirements.txt"
        quiet = ["--quiet", "--project", str(project_root())]
        _run([uv, "export", "--locked", "--no-dev", "--no-emit-project", "--output-file", str(wanted), *quiet])
        wanted.write_text(_only(wanted.read_text()))
        words = ["--target", str(home / "site"), "--python-version", python.VERSION, "--only-binary", ":all:"]
        words += ["--no-deps", "--require-hashes", "--link-mode", "copy", "--requirement", str(wanted)]
        _run([uv, "pip", "install", "--quiet", *words])
    python.check(home, home / "site")
    for path in [home / "site/.lock", *(home / "site").glob("*.dist-info/RECORD")]:
        path.unlink(missing_ok=True)
    for name in ONLY_VERSIONS:  # a record says the version, the engine's name in the cache has it
        metadata = home / f"site/{name}-{importlib.metadata.version(name)}.dist-info/METADATA"
        write_text(metadata, f"Metadata-Version: 2.1\nName: {name}\nVersion: {importlib.metadata.version(name)}\n")


def _only(text: str) -> str:
    """Of requirements with hashes those of WHEELS: each is a line `name==version` and lines that are set in."""
    kept, taken = [], False
    for line in text.splitlines():
        if not line.startswith((" ", "#")):
            taken = line.partition("==")[0] in WHEELS
        if taken:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, cwd=project_root())
    except FileNotFoundError:
        raise UserError("uv is missing, which fetches the archive's Python packages: run scripts/setup.") from None
    if done.returncode:
        raise UserError(f"`{' '.join(words[:3])}` failed: {cut(done.stderr.strip(), 200)}")


def _pack(top: Path, output: Path) -> None:
    """Writes a folder into an archive: sorted, owners and times the same wherever it is made."""
    with (
        lzma.open(output, "wb", preset=PRESET) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made,
    ):
        for name in [*listed(top), SUMS]:
            path = top / name
            entry = tarfile.TarInfo(f"{top.name}/{name}")
            entry.size, entry.mtime = path.stat().st_size, image.EPOCH
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                made.addfile(entry, file)
