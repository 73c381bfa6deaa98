"""Who handles a message: its type says so, and for a message of a feature the name of the feature."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidings.broker
from tidings.broker import Feature, Link
from tidings.sim import Network
from tidings.wire import Extension, Frame, Publish

ROOMS = ("overlay", "interest", "outlets", "forwarding")
"""The lowest first: connections and the tree, then what is wanted and what goes where."""


class Passing(Feature):
    """Changes what comes, passes it on to the other neighbours, and answers the broker that it came from first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: list[bytes] = []
        self.answers: list[tuple[str, bytes]] = []

    def on_message(self, link: Link, body: bytes) -> None:
        origin, _, way = body.partition(b":")
        self.heard.append(body)
        for other in self.context.neighbours:
            if other is not link:
                self.context.send(other, origin + b":" + way + self.context.name.encode())
        self.context.send_to(origin.decode(), self.context.name.encode())

    def on_routed(self, source: str, body: bytes) -> None:
        self.answers.append((source, body))


def chain() -> Network:
    network = Network(seed=1, features=lambda name: [Passing("one"), Passing("two")])
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    return network


def feature(network: Network, broker: str, name: str) -> Passing:
    found = network.brokers[broker].features[name]
    assert isinstance(found, Passing)
    return found


def start(network: Network, name: str, body: bytes = b"a:") -> None:
    """Let broker a send a message of a feature to b."""
    (link,) = network.brokers["a"].adjacency.open_links
    network.brokers["a"].send(link, Extension(name, body))
    network.run()


@pytest.mark.req("AGG-121")
def test_the_subject_of_a_message_chooses_who_handles_it() -> None:
    network = chain()
    start(network, "one")
    assert (feature(network, "b", "one").heard, feature(network, "b", "two").heard) == ([b"a:"], [])
    refused = network.brokers["b"].statistics.refused
    start(network, "nobody")
    assert network.brokers["b"].statistics.refused == refused + 1
    assert feature(network, "b", "one").heard == [b"a:"]


@pytest.mark.req("AGG-121")
def test_what_clients_may_say_is_not_heard_from_neighbours() -> None:
    network = chain()
    reader = network.add_client("reader", "b")
    reader.subscribe("TRUE")
    network.run()
    broker = network.brokers["b"]
    (link,) = (one for one in broker.adjacency.open_links if one.name == "a")
    refused = broker.statistics.refused
    broker.receive(link, Frame(Publish(1, b"\x80"), broker.adjacency.hop))
    network.run()
    assert broker.statistics.refused == refused + 1
    assert reader.received == []


@pytest.mark.req("AGG-122")
def test_whoever_handles_a_message_may_change_it_pass_it_on_and_send_others() -> None:
    network = chain()
    start(network, "two")
    assert feature(network, "b", "two").heard == [b"a:"]
    assert feature(network, "c", "two").heard == [b"a:b"]  # changed on the way
    assert feature(network, "a", "two").heard == []  # and not sent back
    assert feature(network, "a", "two").answers == [("b", b"b"), ("c", b"c")]


@pytest.mark.req("AGG-120")
def test_the_overlay_knows_nothing_of_routing_and_no_room_knows_one_above_it() -> None:
    core = Path(tidings.broker.__file__).parent
    for height, room in enumerate(ROOMS):
        above = {f"tidings.broker.{other}" for other in ROOMS[height + 1 :]} | {"tidings.broker._broker"}
        for file in (core / room).glob("*.py"):
            known = {name for name in _imports(ast.parse(file.read_text())) if _is_in(name, above)}
            assert not known, f"{file} imports {known}"


def _imports(module: ast.Module) -> Iterator[str]:
    """Everything that is imported when a module is, by its full name."""
    for node in module.body:  # what stands behind `if TYPE_CHECKING` is not imported
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= 1, "rooms are imported by their full names"
            if not node.level:
                yield from (f"{node.module}.{one.name}" for one in node.names)


def _is_in(name: str, packages: set[str]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in packages)
