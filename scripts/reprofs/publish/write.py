"""The folder of a published result: made of the records of a study's run, and of nothing else.

digests.json says what the rest is (workflow/schemas/result.schema.yaml). records-1.tar.xz, records-2.tar.xz, ... hold
the plan and one raw record for each trial, profiles-1.tar.xz, ... the exact profiles; index.html is the report,
lab.lock the lab, ABOUT.md a summary, cells.csv the times and picture.svg the picture of the index (publish/index.py).
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections import Counter
from pathlib import Path

from pydantic import ValidationError

from reprofs import version
from reprofs.data.reader import Reader
from reprofs.errors import UserError, cut
from reprofs.files import read_sums, sha256, tar, write_text
from reprofs.guest.lock import LOCK, QEMU, QEMU_OWN, read_lock
from reprofs.plan.cell import PlannedTrial
from reprofs.plan.plan import Plan, read_plan
from reprofs.plan.result import DIGESTS, Measured, Rendered, Result, ResultTrial
from reprofs.project import place
from reprofs.publish import derive as derived
from reprofs.publish import log
from reprofs.records import identity
from reprofs.records.publication import PROFILE, RECORD, read, unpack
from reprofs.records.raw import AGAIN
from reprofs.stats import study as studies
from reprofs.workplace import beside, put, scratch

ABOUT_FILE, CELLS, PICTURE = "ABOUT.md", "cells.csv", "picture.svg"
LARGEST = 2 << 20  # bytes of a file in the repository
PARTS = ("image", "kernel", "initrd", "engine", "gate", "qemu")  # of a lab; records have the digests
FACTS = {"reprofs": str, "commit": str, "started": str, "host_seconds": int | float}  # that a record's environment has
PACKED = 12 << 20  # bytes of records in one archive: they become a tenth or less
ABOUT = """# {title}

{answer}
{verdicts}
## Check it

{count} trials, protocol {protocol}, {hours:.2g} host hours.
Measured {days} by {measured}.
Tables, verdicts and this page rendered by ReproFS {reprofs}, commit {commit}.

    uv run reprofs verify results/{study}            runs three random trials again
    uv run reprofs verify results/{study} --claims   recomputes tables and verdicts
"""


def publish(name: str) -> Path:
    """Writes results/NAME of a study that was run to its report; returns the folder.

    Raises UserError when files of the checkout are not committed, when something of the run is missing, not of these
    records or of another lab than envs/lab.lock says, and for a file that is larger than 2 MiB.
    """
    commit = _commit()
    study = studies.open(name)
    rounds = study.plan.stopping.looks[-1].rounds if study.plan.stopping else 0
    plan_file = place(f"data/rounds/{name}/{rounds}.json" if rounds else f"data/plan/{name}.json")
    plan, raw = read_plan(plan_file), place(f"data/raw/{name}")
    noted = read_sums(place(f"data/tables/{name}/records.sha256"))
    with scratch() as folder:
        work = Path(folder)
        (work / "raw").mkdir()
        shutil.copyfile(plan_file, work / "plan.json")
        for trial in plan.trials:
            record = raw / f"{trial.id}.json"
            if not record.is_file() or noted.get(record.name) != sha256(record):
                raise UserError(
                    f"{record} is missing or does not match the tables: run `make report STUDY={name}` again."
                )
            shutil.copyfile(record, work / "raw" / record.name)
        for trial in plan.profiled():
            profile = place(f"data/profiles/{name}/{trial.id}")
            drawn = shutil.ignore_patterns("*.svg", "speedscope.json", ".snakemake_timestamp")  # made of the rest
            shutil.copytree(profile, work / "profiles" / trial.id, ignore=drawn)
        return _write(work, place(LOCK), commit)


def render(name: str) -> Path:
    """Writes results/NAME anew, of its own records: what was measured stays, words and pictures are today's.

    Raises UserError like `publish`.
    """
    commit, folder = _commit(), place(f"results/{name}")
    with scratch() as work:
        unpack(folder, read(folder), Path(work))
        return _write(Path(work), folder / "lab.lock", commit)


def _commit() -> str:
    commit = version.commit()
    if not commit or commit.endswith("+"):
        raise UserError("cannot publish: there are uncommitted changes, or this is no clone. Commit them first.")
    return commit


def _write(work: Path, lock: Path, commit: str) -> Path:
    """The folder of the result whose plan, records and profiles are in `work`, measured in the lab of a lock."""
    plan = read_plan(work / "plan.json")
    name = plan.study.name
    if odd := foreign(plan, work / "raw", lock):
        raise UserError(f"{odd}: remove data/raw/{name}, and run `make report` again.")
    folder = place(f"results/{name}")
    folder.parent.mkdir(exist_ok=True)
    with beside(folder.parent) as held:
        partial = held / name
        make(work, lock, Rendered(reprofs=version.VERSION, commit=commit), partial)
        if large := next((path for path in partial.iterdir() if path.stat().st_size > LARGEST), None):
            raise UserError(
                f"{large.name} of {name} has {large.stat().st_size:,} bytes, more than the {LARGEST:,} that git "
                "takes here: publish a smaller study."
            )
        put(partial, folder)
        try:
            log.append(folder)
        except BaseException:  # no result stays that the log has not
            if partial.exists():
                put(partial, folder)
            else:
                shutil.rmtree(folder)
            raise
    return folder


def make(work: Path, lock: Path, rendered: Rendered, folder: Path) -> None:
    """Makes a whole result in an empty folder, of plan, records and profiles in `work` and a lock; the same each time.

    rendered: what it says to be made by.
    """
    plan = read_plan(work / "plan.json")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(lock, folder / "lab.lock")
    records = [work / "plan.json", *(work / f"raw/{trial.id}.json" for trial in plan.trials)]
    _pack("records", records, work, folder)
    _pack("profiles", sorted(path for path in (work / "profiles").rglob("*") if path.is_file()), work, folder)
    with derived.pool() as processes:
        made = derived.derive(work, processes)
    shutil.copyfile(made.report / "index.html", folder / "index.html")
    result = facts(work, lock, made.study, made.tables).model_copy(update={"answer": made.answer, "rendered": rendered})
    for name, content in texts(result, made.study).items():
        write_text(folder / name, content)
    if picture := _picture(made.report / "figures"):
        shutil.copyfile(picture, folder / PICTURE)
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    whole = result.model_copy(update={"files": files})
    write_text(folder / DIGESTS, json.dumps(whole.as_json(), indent=1, ensure_ascii=False) + "\n")


def facts(work: Path, lock: Path, study: studies.Study, tables: dict[str, str]) -> Result:
    """What digests.json says of the records in `work`, of which `study` and `tables` were made; and no answer."""
    plan = read_plan(work / "plan.json")
    try:
        return _facts(plan, work, lock, study, tables)
    except ValidationError as error:
        first = error.errors()[0]
        key = cut(".".join(map(str, first["loc"])), 60)
        raise UserError(f"{work / 'plan.json'}, or a record: {key}: {cut(first['msg'], 80)}; {AGAIN}") from None


def _facts(plan: Plan, work: Path, lock: Path, study: studies.Study, tables: dict[str, str]) -> Result:
    trials, measured = _trials(plan, work / "raw")
    return Result(
        study=plan.study.name,
        title=plan.study.title,
        question=plan.study.question,
        answer="",
        verdicts=derived.verdicts(study),
        protocol=plan.protocol,
        measured=measured,
        rendered=Rendered(reprofs=version.VERSION, commit="0" * 40),
        lock_sha256=sha256(lock),
        host_hours=round(sum(trial.host_seconds for trial in trials.values()) / 3600, 4),
        trials=trials,
        tables=tables,
        files={},
    )


def texts(result: Result, study: studies.Study) -> dict[str, str]:
    """The files of a result that tables and digests.json give: name -> content."""
    return {ABOUT_FILE: _about(result), CELLS: _cells(study)}


def foreign(plan: Plan, raw: Path, lock: Path) -> str:
    """The first trial that was not measured by committed code in the lab of a lock, as a clause; empty without one."""
    built = read_lock(lock).built
    reader = Reader(plan, raw)
    for trial in plan.trials:
        environment = _read(reader, trial)["environment"]
        if environment.get("commit", "").endswith("+"):
            return f"{trial.id} was measured with uncommitted changes"
        lab = environment["lab"]
        # The start of a guest with another kernel is made of parts that are locked, and not locked itself.
        parts = [part for part in PARTS if part != "initrd" or not trial.kernel]
        other_qemu = QEMU if plan.labs[trial.full_lab].clock == identity.CLOCK else QEMU_OWN
        # Before protocol 7 Debian's QEMU had one core, ours several.
        locked = {digest for name, (_, digest) in built.items() if name != other_qemu or plan.protocol < 7}
        if other := [part for part in parts if lab.get(f"{part}_sha256", "") not in {"", *locked}]:
            return f"{trial.id} was measured with a lab that differs from {LOCK} ({', '.join(other)})"
        if "ran_by" in lab and lab["ran_by"]["qemu_sha256"] != built.get(QEMU, ("", ""))[1]:
            return f"{trial.id} was run by a QEMU that {LOCK} does not have"
    return ""


def _read(reader: Reader, trial: PlannedTrial) -> dict:
    record, _ = reader.read(trial)
    file = f"{reader.raw / trial.id}.json"
    if record is None:
        raise UserError(f"{file} is missing: run `make report` again.")
    environment = record["environment"]
    lab, ran_by = environment["lab"], environment["lab"].get("ran_by", {"qemu_sha256": ""})
    known = {f"environment.{key}": (environment.get(key), kind) for key, kind in FACTS.items()}
    known |= {f"environment.lab.{part}_sha256": (lab.get(f"{part}_sha256", ""), str) for part in PARTS}
    known["environment.lab.ran_by"] = ran_by.get("qemu_sha256") if isinstance(ran_by, dict) else None, str
    if odd := next((key for key, (value, kind) in known.items() if not isinstance(value, kind)), ""):
        raise UserError(f"{file}: {odd} is missing or invalid; {AGAIN}")
    return record


def _trials(plan: Plan, raw: Path) -> tuple[dict[str, ResultTrial], Measured]:
    """What became of each trial, and what measured them."""
    reader, found = Reader(plan, raw), {}
    versions, commits, started = Counter[str](), Counter[str](), []
    for trial in plan.trials:
        record = _read(reader, trial)
        environment = record["environment"]
        versions[environment["reprofs"]] += 1
        commits[environment["commit"]] += 1
        started.append(environment["started"])
        found[trial.id] = ResultTrial(
            status=record["status"],
            measurement=record["digests"]["measurement"],
            identity=identity.of(identity.parts_of(record)),
            host_seconds=environment["host_seconds"],
        )
    ordered = {"reprofs": dict(sorted(versions.items())), "commits": dict(commits.most_common())}
    return found, Measured(**ordered, first=min(started, default=""), last=max(started, default=""))


def _pack(kind: str, files: list[Path], work: Path, folder: Path) -> None:
    """Writes files below `work` into archives that are the same bytes wherever they are made.

    Raises UserError for a file that `unpack` would refuse.
    """
    packs: list[list[tuple[str, bytes]]] = []
    most = PROFILE if kind == "profiles" else RECORD
    for path in files:
        data = path.read_bytes()
        if len(data) > most:
            raise UserError(
                f"{path.relative_to(work)} has {len(data):,} bytes, but a file of {kind} at most {most:,} in a result: "
                "profile fewer files or a smaller scale."
            )
        if not packs or sum(len(each) for _, each in packs[-1]) + len(data) > PACKED:
            packs.append([])
        packs[-1].append((str(path.relative_to(work)), data))
    for number, pack in enumerate(packs, 1):
        (folder / f"{kind}-{number}.tar.xz").write_bytes(lzma.compress(tar(pack), preset=6))


def _cells(study: studies.Study) -> str:
    """One line a cell and operation: its rounds' geometric mean with its 95 % interval, in ns, and its first trial."""
    names = ["lab", "stack", "profile", "workload", "scale", "label"]
    first = study.trials.sort_values("round").drop_duplicates(names)[[*names, "trial"]]
    cells = study.results.statistics.rename(columns={"n": "rounds"}).merge(first, on=names)
    times = ["geometric_mean_ns", "low_ns", "high_ns"]
    cells = cells.sort_values([*names, "position"], kind="stable")
    return cells[[*names, "phase", "cache", "role", "rounds", *times, "trial"]].to_csv(index=False, float_format="%.6g")


def _picture(figures: Path) -> Path | None:
    """What the answer shows: its totals, else the first figure."""
    found = sorted(figures.glob("*.svg"), key=lambda path: (not path.name.startswith("totals"), path.name))
    return found[0] if found else None


def _named(names: list[str]) -> str:
    """How many claims, and their names, each once: one may have been judged in several settings."""
    times = Counter(names)
    parts = (f"{name} in {number} settings" if number > 1 else name for name, number in times.items())
    return f"{len(times)} ({', '.join(parts)})"


def quoted(answer: str) -> str:
    """An answer as ABOUT.md has it."""
    return "\n".join(f"    {line}".rstrip() for line in answer.strip("\n").split("\n"))


def _about(result: Result) -> str:
    lines = "".join(f"- {word}: {_named(names)}\n" for word, names in result.verdicts.items())
    commits = [commit[:12] for commit in result.measured.commits]
    several = f"commits {', '.join(commits)}" if len(commits) > 1 else f"commit {''.join(commits)}"
    return ABOUT.format(
        title=result.title,
        answer=quoted(result.answer),
        verdicts=f"\nOn published claims:\n\n{lines}" if lines else "",
        count=len(result.trials),
        protocol=result.protocol,
        days=result.measured.days(),
        measured=f"ReproFS {', '.join(result.measured.reprofs)}, {several}",
        reprofs=result.rendered.reprofs,
        commit=result.rendered.commit[:12],
        hours=result.host_hours,
        study=result.study,
    )
