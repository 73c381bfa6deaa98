"""While copies begin to listen, publications are on their way on links of any speed: each comes, and once."""

from __future__ import annotations

import random
from typing import Any

import pytest
from mobility.roamers import handing, held, homes, keeping, network, numbers, states, walker

from tidings.broker import RoutingOptions
from tidings.mobility import Outcome
from tidings.mobility._buffer import SharedBuffer
from tidings.sim import Network, SimClient, Weather, check

LINKS = ["ab", "bc", "co"]


def skewed(slow: str, algorithm: str) -> Network:
    """One link is slow, the others are quick: what one broker saw long ago is still on its way to another."""
    world = network(routing=RoutingOptions(algorithm))
    for link in LINKS:
        latency = 80_000 if link == slow else 500
        world.set_weather(*link, Weather(latency=(latency, latency)))
    return world


def stream(world: Network, feeds: list[SimClient], count: int, first: int = 0) -> None:
    """Each of these publishes every 2 ms."""
    for n in range(first, first + count):
        for feed in feeds:
            feed.publish(n=n, of=feed.name)
        world.run(0.002)


def of(client: SimClient, feed: SimClient) -> list[object]:
    return [one["n"] for one in client.received if one["of"] == feed.name]


@pytest.mark.req("MOB-029", "MOB-130")
@pytest.mark.parametrize(
    ("slow", "algorithm"), [("ab", "covering"), ("bc", "covering"), ("co", "covering"), ("bc", "flooding")]
)
def test_each_copy_has_what_was_published_while_it_was_being_activated(slow: str, algorithm: str) -> None:
    world = skewed(slow, algorithm)
    phone, far = walker(world)
    feeds = [far, world.add_client("near", "a"), world.add_client("beside", "b")]
    world.run(1)
    stream(world, feeds, 30)
    world.run(2)  # these are acknowledged, and the next ones are not
    stream(world, feeds, 30, first=30)
    received = {feed: len(of(phone, feed)) for feed in feeds}
    phone.vanish(noticed=0.05, kept=60)
    stream(world, feeds, 60, first=60)
    world.run(2)
    assert states(world) == {"b": "active", "c": "active"}
    for broker in "bc":
        copy = keeping(world, broker).copies["phone"]
        for feed in feeds:
            everything = [one.notification for one, _ in keeping(world, broker).buffer.all_of(copy)]
            kept = [one["n"] for one in everything if one["of"] == feed.name]
            assert kept == list(range(120 - len(kept), 120)), "in order, without a hole, each once"
            assert len(kept) >= 120 - received[feed]
    asked: list[str] = []
    world.tap = lambda name, link, frame: asked.append(type(frame.message).__name__)
    phone.attach("b")
    stream(world, feeds, 20, first=120)
    world.run(2)
    assert not {"Fetch", "Wave"} & set(asked)  # the copy had it all
    assert all(of(phone, feed) == list(range(140)) for feed in feeds)
    world.run(8)
    assert handing(world, "b").outcomes[Outcome.HIT] == 1
    assert not check(world.trace)


@pytest.mark.req("MOB-131")
@pytest.mark.parametrize("algorithm", ["covering", "flooding"])
@pytest.mark.parametrize("seed", range(3))
def test_each_broker_takes_what_one_publishes_in_its_order_though_the_tree_changes(
    algorithm: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring with links of all speeds, which are cut and healed: what comes later may come the shorter way."""
    rng = random.Random(seed)
    world = network(routing=RoutingOptions(algorithm), seed=seed)
    world.connect("a", "o")
    links = [*LINKS, "ao"]
    for link in links:
        latency = rng.choice((500, 5_000, 60_000))
        world.set_weather(*link, Weather(latency=(latency, latency)))
    buffered: dict[tuple[int, str, str], list[int]] = {}
    add = SharedBuffer.add

    def noted(buffer: SharedBuffer, envelope: Any, holder: Any, ids: tuple[str, ...]) -> None:
        assert len(ids) == 1
        place = (id(holder), envelope.identity.publisher, ids[0])
        buffered.setdefault(place, []).append(envelope.identity.publisher_seq)
        add(buffer, envelope, holder, ids)

    monkeypatch.setattr(SharedBuffer, "add", noted)
    phone, far = walker(world)
    feeds = [far, world.add_client("near", "a")]
    readers = [world.add_client(f"reader-{name}", name) for name in "bo"]
    for reader in readers:
        reader.subscribe("n >= 0")
    world.run(2)
    phone.vanish(noticed=0.05, kept=60)
    published = 0
    for _ in range(3):
        stream(world, feeds, 15, published)
        published += 15
        cut = rng.choice(links)
        world.cut(*cut)
        stream(world, feeds, 15, published)
        published += 15
        world.run(rng.choice((0, 0.05, 1)))
        world.heal(*cut)
    world.run(3)
    assert len(buffered) > 4
    for place, sequence in buffered.items():
        assert sequence == sorted(set(sequence)), place
    phone.attach("c")
    world.run(8)
    for reader in [*readers, phone]:
        for feed in feeds:
            assert of(reader, feed) == list(range(published))
    assert not check(world.trace)


@pytest.mark.req("MOB-094")
def test_a_client_that_dies_is_one_that_is_away_and_one_that_stays_dead_leaves_nothing() -> None:
    for comes_back in (True, False):
        world = network()
        phone, feed = walker(world)
        phone.vanish(noticed=0.5, kept=1)  # all that its broker sees is a connection without a word
        world.run(3)
        assert states(world) == {"b": "active", "c": "active"}
        feed.publish(n=1)
        world.run(3)
        assert held(world, "b") == [1]
        if comes_back:
            phone.attach("b")
            world.run(8)
            assert numbers(phone) == [1]
            assert states(world) == {"a": "passive", "c": "passive"}
        else:
            world.run(130)
            assert states(world) == {}
            assert all(not keeping(world, name).buffer.bytes for name in "abc")
            assert not homes(world, "a")
