"""Acknowledged groups at their deciding point."""

from __future__ import annotations

import pytest

from tidings.groups import Acknowledged, Groups
from tidings.groups._jobs import SPARE, WAYS, Holder, Jobs
from tidings.groups._names import GroupName
from tidings.groups._work_messages import Claim, Facts
from tidings.scopes import OPEN, AnyChange, CreateScope, EdgeMapping, Join, Leave, Mapping, Scopes
from tidings.scopes.steps import Convert
from tidings.sim import Network, SimClient, check
from tidings.sim._habits import Act
from tidings.wire import JobKey, Work

KEY = GroupName("", "", "billing").key


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
