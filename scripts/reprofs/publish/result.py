"""The folder of a published result: made of a study's run, and its tables and verdicts of its records.

digests.json says what the rest is (workflow/schemas/result.schema.yaml). records-1.tar.xz, records-2.tar.xz, ... hold
the plan and one raw record for each trial; index.html and report.pdf are the report, lab.lock the lab, ABOUT.md a
summary, cells.csv the times and picture.svg the picture of the index (publish/index.py).
"""

from __future__ import annotations

import json
import lzma
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reprofs import version
from reprofs.data.records import Reader
from reprofs.data.tables import build
from reprofs.errors import UserError
from reprofs.files import SUMS, read_sums, sha256, tar, write_text
from reprofs.guest.lock import LOCK, read_lock
from reprofs.plan.plan import Plan, read_plan
from reprofs.plan.result import DIGESTS, Result, ResultTrial
from reprofs.project import place
from reprofs.publish.read import unpack
from reprofs.report import text
from reprofs.stats import study as studies
from reprofs.stats.published import claims, comparison

CELLS, PICTURE = "cells.csv", "picture.svg"
LARGEST = 2 << 20  # bytes of a file in the repository
PARTS = ("image", "kernel", "initrd", "engine", "gate", "qemu")  # of a lab; records have the digests
PACKED = 12 << 20  # bytes of records in one archive: they become a tenth or less
ABOUT = """# {title}

{answer}
{verdicts}
## Check it

{count} trials by protocol {protocol}, ReproFS {reprofs}, commit {commit}; {hours:.2g} hours of one core.

    uv run reprofs verify results/{study}            three trials, drawn at random, are run again
    uv run reprofs verify results/{study} --claims   tables and verdicts are made again from the records
"""


def publish(name: str) -> Path:
    """Writes results/NAME of a study that was run to its report; returns the folder.

    Raises UserError when files of the checkout are not committed, when something of the run is missing, not of these
    records or of another lab than envs/lab.lock says, and for a file that is larger than 2 MiB.
    """
    commit = version.commit()
    if not commit or commit.endswith("+"):
        raise UserError("what is published names its commit: commit what you have edited, and publish then.")
    study = studies.open(name)
    plan_file, report = _plan_of(name, study.plan), place(f"report/{name}")
    plan, raw = read_plan(plan_file), place(f"data/raw/{name}")
    records = {trial.id: raw / f"{trial.id}.json" for trial in plan.trials}
    trials = _trials(plan, raw, read_sums(place(f"data/tables/{name}/records.sha256")))
    folder, tables = place(f"results/{name}"), read_sums(place(f"data/tables/{name}") / SUMS)
    partial = folder.with_name(f".{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        for source in (report / "index.html", report / "report.pdf", place(LOCK)):
            if not source.is_file():
                raise UserError(f"{source} is missing: run `make report STUDY={name}` first.")
            text_of = source.read_text() if source.suffix == ".html" else ""
            named = [digest for table, digest in tables.items() if table.endswith(".parquet")]
            if text_of and not all(digest in text_of for digest in named):
                raise UserError(f"{source} is not of these tables: run `make report STUDY={name}` again.")
            if 'id="what-changed"' in text_of:
                raise UserError(f"{source} has a run beside the study: run `make report STUDY={name}` without BESIDE.")
            shutil.copyfile(source, partial / source.name)
        _pack([("plan.json", plan_file), *((f"raw/{key}.json", path) for key, path in records.items())], partial)
        result = Result(
            study=name,
            title=plan.study.title,
            question=plan.study.question,
            answer=text.answer_of(study, plan, report),
            verdicts=verdicts(study),
            protocol=plan.protocol,
            reprofs=version.VERSION,
            commit=commit,
            lock_sha256=sha256(partial / "lab.lock"),
            host_hours=round(sum(trial.host_seconds for trial in trials.values()) / 3600, 4),
            trials=trials,
            tables=tables,
            files={},
        )
        write_text(partial / "ABOUT.md", _about(result))
        write_text(partial / CELLS, _cells(study))
        if picture := _picture(report / "figures"):
            shutil.copyfile(picture, partial / PICTURE)
        files = {path.name: sha256(path) for path in sorted(partial.iterdir())}
        whole = result.model_copy(update={"files": files})
        write_text(partial / DIGESTS, json.dumps(whole.as_json(), indent=1, ensure_ascii=False) + "\n")
        if large := next((path for path in partial.iterdir() if path.stat().st_size > LARGEST), None):
            size = f"{large.stat().st_size:,}"
            raise UserError(
                f"{large.name} of {name} has {size} bytes: more than the {LARGEST:,} of a file in git here."
            )
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _plan_of(name: str, plan: Plan) -> Path:
    rounds = plan.stopping.looks[-1].rounds if plan.stopping else 0
    return place(f"data/rounds/{name}/{rounds}.json" if rounds else f"data/plan/{name}.json")


def _trials(plan: Plan, raw: Path, noted: dict[str, str]) -> dict[str, ResultTrial]:
    """What became of each trial. noted: digests of the records that the tables were made of."""
    reader, found = Reader(plan, raw), {}
    locked = {digest for _, digest in read_lock().built.values()}
    for trial in plan.trials:
        record, digest = reader.read(trial)
        if record is None or noted.get(f"{trial.id}.json") != digest:
            raise UserError(f"{raw / trial.id}.json is missing or not of the tables: run `make report` again.")
        if record["environment"].get("commit", "").endswith("+"):
            raise UserError(
                f"{raw / trial.id}.json was measured with edited files, which no commit has: remove {raw}, and run "
                "`make report` again."
            )
        lab = record["environment"]["lab"]
        # The start of a guest with another kernel is made of parts that are locked, and not locked itself.
        parts = [part for part in PARTS if part != "initrd" or not trial.kernel]
        if other := [part for part in parts if lab.get(f"{part}_sha256", "") not in {"", *locked}]:
            raise UserError(
                f"{raw / trial.id}.json was measured in another lab than that of {LOCK} ({', '.join(other)}): remove "
                f"{raw}, and run `make report` again."
            )
        found[trial.id] = ResultTrial(
            status=record["status"],
            measurement=record["digests"]["measurement"],
            host_seconds=record["environment"]["host_seconds"],
        )
    return found


def _pack(files: list[tuple[str, Path]], folder: Path) -> None:
    """Writes files, each with its name, into archives that are the same bytes wherever they are made."""
    packs: list[list[tuple[str, bytes]]] = [[]]
    for name, path in files:
        data = path.read_bytes()
        if packs[-1] and sum(len(each) for _, each in packs[-1]) + len(data) > PACKED:
            packs.append([])
        packs[-1].append((name, data))
    for number, pack in enumerate(packs, 1):
        (folder / f"records-{number}.tar.xz").write_bytes(lzma.compress(tar(pack), preset=6))


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


def verdicts(study: studies.Study) -> dict[str, list[str]]:
    """The verdicts on published claims, over all grounds of a study: the word -> names of claims."""
    found: dict[str, list[str]] = {word: [] for word in claims.VERDICTS}
    for own in comparison.Comparison(study).claims.values():
        for one in own.judged:
            found[one.verdict.word].append(one.claim.id)
    return {word: sorted(names) for word, names in found.items() if names}


def _named(names: list[str]) -> str:
    """How many claims, and their names, each once: one may have been judged in several settings."""
    times = Counter(names)
    parts = (f"{name} in {number} settings" if number > 1 else name for name, number in times.items())
    return f"{len(times)} ({', '.join(parts)})"


def _about(result: Result) -> str:
    lines = "".join(f"- {word}: {_named(names)}\n" for word, names in result.verdicts.items())
    return ABOUT.format(
        title=result.title,
        answer="\n".join(f"    {line}".rstrip() for line in result.answer.strip("\n").split("\n")),
        verdicts=f"\nOn published claims:\n\n{lines}" if lines else "",
        count=len(result.trials),
        protocol=result.protocol,
        reprofs=result.reprofs,
        commit=result.commit,
        hours=result.host_hours,
        study=result.study,
    )


def derive(folder: Path, result: Result, work: Path) -> Iterator[str]:
    """Makes tables and verdicts of the records alone; says what is not as published, a sentence each.

    work: an empty folder. Raises UserError for a damaged record.
    """
    unpack(folder, result, work)
    build(work / "plan.json", work / "raw", work / "tables")
    made = read_sums(work / "tables" / SUMS)
    for name in sorted({*made, *result.tables}):
        if made.get(name) != result.tables.get(name):
            yield f"the table {name} is not the published one"
    found = verdicts(studies.open(f"{work}/tables"))
    for word in [*result.verdicts, *(word for word in found if word not in result.verdicts)]:
        if found.get(word, []) != result.verdicts.get(word, []):
            now, then = (", ".join(each.get(word, [])) or "none" for each in (found, result.verdicts))
            yield f"{word}: {now}; published: {then}"
