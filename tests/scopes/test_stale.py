"""A change that was worked out on one version of the graph is not made on another one."""

from __future__ import annotations

from scopes.network_world import Watched

from tidings.scopes import Anchor, Answer, AnyChange, Ask, CreateScope, Join, SetAttributes

PLACES = {"x": "a", "y": "b"}


def world() -> Watched:
    made = Watched("abc", ["ab", "bc"], PLACES)
    assert not made.change(CreateScope("S"), Join("@x", "S"), Join("@y", "S")).error
    return made


def asked(world: Watched, expected: int | None, *changes: AnyChange, at: str = "c") -> Answer:
    answers: list[Answer] = []
    world.scopes(at).ask(changes, answers.append, administrator=True, template=Ask("", changes, expected=expected))
    world.network.run()
    (answer,) = answers
    return answer


def test_a_change_of_the_version_that_is_the_newest_is_made() -> None:
    network = world()
    now = network.scopes("c").graph.version
    assert not asked(network, now, CreateScope("T")).error
    assert "T" in network.scopes("a").graph.scopes


def test_a_change_of_an_older_version_changes_nothing_and_says_which_is_the_newest() -> None:
    network = world()
    before = network.scopes("c").graph.version
    assert not asked(network, None, SetAttributes("S", {"x": 1})).error
    answer = asked(network, before, CreateScope("T"))
    assert answer.error == "StaleGraph"
    assert answer.reason == (
        f"this change was worked out on version {before} of the scope graph, and version {before + 1} is the newest; "
        "look at what has changed, and work it out again"
    )
    assert "T" not in network.scopes("a").graph.scopes
    assert network.scopes("a").graph.version == before + 1


def test_a_change_of_a_version_that_is_not_there_yet_is_of_another_network() -> None:
    network = world()
    assert asked(network, network.scopes("c").graph.version + 1, CreateScope("T")).error == "StaleGraph"


def test_two_changes_of_one_version_cannot_both_be_made() -> None:
    network = world()
    now = network.scopes("c").graph.version
    answers: list[Answer] = []
    for at, change in (("a", CreateScope("T")), ("c", CreateScope("U"))):
        ask = Ask("", (change,), expected=now)
        network.scopes(at).ask((change,), answers.append, administrator=True, template=ask)
    network.network.run()
    assert sorted(answer.error for answer in answers) == ["", "StaleGraph"]


def test_a_client_that_moves_to_another_broker_makes_no_other_graph() -> None:
    network = world()
    before = network.scopes("c").graph
    network.client("x").detach()
    network.client("x").attach("c")
    network.network.run()
    after = network.scopes("c").graph
    assert after.version > before.version
    assert "c" in after.anchors["S"]
    assert not asked(network, before.version, CreateScope("T")).error


def test_a_broker_that_an_administrator_added_counts() -> None:
    network = world()
    before = network.scopes("c").graph.version
    assert not asked(network, None, Anchor("S", "c", stay=True)).error
    assert asked(network, before, CreateScope("T")).error == "StaleGraph"
