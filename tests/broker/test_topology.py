"""The tree: a pure function of the links, breadth first from the smallest name."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.overlay import Topology
from tidings.wire import LinkState

NAMES = [f"b{number}" for number in range(9)]


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, set[str]]:
    """A connected graph: a tree of some shape, and links across it."""
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    draw(st.randoms(use_true_random=False)).shuffle(names)
    links = {name: set[str]() for name in names}
    for at, name in enumerate(names[1:], 1):
        other = draw(st.sampled_from(names[:at]))
        links[name].add(other)
        links[other].add(name)
    for one, other in draw(st.lists(st.tuples(st.sampled_from(names), st.sampled_from(names)), max_size=8)):
        if one != other:
            links[one].add(other)
            links[other].add(one)
    return links


def distances(links: dict[str, set[str]], start: str) -> dict[str, int]:
    found, layer = {start: 0}, {start}
    while layer := {other for one in layer for other in links[one]} - found.keys():
        found.update(dict.fromkeys(layer, max(found.values()) + 1))
    return found


@pytest.mark.req("AGG-126")
@given(graphs(), st.randoms(use_true_random=False))
def test_every_broker_computes_the_same_shortest_path_tree_from_the_smallest_name(
    links: dict[str, set[str]], rng: random.Random
) -> None:
    """The leader is the smallest name. Whatever the order in which states are heard, all brokers agree."""
    states = [LinkState(name, 1, len(near), dict.fromkeys(sorted(near), 1)) for name, near in links.items()]
    trees = {}
    for name, near in links.items():
        topology = Topology(name, 0)
        topology.links_up(near)
        rng.shuffle(states)
        for state in states:
            topology.learn(state)
        trees[name] = topology.tree()
    leader = min(links)
    parents = [dict(tree.parents) for tree in trees.values()]
    assert all(one == parents[0] for one in parents)
    assert parents[0].keys() == links.keys(), "nobody is left out"
    steps = distances(links, leader)
    paths = {leader: (leader,)}
    for child in sorted(links.keys() - {leader}, key=steps.__getitem__):
        paths[child] = min((*paths[near], child) for near in links[child] if steps[near] == steps[child] - 1)
    for child, parent in parents[0].items():
        if child == leader:
            assert parent is None
        else:
            assert parent in links[child]
            assert steps[child] == steps[str(parent)] + 1, "by a shortest path"
            assert (*paths[str(parent)], child) == paths[child], "of these, by the one whose names come first"
