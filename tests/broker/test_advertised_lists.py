"""Lists and advertisements: what is advertised is promised for each element, so nothing that is published gets lost."""

from __future__ import annotations

from tidings.broker import RoutingOptions
from tidings.model import Filter, Location
from tidings.sim import Network


def test_a_list_must_be_announced_by_one_alternative_as_a_whole() -> None:
    """`['a', 'b']` passes `tags = 'a' AND tags = 'b'`, which overlaps neither `tags = 'a'` nor `tags = 'b'`."""
    for announced in (["tags = 'a'", "tags = 'b'"], ["tags = 'a' OR tags = 'b'"]):
        network = Network(1, routing=RoutingOptions(advertisements=True))
        network.add_brokers("ab", links=["ab"])
        alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
        bob.subscribe("tags = 'a' AND tags = 'b'")
        for text in announced:
            alice.advertise(text)
        network.run()
        alice.publish(tags=["a", "b"])
        network.run()
        assert [refusal.error for refusal in alice.refusals] == ["NotAdvertised"]
        alice.advertise("tags IN ('a', 'b')")
        network.run()
        alice.publish(tags=["a", "b"])
        network.run()
        assert len(bob.received) == 1


def test_long_lists_are_checked_one_by_one_and_not_in_every_combination() -> None:
    network = Network(1, routing=RoutingOptions(advertisements=True))
    network.add_broker("a")
    alice = network.add_client("alice", "a")
    alice.subscribe("x = 7 AND y = 7")
    alice.advertise("x >= 0 AND y >= 0")
    network.run()
    alice.publish(x=list(range(1_000)), y=list(range(1_000)))
    network.run()
    assert len(alice.received) == 1


def test_markers_are_resolved_under_not_as_well() -> None:
    filter = Filter.parse("NOT place WITHIN myloc").resolve(Location("/berlin"))
    assert not filter.has_marker
    assert filter.matches({"place": Location("/paris")})
    assert not filter.matches({"place": Location("/berlin/mitte")})
