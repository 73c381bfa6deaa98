"""Two at once, on real sockets."""

from __future__ import annotations

import asyncio

import pytest
from net.world import brokers, connected, options, running, take, until, url

import tidings
from tidings.mobility import MobilityOptions
from tidings.net import Server, serve


def is_attached(server: Server, client: str = "phone") -> bool:
    return server.host.broker.client(client) is not None


@running
async def test_both_brokers_serve_a_client_that_overlaps_for_a_moment() -> None:
    async with (
        brokers("ab", ["ab"]) as servers,
        tidings.connect([url(servers["a"]), url(servers["b"])], name="phone", overlap=True) as phone,
        tidings.connect(url(servers["a"])) as feed,
    ):
        stream = await phone.subscribe("n >= 0")
        numbers = iter(range(100))

        async def publish() -> None:
            for n in numbers:
                await feed.publish(n=n)
                await asyncio.sleep(0.01)

        publishing = asyncio.create_task(publish())
        await phone.move(url(servers["b"]))
        assert is_attached(servers["a"])
        assert is_attached(servers["b"])
        assert servers["a"].host.hosts.has_left(servers["a"].host.broker.client("phone"))
        await until(lambda: not is_attached(servers["a"]))
        await publishing
        assert [one["n"] for one in await take(stream, 100)] == list(range(100))
        await phone.check()
        assert is_attached(servers["b"])


@pytest.mark.parametrize("places", [("/x", "/x"), ("/x", "/y")])
def test_a_client_takes_nothing_from_another_place(places: tuple[str, str]) -> None:
    async def run() -> None:
        one, two = (MobilityOptions(place=place) for place in places)
        async with serve(options("a", mobility=one)) as a, serve(options("b", mobility=two, neighbours=(url(a),))) as b:
            await until(lambda: connected([a, b]))
            async with tidings.connect([url(a), url(b)], name="phone", overlap=True) as phone:
                await phone.subscribe("n >= 0")
                await phone.move(url(b))
                assert (phone._link.traffic._drained is not None) == (places[0] == places[1])

    asyncio.run(run())
