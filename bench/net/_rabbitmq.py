"""rabbitmq-server with a headers exchange, AMQP 0-9-1. The attributes of a notification are its headers."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ._dialect import Interest, Item, dial, plain
from ._load import Batch, Publisher, Subscriber
from ._processes import CannotRun, Running, find, free_port, running

SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""What the wrapper on the PATH runs, after it has changed the user."""
CONFIGURATION = """
listeners.tcp.local = 127.0.0.1:{port}
disk_free_limit.absolute = 50MB
log.console = false
log.file.level = error
tcp_listen_options.nodelay = true
"""
EXCHANGE = "quotes"
_END = b"\xce"
_queues = itertools.count(1)


class RabbitMQ:
    """The dialect. The server takes long to start, so it goes on running until `stop`."""

    name = "rabbitmq"

    def __init__(self) -> None:
        self._block: Any = None
        self._server: Running | None = None

    @contextmanager
    def start(self) -> Iterator[Running]:
        if self._server is None:
            self._block = _serving()
            self._server = self._block.__enter__()
        yield self._server

    def stop(self) -> None:
        """Stop the server, if it runs."""
        if self._server is not None:
            self._server = None
            self._block.__exit__(None, None, None)

    def publisher(self, port: int) -> Publisher:
        connection = _open(port)
        # exchange.declare, auto-deleted when the last queue is gone
        _call(connection, 40, 10, struct.pack(">H", 0) + _short(EXCHANGE) + _short("headers") + b"\0" + _table({}))
        return Publisher(connection)

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        connection = _open(port)
        queue = f"q{next(_queues)}"
        zero = struct.pack(">H", 0)
        _call(connection, 50, 10, zero + _short(queue) + b"\x0c" + _table({}))  # queue.declare, exclusive, auto-delete
        arguments = {"x-match": "all", **interest.headers}
        _call(connection, 50, 20, zero + _short(queue) + _short(EXCHANGE) + _short("") + b"\0" + _table(arguments))
        _call(connection, 60, 20, zero + _short(queue) + _short("c") + b"\x02" + _table({}))  # basic.consume, no-ack
        return Subscriber(connection)

    def batch(self, items: Sequence[Item]) -> Batch:
        publish = struct.pack(">HHH", 60, 40, 0) + _short(EXCHANGE) + _short("") + b"\0"
        frames = []
        for item in items:
            properties = struct.pack(">HHQH", 60, 0, 1, 0x2000) + _table(item.attributes)
            frames.append(_frame(1, 1, publish) + _frame(2, 1, properties) + _frame(3, 1, b"."))
        return plain(frames)

    def close(self, connection: Publisher | Subscriber) -> None:
        connection.socket.close()


@contextmanager
def _serving() -> Iterator[Running]:
    find("rabbitmq-server", "rabbitmq-server")
    if not SCRIPT.exists():
        raise CannotRun(f"{SCRIPT} is not there: this rabbitmq-server is not Debian's")
    port, epmd = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="bench-rabbitmq-", ignore_cleanup_errors=True) as made:
        directory = Path(made)
        (directory / "rabbitmq.conf").write_text(CONFIGURATION.format(port=port))
        (directory / "enabled_plugins").write_text("[].\n")
        environment = {
            "HOME": made,
            "RABBITMQ_NODENAME": f"bench{os.getpid()}@localhost",
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(directory / "log"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            # Its schedulers would spin while they wait, which counts as CPU time.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} "
            "+sbwt none +sbwtdcpu none +sbwtdio none",
        }
        try:
            with running([str(SCRIPT)], port, environment=environment) as server:
                _open(port).close()
                yield server
        finally:
            if program := shutil.which("epmd"):  # the name server that it started, on a port of its own
                environment = {**os.environ, "ERL_EPMD_PORT": str(epmd), "ERL_EPMD_ADDRESS": "127.0.0.1"}
                with suppress(OSError, subprocess.SubprocessError):
                    subprocess.run([program, "-kill"], env=environment, capture_output=True, timeout=10, check=False)


def _open(port: int) -> socket.socket:
    """A connection with one channel."""
    connection = dial(port)
    connection.sendall(b"AMQP\0\0\x09\x01")
    _answer(connection)  # connection.start
    login = b"\0guest\0guest"
    properties = _table({}) + _short("PLAIN") + struct.pack(">I", len(login)) + login + _short("en_US")
    connection.sendall(_method(0, 10, 11, properties))
    _, tune = _answer(connection)
    _channels, frame_max, _heartbeat = struct.unpack_from(">HIH", tune, 4)
    connection.sendall(_method(0, 10, 31, struct.pack(">HIH", 1, frame_max, 0)))  # no heartbeat
    connection.sendall(_method(0, 10, 40, _short("/") + b"\0\0"))
    _answer(connection)
    _call(connection, 20, 10, b"\0")
    return connection


def _call(connection: socket.socket, group: int, method: int, arguments: bytes) -> bytes:
    """A method on the channel, and its answer."""
    connection.sendall(_method(1, group, method, arguments))
    (answered, answer), payload = _answer(connection)
    if (answered, answer) != (group, method + 1):
        raise ConnectionError(f"rabbitmq answered {group}.{method} with {answered}.{answer}: {payload!r}")
    return payload


def _answer(connection: socket.socket) -> tuple[tuple[int, int], bytes]:
    head = _exactly(connection, 7)
    payload = _exactly(connection, struct.unpack(">I", head[3:])[0] + 1)[:-1]
    group, method = struct.unpack_from(">HH", payload)
    return (group, method), payload


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("rabbitmq closed the connection")
        data += more
    return data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


def _method(channel: int, group: int, method: int, arguments: bytes) -> bytes:
    return _frame(1, channel, struct.pack(">HH", group, method) + arguments)


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes((len(data),)) + data


def _table(values: Mapping[str, Any]) -> bytes:
    data = b""
    for name, value in values.items():
        match value:
            case str():
                encoded = b"S" + struct.pack(">I", len(value.encode())) + value.encode()
            case int():
                encoded = b"l" + struct.pack(">q", value)
            case float():
                encoded = b"d" + struct.pack(">d", value)
            case _:
                raise TypeError(f"{name} = {value!r}")
        data += _short(name) + encoded
    return struct.pack(">I", len(data)) + data
