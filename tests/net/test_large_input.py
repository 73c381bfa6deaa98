"""Large frames of clients, and many that cannot be read: they cost the broker little memory, time and log."""

from __future__ import annotations

import logging
import struct
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from net.world import Raw, brokers, running, until, well

from tidings.broker import Link, LinkKind
from tidings.model import EVERYTHING
from tidings.net import Access, AccessEntry
from tidings.net._unreadable import MAX_UNREADABLE, Unreadable, reference_in
from tidings.wire import (
    JSON,
    MAX_BODY,
    MAX_POSITIONS,
    MSGPACK,
    Frame,
    Marks,
    Part,
    PeerRole,
    Publish,
    Refused,
    Reject,
    Serialiser,
    Settled,
    Subscribe,
    Welcome,
    WireError,
    decode_words,
    encode_words,
    part,
)
from tidings.wire._sketch import _SKETCHES, LARGE

MANY = 500_000
LISTS = b"\xdd" + struct.pack(">I", MANY) + b"\x90" * MANY
POSITIONS = {str(n): (1, 1) for n in range(MAX_POSITIONS + 1)}
A_MEGABYTE = 1_000_000
GARBAGE = part(Part.DATA, b"\xc1")


def most_taken(action: Callable[[], object]) -> int:
    """The most bytes of memory that an action takes at a time."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("payload", "serialiser", "reference"),
    [
        (b"\x91" + LISTS, MSGPACK, ""),
        (b"\x92\x92\xa7Publish\x07" + LISTS, MSGPACK, "7"),
        (b"\x91\x93\xa9Subscribe\xa2s1" + LISTS, MSGPACK, "s1"),
        (b'[["Subscribe","s1",[' + b"[]," * MANY + b"[]]]]", JSON, "s1"),
    ],
    ids=["no request", "publication", "subscription", "json"],
)
def test_the_id_of_a_large_request_is_found_without_decoding_the_rest(
    payload: bytes, serialiser: Serialiser, reference: str
) -> None:
    assert reference_in(payload, serialiser) == reference
    assert most_taken(lambda: reference_in(payload, serialiser)) < A_MEGABYTE


@pytest.mark.parametrize(
    "payload",
    [
        b"\x91\x93\xa9Subscribe\xa2s1" + LISTS,
        b"\x91\x93\xa9Subscribe\xa2s1\x92\xa5model" + LISTS,
        b"\x91\x93\xa9Advertise\xa2a1" + LISTS,
        b"\x91\x93\xa6Browse\xa2b1" + LISTS,
        b"\x91\x95\xa4Read\xa2r1\x92\x00\x00\x92\x00\x00" + LISTS,
        b"\x91\x96\xa5Fetch\xa1o\xa1r\x01\x80" + LISTS,
        msgspec.msgpack.encode([["TreeMarks", {str(n): (1, 1) for n in range(50_000)}]]),
        msgspec.msgpack.encode([["Subscribe", "s1", "TRUE", "", True, {str(n): "" for n in range(100_000)}]]),
        msgspec.msgpack.encode([["Subscribe", "s1", "TRUE", "", True, {}, POSITIONS]]),
        msgspec.msgpack.encode([["Keep", "k1", "name", "TRUE", POSITIONS]]),
        msgspec.msgpack.encode([["Publish", 1, b""], [0, None, {str(n): b"" for n in range(100_000)}]]),
    ],
    ids=["filter", "model", "advertise", "browse", "read", "fetch", "marks", "meta", "after", "keep", "attachments"],
)
def test_a_large_frame_that_a_client_may_not_send_is_refused_before_it_is_decoded(payload: bytes) -> None:
    def refuse() -> None:
        with pytest.raises(WireError):
            MSGPACK.decode_sparingly(payload)

    refuse()
    assert most_taken(refuse) < A_MEGABYTE


@running
async def test_a_large_frame_may_hold_whatever_a_broker_takes_from_clients() -> None:
    async with brokers("b") as servers:
        handled = servers["b"].host.broker._client_handlers
        assert {kind.__name__ for kind in handled} == set(_SKETCHES)
    after = {f"{n}".rjust(20): (1, 1) for n in range(MAX_POSITIONS)}
    for serialiser in (MSGPACK, JSON):
        for message in (Subscribe("s1", EVERYTHING, after=after), Publish(1, bytes(MAX_BODY))):
            data = serialiser.encode(Frame(message))
            assert len(data) > LARGE
            assert serialiser.decode_sparingly(data).message == message


@running
async def test_others_are_served_between_frames_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net._connection.SLICE", 0.0)
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello()
        (peer,) = servers["b"].host.peers
        raw.write(GARBAGE * 90)
        await raw.expect(Refused)
        assert peer.session.received < 90
        for _ in range(89):
            await raw.expect(Refused)
        await until(lambda: peer.session.received == 90)


@running
async def test_connecting_again_does_not_forgive_frames_that_cannot_be_read() -> None:
    access = Access(tokens={"token-of-mallory": AccessEntry("mallory"), "token-of-alice": AccessEntry("alice")})
    async with brokers("b", access=access) as servers:
        async with await Raw.open(servers["b"]) as raw:
            assert isinstance(await raw.hello("mallory/1", token="token-of-mallory"), Welcome)
            raw.write(GARBAGE * MAX_UNREADABLE)
            for _ in range(MAX_UNREADABLE):
                await raw.expect(Refused)
        async with await Raw.open(servers["b"]) as raw:
            assert isinstance(await raw.hello("mallory/2", token="token-of-mallory"), Welcome)
            raw.write(GARBAGE)
            assert "more than 100 frames that cannot be read" in (await raw.rejection()).reason
        async with await Raw.open(servers["b"]) as raw:
            await raw.hello("alice", token="token-of-alice")
            raw.write(GARBAGE)
            await raw.expect(Refused)


def test_the_identities_whose_unreadable_frames_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net._unreadable.MAX_REMEMBERED", 3)
    unreadable = Unreadable()

    def refuse(name: str, now: float) -> None:
        unreadable.refuse(Link(name, LinkKind.CLIENT), b"\xc1", MSGPACK, WireError("no"), now)

    for n in range(10):
        refuse(f"c{n}", float(n))
    assert list(unreadable._counts) == ["c7", "c8", "c9"]
    refuse("c7", 100.0)  # a minute later, the others are forgotten
    assert list(unreadable._counts) == ["c7"]


@running
async def test_what_was_sent_is_quoted_briefly_in_the_log_and_in_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tidings")
    long = "A" * 60_000
    async with brokers("b") as servers:
        async with await Raw.open(servers["b"]) as raw:
            await raw.hello()
            for request in (["X" * 1_000_000, "u1"], ["Subscribe", "u2", ["M" * 1_000_000, "x"]]):
                raw.write(part(Part.DATA, msgspec.msgpack.encode([request])))
                assert len((await raw.expect(Refused)).reason) < 400
            raw.write(GARBAGE * (MAX_UNREADABLE - 1) + part(Part.DATA, msgspec.msgpack.encode([["X" * 1_000_000, ""]])))
            assert len((await raw.rejection()).reason) < 400
        for hello in ({"versions": [1], "role": long, "name": "x"}, {"versions": [7] * 20_000, "role": "client"}):
            async with await Raw.open(servers["b"]) as raw:
                raw.write(part(Part.HELLO, msgspec.msgpack.encode({"name": "x", **hello})))
                assert len((await raw.rejection()).reason) < 400
        async with await Raw.open(servers["b"]) as raw:
            answer = await raw.hello("n", PeerRole.BROKER, routing=long)
            assert isinstance(answer, Reject)
            assert answer.code == "routing"
    assert "cannot be read" in caplog.text
    assert "turned away broker n" in caplog.text
    assert max(len(record.getMessage()) for record in caplog.records) < 700


def test_no_rejection_is_longer_than_its_reader_allows() -> None:
    payload = encode_words(Reject("protocol", "x" * 4_000_000, retry=True))
    words = decode_words(payload, Reject)
    assert (words.code, len(words.reason), words.retry) == ("protocol", 1_000, True)


@running
async def test_a_peer_whose_frames_cannot_be_encoded_is_disconnected_and_others_get_theirs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as one, await Raw.open(servers["b"]) as two:
        await one.hello("one")
        await two.hello("two")
        broker = servers["b"].host.broker
        broker.send(broker.client("one"), Marks({"b": (1, 10**30)}))
        broker.send(broker.client("two"), Marks({"b": (1, 1)}))
        assert (await two.expect(Marks)).marks == {"b": (1, 1)}
        rejection = await one.rejection()
        assert (rejection.code, rejection.retry) == ("encoding", True)
        await until(lambda: [client.name for client in broker.clients] == ["two"])
        broker.send(broker.client("two"), Marks({"b": (1, 2)}))
        assert (await two.expect(Marks)).marks == {"b": (1, 2)}
        two.send(Subscribe("s1", EVERYTHING))
        await two.expect(Settled)
        await well(servers["b"])
    assert "cannot encode what is sent to client one" in caplog.text
    assert "to client two" not in caplog.text


@running
async def test_a_link_ends_even_if_what_it_was_to_be_sent_cannot_be_encoded() -> None:
    async with brokers("b") as servers, await Raw.open(servers["b"]) as raw:
        await raw.hello("one")
        host = servers["b"].host
        (peer,) = host.peers
        host.broker.send(peer.link, Marks({"b": (1, 10**30)}))
        host.end(peer, "it is over")
        assert not host.peers
        assert not host.broker.clients
        await raw.gone()
