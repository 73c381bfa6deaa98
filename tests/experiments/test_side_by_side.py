"""The system that aggregation inside the brokers is compared with counts the same, over links of its own."""

from __future__ import annotations

import random

import pytest

from tidings.aggregation import AggregationOptions
from tidings.aggregation.messages import FEATURE, Told, decode
from tidings.broker import Link, RoutingOptions
from tidings.experiments import Client, System, World
from tidings.sim import topologies
from tidings.wire import Extension, Frame

TOPICS = 4


def changing(system: System, seed: int, bound: float = 0) -> tuple[World, list[list[int]], dict[int, int]]:
    """A random workload: what each of three watches of each topic was told last, and the truth."""
    rng = random.Random(seed)
    shape = topologies.random_tree(6, rng)
    world = World(system, shape.brokers, shape.links, routing=RoutingOptions("identity"))
    clients = [world.add_client(f"c{number}", rng.choice(shape.brokers)) for number in range(10)]
    world.run()
    watches = [
        [client.watch(f"topic = {topic}", f"w{topic}", bound) for client in clients[:3]] for topic in range(TOPICS)
    ]
    world.run()
    world.sent.clear()
    held: set[tuple[Client, int]] = set()
    for _ in range(60):
        client, topic = rng.choice(clients), rng.randrange(TOPICS)
        if (client, topic) in held:
            held.remove((client, topic))
            client.unsubscribe(f"s{topic}")
        else:
            held.add((client, topic))
            client.subscribe(f"topic = {topic}", f"s{topic}")
        rng.choice(clients).publish(topic=rng.randrange(TOPICS))
        world.run(0.02)
    world.run()
    told = [[one.last.value for one in each if one is not None and one.last is not None] for each in watches]
    return world, told, {topic: sum(one == topic for _, one in held) for topic in range(TOPICS)}


@pytest.mark.req("AGG-152")
@pytest.mark.req("AGG-152")
@pytest.mark.parametrize("system", [System.INSIDE, System.BESIDE])
def test_nodes_beside_the_brokers_count_as_brokers_do(system: System) -> None:
    _, told, truth = changing(system, 3)
    assert told == [[truth[topic]] * 3 for topic in range(TOPICS)]


@pytest.mark.req("AGG-152")
@pytest.mark.req("AGG-152")
def test_nodes_send_what_they_count_by_itself_and_nothing_else() -> None:
    world, _, _ = changing(System.PLAIN, 4)
    plain = world.sent["control"]
    world = World(System.BESIDE, "ab", ["ab"])
    assert world.nodes is not None
    watcher, other = world.add_client("w", "a"), world.add_client("o", "b")
    world.run()
    sent: list[Frame] = []
    noted = world.nodes.tap

    def note(broker: str, link: Link, frame: Frame) -> None:
        if link.is_broker:
            sent.append(frame)

    world.nodes.tap = note
    watcher.watch("topic = 1", "w")
    world.run()
    sent.clear()
    for number in range(3):
        other.subscribe("topic = 1", f"s{number}")
        other.publish(topic=1)
        other.unsubscribe(f"s{number}")
        world.run(0.1)
    assert noted is not None
    told = [
        decode(one.message.body)
        for one in sent
        if isinstance(one.message, Extension) and one.message.feature == FEATURE
    ]
    assert [len(one.updates) for one in told if isinstance(one, Told)] == [1] * 6  # each change is a message
    assert len(told) == len(sent)  # and nothing else is sent: no subscription, no publication
    assert not any((frame.hop.attachments or {}) for frame in sent)
    assert plain


@pytest.mark.req("AGG-151")
def test_what_is_inside_costs_fewer_frames_than_what_stands_beside() -> None:
    frames = {system: changing(system, 5)[0].sent["control"] for system in System}
    assert frames[System.PLAIN] < frames[System.INSIDE] < frames[System.BESIDE]
    rough = {system: changing(system, 5, bound=8)[0].sent["control"] for system in System}
    assert rough[System.PLAIN] <= rough[System.INSIDE] < rough[System.BESIDE]
    assert rough[System.INSIDE] < frames[System.INSIDE]


def test_a_client_of_a_plain_world_is_told_nothing() -> None:
    world = World(System.PLAIN, "a", [], options=AggregationOptions())
    assert world.add_client("c", "a").watch("TRUE", "w") is None
