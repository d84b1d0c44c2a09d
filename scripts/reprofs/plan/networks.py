"""Networks between the hosts of a file system (workflow/networks), and what follows from them in closed form.

Every host has a cable to one switch. Both ends of a cable send at its rate, delay what they send, and drop frames once
too many wait. Times are in nanoseconds. METHODOLOGY.md, section "Networks", has the equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from reprofs.plan.catalog import Catalog

WIRE = 24  # bytes of a frame that the kernel does not count: preamble 8, checksum 4, gap 12 (IEEE 802.3)
ETHERNET, IP, UDP, TCP = 14, 20, 8, 32  # headers; TCP's with its time stamps
HOPS = 2  # ends of cables that a frame leaves on its way: the sender's and the switch's
NS = 10**9


@dataclass(frozen=True)
class Network:
    """A network as its file describes it; 0 is no limit, no delay, no loss."""

    name: str
    title: str
    rate_mbit: float
    delay_us: float
    loss_percent: float
    queue_frames: int
    mtu: int
    sources: list[str]

    def frame_ns(self, payload: int) -> float:
        """Time on the wire of a frame with so many bytes after the Ethernet header."""
        return (payload + ETHERNET + WIRE) * 8000 / self.rate_mbit if self.rate_mbit else 0.0

    def qdisc(self) -> list[str]:
        """The words for tc at every end of a cable; empty where nothing is shaped.

        netem keeps the frames that it delays in its queue too, so that its limit is the queue and what is under way.
        """
        if not (self.rate_mbit or self.delay_us or self.loss_percent):
            return []
        frame = self.frame_ns(self.mtu)
        under_way = math.ceil(self.delay_us * 1000 / frame) if frame else 0
        words = ["netem", "limit", f"{self.queue_frames + under_way}"]
        words += ["delay", f"{self.delay_us:g}us"] if self.delay_us else []
        words += ["loss", f"{self.loss_percent:g}%"] if self.loss_percent else []
        return words + (["rate", f"{round(self.rate_mbit * 1000)}kbit", f"{WIRE}"] if self.rate_mbit else [])


def get(name: str, catalog: Catalog) -> Network:
    """The network of that name. Raises UserError when there is none or its file does not fit its schema."""
    return Network(name, **catalog.get("network", name))


REFERENCE, UNTIMED = "reference", "loopback"  # networks: a delay that is known and no rate; neither


@dataclass(frozen=True)
class Job:
    """What a phase of the workload `network` does: messages of `bytes`, of which `window` are under way.

    reply: bytes that answer each; header: bytes of a packet before its content.
    """

    bytes: int
    reply: int
    header: int
    window: int = 1


JOBS = {
    "round-trips": Job(64, 64, IP + UDP),
    "requests": Job(128, 1024, IP + TCP),
    "stream": Job(64 << 10, 1, IP + TCP, window=16),
}


def way(network: Network, payload: int, header: int) -> float:
    """Time (ns) from the sending of a message to its arrival, without that of the software.

    The second end of a cable sends a frame when it has the whole of it, and after the frame before.
    """
    arrived = left = 0.0
    for start in range(0, payload, network.mtu - header):
        frame = network.frame_ns(min(network.mtu - header, payload - start) + header)
        left += frame
        arrived = max(arrived, left) + frame
    return arrived + HOPS * network.delay_us * 1000


def expected(network: Network, job: Job, software: float = 0.0) -> float:
    """Time (ns) of a message of a job, one at a time with its answer; of a stream the longer of two times: that of its
    frames on the wire, and the share of a message in the window when the answers come later.

    software: what the hosts need for a message and its answer.
    """
    around = way(network, job.bytes, job.header) + way(network, job.reply, job.header) + software
    if job.window == 1:
        return around
    # Its frames are full: a message begins in the frame in which the one before ends.
    return max(frames(network, job) * network.frame_ns(network.mtu), around / job.window)


def frames(network: Network, job: Job) -> float:
    """How many frames of a stream a message takes."""
    return job.bytes / (network.mtu - job.header)
