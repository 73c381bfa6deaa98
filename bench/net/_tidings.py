"""Our server: sessions, numbered parts and acknowledgements as every client has them."""

from __future__ import annotations

import itertools
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tidings.model import Filter
from tidings.wire import (
    VERSION,
    Frame,
    Hello,
    Parser,
    Part,
    PeerRole,
    Publish,
    Quality,
    Settled,
    Subscribe,
    ack,
    decode,
    encode,
    encode_words,
    part,
)

from ._dialect import Interest, Item, dial
from ._load import Batch, Publisher, Subscriber
from ._processes import Running, free_port, running

_PLACEHOLDER = 0xA1B2C3D4E5F60718
"""A number of publication that takes its nine bytes, to be overwritten."""
_names = itertools.count(1)


class Tidings:
    """The dialect."""

    def __init__(self, quality: Quality = Quality.FIRE, *, pure: bool = False) -> None:
        """`pure`: the server does without the compiled engine."""
        self._quality = quality
        self._environment = {"TIDINGS_PURE": "1"} if pure else None
        self.name = f"tidings, {quality.name.lower()}" + (", pure Python" if pure else "")

    @contextmanager
    def start(self) -> Iterator[Running]:
        with self.chain(1) as brokers:
            yield brokers[0]

    @contextmanager
    def chain(self, length: int) -> Iterator[list[Running]]:
        """So many brokers, each connected to the one before."""
        with ExitStack() as stack:
            brokers: list[Running] = []
            for number in range(1, length + 1):
                port = free_port()
                neighbours = [f"tidings://127.0.0.1:{broker.port}" for broker in brokers[-1:]]
                command = [sys.executable, "-m", "bench.net._broker", f"b{number}", str(port), *neighbours]
                brokers.append(stack.enter_context(running(command, port, environment=self._environment)))
            yield brokers

    def _connect(self, port: int, more: bytes, wanted: int, silence: float = 0.0) -> tuple[Publisher, int]:
        """Say hello and more; wait for so many settled subscriptions; how many DATA parts have come by then."""
        connection = dial(port)
        hello = Hello((VERSION,), PeerRole.CLIENT, f"bench-{next(_names)}", silence=silence)
        connection.sendall(part(Part.HELLO, encode_words(hello)) + more)
        parser, welcome, settled, arrived = Parser(), False, 0, 0
        while not welcome or settled < wanted:
            data = connection.recv(65_536)
            if not data:
                raise ConnectionError("the broker closed the connection")
            for kind, payload in parser.feed(data):
                assert kind != Part.REJECT, payload
                welcome = welcome or kind == Part.WELCOME
                if kind == Part.DATA:
                    arrived += 1
                    settled += isinstance(decode(payload).message, Settled)
        return Publisher(connection, ping=(part(Part.PING), part(Part.PONG))), arrived

    def publisher(self, port: int, silence: float = 0.0) -> Publisher:
        return self._connect(port, b"", 0, silence)[0]

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        return self.subscribe(port, [interest.filter])

    def subscribe(self, port: int, filters: Sequence[str]) -> Subscriber:
        """A connection with one subscription or many."""
        more = b"".join(
            part(Part.DATA, encode(Frame(Subscribe(f"s{number}", Filter.parse(text)))))
            for number, text in enumerate(filters)
        )
        publisher, arrived = self._connect(port, more, len(filters))
        return Subscriber(publisher.socket, acknowledge=lambda got: ack(arrived + got))

    def batch(self, items: Sequence[Item]) -> Batch:
        frame = [part(Part.DATA, encode(Frame(Publish(_PLACEHOLDER, i.body, self._quality)))) for i in items]
        data = bytearray(b"".join(frame))
        mark, places, at = struct.pack(">Q", _PLACEHOLDER), [], 0
        for _ in items:
            at = data.index(mark, at)
            places.append(at)
            at += len(mark)
        return Batch(data, len(items), places)

    def close(self, connection: Publisher | Subscriber) -> None:
        connection.socket.setblocking(True)
        with suppress(OSError):
            connection.socket.sendall(part(Part.BYE))
        connection.socket.close()
