"""A device profile (workflow/devices): how each block device of a trial behaves, and the disks that are modelled.

docs/methods/devices.md has the equations; plan/disk.py what follows from them in closed form.
"""

from abc import abstractmethod
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator

from reprofs.errors import UserError, short
from reprofs.plan.parts import Descriptor, Filled, Mib, Microseconds, Part, Promising, Within, wrong

NS = 10**9
CRASH = "crash"  # the backing of a disk that can hold what a power cut leaves
CRASH_MIB = 512  # its size: the least at which mkfs.ext4 makes what it makes of a large disk
CACHE_LEAST = 1280 << 10  # bytes: the largest request must fit
Rate = Annotated[float, Within(0.1, 1000000)]
Milliseconds = Annotated[float, Within(0, 1000, least=0.001)]


class Drive(Part):
    """Of the model in docs/methods/devices.md; MB is 10⁶ bytes, KiB and MiB are powers of two."""

    kind: str
    block_bytes: Literal[512, 4096] = Field(512, description="Logical block")
    queue_depth: Annotated[int, Field(ge=1, le=256)] = Field(description="Requests that the drive holds at most")
    link_mb_s: Rate = Field(description="Rate of the interface")
    overhead_us: Microseconds = Field(description="What every command costs before anything moves")
    cache_mib: Annotated[float, Within(0, 65536)] = Field(
        0, description="Room for writes that are not on the media yet"
    )
    write_cache: bool = Field(True, description="A write is done when it is in the cache")
    nonvolatile: bool = Field(False, description="The cache survives a power cut (battery or capacitor)")

    def parameters(self) -> dict[str, int | str]:
        """The driver's parameters, without the size: times in ns, rates in bytes a second, sizes in bytes.

        Raises UserError for figures that contradict each other.
        """
        found: dict[str, Any] = {
            "kind": self.kind,
            "block": self.block_bytes,
            "queue_depth": self.queue_depth,
            "link": self.link_mb_s * 1e6,
            "cache": self.cache_mib * 2**20,
            "write_cache": self.write_cache,
            "nonvolatile": self.nonvolatile,
            "overhead": self.overhead_us * 1e3,
        }
        if self.write_cache and found["cache"] < CACHE_LEAST:
            raise UserError("disk: write_cache is on, but cache_mib is below 1.25: enlarge the cache or switch it off.")
        if self.nonvolatile and not self.write_cache:
            raise UserError("disk: nonvolatile is on, but write_cache is off: switch the cache on, or nonvolatile off.")
        found |= self._own_parameters()
        return {key: value if isinstance(value, str) else round(value) for key, value in found.items()}

    @abstractmethod
    def _own_parameters(self) -> dict[str, float]:
        """Those of its kind."""

    def line(self, size_bytes: int) -> str:
        """The text that, written to the driver, adds one disk of this size."""
        found = self.parameters() | self._sized(size_bytes)
        kind = found.pop("kind")
        return " ".join(f"{key}={value}" for key, value in {"kind": kind, "size": size_bytes, **found}.items())

    def _sized(self, size_bytes: int) -> dict[str, int | str]:
        """Those that depend on the size."""
        return {}


class Rotating(Drive):
    kind: Literal["rotating"]
    rpm: Annotated[float, Within(100, 100000)]
    zones: Annotated[int, Field(ge=2, le=256)] = Field(description="Parts of equal size, each with its own rate")
    outer_mb_s: Rate = Field(description="Rate of the first zone")
    inner_mb_s: Rate = Field(description="Rate of the last zone")
    track_to_track_ms: Milliseconds
    average_seek_ms: Annotated[float, Within(0.001, 1000)] = Field(
        description="Mean over random pairs of places; of reads"
    )
    full_stroke_ms: Annotated[float, Within(0.001, 1000)]
    write_settle_ms: Milliseconds = Field(description="What a seek before a write takes longer")
    read_ahead_kib: Annotated[float, Within(0, 1048576)] = Field(
        description="What the head reads on into the drive's memory after a read"
    )
    segments: Annotated[int, Field(ge=1, le=64)] = Field(
        1, description="Parts of the drive's memory, read_ahead_kib each, that keep what was read"
    )

    def seek_curve(self) -> tuple[float, float, float]:
        """(a, b, c) in ns: a seek over the share d of the stroke takes a + b sqrt(d) + c d (Lee and Katz, 1993).

        The track-to-track time, the mean over random pairs of places and the full stroke determine it. Raises UserError
        when no curve that rises with d has these three.
        """
        track, average, full = self.track_to_track_ms, self.average_seek_ms, self.full_stroke_ms
        # The mean of sqrt(d) over random pairs is 8/15, that of d is 1/3.
        b = 5 * (average - track - (full - track) / 3)
        c = full - track - b
        if b < 0 or c < 0:
            raise UserError(
                f"disk: average_seek_ms is {average:g}; with track_to_track_ms {track:g} and full_stroke_ms "
                f"{full:g} it must be from {track + (full - track) / 3:g} to "
                f"{track + (full - track) * 8 / 15:g}."
            )
        return track * 1e6, b * 1e6, c * 1e6

    def _own_parameters(self) -> dict[str, float]:
        if self.inner_mb_s > self.outer_mb_s:
            raise UserError(
                "disk: inner_mb_s is above outer_mb_s: the outermost zone comes first and is the fastest, so swap them."
            )
        return {
            "period": 60 * NS / self.rpm,
            "zones": self.zones,
            "outer": self.outer_mb_s * 1e6,
            "inner": self.inner_mb_s * 1e6,
            **dict(zip(("seek_a", "seek_b", "seek_c"), self.seek_curve(), strict=True)),
            "write_settle": self.write_settle_ms * 1e6,
            "read_ahead": self.read_ahead_kib * 1024,
            "segments": self.segments,
        }


class Flash(Part):
    """The inside of a solid-state disk; shares are of the size of the disk, so that a small one is like a large one."""

    blocks: Annotated[int, Field(ge=16, le=65536)] = Field(1024, description="Erase blocks, each over all units")
    spare_percent: Annotated[float, Within(0.5, 400)] = Field(description="Flash beyond the size (over-provisioning)")
    collection: Literal["greedy", "fifo"] = Field(
        "greedy", description="Which block is emptied: that with the fewest valid pages, or the oldest"
    )
    erase_us: Microseconds = Field(description="Of a block; no unit does anything else meanwhile")
    capacity_gb: Annotated[float, Within(1, 1000000)] = Field(
        1000,
        description="Of the drive that is modelled: a smaller disk has smaller blocks, erased in as much less time",
    )
    fast_percent: Annotated[float, Within(0, 100)] = Field(0, description="Fast region (SLC cache) of an empty disk")
    fast_full_percent: Annotated[float, Within(0, 100)] = Field(0, description="What is left of it in a full disk")
    fast_mb_s: Rate | None = Field(None, description="Rate of writes into the fast region")
    filled_percent: Annotated[float, Within(0, 100)] = Field(0, description="Written in sequence before first use")
    overwritten: Annotated[float, Within(0, 20)] = Field(
        0, description="How many times that was then written again, at random places"
    )
    discards: bool = Field(True, description="The disk takes discards (TRIM)")

    def parameters(self) -> dict[str, float]:
        """The driver's, shares in parts per million. Raises UserError for figures that contradict each other."""
        if self.blocks * self.spare_percent < 200 + 2 * self.spare_percent:
            raise UserError(
                f"disk.flash: {self.spare_percent:g} % of {self.blocks} blocks are fewer than the two that garbage"
                " collection needs: enlarge spare_percent or blocks."
            )
        if self.fast_percent and not self.fast_mb_s:
            raise UserError(
                "disk.flash: fast_percent is above 0, but fast_mb_s is missing: say how fast the region is."
            )
        return {
            "blocks": self.blocks,
            "spare": self.spare_percent * 1e4,
            "fifo": self.collection == "fifo",
            "erase_ns": self.erase_us * 1e3,
            "slc": self.fast_percent * 1e4,
            "slc_full": self.fast_full_percent * 1e4,
            "slc_rate": (self.fast_mb_s or 0) * 1e6,
            "filled": self.filled_percent * 1e4,
            "overwritten": self.overwritten * 1e6,
            "no_discard": not self.discards,
        }


class Solid(Drive):
    kind: Literal["solid"]
    parallel: Annotated[int, Field(ge=1, le=64)] = Field(description="Units that work at the same time")
    read_us: Microseconds
    write_us: Microseconds
    flush_us: Microseconds = Field(description="What a flush takes besides writing the cache")
    discard_us: Microseconds
    read_mb_s: Rate = Field(description="All reads together")
    write_mb_s: Rate = Field(description="All writes together")
    flash: Flash | None = Field(
        None, description="Pages, blocks and garbage collection; without it writes cost the same for ever"
    )

    def _own_parameters(self) -> dict[str, float]:
        return {
            "parallel": self.parallel,
            "read_ns": self.read_us * 1e3,
            "write_ns": self.write_us * 1e3,
            "flush_ns": self.flush_us * 1e3,
            "discard_ns": self.discard_us * 1e3,
            "read_rate": self.read_mb_s * 1e6,
            "write_rate": self.write_mb_s * 1e6,
            **(self.flash.parameters() if self.flash else {}),
        }

    def _sized(self, size_bytes: int) -> dict[str, int | str]:
        if not self.flash:
            return {}
        return {"erase_ns": round(self.flash.erase_us * size_bytes / self.flash.capacity_gb / 1e6)}


class Device(Descriptor):
    """A device profile: one that the kernel or QEMU can have by itself (Plain), or a modelled disk (Modelled)."""

    kind = "device"
    word = "device profile"
    folder = "workflow/devices"

    title: Filled
    model: str | None = Field(None, description="What the profile stands for and what it leaves out")
    assumes: str | None = Field(None, description="An assumption that answers rest on: page one of their report has it")
    completion_ns: int
    bandwidth_mb_s: int
    iops: int
    backing: str

    @classmethod
    def adapter(cls) -> TypeAdapter:
        """What checks a profile of either kind."""
        return _either()

    @property
    def drive(self) -> Rotating | Solid | None:
        """The disk that is modelled, if one is."""
        return None

    @property
    def disk_mib(self) -> int | None:
        """The size of every disk where the profile says it."""
        return None

    @property
    def flush_us(self) -> float | None:
        """What a flush takes besides writing the cache (µs); None where the kernel sends none, or place decides."""
        return None


def profile_names(profile: str) -> list[str]:
    """The names in a cell's profile: hdd-7200 and ssd-nvme of hdd-7200+ssd-nvme, which the stack's last disk has.

    Raises UserError where there are more.
    """
    names = profile.split("+")
    if len(names) > 2:
        raise UserError(
            f"device model {short(profile)} has {len(names)} names: give one for all disks and optionally a "
            "second for the last disk, such as hdd-7200+ssd-nvme."
        )
    return names


class Plain(Promising, Device):
    completion_ns: Annotated[int, Field(ge=0, le=1000000000)] = Field(
        0, description="Time from submission to completion of every request"
    )
    bandwidth_mb_s: Annotated[int, Field(ge=0, le=1000000)] = Field(
        0, description="MiB/s of the whole device; 0 = unlimited"
    )
    iops: Annotated[int, Field(ge=0, le=100000000)] = Field(
        0, description="Requests a second of the whole device; 0 = unlimited (vm lab)"
    )
    cache_mib: Annotated[int, Field(ge=0, le=1024)] = Field(
        0, description="Volatile cache, whose flush takes completion_ns; 0 = none, so nothing is flushed (lab exact)"
    )
    # With `model` it would be the other kind: here for the sentence that names all four.
    backing: Literal["memory", "file", "device", "crash", "model"] = Field(
        "memory",
        description="What holds the data; crash: memory, and every state that a power cut may leave (exact)",
        json_schema_extra={"enum": ["memory", "file", "device", "crash"]},
    )
    cache: Literal["unsafe"] | None = Field(
        None,
        description="QEMU's cache of a disk in a file, in the place of none: with unsafe the host's memory is one that"
        " ignores flushes (vm lab, backing file)",
    )
    sources: Annotated[list[Filled], Field(min_length=1)] | None = Field(
        None, description="Where each figure comes from; what is an assumption"
    )

    @property
    def flush_us(self) -> float | None:
        """That of every request; None without a cache."""
        return self.completion_ns / 1000 if self.cache_mib else None

    @property
    def disk_mib(self) -> int | None:
        """All disks that make crash states are of one size."""
        return CRASH_MIB if self.backing == CRASH else None

    @property
    def timed(self) -> bool:
        """Whether its requests take time; else it is memory."""
        return self.backing != "memory" or bool(self.completion_ns or self.bandwidth_mb_s or self.iops)

    @model_validator(mode="after")
    def _caches_a_file(self) -> "Plain":
        if self.cache and self.backing != "file":
            raise wrong("has a cache, which only a disk with backing: file can have: leave it out")
        if self.cache and not self.promise:
            raise wrong("has a cache that ignores flushes: give it promise: none, and the reason under why")
        return self


class Modelled(Device):
    completion_ns: Literal[0] = 0
    bandwidth_mb_s: Literal[0] = 0
    iops: Literal[0] = 0
    backing: Literal["model"] = Field(description="The modelled disk below (exact lab)")
    size_mib: Mib | None = Field(None, description="Every disk has this size, whatever the workload asks for; sparse")
    sources: Annotated[list[Filled], Field(min_length=1)] = Field(
        description="Where each figure comes from; what is an assumption"
    )
    disk: Annotated[Rotating | Solid, Field(discriminator="kind")]

    @property
    def drive(self) -> Rotating | Solid:
        """The disk that is modelled."""
        return self.disk

    @property
    def disk_mib(self) -> int | None:
        """The size of every disk where the profile says it."""
        return self.size_mib

    @property
    def flush_us(self) -> float | None:
        """Of a solid-state disk with a cache."""
        return self.disk.flush_us if isinstance(self.disk, Solid) and self.disk.write_cache else None


def _backing(value: Any) -> str:
    found = value.get("backing") if isinstance(value, dict) else getattr(value, "backing", None)
    return "Modelled" if found == "model" else "Plain"


AnyDevice = Annotated[
    Annotated[Plain, Tag("Plain")] | Annotated[Modelled, Tag("Modelled")],
    Discriminator(_backing),
    Field(title="A device profile, what each block device behaves like"),
]


@cache
def _either() -> TypeAdapter:
    return TypeAdapter(AnyDevice)
