"""The pivot of a conjunction: the constraint that the fewest notifications pass, and that can be looked up.

Theory of operation
-------------------
A conjunction hangs under one of its constraints only. Notifications that fail that constraint never come
near it, so it should be the one that the fewest pass, among those that a notification's own value leads to:

    =, IN               the value itself
    LIKE 'abc%'         the first so many characters of the value, for each length in use
    LIKE '%abc'         the last so many
    LIKE '%abc%'        any three of the value's characters in a row (or two, or one)
    WITHIN              the first so many parts of the path
    BETWEEN             the cell of a grid in which the value lies, for each size of cell in use; the size
                        is a power of four, such that a range touches at most five cells
    any other           that the attribute is there at all, with this kind

Most of them say exactly what their constraint says; the constraint need not be tested again.
A scalar leads to at most one of the nodes that a conjunction hangs under, so no conjunction is met twice.
"""

from __future__ import annotations

import enum
import math
from datetime import datetime
from typing import Any, NamedTuple

from tidings.model import Constraint, Kind
from tidings.model.operators import Like

from ._atom import Atom
from ._estimate import LAST, Estimator

MAX_NODES = 32
"""The most nodes that one conjunction may hang under."""
LONGEST_GRAM = 3
"""The most characters of a text by which one that contains it is looked up."""
SMALLEST_CELL = -64
"""The binary exponent of the finest grid."""


class How(enum.Enum):
    """The ways to look a constraint up."""

    VALUE = "value"
    PREFIX = "prefix"
    SUFFIX = "suffix"
    GRAM = "gram"
    WITHIN = "within"
    GRID = "grid"
    PRESENT = "present"


class Pivot(NamedTuple):
    """A way to look one conjunction up: under each of `keys` in the tables of `(name, kind, how, size)`."""

    name: str
    kind: Kind
    how: How
    size: Any
    """The length of a prefix, the size of a cell, or None."""
    keys: tuple[Any, ...]
    exact: Constraint | None
    """The constraint that need not be tested any more."""

    def leads_where(self, other: Pivot) -> bool:
        """Whether both are the same way to the same nodes."""
        return self[:5] == other[:5]


WEIGHTS = {How.VALUE: 0.2, How.WITHIN: 0.2, How.GRID: 20.0}
"""What a way costs, if not 1. An equality leads to one node, in which many conjunctions are tested at once;
a grid leads to one for each size of cell, most of them thin."""


def way(constraint: Constraint, atom: Atom, estimator: Estimator) -> tuple[float, Pivot] | None:
    """The best way to look a constraint up, and its cost: the share of notifications that it leads there, weighted."""
    found = _way(constraint, atom, estimator)
    if found is None:
        return None
    share, pivot = found
    return share * WEIGHTS.get(pivot.how, 1.0), pivot


def _way(constraint: Constraint, atom: Atom, estimator: Estimator) -> tuple[float, Pivot] | None:
    name, kind = atom.name, atom.kind
    if kind is None or not atom.needs_value:
        return None
    if not atom.negated:
        match atom.op:
            case "eq":
                value: Any = atom.operands[0]
                point = value.parts if kind is Kind.PLACE else value
                share = estimator.between(name, kind, point, point)
                return share, Pivot(name, kind, How.VALUE, None, (value,), constraint)
            case "in" if len(constraint.values or ()) <= MAX_NODES:
                values: tuple[Any, ...] = constraint.values or ()
                some = [value.parts if kind is Kind.PLACE else value for value in values[:4]]
                share = sum([estimator.between(name, kind, point, point) for point in some])
                return share * len(values) / len(some), Pivot(name, kind, How.VALUE, None, values, constraint)
            case "prefix" | "suffix" | "like" if isinstance(constraint, Like):
                return _affix(constraint, atom, estimator)
            case "contains":
                text: Any = atom.operands[0]
                gram = text[:LONGEST_GRAM]
                exact = constraint if gram == text else None
                return estimator.containing(name, gram), Pivot(name, kind, How.GRAM, len(gram), (gram,), exact)
            case "within":
                parts: Any = atom.operands[0]
                share = estimator.between(name, kind, parts, (*parts, LAST))
                return share, Pivot(name, kind, How.WITHIN, len(parts), (parts,), constraint)
            case "ge le" | "gt lt" | "ge lt" | "gt le":
                found = _grid(atom, estimator)
                if found is not None:
                    return found
    return estimator.present(name, kind), Pivot(name, kind, How.PRESENT, None, (None,), None)


def _affix(constraint: Like, atom: Atom, estimator: Estimator) -> tuple[float, Pivot] | None:
    """Under the literal start or the literal end of a pattern, whichever is longer."""
    tokens = constraint.tokens
    head = tokens[0] if tokens and isinstance(tokens[0], str) else ""
    tail = tokens[-1] if len(tokens) > 1 and isinstance(tokens[-1], str) else ""
    exact = constraint if atom.op != "like" else None
    if len(head) >= len(tail):
        if not head:
            return None
        share = estimator.between(atom.name, Kind.TEXT, head, head + LAST)
        return share, Pivot(atom.name, Kind.TEXT, How.PREFIX, len(head), (head,), exact)
    share = estimator.ending(atom.name, tail)
    return share, Pivot(atom.name, Kind.TEXT, How.SUFFIX, len(tail), (tail,), exact)


def _grid(atom: Atom, estimator: Estimator) -> tuple[float, Pivot] | None:
    low, high = atom.operands
    if atom.kind not in (Kind.NUMBER, Kind.TIME):
        return None
    first, last = scale(low), scale(high)
    width = last - first
    if not 0 <= width < math.inf:
        return None  # no scalar passes an inverted range, but a list may
    _, exponent = math.frexp(width / 4)
    size = 2.0 ** max(exponent + exponent % 2, SMALLEST_CELL)
    cells = [first // size]
    while cells[-1] < last // size and len(cells) < MAX_NODES:
        cells.append(cells[-1] + 1)
    if cells[-1] != last // size:
        return None  # so far from zero that floats cannot count cells
    share = estimator.between(atom.name, atom.kind, low, high)
    return share * len(cells) * size / max(width, size), Pivot(atom.name, atom.kind, How.GRID, size, tuple(cells), None)


def scale(value: Any) -> float:
    """A number or a time as a float. Rounding keeps the order, which is all that a grid needs."""
    return value.timestamp() if type(value) is datetime else float(value)
