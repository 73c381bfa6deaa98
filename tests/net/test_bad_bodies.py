"""Notifications that are none, from a neighbour: they cost it its link, or are left out, and stop nobody."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from net.world import Raw, brokers, running, take, until, url, well

import tidings
from tidings.history import HistoryOptions
from tidings.history._messages import Found
from tidings.history.caching._requests import Replay, encode
from tidings.model import ROOT_ROUTE
from tidings.model import Identity as Stamp
from tidings.net import Server
from tidings.wire import (
    Attach,
    Envelope,
    Extension,
    Fetched,
    LinkState,
    Notify,
    PeerRole,
    Welcome,
    WireError,
    decode_body,
    encode_body,
    pack,
)

BAD = {
    "nothing": b"",
    "garbage": b"\xc1",
    "half": b"\x81\xa1x",
    "a list": msgspec.msgpack.encode([1, 2]),
    "a number for a name": msgspec.msgpack.encode({1: 2}),
    "a table": msgspec.msgpack.encode({"x": {"y": 1}}),
    "null": msgspec.msgpack.encode({"x": None}),
    "a list in a list": msgspec.msgpack.encode({"x": [[1]]}),
    "an unknown kind": msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(99, b"")}),
    "no location": msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(1, b"\xff")}),
    "depth": b"\x81\xa1x" + b"\x91" * 5_000,
}
bodies = pytest.mark.parametrize("body", BAD.values(), ids=BAD)
some = pytest.mark.parametrize("body", [BAD["garbage"], BAD["null"]], ids=["garbage", "null"])


def envelope(body: bytes, number: int = 1, origin: str = "hostile") -> Envelope:
    return Envelope(Stamp(origin, 1, number, "x", number, 1), (ROOT_ROUTE,), body)


async def neighbour(server: Server) -> Raw:
    """A connection that is a neighbour of a broker, in its tree."""
    raw = await Raw.open(server)
    assert isinstance(await raw.hello("hostile", PeerRole.BROKER, epoch=1), Welcome)
    raw.send(LinkState("hostile", 1, 1, {"b": 1}))
    adjacency = server.host.broker.adjacency
    await until(lambda: "hostile" in adjacency.tree.neighbours)
    raw.send(Attach(adjacency.tree.epoch, 1), Attach(adjacency.tree.epoch, 2, adjacency.generation))
    await until(lambda: adjacency.open_links)
    return raw


@bodies
def test_a_body_that_is_no_notification_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError, match="the body of a notification cannot be decoded"):
        decode_body(body)


@some
@pytest.mark.parametrize("kind", ["notify", "fetched", "forwarded"])
@running
async def test_a_body_that_cannot_be_decoded_costs_the_neighbour_its_link(
    kind: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    messages: dict[str, Any] = {
        "notify": Notify(envelope(body)),
        "fetched": Fetched("b", 1, (envelope(body),)),
        "forwarded": Fetched("hostile", 1, (envelope(body),)),
    }
    async with brokers("b") as servers:
        async with await neighbour(servers["b"]) as raw:
            raw.send(messages[kind], tree_epoch=servers["b"].host.broker.adjacency.tree.epoch)
            assert "the body of a notification cannot be decoded" in (await raw.rejection()).reason
        await well(servers["b"])
        assert not servers["b"].failed.done()  # type: ignore[union-attr]
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]


class Liar:
    """Answers questions about the past with what it was given."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        answer(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])

    def combine(self, answers: list[bytes]) -> bytes:
        return answers[0]


@some
@running
async def test_a_body_that_cannot_be_decoded_is_left_out_of_the_past(body: bytes) -> None:
    found = Found({"a": (1, 2)}, [envelope(body, 1, "a"), envelope(encode_body({"n": 1}), 2, "a")])
    async with brokers("ab", ["ab"]) as servers, tidings.connect(url(servers["b"])) as client:
        servers["a"].host.broker.waves.register("history.past", Liar(pack(found)))
        subscription = await client.subscribe("TRUE", past=tidings.last(5))
        assert await take(subscription, 1) == [tidings.Notification(n=1)]
        assert servers["b"].host.broker.statistics.refused == 1
        await well(servers["b"])


@pytest.mark.parametrize("answer", [b"\xc1", msgspec.msgpack.encode([{"a": 7}])], ids=["garbage", "kind"])
@pytest.mark.parametrize("alone", [False, True])
@running
async def test_an_answer_about_the_past_that_makes_no_sense_stops_nobody(answer: bytes, alone: bool) -> None:
    """Where this broker cannot answer itself, the nonsense is all there is."""
    async with brokers("ab", ["ab"]) as servers, tidings.connect(url(servers["b"])) as client:
        broker = servers["b"].host.broker
        if alone:
            broker.waves.register("history.past", Liar(answer, pack(Found({}))))
        servers["a"].host.broker.waves.register("history.past", Liar(answer, pack(Found({"a": (1, 0)}))))
        subscription = await client.subscribe("n = 1", past=tidings.last(5))
        await client.publish(n=1)
        await take(subscription, 1)
        assert broker.statistics.refused >= 1
        await well(servers["b"])


@some
@pytest.mark.parametrize("strategy", ["merging", "replay"])
@running
async def test_a_replay_of_what_cannot_be_decoded_is_counted_and_left_out(strategy: str, body: bytes) -> None:
    async with brokers("b", history=HistoryOptions(strategy)) as servers:
        host = servers["b"].host
        async with await neighbour(servers["b"]) as raw:
            message = Extension("history", encode(Replay(("b", 1, 1), [envelope(body)])))
            raw.send(message, tree_epoch=host.broker.adjacency.tree.epoch)
            await until(lambda: host.broker.statistics.refused == 1)
        await well(servers["b"])
