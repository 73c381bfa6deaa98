"""Names belong to identities: what mallory, who may connect, cannot do in the name of vera."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from net.world import Raw, brokers, connected, options, running, take, until, url

import tidings
from tidings.broker import LinkKind, RoutingOptions
from tidings.broker.forwarding._publications import MAX_REFUSALS, Publications
from tidings.client import NotAdmitted
from tidings.model import Filter
from tidings.net import Access, AccessEntry, Server, serve
from tidings.store import StoreError
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
            VERA: AccessEntry("vera", publish=Filter.parse("type = 'order'")),
            MALLORY: AccessEntry("mallory", publish=Filter.parse("type IN ('order', 'quote')")),
            OTHER: AccessEntry("other", administer=True),
            PARIS: AccessEntry("paris", broker=True),
            ROME: AccessEntry("rome", broker=True),
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
@pytest.mark.parametrize(
    "body", [order(0), encode_body({"type": "other"}), b"\xc1"], ids=["taken", "denied", "garbage"]
)
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
        welcome = await vera.hello("vera", token=VERA)
        assert isinstance(welcome, Welcome)
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


def _peer(server: Server, name: str, kind: LinkKind = LinkKind.CLIENT) -> Any:
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
    async with (
        brokers("a", routing=RoutingOptions(advertisements=True)) as servers,
        await Raw.open(servers["a"]) as raw,
    ):
        await raw.hello("raw")
        raw.send(Publish(1, order(1)))
        assert (await raw.expect(Refused)).error == "NotAdvertised"
        raw.send(Advertise("a", Filter.parse("TRUE")))
        await raw.expect(Settled)
        raw.send(Publish(1, order(1)), Publish(2, order(2)), Publish(1, order(1)))
        answers = [await raw.message() for _ in range(3)]
        assert [type(one) for one in answers] == [Refused, PublishAck, Refused]
        assert {one.reference for one in answers if isinstance(one, Refused)} == {"1"}


def test_whoever_is_refused_a_lot_does_not_push_out_the_refusals_of_others() -> None:
    publications = Publications(1, None)
    publications.refuse("vera", 1, Refused("NotAdvertised", "", "1"))
    for number in range(1, MAX_REFUSALS + 1_000):
        publications.refuse("mallory", number, Refused("AccessDenied", "", str(number)))
    assert publications.refusal("vera", 1) is not None
    assert publications.refusal("mallory", 1) is None
    assert publications.refusal("mallory", MAX_REFUSALS + 999) is not None


@running
async def test_what_could_not_be_stored_is_not_acknowledged_when_it_comes_again(tmp_path: Path) -> None:
    async with serve(options("a", data=tmp_path)) as server, await Raw.open(server) as raw:
        await raw.hello("raw")
        store: Any = server.store
        store.keep = lambda envelope, heard: heard([envelope], StoreError("the disk refuses"))
        for _ in range(2):
            raw.send(Publish(1, order(1), Quality.STORED))
            assert "the disk refuses" in (await raw.expect(Refused)).reason


# --- who is called what -------------------------------------------------------------------------------


@running
async def test_a_client_without_a_name_is_given_one_of_its_identity() -> None:
    async with serve(options("a", access=access())) as a, serve(options("b", access=access())) as b:
        async with (
            tidings.connect([url(a), url(b)], token=VERA) as vera,
            tidings.connect(url(a), token=VERA) as other,
        ):
            name = vera.name
            assert re.fullmatch("vera/[0-9a-f]{24}", name)
            assert other.name != name
            heard = await vera.subscribe("n > 0", receive_own=False)
            await until(lambda: _peer(a, name).stream is not None)
            await a.stop()  # it goes on at another broker, and is who it was
            await until(lambda: b.host.peer_of(name, LinkKind.CLIENT) is not None)
            assert vera.name == name
            async with tidings.connect(url(b), token=OTHER) as writer:
                everything = await writer.subscribe("n > 0")
                await vera.publish(type="order", n=1)
                assert (await take(everything, 1))[0]["n"] == 1
                await writer.publish(n=2)
                assert (await take(heard, 1))[0]["n"] == 2


@running
async def test_an_open_broker_gives_any_name_and_takes_any() -> None:
    async with brokers("a") as servers:
        async with tidings.connect(url(servers["a"])) as client, tidings.connect(url(servers["a"]), name="me") as me:
            assert re.fullmatch("client-[0-9a-f]{24}", client.name)
            assert me.name == "me"


@running
async def test_a_cut_off_client_comes_back_under_the_name_that_it_was_given() -> None:
    async with serve(options("a", access=access())) as server, tidings.connect(url(server), token=VERA) as vera:
        name, stream = vera.name, _peer(server, vera.name).stream
        stream.abort()
        await until(lambda: vera.statistics().reconnects == 1 and vera.statistics().connected)
        assert vera.name == name
        assert _peer(server, name).stream is not None
        assert server.host.peer_count == 1


@running
async def test_a_refusal_says_which_names_may_be_used() -> None:
    entries = {"t": AccessEntry("shop", names=("billing", "feed-*"))}
    async with serve(options("a", access=Access(entries))) as server:
        for name in ("shop", "shop/1", "shop/1/2", "billing", "feed-", "feed-x/y"):
            async with tidings.connect(url(server), name=name, token="t") as client:
                assert client.name == name
        for name in ("shops", "sho", "Shop", "billing/1", "xfeed-1", "a\nb"):
            with pytest.raises(NotAdmitted) as caught:
                await tidings.connect(url(server), name=name, token="t").__aenter__()
            assert f"{name!r} does not belong to 'shop'" in str(caught.value)
            assert "'shop', 'shop/*', 'billing', 'feed-*'" in str(caught.value)
            assert caught.value.code == "name"
            assert not caught.value.retry


@running
async def test_a_neighbour_is_called_by_its_identity_or_by_its_names() -> None:
    entries = {"t": AccessEntry("france", broker=True, names=("paris", "lyon-*")), "c": AccessEntry("c")}
    async with serve(options("a", access=Access(entries))) as server:
        for name in ("france", "paris", "lyon-2"):
            async with await Raw.open(server) as raw:
                assert isinstance(await raw.hello(name, PeerRole.BROKER, token="t"), Welcome)
        for name in ("france/1", "rome", ""):
            async with await Raw.open(server) as raw:
                answer = await raw.hello(name, PeerRole.BROKER, token="t")
                assert isinstance(answer, Reject)
                assert answer.code == "name"


# --- refused, and nothing has changed -----------------------------------------------------------------


@running
async def test_a_session_goes_on_only_with_the_rights_that_it_began_with() -> None:
    """Two tokens of one identity need not have the same rights."""
    entries = {"more": AccessEntry("vera"), "less": AccessEntry("vera", subscribe=Filter.parse("FALSE"))}
    async with serve(options("a", access=Access(entries))) as server:
        first = await Raw.open(server)
        welcome = await first.hello("vera", token="more")
        assert isinstance(welcome, Welcome)
        first.send(Subscribe("s", Filter.parse("TRUE")))
        await first.expect(Settled)
        await first.close()
        await until(lambda: _peer(server, "vera").stream is None)
        async with await Raw.open(server) as raw:
            anew = await raw.hello("vera", token="less", session=welcome.session, received=first.received)
            assert isinstance(anew, Welcome)
            assert not anew.resumed
            raw.send(Subscribe("s", Filter.parse("TRUE")))
            assert (await raw.expect(Refused)).error == "AccessDenied"


class Grants(Access):
    """A rule of an operator's own, by which everybody is who it says it is: names are not compared beforehand."""

    open = False

    def identify(self, token: str | None, subject: str | None) -> AccessEntry:
        return AccessEntry(token or "nobody")


@running
async def test_only_its_own_identity_takes_the_place_of_one_that_is_cut_off() -> None:
    async with serve(options("a", access=Grants())) as server:
        phone = await Raw.open(server)
        assert isinstance(await phone.hello("vera/phone", token="vera/phone"), Welcome)
        await phone.close()
        await until(lambda: _peer(server, "vera/phone").stream is None)
        async with await Raw.open(server) as raw:
            answer = await raw.hello("vera/phone", token="vera")  # a name below its own, and of somebody else
            assert isinstance(answer, Reject)
            assert answer.code == "duplicate"
        async with await Raw.open(server) as raw:
            assert isinstance(await raw.hello("vera/phone", token="vera/phone"), Welcome)


@running
async def test_whoever_is_refused_has_ended_nothing() -> None:
    async with serve(options("a", access=access())) as server, await Raw.open(server) as vera:
        welcome = await vera.hello("vera", token=VERA)
        assert isinstance(welcome, Welcome)
        async with await Raw.open(server) as raw:
            answer = await raw.hello("vera", token=VERA, session=welcome.session, serialisers=("json",))
            assert isinstance(answer, Reject)
            assert answer.code == "serialiser"
        vera.send(Subscribe("s", Filter.parse("TRUE")))
        await vera.expect(Settled)  # the old connection is still there


@running
async def test_one_that_is_waited_for_keeps_its_place_at_a_full_broker() -> None:
    async with serve(options("a", limits={"connections": 2})) as server, await Raw.open(server) as other:
        await other.hello("other")
        vera = await Raw.open(server)
        await vera.hello("vera")
        await vera.close()
        await until(lambda: _peer(server, "vera").stream is None)
        async with await Raw.open(server) as again:
            assert isinstance(await again.hello("vera"), Welcome)  # it takes its own place


# --- positions ----------------------------------------------------------------------------------------


@running
async def test_positions_of_an_origin_that_is_gone_are_kept_where_they_were(tmp_path: Path) -> None:
    async with serve(options("a", data=tmp_path)) as a:
        async with tidings.connect(url(a), name="vera") as vera:
            async with serve(options("b", neighbours=(url(a),))) as b:
                await until(lambda: connected([a, b]))
                async with tidings.connect(url(b)) as writer:
                    heard = await vera.subscribe("n > 0", durable="d")
                    await (await writer.publish(n=1))
                    await take(heard, 1)
                    await heard.acknowledge()
    async with serve(options("a", data=tmp_path)) as a:  # it has never heard of b, but for what it has kept
        assert not a.host.broker.recovery.seen.heard_of("b")
        async with tidings.connect(url(a), name="vera") as vera:
            heard = await vera.subscribe("n > 0", durable="d")
            await (await vera.publish(n=2))
            assert (await take(heard, 1))[0]["n"] == 2
            await heard.acknowledge()


@running
async def test_a_client_that_moves_takes_the_positions_of_all_brokers_along(tmp_path: Path) -> None:
    async with (
        serve(options("a", data=tmp_path / "a")) as a,
        serve(options("b", data=tmp_path / "b", neighbours=(url(a),))) as b,
        serve(options("c", neighbours=(url(b),))) as c,
    ):
        await until(lambda: connected([a, b, c]))
        async with tidings.connect([url(a), url(b)], name="vera") as vera, tidings.connect(url(c)) as writer:
            heard = await vera.subscribe("n > 0", durable="d")
            await (await writer.publish(n=1))
            await take(heard, 1)
            await heard.acknowledge()
            await a.stop()
            await until(lambda: b.host.peer_of("vera", LinkKind.CLIENT) is not None)
            await (await writer.publish(n=2))
            await take(heard, 1)
            await heard.acknowledge()
            assert b.durables.count == 1


# --- before and after ---------------------------------------------------------------------------------


@running
async def test_records_of_before_belong_to_whoever_may_use_their_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(options("a", data=tmp_path)) as server:
        for name in ("billing", "lost"):
            async with tidings.connect(url(server), name=name) as client:
                await client.subscribe("n > 0", durable="d")
        async with tidings.connect(url(server)) as writer:
            await (await writer.publish(n=1, quality="stored"))
    entries = {VERA: AccessEntry("vera", names=("billing",)), MALLORY: AccessEntry("mallory")}
    async with serve(options("a", data=tmp_path, access=Access(entries))) as server:
        assert "kept for 'lost', but no [[access]] entry may use that name" in caplog.text
        assert "'billing'" not in caplog.text
        with pytest.raises(NotAdmitted, match="'billing' does not belong to 'mallory'"):
            await tidings.connect(url(server), name="billing", token=MALLORY).__aenter__()
        async with tidings.connect(url(server), name="billing", token=VERA) as vera:
            assert (await take(await vera.subscribe("n > 0", durable="d"), 1))[0]["n"] == 1


# --- what neighbours compare --------------------------------------------------------------------------


@running
@pytest.mark.parametrize(
    ("theirs", "warned"),
    [
        ({"x": AccessEntry("vera", names=("billing",)), "y": AccessEntry("mallory")}, False),
        ({"x": AccessEntry("vera"), "y": AccessEntry("mallory", names=("billing",))}, True),
        (
            {
                "x": AccessEntry("vera", names=("billing",)),
                "y": AccessEntry("mallory"),
                "z": AccessEntry("rome", broker=True),
            },
            False,
        ),
        ({}, True),
    ],
    ids=["alike", "another", "brokers", "open"],
)
async def test_neighbours_warn_if_names_mean_others_there(
    theirs: dict[str, AccessEntry], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ours = {
        "1": AccessEntry("mallory"),
        "2": AccessEntry("vera", names=("billing",)),
        "3": AccessEntry("b", broker=True),
    }
    async with serve(options("a", access=Access(ours))) as a:
        there = options("b", access=Access(theirs), neighbours=(url(a),), neighbour_token="3")
        async with serve(there) as b:
            await until(lambda: connected([a, b]))
            peer = _peer(a, "b", LinkKind.BROKER)
            (before := peer.stream).abort()
            await until(lambda: peer.stream not in (before, None) and b.diallers[0].connected)
    told = [record.getMessage() for record in caplog.records if "assigns names" in record.getMessage()]
    assert len(told) == (2 if warned else 0)  # once at each
    assert {line.split()[1] for line in told} == ({"a", "b"} if warned else set())
    assert all("tidings config names" in line for line in told)


@running
@pytest.mark.parametrize("name", ["vera/~copy", "vera/~group/billing"])
async def test_nobody_is_called_like_a_client_inside_of_a_broker(name: str) -> None:
    async with serve(options("a")) as server, await Raw.open(server) as raw:
        answer = await raw.hello(name)
    assert isinstance(answer, Reject)
    assert answer.reason == f"{name!r} contains '/~', which is for clients inside of brokers; choose another name"
