"""How old, large and deep the files of a file system in use are (workflow/ages): profiles of Geriatrix."""

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from reprofs.plan.parts import Descriptor, Filled, Within, wrong

CLASSES = 24  # rows that the engine's program age-by-profile takes
WEIGHT, FOLDERS = 10**6, 10**4
Row = list[Annotated[float, Within(0, 10**12, above=True)]]


def _rows(most: float, *names: str) -> Callable[[list[Row]], list[Row]]:
    """What checks rows of a first number that grows, up to `most`, a weight, and folders if `names` has them."""
    limits = (most, WEIGHT, FOLDERS)

    def check(rows: list[Row]) -> list[Row]:
        for number, row in enumerate(rows):
            if len(row) != len(names):
                raise wrong(f"must have rows of {len(names)} numbers ({', '.join(names)}), unlike row {number + 1}")
            for name, value, limit in zip(names, row, limits, strict=False):
                if value > limit or (name != "age" and value != int(value)):
                    what = f"has in row {number + 1} the {name} {value:g}"
                    raise wrong(f"{what}, but must have a whole number up to {limit:g}")
            if number and row[0] <= rows[number - 1][0]:
                raise wrong(f"must have a {names[0]} that grows, unlike row {number + 1}")
        return rows

    return check


def _list(most: float, *names: str) -> Any:
    return Annotated[list[Row], Field(min_length=1, max_length=CLASSES), AfterValidator(_rows(most, *names))]


class Ages(Descriptor):
    """Source of the format: the three files of a profile of Geriatrix, a row for each line."""

    kind = "ages"
    word = "profile of ages"
    folder = "workflow/ages"

    model_config = ConfigDict(title="A profile of ages, sizes and depths of files (one file = one profile)")

    title: Filled
    source: Filled
    ages: _list(10**12, "age", "weight") = Field(  # type: ignore[valid-type]
        description="Until which age, in any unit, and weight; the last age is that of the file system"
    )
    sizes: _list(2**32, "size", "weight") = Field(description="Bytes, and weight")  # type: ignore[valid-type]
    folders: _list(64, "depth", "weight", "folders") = Field(  # type: ignore[valid-type]
        description="Depth, weight, and how many folders there are at this depth"
    )

    def arguments(self) -> list[str]:
        """Of the engine's program age-by-profile."""
        found: list[str] = []
        for name, rows in (("--ages", self.ages), ("--sizes", self.sizes), ("--folders", self.folders)):
            found += [name, ",".join(":".join(f"{number:.12g}" for number in row) for row in rows)]
        return found
