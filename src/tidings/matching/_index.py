"""The engine that brokers use.

Theory of operation
-------------------
Every conjunction has one home. If one of its constraints is rarely passed, that one is its pivot, and it
hangs under the nodes of the pivot (`_pivot`, `_probe`, `_node`); what is left of it is a row of operands,
tested by code that all conjunctions of the same shape share (`_shape`, `_code`). If none is, it gets a
slot in a segment, where thousands are tested at once (`_segment`, `_column`). Filters that only have
`matches` are asked one by one.

What is rare is estimated from a sample of notifications (`_estimate`), which is empty at first. So homes
are reviewed: a node that has doubled in size, and everything that is met after an epoch of the estimates,
puts its conjunctions into a queue; each later change, and every now and then a match, reviews a few from
it and moves those that have a clearly better home by now. Nothing is ever rebuilt.

A notification with a list in it takes another, slower path: it collects every conjunction that may match
and asks each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic

from tidings.model import Conjunction, Filter, Matches, Notification, Value

from ._atom import Atom, atom_of
from ._estimate import Estimator
from ._matcher import K, conjunctions_of
from ._node import Home, Node
from ._pivot import Pivot, pivots
from ._probe import Probes
from ._segment import SLOTS, Constraints, Segment
from ._shape import Shape, Signature, ordered, signature

RARE = 0.02
"""A constraint that a larger share of notifications passes does not make a pivot."""
BETTER = 2.0
"""So many times rarer must another pivot be to be worth a move."""
STRIDE = 16
"""Every so many-th match feeds the estimates and reviews homes."""
REVIEWS = 4
"""Homes reviewed at such a match; half as many at a change."""
PATIENT_STRIDE = 64
"""As `STRIDE`, once the sample is full and no review is due."""


class Index(Generic[K]):
    """Conjunctions under their most selective constraint, or in segments of thousands."""

    def __init__(self) -> None:
        self._homes: dict[K, list[Home]] = {}
        self._open: dict[K, Matches] = {}
        self._several = 0
        """How many keys have more than one conjunction, and so may be found twice."""
        self._always: dict[Home, K] = {}
        """Conjunctions without a constraint."""
        self._probes = Probes()
        self._segments: list[Segment] = []
        self._shapes: dict[Signature, Shape] = {}
        self._estimator = Estimator()
        self._queue: deque[Home] = deque()
        self._countdown = STRIDE
        self._seq = 0

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
            self._seq += 1
            home = Home(conjunction, key, self._seq)
            homes.append(home)
            constraints = _taken_apart(conjunction)
            for _, atom in constraints:
                self._estimator.learn(atom)
            self._settle(home, constraints, self._ways(constraints))
        self.review(REVIEWS // 2)

    def remove(self, key: K, /) -> None:
        """Forget a key."""
        homes = self._homes.pop(key)
        if self._open.pop(key, None) is not None:
            return
        self._several -= len(homes) > 1
        for home in homes:
            constraints = _taken_apart(home.conjunction)
            self._leave(home, constraints)
            home.place = None
            for _, atom in constraints:
                self._estimator.forget(atom)
        self.review(REVIEWS // 2)

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
            if node.singles:
                found += [row[-1] for shape, row in node.singles if shape.check(row, attributes)]
            if node.keys is not None:
                found += node.keys.values()
            if node.groups is not None:
                for shape, leaf in node.groups.items():
                    shape.scan(leaf, attributes, found)
        for segment in self._segments:
            segment.match(attributes, found)
        if self._open:
            found += [key for key, filter in self._open.items() if filter.matches(notification)]
        self._countdown -= 1
        if not self._countdown:
            self._observe(attributes, hit)
        return list(dict.fromkeys(found)) if self._several else found

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        """As `match`, for each notification."""
        return [self.match(notification) for notification in batch]

    def review(self, most: int) -> int:
        """Look for better homes for some conjunctions that wait for it; the number that still wait.

        The index does this by itself, a little at a time. A server may do more of it when it is idle.
        """
        queue = self._queue
        while most and queue:
            home = queue.popleft()
            if home.place is not None:
                self._review(home)
                most -= 1
        return len(queue)

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
            "segments": len(self._segments),
            "in_segments": sum(segment.size for segment in self._segments),
            "waiting": len(self._queue),
            "spreads": self._estimator.spreads,
        }

    def _match_lists(self, notification: Notification) -> list[K]:
        """As `match`, for a notification with lists."""
        attributes = notification.attributes
        candidates = list(self._always)
        for name, value in attributes.items():
            for node in self._probes.candidates(name, value):
                candidates += node.homes()
        for segment in self._segments:
            candidates += segment.candidates(attributes)
        found = {home.key: None for home in candidates if home.conjunction.passes(attributes)}
        for key, filter in self._open.items():
            if filter.matches(notification):
                found[key] = None
        return list(found)

    def _ways(self, constraints: Constraints) -> list[tuple[float, Pivot]]:
        """The possible pivots, each with the share of notifications that it leads to the conjunction."""
        estimator = self._estimator
        return [way for constraint, atom in constraints if (way := pivots(constraint, atom, estimator)) is not None]

    def _settle(self, home: Home, constraints: Constraints, ways: list[tuple[float, Pivot]]) -> None:
        """Give a conjunction a home."""
        if not constraints:
            home.place = self._always
            self._always[home] = home.key
            return
        share, pivot = min(ways, key=_share, default=(1.0, None))
        home.pivot = pivot = pivot if share <= RARE else None
        left = ordered([atom for constraint, atom in constraints if pivot is None or constraint is not pivot.exact])
        if left:
            home.shape = shape = self._shape(left)
            home.row = shape.row(left, home.seq, home, home.key)
        if pivot is None:
            self._segment().add(home, constraints)
            return
        home.place = nodes = self._probes.nodes(pivot)
        for node in nodes:
            node.add(home)
            if node.size >= node.review_at:
                node.review_at = 2 * node.size
                self._queue.extend(node.homes())

    def _leave(self, home: Home, constraints: Constraints) -> None:
        """Take a conjunction out of its home."""
        place = home.place
        if place is self._always:
            del self._always[home]
        elif home.pivot is None:
            place.remove(home, constraints)
            if not place.size:
                self._segments.remove(place)
        else:
            for node in place:
                node.remove(home)
            self._probes.prune(home.pivot)
        if home.shape is not None:
            home.shape.rows -= 1
            if not home.shape.rows:
                del self._shapes[home.shape.key]
        home.shape = home.row = home.pivot = None

    def _shape(self, atoms: list[Atom]) -> Shape:
        key = signature(atoms)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = Shape(key, atoms)
        shape.rows += 1
        return shape

    def _segment(self) -> Segment:
        for segment in self._segments:
            if segment.size < SLOTS:
                return segment
        self._segments.append(Segment())
        return self._segments[-1]

    def _observe(self, attributes: dict[str, Value], hit: list[Node]) -> None:
        """Learn from a notification, and review what it met if that was placed by older estimates."""
        estimator = self._estimator
        estimator.observe(attributes)
        places: list[Node | Segment] = [*hit, *self._segments]
        for place in places:
            if place.epoch != estimator.epoch:
                place.epoch = estimator.epoch
                self._queue.extend(place.homes())
        self.review(REVIEWS)
        self._countdown = STRIDE if self._queue or not estimator.full else PATIENT_STRIDE

    def _review(self, home: Home) -> None:
        """Move a conjunction if it has a clearly better home by now."""
        constraints = _taken_apart(home.conjunction)
        ways = self._ways(constraints)
        if not ways:
            return
        best = min(map(_share, ways))
        if home.pivot is None:
            better = best * BETTER < RARE
        else:
            now = next(share for share, pivot in ways if pivot.leads_where(home.pivot))
            better = best * BETTER < now or now > RARE * BETTER
        if better:
            self._leave(home, constraints)
            self._settle(home, constraints, ways)


def _share(way: tuple[float, Pivot]) -> float:
    return way[0]


def _taken_apart(conjunction: Conjunction) -> Constraints:
    return [(constraint, atom_of(constraint)) for constraint in conjunction.constraints]
