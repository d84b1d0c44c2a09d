"""Sentences of published results that are wrong (results/retractions.yaml): each with the reason, beside the record."""

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from reprofs.plan.parts import Descriptor, Filled, Part, once, text, wrong
from reprofs.plan.read import parse, validate
from reprofs.plan.result import Result
from reprofs.project import place

RETRACTIONS = "results/retractions.yaml"
DAY = r"^\d{4}-\d\d-\d\d$"


class Retraction(Part):
    results: Annotated[list[Filled], Field(min_length=1)] = Field(description="Names in results/")
    protocol: int = Field(description="Of these results; for one that was published again it holds no longer")
    sentence: Filled = Field(description="As ABOUT.md has it, with one blank for each gap")
    date: Annotated[str, text(DAY, "a date such as 2026-11-28, in quotes")]
    wrong: Filled = Field(description="What is wrong with it, or the condition under which alone it holds")
    right: str = Field("", description="What is right, where it is known")

    def is_in(self, page: str) -> bool:
        """Whether a text has the sentence, however its lines are broken."""
        return self.sentence in " ".join(page.split())


class Retractions(Descriptor):
    kind = "retractions"

    model_config = ConfigDict(title="Retracted sentences of published results (results/retractions.yaml)")

    retracted: list[Retraction]

    @model_validator(mode="after")
    def _each_once(self) -> "Retractions":
        once([f"{name}: {one.sentence}" for one in self.retracted for name in once(one.results)])
        if odd := next((one for one in self.retracted if one.sentence != " ".join(one.sentence.split())), None):
            raise wrong(f"has a sentence with other gaps than one blank: {odd.sentence[:60]}")
        return self


def retracted(result: Result) -> list[Retraction]:
    """What is retracted of a published result. Raises UserError, naming file, line and key, for an invalid file."""
    file = place(RETRACTIONS)
    if not file.is_file():
        return []
    known = validate(parse(file, RETRACTIONS), Retractions, RETRACTIONS, file)
    return [one for one in known.retracted if result.study in one.results and one.protocol == result.protocol]
