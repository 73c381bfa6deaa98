"""Deliveries as the engine takes them: what it takes Python would have read as the same, and nothing else is taken."""

from __future__ import annotations

import copy
import os
import pickle
import random
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matching_world import random_notification
from soaking import SOAK_SECONDS, soak_seeds

from tidings import _native
from tidings.model import Identity, Location, Notification, Route
from tidings.wire import (
    MAX_PART,
    Deliver,
    Deliveries,
    Envelope,
    Frame,
    Hop,
    Parser,
    Part,
    PublishAck,
    Received,
    WireError,
    decode,
    decode_body,
    encode,
    encode_body,
    part,
    take_deliveries,
    takes_deliveries,
)

compiled = pytest.mark.skipif(_native.engine is None, reason=f"pure Python: {_native.WHY_PURE}")
pytestmark = compiled

BODY = encode_body({"symbol": "SAP", "price": 182.4, "volume": 300, "halted": False, "raw": b"\0", "below": -7})
NO_HOP = Hop()


def delivery(
    seq: int,
    body: bytes = BODY,
    *,
    origin: str = "b1",
    epoch: int = 1,
    publisher: str = "p",
    number: int | None = None,
    routes: tuple[Route, ...] = (Route(),),
    ids: tuple[str, ...] = ("s1",),
    hop: Hop = NO_HOP,
    ttl: int | None = None,
) -> bytes:
    identity = Identity(
        origin, epoch, seq, publisher, seq if number is None else number, 1_800_000_000_000_000, ttl=ttl
    )
    return part(Part.DATA, encode(Frame(Deliver(Envelope(identity, routes, body), ids), hop)))


def taken(data: bytes, at: int = 0, most: int = 500) -> Deliveries:
    found = take_deliveries(data, at, most)
    assert found is not None
    return found


def received(content: Mapping[str, object]) -> Notification:
    (one,) = taken(delivery(1, encode_body(content))).notifications
    assert type(one) is Received
    return one


# --- notifications --------------------------------------------------------------------------------------

SCALARS = (
    st.booleans()
    | st.sampled_from([0, -1, 127, 128, -32, -33, 2**53 + 1, 2**63 - 1, -(2**63), 2**31, -(2**31) - 1, 65_535, 65_536])
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([0.0, -0.0, 5e-324, 1.5, -1e308])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
    | st.sampled_from(["", "ö" * 20, "x" * 32, "x" * 256, "\U0001f600"])
    | st.binary(max_size=40)
    | st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)])
    | st.sampled_from([Location("/"), Location("/berlin/mitte")])
)
NAMES = st.text("abcö.", min_size=1, max_size=6).filter(
    lambda name: "." not in (name[0], name[-1]) and ".." not in name
)
CONTENTS = st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=4).map(tuple), max_size=8)


def same(one: object, other: object) -> bool:
    return one == other and type(one) is type(other) and str(one) == str(other)  # to Python, -0.0 is 0.0


@given(CONTENTS, st.data())
def test_an_attribute_is_what_it_would_be_in_a_decoded_body(content: dict[str, Any], data: st.DataObject) -> None:
    whole, one = decode_body(encode_body(content)), received(content)
    for name in data.draw(st.lists(st.sampled_from([*content, "absent"]), max_size=8)):
        assert same(one.get(name, "none"), whole.get(name, "none"))
    assert one.attributes == whole.attributes
    assert all(same(one[name], whole[name]) for name in content)
    assert list(one) == list(whole)


def test_it_is_a_notification_in_every_way() -> None:
    content = {"symbol": "SAP", "price": 182.4, "tags": ("a", "b")}
    whole = Notification(content)
    uses: list[Any] = [
        lambda one: one == whole,
        lambda one: whole == one,
        lambda one: hash(one) == hash(whole),
        lambda one: repr(one) == repr(whole),
        lambda one: len(one) == 3,
        lambda one: "price" in one and "venue" not in one,
        lambda one: dict(one) == content,
        lambda one: pickle.loads(pickle.dumps(one)) == whole,
        lambda one: copy.deepcopy(one) == copy.copy(one) == whole,
        lambda one: one.from_past is None,
        lambda one: isinstance(one, Mapping) and isinstance(one, Notification),
        lambda one: one["tags"] == ("a", "b"),
        lambda one: not hasattr(one, "__dict__"),
        lambda one: type(one).trusted({"a": 1})["a"] == 1,
    ]
    for use in uses:
        assert use(received(content)), uses.index(use)


@pytest.mark.parametrize("looks", range(6))
def test_a_missing_attribute_is_named(looks: int) -> None:
    one = received({"a": 1})
    for _ in range(looks):
        assert one["a"] == 1
    for name in ("absent", "\ud800", 7, ("a",)):
        with pytest.raises(KeyError) as caught:
            one[name]  # type: ignore[index]
        assert caught.value.args == (name,)
    with pytest.raises(TypeError):
        one[[]]  # type: ignore[index]


def test_what_was_asked_for_often_is_decoded_once() -> None:
    one = received({"name": "x" * 40})
    for _ in range(4):
        one["name"]
    assert one["name"] is one["name"]
    assert one.attributes is one.attributes


def test_nobody_makes_one_by_hand() -> None:
    with pytest.raises(AttributeError):
        Received.__new__(Received)["a"]


# --- runs -----------------------------------------------------------------------------------------------


def test_a_run_says_what_its_parts_have_said() -> None:
    data = b"".join(delivery(seq, encode_body({"n": seq}), number=10 * seq) for seq in (3, 4, 9))
    run = taken(b"rest" + data, 4)
    assert run[0] == 4 + len(data)
    assert (run.origin, run.epoch, run.first, run.last, run.publisher) == ("b1", 1, 3, 9, "p")
    assert run.numbers == [30, 40, 90]
    assert [dict(one) for one in run.notifications] == [{"n": 3}, {"n": 4}, {"n": 9}]
    assert run.shape == (Route(), ("s1",))
    assert taken(data, 0, 2).last == 4


ENDS: dict[str, bytes] = {
    "another origin": delivery(2, origin="b2"),
    "a longer origin": delivery(2, origin="b11"),
    "another epoch": delivery(2, epoch=2),
    "the same number": delivery(1, number=2),
    "a smaller number": delivery(0, number=2),
    "the same number of its publisher": delivery(2, number=1),
    "a smaller number of its publisher": delivery(2, number=0),
    "another publisher": delivery(2, publisher="q"),
    "a longer publisher": delivery(2, publisher="pp"),
    "another route": delivery(2, routes=(Route(tags=("x",)),)),
    "more routes": delivery(2, routes=(Route(), Route())),
    "other subscriptions": delivery(2, ids=("s1", "s2")),
    "another hop": delivery(2, hop=Hop(7)),
    "a doubled name": delivery(2, b"\x82\xa1a\x01\xa1a\x02"),
    "no notification": delivery(2, b"\x93"),
    "another message": part(Part.DATA, encode(Frame(PublishAck(1, "b1", 1, 1)))),
    "another kind of part": part(Part.PING),
    "half a part": delivery(2)[:-1],
    "no part": b"\0\0",
}


@pytest.mark.parametrize("what", ENDS)
def test_a_run_ends_before(what: str) -> None:
    first = delivery(1)
    run = taken(first + ENDS[what])
    assert (run.upto, run.numbers) == (len(first), [1])


def test_names_of_every_size_are_read() -> None:
    for size in (1, 31, 32, 255):
        name = "n" * size
        data = b"".join(delivery(seq, origin=name, publisher="p" + name[1:], ttl=seq % 2 or None) for seq in (1, 2, 3))
        run = taken(data)
        assert (run.origin, run.publisher, len(run.numbers)) == (name, "p" + name[1:], 3)
    assert take_deliveries(delivery(1, origin="n" * 256), 0) is None  # rare enough to be left to Python


def test_bytes_of_which_a_part_cannot_be_are_left_alone() -> None:
    good = delivery(1)
    assert takes_deliveries(good, MAX_PART)
    assert takes_deliveries(good + good[:7], MAX_PART)
    for bad in (good + b"\0\0\0\0\0", good + b"\0\0\0\1\x09", good + b"\xff\0\0\0\0"):
        assert not takes_deliveries(bad, MAX_PART)
        with pytest.raises(WireError):
            Parser().feed(bad)


def test_a_shape_that_cannot_be_read_is_none() -> None:
    good = delivery(1)
    for bad in (good.replace(b"\xa2s1", b"\xa2s\xff"), good.replace(b"\x91\xa2s1", b"\x91\xc3\xc0\xc0")):
        run = take_deliveries(bad, 0)
        assert run is None or run.shape is None
    run = take_deliveries(delivery(1, routes=()), 0)
    assert run is None or run.shape is None


def test_one_class_of_notifications_is_enough() -> None:
    assert _native.engine is not None
    with pytest.raises(RuntimeError, match="another class"):
        _native.engine.Receiver(Notification, decode_body)
    with pytest.raises(TypeError, match="called"):
        _native.engine.Receiver(Received, 7)


def messages(data: bytes) -> Iterator[Deliver]:
    """What Python reads: all parts up to the first that is no delivery."""
    for kind, payload in Parser().feed(data):
        message = decode(payload).message if kind == Part.DATA else None
        if not isinstance(message, Deliver):
            return
        yield message


def check_taken(rng: random.Random) -> int:
    """Bend some deliveries, and compare what is taken with what Python reads; return how many were taken."""
    shapes = [(Route(),), (Route("s", path=("s", "t"), tags=("in:a",)),), (Route(), Route("x"))]
    data = bytearray()
    for seq in range(rng.randint(1, 6)):
        body = encode_body(random_notification(rng, lists=0.3))
        routes, ids = (
            shapes[0 if rng.random() < 0.9 else rng.randrange(3)],
            ("s1",) if rng.random() < 0.9 else ("s1", "s2"),
        )
        data += delivery(seq + rng.choice([0, 120, 2**32]), body, routes=routes, ids=ids, ttl=rng.choice([None, 7]))
    for _ in range(rng.choice([0, 1, 1, 3])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    whole = bytes(data)
    run = take_deliveries(whole, 0)
    if run is None or run.shape is None:
        return 0
    read = list(messages(whole[: run.upto]))
    assert len(read) == len(run.numbers) == len(run.notifications)
    identities = [one.envelope.identity for one in read]
    assert run.numbers == [one.publisher_seq for one in identities]
    assert {(one.origin, one.epoch, one.publisher) for one in identities} == {(run.origin, run.epoch, run.publisher)}
    assert (run.first, run.last) == (identities[0].seq, identities[-1].seq)
    assert identities == sorted(identities, key=lambda one: one.seq)
    assert len({one.subscriptions for one in read}) == 1
    assert run.shape == (read[0].envelope.routes[0], read[0].subscriptions)
    for message, notification in zip(read, run.notifications, strict=True):
        expected = decode_body(message.envelope.body)
        for name in rng.sample(sorted(expected), min(2, len(expected))):
            assert same(notification[name], expected[name])
        assert notification == expected
    return len(read)


def test_what_is_taken_python_would_have_read() -> None:
    rng = random.Random(7)
    assert sum(check_taken(rng) for _ in range(400)) > 300


@pytest.mark.soak
def test_what_is_taken_python_would_have_read_for_long() -> None:
    for seed in soak_seeds(SOAK_SECONDS / 8):
        check_taken(random.Random(seed))


def test_a_message_that_only_looks_like_one_is_left_to_python() -> None:
    good = encode(Frame(Deliver(Envelope(Identity("b1", 1, 1, "p", 1, 1), (Route(),), BODY), ("s1",))))
    for bad in (good + b"\0", good[:-1], good.replace(b"Deliver", b"Deliveq")):
        run = take_deliveries(part(Part.DATA, bad), 0)
        if run is not None:
            assert run.shape is None
            with pytest.raises((msgspec.MsgspecError, WireError, ValueError)):
                decode(bad)


# --- memory ---------------------------------------------------------------------------------------------


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grown(rounds: int) -> int:
    """How much memory stays when so many times 100 notifications have come and gone."""
    data = b"".join(delivery(seq, publisher=f"p{seq % 7}") for seq in range(1, 101))
    before = 0
    for round in range(rounds):
        at = 0
        while at < len(data):
            run = taken(data, at)
            at = run.upto
            for one in run.notifications:
                assert one["volume"] == 300
                if one["price"] and round % 3 == 0:
                    assert len(one.attributes) == 6
        if round == rounds // 10:
            before = resident()
    return resident() - before


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_what_was_received_leaves_no_memory_behind() -> None:
    assert grown(100) < 1_000_000  # each takes about 250 bytes


@pytest.mark.soak
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a_million_received_leave_no_memory_behind() -> None:
    assert grown(10_000) < 2_000_000
