"""Groups in a simulated network: one member each time, in turn, wherever the members are."""

from __future__ import annotations

from collections import Counter

import pytest

from tidings.broker import Broker
from tidings.groups import Groups, _succession
from tidings.model import Filter
from tidings.sim import Network, SimClient, check, waste
from tidings.wire import Quality


def network(names: str = "abc", links: tuple[str, ...] = ("ab", "bc"), seed: int = 1) -> Network:
    built = Network(seed=seed, features=lambda broker: [Groups()])
    built.add_brokers(names, links=links)
    built.run()
    return built


def members(built: Network, brokers: str, filter: str = "n > 0") -> list[SimClient]:
    joined = [built.add_client(f"m{at}", broker) for at, broker in enumerate(brokers)]
    for member in joined:
        member.join("billing", filter, id="g")
    built.run()
    return joined


def numbers(client: SimClient) -> list[object]:
    return [one["n"] for one in client.received]


def feature(broker: Broker) -> Groups:
    found = broker.features["groups"]
    assert isinstance(found, Groups)
    return found


def test_each_notification_goes_to_one_member_in_turn_at_whichever_broker() -> None:
    built = network()
    several, publisher = members(built, "abcc"), built.add_client("p", "b")
    for n in range(1, 42):
        publisher.publish(n=n)
    built.run()
    shares = [len(one.received) for one in several]
    assert max(shares) - min(shares) <= 1
    assert Counter(n for one in several for n in numbers(one)) == Counter(range(1, 42))
    assert check(built.trace) == []


def test_who_subscribes_beside_a_group_gets_everything() -> None:
    built = network()
    members(built, "ac")
    beside, publisher = built.add_client("beside", "c"), built.add_client("p", "b")
    beside.subscribe("n > 0")
    built.run()
    for n in range(1, 11):
        publisher.publish(n=n)
    built.run()
    assert numbers(beside) == list(range(1, 11))


def test_the_network_routes_for_a_group_as_for_one_subscriber() -> None:
    built = network()
    members(built, "ccc")
    assert [entry.link.name for entry in built.brokers["b"].root.subscriptions] == ["a"]
    assert [str(entry.filter) for entry in built.brokers["c"].root.subscriptions] == ["n > 0"]


def test_who_leaves_gets_nothing_more_and_the_others_get_all() -> None:
    built = network()
    (first, second), publisher = members(built, "bc"), built.add_client("p", "a")
    first.leave("g")
    built.run()
    for n in range(1, 6):
        publisher.publish(n=n)
    built.run()
    assert (numbers(first), numbers(second)) == ([], [1, 2, 3, 4, 5])


def test_what_is_under_way_to_a_member_that_leaves_goes_to_another() -> None:
    built = network()
    (first, second), publisher = members(built, "cc"), built.add_client("p", "a")
    for n in range(1, 21):
        publisher.publish(n=n)
    built.run(0.004)
    first.leave("g")
    built.run()
    assert sorted([*numbers(first), *numbers(second)]) == list(range(1, 21))  # type: ignore[type-var]


def test_a_member_whose_connection_is_lost_is_out_of_turn() -> None:
    built = network()
    (first, second), publisher = members(built, "bc"), built.add_client("p", "a")
    first.vanish(noticed=0.0, kept=1_000.0)
    built.run(1)
    for n in range(1, 6):
        publisher.publish(n=n)
    built.run(1)
    assert numbers(second) == [1, 2, 3, 4, 5]


def test_after_a_cut_nothing_is_decided_twice_and_nothing_is_lost() -> None:
    built = network("abcd", ("ab", "bc", "cd"))
    several, publisher = members(built, "ad"), built.add_client("p", "d")
    for n in range(1, 11):
        publisher.publish(n=n)
    built.run()
    built.cut("b", "c")
    built.run(5)
    for n in range(11, 21):
        publisher.publish(n=n)
    built.run(5)
    built.heal("b", "c")
    built.run()
    for n in range(21, 31):
        publisher.publish(n=n)
    built.run()
    assert Counter(n for one in several for n in numbers(one)) == Counter(range(1, 31))
    assert check(built.trace) == []


def cut_while_under_way(seed: int) -> Counter[object]:
    """Who gets how often what was assigned when a link broke, while all members stay and another way is left."""
    built = network("abc", ("ab", "bc", "ac"), seed)
    several, publisher = members(built, "cc"), built.add_client("p", "a")
    for n in range(1, 31):
        publisher.publish(n=n)
    built.run(0.005 + seed * 0.0005)
    built.cut("a", "c")
    built.run()
    counted = Counter(n for one in several for n in numbers(one))
    assert (check(built.trace) == []) == (counted == Counter(range(1, 31)))
    return counted


@pytest.mark.parametrize("seed", range(12))
def test_what_is_under_way_when_a_link_breaks_arrives_once(seed: int) -> None:
    assert cut_while_under_way(seed) == Counter(range(1, 31))


def test_what_is_under_way_would_be_lost_if_it_was_not_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_succession, "undelivered", lambda open, told: ([], []))
    assert any(cut_while_under_way(seed) != Counter(range(1, 31)) for seed in range(12))


def test_if_the_point_dies_the_members_are_told_and_go_on() -> None:
    built = network("abc", ("ab", "bc", "ac"))
    several, publisher = members(built, "bc"), built.add_client("p", "c")
    publisher.publish(n=1)
    built.run()
    built.crash("a")
    built.run(5)
    assert all(any(gap.origin == "c" and gap.last is None for gap in one.gaps) for one in several)
    for n in range(2, 8):
        publisher.publish(n=n)
    built.run()
    assert Counter(n for one in several for n in numbers(one)) == Counter(range(1, 8))


def test_what_a_point_decided_that_died_with_all_members_is_not_decided_again_elsewhere() -> None:
    built = network("bc", ("bc",))
    (only,), publisher = members(built, "b"), built.add_client("p", "b")
    for n in range(1, 6):
        publisher.publish(n=n, quality=Quality.STORED)
    built.run(0.2)
    assert numbers(only) == [1, 2, 3, 4, 5]
    built.crash("b")
    built.run(0.1)
    only.attach("c")
    built.run(1)
    built.restart("b")
    built.run()
    assert numbers(only) == [1, 2, 3, 4, 5]
    assert check(built.trace) == []


def test_when_everybody_has_gone_nothing_is_left() -> None:
    built = network()
    several, publisher = members(built, "abc"), built.add_client("p", "b")
    publisher.publish(n=1)
    built.run()
    for client in (*several, publisher):
        client.detach()
    built.run()
    assert waste(built) == []


def test_a_group_of_nobody_begins_with_what_is_published_next() -> None:
    built = network()
    (only,), publisher = members(built, "c"), built.add_client("p", "b")
    only.leave("g")
    built.run(1)
    publisher.publish(n=1)
    built.run(1)
    only.join("billing", "n > 0", id="g")
    built.run(1)
    publisher.publish(n=2)
    built.run()
    assert numbers(only) == [2]


@pytest.mark.parametrize("brokers", ["bb", "bc"])
def test_a_second_filter_is_refused_wherever_it_comes_from(brokers: str) -> None:
    built = network()
    (first,) = members(built, brokers[0])
    second = built.add_client("late", brokers[1])
    second.join("billing", "n > 5", id="g")
    built.run()
    assert [one.reason for one in second.refusals] == [
        "group 'billing' does not take client 'late': the filter of the group is 'n > 0', and this is 'n > 5'; "
        "subscribe with the filter of the group, or choose another group"
    ]
    assert first.refusals == []


def test_a_scope_that_a_client_is_not_in_has_no_group_for_it() -> None:
    built = network()
    client = built.add_client("m", "b")
    client.join("market/engines", "n > 0", id="g")
    built.run()
    assert [one.reason for one in client.refusals] == [
        "client 'm' is no member of scope 'market', so it cannot join the group 'engines' there; ask an administrator "
        "of the scope for a membership, or use a group of your own"
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "'' has 0 characters; the name of a group has 1 to 256"),
        (
            "/x",
            "'/x' is not the name of a group; write a name, as in 'billing', or a scope and a name, as in "
            "'market/billing'",
        ),
    ],
)
def test_a_bad_name_is_refused(name: str, reason: str) -> None:
    built = network()
    client = built.add_client("m", "b")
    client.join(name, "n > 0", id="g")
    built.run()
    assert [one.reason for one in client.refusals] == [reason]


def test_a_filter_that_means_something_else_for_each_member_is_refused() -> None:
    built = network()
    client = built.add_client("m", "b")
    client.join("billing", Filter.parse("place WITHIN myloc"), id="g")
    built.run()
    assert "uses myloc, which means something else for each member; name the place" in client.refusals[0].reason


def test_brokers_that_say_nonsense_are_counted_and_not_believed() -> None:
    built = network()
    members(built, "c")
    before = built.brokers["a"].statistics.refused
    feature(built.brokers["b"]).context.send_to("a", b"\xc1")
    built.run()
    assert built.brokers["a"].statistics.refused == before + 1
