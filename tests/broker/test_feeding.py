"""A lane that is fed with bytes does what it does with messages, one by one; its plans follow every change."""

from __future__ import annotations

import gc
import sys

import pytest
from broker.test_lane import NOW, World

from tidings import _native
from tidings.broker._links import Link, LinkKind
from tidings.broker.forwarding._feeding import MANY_IDS, Feeding, Passed
from tidings.broker.forwarding._lane import Lane
from tidings.broker.forwarding._targets import Targets
from tidings.broker.interest import OPEN_PASSAGE, Entry, Registration
from tidings.model import Filter, Notification
from tidings.wire import (
    Deliver,
    Frame,
    Hop,
    Notify,
    Opening,
    Part,
    Publish,
    PublishAck,
    Quality,
    Refused,
    decode,
    encode,
    encode_body,
    part,
)

pytestmark = pytest.mark.skipif(_native.engine is None, reason=f"there is no compiled engine: {_native.WHY_PURE}")
ALICE = Link("alice", LinkKind.CLIENT)


def message(n: int, quality: Quality = Quality.FIRE) -> Publish:
    return Publish(n, encode_body(Notification(n=n)), quality)


def read(*messages: Publish) -> bytes:
    return b"".join(part(Part.DATA, encode(Frame(one))) for one in messages)


def feeding(world: World) -> Feeding:
    found = world.lane(ALICE).feeding
    assert found is not None
    return found


def fed(world: World, *messages: Publish) -> Passed:
    passed = feeding(world).feed(ALICE, read(*messages), 0, NOW)
    assert passed is not None
    return passed


def got(passed: Passed) -> dict[str, list[int]]:
    """Who gets which numbers."""
    found: dict[str, list[int]] = {}
    for links, written in passed.written:
        for frame in written.frames():
            assert isinstance(frame.message, Deliver | Notify)
            for link in links:
                found.setdefault(link.name, []).append(frame.message.envelope.identity.publisher_seq)
    return found


def by_the_lane(lane: Lane, messages: list[Publish]) -> dict[str, bytes]:
    """The bytes that each gets."""
    found: dict[str, bytes] = {}
    for one in messages:
        taken = lane.take(ALICE, one, NOW)
        assert taken is not None
        for links, frame in taken[1]:
            for link in links:
                found[link.name] = found.get(link.name, b"") + part(Part.DATA, encode(frame))
    return found


def two_worlds() -> tuple[World, World]:
    worlds = World(), World()
    for world in worlds:
        world.subscribe("bob")
        world.subscribe("carol", "n > 3 AND n < 6")
        world.subscribe("dave", "n = 4 OR n = 7")
        world.subscribe("b", kind=LinkKind.BROKER)
        world.subscribe("c", "n > 5", kind=LinkKind.BROKER)
    return worlds


@pytest.mark.parametrize("quality", [Quality.FIRE, Quality.ACCEPTED, Quality.DEFAULT])
def test_clients_and_neighbours_get_the_bytes_that_the_lane_sends(quality: Quality) -> None:
    one, other = two_worlds()
    messages = [message(n, quality) for n in range(1, 10)]
    expected = by_the_lane(one.lane(ALICE), messages)
    passed = fed(other, *messages)
    assert passed.taken == 9
    assert passed.upto == len(read(*messages))
    found: dict[str, bytes] = {}
    for links, written in passed.written:
        for link in links:
            found[link.name] = found.get(link.name, b"") + written.data
    assert found == expected
    assert other.around.statistics.sent == one.around.statistics.sent
    assert other.publications.recent == one.publications.recent
    assert (other.table.lookups, other.table.copies) == (one.table.lookups, one.table.copies)
    if quality is Quality.FIRE:
        assert passed.answer is None
    else:
        assert passed.answer == Frame(PublishAck(9, "a", 1, 9, 9))


def test_a_new_tree_is_named_to_neighbours_at_once() -> None:
    world = World()
    world.subscribe("b", kind=LinkKind.BROKER)
    fed(world, message(1))
    world.around.hop = lambda: Hop(8)
    ((_, written),) = fed(world, message(2)).written
    assert written.frames()[0].hop == Hop(8)


def test_a_subscription_counts_from_the_next_run_on() -> None:
    world = World()
    world.subscribe("bob")
    assert got(fed(world, message(1))) == {"bob": [1]}
    carol = world.subscribe("carol")
    assert got(fed(world, message(2), message(3))) == {"bob": [2, 3], "carol": [2, 3]}
    (entry,) = world.table.subscriptions.of(carol.link)
    world.table.unsubscribe(entry)
    assert got(fed(world, message(4))) == {"bob": [4]}


def test_a_number_that_is_used_again_means_another_filter() -> None:
    world = World()
    carol = world.subscribe("carol")
    assert got(fed(world, message(1))) == {"carol": [1]}
    (entry,) = world.table.subscriptions.of(carol.link)
    world.table.unsubscribe(entry)
    world.subscribe("dave")
    assert got(fed(world, message(2))) == {"dave": [2]}


def test_a_run_ends_where_the_numbers_or_the_quality_do_not_go_on() -> None:
    world = World()
    assert fed(world, message(1), message(2), message(4)).taken == 2
    assert fed(world, message(4), message(5, Quality.ACCEPTED)).taken == 1
    assert fed(world, message(5), message(6)).taken == 2
    assert feeding(world).feed(ALICE, read(message(6)), 0, NOW) is None
    assert [one.identity.publisher_seq for one in world.publications.recent] == [1, 2, 4, 5, 6]


def test_what_reacts_or_opens_a_session_is_not_taken_and_a_client_of_before_is() -> None:
    world = World()
    body = encode_body(Notification(n=1))
    for odd in (Publish(1, body, cause=("s1",)), Publish(1, body, opens=Opening("s1"))):
        assert feeding(world).feed(ALICE, read(odd), 0, NOW) is None
    now = encode(Frame(Publish(1, body, Quality.FIRE, 9)))
    before = now.replace(b"\x92\x97", b"\x92\x95", 1).replace(b"\x90\xc0\x93", b"\x93", 1)
    assert decode(before) == decode(now)
    passed = feeding(world).feed(ALICE, part(Part.DATA, before), 0, NOW)
    assert passed is not None
    assert world.publications.recent[0].identity.ttl == 9


def test_who_gets_its_own_publications_is_acknowledged_between_them() -> None:
    world = World()
    registration = Registration(ALICE, "own", Filter.parse("EXISTS(n)"))
    world.table.subscribe(
        Entry(ALICE, "own", registration.filter, public_id="own", registration=registration, passage=OPEN_PASSAGE)
    )
    assert feeding(world).feed(ALICE, read(message(1, Quality.ACCEPTED)), 0, NOW) is None
    assert got(fed(world, message(1), message(2))) == {"alice": [1, 2]}


def test_who_has_gone_gets_nothing_though_its_entry_stays() -> None:
    world = World()
    bob = world.subscribe("bob").link
    assert got(fed(world, message(1))) == {"bob": [1]}
    world.around.leaving = {bob}
    world.around.forwarding.forget()
    assert got(fed(world, message(2))) == {}


def test_who_stands_apart_leaves_a_run_at_its_publication_and_joins_again() -> None:
    world = World()
    world.subscribe("bob")
    carol = world.subscribe("carol", "n = 3")
    world.held[carol] = None
    data = read(message(1), message(2), message(3), message(4))
    passed = feeding(world).feed(ALICE, data, 0, NOW)
    assert passed is not None
    assert (passed.taken, got(passed)) == (3, {"bob": [1, 2, 3]}), "whatever is done for carol may concern the next"
    assert passed.left is not None
    assert [link.name for link in passed.left.apart] == ["carol"]
    assert passed.left.envelope.identity.publisher_seq == 3
    assert world.table.copies == 4
    world.held.clear()
    passed = feeding(world).feed(ALICE, data, passed.upto, NOW)
    assert passed is not None
    assert (got(passed), passed.left) == ({"bob": [4]}, None)
    assert got(fed(world, Publish(5, encode_body(Notification(n=3)), Quality.FIRE))) == {"bob": [5], "carol": [5]}


def test_an_own_operator_or_many_ids_leave_it_to_python() -> None:
    world = World()
    bob = Link("bob", LinkKind.CLIENT)
    for number in range(MANY_IDS + 1):
        registration = Registration(bob, f"s{number}", Filter.parse("n EXISTS"))
        world.table.subscribe(
            Entry(
                bob,
                registration.id,
                registration.filter,
                public_id=str(number),
                registration=registration,
                passage=OPEN_PASSAGE,
            )
        )
    assert feeding(world).feed(ALICE, read(message(1)), 0, NOW) is None

    class Strange:
        def matches(self, notification: Notification) -> bool:
            return True

    other = World()
    other.subscribe("bob")
    other.table.subscribe(Entry(bob, "s", Strange(), public_id="x", passage=OPEN_PASSAGE))
    assert feeding(other).feed(ALICE, read(message(1)), 0, NOW) is None


@pytest.mark.parametrize("why", ["observed", "disarmed"])
def test_a_lane_that_is_looked_into_is_not_fed(why: str) -> None:
    world = World()
    if why == "observed":
        world.around.observed = lambda envelope, link: None
    lane = world.lane(ALICE)
    if why == "disarmed":
        world.lanes.changed()
    assert lane.feeding is None


def test_what_was_refused_before_is_not_taken_but_what_follows_is() -> None:
    world = World()
    world.publications.refuse("alice", 2, Refused("TidingsError", "no", "2"))
    assert feeding(world).feed(ALICE, read(message(1), message(2)), 0, NOW) is None
    assert fed(world, message(3)).taken == 1


def targets() -> int:
    return sum(isinstance(one, Targets) for one in gc.get_objects())


def test_nothing_is_held_when_plans_are_forgotten() -> None:
    world = World()
    bob = world.subscribe("bob").link
    fed(world, message(1))
    held = sys.getrefcount(bob)
    (entry,) = world.table.subscriptions.of(bob)
    world.table.unsubscribe(entry)
    world.around.forwarding.forget()
    del entry
    fed(world, message(2))
    gc.collect()
    assert sys.getrefcount(bob) < held
    before = targets()
    for n in range(3, 303):
        registration = world.subscribe("carol", f"n = {n}")
        assert got(fed(world, message(n))) == {"carol": [n]}
        (entry,) = world.table.subscriptions.of(registration.link)
        world.table.unsubscribe(entry)
        world.around.forwarding.forget()
    del registration, entry
    gc.collect()
    assert targets() <= before + 1
    assert feeding(world)._plane.plans() <= 1


def test_who_is_held_later_is_looked_at_again() -> None:
    world = World()
    bob, carol = world.subscribe("bob", "n > 0"), world.subscribe("carol", "n < 0")
    world.held[carol] = None
    assert got(fed(world, message(1))) == {"bob": [1]}
    world.held[bob] = None
    passed = fed(world, message(2), message(3))
    assert (passed.taken, got(passed)) == (1, {})
    assert passed.left is not None
    del world.held[bob]
    assert got(fed(world, message(3))) == {"bob": [3]}


def test_only_what_was_advertised_and_has_settled_is_fed() -> None:
    world = World(advertised=True)
    advertised: list[Registration] = []
    world.around.advertised = lambda link: advertised
    world.subscribe("bob")
    assert feeding(world).feed(ALICE, read(message(1)), 0, NOW) is None, "nothing is advertised"
    advertised.append(Registration(ALICE, "a1", Filter.parse("n < 5")))
    advertised[0].effective = False
    assert feeding(world).feed(ALICE, read(message(1)), 0, NOW) is None, "it has not settled"
    advertised[0].effective = True
    assert got(fed(world, *map(message, range(1, 9)))) == {"bob": [1, 2, 3, 4]}
    assert feeding(world).feed(ALICE, read(message(5)), 0, NOW) is None
    advertised.append(Registration(ALICE, "a2", Filter.parse("n < 7")))
    advertised[1].effective = True
    assert got(fed(world, *map(message, range(5, 9)))) == {"bob": [5, 6]}
    del advertised[1]
    assert feeding(world).feed(ALICE, read(message(4, Quality.FIRE)), 0, NOW) is None, "it came before"
    lists = Publish(9, encode_body(Notification(n=[1, 2])), Quality.FIRE)
    assert feeding(world).feed(ALICE, read(lists), 0, NOW) is None, "an advertisement speaks for every element"


def test_what_a_client_inside_the_broker_gets_is_a_run_of_its_own() -> None:
    world = World()
    world.subscribe("bob")
    inside = Link("inside", LinkKind.CLIENT, inside=True)
    registration = Registration(inside, "s", Filter.parse("n = 3"))
    world.table.subscribe(
        Entry(inside, "s", registration.filter, public_id="in", registration=registration, passage=OPEN_PASSAGE)
    )
    data, at, runs = read(*map(message, range(1, 6))), 0, []
    while at < len(data):
        passed = feeding(world).feed(ALICE, data, at, NOW)
        assert passed is not None
        runs.append(got(passed))
        at = passed.upto
    assert runs == [{"bob": [1, 2]}, {"bob": [3], "inside": [3]}, {"bob": [4, 5]}]


def test_what_is_sealed_is_handed_over_once() -> None:
    world = World()
    world.subscribe("bob", "n = 1 OR n = 2")
    world.subscribe("carol", "n = 1 OR n = 3")
    written = fed(world, message(1), message(2), message(3)).written
    assert [([link.name for link in links], one.length) for links, one in written] == [
        (["bob", "carol"], 1),
        (["bob"], 1),
        (["carol"], 1),
    ]
