"""Interest by itself: what clients and neighbours ask for, at a host that is no broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable

import pytest

from tidings.broker import Announcement, Delta, Entry, Link, LinkKind, Registration, RoutingOptions, Statistics, Tree
from tidings.broker.interest import Entries, Registrations, Scoping, Settling
from tidings.model import Filter, Position, TidingsError
from tidings.wire import Advertise, AnyMessage, Settled, Subscribe, Unadvertise, Unsubscribe

ALICE = Link("alice", LinkKind.CLIENT)
B, C = Link("b", LinkKind.BROKER), Link("c", LinkKind.BROKER)


class Adjacency:
    """Two neighbours that are ready."""

    tree = Tree(1, frozenset("bc"), {"b": "b", "c": "c"}, {"a": None, "b": "a", "c": "a"})

    def __init__(self) -> None:
        self.tree_links = [B, C]

    def is_open(self, link: Link) -> bool:
        return True


class Outlets:
    """Nothing is held, nothing is owed; both hear of what ends."""

    baseline = True

    def __init__(self) -> None:
        self.all: dict[Registration, None] = {}
        self.heard: list[tuple[str, str]] = []

    def __contains__(self, registration: Registration) -> bool:
        return False

    def check_room(self, client: Link) -> None: ...
    def end_turn(self) -> None: ...

    def has_room(self, client: Link, more: int) -> bool:
        return True

    def resume(self, entry: Registration, after: dict[str, Position], *, early: bool = False) -> None: ...
    def displaced(self, entry: Registration) -> None: ...

    def end(self, registration: Registration) -> None:
        self.heard.append(("end", registration.id))

    def replace(self, old: Registration, new: Registration) -> None:
        self.heard.append(("end", old.id))

    def ended(self, entry: Registration) -> None:
        self.heard.append(("ended", entry.id))

    def replaced(self, old: Registration, new: Registration) -> None:
        self.heard.append(("replaced", new.id))

    def settled(self, entry: Registration) -> None:
        self.heard.append(("settled", entry.id))


class Publishing:
    ripe = False

    def release(self) -> None: ...

    def defers(self, link: Link, message: Advertise | Unadvertise) -> bool:
        return False

    def end_turn(self) -> bool:
        return False


class Publications:
    last = 0


class Timer:
    def cancel(self) -> None: ...


class Host:
    """As much of a broker as interest needs."""

    name = "a"

    def __init__(self, *, advertisements: bool = False) -> None:
        self.routing = RoutingOptions(advertisements=advertisements)
        self.statistics = Statistics()
        self.adjacency, self.delivery, self.publications = Adjacency(), Publishing(), Publications()
        self.holds = self.recovery = self.delaying = self.outlets = Outlets()
        self.clients = [ALICE]
        self.register: Callable[[Link, int], None] = lambda link, size: None
        self.sent: deque[tuple[Link, AnyMessage]] = deque()
        self.scoping: Scoping = Scoping(self)
        self.entries: Entries = Entries(self)
        self.registrations: Registrations = Registrations(self)
        self.settling: Settling = Settling(self)
        self.scoping.new_tree()
        for link in self.adjacency.tree_links:
            self.entries.tell_all(link)

    def say(self, link: Link, message: AnyMessage) -> list[tuple[str, AnyMessage]]:
        """A client or a neighbour says something; what is said then, to whom."""
        room: Entries | Registrations = self.entries if link.is_broker else self.registrations
        match message:
            case Subscribe():
                room.subscribed(link, message)
            case Unsubscribe():
                room.unsubscribed(link, message)
            case Advertise():
                room.advertised(link, message)
            case Settled():
                self.settling.confirmed(link, message)
        self.settling.end_turn()
        said = [(link.name, message) for link, message in self.sent]
        self.sent.clear()
        return said

    def standing_for(self, principal: str) -> Collection[Link]:
        return [ALICE]

    def marks_of(self, entries: Iterable[Registration]) -> dict[str, Position]:
        return {"b": (1, 5)}

    def now(self) -> int:
        return 0

    def send(self, link: Link, message: AnyMessage) -> None:
        self.sent.append((link, message))

    def refuse(self, link: Link, message: AnyMessage, error: TidingsError) -> None:
        raise error

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        return Timer()

    def at_subscribe(self, registration: Registration) -> None: ...
    def at_graph(self, old: int, new: int) -> None: ...

    def at_sub_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.entries.sub_add(scope, entry)

    def at_sub_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.entries.sub_del(scope, entry)

    def at_ad_add(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.entries.ad_add(scope, entry)

    def at_ad_del(self, scope: str, entry: Entry) -> dict[Link, Delta]:
        return self.entries.ad_del(scope, entry)

    def at_sub_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        self.entries.sub_send(scope, announcement, source, targets)

    def at_unsub_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        self.entries.unsub_send(scope, id, source, targets)

    def at_ad_send(self, scope: str, announcement: Announcement, source: Link, targets: list[Link]) -> None:
        self.entries.ad_send(scope, announcement, source, targets)

    def at_unad_send(self, scope: str, id: str, source: Link, targets: list[Link]) -> None:
        self.entries.unad_send(scope, id, source, targets)


def parsed(text: str) -> Filter:
    return Filter.parse(text)


def test_a_subscription_is_announced_to_every_neighbour_and_settles_when_all_have_confirmed() -> None:
    host = Host()
    said = host.say(ALICE, Subscribe("s", parsed("n > 1"), number=4))
    assert [(name, message.filter) for name, message in said if isinstance(message, Subscribe)] == [
        ("b", parsed("n > 1")),
        ("c", parsed("n > 1")),
    ]
    told = {name: message for name, message in said if isinstance(message, Subscribe)}
    assert host.say(B, Settled(told["b"].id, "", False, number=told["b"].number)) == []
    (answer,) = host.say(C, Settled(told["c"].id, "", False, number=told["c"].number))
    assert answer == ("alice", Settled("s", "", False, {"b": (1, 5)}, 4))
    assert host.outlets.heard == [("settled", "s")]


def test_what_is_covered_is_not_announced_and_follows_when_its_cover_ends() -> None:
    host = Host()
    wide = host.say(ALICE, Subscribe("wide", parsed("n > 1")))
    assert host.say(ALICE, Subscribe("narrow", parsed("n > 5"))) == []
    said = host.say(ALICE, Unsubscribe("wide"))
    kinds = [(name, type(message).__name__) for name, message in said]
    assert kinds == [("b", "Subscribe"), ("c", "Subscribe"), ("b", "Unsubscribe"), ("c", "Unsubscribe")]
    assert len(wide) == 2
    assert ("ended", "wide") in host.outlets.heard


def test_what_a_neighbour_wants_is_announced_to_the_others_only() -> None:
    host = Host()
    (one,) = host.say(B, Subscribe("b/1", parsed("n > 1"), number=1))
    assert (one[0], type(one[1])) == ("c", Subscribe)


@pytest.mark.parametrize("overlapping", [True, False])
def test_with_advertisements_a_subscription_goes_only_to_where_it_is_offered(overlapping: bool) -> None:
    host = Host(advertisements=True)
    host.say(B, Advertise("b/1", parsed("n > 100" if overlapping else "n < 0"), number=1))
    said = host.say(ALICE, Subscribe("s", parsed("n > 1")))
    assert [name for name, message in said if isinstance(message, Subscribe)] == (["b"] if overlapping else [])


def test_a_changed_filter_takes_the_place_of_the_old_one_and_keeps_what_is_owed() -> None:
    host = Host()
    host.say(ALICE, Subscribe("s", parsed("n > 5")))
    said = host.say(ALICE, Subscribe("s", parsed("n > 1")))
    assert [type(message) for name, message in said if name == "b"] == [Subscribe, Unsubscribe], "make before break"
    assert ("replaced", "s") in host.outlets.heard
