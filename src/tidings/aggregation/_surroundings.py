"""What lies behind each neighbour: how many brokers, and how far. Every broker knows the whole tree."""

from __future__ import annotations

from collections import deque

from tidings.broker import Tree

from ._shares import Below


def surroundings(broker: str, tree: Tree) -> dict[str, Below]:
    """For each tree neighbour of a broker, what lies behind it."""
    adjacent: dict[str, list[str]] = {name: [] for name in tree.parents}
    for child, parent in tree.parents.items():
        if parent is not None:
            adjacent[child].append(parent)
            adjacent[parent].append(child)
    found = {name: Below(0, 0, 0) for name in tree.neighbours}
    queue = deque((name, name, 1) for name in sorted(tree.neighbours))
    seen = {broker, *tree.neighbours}
    while queue:
        one, first, height = queue.popleft()
        onward = [other for other in adjacent.get(one, ()) if other not in seen]
        behind = found[first]
        found[first] = Below(behind.brokers + 1, behind.leaves + (not onward), max(behind.height, height))
        seen.update(onward)
        queue.extend((other, first, height + 1) for other in onward)
    return found
