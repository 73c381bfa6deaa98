"""Lanes: what the plain path does by itself, what it leaves to the full path, and when it may be taken at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tidings.broker import (
    FLAT,
    OPEN_PASSAGE,
    Entry,
    Link,
    LinkKind,
    Passage,
    Registration,
    RoutingOptions,
    Statistics,
    Table,
    Tree,
    View,
)
from tidings.broker.forwarding._apart import Apart, Left
from tidings.broker.forwarding._lane import Lane, Surroundings, Taken
from tidings.broker.forwarding._lanes import Lanes
from tidings.broker.forwarding._publications import Publications
from tidings.broker.forwarding._targets import Forwarding
from tidings.model import Filter, Identity, Notification, Route, TidingsError
from tidings.wire import (
    Deliver,
    Envelope,
    Hop,
    Notify,
    Publish,
    PublishAck,
    Quality,
    Refused,
    checked_body,
    encode_body,
)

ALONE = Tree(0, frozenset(), {}, {"a": None})
NOW = 1_000


@dataclass
class Progress:
    """Notes what it is told."""

    due: bool = False
    advanced: list[tuple[str, int, int]] = field(default_factory=list)

    def published(self) -> None:
        self.due = True

    def advance(self, origin: str, epoch: int, seq: int) -> None:
        self.advanced.append((origin, epoch, seq))


class World:
    """Everything around the lanes of one broker, and the graph."""

    def __init__(self, *, advertised: bool = False, floods: bool = False) -> None:
        self.table = Table("", RoutingOptions())
        self.tables = {"": self.table}
        self.active: View = FLAT.on("a", ALONE)
        self.steady = self.flat = True
        self.held_up = False
        self.publications = Publications(1, None, name="a")
        self.progress = Progress()
        self.held: dict[Registration, object] = {}
        self.owed: dict[str, dict[Registration, object]] = {}
        self.attached: dict[Link, object] = {}
        self.riding: dict[Link, object] = {}
        self.passed: list[tuple[int, bool]] = []
        self.announced: set[Link] = set()
        self.apart = Apart(self.held, self.owed, lambda origin: self.owed.get(origin, {}), self.attached, self.riding)
        self.around = Surroundings(
            "a",
            self.publications,
            Statistics(),
            self.progress,
            self.apart,
            Forwarding(),
            (),
            takes=lambda: False,
            passed=lambda envelope, several=False: self.passed.append((envelope.identity.seq, several)),
            reached=lambda origin, epoch, seq: None,
            standing_for=lambda principal: (),
            hop=lambda: Hop(7),
            announced=(lambda link, notification: link in self.announced) if advertised else None,
        )
        self.lanes = Lanes(self.around, self, floods=floods)

    def passages(self, client: Link) -> tuple[Passage, ...] | None:
        return None if self.held_up else (OPEN_PASSAGE,)

    def subscribe(self, name: str, filter: str = "n EXISTS", kind: LinkKind = LinkKind.CLIENT) -> Registration:
        link = Link(name, kind)
        registration = Registration(link, "s", Filter.parse(filter))
        self.table.subscribe(
            Entry(link, "s", registration.filter, public_id=name, registration=registration, passage=OPEN_PASSAGE)
        )
        return registration

    def lane(self, link: Link) -> Lane:
        lane = self.lanes.publishing[link] if link in self.lanes.publishing else self.lanes.for_publisher(link)
        assert lane is not None
        return lane


ALICE = Link("alice", LinkKind.CLIENT)


def publish(n: int, seq: int = 1, quality: Quality = Quality.ACCEPTED) -> Publish:
    return Publish(seq, encode_body(Notification(n=n)), quality)


def delivered(taken: Taken | None) -> dict[str, list[str]]:
    """The names of those that get each frame."""
    assert taken is not None
    return {
        f"{type(frame.message).__name__} {getattr(frame.message, 'subscriptions', '')}": [link.name for link in links]
        for links, frame in taken[1]
    }


def test_a_publication_gets_its_identity_and_everybody_one_frame() -> None:
    world = World()
    for name in ("bob", "carol"):
        world.subscribe(name)
    world.subscribe("b", kind=LinkKind.BROKER)
    lane = world.lane(ALICE)
    taken = lane.take(ALICE, publish(5, seq=3), NOW)
    assert taken is not None
    answer, frames, left = taken
    assert answer is not None
    assert answer.message == PublishAck(3, "a", 1, 1)
    (_, to_neighbours), (_, to_clients) = frames
    assert isinstance(to_clients.message, Deliver)
    assert to_clients.message.envelope.identity == Identity("a", 1, 1, "alice", 3, NOW)
    assert isinstance(to_neighbours.message, Notify)
    assert to_neighbours.hop == Hop(7), "it belongs to the tree"
    assert delivered(taken) == {"Deliver ('s',)": ["bob", "carol"], "Notify ": ["b"]}
    assert left is None
    assert world.progress.due
    assert (lane.last, lane.published("alice"), lane.published("bob")) == (1, 3, 0)
    assert [envelope.identity.seq for envelope in lane.recent()] == [1]
    assert lane.recent(after=1) == []
    assert lane.counters() == {"taken": 1, "lookups": 1, "copies": 3}


def test_what_neighbours_bring_is_passed_on_and_not_back() -> None:
    world = World()
    world.subscribe("bob")
    origin = world.subscribe("b", kind=LinkKind.BROKER).link
    lane = world.lanes.for_scope("")
    assert lane is not None
    envelope = Envelope(Identity("b", 1, 9, "x", 1, 0), (Route(),), encode_body(Notification(n=1)))
    taken = lane.take(origin, Notify(envelope), 0)
    assert delivered(taken) == {"Deliver ('s',)": ["bob"]}
    assert world.passed == [(9, False)]
    assert lane.last == 0, "it has not been published here"


def refused(world: World) -> None:
    world.publications.refuse("alice", 1, Refused("TidingsError", "no", "1"))


NOT_PLAIN: dict[str, tuple[Publish, Callable[[World], Any]]] = {
    "came before": (publish(1, seq=0), lambda world: None),
    "has an impossible number": (publish(1, seq=2**63), lambda world: None),
    "lives for no time": (Publish(1, encode_body(Notification(n=1)), Quality.FIRE, -1), lambda world: None),
    "was refused": (publish(1), refused),
    "cannot be stored": (publish(1, quality=Quality.STORED), lambda world: None),
    "waits for a note on disk": (publish(1), lambda world: setattr(world.publications, "open", False)),
    "is not announced": (publish(1), lambda world: world.announced.clear()),
    "would carry something": (publish(1), lambda world: world.attached.update({ALICE: {}})),
}


@pytest.mark.parametrize("why", NOT_PLAIN)
def test_what_is_not_plain_is_left_alone_as_a_whole(why: str) -> None:
    message, prepare = NOT_PLAIN[why]
    world = World(advertised=True)
    world.announced.add(ALICE)
    world.subscribe("bob")
    lane = world.lane(ALICE)
    prepare(world)
    assert lane.take(ALICE, message, NOW) is None
    assert (lane.last, lane.recent(), world.progress.due) == (0, [], False)
    assert lane.counters() == {"taken": 0, "lookups": 0, "copies": 0}


def test_a_body_that_cannot_be_read_is_refused_before_it_has_a_number() -> None:
    world = World()
    lane = world.lane(ALICE)
    with pytest.raises(TidingsError, match="cannot be decoded"):
        lane.take(ALICE, Publish(1, b"\xc1"), NOW)
    assert lane.last == 0


def test_a_client_that_may_not_publish_it_is_refused_before_it_has_a_number() -> None:
    class Guard:
        name, administer = "alice", False

        def check_publish(self, notification: Notification) -> None:
            if notification["n"] != 1:
                raise TidingsError("only 1")

        def check_subscribe(self, filter: object) -> None: ...
        def check_advertise(self, filter: object) -> None: ...

    world = World()
    guarded = Link("alice", LinkKind.CLIENT, Guard())
    lane = world.lane(guarded)
    with pytest.raises(TidingsError, match="only 1"):
        lane.take(guarded, publish(2), NOW)
    assert lane.last == 0
    assert lane.take(guarded, publish(1), NOW) is not None


def special(world: World, bob: Registration) -> Mapping[str, Callable[[], Any]]:
    return {
        "held": lambda: world.held.update({bob: None}),
        "owed by this origin": lambda: world.owed.update(a={bob: None}),
        "advised at DELIVER": lambda: setattr(world.apart, "advised", ({bob.link},)),
        "carries a rider": lambda: world.riding.update({bob.link: None}),
    }


@pytest.mark.parametrize("why", ["held", "owed by this origin", "advised at DELIVER", "carries a rider"])
def test_who_is_special_is_left_over_from_the_next_notification_on_and_the_others_stay_in_their_group(why: str) -> None:
    world = World()
    bob = world.subscribe("bob")
    world.subscribe("carol")
    lane = world.lane(ALICE)
    assert delivered(lane.take(ALICE, publish(1, 1), NOW)) == {"Deliver ('s',)": ["bob", "carol"]}
    special(world, bob)[why]()
    taken = lane.take(ALICE, publish(2, 2), NOW)
    assert delivered(taken) == {"Deliver ('s',)": ["carol"]}
    assert taken is not None
    assert isinstance(taken[2], Left)
    assert taken[2].apart == {bob.link}
    assert [link for link, _ in taken[2].targets.only(taken[2].apart)] == [bob.link]
    assert taken[2].envelope.notification["n"] == 2


def test_what_another_origin_owes_diverts_nobody() -> None:
    world = World()
    bob = world.subscribe("bob")
    world.owed["b"] = {bob: None}
    assert delivered(world.lane(ALICE).take(ALICE, publish(1), NOW)) == {"Deliver ('s',)": ["bob"]}


def test_advice_at_delivery_for_everybody_leaves_everybody_over() -> None:
    world = World()
    bob, carol = world.subscribe("bob"), world.subscribe("carol")
    world.apart.advised = None
    assert world.apart.among("a", world.around.forwarding.targets(list(world.table.subscriptions), ALICE)) == {
        bob.link,
        carol.link,
    }


def test_when_something_changes_every_lane_is_disarmed_until_it_is_known_again() -> None:
    world = World()
    world.subscribe("bob")
    lane = world.lane(ALICE)
    world.held_up = True
    world.lanes.changed()
    assert lane.take(ALICE, publish(1), NOW) is None
    assert world.lanes.for_publisher(ALICE) is None
    world.held_up = False
    world.lanes.changed()
    assert world.lanes.for_publisher(ALICE) is lane
    assert lane.take(ALICE, publish(1), NOW) is not None


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("floods", [True, False])
def test_a_lane_passes_on_only_where_nothing_stands_between(steady: bool, plain: bool, floods: bool) -> None:
    world = World(floods=floods)
    world.steady, world.lanes.plain = steady, plain
    assert (world.lanes.for_scope("") is not None) == (steady and plain and not floods)


@pytest.mark.parametrize("matches", [True, False])
def test_where_steps_are_advised_publications_enter_and_go_on_through_them(matches: bool) -> None:
    world = World()
    world.subscribe("bob")
    world.lanes.plain, world.lanes.matches = False, matches
    taken = world.lane(ALICE).take(ALICE, publish(4), NOW)
    assert taken is not None
    answer, frames, left = taken
    assert answer is not None
    assert not frames
    assert isinstance(left, tuple)
    envelope, targets = left
    assert (envelope.identity.seq, envelope.notification["n"]) == (1, 4)
    assert [link.name for link in targets or ()] == (["bob"] if matches else [])
    assert (targets is None) == (not matches), "advice at PUB-MATCH says where it goes"


def test_nothing_is_noted_of_scopes_that_only_neighbours_know_and_of_clients_that_have_gone() -> None:
    world = World()
    for n in range(10):
        assert world.lanes.for_scope(f"scope {n}") is None
    assert not world.lanes.passing
    world.lane(ALICE)
    world.lanes.forget(ALICE)
    assert not world.lanes.publishing


def test_an_engine_that_reads_bodies_is_asked_first_and_what_it_cannot_read_is_decoded() -> None:
    world = World()
    bob = world.subscribe("bob", "n > 5")
    asked: list[bytes] = []
    (entry,) = world.table.subscriptions

    def match_body(body: bytes) -> list[Entry] | None:
        asked.append(body)
        n = checked_body(body)["n"]
        return None if n == 6 else [entry] if n > 5 else []  # type: ignore[operator]

    world.table.match_body = match_body
    lane = world.lane(ALICE)
    found = [delivered(lane.take(ALICE, publish(n, seq), NOW)) for seq, n in enumerate((5, 6, 7), 1)]
    assert found == [{}, {"Deliver ('s',)": [bob.link.name]}, {"Deliver ('s',)": [bob.link.name]}]
    assert len(asked) == 3
