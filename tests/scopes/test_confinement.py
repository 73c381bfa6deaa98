"""What is in a scope stays with the brokers that carry it."""

from __future__ import annotations

import pytest

from tidings.broker import Link
from tidings.model import EVERYTHING, ROOT_SCOPE, Route
from tidings.scopes import OPEN, CreateScope, Join, Scopes
from tidings.sim import Network, Scenario
from tidings.wire import Fetch, Fetched, Frame, Notify


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
        network.brokers["a"].recovery.requested(Fetch("a", requester, 1, {epoch: 0}, (EVERYTHING,)))
    assert told == {"b": [1, 2], "c": [2]}
    assert set(network.brokers["c"].scoping.tables) == {ROOT_SCOPE}
