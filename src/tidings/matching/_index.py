"""The engine that brokers use.

Theory of operation
-------------------
Every conjunction has one home. If one of its constraints is rarely passed, that one is its pivot, and it
hangs under the nodes of the pivot (`_pivot`, `_probe`, `_node`). If none is, it gets a slot in a segment,
where thousands are tested at once (`_segment`, `_column`). Nodes with a crowd have segments of their own.
What must be checked one by one is a row of operands, tested by code that all conjunctions of the same
shape share (`_shape`, `_code`). Filters that only have `matches` are asked one by one.

What is rare is estimated from a sample of notifications (`_estimate`), which is empty at first. So homes
are reviewed: a node that has doubled in size, and everything that is met after an epoch of the estimates,
puts its conjunctions into a queue; each later change, and every now and then a match, reviews a few from
it and moves those that have a clearly better home by now. Nothing is ever rebuilt.

A notification with a list in it takes another, slower path: each element leads to nodes, segments say
nothing about the list, and whoever asks about the list itself is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Generic

from tidings.model import Filter, Matches, Notification, Value

from ._estimate import Estimator
from ._home import Constraints, Home
from ._matcher import K, conjunctions_of
from ._node import Node
from ._pivot import Pivot, way
from ._probe import Probes
from ._segment import SLOTS, Segment, Segments
from ._shape import RowShape, Signature, ordered, signature

RARE = 0.03
"""A pivot that costs no more is a good one: it leads at most this share of notifications to the conjunction."""
SPARED = 16.0
"""A segment costs about as much as so many single checks. As long as conjunctions without a good pivot
cause fewer checks than that, they hang under the best pivot that they have."""
SPARED_PER_SLOT = SPARED / 1000
"""Where there are segments anyway, one more conjunction in them costs next to nothing."""
BETTER = 2.0
"""So many times rarer must another pivot be to be worth a move."""
STRIDE = 16
"""Every so many-th match feeds the estimates and reviews homes."""
REVIEWS = 4
"""Homes reviewed at such a match. A change reviews one."""
PATIENT_STRIDE = 64
"""As `STRIDE`, once the sample is full and no review is due."""


class Index(Generic[K]):
    """Conjunctions under their most selective constraint, or in segments of thousands."""

    match_body = None  # bodies are decoded first
    plane = None  # and so are publications

    def __init__(self) -> None:
        self._homes: dict[K, list[Home]] = {}
        self._open: dict[K, Matches] = {}
        self._several = 0
        """How many keys have more than one conjunction, and so may be found twice."""
        self._always: dict[Home, K] = {}
        """Conjunctions without a constraint."""
        self._probes = Probes()
        self._segments = Segments()
        self._common: dict[Home, float] = {}
        """Conjunctions that hang under a pivot for want of a good one, and its cost."""
        self._checks = 0.0
        """The sum of these costs: the checks that a notification causes there."""
        self._shapes: dict[Signature, RowShape] = {}
        self._estimator = Estimator()
        self._queue: deque[Home] = deque()
        self._due: dict[Segment, None] = {}
        """Segments whose conjunctions are to be queued: one at a time, since each holds thousands."""
        self._countdown = STRIDE
        self._epoch = 0

    def add(self, filter: Filter | Matches, key: K, /) -> None:
        """Hold a filter under a new key."""
        if key in self._homes:
            raise KeyError(key)
        conjunctions = conjunctions_of(filter)
        self._homes[key] = homes = []
        if conjunctions is None:
            self._open[key] = filter
            return
        self._several += len(conjunctions) > 1
        for conjunction in conjunctions:
            home = Home(conjunction, key)
            homes.append(home)
            constraints = home.constraints()
            for _, atom in constraints:
                self._estimator.learn(atom)
            self._settle(home, constraints, self._ways(constraints))
        self._review_some(1)

    def remove(self, key: K, /) -> None:
        homes = self._homes.pop(key)
        if self._open.pop(key, None) is not None:
            return
        self._several -= len(homes) > 1
        for home in homes:
            constraints = home.constraints()
            self._leave(home, constraints)
            home.place = None
            for _, atom in constraints:
                self._estimator.forget(atom)
        if self._homes:
            self._review_some(1)
        else:
            self._queue.clear()
            self._due.clear()

    def match(self, notification: Notification, /) -> list[K]:
        """The keys whose filters match."""
        attributes = notification.attributes
        by_type = self._probes.by_type
        hit: list[Node] = []
        try:
            for name, value in attributes.items():
                probe = by_type[type(value)].get(name)
                if probe is not None:
                    node = probe.equal.get(value)
                    if node is not None:
                        hit.append(node)
                    if probe.more:
                        probe.find(value, hit)
        except KeyError:  # the type of a list is not in the table
            return self._match_lists(notification)
        found: list[K] = list(self._always.values()) if self._always else []
        for node in hit:
            for row in node.singles:
                if row[0].check(row, attributes):
                    found.append(row[-1])  # noqa: PERF401 - for a handful, a loop is faster
            if node.keys is not None:
                found += node.keys.values()
            if node.segments is not None:
                for segment in node.segments.parts:
                    segment.match(attributes, found)
        for segment in self._segments.parts:
            segment.match(attributes, found)
        if self._open:
            found += [key for key, filter in self._open.items() if filter.matches(notification)]
        self._countdown -= 1
        if not self._countdown:
            self._observe(attributes, hit)
        return list(dict.fromkeys(found)) if self._several else found

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        return [self.match(notification) for notification in batch]

    def review(self, most: int) -> int:
        """Look for better homes for some conjunctions that wait for it; the number that still wait.

        The index does this by itself, a little at a time. A server may do more of it when it is idle.
        """
        self._review_some(most)
        return self._waiting()

    def __len__(self) -> int:
        return len(self._homes)

    def __contains__(self, key: object, /) -> bool:
        return key in self._homes

    def statistics(self) -> dict[str, int]:
        """The size of the table and of its parts."""
        return {
            "filters": len(self._homes),
            "conjunctions": sum(map(len, self._homes.values())) + len(self._open),
            "open": len(self._open),
            "always": len(self._always),
            "attributes": len(self._probes),
            "shapes": len(self._shapes),
            "in_segments": len(self._segments),
            "waiting": self._waiting(),
            "spreads": self._estimator.spreads,
        }

    def _match_lists(self, notification: Notification) -> list[K]:
        """As `match`, for a notification with lists."""
        attributes = notification.attributes
        lists = {name for name, value in attributes.items() if type(value) is tuple}
        hit = dict.fromkeys(node for name in attributes for node in self._probes.candidates(name, attributes[name]))
        homes = dict.fromkeys(home for node in hit for home in node.candidates(attributes))
        homes.update(dict.fromkeys(self._segments.candidates(attributes)))
        found: dict[K, None] = dict.fromkeys(self._always.values())
        found.update((home.key, None) for home in homes if home.passes(attributes, lists))
        found.update((key, None) for key, filter in self._open.items() if filter.matches(notification))
        self._countdown -= 1
        if not self._countdown:
            self._observe(attributes, hit)
        return list(found)

    def _ways(self, constraints: Constraints) -> list[tuple[float, Pivot]]:
        """The possible pivots, each with its cost."""
        estimator = self._estimator
        ways = [way(constraint, atom, estimator) for constraint, atom in constraints]
        return [found for found in ways if found is not None]

    def _settle(self, home: Home, constraints: Constraints, ways: list[tuple[float, Pivot]]) -> None:
        """Give a conjunction a home."""
        if not constraints:
            home.place = self._always
            self._always[home] = home.key
            return
        home.pivot = pivot = self._choose(home, ways)
        left = home.left(constraints)
        if left:
            atoms = ordered([atom for _, atom in left])
            home.shape = shape = self._shape(signature(atoms))
            home.row = shape.row(atoms, home, home.key)
        if pivot is None:
            home.place = self._segments
            self._segments.add(home, left)
            return
        home.place = nodes = self._probes.nodes(pivot)
        for node in nodes:
            node.add(home, left)
            if node.size >= node.review_at:
                node.review_at = 2 * node.size
                self._revisit(node)

    def _choose(self, home: Home, ways: list[tuple[float, Pivot]]) -> Pivot | None:
        """The pivot under which a conjunction should hang; None if a segment is better."""
        if not ways:
            return None
        cost, pivot = min(ways, key=_cost)
        if cost > RARE:
            if self._checks + cost > self._spared():
                self._enqueue(self._common)
                return None
            self._common[home] = cost
            self._checks += cost
        return pivot

    def _spared(self) -> float:
        """How many checks may go to conjunctions without a good pivot."""
        return SPARED - SPARED_PER_SLOT * len(self._segments)

    def _leave(self, home: Home, constraints: Constraints) -> None:
        """Take a conjunction out of its home."""
        place, left = home.place, home.left(constraints)
        if place is self._always:
            del self._always[home]
        elif home.pivot is None:
            self._segments.remove(home, left)
        else:
            for node in place:
                node.remove(home, left)
            self._probes.prune(home.pivot)
            self._checks -= self._common.pop(home, 0.0)
            if not self._common:
                self._checks = 0.0  # sums of floats drift
        if home.shape is not None:
            home.shape.rows -= 1
            if not home.shape.rows:
                del self._shapes[home.shape.key]
                home.shape.drop()
        home.pivot = home.shape = None
        home.row = ()

    def _shape(self, key: Signature) -> RowShape:
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = RowShape(key)
        shape.rows += 1
        return shape

    def _observe(self, attributes: dict[str, Value], hit: Iterable[Node]) -> None:
        """Learn from a notification, and review what it met if that was placed by older estimates."""
        estimator = self._estimator
        estimator.observe(attributes)
        if self._epoch != estimator.epoch:
            self._epoch = estimator.epoch
            self._due.update(dict.fromkeys(self._segments.parts))
        for node in hit:
            if node.epoch != estimator.epoch:
                node.epoch = estimator.epoch
                self._revisit(node)
        self._review_some(REVIEWS)
        self._countdown = STRIDE if self._queue or self._due or not estimator.full else PATIENT_STRIDE

    def _revisit(self, node: Node) -> None:
        """Let the conjunctions of a node wait for a review."""
        self._enqueue(row[-2] for row in node.singles)
        self._enqueue(islice(node.keys or (), SLOTS))
        if node.segments is not None:
            self._due.update(dict.fromkeys(node.segments.parts))

    def _enqueue(self, homes: Iterable[Home]) -> None:
        """Let conjunctions wait for a review, each once."""
        for home in homes:
            if not home.waiting:
                home.waiting = True
                self._queue.append(home)

    def _waiting(self) -> int:
        return len(self._queue) + sum([len(segment.slots) for segment in self._due])

    def _review_some(self, most: int) -> None:
        queue = self._queue
        if not queue and self._due:
            segment = next(iter(self._due))
            del self._due[segment]
            self._enqueue(segment.slots)
        for _ in range(min(8 * most, len(queue))):  # some that waited have been removed: that costs little
            home = queue.popleft()
            home.waiting = False
            if home.place is not None:
                self._review(home)
                most -= 1
                if not most:
                    break

    def _review(self, home: Home) -> None:
        """Move a conjunction if it has a clearly better home by now."""
        constraints = home.constraints()
        ways = self._ways(constraints)
        if not ways:
            return
        best = min(map(_cost, ways))
        if home.pivot is None:
            better = best * BETTER < RARE
        else:
            now = next(cost for cost, pivot in ways if pivot.leads_where(home.pivot))
            crowded = home in self._common and self._checks > self._spared()
            better = best * BETTER < now or crowded or (now > RARE * BETTER and home not in self._common)
        if better:
            self._leave(home, constraints)
            self._settle(home, constraints, ways)


def _cost(found: tuple[float, Pivot]) -> float:
    return found[0]
