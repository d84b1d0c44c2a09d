"""A kernel of the exact lab's guest, in the place of the guest's own (workflow/kernels)."""

import shlex
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from reprofs.plan.guest import LocalPackage, Package
from reprofs.plan.parts import Descriptor, Filled, Word, text, wrong


def _in_words(options: str) -> str:
    """Options of mkfs, which no shell reads. Raises PydanticCustomError for others."""
    try:
        shlex.split(options)
    except ValueError as error:
        raise wrong(f"cannot be split into words ({str(error).lower()}): complete it") from None
    if "$" in options:
        raise wrong("has a $, but no shell reads it: write the value itself")
    return options


class Kernel(Descriptor):
    kind = "kernel"
    folder = "workflow/kernels"

    model_config = ConfigDict(title="A kernel of the exact lab's guest (one file = one kernel)")

    title: Filled
    suites: Annotated[list[Word], Field(min_length=1)] | None = Field(
        None,
        description="Of Debian: the first has the kernel, further ones what it depends on; the lock has its packages",
    )
    package: Package = Field("linux-image-amd64", description="Of the first suite, that brings the kernel")
    debs: Annotated[list[LocalPackage], Field(min_length=1)] | None = Field(
        None, description="Packages that somebody built, in the place of Debian's: kernel and modules"
    )
    headers: Annotated[list[LocalPackage], Field(min_length=1)] | None = Field(
        None, description="Packages with its headers, beside debs: of them the module of modelled disks is compiled"
    )
    config_sha256: Annotated[str, text("^[0-9a-f]{64}$", "a SHA-256 in 64 hexadecimal digits")] = Field(
        description="Of its configuration: a version of the kernel says less"
    )
    make: dict[Word, Annotated[Filled, AfterValidator(_in_words)]] = Field(
        {}, description="File system -> further options of its mkfs, without which this kernel does not mount it"
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> "Kernel":
        if bool(self.suites) == bool(self.debs):
            raise wrong("must have either suites or debs: where the kernel comes from")
        if self.suites and self.headers:
            raise wrong("has headers beside suites, which name them already: leave headers out")
        return self
