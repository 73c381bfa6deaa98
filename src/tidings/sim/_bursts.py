"""Links that carry bytes: what is sent in one instant leaves as one burst, and is read as a broker reads a socket.

Theory of operation
-------------------
Elsewhere in the simulator a frame travels as an object, alone. Real brokers get many frames in one read, cut anywhere,
and hand the bytes to their data plane before anything is decoded (docs/native.md). With `Weather.bursts` links do the
same: an *outbox* gathers what is sent on each link in an instant, joins acknowledgements as a real broker does, and
lets it go as one *burst* of bytes, sometimes as two, cut anywhere. The other end puts the parts together and gives them
to `Broker.feed` and `Broker.receive` by the very code that runs on sockets (`tidings.broker.Reading`).

Bursts leave in the order of their links' names. So nothing depends on whether the plane or Python wrote a frame
first, and a run is the same with both: `Network.planes` says which of them reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidings.broker import Link, Reading
from tidings.wire import MSGPACK, Frame, Parser, Part, PublishAck, Written, encode, part

from ._scheduler import Scheduler

if TYPE_CHECKING:
    from ._network import Network

CUT_SHARE = 0.2
"""The share of bursts that arrive in two reads."""


class Burst(NamedTuple):
    """Bytes that travel together."""

    data: bytes
    frames: int
    """How many frames end in them."""


class Outbox:
    """What is sent on each link in an instant."""

    def __init__(self, scheduler: Scheduler, leave: Callable[[Link, list[Frame | Written]], None]) -> None:
        """`leave` is called for each link when the instant is over."""
        self._scheduler = scheduler
        self._leave = leave
        self._waiting: dict[Link, list[Frame | Written]] = {}

    def put(self, link: Link, what: Frame | Written) -> None:
        """Send something behind all that was sent on this link before."""
        if not self._waiting:  # a read lets it go sooner
            self._scheduler.after(0, self.flush)
        waiting = self._waiting.setdefault(link, [])
        if waiting and isinstance(what, Frame) and type(what.message) is PublishAck:
            last = waiting[-1]
            before = last.message if isinstance(last, Frame) else None
            if type(before) is PublishAck and (joined := before.joined(what.message)) is not None:
                waiting[-1] = Frame(joined)
                return
        waiting.append(what)

    def flush(self) -> None:
        """Let everything go."""
        waiting, self._waiting = self._waiting, {}
        for link in sorted(waiting, key=lambda link: (link.name, link.kind.value)):
            self._leave(link, waiting[link])


def bursts(network: Network, what: Iterable[Frame | Written]) -> list[Burst]:
    """What is sent in an instant as the bytes that travel: at once, or in two pieces."""
    data, frames = b"", 0
    for one in what:
        if isinstance(one, Frame):
            data, frames = data + part(Part.DATA, encode(one)), frames + 1
        else:
            data, frames = data + one.data, frames + one.length
    if network.random.random() >= CUT_SHARE:
        return [Burst(data, frames)]
    at = network.random.randint(1, len(data) - 1)
    return [Burst(data[:at], 0), Burst(data[at:], frames)]


class Reader:
    """One end of a link that carries bytes: a broker reads what arrives there."""

    def __init__(self, network: Network, broker: str, link: Link) -> None:
        self._network = network
        self._broker = broker
        self._link = link
        self._parser = Parser()

    def read(self, data: bytes) -> None:
        """Bytes have come: the broker takes some of them as they are, the others are handled part by part."""
        network, link, parser = self._network, self._link, self._parser
        if not network.is_linked(self._broker, link) or not (data := parser.begun(data)):
            return
        broker = network.brokers[self._broker]
        if network.planes and broker.feeds(link, data, parser.limit):
            parts: Iterable[tuple[int, bytes]] = Reading(link, data, broker, parser, lambda: False)
        else:
            parts = parser.feed(data)
        decode = MSGPACK.decode_sparingly if link.is_client else MSGPACK.decode
        for _, payload in parts:
            if not network.is_linked(self._broker, link):
                return  # what came before has ended it
            broker.receive(link, decode(payload))
        network.runtime(self._broker).flush()  # before anything else happens


class Receiver:
    """The other end of a client's link: the client gets one frame after the other."""

    def __init__(self, receive: Callable[[Frame], None]) -> None:
        self._receive = receive
        self._parser = Parser()

    def read(self, data: bytes) -> None:
        """Bytes have come."""
        for _, payload in self._parser.feed(data):
            self._receive(MSGPACK.decode(payload))
