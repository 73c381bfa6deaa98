"""docs/protocol.md is enough to write a client: this one uses sockets, its own msgpack, and nothing of the package."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from net.world import brokers, running, take, url

import tidings
from tidings.wire import Parser, Part

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"


# --- msgpack, by hand, as far as the page needs it ----------------------------------------------------


def pack(value: Any) -> bytes:
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return bytes([value]) if 0 <= value < 128 else b"\xd3" + struct.pack(">q", value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            data = value.encode()
            return b"\xdb" + struct.pack(">I", len(data)) + data
        case bytes():
            return b"\xc6" + struct.pack(">I", len(value)) + value
        case list():
            return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
        case dict():
            items = b"".join(pack(key) + pack(one) for key, one in value.items())
            return b"\xdf" + struct.pack(">I", len(value)) + items
    raise TypeError(value)


def unpack(data: bytes) -> Any:
    value, rest = _unpack(data, 0)
    assert rest == len(data)
    return value


def _unpack(data: bytes, at: int) -> tuple[Any, int]:
    first = data[at]
    at += 1
    if first < 0x80:
        return first, at
    if first >= 0xE0:
        return first - 256, at
    if first & 0xF0 == 0x80:
        return _many(data, at, 2 * (first & 15), pairs=True)
    if first & 0xF0 == 0x90:
        return _many(data, at, first & 15)
    if first & 0xE0 == 0xA0:
        end = at + (first & 31)
        return data[at:end].decode(), end
    if first in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[first], at
    if first in _FIXED:
        code, size = _FIXED[first]
        return struct.unpack_from(code, data, at)[0], at + size
    if first in _SIZED:
        kind, code, size = _SIZED[first]
        length = struct.unpack_from(code, data, at)[0]
        at += size
        if kind == "map":
            return _many(data, at, 2 * length, pairs=True)
        if kind == "array":
            return _many(data, at, length)
        end = at + length
        return (data[at:end].decode() if kind == "str" else data[at:end]), end
    raise ValueError(f"type {first:#x} at {at}")


_FIXED = {0xCA: (">f", 4), 0xCB: (">d", 8), 0xCC: (">B", 1), 0xCD: (">H", 2), 0xCE: (">I", 4), 0xCF: (">Q", 8)}
_FIXED |= {0xD0: (">b", 1), 0xD1: (">h", 2), 0xD2: (">i", 4), 0xD3: (">q", 8)}
_SIZED = {0xC4: ("bin", ">B", 1), 0xC5: ("bin", ">H", 2), 0xC6: ("bin", ">I", 4)}
_SIZED |= {0xD9: ("str", ">B", 1), 0xDA: ("str", ">H", 2), 0xDB: ("str", ">I", 4)}
_SIZED |= {0xDC: ("array", ">H", 2), 0xDD: ("array", ">I", 4), 0xDE: ("map", ">H", 2), 0xDF: ("map", ">I", 4)}


def _many(data: bytes, at: int, count: int, *, pairs: bool = False) -> tuple[Any, int]:
    items = []
    for _ in range(count):
        item, at = _unpack(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2], strict=True)) if pairs else items), at


# --- a client, from the page alone --------------------------------------------------------------------


class Minimal:
    DATA, ACK, PING, PONG, HELLO, WELCOME, REJECT, BYE = range(8)

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.buffer = b""
        self.received = 0
        self.number = 0
        self.write(self.HELLO, pack({"versions": [1], "role": "client", "name": name}))
        kind, payload = self.part()
        assert kind == self.WELCOME
        self.welcome = unpack(payload)
        assert self.welcome["version"] == 1

    def write(self, kind: int, payload: bytes = b"") -> None:
        self.socket.sendall(struct.pack(">IB", 1 + len(payload), kind) + payload)

    def part(self) -> tuple[int, bytes]:
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack(">I", self.buffer[:4])[0]:
            data = self.socket.recv(65_536)
            assert data, "closed"
            self.buffer += data
        end = 4 + struct.unpack(">I", self.buffer[:4])[0]
        whole, self.buffer = self.buffer[:end], self.buffer[end:]
        return whole[4], whole[5:]

    def messages(self) -> Iterator[list[Any]]:
        while True:
            kind, payload = self.part()
            if kind == self.DATA:
                self.received += 1
                self.write(self.ACK, struct.pack(">Q", self.received))
                yield unpack(payload)[0]
            elif kind == self.PING:
                self.write(self.PONG)

    def expect(self, tag: str) -> list[Any]:
        return next(message for message in self.messages() if message[0] == tag)

    def subscribe(self, id: str, filter: str) -> None:
        self.write(self.DATA, pack([["Subscribe", id, filter]]))
        settled = self.expect("Settled")
        assert settled[1] == id

    def publish(self, **attributes: Any) -> list[Any]:
        self.number += 1
        self.write(self.DATA, pack([["Publish", self.number, pack(attributes)]]))
        ack = self.expect("PublishAck")
        assert ack[1] == self.number
        return ack

    def close(self) -> None:
        self.write(self.BYE)
        self.socket.close()


def _converse(port: int, results: dict[str, Any]) -> None:
    client = Minimal(port, "minimal")
    client.subscribe("s1", "type = 'quote' AND price > 100")
    results["ready"].set()
    _, envelope, subscriptions = client.expect("Deliver")
    identity, routes, body, quality = envelope
    results["got"] = (identity[3], unpack(body), subscriptions, quality, len(routes))
    results["ack"] = client.publish(answer=42)
    results["after"] = {identity[0]: [identity[1], identity[2]]}
    client.close()


@pytest.mark.req("ARC-194")
@running
async def test_a_client_made_from_the_page_publishes_and_subscribes() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as alice:
        answers = await alice.subscribe("answer = 42")
        ready = threading.Event()
        results: dict[str, Any] = {"ready": ready}
        talking = asyncio.create_task(asyncio.to_thread(_converse, servers["b"].port, results))
        await asyncio.to_thread(ready.wait, 20)
        await alice.publish(type="quote", price=50.0)
        await alice.publish(type="quote", price=182.4)
        assert len(await take(answers, 1)) == 1
        await talking
        assert results["got"] == ("alice", {"type": "quote", "price": 182.4}, ["s1"], 1, 1)
        assert results["ack"][2:4] == ["b", servers["b"].host.epoch]


# --- the page itself ----------------------------------------------------------------------------------


def test_the_bytes_of_the_page_are_a_session() -> None:
    """Every line of the annotated dump is one whole part, and its note says which."""
    dump = re.search(r"```text session\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert dump is not None
    kinds = []
    for line in re.findall(r"^[CB]: (.*?)(?: +;.*)?\n((?:   [0-9a-f ]+(?: +;.*)?\n)*)", dump[1], re.MULTILINE):
        text = line[0] + re.sub(r";.*", "", line[1])
        ((kind, payload),) = Parser().feed(bytes.fromhex(text.replace("\n", " ")))
        kinds.append(Part(kind).name)
        if kind in (Part.DATA, Part.HELLO, Part.WELCOME):
            unpack(payload)
    assert kinds == ["HELLO", "WELCOME", "DATA", "ACK", "DATA", "ACK", "DATA", "DATA", "DATA", "ACK", "ACK", "BYE"]


def test_the_page_lists_every_message_with_its_fields_in_order() -> None:
    from typing import get_args

    from tidings.wire import AnyMessage

    text = PAGE.read_text(encoding="utf-8")
    for message in get_args(AnyMessage):
        row = re.search(rf"^\| `{message.__name__}` \| ([^|]*) \|", text, re.MULTILINE)
        assert row is not None, message.__name__
        assert re.findall(r"`([a-z_]+)`", row[1]) == list(message.__struct_fields__), message.__name__
