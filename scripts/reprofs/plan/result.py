"""A published result (results/NAME/digests.json): what was measured, with which lab, and the digest of each file."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from reprofs.errors import UserError, short
from reprofs.files import SUMS
from reprofs.plan.parts import Descriptor, Filled, Part, wrong
from reprofs.project import place

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256")]
Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]  # of seconds or hours
NAME = re.compile(r"[\w.+-]{1,100}")
DIGESTS = "digests.json"


def file_of_run(run: str) -> Path:
    """The file that has the digests of a run: of results/NAME, of a folder of tables, or of the tables of NAME here.

    Raises UserError where there is none.
    """
    folder = place(run) if "/" in run else place("data/tables") / run
    for file in (folder / DIGESTS, folder / SUMS):
        if file.is_file():
            return file
    raise UserError(
        f"{short(run)} is not a run: name results/NAME, a folder such as data/tables/NAME, or NAME of a study "
        "that was run here."
    )


class ResultTrial(Part):
    """What became of a trial."""

    status: Literal["ok", "failed", "timeout", "skipped"]
    measurement: Digest
    identity: str = Field("", description="Of all that fixes the measurement (SHA-256); empty on a real clock")
    host_seconds: Amount


class Measured(Part):
    """What measured the trials, by their records: numbers of trials by version and by commit; first and last second."""

    reprofs: dict[str, int]
    commits: dict[str, int]
    first: str
    last: str

    def days(self) -> str:
        """2026-11-25, or 2026-11-25 to 2026-11-26."""
        return " to ".join(dict.fromkeys([self.first[:10], self.last[:10]]))


class Rendered(Part):
    """What made report, tables and verdicts of the records."""

    reprofs: Filled
    commit: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]


class Result(Descriptor):
    kind = "result"

    model_config = ConfigDict(title="A published result (results/NAME/digests.json)")

    layout: Literal[2] = Field(2, alias="schema")
    study: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+@-]{0,63}$")]
    title: Filled
    question: Filled
    answer: str = Field(description="What its page one says, as text")
    verdicts: dict[str, list[str]] = Field(description="On published claims: the word -> names of claims")
    protocol: int
    measured: Measured
    rendered: Rendered
    lock_sha256: Digest = Field(description="Of the file lab.lock")
    host_hours: Amount = Field(description="Of all its trials together")
    trials: dict[str, ResultTrial] = Field(description="By their names")
    tables: dict[str, Digest] = Field(description="Of the files that `reprofs dataset` makes of the records")
    files: dict[str, Digest] = Field(description="Of all others in this folder")

    @model_validator(mode="after")
    def _is_safe(self) -> "Result":
        for name in self.files:
            if not NAME.fullmatch(name):
                raise wrong(f"has a file {name[:60]!a}, which is no plain name")
        return self
