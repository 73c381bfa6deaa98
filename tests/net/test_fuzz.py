"""No bytes and no message, from a client or a neighbour, stop a broker or make it hold more than its limits say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from net.world import Raw, brokers, connected, options, running, take, until, url, well
from soaking import SOAK_SECONDS
from wire.samples import FRAMES, MESSAGES

import tidings
from tidings.model import EVERYTHING, Filter, Identity, Route
from tidings.net import serve
from tidings.wire import (
    Advertise,
    Attach,
    DeliverAck,
    Envelope,
    Extension,
    Fetch,
    Fetched,
    Frame,
    Gap,
    Hop,
    LinkState,
    Mark,
    Marks,
    Notify,
    Part,
    PeerRole,
    Publish,
    PublishAck,
    Quality,
    Refused,
    Routed,
    Settled,
    Subscribe,
    TreeMarks,
    TreeReady,
    Unadvertise,
    Unsubscribe,
    Wave,
    WaveAnswer,
    Welcome,
    WireError,
    ack,
    decode,
    encode,
    part,
)

SECONDS = SOAK_SECONDS / 10
EXTREMES = [0, 1, -1, 2**31, -(2**31), 2**53, 2**62, 2**63 - 1, -(2**63), 2**64 - 1]

numbers = st.one_of(st.sampled_from([n for n in EXTREMES if 0 <= n < 2**63]), st.integers(0, 2**63 - 1))
"""What can be read; `test_numbers_that_nothing_can_hold_are_refused_where_they_are_read` has the others."""
names = st.one_of(
    st.sampled_from(["a", "b", "x", "hostile", "raw", "", "/", "s1", "\x00", "é" * 300]), st.text(max_size=20)
)
bodies = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            *(b"\x80", b"\x81\xa1n\x01", b"\xc1", b"", b"\x81\xa1n\xc0"),
            *(b"\x81\xa1n\x81\xa1m\x01", b"\x81\xa1n\x91\x91\x01", b"\x81\xa1n\xcf" + b"\xff" * 8),
            *(b"\x81\xa1n\xcb\x7f\xf8" + bytes(6), b"\x81\xa1n\xc7\x01\x05a", b"\x81\xa1n\xd6\xff" + b"\xff" * 4),
        ]
    ),
)
filters = st.sampled_from(
    [
        EVERYTHING,
        Filter.parse("n = 1"),
        Filter.parse("n IN (" + ", ".join(map(str, range(2_000))) + ")"),
        Filter.parse(" OR ".join(f"(a{n} = 1 AND b{n} > 2)" for n in range(200))),
        Filter.parse("n LIKE '%" + "a%" * 50 + "'"),
    ]
)
identities = st.builds(
    Identity, names, numbers, numbers, names, numbers, numbers, numbers, st.one_of(st.none(), numbers)
)
routes = st.lists(st.builds(Route, names, version=numbers), max_size=3).map(tuple)
envelopes = st.builds(Envelope, identities, routes, bodies, st.sampled_from(Quality))
positions = st.dictionaries(names, st.tuples(numbers, numbers), max_size=5)
counts = st.dictionaries(numbers, numbers, max_size=5)
ids = st.lists(names, max_size=5).map(tuple)

messages = st.one_of(
    st.builds(LinkState, names, numbers, numbers, st.dictionaries(names, numbers, max_size=5)),
    st.builds(Attach, numbers, numbers, st.one_of(st.none(), numbers)),
    st.builds(Publish, numbers, bodies, st.sampled_from(Quality), st.one_of(st.none(), numbers)),
    st.builds(PublishAck, numbers, names, numbers, numbers, numbers),
    st.builds(Notify, envelopes),
    st.builds(DeliverAck, names, numbers, numbers),
    st.builds(Gap, names, numbers, numbers, st.one_of(st.none(), numbers), ids),
    st.builds(Mark, names, numbers, numbers),
    st.builds(Marks, positions),
    st.builds(TreeReady),
    st.builds(Routed, names, names, names, bodies),
    st.builds(TreeMarks, positions),
    st.builds(Subscribe, names, filters, names, st.booleans(), st.just({}), positions, numbers),
    st.builds(Unsubscribe, names, names),
    st.builds(Advertise, names, filters, names, numbers),
    st.builds(Unadvertise, names, names),
    st.builds(Settled, names, names, st.booleans(), positions, numbers),
    st.builds(Refused, names, names, names),
    st.builds(Wave, names, numbers, st.sampled_from(["marks", "unknown", ""]), bodies, numbers),
    st.builds(WaveAnswer, names, numbers, bodies, st.booleans()),
    st.builds(Fetch, names, names, numbers, counts, st.lists(filters, max_size=3).map(tuple)),
    st.builds(
        Fetched,
        names,
        numbers,
        st.lists(envelopes, max_size=3).map(tuple),
        st.booleans(),
        counts,
        st.lists(st.tuples(numbers, numbers, st.one_of(st.none(), numbers)), max_size=3).map(tuple),
        st.booleans(),
    ),
    st.builds(Extension, names, bodies),
    st.sampled_from(MESSAGES),
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The bytes of a good conversation, with some of them changed, dropped or repeated."""
    good = b"".join(
        part(Part.DATA, encode(frame)) for frame in draw(st.lists(st.sampled_from(list(FRAMES.values())), max_size=5))
    )
    data = bytearray(good + ack(draw(st.integers(0, 3))) + part(Part.PING))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.integers(0, 2)):
            case 0:
                data[at] = draw(st.integers(0, 255))
            case 1:
                del data[at : at + draw(st.integers(1, 8))]
            case 2:
                data[at:at] = data[at : at + draw(st.integers(1, 20))]
        if not data:
            data = bytearray(b"\x00")
    return bytes(data)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_no_bytes_but_a_frame_are_a_frame(data: bytes) -> None:
    try:
        frame = decode(data)
    except WireError:
        return
    assert isinstance(frame, Frame)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messages)
def test_every_message_survives_the_wire(message: Any) -> None:
    """Whatever can be said arrives as it was said, or is refused by the encoder."""
    try:
        data = encode(Frame(message))
    except (WireError, OverflowError):
        return
    assert decode(data).message == message


def samples(strategy: st.SearchStrategy[Any], count: int, seed: int) -> list[Any]:
    """Some values of a strategy: all of them at once, because one broker takes them all."""
    found: list[Any] = []

    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    seeded(seed)(collect)()
    return found


async def _say(server: Any, role: PeerRole, say: Callable[[Raw], None]) -> None:
    """Connect, be accepted, say something, and see the broker through it."""
    async with await Raw.open(server) as raw:
        welcome = await raw.hello("hostile", role, epoch=random.getrandbits(40))
        assert isinstance(welcome, Welcome)
        if role is PeerRole.BROKER:
            raw.send(LinkState("hostile", 1, 1, {"b": 1}))
            adjacency = server.host.broker.adjacency
            await until(lambda: "hostile" in adjacency.tree.neighbours)
            epoch = adjacency.tree.epoch
            raw.send(Attach(epoch, 1), Attach(epoch, 2, adjacency.generation))
        say(raw)
        raw.finish()
        await raw.gone()


async def _torment(rounds: Callable[[], bool], seed: int) -> None:
    """Everything hostile, one after the other; the broker, its neighbour and its clients go on."""
    async with brokers("ab", ["ab"], limits={"client_resume": 0.1, "broker_resume": 0.1}) as servers:
        b = servers["b"]
        for role in (PeerRole.CLIENT, PeerRole.BROKER):
            turn = 0
            while rounds() if turn else True:
                turn += 1
                for said in samples(st.lists(messages, min_size=1, max_size=6), 40, seed + turn):

                    def say(raw: Raw, said: list[Any] = said, role: PeerRole = role) -> None:
                        for message in said:
                            try:
                                hop = Hop(b.host.broker.adjacency.tree.epoch if role is PeerRole.BROKER else 0)
                                raw.write(part(Part.DATA, encode(Frame(message, hop))))
                            except (WireError, OverflowError):
                                pass

                    await _say(b, role, say)
                for data in samples(mutated(), 30, seed + turn):
                    await _say(b, role, lambda raw, data=data: raw.write(data))
                await well(b)
                if turn > 1_000:
                    break
        for data in samples(st.binary(min_size=1, max_size=300), 60, seed):
            async with await Raw.open(b) as raw:
                raw.write(data)
                await raw.drain()
        assert b.failed is not None
        assert not b.failed.done()
        assert not servers["a"].failed.done()
        await until(lambda: connected(servers.values()))
        async with tidings.connect(url(servers["a"])) as reader, tidings.connect(url(b)) as writer:
            subscription = await reader.subscribe("together = TRUE")
            await writer.publish(together=True)
            await take(subscription, 1)
        await until(lambda: {peer.link.name for peer in b.host.peers} == {"a"})
        assert not b.host.broker.recovery.suspended
        assert not b.host.broker.clients
        await until(lambda: len(b.host.broker.root.subscriptions) == 0)


@running
async def test_hostile_clients_and_neighbours_do_not_stop_a_broker() -> None:
    left = iter([True])
    await _torment(lambda: next(left, False), 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1_000, 2_000])
def test_hostility_for_long(seed: int) -> None:
    async def long() -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + SECONDS
        await _torment(lambda: loop.time() < end, seed)

    asyncio.run(long())


@running
async def test_a_broker_defends_the_state_of_its_links_against_forgeries_and_its_own_past() -> None:
    async with brokers("ab", ["ab"]) as servers:
        for forged in (LinkState("a", 2**61, 5, {}), LinkState("b", 2**61, 5, {"nobody": 1})):
            await _say(servers["b"], PeerRole.BROKER, lambda raw, forged=forged: raw.send(forged))
        await until(lambda: connected(servers.values()))
        await well(servers["b"])


@running
async def test_a_broker_whose_clock_went_back_is_heard_again(monkeypatch) -> None:
    async with brokers("a") as servers:
        for clock in (2_000_000_000_000_000_000, 1_000_000_000_000_000_000):
            monkeypatch.setattr("tidings.net._server.time.time_ns", lambda clock=clock: clock)
            async with serve(options("b", neighbours=(url(servers["a"]),))) as b:
                await until(lambda b=b: connected([servers["a"], b]))
