"""Subscribers that share a stream: groups and work queues, ours and those of NATS."""

from __future__ import annotations

import json
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidings.wire import (
    GROUPS,
    WORK,
    Ack,
    Deliver,
    Enlist,
    Extension,
    Frame,
    JobKey,
    Join,
    Parser,
    Part,
    Quality,
    Work,
    ack,
    decode,
    encode,
    pack,
    part,
)

from ._dialect import Interest, read_until
from ._load import READ, Stalled, Subscriber
from ._nats import Nats, subject
from ._processes import Running
from ._tidings import Tidings

GROUP = "billing"
IN_FLIGHT = 128
"""The most jobs that a member holds at once."""


class TidingsGroup(Tidings):
    """Our plain groups."""

    def __init__(self, quality: Quality = Quality.FIRE) -> None:
        super().__init__(quality)
        self.name = f"tidings, {quality.name.lower()}, group"

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        joins = Extension(GROUPS, pack(Join("s", GROUP, interest.filter, 1)))
        publisher, arrived = self._connect(port, part(Part.DATA, encode(Frame(joins))), 1)
        return Subscriber(publisher.socket, acknowledge=lambda got: ack(arrived + got))


class TidingsWork(Tidings):
    """Our acknowledged groups."""

    def __init__(self, quality: Quality = Quality.FIRE) -> None:
        super().__init__(quality)
        self.name = f"tidings, {quality.name.lower()}, group that acknowledges"

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        enlists = Enlist("s", GROUP, interest.filter, Work(30_000_000, 5), IN_FLIGHT, 1)
        joins = Frame(Extension(WORK, pack(enlists)))
        publisher, arrived = self._connect(port, part(Part.DATA, encode(joins)), 1)
        return _TidingsWorker(publisher.socket, arrived)


class _TidingsWorker(Subscriber):
    """Acknowledges each job, all of one read together."""

    def __init__(self, connection: socket.socket, arrived: int) -> None:
        super().__init__(connection)
        self._parser = Parser()
        self._arrived = self._told = arrived

    def read(self) -> int:
        """Read once; how many jobs that were."""
        data = self.socket.recv(READ)
        if not data:
            raise Stalled("a server has closed the connection of a member")
        answers: list[bytes] = []
        count = 0
        for kind, payload in self._parser.feed(data):
            if kind != Part.DATA:
                continue
            self._arrived += 1
            message = decode(payload).message
            if isinstance(message, Deliver):
                identity, route = message.envelope.identity, message.envelope.routes[0]
                job = JobKey(identity.origin, identity.epoch, identity.seq, route.version)
                answers.append(part(Part.DATA, encode(Frame(Extension(WORK, pack(Ack("s", job)))))))
                count += 1
        if self._arrived - self._told >= self.every:
            self._told = self._arrived
            answers.append(ack(self._arrived))
        self.socket.setblocking(True)
        self.socket.sendall(b"".join(answers))
        self.socket.setblocking(False)
        self.got += count
        return count


class NatsQueue(Nats):
    """Queue groups of core NATS."""

    name = "nats-server, queue group"

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        return Subscriber(self._connect(port, f"SUB {subject(interest.topic)} {GROUP} 1\r\n".encode()).socket)


class JetStream(Nats):
    """A stream in memory that keeps what is not acknowledged, and one consumer that many subscribers share."""

    name = "nats-server, JetStream work queue"

    @contextmanager
    def start(self) -> Iterator[Running]:
        stream = {"name": "quotes", "subjects": ["quote"], "retention": "workqueue", "storage": "memory"}
        consumer = {
            "durable_name": GROUP,
            "deliver_subject": "jobs",
            "deliver_group": GROUP,
            "ack_policy": "explicit",
            "max_ack_pending": 10 * IN_FLIGHT,
        }
        wanted = {"stream_name": "quotes", "config": consumer}
        with tempfile.TemporaryDirectory(prefix="bench-net-") as where, self.remembering(Path(where)) as server:
            self._ask(server.port, "STREAM.CREATE.quotes", stream)
            self._ask(server.port, f"CONSUMER.DURABLE.CREATE.quotes.{GROUP}", wanted)
            yield server

    def _ask(self, port: int, what: str, body: object) -> None:
        data = json.dumps(body).encode()
        connection = self._connect(port, b"SUB answers 9\r\n").socket
        connection.sendall(f"PUB $JS.API.{what} answers {len(data)}\r\n".encode() + data + b"\r\n")
        answer = read_until(connection, lambda data: data.count(b"\r\n") >= 2)
        connection.close()
        if b'"error"' in answer:
            raise ConnectionError(f"JetStream answered {what} with {answer[:200]!r}")

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        return _JetStreamWorker(self._connect(port, f"SUB jobs {GROUP} 1\r\n".encode()).socket)


_MESSAGE = re.compile(rb"MSG \S+ 1 (\S+) \d+\r\n")


class _JetStreamWorker(Subscriber):
    """Acknowledges each message, all of one read together."""

    _begun = b""

    def read(self) -> int:
        """Read once; how many messages that were."""
        data = self.socket.recv(READ)
        if not data:
            raise Stalled("a server has closed the connection of a member")
        if b"PING\r\n" in data:
            self.socket.send(b"PONG\r\n")
        data = self._begun + data
        found = list(_MESSAGE.finditer(data))
        self._begun = data[found[-1].end() if found else 0 :][-1_024:]
        answers = [b"PUB " + one[1] + b" 4\r\n+ACK\r\n" for one in found]
        self.socket.setblocking(True)
        self.socket.sendall(b"".join(answers))
        self.socket.setblocking(False)
        self.got += len(found)
        return len(found)
