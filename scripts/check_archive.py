# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "cyclonedx-python-lib[json-validation]==11.*",
#     "frictionless==5.*",
#     "roc-validator==0.13.*",
#     "rocrate==0.16.*",
# ]
# ///
"""Has the validators of others look at an unpacked archive: uv run --script scripts/check_archive.py FOLDER

The bill of materials by cyclonedx-python-lib, the tables by frictionless, the RO-Crate by roc-validator, which gets the
context that the crate names from a cache that is filled here, and asks no network.
"""

import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import requests
import rocrate
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from requests_cache import CachedSession
from urllib3 import HTTPResponse

CONTEXT = "https://w3id.org/ro/crate/1.1/context"


def context() -> bytes:
    """That of RO-Crate 1.1: the one that rocrate has, of 1.3, with the one term of the crate that differs."""
    found = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_bytes())
    found["@context"]["ComputationalWorkflow"] = "https://bioschemas.org/ComputationalWorkflow"
    return json.dumps(found).encode()


def fill(cache: str) -> None:
    session, body = CachedSession(cache, backend="sqlite", expire_after=-1), context()
    for headers in ({"Accept": "application/ld+json"}, {"Accept": "application/ld+json, application/json"}, {}):
        asked = session.prepare_request(requests.Request("GET", CONTEXT, headers=headers))
        raw = HTTPResponse(
            io.BytesIO(body), {"Content-Type": "application/ld+json"}, 200, preload_content=False, request_url=CONTEXT
        )
        answer = requests.adapters.HTTPAdapter().build_response(asked, raw)
        answer._content = body
        session.cache.save_response(answer, cache_key=session.cache.create_key(asked), expires=None)


def main(folder: Path) -> bool:
    """Whether all three are content; what one says goes to standard output."""
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str((folder / "sbom.cdx.json").read_text())
    print(f"sbom.cdx.json: {wrong or 'valid, CycloneDX 1.6'}")
    programs = Path(sys.executable).parent
    tables = subprocess.run([programs / "frictionless", "validate", "datapackage.json"], cwd=folder).returncode
    with tempfile.TemporaryDirectory() as work:
        fill(f"{work}/http")
        words = ["-y", "validate", "--offline", "--cache-path", f"{work}/http", "--no-paging"]
        words += ["--profile-identifier", "workflow-run-crate-0.5", str(folder)]
        crate = subprocess.run([programs / "rocrate-validator", *words]).returncode
    return not (wrong or tables or crate)


if __name__ == "__main__":
    sys.exit(not main(Path(sys.argv[1])))
