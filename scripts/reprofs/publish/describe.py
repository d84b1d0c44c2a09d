"""Describes an archive in standard formats: licences and sources, SBOM, data package, RO-Crate."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow.csv
import pyarrow.parquet
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

from reprofs import version
from reprofs.errors import UserError
from reprofs.files import sha256, write_text
from reprofs.guest.lock import Package
from reprofs.guest.unpack import Tree, control
from reprofs.plan.result import Result
from reprofs.project import project_root
from reprofs.workplace import scratch

LICENCES, TABLES = "licences", "tables"
SBOM, CRATE, DATA = "sbom.cdx.json", "ro-crate-metadata.json", "datapackage.json"
COPYRIGHT = re.compile(r"(?!usr/share/doc(/[^/]+(/copyright)?)?$)")  # all but the folders and files that say it
OFFER = """Sources
=======
`sources.csv` names the source package, in its version, of every Debian package in this archive. Debian's mirrors have
the current ones, its archive of old versions all. Patches of ours are in `checkout/scripts/guest`.
For what is under the GNU General Public License or the Lesser one, whoever hands on this archive gives anyone who asks,
for at least three years, the complete source on a usual medium, for no more than copying and sending it costs.
"""
TYPES = {
    "string": "string",
    "int64": "integer",
    "double": "number",
    "bool": "boolean",
}  # of a dictionary, of Table Schema
RUN = "https://w3id.org/ro/wfrun"
PROFILES = {
    f"{RUN}/process/0.5": ("Process Run Crate", "0.5"),
    f"{RUN}/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
MIT = "https://spdx.org/licenses/MIT"


def licences(top: Path, sets: Iterable[dict[Package, Path]]) -> None:
    """Writes licences/: the copyright file of each Debian package, and sources.csv.

    sets: of packages with their .deb files; in each a name has one version.
    """
    out = io.StringIO()
    done: set[Package] = set()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["package", "version", "sha256", "source", "source_version"])
    for packages in sets:
        with scratch() as folder:
            tree = Tree(Path(folder) / "tree")
            for package, file in packages.items():
                tree.add(file, package.sha256, COPYRIGHT)
            for package in sorted(packages.keys() - done):
                name, _, number = control(packages[package]).get("Source", package.name).partition(" ")
                row = [package.name, package.version, package.sha256, name, number.strip("()") or package.version]
                table.writerow(row)
                found = tree.root / tree.real(f"usr/share/doc/{package.name}") / "copyright"
                if found.is_file() and not found.is_symlink():  # which could lead out of the tree
                    file = top / LICENCES / f"{package.name}_{quote(package.version)}"
                    write_text(file, found.read_text(errors="replace"))
        done |= packages.keys()
    write_text(top / LICENCES / "sources.csv", out.getvalue())
    write_text(top / LICENCES / "SOURCES", OFFER)


def sbom(top: Path, name: str, commit: str, inside: set[Package], used: set[Package], wheels: dict[str, str]) -> None:
    """Writes the software bill of materials, CycloneDX 1.6.

    inside: Debian packages of which the archive has files; used: those that compiled or made something in it; wheels:
    Python packages by version.
    """
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"reprofs {commit} {name}"))
    bom.metadata.timestamp = datetime.fromisoformat(date_of(commit))
    bom.metadata.component = own = _component(PackageURL("generic", None, "reprofs", version.VERSION))
    own.type = ComponentType.APPLICATION
    own.licenses.add(DisjunctiveLicense(id="MIT"))
    own.properties.update([Property(name="commit", value=commit), Property(name="study", value=name)])
    for package in inside | used:
        kind = "source" if package.arch == "source" else package.arch
        part = _component(PackageURL("deb", "debian", package.name, package.version, {"arch": kind}))
        part.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=package.sha256))
        part.scope = ComponentScope.REQUIRED if package in inside else ComponentScope.EXCLUDED
        bom.components.add(part)
    for each, number in wheels.items():
        part = _component(PackageURL("pypi", None, each, number))
        part.scope = ComponentScope.REQUIRED
        bom.components.add(part)
    bom.register_dependency(own, bom.components)
    write_text(top / SBOM, JsonV1Dot6(bom).output_as_string(indent=1) + "\n")


def _component(url: PackageURL) -> Component:
    return Component(name=url.name, version=url.version, purl=url, bom_ref=str(url))


def tables(top: Path, source: Path, result: Result) -> None:
    """Writes the tables of a result, made of its records (folder `source`), as CSV, and a data package of them.

    Source: Frictionless Data, Data Package and Table Schema 1.0. Raises UserError when they are not those published.
    """
    for name, digest in result.tables.items():
        if sha256(source / name) != digest:
            raise UserError(
                f"the table {name} is not the published one, because this version computes tables differently: "
                "publish it again."
            )
    fields: dict[str, list[dict]] = {}
    with (source / "dictionary.csv").open() as file:
        for row in csv.DictReader(file):
            unit = {"unit": row["unit"]} if row["unit"] else {}
            field = {"name": row["column"], "type": TYPES[row["type"]], "description": row["meaning"], **unit}
            fields.setdefault(row["table"], []).append(field)
    resources = []
    for name, columns in fields.items():
        path = top / TABLES / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        pyarrow.csv.write_csv(pyarrow.parquet.read_table(source / f"{name}.parquet"), path)
        resources.append(
            {
                "name": name,
                "path": f"{TABLES}/{name}.csv",
                "profile": "tabular-data-resource",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "bytes": path.stat().st_size,
                "hash": f"sha256:{sha256(path)}",
                "schema": {"fields": columns, "missingValues": [""]},
            }
        )
    content = {
        "profile": "data-package",
        "name": f"reprofs-{result.study}",
        "title": result.title,
        "description": result.question,
        "licenses": [{"name": "MIT", "path": MIT}],
        "resources": resources,
    }
    write_text(top / DATA, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def crate(top: Path, result: Result, commit: str) -> None:
    """Writes the metadata of an RO-Crate 1.1 with the profile Workflow Run Crate 0.5; last of all files but SUMS."""
    study = f"checkout/results/{result.study}"
    records = sorted(f"{study}/{name}" for name in result.files if name.startswith("records-"))
    parts = {
        **{name: ("Raw records and the plan", "application/x-xz") for name in records},
        f"{study}/index.html": ("Report", "text/html"),
        f"{study}/digests.json": ("Digests of trials, tables and files", "application/json"),
        "checkout/envs/lab.lock": ("What the lab consists of, to the byte", "text/plain"),
        SBOM: ("Software bill of materials, CycloneDX 1.6", "application/json"),
        DATA: ("Description of the tables, Frictionless data package", "application/json"),
        **{f"{TABLES}/{path.name}": (f"Table {path.stem}", "text/csv") for path in sorted((top / TABLES).iterdir())},
    }
    asked = f"checkout/config/studies/{result.study}.yaml"
    if (top / asked).is_file():
        parts[asked] = ("The study", "application/yaml")
    made = ROCrate(version="1.1")

    def context(each: str, kind: str, /, **more: str) -> ContextEntity:
        return made.add(ContextEntity(made, each, {"@type": kind, **more}))

    made.name = result.title
    made.description = f"{result.question} Records, tables, report, and all that runs the trials again."
    made.datePublished = datetime.fromisoformat(date_of(commit)).date()
    made.license = context(MIT, "CreativeWork", name="MIT License")
    authors = context("#authors", "Organization", name="The ReproFS authors")
    made.root_dataset["author"] = authors
    about = {"name": "ReproFS, from study to report", "version": f"{version.VERSION}, commit {commit}"}
    workflow = made.add_workflow(dest_path="checkout/Snakefile", properties=about, main=True, lang="snakemake")
    workflow["license"] = made.license
    made.root_dataset["conformsTo"] = [
        context(each, "CreativeWork", name=name, version=number) for each, (name, number) in PROFILES.items()
    ]
    files = {
        name: made.add_file(dest_path=name, properties={"name": text, "encodingFormat": kind})
        for name, (text, kind) in parts.items()
    }
    run = made.add_action(
        workflow,
        "#run",
        object=[files[asked]] if asked in files else [],
        result=[file for name, file in files.items() if name.startswith((study, TABLES))],
        properties={
            "name": f"The study {result.study}",
            "endTime": result.measured.last,
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    run["agent"] = authors
    made.root_dataset["mentions"] = run
    made.metadata.write(top)


def date_of(commit: str) -> str:
    """When a commit of this checkout was made, as ISO 8601. Raises UserError without it."""
    done = version.git(project_root(), "show", "--no-patch", "--format=%cI", commit)
    if done.returncode:
        raise UserError(f"commit {commit[:12]} is in no branch of this checkout: fetch it.")
    return done.stdout.decode().strip()
