"""What a scenario wants from a server, and what a dialect must offer for that."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ._load import MARKER, Batch, Publisher, Subscriber
from ._processes import Running

SIZE = 128
"""Bytes of an encoded notification."""


@dataclass(frozen=True)
class Item:
    """One notification to publish. Servers that know nothing of content go by the topic."""

    topic: str
    attributes: Mapping[str, Any]

    @property
    def body(self) -> bytes:
        """The notification, encoded."""
        return msgspec.msgpack.encode(dict(self.attributes))


@dataclass(frozen=True)
class Interest:
    """What one subscriber wants, said in each way that some server understands."""

    topic: str
    filter: str
    headers: Mapping[str, str]


def quote(symbol: str = "SAP", topic: str = "quote") -> Item:
    """A notification of six attributes and 128 bytes."""
    attributes = {"type": "quote", "symbol": symbol, "price": 182.4, "volume": 1200, "venue": "XETR", "note": ""}
    note = MARKER.decode()
    attributes["note"] = note
    while len(msgspec.msgpack.encode(attributes)) < SIZE:
        note += "."
        attributes["note"] = note
    item = Item(topic, attributes)
    assert len(item.body) == SIZE
    return item


class Dialect(Protocol):
    """How to run one server and speak to it."""

    name: str

    def start(self) -> AbstractContextManager[Running]:
        """A running server; `CannotRun` if there is none."""

    def publisher(self, port: int) -> Publisher:
        """A connection that may publish."""

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        """A connection with a subscription that is in force."""

    def batch(self, items: Sequence[Item]) -> Batch:
        """Publications, encoded."""

    def close(self, connection: Publisher | Subscriber) -> None:
        """End a connection so that nothing of it stays behind."""


@contextmanager
def connected(
    dialect: Dialect, port: int, interests: Sequence[Interest]
) -> Iterator[tuple[Publisher, list[Subscriber]]]:
    """A publisher, and a subscriber for each interest."""
    subscribers: list[Subscriber] = []
    publisher = dialect.publisher(port)
    try:
        for number, interest in enumerate(interests):
            subscribers.append(dialect.subscriber(port, number, interest))
        yield publisher, subscribers
    finally:
        dialect.close(publisher)
        for subscriber in subscribers:
            dialect.close(subscriber)


def dial(port: int) -> socket.socket:
    """A connection to this machine."""
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_until(connection: socket.socket, done: Callable[[bytes], bool]) -> bytes:
    """Read until the answer is complete."""
    data = b""
    while not done(data):
        more = connection.recv(65_536)
        if not more:
            raise ConnectionError(f"the server closed the connection after {data[-200:]!r}")
        data += more
    return data


def plain(frames: Sequence[bytes]) -> Batch:
    """A batch of publications that carry no numbers."""
    return Batch(bytearray(b"".join(frames)), len(frames))
