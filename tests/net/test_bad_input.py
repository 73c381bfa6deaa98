"""What a broker does with peers that are wrong or hostile: a clear word to them, and nothing lost for others."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from net.world import Raw, brokers, options, running, take, until, url, well

import tidings
from tidings.model import EVERYTHING, Filter
from tidings.model import Identity as Stamp
from tidings.net import Access, AccessEntry, StartError, serve
from tidings.net._host import Host
from tidings.net._unreadable import MAX_UNREADABLE
from tidings.wire import (
    JSON,
    Advertise,
    Envelope,
    Hello,
    LinkState,
    Mark,
    Notify,
    Part,
    PeerRole,
    Publish,
    Refused,
    Reject,
    Settled,
    Subscribe,
    Welcome,
    ack,
    decode,
    encode_words,
    part,
)


@running
async def test_an_unknown_version_is_refused_with_the_known_one() -> None:
    async with brokers("b") as servers:
        async with await Raw.open(servers["b"]) as raw:
            answer = await raw.hello(versions=(7, 8))
            assert isinstance(answer, Reject)
            assert answer.code == "version"
            assert "version 1" in answer.reason
            assert "7, 8" in answer.reason
            with pytest.raises(EOFError):
                await raw.part()
        await well(servers["b"])


@running
async def test_an_unknown_serialiser_is_refused_with_the_known_ones() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        answer = await raw.hello(serialisers=("xml",))
        assert isinstance(answer, Reject)
        assert answer.code == "serialiser"
        assert "json, msgpack" in answer.reason


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "bytes"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), "speaks TLS"),
        (b"\xff\xff\xff\xff\x00", "4,294,967,295"),
        (b"\x00\x00\x00\x00\x00", "0 bytes"),
        (b"\x00\x00\x00\x05\x63abcd", "kind 99"),
        (part(Part.DATA, b"x"), "begins with HELLO"),
        (part(Part.PING), "begins with HELLO"),
        (part(Part.HELLO, b"\x93\x01\x02\x03"), "not a hello"),
        (part(Part.HELLO, b""), "not a hello"),
        (part(Part.HELLO, b"\xc1" * 1_000), "not a hello"),
        (b"\x00\x02\x00\x00\x04", "at most 65,537"),
    ],
    ids=["http", "tls", "huge", "empty", "kind", "data", "ping", "array", "nothing", "garbage", "large hello"],
)
@running
async def test_what_does_not_begin_with_a_hello_is_told_so(data: bytes, word: str) -> None:
    async with brokers("b") as servers:
        async with await Raw.open(servers["b"]) as raw:
            raw.write(data)
            rejection = await raw.rejection()
            assert rejection.code == "protocol"
            assert word in rejection.reason
            with pytest.raises(EOFError):
                await raw.part()
        await well(servers["b"])
        await until(lambda: not servers["b"].host.peers)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (part(Part.DATA, b"\xc1") * (MAX_UNREADABLE + 1), "more than 100 frames that cannot be read"),
        (part(Part.HELLO, b""), "in the middle of a session"),
        (part(Part.ACK, b"1"), "8 bytes"),
        (ack(5_000), "5000 is acknowledged"),
        (b"\x01\x00\x00\x00\x00", "16,777,216"),
    ],
    ids=["garbage", "hello", "ack", "ack ahead", "oversized"],
)
@running
async def test_a_session_with_bad_input_ends_and_its_state_goes(data: bytes, word: str) -> None:
    async with brokers("b") as servers:
        async with await Raw.open(servers["b"]) as raw:
            assert isinstance(await raw.hello(), Welcome)
            raw.write(data)
            assert word in (await raw.rejection()).reason
        await until(lambda: not servers["b"].host.peers)
        assert not servers["b"].host.broker.clients
        await well(servers["b"])


@pytest.mark.parametrize(
    ("request_", "reference"),
    [
        (["Subscribe", "s1", None], "s1"),
        (["Subscribe", "s1", 5], "s1"),
        (["Subscribe", "s1", {"type": "quote"}], "s1"),
        (["Subscribe", "s1", "TRUE", "", "no"], "s1"),
        (["Advertise", "a1", 12], "a1"),
        (["Recall", "q1", 3], "q1"),
        (["Publish", 7, "no bytes"], "7"),
        (["Subscribe", 5, "TRUE"], "5"),
        (["Subscribe", "s" * 300, None], ""),
        (["Unknown", "u1"], "u1"),
        (["Subscribe"], ""),
        ("Subscribe", ""),
        ({}, ""),
    ],
    ids=str,
)
@pytest.mark.parametrize("serialiser", ["msgpack", "json"])
@running
async def test_a_request_that_cannot_be_read_is_refused_by_its_id_and_the_session_goes_on(
    request_: object, reference: str, serialiser: str
) -> None:
    module, to_words = {"msgpack": (msgspec.msgpack, decode), "json": (msgspec.json, JSON.decode)}[serialiser]
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello(serialisers=(serialiser,))
        before = servers["b"].host.broker.statistics.refused
        raw.write(part(Part.DATA, module.encode([request_, []])))
        raw.write(part(Part.DATA, b"\xc1"))
        raw.write(part(Part.DATA, module.encode([["Subscribe", "s2", "n = 1"], []])))
        messages = []
        while not (messages and isinstance(messages[-1], Settled)):
            kind, payload = await raw.part()
            if kind is Part.DATA:
                messages.append(to_words(payload).message)
        named, unnamed = (one for one in messages if isinstance(one, Refused))
        assert (named.error, named.reference, unnamed.reference) == ("WireError", reference, "")
        assert "cannot read this request" in named.reason
        assert servers["b"].host.broker.statistics.refused == before + 2
        assert raw.received == 3  # and what was refused counts as arrived: the window moves on
        await until(lambda: servers["b"].host.peers[0].session.received == 3)


@running
async def test_a_neighbour_whose_frame_cannot_be_read_has_to_begin_anew() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        assert isinstance(await raw.hello("n", PeerRole.BROKER), Welcome)
        raw.write(part(Part.DATA, b"\xc1"))
        assert "not a frame" in (await raw.rejection()).reason
        await until(lambda: not servers["b"].host.peers)


@running
async def test_frames_that_cannot_be_read_now_and_then_do_not_add_up(monkeypatch) -> None:
    monkeypatch.setattr("tidings.net._unreadable.UNREADABLE_SECONDS", 0.0)
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello()
        for _ in range(MAX_UNREADABLE + 5):
            raw.write(part(Part.DATA, b"\xc1"))
            await raw.expect(Refused)
        raw.send(Subscribe("s1", EVERYTHING))
        await raw.expect(Settled)


@running
async def test_a_second_client_of_the_same_name_is_refused_and_the_first_goes_on() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as alice:
        subscription = await alice.subscribe("EXISTS(n)")
        with pytest.raises(tidings.ConnectionFailed, match="'alice' is already connected"):
            async with tidings.connect(url(servers["b"]), name="alice"):
                pass
        await alice.publish(n=1)
        assert len(await take(subscription, 1)) == 1


@running
async def test_who_says_no_hello_is_closed_after_a_while() -> None:
    async with brokers("b", limits={"handshake": 0.2}) as servers, await Raw.open(servers["b"]) as raw:
        raw.write(b"\x00\x00")
        assert (await raw.rejection()).code == "timeout"
        await until(lambda: not servers["b"].host.connections)


@running
async def test_more_connections_than_allowed_are_refused_and_may_come_later() -> None:
    async with brokers("b", limits={"connections": 2}) as servers, tidings.connect(url(servers["b"])) as one:
        subscription = await one.subscribe("EXISTS(n)")
        async with tidings.connect(url(servers["b"])):
            with pytest.raises(tidings.ConnectionFailed, match="no room for more connections"):
                async with tidings.connect(url(servers["b"])):
                    pass
        await until(lambda: len(servers["b"].host.connections) == 1)
        async with tidings.connect(url(servers["b"])) as two:
            await two.publish(n=1)
        assert len(await take(subscription, 1)) == 1


@running
async def test_a_port_in_use_is_a_clear_error_and_leaves_nothing_behind(tmp_path) -> None:
    async with serve(options()) as server:
        taken = options("c", data=tmp_path)
        taken = type(taken)(name="c", port=server.port, data=tmp_path)
        with pytest.raises(StartError, match="choose another port"):
            async with serve(taken):
                pass
        async with serve(options("c", data=tmp_path)):  # the store is free again
            pass
        await well(server)


@running
async def test_wrong_credentials_are_answered_slowly_once_for_a_connection(monkeypatch) -> None:
    monkeypatch.setattr("tidings.net._connection.DENIAL_DELAY", 0.3)
    access = Access(tokens={"right": AccessEntry("somebody")})
    async with brokers("b", access=access) as servers:
        loop = asyncio.get_running_loop()
        async with await Raw.open(servers["b"]) as raw:
            begun = loop.time()
            for guess in ("wrong", "right"):
                raw.write(part(Part.HELLO, encode_words(Hello((1,), PeerRole.CLIENT, "x", token=guess))))
            kind, _ = await raw.part()
            assert kind is Part.REJECT  # the second guess of the same connection is not heard
            assert loop.time() - begun >= 0.25
        with pytest.raises(tidings.ConnectionFailed, match="no credentials"):
            async with tidings.connect(url(servers["b"])):
                pass
        async with tidings.connect(url(servers["b"]), token="right") as client:
            await (await client.publish(n=1))


@running
async def test_a_client_whose_token_was_taken_away_hears_it_instead_of_trying_for_ever(monkeypatch) -> None:
    monkeypatch.setattr("tidings.net._connection.DENIAL_DELAY", 0.01)
    tokens = {"right": AccessEntry("somebody"), "other": AccessEntry("other")}
    async with brokers("b", access=Access(tokens=tokens)) as servers:
        async with tidings.connect(url(servers["b"]), token="right") as client:
            subscription = await client.subscribe("EXISTS(n)")
            del tokens["right"]
            for connection in list(servers["b"].host.connections):
                connection.abort()
            with pytest.raises(tidings.ConnectionFailed, match="this token is not known"):
                await anext(subscription)
            with pytest.raises(tidings.ConnectionFailed, match="this token is not known"):
                await client.publish(n=1)


@running
async def test_a_clock_that_jumps_changes_nothing_but_the_times(monkeypatch) -> None:
    now = {"at": 1_000_000_000_000_000}
    monkeypatch.setattr(Host, "now", lambda self: now["at"])
    async with (
        brokers("ab", ["ab"]) as servers,
        tidings.connect(url(servers["a"])) as writer,
        tidings.connect(url(servers["b"])) as reader,
    ):
        subscription = await reader.subscribe("EXISTS(n)")
        for n, jump in enumerate((0, -900_000_000_000_000, 5, 10**15, -1)):
            now["at"] += jump
            await writer.publish(n=n)
        assert [n["n"] for n in await take(subscription, 5)] == [0, 1, 2, 3, 4]


@running
async def test_a_broker_may_not_be_its_own_neighbour_nor_have_the_name_of_another() -> None:
    async with brokers("ab", ["ab"]) as servers, tidings.connect(url(servers["a"])) as client:
        subscription = await client.subscribe("EXISTS(n)")
        async with serve(options("a", neighbours=(url(servers["a"]),))) as same:
            await until(lambda: same.diallers[0].problem is not None)
            assert "own neighbour" in str(same.diallers[0].problem)
        await client.publish(n=1)
        assert len(await take(subscription, 1)) == 1


@running
async def test_pings_without_end_from_a_peer_that_reads_nothing_take_no_memory() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        assert isinstance(await raw.hello(), Welcome)
        for _ in range(40):
            raw.write(part(Part.PING) * 52_000)
            await asyncio.sleep(0)
        (connection,) = servers["b"].host.connections
        await until(lambda: connection.clogged or connection.transport is None, 20)
        await well(servers["b"])
        assert connection.transport is None or connection.transport.get_write_buffer_size() < 3_000_000


@pytest.mark.parametrize(
    ("filter", "error", "word"),
    [
        ("price >", "FilterSyntaxError", "column"),
        ("price > 1 OR " * 3_000 + "price > 1", "FilterTooLarge", "16,384"),
        (["nobody", "knows"], "UnsupportedFilter", "not registered here"),
    ],
)
@running
async def test_a_filter_that_cannot_be_read_is_refused_and_the_session_goes_on(filter, error: str, word: str) -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello()
        raw.write(part(Part.DATA, msgspec.msgpack.encode([["Subscribe", "s1", filter]])))
        raw.write(part(Part.DATA, msgspec.msgpack.encode([["Advertise", "a1", filter]])))
        for reference in ("s1", "a1"):
            refused = await raw.expect(Refused)
            assert (refused.reference, refused.error) == (reference, error)
            assert word in refused.reason
        raw.write(part(Part.DATA, msgspec.msgpack.encode([["Subscribe", "s2", "price > 1"]])))
        assert (await raw.expect(Settled)).id == "s2"


@pytest.mark.parametrize(
    "message",
    [
        Publish(0, b"\x80"),
        Publish(-1, b"\x80"),
        Publish(2**63, b"\x80"),
        Publish(1, b"\x80", ttl=-1),
        Publish(1, b"\xc1"),
        Publish(1, b"\x81\xa1x\xca\x7f\xc0\x00\x00"),
        Publish(1, b"\x81\xa1x\x81\xa1y\xc1"),
        Subscribe("s" * 300, EVERYTHING),
        Subscribe("s", Filter.parse("place WITHIN myloc")),
        Advertise("s", Filter.parse("x = 1 OR NOT place WITHIN myloc(2)")),
        Subscribe("s", EVERYTHING, meta={"k": "v" * 20_000}),
        Subscribe("s", EVERYTHING, after={"o" * 300: (1, 1)}),
        Subscribe("s", EVERYTHING, after={"o": (-1, 1)}),
        Subscribe("s", EVERYTHING, after={"o": (1, 2**63)}),
        Subscribe("s", EVERYTHING, after={f"o{n}": (1, 1) for n in range(10_001)}),
        Mark("b", 1, 1),
        Notify(Envelope(Stamp("b", 1, 1, "x", 1, 1), (), b"")),
        LinkState("b", 9, 9, {}),
    ],
    ids=lambda message: type(message).__name__,
)
@running
async def test_what_a_client_may_not_ask_is_refused_and_its_session_goes_on(message) -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello()
        raw.send(message)
        await raw.expect(Refused)
        raw.send(Subscribe("s2", EVERYTHING))
        assert (await raw.expect(Settled)).id == "s2"


@running
async def test_positions_from_the_future_harm_nobody() -> None:
    async with brokers("ab", ["ab"]) as servers, await Raw.open(servers["a"]) as raw:
        await raw.hello()
        far = 2**62
        raw.send(Subscribe("s1", EVERYTHING, after={"a": (far, far), "b": (far, far), "nobody": (1, 1)}))
        await raw.expect(Settled)
        links = [peer.link for peer in servers["a"].host.peers if peer.link.is_broker]
        await well(servers["b"])
        await well(servers["a"])
        assert [peer.link for peer in servers["a"].host.peers if peer.link.is_broker] == links
