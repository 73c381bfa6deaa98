"""Copies of clients on real sockets: ready before the client arrives, and nobody's whose broker has sent it away."""

from __future__ import annotations

from pathlib import Path

import pytest
from net.proxy import Proxy, proxy
from net.world import Raw, brokers, connected, options, running, take, until, url

import tidings
from tidings.mobility import MobilityOptions, Outcome, Roaming, Scheme
from tidings.mobility._claims import Claim, Claims
from tidings.mobility._copies import Delete, Saying, Whose
from tidings.net import Access, AccessEntry, Server, serve
from tidings.wire import Refused, Routed, Wave, pack

PROACTIVE = MobilityOptions(Scheme.PROACTIVE, new_edge_interval=0)


def roaming(server: Server) -> Roaming:
    feature = server.host.roaming
    assert feature is not None
    return feature


def state(server: Server, client: str = "phone") -> str:
    copy = roaming(server).keeping.copies.get(client)
    return copy.state.value if copy is not None else "nothing"


def held(server: Server, client: str = "phone") -> list[object]:
    keeping = roaming(server).keeping
    return [one.notification["n"] for one, _ in keeping.buffer.all_of(keeping.copies[client])]


def close(*ways: Proxy) -> None:
    """Let nobody through any more."""
    for way in ways:
        way.closed = True
        way.cut()


@running
async def test_a_client_finds_what_it_missed_at_a_broker_that_it_may_go_to_and_is_forgotten_when_sent_away() -> None:
    async with (
        brokers("abc", ["ab", "bc"], mobility=PROACTIVE) as servers,
        proxy(servers["a"].port) as to_a,
        proxy(servers["b"].port) as to_b,
        tidings.connect([to_a.url, to_b.url], name="phone") as phone,
        tidings.connect(url(servers["c"])) as feed,
    ):
        stream = await phone.subscribe("n >= 0")
        assert state(servers["b"]) == "nothing"  # it has never moved
        await phone.move(to_b.url)
        await until(lambda: state(servers["a"]) == "passive")
        await feed.publish(n=1)
        assert [one["n"] for one in await take(stream, 1)] == [1]

        close(to_a, to_b)
        await until(lambda: state(servers["a"]) == "active")
        await feed.publish(n=2)
        await feed.publish(n=3)
        await until(lambda: 3 in held(servers["a"]))  # and what the phone has had, if it was not acknowledged yet
        [copy] = servers["a"].movement.copies("phone")
        assert (copy.state, copy.controller, copy.subscriptions) == ("active", "b", 1)
        assert copy.buffered >= 2

        to_a.closed = False
        assert [one["n"] for one in await take(stream, 2)] == [2, 3]
        await until(lambda: roaming(servers["a"]).handing.outcomes[Outcome.HIT] == 1)
        await feed.publish(n=4)
        assert [one["n"] for one in await take(stream, 1)] == [4]
        await until(lambda: state(servers["b"]) == "passive")

        close(to_a)
        await until(lambda: state(servers["b"]) == "active")
        [peer] = [one for one in servers["a"].host.peers if one.link.name == "phone"]
        servers["a"].host.disconnect(peer, "withdrawn", "its access was withdrawn")
        await until(lambda: state(servers["b"]) == "nothing")
        assert not roaming(servers["a"]).homes


@running
async def test_a_copy_is_there_again_after_the_restart_of_its_broker(tmp_path: Path) -> None:
    async with (
        serve(options("a", mobility=PROACTIVE)) as a,
        tidings.connect(url(a), name="phone") as phone,
    ):
        onto_disk = options("b", mobility=PROACTIVE, data=tmp_path, neighbours=(url(a),))
        async with serve(onto_disk) as b:
            await until(lambda: b.host.broker.adjacency.open_links)
            await phone.subscribe("n >= 0")
            await phone.move(url(b))
            await phone.move(url(a))
            await until(lambda: state(b) == "passive")
        async with serve(onto_disk) as b:
            copy = roaming(b).keeping.copies["phone"]
            assert (copy.controller, copy.subscriptions, copy.restored) == ("a", 1, True)
            await until(lambda: not copy.restored)  # its controller wants it
            assert state(b) == "passive"


@running
async def test_what_a_client_missed_is_fetched_from_the_broker_that_it_left() -> None:
    reactive = MobilityOptions(Scheme.REACTIVE)
    async with (
        brokers("abc", ["ab", "bc"], mobility=reactive) as servers,
        proxy(servers["a"].port) as to_a,
        proxy(servers["b"].port) as to_b,
        tidings.connect([to_a.url, to_b.url], name="phone") as phone,
        tidings.connect(url(servers["c"])) as feed,
    ):
        to_b.closed = True
        stream = await phone.subscribe("n >= 0")
        await feed.publish(n=1)
        assert [one["n"] for one in await take(stream, 1)] == [1]
        close(to_a)
        await until(lambda: roaming(servers["a"]).homes)
        await feed.publish(n=2)
        await until(lambda: len(roaming(servers["a"]).keeping.buffer))
        to_b.closed = False
        assert [one["n"] for one in await take(stream, 1)] == [2]
        transfers = roaming(servers["b"]).transfers
        assert transfers is not None
        assert transfers.fetched >= 1
        await feed.publish(n=3)
        assert [one["n"] for one in await take(stream, 1)] == [3]
        assert not roaming(servers["a"]).homes


@running
async def test_a_copy_may_do_what_its_identity_may_and_is_none_where_that_is_unknown() -> None:
    narrow = AccessEntry("alice", subscribe=tidings.Filter.parse("n < 0"))
    broker = AccessEntry("b", broker=True)
    access = Access(tokens={"secret": broker, "token": narrow})
    async with serve(options("a", access=access, mobility=PROACTIVE)) as server:
        assert server.host._guard_of("alice") is narrow
        for stranger in ("bob", "b"):
            with pytest.raises(tidings.TidingsError, match=f"'{stranger}' is no identity of broker 'a'"):
                server.host._guard_of(stranger)
    async with serve(options("a", mobility=PROACTIVE)) as server:
        assert server.host._guard_of("anybody") is None


@running
@pytest.mark.parametrize("theirs", [Scheme.PROACTIVE, Scheme.ORIGINS])
async def test_neighbours_warn_if_they_serve_clients_that_roam_by_other_schemes(
    theirs: Scheme, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serve(options("a", mobility=MobilityOptions(Scheme.PROACTIVE))) as a,
        serve(options("b", mobility=MobilityOptions(theirs), neighbours=(url(a),))) as b,
    ):
        await until(lambda: connected([a, b]))
        [peer] = [one for one in a.host.peers if one.link.name == "b"]
        (before := peer.stream).abort()
        await until(lambda: peer.stream not in (before, None) and b.diallers[0].connected)
    told = [text for record in caplog.records if "clients that roam" in (text := record.getMessage())]
    assert [line[: line.index(":")] for line in sorted(told)] == [
        "broker a serves clients that roam by the scheme 'proactive', and this one by 'origins'",
        "broker b serves clients that roam by the scheme 'origins', and this one by 'proactive'",
    ] * (theirs is Scheme.ORIGINS)  # once each, though they have met twice
    assert all("give all brokers of a network the same `scheme` in [mobility]" in line for line in told)


@running
async def test_a_client_cannot_speak_as_a_broker_about_clients_and_their_copies() -> None:
    async with (
        brokers("ab", ["ab"], mobility=PROACTIVE) as servers,
        tidings.connect(url(servers["a"]), name="vera") as vera,
    ):
        stream = await vera.subscribe("n >= 0")
        await vera.move(url(servers["b"]))
        await until(lambda: state(servers["a"], "vera") == "passive")
        epoch = servers["b"].host.hosts.epoch_of("vera")
        claims = pack(Claims((Claim("vera", "vera", "a", epoch + 1, epoch + 1, epoch, forced=True),), 1))
        ended = pack(Saying(Delete(Whose("vera", "vera", epoch + 1), ended=True)))
        forged = [
            Routed("b", "a", "hosts", claims),
            Wave("a", 1, "claim", claims, 1_000_000),
            Routed("a", "b", "roaming", ended),
            Wave("a", 2, "graph", pack({"forget": ("a", "")}), 1_000_000),
        ]
        async with await Raw.open(servers["a"]) as one, await Raw.open(servers["b"]) as two:
            for raw, name in ((one, "mallory-1"), (two, "mallory-2")):
                await raw.hello(name)
                for message in forged:
                    raw.send(message)
                    refused = await raw.expect(Refused)
                    assert f"a client may not send {type(message).__name__}" in refused.reason
        assert servers["b"].host.hosts.epoch_of("vera") == epoch
        assert state(servers["a"], "vera") == "passive"
        await vera.publish(n=1)
        assert [one["n"] for one in await take(stream, 1)] == [1]
