"""Features must hold together: one scenario that grows with each of them, and runs for ever.

A client roams from broker to broker, subscribed into the past to what comes to it across a mapped edge of the scope
graph, while a link is cut and a scope changes. Somebody in the market watches, across that edge, how many want its
prices: the client that roams counts once, in every value that is complete.

Somebody else roams, too, and gets the prices of the market by a policy that keeps them back for a while. The market is
a session scope: what it says to some of them is heard there, and not in the other session that it is in. A rule of the
market's scope notes every price that is dear, each once.

Two clerks, one of whom roams, are in a scope below the one that gets prices later. It gives each price to one of them,
in turn: no price goes to both, whatever is cut and whoever moves, and none comes early. In the end each of them asks
for the past, which is what it was given, wherever it was then.
"""

from __future__ import annotations

import pytest

from tidings.aggregation import Aggregation
from tidings.broker import Feature
from tidings.groups import Choosing
from tidings.history import Strict
from tidings.mobility import Hosts
from tidings.model import Filter, Notification, last
from tidings.scopes import (
    OPEN,
    SESSION_ID,
    CreateScope,
    Interface,
    Join,
    Mode,
    PolicyKind,
    PolicyUse,
    Rule,
    Rules,
    Scopes,
    SetAttributes,
    SetInterface,
    SetPolicy,
    SetRules,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Convert
from tidings.sim import Network, Op, Promises, broken_invariants, check, overgrown
from tidings.sim._aggregates import broken_aggregates
from tidings.wire import Quality

DEAR = "UPDATE ON pub(n: OUTPUT(price > 5000)) DO ALTER SCOPE self SET dear = n.price"
DELAY = 0.35
"""Seconds for which some get prices later."""
EARLIER = range(1, 21)
PRICES = range(21, 61)
PAST = 8
"""How many of the earlier prices the customer wants."""


def features(name: str) -> list[Feature]:
    hosts, aggregation, scopes = Hosts(), Aggregation(), Scopes("hub")
    aggregation.serve(hosts)
    return [scopes, Rules(scopes), Strict(), Choosing(), hosts, aggregation]


def roam(seed: int) -> tuple[Network, list[float]]:
    """A customer in euros, who moves on every second, and a market in cents; what reached the customer."""
    network = Network(seed, features=features)
    network.add_brokers(
        ("hub", "north", "east", "south"),
        (("hub", "north"), ("hub", "east"), ("hub", "south"), ("north", "east")),
    )
    market, customer = network.add_client("market", "north"), network.add_client("customer", "east")
    evening, neighbour = network.add_client("evening", "south"), network.add_client("neighbour", "hub")
    clerks = [network.add_client(f"clerk{at}", broker) for at, broker in enumerate(("hub", "south"))]
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
            *(CreateScope("desk", OPEN), Join("desk", "late"), Join("@clerk0", "desk"), Join("@clerk1", "desk")),
            SetPolicy("desk", PolicyKind.DELIVERY, PolicyUse("one-of-n")),
            SetAttributes("floor", {SESSION_ID: "auto"}),
            *(CreateScope("home", OPEN, attributes={SESSION_ID: "auto"}), Join("@evening", "home")),
            Join("@neighbour", "home"),
            SetRules("floor", (Rule(DEAR),)),
        ),
    )
    network.run()
    evening.subscribe("price > 0")
    for clerk in clerks:
        clerk.subscribe("price > 0")
    evening.react(Filter.parse("price > 5500"), Notification(sold=True), 3)
    neighbour.subscribe("TRUE")
    market.subscribe("sold = TRUE AND price IS NULL")
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
            clerks[0].detach()
            clerks[0].attach(broker)

        network.scheduler.after(at * 9 * step, move)
    network.scheduler.after(7 * step, lambda: network.cut("hub", "north"))
    network.scheduler.after(16 * step, lambda: network.heal("hub", "north"))
    wide = Interface.parse(input="price > 0 OR volume > 0", output="TRUE")
    network.scheduler.after(
        12 * step,
        lambda: network.change("east", (SetInterface("customers", wide),), Mode.DRAIN),  # type: ignore[arg-type]
    )
    network.run()
    for clerk in clerks:
        clerk.subscribe("price > 0", id="again", past=last(1_000))
    network.run()
    return network, [float(notification["price"]) for notification in customer.received]  # type: ignore[arg-type]


def prices_of(network: Network, client: str, subscription: str) -> list[float]:
    """What a subscription got, in the order in which it came."""
    records = (one for one in network.trace.records if (one.component, one.subscription) == (client, subscription))
    return [float(one.notification["price"]) for one in records if one.op is Op.NOTIFY and one.notification is not None]  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_a_roaming_client_sees_one_unbroken_stream_from_the_past_across_a_mapped_edge(seed: int) -> None:
    network, prices = roam(seed)
    assert EARLIER.stop - PAST <= prices[0]  # later if it had to wait for the link
    assert prices == [float(price) for price in range(int(prices[0]), PRICES.stop)]
    assert network.clients["customer"].reports["s1"].count == PAST
    reach = network.clients["market"].watches["reach"]
    assert {result.value for result in reach.results if result.complete} <= {0, 1, 2, 3, 4}
    assert reach.last is not None
    assert (reach.last.value, reach.last.complete) == (4, True)
    late = sorted(float(notification["price"]) for notification in network.clients["evening"].received)  # type: ignore[arg-type]
    assert late == [100.0 * price for price in (*EARLIER, *PRICES)]
    given = [prices_of(network, f"clerk{at}", "s1") for at in (0, 1)]
    shared = given[0] + given[1]
    assert len(set(shared)) == len(shared), "no price goes to two clerks"
    assert [prices_of(network, f"clerk{at}", "again") for at in (0, 1)] == [sorted(one) for one in given]
    assert len(shared) > len(EARLIER)
    assert len(network.clients["market"].received) == 3, "what reacts to the floor is heard there"
    assert not network.clients["neighbour"].received, "and not in another session"
    scopes = network.brokers["hub"].features["scopes"]
    assert isinstance(scopes, Scopes)
    noted = [
        dict(change.attributes)["dear"]
        for one in scopes.versions.since(0)
        if one.depth
        for change in one.changes
        if isinstance(change, SetAttributes)
    ]
    assert noted == [100 * price for price in PRICES if price > 50], "each event of a rule once, in order"
    assert not broken_aggregates(network, Promises.load())
    assert not check(network.trace, Promises.load())
    assert not broken_invariants(network)
    assert not overgrown(network)
