"""Who could hear something, by name: only where operators allow it, and only for administrators."""

from __future__ import annotations

import pytest
from aggregation.test_receivers import chain, heard, say

from tidings.aggregation import AggregationOptions, Receivers
from tidings.aggregation._naming import MAX_NAMES, Naming
from tidings.aggregation.receiving import Declined, Found, Names, Who, read_found
from tidings.scopes import OPEN, CreateScope, Interface, Join, Scopes
from tidings.sim import Network
from tidings.wire import encode_body, pack

ALLOWED = AggregationOptions(identity=True)
SILENT = Interface.parse(input="TRUE", output="type = 'alarm'")


def allowing(brokers: str = "12345") -> Network:
    """Brokers of which some tell names."""
    return chain(lambda name: [Receivers(ALLOWED if name in brokers else AggregationOptions())])


def asked(network: Network, who: Who, client: str = "p") -> Names | Declined:
    said = heard(network)
    say(network.clients[client], who)
    network.run()
    (answer,) = said
    assert isinstance(answer, Names | Declined)
    return answer


@pytest.mark.req("AGG-147")
def test_the_names_of_all_who_could_hear_it_are_united() -> None:
    network = allowing()
    for client, filter in (("c2", "type = 't'"), ("c3", "price > 5"), ("c4", "type = 'u'"), ("c5", "price < 5")):
        network.clients[client].subscribe(filter)
    network.clients["c3"].subscribe("type = 't' AND price > 7")
    network.run()
    probe = encode_body({"type": "t", "price": 9})
    assert asked(network, Who("n", probe=probe)) == Names("n", ["c2", "c3"], 0, complete=True)
    assert asked(network, Who("n", "type = 'u'")) == Names("n", ["c3", "c4", "c5"], 0, complete=True)
    assert asked(network, Who("n")) == Names("n", ["c2", "c3", "c4", "c5"], 0, complete=True)
    network.clients["c4"].detach()
    network.run()
    assert asked(network, Who("n")) == Names("n", ["c2", "c3", "c5"], 0, complete=True)


@pytest.mark.req("AGG-147")
def test_a_broker_that_does_not_allow_it_tells_nobodys_name() -> None:
    network = allowing("1245")  # c3 and c5 are at the other one
    for client in ("c2", "c3", "c4", "c5"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    assert asked(network, Who("n")) == Names("n", ["c2", "c4"], 0, complete=False)
    refused = asked(network, Who("n"), "c3")
    assert isinstance(refused, Declined)
    assert "set identity = true in [aggregation]" in refused.reason


@pytest.mark.req("AGG-147")
@pytest.mark.parametrize(("border", "named"), [(OPEN, ["c3", "c4"]), (SILENT, ["c3"])])
def test_names_cross_borders_as_counts_do(border: Interface, named: list[str]) -> None:
    network = chain(lambda name: [Receivers(ALLOWED), Scopes("1")])
    members = (Join("@p", "market"), Join("@c3", "market"), Join("@c4", "lab"))
    network.change("1", (CreateScope("market", OPEN), CreateScope("lab", border), Join("lab", "market"), *members))
    network.run()
    for client in ("c2", "c3", "c4"):
        network.clients[client].subscribe("type = 't'")
    network.run()
    assert asked(network, Who("n", scope="market")) == Names("n", named, 0, complete=True)


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (Who("n", "price >"), "price >"),
        (Who("n", scope="nowhere"), "no scope 'nowhere'"),
        (Who("n", "TRUE", encode_body({"n": 1})), "a filter and a probe"),
        (Who("n", probe=b"\xff"), ""),
    ],
)
def test_what_makes_no_sense_is_declined(who: Who, reason: str) -> None:
    answer = asked(allowing(), who)
    assert isinstance(answer, Declined)
    assert reason in answer.reason


def test_many_names_are_bounded_and_the_rest_is_counted() -> None:
    network = allowing()
    feature = network.brokers["1"].features["receivers"]
    assert isinstance(feature, Receivers)
    naming: Naming = feature._naming
    one = pack(Found([f"a{number:04}" for number in range(MAX_NAMES)], 3))
    two = pack(Found([f"b{number}" for number in range(5)]))
    found = read_found(naming.combine([two, one]))
    assert len(found.names) == MAX_NAMES
    assert found.left_out == 8
