"""The time of a modelled disk for each job of the workload `device`: in closed form, and by a simulation that shares no
code with the driver. docs/methods/devices.md has the equations.

Times are in nanoseconds, rates in bytes per second, places in bytes from the start of the disk; `found` are the
driver's parameters (`Drive.parameters`).
"""

import math
from dataclasses import dataclass
from functools import cache

from reprofs.plan.device import NS

REFERENCE, UNTIMED = "reference", "ram"  # profiles: every request takes the same time; requests take none
OLD_NS = 5 * 10**8  # a request that waits longer goes before nearer ones


@dataclass(frozen=True)
class Access:
    """What a phase of the workload `device` does. place: random, outer, inner or same; sync: fsync after each."""

    write: bool
    bytes: int
    depth: int
    place: str
    sync: bool = False


ACCESSES = {
    "random-read-1": Access(False, 4096, 1, "random"),
    "random-read-32": Access(False, 4096, 32, "random"),
    "read-outer": Access(False, 128 << 10, 4, "outer"),
    "read-inner": Access(False, 128 << 10, 4, "inner"),
    "write-outer": Access(True, 128 << 10, 4, "outer"),
    "write-inner": Access(True, 128 << 10, 4, "inner"),
    "sync-random": Access(True, 4096, 1, "random", sync=True),
    "sync-same": Access(True, 4096, 1, "same", sync=True),
    "write-cached": Access(True, 4096, 1, "random"),
}
INNER = 0.95  # of the disk: where the jobs `inner` begin
SIMULATION, CLOSED = "simulation", "closed form"


def expected(found: dict, size: int, job: Access, requests: int) -> tuple[float, str]:
    """Time of the disk for one of `requests` requests of a job (ns), and whether from a closed form or a simulation.

    found: `parameters`. It does not include the time of the software that issues the requests; see `hides_software`.
    """
    if job.write and found["write_cache"] and (found["nonvolatile"] or not _waits_for_media(job)):
        flush = found["overhead"] + (found["flush_ns"] if found["kind"] == "solid" else 0)
        return _accepted(found, job) + (flush if job.sync else 0), CLOSED
    if found["kind"] == "solid":
        return _solid(found, job, requests), CLOSED
    if job.depth > 1 and job.place == "random":
        return _simulated(tuple(found.items()), size, job, requests), SIMULATION
    return _rotating(found, job, requests), CLOSED


def hides_software(found: dict, job: Access) -> bool:
    """Whether the software works while the disk does, or while the platter comes round to the same place again."""
    turning = found["kind"] == "rotating" and job.place == "same" and not found["nonvolatile"]
    return job.depth > 1 or turning


def _waits_for_media(job: Access) -> bool:
    """Whether the writes are flushed or more than the cache holds."""
    return job.sync or job.place in ("outer", "inner")


def _accepted(found: dict, job: Access) -> float:
    """Time until a cache with room has accepted a write; all writes share the link."""
    latency = found["write_ns"] if found["kind"] == "solid" else 0
    link = job.bytes * NS / found["link"]
    return max((found["overhead"] + latency + link) / job.depth, link)


def _solid(found: dict, job: Access, requests: int) -> float:
    pipe = job.bytes * NS / found["write_rate" if job.write else "read_rate"]
    if job.write and found["write_cache"]:  # what is flushed one at a time is drained while the software goes on
        return max(_accepted(found, job), 0 if job.sync else pipe) + found["flush_ns"] / (1 if job.sync else requests)
    latency = found["write_ns" if job.write else "read_ns"]
    units = min(found["parallel"], job.depth)
    return max((found["overhead"] + latency + pipe) / job.depth, latency / units, pipe)


def _rotating(found: dict, job: Access, requests: int) -> float:
    if job.place == "same":
        return found["period"]  # what happens between two writes takes less than a turn
    a, b, c = found["seek_a"], found["seek_b"], found["seek_c"]
    rates = zone_rates(found)
    before = found["overhead"] + found["period"] / 2 + (found["write_settle"] if job.write else 0)
    if job.place == "random":
        if job.write and found["write_cache"]:
            before += job.bytes * NS / found["link"]
        moved = sum(job.bytes * NS / rate for rate in rates) / len(rates)
        return before + a + b * 8 / 15 + c / 3 + moved
    rate = rates[int(INNER * len(rates)) if job.place == "inner" else 0]
    once = before + a + b * math.sqrt(INNER) + c * INNER  # from the other end of the disk
    return once / requests + job.bytes * NS / rate


def zone_rates(found: dict) -> list[float]:
    """Rate of each zone, from the first to the last."""
    count, step = found["zones"], (found["outer"] - found["inner"]) / (found["zones"] - 1)
    return [found["outer"] - step * zone for zone in range(count)]


@cache
def _simulated(found: tuple, size: int, job: Access, requests: int) -> float:
    """Mean of four simulations, each with as many requests as the job has, at random places of our own."""
    import numpy  # here, because no trial needs it

    total = 0.0
    for seed in range(4):
        places = numpy.random.default_rng(seed).integers(0, size // job.bytes, requests) * job.bytes
        total += simulate(dict(found), size, job, places)
    return total / 4 / requests


def simulate(found: dict, size: int, job: Access, places) -> float:
    """When (ns) a rotating disk with job.depth requests at a time has served those at `places`, nearest in time first.

    Written from the model's equations, in revolutions and floating point, without any code of the driver. It has no
    read-ahead and no write cache, which make no difference to random requests.
    """
    import numpy

    places = numpy.asarray(places, float)
    requests, zone_bytes = len(places), size / found["zones"]
    zones = (places // zone_bytes).astype(int)
    rates = numpy.array(zone_rates(found))[zones]
    turns = (places - zones * zone_bytes) / (rates * found["period"] / NS)  # on the platter, from the start of the zone
    tracks, angles = numpy.floor(turns), turns % 1
    arrivals = numpy.zeros(requests)
    waiting = list(range(min(job.depth, requests)))
    submitted, now, at, zone, track = len(waiting), 0.0, 0.0, 0, 0.0

    def positioning(ones, begin):
        """Time from `begin` until the first byte of each request passes under the head."""
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
    return now
