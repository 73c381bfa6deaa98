"""mosquitto, MQTT 3.1.1, quality of service 0."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ._dialect import Interest, Item, dial, plain, read_until
from ._load import Batch, Publisher, Subscriber
from ._processes import Running, find, free_port, running

CONFIGURATION = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
set_tcp_nodelay true
max_queued_messages 0
sys_interval 0
log_dest none
"""


class Mosquitto:
    """The dialect."""

    name = "mosquitto"

    @contextmanager
    def start(self) -> Iterator[Running]:
        program = find("mosquitto", "mosquitto")
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="bench-mosquitto-") as made:
            configuration = Path(made) / "mosquitto.conf"
            configuration.write_text(CONFIGURATION.format(port=port))
            with running([program, "-c", str(configuration)], port) as server:
                yield server

    def _connect(self, port: int, name: str) -> Publisher:
        connection = dial(port)
        variable = _text("MQTT") + bytes((4, 2)) + struct.pack(">H", 0) + _text(name)  # clean session, no keep-alive
        connection.sendall(_packet(0x10, variable))
        answer = read_until(connection, lambda data: len(data) >= 4)
        assert answer == b"\x20\x02\x00\x00", answer
        return Publisher(connection)

    def publisher(self, port: int) -> Publisher:
        return self._connect(port, "publisher")

    def subscriber(self, port: int, number: int, interest: Interest) -> Subscriber:
        connection = self._connect(port, f"subscriber-{number}").socket
        connection.sendall(_packet(0x82, struct.pack(">H", 1) + _text(interest.topic) + b"\0"))
        read_until(connection, lambda data: len(data) >= 5)
        return Subscriber(connection)

    def batch(self, items: Sequence[Item]) -> Batch:
        return plain([_packet(0x30, _text(item.topic) + item.body) for item in items])

    def close(self, connection: Publisher | Subscriber) -> None:
        connection.socket.close()


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _packet(kind: int, payload: bytes) -> bytes:
    length, rest = bytearray(), len(payload)
    while True:
        rest, digit = rest >> 7, rest & 0x7F
        length.append(digit | (0x80 if rest else 0))
        if not rest:
            return bytes((kind, *length)) + payload
