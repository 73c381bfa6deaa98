"""redis-server, publish/subscribe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ._dialect import Interest, Item, dial, plain, read_until
from ._load import Batch, Publisher, Subscriber
from ._processes import Running, find, free_port, running


class Redis:
    """The dialect."""

    name = "redis"

    @contextmanager
    def start(self) -> Iterator[Running]:
        port = free_port()
        options = {
            "bind": "127.0.0.1",
            "port": str(port),
            "save": "",
            "appendonly": "no",
            "client-output-buffer-limit": "pubsub 0 0 0",
        }
        command = [find("redis-server", "redis-server")]
        for name, value in options.items():
            command += [f"--{name}", *(value.split() or [""])]
        with running(command, port) as server:
            yield server

    def publisher(self, port: int) -> Publisher:
        return Publisher(dial(port))

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        connection = dial(port)
        connection.sendall(_command(b"SUBSCRIBE", interest.topic.encode()))
        read_until(connection, lambda data: data.endswith(b":1\r\n"))
        return Subscriber(connection)

    def batch(self, items: Sequence[Item]) -> Batch:
        return plain([_command(b"PUBLISH", item.topic.encode(), item.body) for item in items])

    def close(self, connection: Publisher | Subscriber) -> None:
        connection.socket.close()


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
