"""A network between the hosts of a file system (workflow/networks), and what follows from it in closed form.

Every host has a cable to one switch. Both ends of a cable send at its rate, delay what they send, and drop frames once
too many wait. Times are in nanoseconds. docs/methods/networks.md has the equations.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import ConfigDict, Field, model_validator

from reprofs.plan.parts import Descriptor, Filled, Microseconds, Within, wrong

FRAMES_MAX = 1_000_000  # at one end of a cable
WIRE = 24  # bytes of a frame that the kernel does not count: preamble 8, checksum 4, gap 12 (IEEE 802.3)
ETHERNET, IP, UDP, TCP = 14, 20, 8, 32  # headers; TCP's with its time stamps
HOPS = 2  # ends of cables that a frame leaves on its way: the sender's and the switch's
REFERENCE, UNTIMED = "reference", "loopback"  # networks: a delay that is known and no rate; neither


@dataclass(frozen=True)
class Exchange:
    """What a phase of the workload `network` does: messages of `bytes`, of which `window` are under way.

    reply: bytes that answer each; header: bytes of a packet before its content.
    """

    bytes: int
    reply: int
    header: int
    window: int = 1


EXCHANGES = {
    "round-trips": Exchange(64, 64, IP + UDP),
    "requests": Exchange(128, 1024, IP + TCP),
    "stream": Exchange(64 << 10, 1, IP + TCP, window=16),
}


class Network(Descriptor):
    kind = "network"
    folder = "workflow/networks"

    model_config = ConfigDict(
        title="A network between nodes (one file = one network): a link from each node to one switch"
    )

    title: Filled
    rate_mbit: Annotated[float, Within(0, 1000000)] = Field(
        0, description="Rate of each link end, 10^6 bits a second on the wire; 0 = unlimited"
    )
    delay_us: Microseconds = Field(
        0,
        description="Delay of each link end: a way between nodes has two, a round trip four",
    )
    loss_percent: Annotated[float, Within(0, 50)] = Field(0, description="Loss of frames that leave a link end")
    queue_frames: Annotated[int, Field(ge=1, le=FRAMES_MAX)] = Field(
        1000, description="Longest queue at a link end, in frames; further frames are dropped"
    )
    mtu: Annotated[int, Field(ge=576, le=65535)] = Field(1500, description="Bytes of the largest packet")
    sources: Annotated[list[Filled], Field(min_length=1)] = Field(
        description="Where each figure comes from; what is an assumption"
    )

    @model_validator(mode="after")
    def _can_be_shaped(self) -> "Network":
        if 0 < self.rate_mbit < 0.1:
            raise wrong("must have a rate_mbit of at least 0.1, or 0 for unlimited")
        if self.rate_mbit * self.delay_us / 8 / self.mtu > FRAMES_MAX:
            raise wrong(f"would have more than {FRAMES_MAX:,} frames in flight: lower rate_mbit or delay_us")
        return self

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

    def way(self, payload: int, header: int) -> float:
        """Time (ns) from the sending of a message to its arrival, without that of the software.

        The second end of a cable sends a frame when it has the whole of it, and after the frame before.
        """
        arrived = left = 0.0
        for start in range(0, payload, self.mtu - header):
            frame = self.frame_ns(min(self.mtu - header, payload - start) + header)
            left += frame
            arrived = max(arrived, left) + frame
        return arrived + HOPS * self.delay_us * 1000

    def expected(self, exchange: Exchange, software: float = 0.0) -> float:
        """Time (ns) of a message, one at a time with its answer; of a stream the longer of two times: that of its
        frames on the wire, and the share of a message in the window when the answers come later.

        software: what the hosts need for a message and its answer.
        """
        there, back = self.way(exchange.bytes, exchange.header), self.way(exchange.reply, exchange.header)
        around = there + back + software
        if exchange.window == 1:
            return around
        # Its frames are full: a message begins in the frame in which the one before ends.
        return max(self.frames(exchange) * self.frame_ns(self.mtu), around / exchange.window)

    def frames(self, exchange: Exchange) -> float:
        """The number of frames per message of a stream."""
        return exchange.bytes / (self.mtu - exchange.header)
