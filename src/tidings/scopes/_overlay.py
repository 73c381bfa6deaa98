"""Overlays: which brokers carry a scope. Derived from the tree and from where members are, never stored."""

from __future__ import annotations

from collections.abc import Mapping

MAX_TREES = 16
"""How many trees' overlays are remembered."""


def span(parents: Mapping[str, str | None], anchors: frozenset[str]) -> frozenset[str]:
    """The smallest subtree that joins these brokers; those that the tree does not reach are left out.

    >>> sorted(span({"a": None, "b": "a", "c": "b", "d": "a"}, frozenset("cd")))
    ['a', 'b', 'c', 'd']
    >>> sorted(span({"a": None, "b": "a", "c": "b", "d": "a"}, frozenset("bc")))
    ['b', 'c']
    """
    reached = [anchor for anchor in anchors if anchor in parents]
    below: dict[str, int] = {}
    for anchor in reached:
        node: str | None = anchor
        while node is not None:
            below[node] = below.get(node, 0) + 1
            node = parents[node]
    inner = {node for node, count in below.items() if count < len(reached)}
    whole = [node for node, count in below.items() if count == len(reached)]
    # Of those above all anchors only the lowest belongs to it: no other one is its parent's only way down.
    lowest = [node for node in whole if not any(parents[other] == node for other in whole)]
    return frozenset(inner.union(lowest))


class Spans:
    """Overlays that were worked out before, of the latest trees."""

    def __init__(self) -> None:
        self._trees: dict[int, dict[frozenset[str], frozenset[str]]] = {}

    def of(self, epoch: int, parents: Mapping[str, str | None], anchors: frozenset[str]) -> frozenset[str]:
        """The smallest subtree of a tree that joins these brokers."""
        known = self._trees.get(epoch)
        if known is None:
            while len(self._trees) >= MAX_TREES:
                del self._trees[next(iter(self._trees))]
            known = self._trees[epoch] = {}
        found = known.get(anchors)
        if found is None:
            found = known[anchors] = span(parents, anchors)
        return found
