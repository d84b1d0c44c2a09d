"""The two files of config/: the knobs of a run, and the real disks that trials may overwrite."""

from typing import Annotated

from pydantic import ConfigDict, Field

from reprofs.errors import FileError
from reprofs.plan.parts import Descriptor, Filled, Part, text
from reprofs.plan.read import parse, unknown, validate
from reprofs.project import project_root

CONFIG = "config/config.yaml"


class Config(Descriptor):
    kind = "config"

    model_config = ConfigDict(title="config/config.yaml, the knobs of a run", extra="ignore")

    study: Annotated[
        str,
        text(
            r"^[a-z0-9][a-z0-9.-]*(@[a-z]+)?$",
            "the name of a file in config/studies without .yaml, with @ and a scale for another than its own",
            80,
        ),
    ] = "quick"
    extra_dirs: list[str] = Field([], description="Further folders, each with filesystems/, workloads/, studies/, ...")
    lab: str = Field("", description="Replaces the study's labs")
    profile: str = Field("", description="Replaces the study's device models")
    where: str = Field("", description="Lab mount: existing directories that replace the file systems: a,b")
    clients: str = Field(
        "", description="With where: machines on which clients run over ssh, with these directories: a,b"
    )
    beside: str = Field(
        "", description="The run that the report compares the study with: results/NAME, tables, or NAME"
    )


def read_config(given: dict | None = None) -> Config:
    """config/config.yaml, overridden by `given` (from a command line). Raises UserError when a value does not fit."""
    path = project_root() / CONFIG
    data = parse(path, CONFIG)
    validate(data, Config, CONFIG, path)
    if odd := next((key for key in data if key not in Config.model_fields), None):
        raise FileError(f"{CONFIG}: {unknown('key', odd, Config.model_fields)}")
    return validate({**data, **(given or {})}, Config, CONFIG)


class RealDisk(Part):
    path: Annotated[str, text(r"^/dev/[^/\n]+$", "the device itself in /dev, not a link to it")]
    serial: Filled
    size_bytes: Annotated[int, Field(ge=1048576, le=1125899906842624)]


class RealDisks(Descriptor):
    kind = "devices"

    model_config = ConfigDict(title="config/devices.yaml, the real disks that trials of the host lab may overwrite")

    devices: list[RealDisk]
