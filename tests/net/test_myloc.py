"""A filter that waits for the place of its client is refused where it comes in: no broker would ever fill it in."""

from __future__ import annotations

import pytest
from net.world import brokers, options, running, url

import tidings
from tidings.model import FilterError, Location, ScopeError
from tidings.net import serve
from tidings.sim import Network

NEAR = "place WITHIN myloc(1)"


@running
async def test_a_client_is_told_before_anything_is_sent() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as alice:
        with pytest.raises(FilterError, match=r"'place WITHIN myloc\(1\)' uses myloc.*name the place"):
            alice.subscribe(NEAR)
        with pytest.raises(FilterError, match="myloc"):
            await alice.advertise(f"NOT {NEAR}")
        async with alice.subscribe("x = 1") as subscription:
            with pytest.raises(FilterError, match="myloc"):
                subscription.update(f"x = 2 OR {NEAR}")
            assert str(subscription.filter) == "x = 1"
            await alice.publish(x=1)
            assert (await anext(subscription))["x"] == 1


@running
async def test_a_place_that_was_filled_in_is_a_place() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as alice:
        here = tidings.Filter.parse(NEAR).resolve(Location("/berlin/mitte"))
        async with alice.subscribe(here) as subscription:
            await alice.publish(place=Location("/paris"))
            await alice.publish(place=Location("/berlin/west"))
            assert (await anext(subscription))["place"] == Location("/berlin/west")


def test_simulated_clients_are_told_alike() -> None:
    network = Network(1)
    network.add_broker("a")
    with pytest.raises(FilterError, match="myloc"):
        network.add_client("alice", "a").subscribe(NEAR)


@running
async def test_a_border_has_no_place() -> None:
    async with serve(options("b")) as server, tidings.connect(url(server), name="root") as root:
        with pytest.raises(ScopeError, match=r"myloc.*a border has no place; name the place"):
            await root.admin.create_scope("market", output=NEAR)
        await root.admin.create_scope("market", output="place WITHIN LOCATION '/berlin'")
