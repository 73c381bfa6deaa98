"""Work takes time where the weather says so: throughput, queues and load exist in virtual time."""

from __future__ import annotations

import asyncio

import pytest

import tidings
from tidings.model import ArgumentRefused
from tidings.sim import ClosedLoop, Network, Op, Service, Weather, World, check

SERVICE = Service({"Publish": 1_000, "*": 0})


def network(service: Service | None, latency: tuple[int, int] = (100, 100)) -> Network:
    made = Network(1, weather=Weather(latency=latency, service=service))
    made.add_brokers("a")
    made.add_client("reader", "a").subscribe("n >= 0")
    made.run()
    return made


def loop(net: Network, count: int = 500, window: int = 8) -> ClosedLoop:
    return ClosedLoop(
        net.scheduler, net.add_client("writer", "a"), lambda n: {"n": n}, count=count, window=window, think=0
    )


def test_a_broker_carries_what_its_service_allows_and_no_more() -> None:
    net = network(SERVICE)
    one = loop(net)
    net.run()
    assert one.done
    rate = 500 * 1_000_000 / (one.ended - one.begun)
    assert 950 < rate <= 1_000  # one in a millisecond
    assert check(net.trace) == []


def test_a_wider_window_does_not_carry_more_but_waits_longer() -> None:
    latencies: list[float] = []
    for window in (4, 16):
        net = network(SERVICE)
        one = loop(net, window=window)
        net.run()
        latencies.append(sum(one.latencies) / len(one.latencies))
    assert latencies[1] > 3 * latencies[0]


def test_an_open_loop_that_asks_for_more_builds_a_queue() -> None:
    net = network(SERVICE)
    writer = net.add_client("writer", "a")
    for n in range(100):
        net.scheduler.after(500 * n, lambda n=n: writer.publish(n=n))  # type: ignore[misc]
    net.run()
    work = net.runtime("a").work
    assert work is not None
    assert 45 <= work.longest <= 55
    assert work.busy == 100_000
    assert work.queued == 0


def test_without_service_work_takes_no_time() -> None:
    net = network(None)
    one = loop(net, count=100, window=1)
    net.run()
    assert one.latencies[1:] == [200] * 99  # the first waits for a note on the disk
    assert net.runtime("a").work is None


def test_a_dead_broker_does_nothing_of_what_waited() -> None:
    net = network(SERVICE)
    writer = net.add_client("writer", "a")
    for n in range(10):
        writer.publish(n=n)
    net.run(0.0035)
    taken = len([record for record in net.trace.records if record.op is Op.NOTIFY])
    net.crash("a")
    net.run(1)
    assert taken < 10
    assert len([record for record in net.trace.records if record.op is Op.NOTIFY]) == taken
    net.restart("a", clients_within=0)
    net.run()
    assert check(net.trace) == []


def test_real_clients_wait_for_a_busy_broker_as_well() -> None:
    async def main() -> float:
        async with World(weather=Weather(latency=(100, 100), service=SERVICE)) as world:
            async with tidings.connect(world.url("berlin")) as client:
                begun = world.now
                await client.publish_many([{"n": n} for n in range(100)], quality="accepted")
                assert "Publish 1,000 µs, others 0 µs" in "\n".join(world.circumstances())
                return world.now - begun

    assert 0.1 <= asyncio.run(main()) < 0.12


@pytest.mark.parametrize("time", [-1, 0.5, "3"])
def test_a_time_that_cannot_be_is_refused(time: object) -> None:
    with pytest.raises(ArgumentRefused, match="whole microseconds"):
        Service({"Publish": time})  # type: ignore[dict-item]
