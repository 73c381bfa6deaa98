"""Acknowledged groups at their deciding point."""

from __future__ import annotations

import pytest

from tidings.broker import Link
from tidings.groups import Acknowledged, Groups
from tidings.groups._fair import FairShare
from tidings.groups._handled import MAX_HOLES
from tidings.groups._jobs import SPARE, WAYS, Holder, Jobs
from tidings.groups._names import GroupName
from tidings.groups._work_messages import Claim, Facts
from tidings.scopes import OPEN, AnyChange, CreateScope, EdgeMapping, Join, Leave, Mapping, Scopes
from tidings.scopes.steps import Convert
from tidings.sim import Network, SimClient, check
from tidings.sim._habits import Act
from tidings.wire import Ack, Acked, Enlist, JobKey, Nack, Ranges, Work, pack

KEY = GroupName("", "", "billing").key


def link(network: Network, client: str) -> Link:
    found = feature(network, "a").context.client(client)
    assert found is not None
    return found


def feature(network: Network, broker: str) -> Acknowledged:
    found = network.brokers[broker].features["work"]
    assert isinstance(found, Acknowledged)
    return found


def built() -> Network:
    network = Network(seed=1, features=lambda broker: [plain := Groups(), Acknowledged(plain)])
    network.add_brokers("ab", links=("ab",))
    network.run()
    return network


def test_what_a_member_holds_that_has_gone_before_the_point_has_begun_is_left_to_the_next_one() -> None:
    network = built()
    work = feature(network, "a")
    work.points.wanted(KEY)
    work.say("a", Claim(KEY, "m", "g", (JobKey("b", 1, 1),)))
    network.run(1)
    assert work.groups[KEY].members == 0
    assert len(work.groups[KEY].jobs) == 0


ENDLESS = Work(30_000_000, 0)
DOUBLE = EdgeMapping(inward=Mapping((Convert("n", factor=2),)))


def keep(client: str, job: JobKey, deliveries: int) -> Act:
    """Hold everything."""
    return Act(None)


def scoped(*changes: AnyChange, members: int = 2) -> Network:
    """Brokers a and b, the publisher p at b, and members m0, m1 and so on at a."""

    def features(broker: str) -> list[object]:
        plain = Groups()
        return [Scopes("a"), plain, Acknowledged(plain)]

    built = Network(seed=1, features=features)  # type: ignore[arg-type]
    built.add_brokers("ab", links=("ab",))
    built.run()
    built.add_client("p", "b")
    for at in range(members):
        built.add_client(f"m{at}", "a")
    change(built, *changes)
    return built


def change(built: Network, *changes: AnyChange) -> None:
    answers = built.change("a", changes)
    built.run(1)
    assert [one.error for one in answers] == [""]


def enlist(built: Network, name: str, **how: object) -> SimClient:
    client = built.clients[name]
    client.enlist("billing", "n > 0", id="g", work=ENDLESS, **how)  # type: ignore[arg-type]
    built.run(1)
    return client


def publish(built: Network, *numbers: int) -> None:
    for n in numbers:
        built.clients["p"].publish(n=n)
    built.run(1)


def numbers(*clients: SimClient) -> list[object]:
    return [one["n"] for client in clients for one in client.received]


SCOPE = (CreateScope("s", OPEN), Join("@p", "s"), Join("@m0", "s"))


def test_members_of_a_scope_share_its_jobs() -> None:
    built = scoped(*SCOPE, Join("@m1", "s"))
    one, two = enlist(built, "m0"), enlist(built, "m1")
    publish(built, 1, 2, 3, 4)
    assert sorted(numbers(one, two)) == [1, 2, 3, 4]  # type: ignore[type-var]
    assert {len(one.received), len(two.received)} == {2}
    assert check(built.trace) == []


def test_a_member_that_leaves_the_scope_gives_back_what_it_holds_and_is_told_why() -> None:
    built = scoped(*SCOPE, Join("@m1", "s"))
    one, two = enlist(built, "m0", habit=keep), enlist(built, "m1")
    publish(built, 1, 2)
    change(built, Leave("@m0", "s"))
    assert sorted(numbers(two)) == [1, 2]  # type: ignore[type-var]
    assert [refusal.reason for refusal in one.refusals] == [
        "group 'billing' does not take client 'm0': its members are in the scopes 's', and this client is in (none); "
        "all members of a group must see the same"
    ]
    assert check(built.trace) == []


def test_a_member_gets_no_job_that_was_published_before_it_was_in_the_scope() -> None:
    built = scoped(*SCOPE)
    one = enlist(built, "m0", habit=keep, most=1)
    publish(built, 1, 2)  # the second one waits for room
    change(built, Join("@m1", "s"))
    two = enlist(built, "m1")
    publish(built, 3)
    assert (numbers(one), numbers(two)) == ([1], [])  # jobs are given in order, and the second one is for m0
    one.quit("g")
    built.run(1)
    assert numbers(two) == [3]
    assert check(built.trace) == []


def test_an_event_that_a_mapping_shows_in_two_forms_is_one_job() -> None:
    way = (CreateScope("t", OPEN), Join("t", "s", mapping=DOUBLE), CreateScope("u", OPEN), Join("u", "s"))
    built = scoped(*SCOPE[:2], *way, Join("@m0", "t"), Join("@m0", "u"))
    one = enlist(built, "m0")
    publish(built, 1, 2, 3)
    assert [len({1, 2} & set(numbers(one))), len(one.received)] in ([1, 3], [2, 3])
    assert check(built.trace) == []


def test_what_others_have_done_meanwhile_is_not_given_again() -> None:
    built = built_with_members()
    one, two = built.clients["m0"], built.clients["m1"]
    publish(built, 1)
    held = next(client for client in (one, two) if client.received)
    other = two if held is one else one
    feature(built, "a").groups[KEY].learned(
        "b", Facts(KEY, {"b": {1: [(1, 1)]}})
    )  # done in another part of the network
    held.quit("g")
    built.run(1)
    assert other.received == []


def built_with_members() -> Network:
    built = Network(seed=1, features=lambda broker: [plain := Groups(), Acknowledged(plain)])
    built.add_brokers("ab", links=("ab",))
    built.run()
    built.add_client("p", "b")
    for name in ("m0", "m1"):
        built.add_client(name, "a")
        enlist(built, name, habit=keep)
    return built


def test_what_is_to_happen_to_jobs_that_are_handled_is_forgotten() -> None:
    jobs = Jobs()
    for number in range(1, 10 * SPARE):
        job = jobs.expect(key := JobKey("a", 1, number))
        jobs.hold(job, key, Holder("a", "m", "g"), 1_000_000)
        jobs.finish(job)
    assert len(jobs._due) <= SPARE + 2


def test_a_job_goes_no_way_that_is_not_in_the_table() -> None:
    jobs = Jobs()
    job = jobs.expect(JobKey("a", 1, 1))
    assert (job.state, None) in {(way.before, way.after) for way in WAYS}
    jobs.finish(job)
    with pytest.raises(AssertionError, match=r"job a/1/1 cannot become JobState.DEAD: it is None"):
        jobs.bury(job)


@pytest.mark.parametrize(
    ("who", "id", "reason"),
    [
        ("m0", "g", "job b/1/1 of group 'billing' has been handled already; acknowledge each job once"),
        ("m1", "g", "job b/1/1 of group 'billing' has been handled already; acknowledge each job once"),
        ("m0", "x", "client 'm0' is no member of a group under the id 'x'; subscribe with `group` and `ack`"),
    ],
)
def test_an_acknowledgement_that_does_not_count_says_why(
    who: str, id: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = built_with_members()
    publish(built, 1)
    work, job, said = feature(built, "a"), JobKey("b", 1, 1), list[object]()
    for name in ("m0", "m1"):  # one of them holds it
        work.on_message(link(built, name), pack(Ack("g", job)))
    monkeypatch.setattr(work, "tell_worker", lambda link, one: said.append(one))
    work.on_message(link(built, who), pack(Ack(id, job)))
    assert said == [Acked(id, job, reason)]


def test_only_who_holds_a_job_acknowledges_it(monkeypatch: pytest.MonkeyPatch) -> None:
    built = built_with_members()
    publish(built, 1)
    other = next(name for name in ("m0", "m1") if not built.clients[name].received)
    work, job, said = feature(built, "a"), JobKey("b", 1, 1), list[object]()
    monkeypatch.setattr(work, "tell_worker", lambda link, one: said.append(one))
    for message in (Ack("g", job), Nack("g", job)):
        work.on_message(link(built, other), pack(message))
    reason = (
        f"client '{other}' does not hold job b/1/1 of group 'billing'; only the member that got it last acknowledges it"
    )
    assert said == [Acked("g", job, reason)] * 2
    assert len(work.groups[KEY].jobs) == 1


def joined_with(built: Network, **claims: object) -> list[str]:
    """What the broker refuses about a member that comes with these claims."""
    work = feature(built, "a")
    enlist = Enlist("h", "other", "n > 0", ENDLESS, 1, **claims)  # type: ignore[arg-type]
    refused: list[str] = []
    work.refuse = lambda link, id, error: refused.append(str(error))  # type: ignore[method-assign]
    work.on_message(link(built, "m0"), pack(enlist))
    return refused


@pytest.mark.parametrize(
    ("handled", "reason"),
    [
        (
            {"b": {1: [(5, 3)]}},
            "group 'other': 5 to 3 of 'b', epoch 1, cannot be handled; numbers begin at 1, and the first one comes "
            "before the last one",
        ),
        (
            {"b": {1: [(-1, 3)]}},
            "group 'other': -1 to 3 of 'b', epoch 1, cannot be handled; numbers begin at 1, and the first one comes "
            "before the last one",
        ),
        (
            {f"b{n}": {1: [(1, 1)]} for n in range(MAX_HOLES + 1)},
            "group 'other': a member says that it holds 0 jobs and knows 10,001 ranges of handled ones; at most 1,000 "
            "and 10,000 are possible",
        ),
    ],
)
def test_what_a_member_cannot_know_is_refused(handled: Ranges, reason: str) -> None:
    built = built_with_members()
    assert joined_with(built, handled=handled) == [reason]
    assert len(feature(built, "a").positions) == 1


def test_a_member_cannot_hold_more_than_any_may() -> None:
    held = tuple(JobKey("b", 1, n) for n in range(1, 1_002))
    assert joined_with(built_with_members(), held=held) == [
        "group 'other': a member says that it holds 1,001 jobs and knows 0 ranges of handled ones; at most 1,000 and "
        "10,000 are possible"
    ]


def test_who_has_many_groups_makes_room_before_others() -> None:
    share = FairShare(3)
    for owner, name in (("ann", "one"), ("eve", "one"), ("eve", "two"), ("", "three")):
        share.add(GroupName(owner, "", name).key)
    assert share.excess(lambda key: False) == GroupName("eve", "", "one").key
    assert share.excess(lambda key: key == GroupName("eve", "", "one").key) == GroupName("eve", "", "two").key
    share.discard(GroupName("eve", "", "one").key)
    assert share.excess(lambda key: False) is None
    share.add("no key of a group")
    share.add(GroupName("", "s", "four").key)
    assert share.excess(lambda key: True) is None


def test_groups_that_come_and_go_are_forgotten_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    built = built_with_members()
    work = feature(built, "a")
    monkeypatch.setattr(work._share, "_most", 5)
    monkeypatch.setattr(work.positions._share, "_most", 5)
    client = built.clients["m0"]
    for n in range(20):
        client.enlist(f"other{n}", "n > 0", id="h", work=ENDLESS)
        built.run(0.1)
        client.quit("h")
        built.run(0.1)
    assert len(work.groups) == 5 + 1  # and the one that has members
    assert len(work.positions) == 5
    assert KEY in work.groups
    assert work.positions.find(KEY) is not None


def test_a_scope_has_no_more_groups_than_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.groups._members.MAX_GROUPS_OF_OWNER", 2)
    built = scoped(*SCOPE)
    client = built.clients["m0"]
    for name in ("one", "two", "three"):
        client.enlist(f"s/{name}", "n > 0", id=name, work=ENDLESS)
    built.run(1)
    assert [refusal.reason for refusal in client.refusals] == [
        "'s/three' is one group too many: scope 's' has 2 at this broker, the maximum; leave one"
    ]
