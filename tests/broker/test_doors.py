"""What features say to each other at other brokers: riding on messages, and messages to any broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidings.broker import Feature, Joinpoint, Link, LinkKind
from tidings.model import FeatureError
from tidings.sim import Network, Weather
from tidings.wire import Frame

STILL = Weather(latency=(1_000, 1_000))
SOON = 50_000
"""Microseconds for which a rider waits in these tests."""


class Talking(Feature):
    """Notes everything that it hears, in the order in which it hears it."""

    name = "talking"

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, object]] = []

    def on_attached(self, link: Link, data: bytes) -> None:
        self.heard.append(("attached", link.name, data))

    def on_message(self, link: Link, body: bytes) -> None:
        self.heard.append(("message", link.name, body))

    def on_routed(self, source: str, body: bytes) -> None:
        self.heard.append(("routed", source, body))

    def advice(self) -> dict[Joinpoint, Callable[..., Any]]:
        def note(proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
            self.heard.append(("subscription", entry.link.name, str(entry.filter)))
            return proceed()

        return {Joinpoint.SUB_ADD: note}

    def link_to(self, neighbour: str) -> Link:
        return next(link for link in self.context.neighbours if link.name == neighbour)


def world(links: list[str]) -> tuple[Network, dict[str, Talking]]:
    network = Network(weather=STILL, features=lambda name: [Talking()])
    network.add_brokers(sorted({broker for link in links for broker in link}), links=links)
    network.run()
    return network, talkers(network)


def talkers(network: Network) -> dict[str, Talking]:
    return {name: broker.features["talking"] for name, broker in network.brokers.items()}  # type: ignore[misc]


def test_what_rides_is_made_when_its_carrier_leaves_and_heard_before_it_is_handled() -> None:
    network, talking = world(["ab"])
    value = [1]
    talking["a"].context.ride(talking["a"].link_to("b"), lambda: b"%d" % value[0], SOON)
    value[0] = 2
    network.add_client("alice", "a").subscribe("n > 0")
    network.run(seconds=0.01)
    assert talking["b"].heard == [("attached", "a", b"2"), ("subscription", "a", "n > 0")]
    network.run()
    assert len(talking["b"].heard) == 2, "it has gone once"


def test_what_rides_on_something_repeated_is_heard_all_the_same() -> None:
    network, talking = world(["ab"])
    alice = network.add_client("alice", "a")
    alice.subscribe("n > 0")
    network.run()
    talking["b"].heard.clear()
    broker, link = network.brokers["a"], talking["a"].link_to("b")
    told = broker.root.subscriptions.told(link)
    talking["a"].context.ride(link, lambda: b"again", SOON)
    from tidings.wire import Subscribe

    for id, filter in told.items():
        broker.send(link, Subscribe(id, filter))
    network.run()
    assert talking["b"].heard == [("attached", "a", b"again")]


def test_what_finds_no_carrier_in_time_goes_by_itself() -> None:
    network, talking = world(["ab"])
    talking["a"].context.ride(talking["a"].link_to("b"), lambda: b"alone", SOON)
    begin = network.scheduler.now
    network.run()
    assert talking["b"].heard == [("message", "a", b"alone")]
    assert network.scheduler.now - begin == SOON + 1_000


def test_a_rider_that_has_nothing_to_say_any_more_costs_no_frame() -> None:
    network, talking = world(["ab"])
    before = network.frames
    talking["a"].context.ride(talking["a"].link_to("b"), lambda: None, SOON)
    network.run()
    assert network.frames == before
    assert talking["b"].heard == []


def test_the_latest_to_ride_takes_the_place_of_the_one_before() -> None:
    network, talking = world(["ab"])
    for value in (b"old", b"new"):
        talking["a"].context.ride(talking["a"].link_to("b"), lambda value=value: value, SOON)  # type: ignore[misc]
    network.run()
    assert talking["b"].heard == [("message", "a", b"new")]


def test_a_link_with_a_rider_leaves_its_group_and_the_others_get_their_frame() -> None:
    network, talking = world(["ab", "ac", "ad"])
    frames: list[tuple[str, Frame]] = []
    for name in "bcd":
        network.add_client(f"at-{name}", name).subscribe("n EXISTS")
    network.run()
    alice = network.add_client("alice", "a")
    network.tap = lambda broker, link, frame: frames.append((link.name, frame))
    talking["a"].context.ride(talking["a"].link_to("c"), lambda: b"rides", SOON)
    alice.publish(n=1)
    network.run(seconds=0.01)
    carried = {name: frame.hop.attachments for name, frame in frames if type(frame.message).__name__ == "Notify"}
    assert carried == {"b": None, "c": {"talking": b"rides"}, "d": None}
    assert all(len(network.clients[f"at-{name}"].received) == 1 for name in "bcd")


def test_nothing_rides_on_what_is_heard_outside_the_tree_and_a_new_tree_drops_it() -> None:
    network, talking = world(["ab", "bc"])
    carried: list[str] = []

    def tap(broker: str, link: Link, frame: Frame) -> None:
        if frame.hop.attachments:
            carried.append(type(frame.message).__name__)

    network.tap = tap
    made: list[int] = []
    talking["b"].context.ride(talking["b"].link_to("a"), lambda: made.append(1) or b"old tree", SOON)
    network.cut("b", "c")
    network.run()
    assert (carried, made, talking["a"].heard) == ([], [], [])


@pytest.mark.parametrize("link", [Link("b", LinkKind.BROKER), Link("alice", LinkKind.CLIENT)])
def test_riding_on_a_foreign_link_is_refused(link: Link) -> None:
    _, talking = world(["ab"])
    with pytest.raises(FeatureError, match=r"cannot ride to .* no tree neighbour of broker 'a' now; take a link from"):
        talking["a"].context.ride(link, lambda: b"", SOON)


def test_a_rider_that_is_too_large_is_a_failure_of_the_feature() -> None:
    network, talking = world(["ab"])
    talking["a"].context.ride(talking["a"].link_to("b"), lambda: b"x" * 100_000, SOON)
    with pytest.raises(FeatureError, match=r"'talking' gives 100,000 bytes as an attachment, .* give at most 65,536"):
        network.run()


def test_any_broker_can_be_told_something_behind_everything_sent_before() -> None:
    network, talking = world(["ab", "bc", "cd"])
    network.add_client("alice", "a").subscribe("n > 0")
    network.run(seconds=0.001)  # the broker has it, and passes it on
    assert talking["a"].context.send_to("d", b"one")
    assert talking["a"].context.send_to("d", b"two")
    network.run()
    assert talking["d"].heard == [("subscription", "c", "n > 0"), ("routed", "a", b"one"), ("routed", "a", b"two")]
    assert all(("routed", "a", b"one") not in talking[name].heard for name in "abc")


def test_a_broker_that_cannot_be_reached_is_reported() -> None:
    network, talking = world(["ab", "bc"])
    assert not talking["a"].context.send_to("nobody", b"x")
    network.cut("b", "c")
    network.run()
    assert not talking["a"].context.send_to("c", b"x")
    with pytest.raises(FeatureError, match=r"2,000,000 bytes as a message to broker 'b', .* at most 1,048,576"):
        talking["a"].context.send_to("b", b"x" * 2_000_000)
