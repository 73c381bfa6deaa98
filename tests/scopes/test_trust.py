"""A scope that trusts some brokers only: its traffic goes nowhere else, and whoever would need it is told."""

from __future__ import annotations

from tidings.broker import Link
from tidings.scopes import OPEN, CreateScope, Join, Scopes
from tidings.sim import Network
from tidings.wire import Frame, Notify, Subscribe


def triangle() -> Network:
    """Brokers a, b and m; the tree joins a and b directly, and over m if that link is cut."""
    network = Network(11, features=lambda name: [Scopes("a")])
    network.add_brokers("abm", ["ab", "am", "bm"])
    for client, broker in (("x", "a"), ("y", "b"), ("spy", "m")):
        network.add_client(client, broker)
    network.run()
    return network


def heard_by(network: Network, broker: str, scope: str) -> list[Frame]:
    """What a broker is sent of a scope from now on."""
    frames: list[Frame] = []

    def tap(sender: str, link: Link, frame: Frame) -> None:
        message = frame.message
        if link.name == broker and (
            (isinstance(message, Notify) and any(route.scope == scope for route in message.envelope.routes))
            or (isinstance(message, Subscribe) and message.scope == scope)
        ):
            frames.append(frame)

    network.tap = tap
    return frames


def test_a_change_that_would_lead_a_scope_over_a_broker_it_does_not_trust_is_refused() -> None:
    network = Network(11, features=lambda name: [Scopes("a")])
    network.add_brokers("amb", ["am", "mb"])
    network.add_client("x", "a")
    network.add_client("y", "b")
    network.run()
    (answer,) = _run(network, CreateScope("vault", OPEN, trusted=("a", "b")), Join("@x", "vault"))
    assert not answer.error
    (answer,) = _run(network, Join("@y", "vault"))
    assert not answer.error  # y may be a member; b cannot be reached without m, so it gets nothing there
    y = network.clients["y"]
    y.subscribe("TRUE")
    frames = heard_by(network, "m", "vault")
    network.run()
    network.clients["x"].publish(n=1)
    network.run()
    assert not y.received
    assert not frames
    assert "vault" not in network.brokers["m"].scoping.tables


def test_traffic_stands_still_while_the_tree_needs_a_broker_that_is_not_trusted() -> None:
    network = triangle()
    (answer,) = _run(network, CreateScope("vault", OPEN, trusted=("a", "b")), Join("@x", "vault"), Join("@y", "vault"))
    assert not answer.error
    x, y = network.clients["x"], network.clients["y"]
    y.subscribe("n > 0")
    network.run()
    frames = heard_by(network, "m", "vault")
    x.publish(n=1)
    network.run()
    network.cut("a", "b")
    network.run(5)
    x.publish(n=2)
    network.run(5)
    assert [notification["n"] for notification in y.received] == [1]
    network.heal("a", "b")
    network.run()
    assert [notification["n"] for notification in y.received] == [1, 2]
    assert not frames


def _run(network: Network, *changes: CreateScope | Join) -> list:  # type: ignore[type-arg]
    answers = network.change("a", changes)
    network.run()
    return answers
