"""Modelled disks: from a device profile to the driver's parameters, what follows from them in closed form, and a
simulation that shares no code with the driver. METHODOLOGY.md, section "Modelled disks", has the equations.

Times are nanoseconds, rates bytes a second, places bytes from the start of the disk.
"""

import math
from dataclasses import dataclass

import numpy

from reprofs.errors import UserError

NS = 10**9
OLD_NS = 5 * 10**8  # a request that waits longer goes before nearer ones
CACHE_LEAST = 1280 << 10  # bytes: the largest request must fit


def seek_curve(disk: dict) -> tuple[float, float, float]:
    """(a, b, c) in ns: a seek over the share d of the stroke takes a + b sqrt(d) + c d (Lee and Katz, 1993).

    Fixed by the time from track to track, the mean over random pairs of places and the full stroke. Raises UserError
    when no curve that rises with d has these three.
    """
    track, average, full = (disk[f"{name}_ms"] for name in ("track_to_track", "average_seek", "full_stroke"))
    # The mean of sqrt(d) over random pairs is 8/15, that of d is 1/3.
    b = 5 * (average - track - (full - track) / 3)
    c = full - track - b
    if b < 0 or c < 0:
        raise UserError(
            f"disk: average_seek_ms is {average:g}; with track_to_track_ms {track:g} and full_stroke_ms {full:g} it must"
            f" be from {track + (full - track) / 3:g} to {track + (full - track) * 8 / 15:g}."
        )
    return track * 1e6, b * 1e6, c * 1e6


def parameters(profile: dict) -> dict[str, int | str]:
    """What the driver wants to know of a profile with `backing: model`, without the size.

    Raises UserError for figures that no disk has together.
    """
    disk = profile["disk"]
    found = {
        "kind": disk["kind"],
        "block": disk.get("block_bytes", 512),
        "queue_depth": disk["queue_depth"],
        "link": disk["link_mb_s"] * 1e6,
        "cache": disk.get("cache_mib", 0) * 2**20,
        "write_cache": disk.get("write_cache", True),
        "nonvolatile": disk.get("nonvolatile", False),
        "overhead": disk["overhead_us"] * 1e3,
    }
    if found["write_cache"] and found["cache"] < CACHE_LEAST:
        raise UserError("disk: write_cache is on, but cache_mib is less than 1.25: enlarge the cache or switch it off.")
    if found["nonvolatile"] and not found["write_cache"]:
        raise UserError("disk: nonvolatile is on, but write_cache is off: nothing would be kept.")
    if disk["kind"] == "solid":
        found["parallel"] = disk["parallel"]
        found |= {f"{name}_ns": disk[f"{name}_us"] * 1e3 for name in ("read", "write", "flush", "discard")}
        found |= {f"{name}_rate": disk[f"{name}_mb_s"] * 1e6 for name in ("read", "write")}
    else:
        if disk["inner_mb_s"] > disk["outer_mb_s"]:
            raise UserError("disk: inner_mb_s is more than outer_mb_s: the first zone is the outermost and fastest.")
        found |= {"period": 60 * NS / disk["rpm"], "zones": disk["zones"]}
        found |= {name: disk[f"{name}_mb_s"] * 1e6 for name in ("outer", "inner")}
        found |= dict(zip(("seek_a", "seek_b", "seek_c"), seek_curve(disk), strict=True))
        found |= {"write_settle": disk["write_settle_ms"] * 1e6, "read_ahead": disk["read_ahead_kib"] * 1024}
    return {key: value if isinstance(value, str) else round(value) for key, value in found.items()}


def line(profile: dict, size_bytes: int) -> str:
    """The text that makes the driver add one disk of this profile and size."""
    found = parameters(profile)
    kind = found.pop("kind")
    return " ".join(f"{key}={value}" for key, value in {"kind": kind, "size": size_bytes, **found}.items())


@dataclass(frozen=True)
class Job:
    """What a phase of the workload `device` does. place: random, outer, inner or same; sync: fsync after each request."""

    write: bool
    bytes: int
    depth: int
    place: str
    sync: bool = False


JOBS = {
    "random-read-1": Job(False, 4096, 1, "random"),
    "random-read-32": Job(False, 4096, 32, "random"),
    "read-outer": Job(False, 128 << 10, 4, "outer"),
    "read-inner": Job(False, 128 << 10, 4, "inner"),
    "write-outer": Job(True, 128 << 10, 4, "outer"),
    "write-inner": Job(True, 128 << 10, 4, "inner"),
    "sync-random": Job(True, 4096, 1, "random", sync=True),
    "sync-same": Job(True, 4096, 1, "same", sync=True),
    "write-cached": Job(True, 4096, 1, "random"),
}
INNER = 0.95  # of the disk: where the jobs `inner` begin
SIMULATION, CLOSED = "simulation", "closed form"


def expected(found: dict, size: int, job: Job, requests: int) -> tuple[float, str]:
    """Time of the disk for one of `requests` requests of a job (ns), and whether that is a closed form or a simulation.

    found: `parameters`. The time of the software that issues the requests is not in it: one at a time it is to be added,
    several at a time it passes meanwhile.
    """
    if found["kind"] == "solid":
        return _solid(found, job, requests), CLOSED
    if job.depth > 1 and job.place == "random":
        seeds = range(4)
        return sum(_random_queue(found, size, job, requests, seed) for seed in seeds) / len(seeds), SIMULATION
    return _rotating(found, job, requests), CLOSED


def _solid(found: dict, job: Job, requests: int) -> float:
    latency = found["write_ns" if job.write else "read_ns"]
    pipe = job.bytes * NS / found["write_rate" if job.write else "read_rate"]
    buffered = job.write and found["write_cache"]
    moved = job.bytes * NS / found["link"] if buffered else pipe  # what the host waits for
    units = min(found["parallel"], job.depth)
    time = max((found["overhead"] + latency + moved) / job.depth, latency / units, moved)
    if not (job.write and found["write_cache"]):
        return time
    flush = found["overhead"] if found["nonvolatile"] else found["flush_ns"]
    if job.sync:
        return time + flush
    # In sequence the buffer fills, and the drain decides; a few random writes fit.
    return time if job.place == "random" or found["nonvolatile"] else max(time, pipe) + flush / requests


def _rotating(found: dict, job: Job, requests: int) -> float:
    a, b, c = found["seek_a"], found["seek_b"], found["seek_c"]
    turn, overhead = found["period"], found["overhead"]
    accepted = overhead + job.bytes * NS / found["link"]
    cached = job.write and found["write_cache"]
    settle = found["write_settle"] if job.write else 0
    if cached and (found["nonvolatile"] or not (job.sync or job.place in ("outer", "inner"))):
        return accepted / job.depth + (overhead if job.sync else 0)
    if job.place == "same":
        return turn  # whatever happens in between takes less than a turn
    if job.place == "random":
        rates = zone_rates(found)
        moved = sum(job.bytes * NS / rate for rate in rates) / len(rates)
        return (accepted if cached else overhead) + a + b * 8 / 15 + c / 3 + settle + turn / 2 + moved
    rates = zone_rates(found)
    rate = rates[int(INNER * len(rates)) if job.place == "inner" else 0]
    begin = overhead + a + b * math.sqrt(INNER) + c * INNER + settle + turn / 2  # once, from the other end of the disk
    return begin / requests + job.bytes * NS / rate


def zone_rates(found: dict) -> list[float]:
    """Rate of each zone, from the first to the last."""
    count, step = found["zones"], (found["outer"] - found["inner"]) / (found["zones"] - 1)
    return [found["outer"] - step * zone for zone in range(count)]


def _random_queue(found: dict, size: int, job: Job, requests: int, seed: int) -> float:
    """Mean time of random requests with job.depth of them in a rotating disk, shortest positioning time first.

    Written from the model's equations, in turns and floating point; nothing of it comes from the driver.
    """
    generator = numpy.random.default_rng(seed)
    places = generator.integers(0, size // job.bytes, requests) * float(job.bytes)
    zone_bytes = size / found["zones"]
    zones = (places // zone_bytes).astype(int)
    rates = numpy.array(zone_rates(found))[zones]
    turns = (places - zones * zone_bytes) / (rates * found["period"] / NS)  # from the start of the zone, on the platter
    tracks, angles = numpy.floor(turns), turns % 1
    arrivals = numpy.full(requests, numpy.inf)
    arrivals[: job.depth] = 0
    waiting = list(range(min(job.depth, requests)))
    submitted, now, at, zone, track = len(waiting), 0.0, 0.0, 0, 0.0

    def positioning(ones, begin):
        share = numpy.abs(places[ones] - at) / size
        seek = found["seek_a"] + found["seek_b"] * numpy.sqrt(share) + found["seek_c"] * share
        seek += found["write_settle"] if job.write else 0
        seek = numpy.where((zones[ones] == zone) & (tracks[ones] == track), 0, seek)
        return seek + (angles[ones] - (begin + seek) / found["period"]) % 1 * found["period"]

    while waiting:
        ones = numpy.array(waiting)
        one = waiting[0] if now - arrivals[waiting[0]] > OLD_NS else waiting[positioning(ones, now).argmin()]
        begin = max(now, arrivals[one] + found["overhead"])
        moved = job.bytes / rates[one] * NS
        now = begin + float(positioning(one, begin)) + moved
        at, zone, track = places[one] + job.bytes, zones[one], tracks[one]
        waiting.remove(one)
        if submitted < requests:
            arrivals[submitted] = now
            waiting.append(submitted)
            submitted += 1
    return now / requests
