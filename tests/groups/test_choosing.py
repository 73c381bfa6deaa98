"""Scopes whose policies compare their members, in a simulated network: one member each time, decided at one broker."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tidings.groups import Choosing
from tidings.groups._unmet import MAX_STRETCHES, Unmet
from tidings.model import EventKey, Position, ScopeError
from tidings.scopes import (
    OPEN,
    CreateScope,
    Graph,
    Join,
    PolicyKind,
    PolicyUse,
    Scopes,
    SetPolicy,
    apply,
)
from tidings.sim import Network, Op, SimClient

INTERNAL, DELIVERY = PolicyKind.INTERNAL, PolicyKind.DELIVERY


def network(members: str, policy: PolicyUse, *, seed: int = 1, kind: PolicyKind = INTERNAL) -> Network:
    """Brokers a, b and c in a row, the publisher p at b, and members m0, m1 and so on where `members` says."""
    built = Network(seed=seed, features=lambda broker: [Scopes("a"), Choosing()])
    built.add_brokers("abc", links=("ab", "bc"))
    built.run()
    built.add_client("p", "b")
    for at, broker in enumerate(members):
        built.add_client(f"m{at}", broker)
    joins = tuple(Join(f"@m{at}", "s") for at in range(len(members)))
    if kind is INTERNAL:
        changes = (CreateScope("s", OPEN), Join("@p", "s"), *joins)
    else:
        changes = (CreateScope("t", OPEN), CreateScope("s", OPEN), Join("s", "t"), Join("@p", "t"), *joins)
    answers = built.change("a", (*changes, SetPolicy("s", kind, policy)))
    built.run()
    assert [one.error for one in answers] == [""]
    return built


def clients(built: Network) -> list[SimClient]:
    return [client for name, client in sorted(built.clients.items()) if name.startswith("m")]


def subscribed(built: Network, filter: str = "n > 0") -> list[SimClient]:
    for one in clients(built):
        one.subscribe(filter)
    built.run()
    return clients(built)


def publish(built: Network, first: int, last: int, **more: object) -> None:
    for n in range(first, last + 1):
        built.clients["p"].publish(n=n, **more)
    built.run()


def shares(built: Network) -> list[list[object]]:
    return [[one["n"] for one in client.received] for client in clients(built)]


def got(built: Network) -> Counter[object]:
    return Counter(n for share in shares(built) for n in share)


@pytest.mark.parametrize("filters", [("n > 0", "n > 0"), ("n > 0", "n > 1")])
def test_every_subscription_settles_also_one_that_wants_what_another_one_wants(filters: tuple[str, str]) -> None:
    built = network("abc", PolicyUse("one-of-n"))
    for one in clients(built):
        for at, filter in enumerate(filters):
            one.subscribe(filter, id=f"s{at}")
            built.run()
    settled = [(one.component, one.subscription) for one in built.trace.records if one.op is Op.SETTLED]
    assert set(settled) == {(f"m{at}", f"s{n}") for at in range(3) for n in range(2)}


@pytest.mark.req("VIS-610")
@pytest.mark.parametrize("kind", [INTERNAL, DELIVERY])
def test_in_turn_each_notification_reaches_one_member_wherever_it_is(kind: PolicyKind) -> None:
    built = network("abcc", PolicyUse("one-of-n"), kind=kind)
    subscribed(built)
    publish(built, 1, 41)
    assert got(built) == Counter(range(1, 42))
    counts = [len(share) for share in shares(built)]
    assert max(counts) - min(counts) <= 1


def test_a_member_that_does_not_want_it_is_no_candidate_and_nobody_gets_what_nobody_wants() -> None:
    built = network("abc", PolicyUse("one-of-n"))
    one, two, three = clients(built)
    one.subscribe("n > 10")
    two.subscribe("n > 10 AND n < 20")
    three.subscribe("FALSE")
    built.run()
    publish(built, 1, 30)
    assert got(built) == Counter(range(11, 31))
    assert shares(built)[2] == []
    assert set(shares(built)[0]) >= set(range(20, 31))


def test_by_an_attribute_the_same_value_goes_to_the_same_member() -> None:
    built = network("abcc", PolicyUse("one-of-n", {"by": "attribute", "attribute": "account"}))
    members = subscribed(built)
    for n in range(1, 61):
        built.clients["p"].publish(n=n, account=n % 12)
    built.run()
    assert got(built) == Counter(range(1, 61))
    homes = [{one["account"] for one in client.received} for client in members]
    assert sum(map(len, homes)) == 12
    assert sum(bool(home) for home in homes) > 1


@pytest.mark.req("VIS-610")
@pytest.mark.parametrize("by", ["random", "least-loaded"])
def test_other_ways_to_choose_reach_every_member_and_each_notification_once(by: str) -> None:
    built = network("abc", PolicyUse("one-of-n", {"by": by}))
    subscribed(built)
    for n in range(1, 61):
        publish(built, n, n)
    assert got(built) == Counter(range(1, 61))
    assert min(len(share) for share in shares(built)) >= (20 if by == "least-loaded" else 5)


def test_single_gives_everything_to_the_first_until_it_goes() -> None:
    built = network("cb", PolicyUse("single"))
    members = subscribed(built)
    publish(built, 1, 5)
    assert shares(built) == [[1, 2, 3, 4, 5], []]
    members[0].unsubscribe(next(iter(members[0].subscriptions)))
    built.run()
    publish(built, 6, 9)
    assert shares(built) == [[1, 2, 3, 4, 5], [6, 7, 8, 9]]


def test_a_named_point_decides_and_without_the_policy_everybody_gets_everything_again() -> None:
    built = network("abc", PolicyUse("one-of-n", {"point": "c"}))
    subscribed(built)
    deciding = [name for name, broker in built.brokers.items() if len(broker.features["choosing"].points)]
    assert deciding == ["c"]
    publish(built, 1, 9)
    assert got(built) == Counter(range(1, 10))
    built.change("a", (SetPolicy("s", INTERNAL, None),))
    built.run()
    publish(built, 10, 12)
    assert all(share[-3:] == [10, 11, 12] for share in shares(built))


@pytest.mark.parametrize("seed", range(12))
def test_never_two_members_and_never_silence_while_links_break_and_points_move(seed: int) -> None:
    rng = random.Random(seed)
    built = network("abccb", PolicyUse("one-of-n"), seed=seed)
    members = subscribed(built)
    n = 0
    for _ in range(8):
        for _ in range(rng.randrange(1, 12)):
            n += 1
            built.clients["p"].publish(n=n)
        link = rng.choice(("ab", "bc"))
        built.run(rng.random() * 0.05)
        built.cut(*link)
        for _ in range(rng.randrange(0, 6)):
            n += 1
            built.clients["p"].publish(n=n)
        built.run(rng.random() * 20)
        built.heal(*link)
        built.run(rng.random() * 5)
    built.run()
    counted = got(built)
    assert [number for number, times in counted.items() if times > 1] == []
    if not any(one.gaps for one in members):
        assert counted == Counter(range(1, n + 1))
    assert len(counted) > n / 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            (Join("inner", "s"), SetPolicy("s", INTERNAL, PolicyUse("one-of-n"))),
            "'s' cannot have the policy 'one-of-n' and the subscope 'inner': it chooses among clients; let the "
            "subscope leave, or make its clients members",
        ),
        (
            (SetPolicy("s", INTERNAL, PolicyUse("single")), Join("inner", "s")),
            "'inner' cannot join 's', whose policy 'single' chooses among clients; make its clients members, or take "
            "the policy away",
        ),
        (
            (SetPolicy("", INTERNAL, PolicyUse("one-of-n")),),
            "the root scope cannot have the policy 'one-of-n', because everybody is its member; make a scope for "
            "those who share the work",
        ),
        (
            (SetPolicy("s", INTERNAL, PolicyUse("one-of-n", {"by": "luck"})),),
            "the policy 'one-of-n' of 's' cannot be set up: by is 'luck'; choose one of turn, random, least-loaded, "
            "attribute",
        ),
    ],
)
def test_what_cannot_be_decided_is_refused_with_the_reason(changes: tuple[object, ...], message: str) -> None:
    graph = apply(Graph(), (CreateScope("s", OPEN), CreateScope("inner", OPEN)))
    with pytest.raises(ScopeError) as refused:
        apply(graph, changes)
    assert message in str(refused.value)


@pytest.mark.parametrize("seed", range(4))
def test_when_the_point_dies_no_second_member_gets_anything_and_the_members_are_told(seed: int) -> None:
    built = network("bccb", PolicyUse("one-of-n", {"point": "c"}), seed=seed)
    members = subscribed(built)
    publish(built, 1, 10)
    for n in range(11, 21):
        built.clients["p"].publish(n=n)
    built.run(0.01)
    built.crash("c")
    built.run(30)
    publish(built, 21, 30)
    counted = got(built)
    assert [number for number, times in counted.items() if times > 1] == []
    assert set(range(1, 11)) <= counted.keys()
    assert set(range(21, 31)) <= counted.keys()
    assert all(one.gaps for one in members if one.name in ("m0", "m3"))


def away() -> Network:
    """The member m0 at a, the deciding point, was cut off; the only other one, p at b, published 1 to 3 meanwhile."""
    built = network("a", PolicyUse("one-of-n"))
    built.clients["p"].subscribe("n > 0")
    subscribed(built)
    built.cut("a", "b")
    built.run(5)
    for n in (1, 2, 3):
        built.clients["p"].publish(n=n)
    built.run(5)
    assert not clients(built)[0].gaps
    return built


def heal(built: Network, *, after: float = 10) -> None:
    built.heal("a", "b")
    built.run(after)


def gaps(built: Network) -> list[tuple[str, int]]:
    (member,) = clients(built)
    return [(gap.origin, gap.first) for gap in member.gaps if gap.origin == "b"]


def test_a_member_that_was_cut_off_is_told_what_nobody_got_meanwhile_and_once() -> None:
    built = away()
    heal(built)
    assert gaps(built) == [("b", 1)]
    publish(built, 4, 4)
    assert shares(built) == [[4]]
    built.cut("a", "b")
    built.run(5)
    heal(built)
    assert gaps(built) == [("b", 1)]


def test_it_is_told_by_the_next_point_too() -> None:
    built = away()
    built.cut("b", "c")
    built.run(5)
    built.heal("b", "c")
    built.run(5)
    heal(built)
    assert gaps(built) == [("b", 1)]


@pytest.mark.parametrize("after", [0.0175, 0.019])
def test_it_is_told_again_if_there_is_another_tree_while_it_is_under_way(after: float) -> None:
    built = network("ba", PolicyUse("one-of-n"))
    built.add_client("q", "c")
    built.change("a", (Join("@q", "s"),))
    built.run()
    for name, filter in (("q", "n > 0"), ("m0", "n > 0"), ("m1", "n > 100")):
        built.clients[name].subscribe(filter)
    built.run()
    built.cut("b", "c")
    built.run(5)
    built.clients["q"].publish(n=1)
    built.run(5)
    assert not built.clients["m0"].gaps
    built.heal("b", "c")
    built.run(after)
    built.connect("a", "c")
    built.run(15)
    assert [(gap.origin, gap.first) for gap in built.clients["m0"].gaps] == [("c", 1)]


def test_a_member_that_was_there_is_not_told_what_nobody_wanted() -> None:
    built = network("a", PolicyUse("one-of-n"))
    built.clients["p"].subscribe("n > 0")
    subscribed(built, "n > 5")
    publish(built, 1, 3)
    built.cut("a", "b")
    built.run(5)
    heal(built)
    publish(built, 6, 6)
    assert (gaps(built), shares(built)) == ([], [[6]])


def test_what_no_member_got_is_remembered_for_few_sets_of_brokers() -> None:
    unmet = Unmet()
    for at in range(MAX_STRETCHES * 2):
        unmet.begin([unmet.stretches()], {"a", f"b{at}"})
        unmet.note(EventKey("a", 1, at + 1))
    assert len(unmet.stretches()) == MAX_STRETCHES
    assert unmet.missed("c") == {"a": Position(1, 1)}
    assert unmet.missed("a") == {}
    assert not unmet.is_told
    unmet.tell()
    assert unmet.is_told
    assert unmet.missed(f"b{at}") == {}
    assert unmet.missed("c") == {"a": Position(1, 1)}
