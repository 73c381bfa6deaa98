"""What origins owe, found by origin and by subscription."""

from __future__ import annotations

import pytest

from tidings.broker import Link, LinkKind, Registration
from tidings.broker.outlets._debts import Debts
from tidings.broker.outlets._suspension import Suspension
from tidings.model import EVERYTHING


def outlet(name: str) -> Registration:
    return Registration(Link(name, LinkKind.CLIENT), "s", EVERYTHING)


def owing(origin: str, *outlets: Registration, owner: str = "") -> Suspension:
    return Suspension(origin, (1, 7), dict.fromkeys(outlets), 0, owner)


def test_a_debt_is_found_by_its_origin_and_by_whom_it_is_owed() -> None:
    debts, x, y = Debts(), outlet("x"), outlet("y")
    both, mine = owing("a", x, y), owing("b", x)
    for suspension in (both, mine):
        debts.add(suspension)
    assert len(debts) == 2
    assert list(debts) == [both, mine]
    assert dict(debts.owed("a")) == {x: both, y: both}
    assert dict(debts.to(x)) == {"a": both, "b": mine}
    assert debts.of("b") == [mine]
    debts.end(both)
    assert both not in debts
    assert dict(debts.to(x)) == {"b": mine}
    assert not debts.to(y)
    assert set(debts.origins) == {"b"}
    assert list(both.owed) == [x, y]  # whoever hands over needs to know


def test_one_subscription_may_go_and_another_may_take_its_place() -> None:
    debts, x, y, z = Debts(), outlet("x"), outlet("y"), outlet("z")
    suspension = owing("a", x)
    debts.add(suspension)
    debts.share(suspension, y)
    debts.drop(suspension, x)
    debts.replace(suspension, y, z)
    assert dict(debts.owed("a")) == {z: suspension}
    assert list(suspension.owed) == [z]
    assert not debts.to(x)
    assert not debts.to(y)


def test_an_origin_owes_a_subscription_one_thing_at_a_time() -> None:
    debts, x = Debts(), outlet("x")
    debts.add(owing("a", x))
    with pytest.raises(AssertionError, match="one thing at a time"):
        debts.add(owing("a", x))


def test_what_is_owed_because_somebody_came_back_is_counted_by_owner() -> None:
    debts = Debts()
    back = [owing(origin, outlet("x"), owner="ann") for origin in "abc"]
    for suspension in (*back, owing("a", outlet("y"))):
        debts.add(suspension)
    assert (debts.of_owner("ann"), debts.of_owner("bob"), len(debts)) == (3, 0, 4)
    debts.end(back[0])
    assert debts.of_owner("ann") == 2
