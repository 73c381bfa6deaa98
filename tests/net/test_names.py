"""Names belong to identities: what mallory, who may connect, cannot do in the name of vera."""

from __future__ import annotations

from pathlib import Path

import pytest
from net.world import Raw, brokers, options, running, take, until, url

import tidings
from tidings.broker import LinkKind, RoutingOptions
from tidings.model import Filter
from tidings.net import Access, Identity, Server, serve
from tidings.wire import (
    Advertise,
    Deliver,
    Keep,
    Kept,
    PeerRole,
    Publish,
    PublishAck,
    Quality,
    Recall,
    Recalled,
    Refused,
    Reject,
    Settled,
    Subscribe,
    Welcome,
    encode_body,
)

VERA, MALLORY, OTHER = "vera-token-1234567890", "mallory-token-1234567", "other-token-123456789"
PARIS, ROME = "paris-token-123456789", "rome-token-1234567890"


def access() -> Access:
    return Access(
        {
            VERA: Identity("vera", publish=Filter.parse("type = 'order'")),
            MALLORY: Identity("mallory", publish=Filter.parse("type IN ('order', 'quote')")),
            OTHER: Identity("other", administer=True),
            PARIS: Identity("paris", broker=True),
            ROME: Identity("rome", broker=True),
        }
    )


def order(n: int) -> bytes:
    return encode_body({"type": "order", "n": n})


async def stored(server: Server) -> list[tuple[str, object]]:
    """Everything that is in the log of a broker: the publisher, and the attribute `n`."""
    async with tidings.connect(url(server), token=OTHER) as client:
        held = await client.measure_log()
        pages = [page async for page in client.read_log((0, 0), held.end)]
    envelopes = [envelope for page in pages for envelope in page.envelopes]
    return [(one.identity.publisher, one.notification["n"]) for one in envelopes]


# --- the attacks --------------------------------------------------------------------------------------


@running
async def test_nobody_reads_or_moves_the_durable_subscription_of_another(tmp_path: Path) -> None:
    async with serve(options("a", access=access(), data=tmp_path)) as server:
        async with tidings.connect(url(server), name="vera", token=VERA) as vera:
            await vera.subscribe("n > 0", durable="orders")
        async with tidings.connect(url(server), token=OTHER) as writer:
            await (await writer.publish(n=1, quality="stored"))
        async with await Raw.open(server) as raw:
            answer = await raw.hello("vera", token=MALLORY)
            if isinstance(answer, Welcome):
                raw.send(Recall("read", "orders"))
                read = await raw.expect(Recalled)
                raw.send(Keep("move", "orders", read.filter, {"a": (server.host.epoch, 1_000)}))
                await raw.expect(Kept)
        async with tidings.connect(url(server), name="vera", token=VERA) as vera:
            (owed,) = await take(await vera.subscribe("n > 0", durable="orders"), 1)
            assert owed["n"] == 1
        assert isinstance(answer, Reject)


@running
@pytest.mark.parametrize("body", [order(0), encode_body({"type": "other"}), b"\xc1"], ids=["taken", "denied", "garbage"])
async def test_nobody_uses_up_the_numbers_of_another(tmp_path: Path, body: bytes) -> None:
    async with serve(options("a", access=access(), data=tmp_path)) as server:
        async with await Raw.open(server) as raw:
            answer = await raw.hello("vera", token=MALLORY)
            if isinstance(answer, Welcome):
                raw.send(Publish(2**62, body))
                await raw.expect(PublishAck if body == order(0) else Refused)
        async with tidings.connect(url(server), name="vera", token=VERA, own_numbers=True) as vera:
            await (await vera.publish(type="order", n=1, quality="stored", publisher_seq=1))
        assert ("vera", 1) in await stored(server)
        assert isinstance(answer, Reject)


@running
async def test_nobody_publishes_the_next_numbers_of_another() -> None:
    """Also at another broker: subscribers tell repetitions by the name and number of the publisher."""
    everybody = access()
    async with serve(options("a", access=everybody)) as a:
        chosen = options("paris", access=everybody, neighbours=(url(a),), neighbour_token=PARIS)
        async with (
            serve(chosen) as b,
            tidings.connect(url(b), token=OTHER) as reader,
            tidings.connect(url(a), name="vera", token=VERA, own_numbers=True) as vera,
        ):
            await until(lambda: a.host.broker.adjacency.open_links and b.host.broker.adjacency.open_links)
            heard = await reader.subscribe("n >= 0")
            async with await Raw.open(b) as raw:
                answer = await raw.hello("vera", token=MALLORY)
                if isinstance(answer, Welcome):
                    raw.send(*(Publish(number, order(0)) for number in range(1, 6)))
                    await raw.expect(PublishAck)
            for number in range(1, 6):
                await vera.publish(type="order", n=number, publisher_seq=number)
            await (await vera.publish(type="order", n=6, publisher_seq=6))
            assert [one["n"] for one in await take(heard, 6)] == [1, 2, 3, 4, 5, 6]
            assert isinstance(answer, Reject)


@running
@pytest.mark.parametrize("stolen", [False, True], ids=["name", "session"])
async def test_nobody_takes_a_session_while_its_owner_is_cut_off(stolen: bool) -> None:
    async with serve(options("a", access=access())) as server:
        vera = await Raw.open(server)
        assert isinstance(welcome := await vera.hello("vera", token=VERA), Welcome)
        vera.send(Subscribe("s", Filter.parse("n > 0")))
        await vera.expect(Settled)
        received = vera.received
        await vera.close()
        await until(lambda: _peer(server, "vera").stream is None)
        async with tidings.connect(url(server), token=OTHER) as writer:
            await (await writer.publish(n=1))
        async with await Raw.open(server) as raw:
            answer = await raw.hello("vera", token=MALLORY, session=welcome.session if stolen else None)
        async with await Raw.open(server) as again:
            back = await again.hello("vera", token=VERA, session=welcome.session, received=received)
            assert isinstance(back, Welcome)
            assert back.resumed
            assert (await again.expect(Deliver)).envelope.notification["n"] == 1
        assert isinstance(answer, Reject)


def _peer(server: Server, name: str, kind: LinkKind = LinkKind.CLIENT):  # type: ignore[no-untyped-def]
    peer = server.host.peer_of(name, kind)
    assert peer is not None
    return peer


@running
async def test_positions_of_made_up_origins_are_not_kept(tmp_path: Path) -> None:
    async with serve(options("a", access=access(), data=tmp_path)) as server, await Raw.open(server) as raw:
        await raw.hello("mallory", token=MALLORY)
        raw.send(Keep("1", "d", "TRUE", {"a": (server.host.epoch, 0), **{f"made-up-{n}": (1, 1) for n in range(100)}}))
        refused = await raw.expect(Refused)
        assert "'made-up-0'" in refused.reason
        raw.send(Recall("2", "d"))
        assert not (await raw.expect(Recalled)).found


@running
@pytest.mark.parametrize("there", ["linked", "cut off", "absent"])
async def test_a_neighbour_is_not_connected_in_the_name_of_another(there: str) -> None:
    async with serve(options("a", access=access())) as server, await Raw.open(server) as paris:
        if there != "absent":
            assert isinstance(await paris.hello("paris", PeerRole.BROKER, token=PARIS, epoch=1), Welcome)
            known = _peer(server, "paris", LinkKind.BROKER)
        if there == "cut off":
            await paris.close()
            await until(lambda: known.stream is None)
        async with await Raw.open(server) as rome:
            answer = await rome.hello("paris", PeerRole.BROKER, token=ROME, epoch=2)
            if there == "absent":
                assert server.host.peer_of("paris", LinkKind.BROKER) is None
            else:
                assert server.host.peer_of("paris", LinkKind.BROKER) is known
        assert isinstance(answer, Reject)
        async with await Raw.open(server) as rome:
            assert isinstance(await rome.hello("rome", PeerRole.BROKER, token=ROME, epoch=2), Welcome)


# --- a refusal uses up no number ----------------------------------------------------------------------


@running
async def test_a_refused_publication_does_not_use_up_the_numbers_before_it(tmp_path: Path) -> None:
    async with serve(options("a", access=access(), data=tmp_path)) as server:
        async with await Raw.open(server) as raw:
            await raw.hello("vera", token=VERA)
            raw.send(Publish(10, encode_body({"type": "other", "n": 10})), Publish(11, b"\xc1"))
            assert [(await raw.expect(Refused)).reference for _ in range(2)] == ["10", "11"]
            raw.send(Publish(5, order(5), Quality.STORED))
            assert (await raw.expect(PublishAck)).number > 0
        assert await stored(server) == [("vera", 5)]


@running
async def test_what_was_refused_stays_refused() -> None:
    async with brokers("a", routing=RoutingOptions(advertisements=True)) as servers, await Raw.open(servers["a"]) as raw:
        await raw.hello("raw")
        raw.send(Publish(1, order(1)))
        assert (await raw.expect(Refused)).error == "NotAdvertised"
        raw.send(Advertise("a", Filter.parse("TRUE")))
        await raw.expect(Settled)
        raw.send(Publish(1, order(1)), Publish(2, order(2)), Publish(1, order(1)))
        answers = [await raw.message() for _ in range(3)]
        assert [type(one) for one in answers] == [Refused, PublishAck, Refused]
        assert {one.reference for one in answers if isinstance(one, Refused)} == {"1"}
