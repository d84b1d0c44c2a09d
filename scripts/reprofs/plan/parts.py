"""What all descriptors are made of: the base of their models, and the texts and numbers that they hold.

The limits are beyond real hardware, but near enough that a slip (a size in bytes in place of MiB, a time in the wrong
unit) is found before a trial and that no sum of such values overflows.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    PrivateAttr,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

# A name that is safe in paths, shell commands and patterns.
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
NAME_RULE = "up to 64 lower-case letters, digits, dots and hyphens, beginning with a letter or digit"


@dataclass(frozen=True)
class Within:
    """A number from `low` (excluded if `above`) to `high`; integers stay integers, floats stay floats.

    least: a number that is not 0 has this much at least.
    """

    low: float
    high: float
    above: bool = False
    least: float = 0

    def check(self, value: Any) -> int | float:
        """The value. Raises the errors of Pydantic's own number types."""
        if type(value) not in (int, float):
            raise PydanticCustomError("number_type", "no number")
        if value < self.low or (self.above and value == self.low):
            name = "gt" if self.above else "ge"
            raise PydanticCustomError("greater_than" if self.above else "greater_than_equal", "low", {name: self.low})
        if value > self.high:
            raise PydanticCustomError("less_than_equal", "high", {"le": self.high})
        if 0 < value < self.least:
            raise PydanticCustomError("greater_than_equal", "low", {"ge": self.least})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, made: Any, handler: Any) -> JsonSchemaValue:
        least = "exclusiveMinimum" if self.above else "minimum"
        return {"type": "number", least: self.low, "maximum": self.high}


@dataclass(frozen=True)
class OneOf:
    """One of a few numbers; integers stay integers, floats stay floats."""

    numbers: tuple[float, ...]

    def check(self, value: Any) -> int | float:
        """The value. Raises PydanticCustomError, whose text becomes the sentence."""
        if type(value) not in (int, float) or value not in self.numbers:
            raise wrong(f"must be {', '.join(f'{number:g}' for number in self.numbers[:-1])} or {self.numbers[-1]:g}")
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(self, made: Any, handler: Any) -> JsonSchemaValue:
        return {"enum": list(self.numbers)}


def wrong(what: str) -> PydanticCustomError:
    """An error whose sentence consists of the place and `what`."""
    return PydanticCustomError("own", "{what}", {"what": what})


def once(names: list[str]) -> list[str]:
    """The names. Raises PydanticCustomError for one that is there twice."""
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise wrong(f"must name {twice} only once")
    return names


def _parameter(value: Any) -> int | float | str:
    if type(value) not in (int, float, str):
        raise PydanticCustomError("parameter_type", "neither number nor text")
    return value if isinstance(value, str) else Within(-(10**15), 10**15).check(value)


Parameter = Annotated[
    int | float | str,
    PlainValidator(_parameter),
    WithJsonSchema({"type": ["number", "string"], "minimum": -(10**15), "maximum": 10**15}),
]
MEANINGS: dict[str, str] = {}  # pattern of a text -> the words for it, which a sentence has after `must be`


def text(pattern: str, meaning: str, most: int | None = None) -> Any:
    """The field of a text that must match `pattern`, in words `meaning`, of at most `most` characters."""
    MEANINGS[pattern] = meaning
    return Field(pattern=pattern, description=meaning, max_length=most)


def expression(value: str) -> str:
    """The text. Raises PydanticCustomError for one that is no regular expression."""
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise wrong(f"is not a regular expression: {error}") from None
    return value


Expression = Annotated[str, AfterValidator(expression)]
Filled = Annotated[str, Field(min_length=1)]
Command = Annotated[str, text(r"\S", "a command, not blank")]
Word = Annotated[
    str,
    text(r"^[a-z0-9][a-z0-9.-]{0,63}$", "a name of up to 64 lower-case letters, digits, dots and hyphens"),
]
PhaseName = Annotated[
    str,
    text(r"^[a-z][a-z0-9-]{0,63}$", "a name of up to 64 lower-case letters, digits and hyphens"),
]
Name = Annotated[
    str,
    text(
        r"^[a-z0-9][a-z0-9.+@-]*$",
        "a name of lower-case letters, digits, dots and hyphens, with its modifiers after + and @",
        128,
    ),
]
OPTION = r"[a-z0-9_][a-z0-9_.=:-]*"  # of mount(8)
OF_MKFS = "mkfs:"
MKFS = rf"{OF_MKFS}-[A-Za-z0-9_.,=^-]*(:[A-Za-z0-9_.,=^-]+)*"  # with colons for blanks
System = Annotated[
    str,
    text(
        rf"^[a-z0-9][a-z0-9.-]*(\+[a-z0-9.-]+(\+({MKFS}|{OPTION}))*)?$",
        "a name of lower-case letters, digits, dots and hyphens, with variant and options of mount or mkfs after +",
        128,
    ),
]
Systems = Annotated[list[System], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(once)]
Names = Annotated[list[Name], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(once)]
Limit = Annotated[int, Field(ge=1, le=2592000)]
MIB = (320, 268435456)  # the least that mkfs.xfs takes
Mib = Annotated[int, Field(ge=MIB[0], le=MIB[1])]
MEMORY_MIB = (16, 16777216)  # the engine's own buffers and a small program fit into the least
Memory = Annotated[
    int,
    Field(ge=MEMORY_MIB[0], le=MEMORY_MIB[1], description="Memory limit of the phases in MiB, with the kernel's part"),
]
Microseconds = Annotated[float, Within(0, 1000000, least=0.001)]
Count = Annotated[int, Field(ge=0, le=4000000000)]


class Part(BaseModel):
    """A mapping of a file: unknown keys are refused, nothing is converted, and nobody changes what was read."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True, frozen=True)

    def as_json(self) -> dict:
        """As JSON has it: with defaults, without the keys that are left out."""
        return self.model_dump(exclude_none=True, by_alias=True, warnings=False)


class Promising(Part):
    """What may be such that fsync does not keep what it promises."""

    promise: Literal["none"] | None = Field(
        None, description="none: fsync is not durable when the power fails; never ranked; needs the key why"
    )
    why: Filled | None = Field(None, description="With promise: how that is known; words that follow a colon")

    @model_validator(mode="after")
    def _says_why(self) -> Self:
        if (self.promise is None) != (self.why is None):
            raise wrong("has one of the keys promise and why: give both, or none where fsync keeps what it promises")
        return self


class Descriptor(Part):
    """What a whole file holds.

    kind: the name of its schema; word: for it in sentences, where that is another; folder: of its files; listed: keys
    that all have which no file describes, but the list UNAVAILABLE in that folder.
    """

    kind: ClassVar[str]
    word: ClassVar[str] = ""
    folder: ClassVar[str] = ""
    listed: ClassVar[dict] = {}

    _name: str = PrivateAttr("")
    _file: str = PrivateAttr("")

    @property
    def name(self) -> str:
        """The file's name without .yaml."""
        return self._name

    @property
    def file(self) -> str:
        """The file, as sentences about it begin."""
        return self._file

    def known_as(self, name: str, file: str) -> Self:
        """Itself, now with its name and file."""
        self._name, self._file = name, file
        return self

    @classmethod
    def adapter(cls) -> TypeAdapter:
        """What checks data of this kind."""
        return _adapter(cls)

    @classmethod
    def schema_of(cls) -> dict:
        """The JSON Schema of this kind of file."""
        return {"$schema": _Schema.schema_dialect, **cls.adapter().json_schema(schema_generator=_Schema)}


@cache
def _adapter(model: Any) -> TypeAdapter:
    return TypeAdapter(model)


class _Schema(GenerateJsonSchema):
    """Schemas without what files never contain: null for a key that is left out, and titles made from names of keys."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        found = super().dict_schema(schema)
        if "patternProperties" in found:  # which would let other names pass
            found["additionalProperties"] = next(iter(found.pop("patternProperties").values()))
            found["propertyNames"] = self.generate_inner(schema["keys_schema"])
        return found

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", "") is None:
            del found["default"]
        return found

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False
