"""What somebody published (data/published): its numbers are in a CSV file beside it, its claims are here."""

import re
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from reprofs.plan.parts import Count, Descriptor, Filled, Part, Within, Word, wrong

Quantity = Literal[
    "time", "user", "system", "rate", "rate-sd", "rate-min", "operations", "operations-sd", "share", "period"
]


class Value(Part):
    """Where a value stands: in the published file, and among what a study measured. What is left out is not asked."""

    place: str | None = Field(None, description="Of the published values only: the column place")
    size: Count | None = Field(None, description="Of the published values only: the column size")
    workload: str | None = Field(None, description="With its modifiers, without its size")
    stack: str | None = None
    label: str | None = Field(None, description="File system, +variant unless that is default")
    phase: str | None = Field(None, description="A phase, or the name of a part of a phase that was timed (samples)")
    cache: Literal["cold", "warm"] | None = None
    quantity: Quantity | None = Field(
        None,
        description="time (the default), its user and system part; rate of content and operations a second, and the"
        " standard deviation of either over the samples of a phase; the lowest rate of a sample; share of a full file"
        " system that holds content; files of a fill from one dip of the rate to the next",
    )


# Kind of claim: the keys of which it has at least one, and those that it may have beside.
CLAIMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ratio": ((), ("value", "within")),
    "bound": (("least", "most"), ()),
    "order": ((), ("most",)),
    "monotone": ((), ()),
    "within": (("within",), ()),
    "no-winner": (("over",), ()),
    "mostly": (("over",), ("most",)),
}
Factor = Annotated[float, Within(1e-9, 10**9)]


class Claim(Part):
    id: Word
    where: Filled = Field(description="Its place in the source")
    says: Filled = Field(description="The claim in our words")
    kind: Literal["ratio", "bound", "order", "monotone", "within", "no-winner", "mostly"] = Field(
        description="ratio: the first over the second is `value`, or what the published values give; bound: the first"
        " over each other one is `least` or more, `most` or less, or both; order: each is larger than the next, by"
        " `most` at most (a little); monotone:"
        " none is smaller than the next, the last is smaller than the first; within: no two are farther apart than the"
        " factor `within`; no-winner: over the steps `over` neither of two is always the larger one; mostly: in more"
        " than half of the steps the first is larger than each other one, by `most` at most"
    )
    at: Value | None = Field(None, description="What all values of the claim have in common")
    of: Annotated[list[Value], Field(min_length=1)] = Field(
        description="The values that are compared, where they differ; a single one is compared with a number"
    )
    over: Annotated[list[Value], Field(min_length=2)] | None = Field(
        None, description="Of no-winner and mostly: the steps"
    )
    value: Factor | None = Field(None, description="Of ratio: the number that is claimed, in s, bytes or 1/s if of one")
    within: Annotated[float, Within(1, 10)] | None = Field(
        None, description="A factor: of within the one claimed; of ratio how far off still counts as reproduced"
    )
    least: Factor | None = None
    most: Factor | None = None
    least_size: Count | None = Field(None, description="A study with a smaller size than this cannot decide it")
    about: Literal["devices", "processor"] | None = Field(
        None,
        description="What it is about, if not file systems: devices, so that it is decided on devices of that kind, and"
        " where the processor waits for them; processor, so that it is decided however busy that is",
    )
    never: bool = Field(False, description="No trial can contain what it compares: it is not decidable")
    own_stack: bool = Field(
        False, description="Whether what stands in for the published stack or file system cannot decide it"
    )
    needs: Filled = Field(description="What it takes to decide it")
    reading: Filled | None = Field(None, description="What is known of why our ratio is another one")

    @property
    def values(self) -> list[Value]:
        """Its values, each with the keys common to all."""
        named = [*self.of, *(self.over or [])]
        return [self.at.model_copy(update=one.model_dump(exclude_none=True)) for one in named] if self.at else named

    @model_validator(mode="after")
    def _is_whole(self) -> "Claim":
        given = [key for key in ("least", "most", "within", "value", "over") if getattr(self, key) is not None]
        needed, allowed = CLAIMS[self.kind]
        if needed and not set(given) & set(needed):
            raise wrong(f"of kind {self.kind} must have the key {' or '.join(needed)}")
        for key in given:
            if key not in (*needed, *allowed):
                raise wrong(f"of kind {self.kind} must not have the key {key}")
        alone = self.kind == "bound" or self.value is not None
        if len(self.of) < 2 - alone or (self.kind in ("ratio", "no-winner") and len(self.of) > 2):
            raise wrong(f"of kind {self.kind} must not have {len(self.of)} value{'s' * (len(self.of) > 1)} in of")
        return self


MIB = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10}


def _amount(parameter: int | float | str) -> int:
    """A parameter of a scale as a number: of sizes of files the largest, in MiB."""
    if not isinstance(parameter, str):
        return int(parameter)
    found = re.findall(r"(\d+)([KMG])", parameter)
    return round(max((int(number) * MIB[unit] for number, unit in found), default=0))


class Difference(Part):
    what: str
    there: str
    here: str
    follows: str


class Size(Part):
    """How large a workload is, there and here."""

    parameter: str | None = Field(
        None, description="Of its scale: a number, or sizes of files such as 24M; without it that of the key size"
    )
    published: Count = Field(description="Of what that counts (of sizes of files: MiB)")


class Regime(Part):
    """What makes a smaller measurement one of the same regime: as many items for each MiB of memory."""

    per_mib: Count = Field(description="Items for each MiB of memory, from which on it is the published regime")
    says: Filled = Field(description="What the regime is, and where the number is from")


class Published(Descriptor):
    kind = "published"
    word = "set of published numbers"
    folder = "data/published"

    model_config = ConfigDict(
        title="What was published, to set a study beside it (data/published/NAME.yaml; its numbers are in NAME.csv,"
        " which may be missing)"
    )

    title: Filled = Field(description="Who published it and when")
    source: Filled
    systems: dict[str, Filled] = Field({}, description="What it was measured on: name -> machines and software")
    numbers: Filled = Field(description="What a row of the file is, and what was left out")
    size: str | None = Field(
        None, description="The parameter of the workload's scale that the column size counts (files, names)"
    )
    unit: Filled | None = Field(None, description="What that counts, where its name is no word for it")
    sizes: dict[Word, Size] = Field(
        {}, description="Workload, without its modifiers -> the size of which claims are that name none"
    )
    disks: Literal["rotating", "solid"] | None = Field(None, description="The kind of devices; several kinds: none")
    regime: Regime | None = Field(None, description="Of a size out of reach: when a limit of memory stands in for it")
    products: dict[Word, Filled] = Field(
        {}, description="File system that nobody can have here -> what it is; claims about it are not counted"
    )
    claims: list[Claim] = Field([], description="What is said there, as tests on values")
    differs: Annotated[list[Difference], Field(min_length=1)] = Field(
        description="What was not the same, and what follows; in `here` {kernel}, {sizes}, {rounds} (3 rounds), {lab},"
        " {profile} are the study's own"
    )

    @property
    def counted(self) -> str:
        """What a size counts, as a word."""
        return self.unit or self.size or "items"

    def size_here(self, workload: str, parameters: dict[str, Any]) -> int:
        """How large a workload with these parameters is; 0 where nothing is counted."""
        own = self.sizes.get(workload.partition("+")[0])
        return _amount(parameters.get((own and own.parameter) or self.size or "", 0))

    def products_of(self, claim: Claim) -> list[str]:
        """The products that nobody can have among what a claim compares."""
        return [name for name in self.products if any(value.label == name for value in claim.values)]

    def size_of(self, claim: Claim) -> int:
        """The published size of a claim: the smallest of its values; 0 if unknown."""
        found = [value.size or self._of_workload(value.workload) for value in claim.values]
        return min(filter(None, found), default=0)

    def _of_workload(self, workload: str | None) -> int:
        own = self.sizes.get((workload or "").partition("+")[0])
        return own.published if own else 0

    @model_validator(mode="after")
    def _names_claims_once(self) -> "Published":
        names = [claim.id for claim in self.claims]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise wrong(f"must not have two claims with the id {twice}")
        return self
