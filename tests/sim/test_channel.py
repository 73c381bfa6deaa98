"""A radio channel: what is lost and doubled below the transport costs time and bandwidth, and nothing else."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import tidings
from tidings.model import ArgumentRefused
from tidings.sim import Network, Weather, World, check
from tidings.sim._channel import MAX_RESENDS, transmitted

RADIO: dict[str, Any] = {"latency": (5_000, 5_000), "bandwidth": 1_375_000}
"""5 ms and 11 Mbit/s."""


def delays(**more: Any) -> tuple[list[int], Network]:
    """How long 200 notifications take from a broker to a client over its own link, in microseconds."""
    network = Network(3, weather=Weather(latency=(0, 0)), client_weather=Weather(**{**RADIO, **more}))
    network.add_brokers("a")
    feed, phone = network.add_client("feed", "a"), network.add_client("phone", "a")
    phone.subscribe("n EXISTS")
    network.run()
    sent, came = [], []
    for number in range(200):
        begin = network.scheduler.now
        feed.publish(n=number)
        while len(phone.received) <= number:
            network.run(0.001)
        sent.append(begin)
        came.append(network.scheduler.now - begin)
        network.run(1)
    assert [one["n"] for one in phone.received] == list(range(200)), "all of them, once, in order"
    return came, network


@pytest.mark.req("MOB-110")
def test_what_is_lost_comes_again_later_and_nobody_above_misses_it() -> None:
    clear, network = delays()
    assert (network.lost, network.doubled) == (0, 0)
    assert set(clear) == {11_000}, "5 ms to the broker, 5 ms from it, and the time that the bytes take"
    lossy, network = delays(loss=0.1, resend_after=100_000)
    assert network.lost > 20
    late = [one for one in lossy if one > 11_000]
    assert 200 * 0.1 < len(late) < 200 * 0.3, "a tenth is lost on each of two ways"
    assert min(late) >= 100_000
    assert {one for one in lossy if one <= 11_000} == {11_000}


@pytest.mark.req("MOB-110")
def test_what_is_doubled_takes_bandwidth_and_nobody_above_sees_it_twice() -> None:
    _, clear = delays()
    _, doubled = delays(duplication=0.5)
    assert doubled.lost == 0
    assert doubled.frames == clear.frames
    assert doubled.doubled > 0.4 * clear.frames
    assert 1.3 < doubled.bytes / clear.bytes < 1.7


@pytest.mark.req("MOB-110")
def test_a_narrow_channel_is_slower_and_so_is_one_that_repeats() -> None:
    def seconds(**more: Any) -> float:
        network = Network(3, weather=Weather(latency=(0, 0)))
        network.add_brokers("a")
        feed, phone = network.add_client("feed", "a"), network.add_client("phone", "a")
        phone.subscribe("n EXISTS")
        network.run()
        network.client_weather = Weather(**{**RADIO, **more})
        phone.vanish(noticed=0, kept=0)
        phone.attach("a")
        network.run()
        begin = network.scheduler.now
        for number in range(300):
            feed.publish(n=number, text="x" * 1_000)
        while len(phone.received) < 300:
            network.run(0.01)
        return (network.scheduler.now - begin) / 1e6

    wide, narrow = seconds(), seconds(bandwidth=125_000)
    assert 8 < narrow / wide < 14, "1 Mbit/s instead of 11"
    assert 1.2 < seconds(duplication=0.5) / wide < 1.9


@pytest.mark.req("MOB-110")
def test_an_application_on_a_bad_radio_gets_everything_once_and_in_order() -> None:
    world = World(5, client_weather=Weather(latency=(5_000, 5_000), bandwidth=137_500, loss=0.2, duplication=0.2))

    async def main() -> None:
        async with world, tidings.connect(world.url("berlin")) as client:
            async with client.subscribe("n EXISTS") as stream:
                for number in range(100):
                    await client.publish(n=number)
                assert [(await anext(stream))["n"] for _ in range(100)] == list(range(100))

    asyncio.run(main())
    check(world.trace, {})


def test_a_channel_without_loss_draws_nothing_and_one_with_it_gives_up_losing() -> None:
    rng = random.Random(1)
    state = rng.getstate()
    assert transmitted(Weather(), rng) == (0, False, 0)
    assert rng.getstate() == state, "runs without loss are what they were"
    worst = max(transmitted(Weather(loss=0.99), rng) for _ in range(50))
    assert worst.lost == MAX_RESENDS
    assert worst.pause == 200_000 * (2**MAX_RESENDS - 1)


@pytest.mark.parametrize("share", [-0.1, 1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ArgumentRefused, match=r"loss=.*; give a share from 0 to below 1"):
        Weather(loss=share)
