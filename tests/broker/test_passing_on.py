"""Notifications of neighbours that are passed on as bytes: the same as by the lane, and nothing that Python refuses."""

from __future__ import annotations

import random

import pytest
from broker.test_lane import World

from tidings import _native
from tidings.broker._links import Link, LinkKind
from tidings.broker.forwarding._feeding import Feeding
from tidings.model import ROOT_ROUTE, Identity, Notification, Route, WireError
from tidings.wire import Deliver, Envelope, Frame, Hop, Notify, Part, Quality, decode, encode, encode_body, part

pytestmark = pytest.mark.skipif(_native.engine is None, reason=f"there is no compiled engine: {_native.WHY_PURE}")
NEIGHBOUR = Link("d", LinkKind.BROKER)
HOP = Hop(7)


def brought(n: int, origin: str = "o", epoch: int = 1, route: Route = ROOT_ROUTE, hop: Hop = HOP) -> bytes:
    identity = Identity(origin, epoch, n, "p" * 40, n * 300, n * 70_000, 0, None if n % 2 else n * 5_000_000_000)
    envelope = Envelope(identity, (route,), encode_body(Notification(n=n, text="x" * (n * 40))), Quality(n % 3))
    return part(Part.DATA, encode(Frame(Notify(envelope), hop)))


def world() -> World:
    made = World()
    made.subscribe("bob")
    made.subscribe("carol", "n > 3 AND n < 6")
    made.subscribe("b", kind=LinkKind.BROKER)
    made.subscribe("c", "n > 5", kind=LinkKind.BROKER)
    return made


def feeding(made: World) -> Feeding:
    found = made.lane(NEIGHBOUR).feeding
    assert found is not None
    return found


def taken(*parts: bytes) -> int:
    passed = feeding(world()).pass_on(NEIGHBOUR, b"".join(parts), 0)
    return 0 if passed is None else passed.taken


def test_everybody_gets_the_bytes_that_the_lane_sends() -> None:
    one, other = world(), world()
    parts = [brought(n) for n in range(1, 10)]
    reached: list[tuple[str, int, int]] = []
    other.around.reached = lambda *position: reached.append(position)
    passed = feeding(other).pass_on(NEIGHBOUR, b"".join(parts), 0)
    assert passed is not None
    assert (passed.taken, passed.upto) == (9, sum(map(len, parts)))
    assert reached == [("o", 1, 9)]
    found: dict[str, bytes] = {}
    for links, written in passed.written:
        for link in links:
            found[link.name] = found.get(link.name, b"") + written.data
    expected: dict[str, bytes] = {}
    lane = one.lane(NEIGHBOUR)
    for each in parts:
        message = decode(each[5:]).message
        assert isinstance(message, Notify)
        result = lane.take(NEIGHBOUR, message, 0)
        assert result is not None
        for links, frame in result[1]:
            for link in links:
                expected[link.name] = expected.get(link.name, b"") + part(Part.DATA, encode(frame))
    assert found == expected
    assert other.around.statistics.sent == one.around.statistics.sent
    assert (other.table.lookups, other.table.copies) == (one.table.lookups, one.table.copies)


def test_a_run_is_of_one_origin_in_the_order_of_its_numbers() -> None:
    assert taken(brought(1), brought(3), brought(7)) == 3
    assert taken(brought(1), brought(2, "other")) == 1
    assert taken(brought(1), brought(2, epoch=2)) == 1
    assert taken(brought(3), brought(3)) == 1
    assert taken(brought(3), brought(2)) == 1


def test_another_tree_a_rider_and_another_scope_are_left_to_python() -> None:
    assert not taken(brought(1, hop=Hop(8)))
    assert not taken(brought(1, hop=Hop(7, None, {"feature": b"x"})))
    assert not taken(brought(1, route=Route("market")))
    assert not taken(brought(1)[:-1])


def test_an_origin_that_owes_something_is_left_to_python_alone() -> None:
    made = world()
    made.apart.owing = {"o"}
    assert feeding(made).pass_on(NEIGHBOUR, brought(1), 0) is None
    passed = feeding(made).pass_on(NEIGHBOUR, brought(1, "other"), 0)
    assert passed is not None
    assert passed.taken == 1


def test_whatever_is_passed_on_python_would_have_written_just_so() -> None:
    rng = random.Random(21)
    made = feeding(world())
    passed_on = 0
    for _ in range(6_000):
        frame = bytearray(brought(rng.choice((1, 2, 6)))[5:])
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(frame))
            match rng.randrange(3):
                case 0:
                    frame[at] = rng.randrange(256)
                case 1:
                    del frame[at]
                case _:
                    frame.insert(at, rng.choice((0, 0x7F, 0x80, 0xC0, 0xCC, 0xCD, 0xCF, 0xD9, 0xFF)))
        passed = made.pass_on(NEIGHBOUR, part(Part.DATA, bytes(frame)), 0)
        if passed is None:
            continue
        passed_on += 1
        try:
            message = decode(bytes(frame)).message
        except WireError as error:
            pytest.fail(f"{bytes(frame)!r} was taken, and Python says: {error}")
        assert isinstance(message, Notify)
        assert message.envelope.notification
        for _, written in passed.written:
            (sent,) = written.frames()
            assert isinstance(sent.message, Notify | Deliver)
            assert encode(sent) == written.data[5:]
            assert sent.message.envelope == message.envelope
    assert passed_on > 500
