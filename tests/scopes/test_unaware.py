"""Scopes concern neither applications nor the language of subscriptions, and they save work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from scopes.network_world import Watched

from tidings.broker import RoutingOptions
from tidings.model import Notification
from tidings.scopes import Interface, Join
from tidings.sim import SimClient
from tidings.wire import Notify

SIMPLE = RoutingOptions("simple")


class Counting:
    """A filter of an application's own: a language that nobody knows. It counts how often it is asked, and by what."""

    def __init__(self, test: Callable[[Notification], bool]) -> None:
        self._test = test
        self.asked: list[Notification] = []

    def matches(self, notification: Notification) -> bool:
        self.asked.append(notification)
        return self._test(notification)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


def application(client: SimClient, id: int) -> Iterator[list[int]]:
    """A component: it says what it wants, publishes a number, and shows what it has heard. It knows nothing else."""
    client.subscribe("n >= 0")
    yield []
    client.publish(n=id)
    yield []
    yield sorted(int(one["n"]) for one in client.received)  # type: ignore[call-overload]


def heard(*edges: str) -> dict[str, list[int]]:
    """The same components on the same network, in one graph or another."""
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "b", "z": "c"})
    if edges:
        world.make(*edges)
    running = {name: application(world.client(name), id) for id, name in enumerate("xyz")}
    for step in range(3):
        shown = {name: next(one) for name, one in running.items()}
        world.network.run()
        if step == 2:
            return shown
    raise AssertionError


@pytest.mark.req("VIS-324")
def test_the_same_components_run_unchanged_without_scopes_and_in_any_graph() -> None:
    assert heard() == {"x": [0, 1, 2], "y": [0, 1, 2], "z": [0, 1, 2]}
    assert heard("x < S", "y < S", "z < T") == {"x": [0, 1], "y": [0, 1], "z": [2]}
    assert heard("x < S", "S < T", "y < T", "z < T") == {"x": [0, 1, 2], "y": [0, 1, 2], "z": [0, 1, 2]}
    assert heard("x < S", "y < T", "z < S", "z < T") == {"x": [0, 2], "y": [1, 2], "z": [0, 1, 2]}


@pytest.mark.req("VIS-325")
def test_scopes_know_nothing_of_the_language_of_subscriptions() -> None:
    world = Watched("abc", ["ab", "bc"], {"x": "a", "y": "c", "z": "c"}, routing=SIMPLE)
    world.make("x < S", "S < T", "y < T", "z < U")
    odd = {name: Counting(lambda one: int(one["n"]) % 2 == 1) for name in "yz"}  # type: ignore[call-overload]
    for name, filter in odd.items():
        world.client(name).subscribe(filter)
    world.network.run()
    for n in range(4):
        world.publish("x", n=n)
    assert world.got("y") == [Notification(n=1), Notification(n=3)]
    assert world.got("z") == []


@pytest.mark.req("VIS-304")
def test_what_cannot_be_seen_is_not_even_shown_to_a_filter() -> None:
    world = Watched("ab", ["ab"], {"x": "a", "y": "a", "z": "b", "w": "b"}, routing=SIMPLE)
    world.make("x < S", "y < T", "z < S", "w < S", w_S=Join("@w", "S", imposed=Interface.parse(input="n > 5")))
    filters = {name: Counting(lambda one: True) for name in "yzw"}
    for name, filter in filters.items():
        world.client(name).subscribe(filter)
    world.network.run()
    for n in (1, 6):
        world.publish("x", n=n)
    assert filters["y"].asked == [], "it is in another scope"
    assert set(filters["z"].asked) == {Notification(n=1), Notification(n=6)}
    assert set(filters["w"].asked) == {Notification(n=6)}, "its scope shows it large numbers only"


def work(*edges: str) -> tuple[int, int, int]:
    """Notifications sent between brokers, filters asked, notifications delivered, for the same workload."""
    places = {f"c{number}": "abcd"[number // 3] for number in range(12)}
    world = Watched("abcd", ["ab", "bc", "cd"], places, routing=SIMPLE)
    if edges:
        world.make(*edges)
    filters = {name: Counting(lambda one: True) for name in places}
    for name, filter in filters.items():
        world.client(name).subscribe(filter)
    world.network.run()
    before = [broker.statistics.sent[Notify] for broker in world.network.brokers.values()]
    for name in places:
        world.client(name).publish(n=1)
    world.network.run()
    after = [broker.statistics.sent[Notify] for broker in world.network.brokers.values()]
    asked = sum(len(filter.asked) for filter in filters.values())
    received = sum(len(client.received) for client in world.network.clients.values())
    return sum(after) - sum(before), asked, received


def test_scopes_save_notifications_on_links_and_questions_to_filters() -> None:
    """Twelve components that want everything. In four scopes, one at each broker, nothing has to leave a broker."""
    flat = work()
    scoped = work(*(f"c{number} < {'ABCD'[number // 3]}" for number in range(12)))
    assert flat[0] == 12 * 3
    assert scoped[0] == 0
    assert scoped[1] * 4 <= flat[1]
    assert (flat[2], scoped[2]) == (12 * 12, 12 * 3)
