"""Interfaces: what may cross the border of a member."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scopes.graph_world import node
from scopes.network_world import Watched
from strategies import filters, notifications

from tidings.broker import MAX_COST
from tidings.model import EVERYTHING, NOTHING, Filter, FilterSyntaxError, Notification
from tidings.scopes import EdgeMapping, Join, mapping
from tidings.scopes._graph import Graph, Membership, Scope
from tidings.scopes._interface import CLOSED, OPEN, Interface, both
from tidings.scopes._passage import Passage
from tidings.scopes.mappings._mapping import decode, encode
from tidings.scopes.steps import Rename


def test_a_direction_that_is_not_named_is_open() -> None:
    one = Interface.parse(output="type = 'quote'")
    assert one.input == EVERYTHING
    assert one.output.matches({"type": "quote"})
    assert not one.output.matches({"type": "order"})
    with pytest.raises(FilterSyntaxError):
        Interface.parse(input="type =")


def test_open_and_closed() -> None:
    assert OPEN.is_open
    assert not OPEN.is_closed
    assert CLOSED.is_closed
    assert not CLOSED.is_open
    assert Interface.parse(input="a IS NULL AND a = 1", output="FALSE").is_closed
    assert not Interface(EVERYTHING, NOTHING).is_closed
    assert not Interface(EVERYTHING, NOTHING).is_open
    assert Interface() == OPEN


@given(filters(), filters())
def test_an_interface_travels(input: Filter, output: Filter) -> None:
    one = Interface(input.canonical(), output.canonical())
    assert decode(encode(one), Interface) == one


def test_an_interface_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        OPEN.input = NOTHING  # type: ignore[misc]


@given(st.lists(filters(), max_size=4), notifications())
def test_both_passes_what_all_pass(some: list[Filter], notification: Notification) -> None:
    joined, exact = both(*some)
    assert exact
    assert joined.matches(notification) == all(one.matches(notification) for one in some)


@given(notifications())
def test_what_does_not_fit_is_left_out_and_said(notification: Notification) -> None:
    wide = [Filter.parse(" OR ".join(f"{name} = {n}" for n in range(-3, 100))) for name in "ab"]
    small = Filter.parse("a > 0")
    joined, exact = both(*wide, small)
    assert not exact
    assert small.covers(joined)
    if all(one.matches(notification) for one in (*wide, small)):
        assert joined.matches(notification)


@pytest.mark.req("VIS-406")
@given(filters(), notifications())
def test_any_subscription_can_be_an_interface_and_lets_pass_what_it_matches(
    one: Filter, notification: Notification
) -> None:
    for interface in (Interface(one, one), Interface.parse(input=str(one), output=str(one))):
        some = Graph().with_scope(Scope("S", interface)).with_scope(Scope("T")).with_edge(Membership("S", "T"))
        passage = Passage(some, some.membership("S", "T"))
        assert (passage.inward(notification) is notification) == one.matches(notification)
        assert (passage.outward(notification) is notification) == one.matches(notification)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_costly_subscription_behind_an_interface_is_announced_within_the_limit_and_gets_what_it_wants(
    mapped: bool,
) -> None:
    """Each alternative is joined with each one of the interface; neighbours are told something wider instead."""
    world = Watched("abc", ["ab", "bc"], {"reader": "a", "writer": "c"})
    interface = Interface(input=Filter.parse("x = 1 AND y = 2 OR z = 3"))
    edge = EdgeMapping(mapping(Rename("a1", "b1")), mapping(Rename("b1", "a1"))) if mapped else None
    world.make("reader < S", "writer < S", reader_S=Join(node("reader"), "S", selective=interface, mapping=edge))
    world.subscribe("reader", filter=" OR ".join(f"a{at} = {at}" for at in range(1, MAX_COST)))
    entries = [list(broker.scoping.tables["S"].subscriptions) for broker in world.network.brokers.values()]
    assert [len(some) for some in entries] == [1, 1, 1]
    assert all(entry.filter.cost <= MAX_COST for some in entries for entry in some)
    wanted = {"b1" if mapped else "a1": 1}
    world.publish("writer", **wanted, z=3)
    world.publish("writer", **wanted, z=4)
    world.publish("writer", a2=3, z=3)
    assert world.got("reader") == [Notification(a1=1, z=3)]
