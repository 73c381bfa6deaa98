"""What ends with a subscription, and what does not."""

from __future__ import annotations

import pytest

from tidings.broker import LocalBroker, RoutingOptions
from tidings.model import ROOT_ROUTE, Identity, Notification
from tidings.sim import Network, broken_invariants, check
from tidings.wire import Deliver, Envelope, Frame, Quality, encode_body


@pytest.mark.req("ARC-230")
def test_a_notification_that_was_under_way_when_its_subscription_ended_is_handed_to_nobody() -> None:
    got: list[str] = []
    local = LocalBroker("bob", lambda frame: None)
    for id in ("ended", "stays"):
        local.subscribe("TRUE", lambda notification, id=id: got.append(id), id=id)  # type: ignore[misc]
    notification = Notification(n=1)
    envelope = Envelope.of(
        Identity("a", 1, 1, "alice", 1, 0), (ROOT_ROUTE,), encode_body(notification), Quality.ACCEPTED, notification
    )
    local.unsubscribe("ended")
    local.receive(Frame(Deliver(envelope, ("ended", "stays"))))
    assert got == ["stays"]


@pytest.mark.req("ARC-231")
@pytest.mark.parametrize("algorithm", ["flooding", "simple", "identity", "covering", "merging", "imperfect-merging"])
def test_ending_a_filter_ends_no_other_of_the_same_client_whatever_it_covers(algorithm: str) -> None:
    network = Network(1, routing=RoutingOptions(algorithm))
    network.add_brokers("abc", links=["ab", "bc"])
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "c")
    for id, text in (("wide", "n > 0"), ("same", "n > 0"), ("narrow", "n > 5"), ("narrowest", "n = 7")):
        bob.subscribe(text, id=id)
    network.run()
    counts = []
    for ended in ("wide", "same", "narrow"):
        bob.unsubscribe(ended)
        network.run()
        for n in (3, 6, 7):
            alice.publish(n=n)
        network.run()
        counts.append(len(bob.received))
        bob.received.clear()
        assert broken_invariants(network) == []
    assert counts == [1 + 2 + 3, 1 + 2, 1]
    assert set(bob.subscriptions) == {"narrowest"}
    assert check(network.trace) == []
