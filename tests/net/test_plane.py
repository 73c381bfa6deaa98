"""The data plane sends what the lane sends, byte for byte, and leaves the broker as the lane leaves it."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from net.plane_world import Notebook, Site, compiled
from net.world import brokers, running, take, url
from rich.console import Console, Group
from strategies import SOAK_SLOWLY, filters, notifications

import tidings
from tidings.cli._status import summary
from tidings.model import Filter, Notification, StoreError
from tidings.net._access import Access, AccessEntry
from tidings.net._options import Limits, SlowPolicy
from tidings.wire import (
    JSON,
    MSGPACK,
    Frame,
    Hop,
    Part,
    Publish,
    PublishAck,
    Quality,
    Subscribe,
    Unsubscribe,
    ack,
    encode_body,
    part,
)

CLIENTS = ("ann", "bob", "cid", "dora")
SPOKEN = {"ann": MSGPACK, "bob": MSGPACK, "cid": MSGPACK, "dora": JSON}

PLAIN = [Quality.FIRE, Quality.ACCEPTED, Quality.DEFAULT, Quality.STORED]
plain = notifications().map(encode_body) | st.sampled_from([encode_body(Notification(n=1, t="a")), encode_body({})])
odd = st.sampled_from(
    [b"", b"\xc1", b"\x81\xa1a\xc0", b"\x82\xa1a\x01\xa1a\x02", b"\x80\x80", b"\x81\xa1a\xcb\x7f\xf0" + b"\0" * 6]
)


@st.composite
def publishing(draw: st.DrawFn) -> tuple[str, Any]:
    """Some publications of one quality; most often nothing is wrong with any of them."""
    quality = draw(st.sampled_from(PLAIN))
    some = draw(st.lists(plain, min_size=1, max_size=10))
    leaps, ttl = [1] * len(some), None
    if draw(st.integers(0, 5)) == 0:
        some = draw(st.lists(plain | odd, min_size=1, max_size=5))
        leaps = draw(st.lists(st.sampled_from([1, 1, 2, 0, -3]), min_size=len(some), max_size=len(some)))
        ttl = draw(st.sampled_from([None, 0, 500, 2**40, -1]))
    return "publish", [(leap, body, quality, ttl) for leap, body in zip(leaps, some, strict=True)]


other = st.one_of(
    st.tuples(st.just("subscribe"), st.tuples(st.integers(0, 3), filters(), st.booleans())),
    st.tuples(st.just("unsubscribe"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["ping", "ack"]), st.none()),
    st.tuples(st.just("odd"), st.sampled_from([b"", b"\x92\x95", b"\x92\x97\xa7Publish\xcf", b"\xc1", bytes(40)])),
)
said = st.one_of(publishing(), publishing(), publishing(), other)
clients = st.sampled_from(CLIENTS)
sending = st.tuples(
    st.just("send"),
    st.tuples(clients, st.lists(said, min_size=1, max_size=6), st.lists(st.integers(0, 2_000), max_size=3)),
)
meanwhile = st.one_of(
    st.tuples(st.just("watch"), st.sampled_from([True, False, False])),
    st.tuples(st.just("apart"), clients),
    st.tuples(st.just("together"), clients),
    st.tuples(st.just("disarm"), st.none()),
    st.tuples(st.just("later"), st.integers(1, 10**7)),
    st.tuples(st.just("commit"), st.sampled_from([None, None, None, StoreError("the disk is broken")])),
    st.tuples(st.just("full"), st.sampled_from([True, False, False])),
)
step = st.one_of(sending, sending, sending, meanwhile)
PRELUDE = [
    *[("send", (name, [("publish", [(1, encode_body({}), Quality.FIRE, None)])], [])) for name in CLIENTS],
    ("commit", None),
    ("send", ("bob", [("subscribe", (0, Filter.parse("a EXISTS"), True))], [])),
    ("send", ("dora", [("subscribe", (0, Filter.parse("b EXISTS OR n = 1"), True))], [])),
]
"""Everybody has found a lane, and somebody listens."""


class Talk:
    """What clients say, as bytes; the same for every engine."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(CLIENTS, 0)
        self.heard = dict.fromkeys(CLIENTS, 0)

    def data(self, name: str, what: list[tuple[str, Any]], site: Site) -> bytes:
        return b"".join(piece for kind, detail in what for piece in self.pieces(name, kind, detail, site))

    def pieces(self, name: str, kind: str, detail: Any, site: Site) -> list[bytes]:
        write = SPOKEN[name].encode
        if kind == "publish":
            found = []
            for leap, body, quality, ttl in detail:
                self.numbers[name] = max(0, self.numbers[name] + leap)
                found.append(part(Part.DATA, write(Frame(Publish(self.numbers[name], body, quality, ttl)))))
            return found
        if kind == "subscribe":
            number, filter, own = detail
            return [part(Part.DATA, write(Frame(Subscribe(f"s{number}", filter, receive_own=own))))]
        if kind == "unsubscribe":
            return [part(Part.DATA, write(Frame(Unsubscribe(f"s{detail}"))))]
        if kind == "ping":
            return [part(Part.PING)]
        if kind == "odd":
            return [part(Part.DATA, detail)] if name != "dora" else []
        return [ack(site.peer(name).session._sent)] if not site.wires[name].closed else []


async def play(site: Site, steps: list[tuple[str, Any]]) -> None:
    talk = Talk()
    for name in CLIENTS:
        site.connect(name, SPOKEN[name].name, token=name)
    for kind, detail in [*PRELUDE, *steps]:
        if kind == "send":
            name, what, cuts = detail
            data = talk.data(name, what, site)
            if not site.wires[name].closed:
                await site.send(name, data, tuple(cuts))
        elif kind == "watch":
            site.feature.watch(detail)
            await asyncio.sleep(0.001)
        elif kind == "apart":
            site.feature.links.add(site.peer(detail).link)
        elif kind == "together":
            site.feature.links.discard(site.peer(detail).link)
        elif kind == "disarm":
            site.broker.delivery.lanes.changed()
        elif kind == "later":
            site.moment += detail
        elif site.log is not None:
            if kind == "commit":
                site.log.commit(detail)
                await asyncio.sleep(0)
            else:
                site.log.full = detail
    site.host.flush()


async def both(steps: list[tuple[str, Any]], patch: pytest.MonkeyPatch, *, stores: bool = False, **options: Any) -> int:
    sites = [Site(pure=pure, patch=patch, log=Notebook() if stores else None, **options) for pure in (True, False)]
    for site in sites:
        await play(site, steps)
    reference, site = sites
    for name in CLIENTS:
        assert site.told(name) == reference.told(name)
    assert site.state() == reference.state()
    assert site.noted() == reference.noted()
    assert reference.fed == 0
    fed = site.fed
    for one in sites:
        await one.close()
    return fed


IDENTITIES = Access(
    {
        "ann": AccessEntry("ann", publish=Filter.parse("a EXISTS OR n > 2")),
        "bob": AccessEntry("bob"),
        "cid": AccessEntry("cid", publish=Filter.parse("b = 1 OR NOT (a EXISTS)")),
        "dora": AccessEntry("dora", publish=Filter.parse("a EXISTS")),
    }
)


def compare(steps: list[tuple[str, Any]], *, stores: bool, guarded: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(both(steps, patch, stores=stores, access=IDENTITIES if guarded else Access()))


@compiled
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(step, min_size=3, max_size=20), st.booleans(), st.booleans())
def test_bytes_and_state_are_those_of_the_python_lane(
    steps: list[tuple[str, Any]], stores: bool, guarded: bool
) -> None:
    compare(steps, stores=stores, guarded=guarded)


@compiled
@pytest.mark.soak
@settings(SOAK_SLOWLY, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=3, max_size=60), st.booleans(), st.booleans())
def test_bytes_and_state_are_those_of_the_python_lane_for_long(
    steps: list[tuple[str, Any]], stores: bool, guarded: bool
) -> None:
    compare(steps, stores=stores, guarded=guarded)


def publication(seq: int, quality: Quality = Quality.FIRE, **attributes: Any) -> bytes:
    return part(Part.DATA, MSGPACK.encode(Frame(Publish(seq, encode_body(attributes or {"n": seq}), quality))))


def subscription(id: str, filter: str = "n EXISTS", **more: Any) -> bytes:
    return part(Part.DATA, MSGPACK.encode(Frame(Subscribe(id, Filter.parse(filter), **more))))


async def site_of(patch: pytest.MonkeyPatch, **options: Any) -> Site:
    site = Site(pure=False, patch=patch, **options)
    for name in CLIENTS:
        site.connect(name, SPOKEN[name].name)
    await site.send("ann", publication(1))  # the first one finds the lane
    return site


def messages(site: Site, name: str) -> list[Any]:
    return [SPOKEN[name].decode(payload).message for kind, payload in site.told(name) if kind == Part.DATA]


@compiled
def test_a_read_is_taken_as_a_whole_and_acknowledged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        site = await site_of(monkeypatch)
        await site.send("bob", subscription("s1"))
        await site.send("dora", part(Part.DATA, JSON.encode(Frame(Subscribe("s1", Filter.parse("n > 50"))))))
        before = site.fed
        data = b"".join(publication(seq, Quality.ACCEPTED) for seq in range(2, 102))
        await site.send("ann", data, (7, 1_000))
        assert site.fed - before == 100
        first, second = messages(site, "ann")
        assert first.seq == first.number == 1 + first.count
        assert second == PublishAck(101, "b1", 7, 101, 100 - first.count), "one for each read"
        assert [one.envelope.notification["n"] for one in messages(site, "bob")[1:]] == list(range(2, 102))
        assert [one.envelope.notification["n"] for one in messages(site, "dora")[1:]] == list(range(51, 102))
        await site.close()

    asyncio.run(story())


@compiled
def test_a_subscription_in_the_middle_of_a_read_gets_what_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        site = await site_of(monkeypatch)
        await site.send("ann", publication(2) + subscription("s1") + publication(3) + publication(4))
        delivered = [one for one in messages(site, "ann") if hasattr(one, "envelope")]
        assert [one.envelope.identity.publisher_seq for one in delivered] == [3, 4]
        assert site.fed == 4
        await site.close()

    asyncio.run(story())


@compiled
def test_what_waits_in_an_outbox_goes_before_what_the_plane_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        site = await site_of(monkeypatch)
        await site.send("bob", subscription("s1"))
        odd = part(Part.DATA, MSGPACK.encode(Frame(Publish(3, encode_body({"n": 3}), Quality.FIRE), Hop(9))))
        await site.send("ann", publication(2) + odd + publication(4) + odd + publication(5))
        assert [one.envelope.identity.publisher_seq for one in messages(site, "bob")[1:]] == [2, 3, 4, 5]
        await site.close()

    asyncio.run(story())


@compiled
def test_a_link_in_several_groups_gets_everything_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        site = await site_of(monkeypatch)
        await site.send("bob", subscription("even", "even = true") + subscription("all"))
        await site.send("cid", subscription("all"))
        data = b"".join(publication(seq, n=seq, even=seq % 2 == 0) for seq in range(2, 50))
        await site.send("ann", data)
        for name in ("bob", "cid"):
            numbers = [one.envelope.identity.publisher_seq for one in messages(site, name) if hasattr(one, "envelope")]
            assert numbers == list(range(2, 50))
        assert site.fed == 49
        await site.close()

    asyncio.run(story())


@compiled
def test_a_slow_subscriber_gets_what_waited_and_is_told_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        ("send", ("bob", [("subscribe", (0, Filter.parse("n EXISTS"), True))], [])),
        *[
            ("send", ("ann", [("publish", [(1, encode_body({"n": n}), Quality.FIRE, None)] * 50)], []))
            for n in range(30)
        ],
        ("send", ("bob", [("ack", None)], [])),
        *[("send", ("ann", [("publish", [(1, encode_body({"n": n}), Quality.FIRE, None)] * 5)], [])) for n in range(9)],
    ]
    limits = Limits(window_parts=64, queue_parts=128)
    fed = asyncio.run(both(steps, monkeypatch, limits=limits, slow_policy=SlowPolicy.DROP_OLDEST))
    assert fed > 1_000


@compiled
def test_a_part_that_is_too_large_is_reported_and_the_small_one_behind_it_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(pure: bool) -> list[tuple[int, bytes]]:
        site = Site(pure=pure, patch=monkeypatch)
        site.connect("ann")
        site.connect("bob", max_part=1_024)
        await site.send("bob", subscription("s1"))
        await site.send("ann", publication(1) + publication(2, n=2, text="x" * 2_000) + publication(3))
        assert [type(one).__name__ for one in messages(site, "bob")] == ["Settled", "Deliver", "Gap", "Deliver"]
        assert site.fed == (0 if pure else 3)
        parts = site.told("bob")
        await site.close()
        return parts

    assert asyncio.run(story(True)) == asyncio.run(story(False))


@compiled
@pytest.mark.parametrize("room", [0, -1])
def test_a_part_goes_if_it_is_just_as_large_as_its_peer_takes(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    async def story(pure: bool, largest: int) -> list[tuple[int, bytes]]:
        site = Site(pure=pure, patch=monkeypatch)
        site.connect("ann")
        site.connect("bob", max_part=largest)
        await site.send("bob", subscription("s1"))
        await site.send("ann", publication(1) + publication(2, n=2, text="x" * 2_000) + publication(3))
        parts = site.told("bob")
        await site.close()
        return parts

    largest = 1 + max(len(payload) for _, payload in asyncio.run(story(True, 10_000)))  # its kind is counted
    told = [asyncio.run(story(pure, largest + room)) for pure in (True, False)]
    assert told[0] == told[1]
    assert any(len(payload) > 2_000 for _, payload in told[0]) is (room == 0)


@compiled
def test_a_disarm_between_taking_a_run_and_sending_it_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(pure: bool) -> list[tuple[int, bytes]]:
        site = Site(pure=pure, patch=monkeypatch)
        for name in ("ann", "bob"):
            site.connect(name)
        flush = site.host.flush

        def disarm_and_flush() -> None:
            site.broker.delivery.lanes.changed()
            flush()

        await site.send("bob", subscription("s1"))
        await site.send("ann", publication(1))
        monkeypatch.setattr(site.host, "flush", disarm_and_flush)
        for begin in range(2, 50, 6):
            await site.send("ann", b"".join(publication(seq) for seq in range(begin, begin + 6)))
        assert [one.envelope.identity.seq for one in messages(site, "bob")[1:]] == list(range(1, 50))
        assert site.fed == 0 if pure else site.fed > 40
        parts = site.told("bob")
        await site.close()
        return parts

    assert asyncio.run(story(True)) == asyncio.run(story(False))


@compiled
def test_what_a_disk_refuses_after_it_was_numbered_is_refused_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        ("send", ("ann", [("publish", [(1, encode_body({"n": n}), Quality.STORED, None) for n in range(9)])], [])),
        ("commit", StoreError("the disk is broken")),
        ("send", ("ann", [("publish", [(1, encode_body({"n": n}), Quality.STORED, None) for n in range(4)])], [])),
        ("send", ("ann", [("publish", [(-9, encode_body({"n": 1}), Quality.STORED, None)])], [])),
        ("commit", None),
    ]
    assert asyncio.run(both(steps, monkeypatch, stores=True)) > 10


@compiled
def test_a_broken_header_refuses_the_whole_read_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(pure: bool) -> tuple[bytes, int]:
        site = Site(pure=pure, patch=monkeypatch)
        site.connect("ann")
        await site.send("ann", publication(1))
        await site.send("ann", publication(2) + b"\0\0\0\x05\x63" + bytes(9))
        assert site.wires["ann"].closed
        parts = site.told("ann")
        return parts[-1][1], site.broker.publications.last

    assert asyncio.run(story(True)) == asyncio.run(story(False))
    assert asyncio.run(story(False))[1] == 1


@compiled
def test_an_identity_with_a_filter_is_fed_what_passes_and_refused_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        site = Site(pure=False, patch=monkeypatch, access=IDENTITIES)
        site.connect("ann", token="ann")
        data = b"".join(publication(seq) for seq in range(1, 6))
        await site.send("ann", data)
        assert [one.publication for one in messages(site, "ann")] == [1, 2]
        assert "may only publish" in messages(site, "ann")[0].reason
        assert [one.identity.publisher_seq for one in site.broker.publications.recent] == [3, 4, 5]
        assert site.fed == 3
        await site.close()

    asyncio.run(story())


@compiled
def test_memory_keeps_what_it_would_have_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker.forwarding._numbers.MEMORY_BYTES", 3_000)
    body = encode_body({"n": 1, "text": "x" * 40})
    steps = [("send", ("ann", [("publish", [(1, body, Quality.FIRE, None)] * 17)], [])) for _ in range(20)]
    assert asyncio.run(both(steps, monkeypatch)) > 300


def rendered(what: Group) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(what)
    return console.export_text()


@compiled
@running
async def test_a_broker_with_a_store_takes_what_clients_publish_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidings.net._connection.LIGHT_SLICE", 60.0)  # how long something takes must not matter
    async with brokers(["b"], data=tmp_path) as servers:
        async with tidings.connect(url(servers["b"])) as publisher, tidings.connect(url(servers["b"])) as reader:
            heard = await reader.subscribe("EXISTS(n)")
            receipts = [await publisher.publish(n=n) for n in range(1_000)]
            await asyncio.gather(*receipts)
            assert {receipt.quality for receipt in receipts} == {Quality.STORED}
            assert [one["n"] for one in await take(heard, 1_000)] == list(range(1_000))
            status = await reader.status()
            assert status.scopes is not None
            (table,) = status.scopes.tables
            assert (table.lookups, table.taken, table.unfed) == (1_000, 1_000, "")
            assert table.fed > 500
            assert "100% of 1,000 lookups, " in rendered(summary(status))
        (lane,) = servers["b"].host.broker.delivery.lanes.all().values()
        assert lane.fed > 500
    async with brokers(["b"], data=tmp_path) as servers, tidings.connect(url(servers["b"])) as reader:
        past = await reader.subscribe("EXISTS(n)", past=tidings.last(1_000))
        assert [one["n"] for one in await take(past, 1_000)] == list(range(1_000))


@compiled
@pytest.mark.parametrize("cuts", [(), (700, 701, 5_000)])
def test_what_waits_for_its_turn_is_fed_when_that_has_come(
    monkeypatch: pytest.MonkeyPatch, cuts: tuple[int, ...]
) -> None:
    async def story(pure: bool) -> list[tuple[int, bytes]]:
        site = Site(pure=pure, patch=monkeypatch)
        for name in ("ann", "bob"):
            site.connect(name)
        await site.send("bob", subscription("s1"))
        await site.send("ann", publication(1))
        monkeypatch.setattr("tidings.net._connection.LIGHT_SLICE", -1.0)  # each run uses up a turn
        qualities = [Quality.FIRE, Quality.ACCEPTED] * 6
        runs = [
            b"".join(publication(12 * n + seq, quality) for seq in range(2, 14)) for n, quality in enumerate(qualities)
        ]
        await site.send("ann", b"".join(runs) + part(Part.BYE), cuts)
        assert site.fed == (0 if pure else 1 + 144)
        assert [one.envelope.notification["n"] for one in messages(site, "bob")[1:]] == list(range(1, 146))
        assert site.wires["ann"].closed
        parts = site.told("bob")
        await site.close()
        return parts

    assert asyncio.run(story(True)) == asyncio.run(story(False))
