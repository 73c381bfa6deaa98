"""How often a constraint passes: estimates from a sample of notifications, before that from the operands.

Theory of operation
-------------------
For each kind of each attribute that filters use, a *spread* keeps two sorted samples: of values in recent
notifications, and of operands in filters. The share of a sorted sample that lies in an interval costs two
bisections, and equality, ranges, prefixes and places are all intervals. While fewer than `ENOUGH`
notifications have been seen, operands stand in for values: who asks for 5,000 different symbols expects
symbols to differ. Both samples change by one value at a time, so there is never anything to rebuild.

An *epoch* ends when the sample has grown fourfold, and later from time to time: then conjunctions that
were placed by the older estimates are worth another look.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from tidings.model import Kind, Location, Value

from ._atom import KINDS, TYPES, Atom

SAMPLE = 512
"""Notifications in the sample."""
OPERANDS = 128
"""Operands in the sample of a spread."""
LIST = 16
"""Elements of a list that count."""
ENOUGH = 32
"""So many sampled notifications say more than the operands do."""
FEW = 100
"""Fewer operands are taken for so many: the first filters should not all look unselective."""
LAST = "\U0010ffff"
"""Sorts after every character but itself."""

SpreadKey: TypeAlias = tuple[str, Kind]


class Spread:
    """Sorted samples of one attribute's values of one kind."""

    __slots__ = ("operands", "turn", "uses", "values")

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.operands: list[Any] = []
        self.uses = 0
        self.turn = 0

    def learn(self, operand: Any) -> None:
        """Add an operand to its sample; a full sample loses one that it holds."""
        if len(self.operands) >= OPERANDS:
            self.turn = (self.turn + 37) % OPERANDS  # visits every place, in no order that operands follow
            del self.operands[self.turn]
        insort(self.operands, operand)


class Estimator:
    """Samples of notifications and operands, and what they say about constraints."""

    def __init__(self) -> None:
        self._recent: deque[dict[str, Value]] = deque()
        self._spreads: dict[SpreadKey, Spread] = {}
        self._seen = 0
        self._next_epoch = ENOUGH
        self.epoch = 0

    def observe(self, attributes: dict[str, Value]) -> None:
        """Take a notification into the sample."""
        if len(self._recent) >= SAMPLE:
            for spread, value in self._places(self._recent.popleft()):
                del spread.values[bisect_left(spread.values, value)]
        self._recent.append(attributes)
        for spread, value in self._places(attributes):
            insort(spread.values, value)
        self._seen += 1
        if self._seen >= self._next_epoch:
            self._next_epoch += min(3 * self._next_epoch, 16 * SAMPLE)
            self.epoch += 1

    def learn(self, atom: Atom) -> None:
        """Count the use of an attribute, and sample the operands."""
        if atom.kind is None:
            return
        at = (atom.name, atom.kind)
        spread = self._spreads.get(at)
        if spread is None:
            self._spreads[at] = spread = Spread()
            found = [value for attributes in self._recent for value in _items(attributes.get(atom.name, ()))]
            spread.values = sorted(_plain(value) for value in found if type(value) in TYPES[atom.kind])
        spread.uses += 1
        for operand in _points(atom):
            spread.learn(operand)

    def forget(self, atom: Atom) -> None:
        """Take back one `learn`."""
        if atom.kind is None:
            return
        at = (atom.name, atom.kind)
        spread = self._spreads[at]
        spread.uses -= 1
        if not spread.uses:
            del self._spreads[at]

    def between(self, name: str, kind: Kind, low: Any, high: Any) -> float:
        """The share of notifications whose attribute lies between two values, both included."""
        spread = self._spreads[name, kind]
        seen = len(self._recent)
        if seen >= ENOUGH:
            sample, total = spread.values, seen
        else:
            sample, total = spread.operands, max(len(spread.operands), FEW)
        return (bisect_right(sample, high) - bisect_left(sample, low) + 0.5) / (total + 1)

    def ending(self, name: str, text: str) -> float:
        """The share of notifications whose attribute is a text that ends so."""
        return self._guess(name, text, lambda value: value.endswith(text))

    def containing(self, name: str, text: str) -> float:
        """The share of notifications whose attribute is a text that contains this."""
        return self._guess(name, text, lambda value: text in value)

    def _guess(self, name: str, text: str, holds: Callable[[str], bool]) -> float:
        values: list[str] = self._spreads[name, Kind.TEXT].values
        some = values[:: max(1, len(values) // 64)]
        if len(self._recent) < ENOUGH or not some:
            return float(0.2 ** len(text))
        return (sum(map(holds, some)) + 0.5) / (len(some) + 1) * len(values) / len(self._recent)

    def present(self, name: str, kind: Kind) -> float:
        """The share of notifications that have the attribute with this kind; 1 as long as nobody knows."""
        seen = len(self._recent)
        return (len(self._spreads[name, kind].values) + 0.5) / (seen + 1) if seen >= ENOUGH else 1.0

    def _places(self, attributes: dict[str, Value]) -> list[tuple[Spread, Any]]:
        spreads = self._spreads
        return [(spreads[at], value) for at, value in _scalars(attributes) if at in spreads]

    @property
    def full(self) -> bool:
        """Whether the sample of notifications is as large as it gets."""
        return len(self._recent) >= SAMPLE

    @property
    def spreads(self) -> int:
        return len(self._spreads)


def _scalars(attributes: dict[str, Value]) -> list[tuple[SpreadKey, Any]]:
    return [
        ((name, KINDS[type(item)]), item.parts if type(item) is Location else item)
        for name, value in attributes.items()
        for item in _items(value)
    ]


def _items(value: Value) -> tuple[Any, ...]:
    """The scalars of a value; of a long list, some."""
    return value[:LIST] if type(value) is tuple else (value,)


def _points(atom: Atom) -> tuple[Any, ...]:
    """Operands that say where values are expected."""
    if atom.op == "in":
        values: Any = atom.operands[0]
        return tuple(map(_plain, list(values)[:4]))
    if atom.op in ("contains", "suffix", "like", "ask"):
        return ()
    return atom.operands[:1] if atom.op == "within" else tuple(map(_plain, atom.operands))


def _plain(value: Any) -> Any:
    return value.parts if type(value) is Location else value
