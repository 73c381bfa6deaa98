"""Who could reach whom, and what that excuses."""

from __future__ import annotations

import pytest
from sim.traces import Writer

from tidings.sim import Op, Record, check
from tidings.sim._details import Broken
from tidings.sim._reachability import Reachability


def after(*faults: tuple[int, str, str]) -> Reachability:
    found = Reachability()
    for seq, (time, kind, where) in enumerate(faults):
        found.note(Record(seq, time, Op.FAULT, detail=Broken(kind, where)))
    return found


LINE = ((0, "link", "a - b"), (0, "link", "b - c"), (0, "link", "c - d"))


def test_two_brokers_are_apart_while_a_link_between_them_is_cut() -> None:
    found = after(*LINE, (10, "cut", "b - c"), (20, "heal", "b - c"))
    assert found.apart("a", "d", 99) == [(10, 20)]
    assert found.apart("a", "b", 99) == []


def test_another_way_joins_them() -> None:
    found = after(*LINE, (5, "connect", "a - d"), (10, "cut", "b - c"), (20, "cut", "a - d"))
    assert found.apart("a", "c", 99) == [(20, 99)]


def test_a_dead_broker_is_reached_by_nobody_and_joins_nobody() -> None:
    found = after(*LINE, (10, "crash", "b"), (20, "restart", "b"), (30, "crash", "b"))
    assert found.apart("a", "c", 99) == found.apart("a", "b", 99) == [(10, 20), (30, 99)]
    assert found.apart("c", "d", 99) == []


def test_of_several_brokers_one_that_is_apart_is_enough() -> None:
    found = after(*LINE, (10, "cut", "a - b"))
    assert found.apart("bc", "d", 99) == []
    assert found.apart("bc", "ad", 99) == [(10, 99)]


def test_where_no_links_are_named_trouble_anywhere_is_trouble_for_all() -> None:
    found = after((10, "cut", "x - y"), (20, "crash", "z"), (30, "heal", "x - y"), (40, "restart", "z"))
    assert found.apart("a", "b", 99) == [(10, 40)]


def lost_in_trouble(cut: str, *links: str) -> Writer:
    """X publishes at a, Y listens at b, and misses it while a link is cut for two minutes."""
    writer = Writer()
    for link in links:
        writer.fault("link", link)
    writer.sub().settled().fault("cut", cut).pub(1).later(120)
    return writer.gap(1, None).fault("heal", cut)


@pytest.mark.parametrize(
    ("cut", "excused"), [("a - b", True), ("b - c", False)], ids=["between the two", "behind one of them"]
)
def test_trouble_elsewhere_excuses_neither_a_loss_nor_a_gap(cut: str, excused: bool) -> None:
    writer = lost_in_trouble(cut, "a - b", "b - c").quiesce()
    broken = [violation.guarantee for violation in check(writer.records)]
    assert broken == ([] if excused else ["gap", "delivery of accepted"])


def test_a_trace_that_names_no_links_is_judged_by_all_of_them() -> None:
    assert not check(lost_in_trouble("b - c").quiesce().records)
