"""Deciding points: one broker of a tree decides, and it begins with what all others know."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tidings.broker import POINT_WAVE, Feature, Joinpoint, Lineage, Points, Term, WaveKind, point_of
from tidings.sim import Network


class Oracle(Feature):
    """Decides about one thing, and notes when it may."""

    name = "oracle"

    def __init__(self, log: list[tuple[str, str]]) -> None:
        self.points = Points(lambda: self.context, self)
        self.told: dict[str, bytes] = {}
        self.word = ""
        self.asked = 0
        self._log = log

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        return {POINT_WAVE: self.points}

    def advice(self) -> Mapping[Joinpoint, Callable[..., Any]]:
        return {Joinpoint.TREE: self.new_tree}

    def new_tree(self, proceed: Callable[..., None], old: object, new: object) -> None:
        proceed(old, new)
        self.points.moved()
        self.context.call_later(1, lambda: self.points.wanted("thing"))

    def point(self, key: str) -> str:
        return point_of(self.context.tree.parents)

    def tell(self, key: str) -> bytes:
        self.asked += 1
        return (self.word or self.context.name).encode()

    def begin(self, key: str, told: Mapping[str, bytes]) -> None:
        self.told = dict(told)
        self._log.append((self.context.name, "begins"))

    def suspend(self, key: str) -> None:
        self._log.append((self.context.name, "waits"))

    def cease(self, key: str) -> None:
        self._log.append((self.context.name, "ceases"))


def oracle(network: Network, name: str) -> Oracle:
    feature = network.brokers[name].features["oracle"]
    assert isinstance(feature, Oracle)
    return feature


def built(names: str, links: list[str], seed: int = 1) -> tuple[Network, list[tuple[str, str]]]:
    log: list[tuple[str, str]] = []
    network = Network(seed=seed, features=lambda broker: [Oracle(log)])
    network.add_brokers(names, links=links)
    network.run()
    for name in names:
        oracle(network, name).points.wanted("thing")
    network.run()
    return network, log


def deciding(network: Network) -> list[str]:
    return [name for name in network.brokers if oracle(network, name).points.is_deciding("thing")]


def test_the_smallest_name_decides_and_has_heard_from_everybody() -> None:
    network, _ = built("cab", ["ca", "ab"])
    assert deciding(network) == ["a"]
    assert oracle(network, "a").told == {"a": b"a", "b": b"b", "c": b"c"}


def test_each_half_of_a_cut_network_has_a_point_and_the_whole_has_one_again() -> None:
    network, log = built("abcd", ["ab", "bc", "cd"])
    network.cut("b", "c")
    network.run()
    assert sorted(deciding(network)) == ["a", "c"]
    assert set(oracle(network, "c").told) == {"c", "d"}
    log.clear()
    network.heal("b", "c")
    network.run()
    assert deciding(network) == ["a"]
    assert set(oracle(network, "a").told) == set("abcd")
    assert log.index(("c", "ceases")) < log.index(("a", "begins"))


def test_what_nobody_wants_is_not_decided() -> None:
    network, _ = built("ab", ["ab"])
    oracle(network, "a").points.forget("thing")
    assert deciding(network) == []
    assert len(oracle(network, "a").points) == 0


def test_who_wants_it_once_more_does_not_begin_with_an_earlier_answer() -> None:
    network, log = built("ab", ["ab"])
    points = oracle(network, "a").points
    other = oracle(network, "b")
    points.again("thing")
    asked = other.asked
    while other.asked == asked:
        network.run(0.0005)
    other.word = "news"  # while the answer is under way
    points.forget("thing")
    points.wanted("thing")
    network.run()
    assert deciding(network) == ["a"]
    assert oracle(network, "a").told["b"] == b"news"
    assert log.count(("a", "begins")) == 2


@pytest.mark.parametrize("seed", range(6))
def test_no_two_brokers_of_one_tree_decide_at_any_moment(seed: int) -> None:
    rng = random.Random(seed)
    names = "abcdef"
    links = [f"{rng.choice(names[:at])}{names[at]}" for at in range(1, len(names))]
    network, _ = built(names, links, seed)
    cut: list[str] = []
    for _ in range(60):
        if cut and rng.random() < 0.5:
            network.heal(*cut.pop(rng.randrange(len(cut))))
        else:
            link = rng.choice(links)
            if link not in cut:
                network.cut(*link)
                cut.append(link)
        network.run(rng.uniform(0, 0.05))
        by_tree: dict[int, list[str]] = {}
        for name in deciding(network):
            by_tree.setdefault(network.brokers[name].adjacency.tree.epoch, []).append(name)
        assert all(len(points) == 1 for points in by_tree.values()), by_tree
    for link in cut:
        network.heal(*link)
    network.run()
    assert deciding(network) == ["a"]


def test_a_term_that_is_in_no_answer_is_lost() -> None:
    first, lineage = Lineage().next((), "a", 1)
    assert first == Term(1, "a", 1)
    assert lineage.lost([first]) == set()
    second, _ = lineage.next((), "b", 1)
    assert lineage.lost([first, second]) == {second}
    third, known = lineage.next([second], "c", 4)
    assert third == Term(3, "c", 4)
    assert known.lost([first, second, third]) == {second}
