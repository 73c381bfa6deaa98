"""Which links the brokers use: link states, and the tree that every broker computes from them.

Theory of operation
-------------------
Every broker floods the state of its own links (`LinkState`) on *all* its links; each broker keeps the newest
state of every broker it has heard of. An edge exists where both ends list each other. The forwarding tree is a
pure function of the known edges: a breadth-first tree from the broker with the smallest name in this broker's
connected part, neighbours in the order of their names. Brokers that know the same edges compute the same tree.

A tree is named by its *tree epoch*, a digest of its edges and of when each of them came up. So a tree over a link
that was lost and came back is another tree, although its edges have the same ends. It also counts the links that each
broker has lost: a link that comes and goes again may lead some brokers to another tree and back, and those that never
left the first one must notice, too, since frames were dropped on the way.

A broker sends every state that it has accepted before it sends anything that belongs to the tree it computed from
it. So whoever receives a frame knows at least as much as the sender knew. It may not have adopted that tree yet: see
`_adjacency` for why a frame whose epoch is not the receiver's own can be dropped.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from tidings.broker._bounds import MAX_NUMBER
from tidings.model import TopologyError
from tidings.wire import LinkState

MAX_EPOCH = 7_258_118_400_000_000
"""The largest epoch of a broker: the year 2200, in microseconds since 1970. No clock is wrong by that much."""
MAX_BROKERS = 10_000
"""The most brokers of a network."""


class Tree(NamedTuple):
    """A spanning tree as one broker sees it."""

    epoch: int
    neighbours: frozenset[str]
    """The neighbours of this broker in the tree."""
    hops: Mapping[str, str]
    """For every other broker that the tree connects, the neighbour in whose direction it lies."""
    parents: Mapping[str, str | None]
    """Every broker that the tree connects, this one included, each with the next one towards the same one of them."""


class Topology:
    """The link states that one broker knows, its own among them."""

    def __init__(self, name: str, epoch: int) -> None:
        self.name = name
        self._states: dict[str, LinkState] = {name: LinkState(name, epoch, 0, {})}

    @property
    def own(self) -> LinkState:
        """The state of this broker's own links."""
        return self._states[self.name]

    def knows(self, broker: str) -> bool:
        """Whether a state of this broker's links is known, its own included."""
        return broker in self._states

    def states(self) -> list[LinkState]:
        """All known states, for a neighbour that has just come."""
        return list(self._states.values())

    def links_up(self, neighbours: Iterable[str]) -> LinkState:
        """Note new links; the state to flood."""
        added = list(neighbours)
        version = self.own.version + len(added)
        return self._own(version, {**self.own.neighbours, **dict.fromkeys(added, version)})

    def link_down(self, neighbour: str) -> LinkState:
        """Note a lost link; the state to flood."""
        kept = {name: since for name, since in self.own.neighbours.items() if name != neighbour}
        return self._own(self.own.version + 1, kept)

    def _own(self, version: int, neighbours: dict[str, int]) -> LinkState:
        self._states[self.name] = state = LinkState(self.name, self.own.epoch, version, neighbours)
        return state

    def contests(self, state: LinkState) -> bool:
        """Whether others may believe this state of this broker rather than its own, and can be told better.

        The largest states that are valid cannot be outdone: brokers would refuse the answer, and cut off who passes it.
        """
        own = self.own
        if state.broker != self.name or state == own or (state.epoch, state.version) < (own.epoch, own.version):
            return False
        return state.epoch < MAX_EPOCH or state.version < MAX_NUMBER // 2

    def defend(self, state: LinkState) -> LinkState:
        """Outdo a state that contests this broker's own: from a past whose clock was ahead, or made up."""
        epoch, version, neighbours = state.epoch, state.version + 1, self.own.neighbours
        if version > MAX_NUMBER // 2:  # leave room for versions: nobody can outdo the last of them
            epoch, version = epoch + 1, len(neighbours)
        self._states[self.name] = own = LinkState(self.name, epoch, version, neighbours)
        return own

    def learn(self, state: LinkState) -> bool:
        """Take a state from a neighbour; False if it is not newer than what is known."""
        if not (0 <= state.epoch <= MAX_EPOCH and 0 <= state.version < MAX_NUMBER):
            raise TopologyError(
                f"epoch {state.epoch}, version {state.version} of broker '{state.broker}' is not a valid link state"
            )
        if state.broker == self.name:
            return False
        known = self._states.get(state.broker)
        if known is not None and (state.epoch, state.version) <= (known.epoch, known.version):
            return False
        if known is None and len(self._states) >= MAX_BROKERS:
            self._forget_unreachable()
        if (known is None and len(self._states) >= MAX_BROKERS) or len(state.neighbours) > MAX_BROKERS:
            raise TopologyError(f"a network may have at most {MAX_BROKERS:,} brokers")
        self._states[state.broker] = state
        return True

    def _forget_unreachable(self) -> None:
        """Who comes back says everything again."""
        reached = self._search(self.name)
        self._states = {name: state for name, state in self._states.items() if name in reached}

    def reachable(self, broker: str, start: Iterable[str] = ()) -> bool:
        """Whether the known edges lead to a broker, from this one or from others that are about to be neighbours."""
        return any(broker in self._search(one) for one in (self.name, *start) if one in self._states)

    def tree(self) -> Tree:
        """The tree of this broker's connected part."""
        parents = self._parents()
        edges = _edges(parents)
        links = [(child, parent, self._since(child, parent), self._since(parent, child)) for child, parent in edges]
        losses = [(broker, self._states[broker].epoch, self._losses(broker)) for broker in sorted(parents)]
        digest = hashlib.blake2b(msgspec.msgpack.encode((links, losses)), digest_size=7).digest()
        hops = _hops(self.name, edges)
        return Tree(int.from_bytes(digest, "big"), frozenset(hops.values()), hops, parents)

    def _losses(self, broker: str) -> int:
        """Grows when the broker loses a link, and only then: links that come add as many versions as neighbours."""
        state = self._states[broker]
        return state.version - len(state.neighbours)

    def edges(self) -> list[tuple[str, str]]:
        """The edges of that tree, each as (child, parent)."""
        return _edges(self._parents())

    def _parents(self) -> dict[str, str | None]:
        """The brokers that can be reached, each with the next one towards the one with the smallest name."""
        elsewhere: set[str] = set()
        for root in sorted(self._states):
            if root not in elsewhere:
                parents = self._search(root)
                if self.name in parents:
                    return parents
                elsewhere.update(parents)
        raise AssertionError("a broker knows itself")

    def _search(self, start: str) -> dict[str, str | None]:
        parents: dict[str, str | None] = {start: None}
        queue = deque([start])
        states = self._states
        while queue:
            broker = queue.popleft()
            for neighbour in sorted(states[broker].neighbours):
                if neighbour not in parents:
                    other = states.get(neighbour)
                    if other is not None and broker in other.neighbours:  # both ends say so
                        parents[neighbour] = broker
                        queue.append(neighbour)
        return parents

    def _since(self, broker: str, neighbour: str) -> tuple[int, int]:
        state = self._states[broker]
        return state.epoch, state.neighbours[neighbour]


def _edges(parents: Mapping[str, str | None]) -> list[tuple[str, str]]:
    return sorted((child, parent) for child, parent in parents.items() if parent is not None)


def _hops(start: str, edges: list[tuple[str, str]]) -> dict[str, str]:
    """For every broker that the edges reach from `start`, the first step towards it."""
    adjacent: dict[str, list[str]] = {}
    for one, two in edges:
        adjacent.setdefault(one, []).append(two)
        adjacent.setdefault(two, []).append(one)
    hops: dict[str, str] = {}
    stack = [(neighbour, neighbour, start) for neighbour in adjacent.get(start, ())]
    while stack:
        broker, first, previous = stack.pop()
        hops[broker] = first
        stack.extend((further, first, broker) for further in adjacent[broker] if further != previous)
    return hops


def check_tree(brokers: Iterable[str], links: Iterable[tuple[str, str]]) -> None:
    """Raise `TopologyError` unless these links make one tree of these brokers.

    >>> check_tree(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a")])
    Traceback (most recent call last):
    tidings.model._errors.TopologyError: the link c - a closes a cycle; leave it out, or use topology = "tree"
    """
    group = {broker: broker for broker in brokers}

    def leader(broker: str) -> str:
        if broker not in group:
            raise TopologyError(f"a link names the broker '{broker}', which does not exist; define it first")
        while group[broker] != broker:
            broker = group[broker]
        return broker

    for one, two in links:
        if leader(one) == leader(two):
            raise TopologyError(f'the link {one} - {two} closes a cycle; leave it out, or use topology = "tree"')
        group[leader(one)] = leader(two)
    parts = sorted({leader(broker) for broker in group})
    if len(parts) > 1:
        raise TopologyError(f"no path of links joins {parts[0]} and {parts[1]}; add a link between their parts")
