"""Policies that choose several members, or keep a state: asked once at the deciding point, which tells the next one."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import ClassVar

import msgspec
import pytest
from groups.test_choosing import INTERNAL, clients, got, network, publish, shares, subscribed

from tidings.groups import Choosing, _panel
from tidings.model import Identity, Notification
from tidings.scopes import (
    Join,
    Leave,
    Policy,
    PolicyContext,
    PolicyUse,
    SetAttributes,
    SetPolicy,
    Wait,
    register_policy,
)
from tidings.scopes.policies import _rate_limit
from tidings.scopes.policies._rate_limit import RateLimit
from tidings.scopes.policies._release import Release
from tidings.sim import Network, Op
from tidings.sim._details import Notified


def ranked(policy: PolicyUse, *ranks: int, members: str = "abcb") -> Network:
    built = network(members, policy)
    built.change("a", tuple(SetAttributes(f"@m{at}", {"rank": rank}) for at, rank in enumerate(ranks)))
    built.run()
    subscribed(built)
    return built


@pytest.mark.req("VIS-612")
def test_the_best_members_get_it_wherever_they_are_and_nobody_else() -> None:
    built = ranked(PolicyUse("top-k", {"k": 2, "attribute": "rank"}), 1, 7, 5, 7)
    publish(built, 1, 5)
    assert shares(built) == [[], [1, 2, 3, 4, 5], [], [1, 2, 3, 4, 5]]
    built.change("a", (SetAttributes("@m0", {"rank": 9}),))
    built.run()
    publish(built, 6, 6)
    assert shares(built) == [[6], [1, 2, 3, 4, 5, 6], [], [1, 2, 3, 4, 5]]


def test_a_member_without_a_rank_comes_last_and_those_who_want_nothing_do_not_count() -> None:
    built = ranked(PolicyUse("top-k", {"k": 2, "attribute": "rank"}), 3, members="abc")
    clients(built)[1].unsubscribe(next(iter(clients(built)[1].subscriptions)))
    built.run()
    publish(built, 1, 2)
    assert shares(built) == [[1, 2], [], [1, 2]]


def test_by_load_the_work_is_spread() -> None:
    built = network("abc", PolicyUse("top-k", {"k": 2, "by": "least-loaded"}))
    subscribed(built)
    for n in range(1, 31):
        publish(built, n, n)
    assert set(got(built).values()) == {2}
    assert [len(share) for share in shares(built)] == [20, 20, 20]


def within(times: list[int], stretch: int) -> int:
    """The most of these that lie within any such stretch of time."""
    return max((sum(0 <= other - one < stretch for other in times) for one in times), default=0)


def published(built: Network, member: str) -> list[int]:
    """When what a member got was published, in microseconds."""
    times = {one.publication: one.time for one in built.trace.records if one.op.name == "PUB"}
    return [
        times[one.publication] for one in built.trace.records if one.op.name == "NOTIFY" and one.component == member
    ]


@pytest.mark.req("VIS-613")
def test_each_member_gets_no_more_than_its_rate_and_gets_on_later() -> None:
    built = network("abc", PolicyUse("rate-limit", {"count": 3, "seconds": 1}))
    subscribed(built)
    for n in range(1, 21):
        built.clients["p"].publish(n=n)
        built.run(0.1)
    built.run()
    for share in shares(built):
        assert share == shares(built)[0]
        assert 5 <= len(share) <= 6
    assert within(published(built, "m0"), 900_000) == 3  # a link takes some time
    built.run(5)
    publish(built, 21, 22)
    assert [share[-2:] for share in shares(built)] == [[21, 22]] * 3


@pytest.mark.req("VIS-613", "VIS-605")
def test_the_rate_holds_while_the_point_moves() -> None:
    built = network("bcb", PolicyUse("rate-limit", {"count": 3, "seconds": 60}))
    subscribed(built)
    publish(built, 1, 3)
    built.clients["p"].detach()
    built.cut("a", "b")
    built.heal("a", "b")
    built.run(2)
    built.add_client("m9", "a")
    built.change("a", (Join("@m9", "s"),))
    built.clients["m9"].subscribe("n > 0")
    built.run(2)  # now the smallest name with members is a
    deciding = [name for name, broker in built.brokers.items() if broker.features["choosing"].points.is_deciding(KEY)]
    assert deciding == ["a"]
    built.clients["p"].attach("b")
    built.run(1)
    publish(built, 4, 9)
    assert shares(built) == [[1, 2, 3]] * 3 + [[4, 5, 6]]


KEY = '["","s",""]'


@pytest.mark.req("ARC-232", "VIS-605")
def test_a_scope_is_open_or_closed_by_what_was_published_before_and_the_next_point_knows() -> None:
    built = network("bcb", PolicyUse("state", {"opens": "type = 'open'", "closes": "type = 'close'", "by": "market"}))
    subscribed(built)
    trader = built.clients["p"]
    for n, said in enumerate(("", "open", "", "close", "", "open", ""), 1):
        trader.publish(n=n, market="x", **({"type": said} if said else {}))
    trader.publish(n=8, market="y")
    built.run()
    assert shares(built) == [[2, 3, 4, 6, 7]] * 3
    built.cut("a", "b")
    built.run(30)
    built.heal("a", "b")
    built.run()
    trader.publish(n=9, market="x")
    trader.publish(n=10, market="y")
    built.run()
    assert shares(built) == [[2, 3, 4, 6, 7, 9]] * 3


def test_what_nobody_subscribes_to_opens_a_scope_all_the_same() -> None:
    built = network("bc", PolicyUse("state", {"opens": "type = 'open'", "closes": "type = 'close'"}))
    subscribed(built)
    built.clients["p"].publish(type="open")
    publish(built, 1, 1)
    built.clients["p"].publish(type="close")
    publish(built, 2, 2)
    assert shares(built) == [[1], [1]]


class EveryOther(Policy):
    """Gives every other notification to everybody, and shows what becomes of a policy."""

    lives: ClassVar[list[str]] = []

    def init(self, context: PolicyContext) -> None:
        self._count = 0
        self.lives.append("init")

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        self._count += 1
        return eligible if self._count % 2 else ()

    def remember(self) -> bytes:
        return msgspec.msgpack.encode(self._count)

    def recall(self, state: bytes) -> None:
        self._count = max(self._count, msgspec.msgpack.decode(state, type=int))

    def shutdown(self) -> None:
        self.lives.append("shutdown")


@pytest.fixture
def every_other() -> Iterator[None]:
    EveryOther.lives.clear()
    register_policy("every-other", EveryOther)
    yield
    register_policy("every-other", Policy)


@pytest.mark.req("VIS-605", "ARC-212")
@pytest.mark.usefixtures("every_other")
def test_a_policy_of_ones_own_keeps_its_state_from_point_to_point_and_is_shut_down_at_the_end() -> None:
    built = network("bcb", PolicyUse("every-other", {"point": ""}))
    subscribed(built)
    publish(built, 1, 3)
    built.cut("a", "b")
    built.run(30)
    built.heal("a", "b")
    built.run()
    publish(built, 4, 6)
    assert shares(built) == [[1, 3, 5]] * 3
    built.change("a", (SetPolicy("s", INTERNAL, None),))
    built.run(120)
    built.clients["p"].publish(n=7)
    built.run()
    assert shares(built) == [[1, 3, 5, 7]] * 3
    assert EveryOther.lives.count("shutdown") == EveryOther.lives.count("init")


@pytest.mark.req("VIS-612")
@pytest.mark.parametrize("seed", range(8))
def test_links_break_and_points_move_and_nobody_gets_anything_twice_or_in_the_place_of_another(seed: int) -> None:
    rng = random.Random(seed)
    built = network("abccb", PolicyUse("top-k", {"k": 2, "attribute": "rank"}), seed=seed)
    built.change("a", tuple(SetAttributes(f"@m{at}", {"rank": rank}) for at, rank in enumerate((1, 5, 5, 2, 3))))
    members = subscribed(built)
    n = 0
    for _ in range(6):
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
    for share in shares(built):
        assert len(share) == len(set(share))
    counted = got(built)
    assert max(counted.values()) <= 2
    if not any(one.gaps for one in members):
        assert set(counted.values()) == {2}
        assert counted.keys() == set(range(1, n + 1))


RELEASE = PolicyUse(
    "release", {"commit": "type = 'commit'", "abort": "type = 'abort'", "by": "t", "filter": "type = 'write'"}
)


def say(built: Network, who: str, type: str, t: int, n: int) -> None:
    built.clients[who].publish(type=type, t=t, n=n)
    built.run(0.2)


def test_members_get_what_is_committed_and_nothing_of_what_is_aborted() -> None:
    built = network("abc", RELEASE)
    subscribed(built)
    for n, (type, t) in enumerate(
        [("write", 1), ("write", 2), ("other", 1), ("write", 1), ("abort", 2), ("commit", 1), ("write", 1)], 1
    ):
        say(built, "p", type, t, n)
        assert all((1 in share) is (n >= 6) for share in shares(built))
    built.run()
    assert shares(built) == [[3, 5, 6, 1, 4]] * 3
    say(built, "p", "commit", 1, 8)  # what came behind the first commit waits for another
    assert shares(built) == [[3, 5, 6, 1, 4, 8, 7]] * 3


@pytest.mark.req("VIS-605")
@pytest.mark.parametrize("verdict", ["commit", "abort"])
def test_what_is_held_is_held_by_the_next_point_and_what_was_said_before_counts(verdict: str) -> None:
    built = network("bcb", RELEASE)
    subscribed(built)
    for n, t in ((1, 1), (2, 2), (3, 3)):
        say(built, "p", "write", t, n)
    say(built, "p", "commit", 3, 4)
    built.add_client("m9", "a")
    built.change("a", (Join("@m9", "s"),))
    built.clients["m9"].subscribe("n > 0")
    built.run(2)  # the point moves to a
    assert shares(built) == [[4, 3]] * 3 + [[]]
    say(built, "p", verdict, 1, 5)
    built.clients["m9"].unsubscribe(next(iter(built.clients["m9"].subscriptions)))
    built.change("a", (Leave("@m9", "s"),))
    built.run(2)  # and back to b
    say(built, "p", verdict, 2, 6)
    built.run()
    committed = verdict == "commit"
    assert shares(built)[:3] == [[4, 3, 5, *([1] if committed else []), 6, *([2] if committed else [])]] * 3
    assert not any(one.gaps for one in clients(built)[:3])


@pytest.mark.req("ARC-247")
def test_it_goes_on_when_enough_others_have_acknowledged_it() -> None:
    given = {"acknowledgement": "type = 'seen'", "count": 2, "by": "t", "filter": "type = 'order'"}
    built = network("abc", PolicyUse("acknowledged", given))
    subscribed(built, "type = 'order'")
    say(built, "p", "order", 1, 1)
    for who in ("p", "m0", "m0"):  # its publisher does not count, and nobody counts twice
        say(built, who, "seen", 1, 9)
    say(built, "m1", "seen", 2, 9)
    assert shares(built) == [[]] * 3
    say(built, "m1", "seen", 1, 9)
    assert shares(built) == [[1]] * 3


def test_more_than_a_point_holds_is_told_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_panel, "MAX_HELD", 2)
    built = network("ab", RELEASE)
    subscribed(built)
    for n in (1, 2, 3):
        say(built, "p", "write", 1, n)
    assert all([gap.first for gap in one.gaps] == [1] for one in clients(built))
    say(built, "p", "commit", 1, 4)
    assert shares(built) == [[4, 2, 3]] * 2


@pytest.mark.req("VIS-612", "VIS-605")
@pytest.mark.usefixtures("every_other")
@pytest.mark.parametrize("seed", range(4))
def test_what_was_under_way_to_several_when_a_link_broke_is_not_decided_again(seed: int) -> None:
    built = network("bccb", PolicyUse("every-other", {"point": ""}), seed=seed)
    subscribed(built)
    for n in range(1, 12):
        built.clients["p"].publish(n=n)
        built.run(0.002)
    built.cut("a", "b")  # a new tree: what is under way between the others is lost
    built.run(20)
    built.heal("a", "b")
    built.run()
    publish(built, 12, 13)
    assert not any(one.gaps for one in clients(built))
    assert [sorted(share) for share in shares(built)] == [[1, 3, 5, 7, 9, 11, 13]] * 4


@pytest.mark.req("VIS-612")
@pytest.mark.usefixtures("every_other")
@pytest.mark.parametrize(("seed", "wait"), [(2, 0.001), (5, 0.003), (1, 0.005), (7, 0.005)])
def test_what_a_new_tree_dropped_goes_to_those_it_was_decided_for(seed: int, wait: float) -> None:
    """In each of these, what was under way to two members is given to them again, by what the point knows of it."""
    built = network("bccb", PolicyUse("every-other", {"point": ""}), seed=seed)
    subscribed(built)
    built.cut("a", "b")
    for n in range(1, 32):
        if n == 12:
            built.run(20)
            built.heal("a", "b")
            built.run(wait * 3)
        built.clients["p"].publish(n=n)
        built.run(wait)
    built.run()
    assert [sorted(share) for share in shares(built)] == [list(range(1, 32, 2))] * 4
    assert not any(one.gaps for one in clients(built))


@pytest.mark.req("VIS-605")
def test_a_new_policy_does_not_take_the_state_of_the_old_one_which_judges_what_came_before() -> None:
    """Both are handed over: what was published before the change may still be under way."""
    built = network("ab", PolicyUse("rate-limit", {"count": 1, "seconds": 3_600}))
    subscribed(built)
    publish(built, 1, 1)
    published = next(one for one in built.trace.records if one.op is Op.NOTIFY)
    choosing = built.brokers["a"].features["choosing"]
    assert isinstance(choosing, Choosing)
    before = choosing.context.scoping.newest
    built.change("a", (SetPolicy("s", INTERNAL, PolicyUse("rate-limit", {"count": 1, "seconds": 60})),))
    while choosing.context.scoping.newest is before:
        built.run(0.0005)
    assert [view.comparing for view in choosing._views()] == [("s",), ("s",)]
    choosing.recall(KEY, [choosing.remembered(KEY)])  # as another point does
    assert isinstance(published.detail, Notified)
    identity = Identity(published.detail.origin, 1, 2, "p", 2, published.time)
    views = (before, choosing.context.scoping.newest)
    said = [view.chosen(Notification(n=2), ["m0"], identity, ("s",), lambda client: (0, 0)) for view in views]
    assert [one.clients for one in said] == [(), ("m0",)]


@pytest.mark.req("VIS-613")
def test_what_comes_late_keeps_the_rate_of_when_it_was_published() -> None:
    policy = RateLimit()
    policy.init(PolicyContext(INTERNAL, "s", {"count": 2, "seconds": 1}))

    def given(at: float, seq: int) -> bool:
        identity = Identity("b", 1, seq, "p", seq, round(at * 1_000_000))
        return bool(policy.select(Notification(n=1), ("@m",), PolicyContext(INTERNAL, "s", {}, identity=identity)))

    assert [given(at, seq) for seq, at in enumerate((100, 100.5, 100.9, 101))] == [True, True, False, True]
    assert [given(at, seq) for seq, at in enumerate((5, 5.1, 5.2, 6.05, 6.15), 10)] == [True, True, False, True, True]
    again = RateLimit()
    again.init(PolicyContext(INTERNAL, "s", {"count": 2, "seconds": 1}))
    again.recall(policy.remember())
    policy = again
    assert [given(at, seq) for seq, at in enumerate((5.15, 100.7, 7.2), 20)] == [False, False, True]


@pytest.mark.req("VIS-613")
def test_what_is_not_known_any_more_is_not_given_too_much() -> None:
    share = _rate_limit._Share()
    share.add(((at, "b", 1, at) for at in range(1, 6)), 3)
    assert [one[0] for one in share.given] == [3, 4, 5]
    assert [share.has_room((at, "b", 1, 99), 9, 2) for at in (1, 4, 5)] == [False, False, True]


def test_what_waits_for_a_policy_that_is_replaced_is_told_as_a_gap() -> None:
    built = network("ab", RELEASE)
    members = subscribed(built)
    say(built, "p", "write", 1, 1)
    built.change("a", (SetPolicy("s", INTERNAL, PolicyUse("rate-limit", {"count": 9, "seconds": 1})),))
    built.run()
    assert all(any(gap.first <= 1 for gap in one.gaps) for one in members)
    say(built, "p", "commit", 1, 2)
    assert shares(built) == [[2], [2]]


def test_many_members_share_what_a_rate_may_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_rate_limit, "MAX_TOTAL", 12)
    policy = RateLimit()
    policy.init(PolicyContext(INTERNAL, "s", {"count": 1_000, "seconds": 0.001}))
    members = [f"@m{at}" for at in range(4)]
    for seq in range(1, 11):
        identity = Identity("b", 1, seq, "p", seq, seq * 1_000_000)
        assert policy.select(Notification(n=1), members, PolicyContext(INTERNAL, "s", {}, identity=identity)) == members
    assert [len(share.given) for share in policy._shares.values()] == [3] * 4


def test_a_second_verdict_of_the_same_instant_releases_what_has_come_since_the_first() -> None:
    policy = Release()
    policy.init(PolicyContext(INTERNAL, "s", {"commit": "type = 'commit'", "by": "t"}))

    def asked(type: str, seq: int, at: int, *, waited: bool = False) -> Collection[str]:
        identity = Identity("b", 1, seq, "p", seq, at)
        context = PolicyContext(INTERNAL, "s", {}, identity=identity)
        context.waited = waited
        return policy.select(Notification(type=type, t=1), ("@m",), context)

    asked("commit", 1, 100)
    with pytest.raises(Wait):
        asked("write", 3, 101)
    asked("commit", 2, 100)  # published by the same client in the same microsecond
    assert asked("write", 3, 101, waited=True) == ("@m",)
    with pytest.raises(Wait):
        asked("write", 4, 101)
