"""Somebody stands in for a client, and hands over what it has: one subscription at a time, past what is owed."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.broker import Feature, InnerClient, Link, Registration
from tidings.broker.outlets._backlog import Backlog
from tidings.model import FeatureError, Filter
from tidings.sim import Network, Weather
from tidings.wire import Deliver, Envelope, Frame, Subscribe


class StandIn(Feature):
    """An inner client that stands for the client `phone`, and keeps what reaches it."""

    name = "stand-in"

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.inner: InnerClient | None = None
        self.asked: list[str] = []
        self.takes = True
        self.owes: dict[str, tuple[int, int]] = {}

    def start(self) -> None:
        self.context.stand_in(self._takes)

    def open(self, *ids: str) -> None:
        self.inner = self.context.open_client("phone/~copy", self.frames.append, "phone")
        for id in ids:
            self.inner.send(Frame(Subscribe(id, Filter.parse("n >= 0"))))

    @property
    def held(self) -> list[Envelope]:
        return [one.message.envelope for one in self.frames if isinstance(one.message, Deliver)]

    def _takes(self, link: Link, message: Any) -> Registration | None:
        self.asked.append(message.id)
        inner = self.inner
        if inner is None or not self.takes or link is inner.link:
            return None
        known = [one for one in self.context.subscribed(inner.link) if one.id == message.id]
        if not known:
            return None
        self.context.adopt(inner.link, link, known)
        for origin, since in self.owes.items():
            self.context.owe(known[0], origin, since, self.held)
        return known[0]


def world() -> tuple[Network, StandIn]:
    feature = StandIn()
    network = Network(
        1, features=lambda name: [feature] if name == "a" else [], weather=Weather(latency=(1_000, 1_000))
    )
    network.add_brokers("ab", links=["ab"])
    network.run()
    return network, feature


def test_a_client_that_goes_on_adopts_what_stands_in_for_it_and_the_rest_stays() -> None:
    network, feature = world()
    phone, feed = network.add_client("phone", "b"), network.add_client("feed", "b")
    first, second = phone.subscribe("n >= 0"), phone.subscribe("n >= 1")
    network.run()
    feature.open(first)
    network.run()
    phone.detach()
    sent: list[str] = []
    network.tap = lambda name, link, frame: sent.append(type(frame.message).__name__) if link.is_broker else None
    phone.attach("a")
    network.run()
    assert feature.asked[-2:] == [first, second]
    assert phone.settled_ids >= {first, second}
    assert sent.count("Subscribe") <= 1  # of the second one
    feed.publish(n=5)
    network.run()
    assert [one["n"] for one in phone.received] == [5, 5]
    assert not feature.held


def test_who_subscribes_anew_is_not_asked_for() -> None:
    network, feature = world()
    phone = network.add_client("phone", "a")
    feature.takes = False
    phone.subscribe("n >= 0")
    network.run()
    assert feature.asked == []


def test_what_is_held_fills_what_its_origin_has_lost_and_comes_once() -> None:
    network, feature = world()
    phone, feed = network.add_client("phone", "b"), network.add_client("feed", "b")
    id = phone.subscribe("n >= 0")
    network.run()
    feature.open(id)
    network.run()
    phone.detach()
    for n in range(3):
        feed.publish(n=n)
    network.run()
    assert len(feature.held) == 3
    feature.owes = {"b": (1, 0)}
    network.crash("b")
    network.restart("b")  # it has lost what it accepted
    network.run()
    phone.attach("a")
    network.run()
    assert [one["n"] for one in phone.received] == [0, 1, 2]


def test_nothing_is_adopted_that_another_subscription_has() -> None:
    network, feature = world()
    phone = network.add_client("phone", "a")
    phone.subscribe("n >= 0", id="same")
    network.run()
    feature.open("same")
    network.run()
    link = network.brokers["a"].client("phone")
    assert link is not None
    assert feature.inner is not None
    registrations = list(feature.context.subscribed(feature.inner.link))
    with pytest.raises(FeatureError, match="has a subscription 'same' already"):
        feature.context.adopt(feature.inner.link, link, registrations)
    feature.context.adopt(feature.inner.link, link, [])  # nothing is chosen, so nothing is in the way
    assert len(feature.context.subscribed(feature.inner.link)) == 1


def test_a_backlog_lets_go_what_it_kept_back_from_one_outlet() -> None:
    network, feature = world()
    phone, feed = network.add_client("phone", "a"), network.add_client("feed", "b")
    feature.open("s9")
    phone.subscribe("n >= 0")
    network.run()
    feed.publish(n=1)
    feed.publish(n=2)
    network.run()
    one, two = feature.held
    link = network.brokers["a"].client("phone")
    assert link is not None
    assert feature.inner is not None
    [mine] = feature.context.subscribed(link)
    [its] = feature.context.subscribed(feature.inner.link)
    backlog = Backlog()
    backlog.keep(one, [mine, its])
    backlog.keep(two, [its])
    assert backlog.release(its) == [one, two]
    assert [(kept.envelope, kept.outlets) for kept in backlog] == [(one, (mine,))]
    backlog.keep(two, [mine])
    assert backlog.release(mine) == [one, two]
    assert len(backlog) == 0
