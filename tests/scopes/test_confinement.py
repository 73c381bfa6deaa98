"""What is in a scope stays with the brokers that carry it."""

from __future__ import annotations

import pytest

from tidings.broker import Link
from tidings.model import EVERYTHING, ROOT_ROUTE, ROOT_SCOPE, Route
from tidings.scopes import OPEN, CreateScope, Join, Scopes
from tidings.sim import Network, Scenario
from tidings.wire import Deliver, Fetch, Fetched, Frame, Notify


@pytest.mark.parametrize("seed", range(200, 212))
def test_a_notification_in_a_scope_takes_only_links_between_brokers_that_carry_it(seed: int) -> None:
    network = Scenario.scoped(seed, faults=False).build()
    strays: list[tuple[str, str, Route]] = []

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Notify):
            envelope = frame.message.envelope
            view = network.brokers[broker].scoping.view(envelope.identity.graph_epoch)
            assert view is not None
            strays.extend(
                (broker, link.name, route)
                for route in envelope.routes
                if not (view.carries(broker, route.scope) and view.carries(link.name, route.scope))
            )

    network.tap = tap
    network.run()
    assert not strays


def test_who_was_made_a_member_before_it_came_publishes_nothing_outside() -> None:
    """The first version of the graph is in force; its broker asks for the scope only when the client is there."""
    network = Network(5, features=lambda name: [Scopes("a")])
    network.add_brokers("ab", ["ab"])
    outside = network.add_client("outside", "b")
    outside.subscribe("TRUE")
    network.run()
    network.change("a", (CreateScope("secret"), Join("@insider", "secret")))
    network.run()
    assert network.brokers["b"].scoping.active.version == 1
    insider = network.add_client("insider", "b")
    insider.subscribe("TRUE")
    insider.publish(n=1)
    network.run()
    assert outside.received == []
    assert [dict(notification) for notification in insider.received] == [{"n": 1}]


def test_a_client_is_not_told_by_which_scope_it_is_reached() -> None:
    """Between brokers the header names the scope; members, near and far, get what anybody outside would get."""
    network = Network(5, features=lambda name: [Scopes("a")])
    network.add_brokers("ab", ["ab"])
    writer, near, far = (network.add_client(name, at) for name, at in (("writer", "a"), ("near", "a"), ("far", "b")))
    network.run()
    network.change("a", (CreateScope("secret"), *(Join(f"@{name}", "secret") for name in ("writer", "near", "far"))))
    near.subscribe("TRUE")
    far.subscribe("TRUE")
    network.run()
    between: list[Route] = []
    handed: dict[str, tuple[Route, ...]] = {}

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Deliver):
            handed[link.name] = frame.message.envelope.routes
        elif isinstance(frame.message, Notify):
            between.extend(frame.message.envelope.routes)

    network.tap = tap
    writer.publish(n=1)
    network.run()
    assert [route.scope for route in between] == ["secret"]
    assert handed == {"near": (ROOT_ROUTE,), "far": (ROOT_ROUTE,)}


def test_an_origin_tells_a_broker_nothing_of_scopes_that_it_has_no_part_in() -> None:
    network = Network(5, features=lambda name: [Scopes("a")])
    network.add_brokers("abc", ["ab", "bc"])
    insider, reader = network.add_client("insider", "a"), network.add_client("reader", "b")
    stranger = network.add_client("stranger", "a")
    network.run()
    network.change("a", (CreateScope("secret", OPEN), Join("@insider", "secret"), Join("@reader", "secret")))
    reader.subscribe("TRUE")
    network.run()
    insider.publish(n=1)
    network.run()
    stranger.publish(n=2)
    network.run()
    assert [dict(notification) for notification in reader.received] == [{"n": 1}]
    told: dict[str, list[int]] = {}

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if broker == "a" and isinstance(frame.message, Fetched):
            numbers = [envelope.identity.seq for envelope in frame.message.envelopes]
            told.setdefault(frame.message.requester, []).extend(numbers)

    network.tap = tap
    epoch = network.brokers["a"].epoch
    for requester in "bc":
        network.brokers["a"].recovery.fetching.requested(Fetch("a", requester, 1, {epoch: 0}, (EVERYTHING,)))
    assert told == {"b": [1, 2], "c": [2]}
    assert set(network.brokers["c"].scoping.tables) == {ROOT_SCOPE}
