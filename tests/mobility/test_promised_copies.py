"""The cells of docs/promises.md about copies and names: what happens is what the cell says."""

from __future__ import annotations

import dataclasses
from typing import Any

from mobility.roamers import OPTIONS, held, keeping, network, numbers, walker
from promised import each_quality, happened, outcome

from tidings.mobility import Denied, Hosts, Newcomer
from tidings.sim import Network, Outcome, SimClient, check
from tidings.wire import Quality

USED_TWICE = outcome("one-host", "name used twice", "mobility")


def publish(feed: SimClient, quality: str, several: range, **more: Any) -> None:
    for n in several:
        feed.publish(n=n, quality=Quality[quality.upper()], **more)


def told(world: Network) -> list[int]:
    """The numbers of the publications that gaps speak of, if they end."""
    gaps = [one.detail for one in world.trace.records if one.op.value == "gap"]
    return [n for gap in gaps if gap.last is not None for n in range(gap.first, gap.last + 1)]


@each_quality("origin crash, copy ready", "mobility")
def test_what_a_copy_has_got_is_delivered_although_its_origin_has_lost_it(quality: str, promised: Outcome) -> None:
    world = network()
    phone, feed = walker(world)
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    publish(feed, quality, range(1, 4))
    world.run(0.1)
    assert held(world, "b") == [1, 2, 3]
    world.crash("o")
    world.run(1)
    phone.attach("b")
    world.run(2)
    world.restart("o")
    world.run()
    assert happened([1, 2, 3], numbers(phone)) is promised
    assert not check(world.trace)


@each_quality("buffer exceeded", "mobility")
def test_what_a_buffer_had_no_room_for_comes_from_its_origin(quality: str, promised: Outcome) -> None:
    world = network(dataclasses.replace(OPTIONS, buffer_bytes=5_000))
    phone, feed = walker(world)
    phone.vanish(noticed=0.3, kept=60)
    world.run(2)
    publish(feed, quality, range(1, 31), text="x" * 1_000)
    world.run(2)
    assert 0 < len(held(world, "b")) < 10
    assert keeping(world, "b").buffer.overwritten
    phone.attach("b")
    world.run()
    assert happened(range(1, 31), numbers(phone), told(world)) is promised
    assert not check(world.trace)


def test_a_name_that_is_used_twice_is_refused_wherever_it_is() -> None:
    world = network()
    walker(world)
    for broker in "abc":
        hosts, verdicts = world.brokers[broker].features["hosts"], []
        assert isinstance(hosts, Hosts)
        hosts.enter(Newcomer("phone", "phone"), verdicts.append)
        world.run(3)
        [verdict] = verdicts
        assert (Outcome.REFUSED if isinstance(verdict, Denied) else None) is USED_TWICE
        assert "broker 'a'" in verdict.reason
    assert not check(world.trace)
