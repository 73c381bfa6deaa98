"""nats-server, core NATS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ._dialect import Interest, Item, dial, plain, read_until
from ._load import Batch, Publisher, Subscriber
from ._processes import CannotRun, Running, find, free_port, on_path, running

_PING, _PONG = b"PING\r\n", b"PONG\r\n"


class Nats:
    """The dialect."""

    name = "nats-server"

    @contextmanager
    def start(self) -> Iterator[Running]:
        port = free_port()
        command = [find("nats-server", "nats-server"), "--addr", "127.0.0.1", "--port", str(port)]
        with running(command, port) as server:
            yield server

    @contextmanager
    def remembering(self, directory: Path) -> Iterator[Running]:
        """With JetStream, which keeps its streams in this directory; `CannotRun` unless there is a server already."""
        if (program := on_path("nats-server")) is None:
            raise CannotRun("nats-server is not on the PATH")
        port = free_port()
        where = ["--addr", "127.0.0.1", "--port", str(port)]
        with running([program, *where, "--jetstream", "--store_dir", str(directory)], port) as server:
            yield server

    def _connect(self, port: int, more: bytes) -> Publisher:
        connection = dial(port)
        connection.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":false}\r\n' + more + _PING)
        read_until(connection, lambda data: _PONG in data)
        return Publisher(connection, ping=(_PING, _PONG))

    def publisher(self, port: int) -> Publisher:
        return self._connect(port, b"")

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        return Subscriber(self._connect(port, f"SUB {subject(interest.topic)} 1\r\n".encode()).socket)

    def batch(self, items: Sequence[Item]) -> Batch:
        return plain([f"PUB {subject(i.topic)} {len(i.body)}\r\n".encode() + i.body + b"\r\n" for i in items])

    def close(self, connection: Publisher | Subscriber) -> None:
        connection.socket.close()


def subject(topic: str) -> str:
    return topic.replace("/", ".")
