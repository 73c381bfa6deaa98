"""Origins are killed again and again while copies listen: what had reached a copy reaches its client."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from mobility.roamers import OPTIONS, keeping
from soaking import long

from tidings.mobility import Edge, Hosts, Neighbourhood, Roaming
from tidings.sim import Network, SimClient, Weather, check
from tidings.wire import Quality

HOSTS = "abc"
ORIGINS = {"p": "a", "q": "b", "r": "c"}
"""Each with the broker to which it is linked."""
PHONES = 6


@dataclass
class Count:
    """What came of it."""

    kills: int = 0
    published: int = 0
    reached: int = 0
    """How many notifications of origins that died were held by the copy that their client found, over all clients."""
    lost: int = 0
    """How many of these did not reach the client."""
    elsewhere: int = 0
    """How many notifications of such origins reached nobody's client: they died with them."""


def world(seed: int) -> Network:
    edges = [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in ("ab", "ac", "bc")]

    def features(name: str) -> list[Any]:
        hosts = Hosts()
        neighbourhood = Neighbourhood(hosts, OPTIONS.graph, edges)
        return [hosts, neighbourhood, Roaming(OPTIONS, hosts, neighbourhood)]

    made = Network(seed, features=features, weather=Weather(latency=(1_000, 20_000)))
    made.add_brokers([*HOSTS, *ORIGINS], links=["ab", "bc", "ca", *map("".join, ORIGINS.items())])
    made.run()
    return made


def kill(
    world: Network, rng: random.Random, phones: dict[str, SimClient], feeds: dict[str, SimClient], count: Count
) -> None:
    """All phones go, origins publish, one of these dies, and the phones arrive where there are copies."""
    at = {name: phone.broker for name, phone in phones.items()}
    for phone in phones.values():
        phone.vanish(noticed=0.2, kept=60)
    world.run(2)
    victim, published = rng.choice(sorted(ORIGINS)), []
    for _ in range(rng.randrange(5, 40)):
        for name, feed in feeds.items():
            count.published += 1
            feed.publish(n=count.published, of=name, quality=Quality.ACCEPTED)
            published += [count.published] if name == victim else []
        world.run(rng.choice((0, 0.001, 0.01)))
    world.crash(victim)
    world.run(rng.choice((0.05, 1)))
    due: dict[str, list[object]] = {}
    for name, phone in phones.items():
        target = rng.choice([one for one in HOSTS if one != at[name]])
        keeps = keeping(world, target)
        held = [one.notification for one, _ in keeps.buffer.all_of(keeps.copies[name])]
        due[name] = [one["n"] for one in held if one["of"] == victim]
        phone.attach(target)
    world.run(2)
    world.restart(victim)
    feeds[victim].attach(victim)
    world.run(10)
    count.kills += 1
    everybody: set[object] = set()
    for name, phone in phones.items():
        got = [one["n"] for one in phone.received]
        assert len(got) == len(set(got)), "nothing comes twice"
        everybody.update(got)
        count.reached += len(due[name])
        count.lost += len(set(due[name]).difference(got))
        phone.received.clear()
    count.elsewhere += len(set(published) - everybody)


@pytest.mark.parametrize("kills", [5, long(100)])
def test_what_had_reached_a_copy_outlives_its_origin(kills: int) -> None:
    rng, count = random.Random(kills), Count()
    network = world(kills)
    phones = {f"phone{n}": network.add_client(f"phone{n}", HOSTS[n % len(HOSTS)]) for n in range(PHONES)}
    feeds = {name: network.add_client(f"feed-{name}", name) for name in ORIGINS}
    for phone in phones.values():
        phone.subscribe("n >= 0")
    network.run(5)
    for _ in range(kills):
        kill(network, rng, phones, feeds, count)
    print(count)
    assert count.kills == kills
    assert count.reached > 20 * kills
    assert count.lost == 0
    assert count.elsewhere > 0, "origins did die with something that had not got out"
    assert not check(network.trace)
