"""Outlets by themselves: what is held back, and what is handed over in the end, at a host that is no broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidings.broker import Link, LinkKind, Registration
from tidings.broker.outlets import Holds, Recovery
from tidings.model import EVERYTHING, ROOT_ROUTE, Identity, Notification
from tidings.wire import Envelope, Fetch, Fetched, Gap, encode_body


class Timer:
    def cancel(self) -> None: ...


class Host:
    """As much of a broker as outlets need: origin 'o' is next to it, and nothing of it has been seen beyond 3."""

    name, epoch = "a", 1

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.sent: list[Any] = []
        self.seen = {"o": (1, 3)}
        tree = SimpleNamespace(epoch=1, hops={"o": "o"})
        self.routing = SimpleNamespace(advertisements=False, algorithm="covering")
        self.statistics = SimpleNamespace(refused=0)
        self.adjacency = SimpleNamespace(tree=tree, tree_links=[Link("o", LinkKind.BROKER)], topology=None)
        self.progress = SimpleNamespace(
            new_tree=lambda: None, advance=lambda *_: None, of=self.seen.get, seen=self.seen
        )
        self.waves = SimpleNamespace(register=lambda kind, handler: None)
        self.scoping = SimpleNamespace(flat=True, gateways=frozenset())
        self.registrations = SimpleNamespace(returning=SimpleNamespace(room_again=lambda: None))
        self.settling = SimpleNamespace(tell=lambda *_, **__: None, tell_with=lambda *_: None)
        self.publications = SimpleNamespace(last=0)
        self.doors = SimpleNamespace(forward=lambda message, target: self.sent.append(message) or True)
        self.ordering = SimpleNamespace(begins_at=lambda *_: None, begun=lambda *_: {})
        self.delivery = self
        self.clients: list[Link] = []
        self.holds: Any = Holds(self)  # type: ignore[arg-type]
        self.recovery: Any = Recovery(self)  # type: ignore[arg-type]

    def client_subscriptions(self) -> list[Registration]:
        return []

    def call_later(self, delay: int, action: object) -> Timer:
        return Timer()

    def deliver_late(self, envelope: Envelope, owed: dict[Registration, None]) -> None:
        self.said.append(("late", envelope.identity.seq, [one.id for one in owed]))

    def deliver_held(self, envelope: Envelope, subscriptions: Any) -> None:
        self.said.append(("held", envelope.identity.seq, [one.id for one in subscriptions]))

    def report_gap(self, gap: Gap, owed: dict[Registration, None]) -> None:
        self.said.append(("gap", gap.first, gap.last))

    def congested(self, owed: object) -> bool:
        return False


def notification(seq: int, origin: str = "o") -> Envelope:
    return Envelope(Identity(origin, 1, seq, "p", seq, 0), (ROOT_ROUTE,), encode_body(Notification(n=seq)))


class Holder:
    def turn_ended(self) -> None: ...
    def has_kept(self) -> None: ...
    def restarted(self) -> None: ...
    def ended(self) -> None: ...


def subscription(name: str) -> Registration:
    return Registration(Link(name, LinkKind.CLIENT), name, EVERYTHING)


def test_what_is_held_gets_nothing_until_it_is_released_and_others_get_theirs() -> None:
    host, held, open_one = Host(), subscription("held"), subscription("open")
    hold = host.holds.begin(held, Holder())
    assert host.recovery.active
    assert host.recovery.hold(notification(4), [held, open_one]) == [open_one]
    host.holds.release(hold, None)
    host.holds.hand_over(hold, {})
    assert host.said == [("held", 4, ["held"])]
    assert not host.recovery.active


def test_what_is_owed_is_fetched_from_its_origin_and_handed_over_in_order() -> None:
    host, returned, other = Host(), subscription("returned"), subscription("other")
    host.recovery.resume(returned, {"o": (1, 3)})
    assert (set(host.recovery.owing), set(host.recovery.owed("o"))) == ({"o"}, {returned})
    assert host.recovery.hold(notification(6), [returned, other]) == [other]
    assert host.recovery.hold(notification(1, "else"), [returned]) == [returned], "only this origin owes something"
    host.recovery.settled(returned)
    (fetch,) = host.sent
    assert isinstance(fetch, Fetch)
    assert (fetch.origin, fetch.after) == ("o", {1: 3})
    host.recovery.fetching.answered(
        Fetched("a", fetch.number, (notification(5), notification(6)), True, {1: 6}, ((1, 4, 4),))
    )
    assert host.said == [("gap", 4, 4), ("late", 5, ["returned"]), ("late", 6, ["returned"])]
    assert not host.recovery.owing
