"""The past across the borders of scopes: what was admitted then and is admitted now, in the form of its reader."""

from __future__ import annotations

import pytest
from history.history_world import prices

from tidings.history import Strict
from tidings.model import last
from tidings.scopes import (
    CLOSED,
    OPEN,
    CreateScope,
    Interface,
    Join,
    Leave,
    PolicyKind,
    PolicyUse,
    Scopes,
    SetInterface,
    SetPolicy,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Convert
from tidings.sim import Network, check


def market() -> Network:
    network = Network(5, features=lambda name: [Scopes("a"), Strict()])
    network.add_brokers("abc", links=["ab", "bc"])
    for name, broker in (("market", "a"), ("customer", "c"), ("stranger", "b")):
        network.add_client(name, broker)
    network.run()
    euros = edge_mapping(outward=mapping(Convert("price", 100)), inward=mapping(Convert("price", 0.01)))
    network.change(
        "b",
        (
            CreateScope("floor", OPEN),
            CreateScope("customers", OPEN),
            Join("customers", "floor", mapping=euros),
            Join("@market", "floor"),
            Join("@customer", "customers"),
        ),
    )
    network.run()
    return network


@pytest.mark.req("HIS-023")
def test_the_past_comes_through_the_mapping_and_the_bound_counts_behind_it() -> None:
    network = market()
    for value in range(100, 2_100, 100):
        network.clients["market"].publish(price=value)
        network.run(0.01)
    network.clients["customer"].subscribe("price > 3 AND price < 12", past=last(4))
    network.clients["stranger"].subscribe("price > 0", past=last(4))
    network.run()
    assert prices(network.clients["customer"]) == [8, 9, 10, 11]
    assert prices(network.clients["stranger"]) == []
    assert not check(network.trace)


def test_a_report_counts_nothing_that_its_reader_may_not_see() -> None:
    """A stranger beside a member: their broker is told what concerns the member."""
    network = market()
    network.add_client("guest", "c")
    network.run()
    for value in range(100, 900, 100):
        network.clients["market"].publish(price=value)
    network.run()
    customer, guest = network.clients["customer"], network.clients["guest"]
    customer.subscribe("price > 5", past=last(10))
    guest.subscribe("price > 0", past=last(10))
    network.run()
    assert prices(customer) == [6, 7, 8]
    assert customer.reports["s1"].found == {"memory": 3}
    assert guest.reports["s1"].found == {}


def test_what_an_edge_no_longer_admits_is_not_replayed_and_what_it_did_not_admit_then_neither() -> None:
    network = market()
    seller, customer = network.clients["market"], network.clients["customer"]
    seller.publish(price=100)
    network.run()
    network.change("b", (SetInterface("customers", Interface.parse(input="price > 5", output="TRUE")),))
    network.run()
    for value in (200, 700, 900):
        seller.publish(price=value)
        network.run(0.01)
    network.run()
    customer.subscribe("price > 0", past=last(10))
    network.run()
    assert prices(customer) == [7, 9]
    network.change("b", (Leave("@customer", "customers"),))
    network.run()
    customer.subscribe("price > 0.5", past=last(10))
    network.run()
    assert prices(customer) == [7, 9]


def test_what_was_published_under_a_version_that_is_not_active_here_yet_is_of_the_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = market()
    guest = network.add_client("guest", "c")
    network.run()
    scoping = network.brokers["c"].scoping
    activate, late = scoping.activate, list[int]()
    monkeypatch.setattr(scoping, "activate", late.append)  # it takes its time, and everybody else goes on
    network.change("b", (Join("@guest", "customers"),))
    network.run(1)
    assert scoping.newest.version == network.brokers["a"].scoping.active.version > scoping.active.version
    for value in (100, 200):
        network.clients["market"].publish(price=value)
    network.run(1)
    guest.subscribe("price > 0", past=last(10))
    network.run(1)
    assert prices(guest) == [1, 2]
    with network.brokers["c"].turn():
        activate(late[0])
    network.run()
    assert not check(network.trace)


def test_what_was_published_before_there_were_scopes_went_through_the_root_scope() -> None:
    network = Network(5, features=lambda name: [Scopes("a"), Strict()])
    network.add_brokers("ab", links=["ab"])
    for name, broker in (("seller", "a"), ("friend", "a"), ("mover", "b"), ("customer", "b")):
        network.add_client(name, broker)
    network.run()
    network.clients["seller"].publish(price=1)
    network.clients["friend"].publish(price=2)
    network.run()
    network.change("a", (CreateScope("club", CLOSED), Join("@friend", "club"), Join("@mover", "club")))
    network.run()
    for name in ("mover", "customer"):
        network.clients[name].subscribe("price > 0", past=last(10))
    network.run()
    assert prices(network.clients["customer"]) == [1], "both stayed where they were"
    assert prices(network.clients["mover"]) == [], "the way inside the club was not there then"


def test_what_is_not_due_yet_follows_the_past_unless_it_is_older() -> None:
    network = market()
    delay = PolicyUse("delay", {"seconds": 60, "filter": "urgent = FALSE"})
    network.change("b", (SetPolicy("@market", PolicyKind.PUBLISHING, delay),))
    network.run()
    for value, urgent in ((100, False), (200, True), (300, False)):
        network.clients["market"].publish(price=value, urgent=urgent)
        network.run(0.01)
    network.clients["customer"].subscribe("price > 0", past=last(1))
    network.run(10)
    assert prices(network.clients["customer"]) == [2]
    network.run()
    assert prices(network.clients["customer"]) == [2, 3]
    assert not check(network.trace)
