"""The folder that an import writes: its tables, its manifest, and how it takes the place of an earlier one."""

import csv
import io
import json
from pathlib import Path

from reprofs import files as common
from reprofs.errors import UserError
from reprofs.workplace import beside

MANIFEST = "import.json"


def check(output: Path, besides: Path | None = None) -> None:
    """Raises UserError unless `output` does not exist, is empty (but for `besides`), or was written by an import."""
    if not output.exists() and not output.is_symlink():
        return
    if output.is_dir() and not output.is_symlink():
        try:
            if all(path == besides for path in output.iterdir()):
                return
            if json.loads((output / MANIFEST).read_text())["made_by"] == "reprofs import":
                return
        except (OSError, ValueError, KeyError, TypeError):
            pass
    raise UserError(f"{output} exists and was not made by an import: choose another --output. Nothing was written.")


def write(
    output: Path, manifest: dict, described: list[dict], rows: list[dict], phases: list[dict], findings: list[dict]
) -> None:
    """Writes all files of an import, replacing an earlier one. described: the data dictionary of the tables.

    Raises UserError, and what was there stays.
    """
    try:
        # An existing folder is kept and only its files are exchanged: it may be a private one, the working
        # directory, or a mount point. A new one appears only when it is complete.
        there = output.exists()
        folder = output if there else output.parent
        with common.made(folder), beside(folder) as partial:
            new = partial / "new"
            new.mkdir()
            _table(new, "measurements", rows, described)
            if phases:
                _table(new, "phases", sorted(phases, key=lambda row: (row["trial"], row["position"])), described)
            columns = [row["column"] for row in described if row["table"] == "findings"]
            _csv(new / "findings.csv", columns, findings)
            _csv(new / "dictionary.csv", list(described[0]), described)
            (new / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=True) + "\n")
            common.write_sums(new / common.SUMS, new.iterdir())
            check(output, partial)
            if there:
                _exchange(output, new, partial)
            else:
                new.rename(output)
    except OSError as error:
        raise common.unwritable(output, error) from None


def _exchange(output: Path, new: Path, partial: Path) -> None:
    """Moves what is in `output` into `partial`, and what is in `new` into its place; all back when that fails."""
    (partial / "old").mkdir()
    moved = []
    try:
        for source, target in ((output, partial / "old"), (new, output)):
            for path in sorted(source.iterdir()):
                if path != partial:
                    path.rename(target / path.name)
                    moved.append((path, target / path.name))
    except BaseException:  # an interrupt too: what was there would be removed with `partial`
        for before, now in reversed(moved):
            now.rename(before)
        raise


def _table(folder: Path, name: str, rows: list[dict], described: list[dict]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(r["column"], pa.type_for_alias(r["type"])) for r in described if r["table"] == name])
    rows = [{key: _clean(row.get(key)) for key in schema.names} for row in rows]
    made = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), made)
    (folder / f"{name}.parquet").write_bytes(made.getvalue())
    _csv(folder / f"{name}.csv", schema.names, rows)


def _csv(path: Path, columns: list[str], rows: list[dict]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _clean(row[key]) for key in columns} for row in rows)
    path.write_text(text.getvalue(), encoding="utf-8")


def _clean(value):
    """Text in which bytes that are not UTF-8 are written as escapes."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
