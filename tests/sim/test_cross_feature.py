"""Features must hold together: one scenario that grows with each of them, and runs for ever.

A client roams from broker to broker, subscribed into the past to what comes to it across a mapped edge of the scope
graph, while a link is cut and a scope changes. Somebody in the market watches, across that edge, how many want its
prices: the client that roams counts once, in every value that is complete.

Somebody else roams, too, and gets the prices of the market by a policy that keeps them back for a while.
"""

from __future__ import annotations

import pytest

from tidings.aggregation import Aggregation
from tidings.broker import Feature
from tidings.history import Strict
from tidings.mobility import Hosts
from tidings.model import last
from tidings.scopes import (
    OPEN,
    CreateScope,
    Interface,
    Join,
    Mode,
    PolicyKind,
    PolicyUse,
    Scopes,
    SetInterface,
    SetPolicy,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Convert
from tidings.sim import Network, Promises, broken_invariants, check, overgrown
from tidings.sim._aggregates import broken_aggregates
from tidings.wire import Quality

DELAY = 0.35
"""Seconds for which some get prices later."""
EARLIER = range(1, 21)
PRICES = range(21, 61)
PAST = 8
"""How many of the earlier prices the customer wants."""


def features(name: str) -> list[Feature]:
    hosts, aggregation = Hosts(), Aggregation()
    aggregation.serve(hosts)
    return [Scopes("hub"), Strict(), hosts, aggregation]


def roam(seed: int) -> tuple[Network, list[float]]:
    """A customer in euros, who moves on every second, and a market in cents; what reached the customer."""
    network = Network(seed, features=features)
    network.add_brokers(
        ("hub", "north", "east", "south"),
        (("hub", "north"), ("hub", "east"), ("hub", "south"), ("north", "east")),
    )
    market, customer = network.add_client("market", "north"), network.add_client("customer", "east")
    evening = network.add_client("evening", "south")
    network.run()
    euros = edge_mapping(outward=mapping(Convert("price", 100)), inward=mapping(Convert("price", 0.01)))
    network.change(
        "south",
        (
            CreateScope("floor", OPEN),
            CreateScope("customers", OPEN),
            Join("customers", "floor", mapping=euros),
            Join("@market", "floor"),
            Join("@customer", "customers"),
            *(CreateScope("late", OPEN), Join("late", "floor"), Join("@evening", "late")),
            SetPolicy("late", PolicyKind.DELIVERY, PolicyUse("delay", {"seconds": DELAY})),
        ),
    )
    network.run()
    evening.subscribe("price > 0")
    network.run()
    market.watch("subscriber_count", "price > 100", id="reach", scope="floor")  # in cents, of those who want euros
    step = 100_000
    for price in EARLIER:
        market.publish(price=100 * price, quality=Quality.STORED)
        network.run(0.01)
    network.scheduler.after(
        network.random.randrange(8 * step), lambda: customer.subscribe("price > 0", past=last(PAST))
    )
    for at, price in enumerate(PRICES):
        network.scheduler.after(
            at * step,
            lambda price=price: market.publish(price=100 * price, quality=Quality.STORED),  # type: ignore[misc]
        )
    for at, broker in enumerate(("south", "north", "hub", "east"), start=1):

        def move(broker: str = broker, at: int = at) -> None:
            if at % 2:
                customer.detach()
            else:
                customer.vanish(noticed=60, kept=60)  # the broker that it leaves does not notice
            customer.attach(broker)
            evening.detach()
            evening.attach(broker)

        network.scheduler.after(at * 9 * step, move)
    network.scheduler.after(7 * step, lambda: network.cut("hub", "north"))
    network.scheduler.after(16 * step, lambda: network.heal("hub", "north"))
    wide = Interface.parse(input="price > 0 OR volume > 0", output="TRUE")
    network.scheduler.after(
        12 * step,
        lambda: network.change("east", (SetInterface("customers", wide),), Mode.DRAIN),  # type: ignore[arg-type]
    )
    network.run()
    return network, [float(notification["price"]) for notification in customer.received]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_a_roaming_client_sees_one_unbroken_stream_from_the_past_across_a_mapped_edge(seed: int) -> None:
    network, prices = roam(seed)
    assert EARLIER.stop - PAST <= prices[0]  # later if it had to wait for the link
    assert prices == [float(price) for price in range(int(prices[0]), PRICES.stop)]
    assert network.clients["customer"].reports["s1"].count == PAST
    reach = network.clients["market"].watches["reach"]
    assert {result.value for result in reach.results if result.complete} <= {0, 1, 2}
    assert reach.last is not None
    assert (reach.last.value, reach.last.complete) == (2, True)
    late = sorted(float(notification["price"]) for notification in network.clients["evening"].received)  # type: ignore[arg-type]
    assert late == [100.0 * price for price in (*EARLIER, *PRICES)]
    assert not broken_aggregates(network, Promises.load())
    assert not check(network.trace, Promises.load())
    assert not broken_invariants(network)
    assert not overgrown(network)
