"""A past in a scope that chooses: what the client was given, and nothing that somebody else was given."""

from __future__ import annotations

import pytest

from tidings.broker.forwarding import Decision, Decisions, _decisions
from tidings.groups import Choosing
from tidings.history import Strict
from tidings.model import Notification, last
from tidings.scopes import (
    OPEN,
    CreateScope,
    Join,
    Leave,
    PolicyKind,
    PolicyUse,
    Scopes,
    SetPolicy,
    edge_mapping,
    mapping,
)
from tidings.scopes.steps import Convert
from tidings.sim import Network, Op, SimClient, check
from tidings.sim._details import Notified

INTERNAL = PolicyKind.INTERNAL
ALL = tuple(range(1, 13))


def network(policy: PolicyUse) -> Network:
    """The publisher p at b, and members m0, m1 and m2, of whom the last one sees n ten times as large."""
    built = Network(seed=3, features=lambda broker: [Scopes("a"), Strict(), Choosing()])
    built.add_brokers("abc", links=("ab", "bc"))
    built.run()
    built.add_client("p", "b")
    for at, broker in enumerate("abc"):
        built.add_client(f"m{at}", broker)
    tenfold = edge_mapping(inward=mapping(Convert("n", 10)))
    built.change(
        "a",
        (
            CreateScope("s", OPEN),
            *(Join(one, "s") for one in ("@p", "@m0", "@m1")),
            Join("@m2", "s", mapping=tenfold),
            SetPolicy("s", INTERNAL, policy),
        ),
    )
    built.run()
    for one in members(built):
        one.subscribe("n > 0", id="live")
    built.run()
    return built


def members(built: Network) -> list[SimClient]:
    return [built.clients[f"m{at}"] for at in range(3)]


def publish(built: Network, *numbers: int) -> None:
    for n in numbers:
        built.clients["p"].publish(n=n)
        built.run()


def got(built: Network, client: SimClient, id: str) -> list[object]:
    """What a subscription was handed."""
    return [note["n"] for note in received(built, client, id)]


def received(built: Network, client: SimClient, id: str) -> list[Notification]:
    records = (one for one in built.trace.records if one.component == client.name and one.subscription == id)
    return [one.notification for one in records if one.op.value == "notify" and one.notification is not None]


@pytest.mark.parametrize(
    "policy",
    [
        PolicyUse("one-of-n"),
        PolicyUse("single"),
    ],
    ids=lambda use: use.name,
)
def test_a_past_is_what_the_member_was_given_and_nothing_is_decided_again(policy: PolicyUse) -> None:
    built = network(policy)
    publish(built, *ALL)
    live = [got(built, one, "live") for one in members(built)]
    assert any(live)
    for one in members(built):
        one.subscribe("n > 0", id="past", past=last(100))
    built.run()
    assert [got(built, one, "past") for one in members(built)] == live
    assert [got(built, one, "live") for one in members(built)] == live
    assert not check(built.trace)


def test_a_member_that_moves_takes_its_past_along_wherever_it_was_given_to_it() -> None:
    built = network(PolicyUse("one-of-n"))
    mover = members(built)[0]
    for broker in "cba":
        publish(built, *range(1, 7))
        mover.detach()
        mover.attach(broker)
        built.run()
    mover.subscribe("n > 0", id="past", past=last(100))
    built.run()
    assert got(built, mover, "past") == got(built, mover, "live")
    assert len(got(built, mover, "past")) > 4


def test_a_past_is_still_there_when_the_point_that_decided_has_died() -> None:
    built = network(PolicyUse("one-of-n", {"point": "c"}))
    publish(built, *ALL)
    live = [got(built, one, "live") for one in members(built)]
    built.crash("c")
    built.run(5)
    for one in members(built)[:2]:
        one.subscribe("n > 0", id="past", past=last(100))
    built.run()
    assert [got(built, one, "past") for one in members(built)[:2]] == live[:2]


def test_a_bound_counts_what_was_given_and_a_filter_chooses_of_it() -> None:
    built = network(PolicyUse("one-of-n"))
    publish(built, *ALL)
    for one in members(built):
        one.subscribe("n > 0", id="two", past=last(2))
        one.subscribe("n > 0 AND n < 5", id="small", past=last(100))
    built.run()
    for one in members(built):
        live = got(built, one, "live")
        assert got(built, one, "two") == live[-2:]
        assert got(built, one, "small") == [n for n in live if n < 5]  # type: ignore[operator]


def test_what_is_given_while_the_past_is_looked_for_comes_once() -> None:
    built = network(PolicyUse("single"))
    publish(built, 1, 2, 3)
    first = members(built)[0]
    for n in range(4, 40):
        built.scheduler.after(n * 400, lambda n=n: built.clients["p"].publish(n=n))  # type: ignore[misc]
    built.scheduler.after(6_000, lambda: first.subscribe("n > 0", id="past", past=last(100)))
    built.run()
    assert got(built, first, "past") == list(range(1, 40))


@pytest.mark.parametrize(("point", "count"), [("c", 2), ("b", 4)])
def test_what_is_given_meanwhile_takes_no_place_in_a_bound(point: str, count: int) -> None:
    built = network(PolicyUse("single", {"point": point}))
    publish(built, *range(1, 11))
    first = members(built)[0]
    for n in range(11, 51):
        built.scheduler.after(n * 400, lambda n=n: built.clients["p"].publish(n=n))  # type: ignore[misc]
    built.scheduler.after(6_000, lambda: first.subscribe("n >= 0", id="past", past=last(count)))
    built.run()
    records = [one for one in built.trace.records if (one.op, one.subscription) == (Op.NOTIFY, "past")]
    from_past = [isinstance(one.detail, Notified) and one.detail.from_past for one in records]
    assert from_past[: count + 1] == [*[True] * count, False]
    numbers = got(built, first, "past")
    assert numbers == list(range(1, 51))[-len(numbers) :]


def test_a_new_tree_takes_nothing_with_it_that_was_given_while_a_subscription_was_held() -> None:
    built = network(PolicyUse("single", {"point": "b"}))
    publish(built, 1, 2)
    first = members(built)[0]
    first.subscribe("n > 0", id="past", past=last(1))
    built.clients["p"].publish(n=3)
    built.run(0.01)
    (hold,) = built.brokers["a"].holds.all.values()
    assert hold.count == 1
    built.cut("b", "c")
    built.run(1)
    built.heal("b", "c")
    built.run()
    assert got(built, first, "live") == [1, 2, 3]
    assert got(built, first, "past") == [2, 3]


def test_what_was_published_before_there_was_a_policy_is_in_the_past_of_all() -> None:
    built = network(PolicyUse("full"))
    publish(built, 1, 2)
    built.change("a", (SetPolicy("s", INTERNAL, PolicyUse("single")),))
    built.run()
    publish(built, 3)
    for one in members(built)[:2]:
        one.subscribe("n > 0", id="past", past=last(100))
    built.run()
    assert [got(built, one, "past") for one in members(built)[:2]] == [[1, 2, 3], [1, 2]]


def test_who_has_left_the_scope_gets_nothing_of_it_from_the_past() -> None:
    built = network(PolicyUse("single"))
    publish(built, 1, 2)
    built.change("a", (Leave("@m0", "s"),))
    built.run()
    first = members(built)[0]
    first.subscribe("n > 0", id="past", past=last(100))
    built.run()
    assert got(built, first, "past") == []


def test_the_decisions_that_a_broker_remembers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_decisions, "MAX_DECISIONS", 3)
    monkeypatch.setattr(_decisions, "MAX_DECIDED", 2)
    kept = Decisions()
    for seq in range(1, 6):
        kept.note("ann", Decision("s", "a", 1, seq, 0))
    assert [one.seq for one in kept.of("ann")] == [3, 4, 5]
    assert (kept.forgotten, len(kept)) == (2, 3)
    kept.note("bob", Decision("s", "a", 1, 6, 0))
    kept.note("ann", Decision("s", "a", 1, 7, 0))
    kept.note("eve", Decision("s", "a", 1, 8, 0))
    assert (kept.of("bob"), len(kept.of("ann")), len(kept.of("eve"))) == ((), 3, 1)
    assert kept.forgotten == 4
