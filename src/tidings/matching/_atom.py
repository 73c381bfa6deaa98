"""A constraint as the index sees it: an operator, the kind it needs, and operands.

Constraints of one operator on one attribute differ only in their operands, so they can be kept as rows of
a table and tested by one expression. An operator that is not in the list below, be it a user's own, is
`ASK`: its operand is its `passes`, which is asked.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tidings.model import Constraint, Kind, Location, Negated
from tidings.model.operators import (
    Contains,
    Equal,
    Exists,
    IsNull,
    Like,
    Member,
    Prefix,
    Range,
    Suffix,
    Within,
)

TESTS: dict[str, str] = {
    "eq": "{v} == {0}",
    "in": "{v} in {0}",
    "ge": "{0} <= {v}",
    "gt": "{0} < {v}",
    "le": "{v} <= {0}",
    "lt": "{v} < {0}",
    "ge le": "{0} <= {v} <= {1}",
    "ge lt": "{0} <= {v} < {1}",
    "gt le": "{0} < {v} <= {1}",
    "gt lt": "{0} < {v} < {1}",
    "within": "{v}.parts[:{1}] == {0}",
    "prefix": "{v}.startswith({0})",
    "suffix": "{v}.endswith({0})",
    "contains": "{0} in {v}",
    "like": "{0}({v})",
    "exists": "",
    "null": "",
    "ask": "{0}({v})",
}
"""Each operator as an expression over the value `v` and its operands, in order of their cost."""

TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.BOOLEAN: (bool,),
    Kind.NUMBER: (int, float),
    Kind.TEXT: (str,),
    Kind.BYTES: (bytes,),
    Kind.TIME: (datetime,),
    Kind.PLACE: (Location,),
}
"""The types of each kind's scalars. Tables are found by the type of a value, so `True` never meets `1`."""

KINDS = {type_: kind for kind, types in TYPES.items() for type_ in types}

RANK = {op: rank for rank, op in enumerate(TESTS)}


class Atom(NamedTuple):
    """One constraint, taken apart."""

    name: str
    op: str
    negated: bool
    kind: Kind | None
    """The kind that a value must have before the expression may be asked."""
    operands: tuple[object, ...]

    @property
    def needs_value(self) -> bool:
        """Whether a missing attribute is sure to fail."""
        return self.op not in ("null", "ask")

    @property
    def is_range(self) -> bool:
        """Whether it is a range, with one bound or two."""
        return self.op[:2] in ("ge", "gt", "le", "lt")


def atom_of(constraint: Constraint) -> Atom:
    """The constraint, taken apart. Exact types only: a subclass may mean something else."""
    negated = type(constraint) is Negated  # not isinstance: an ABC answers that slowly
    inner: Constraint = constraint.inner if negated else constraint  # type: ignore[attr-defined]
    parts = _parts(inner)
    if parts is None or (negated and inner.kind is None):
        return Atom(constraint.name, "ask", False, None, (constraint.passes,))
    op, operands = parts
    return Atom(constraint.name, op, negated, inner.kind, operands)


def _parts(inner: Constraint) -> tuple[str, tuple[object, ...]] | None:
    kind = type(inner)
    if kind is Equal:
        return "eq", (inner.value,)  # type: ignore[attr-defined]
    if kind is Range:
        return _bounds(inner)  # type: ignore[arg-type]
    if kind is Member:
        return "in", (frozenset(inner.values or ()),)
    if kind is Prefix:
        return "prefix", (inner.text,)  # type: ignore[attr-defined]
    if kind is Suffix:
        return "suffix", (inner.text,)  # type: ignore[attr-defined]
    if kind is Contains:
        return "contains", (inner.text,)  # type: ignore[attr-defined]
    if kind is Like:
        return "like", (inner.holds,)
    if kind is Within and isinstance(inner.place, Location):  # type: ignore[attr-defined]
        return "within", (inner.place.parts, len(inner.place.parts))  # type: ignore[attr-defined]
    if kind is Exists:
        return "exists", ()
    if kind is IsNull:
        return "null", ()
    return None


def _bounds(range: Range) -> tuple[str, tuple[object, ...]]:
    low = "" if range.low is None else "gt" if range.low_open else "ge"
    high = "" if range.high is None else "lt" if range.high_open else "le"
    operands = tuple(bound for bound in (range.low, range.high) if bound is not None)
    return " ".join(filter(None, (low, high))), operands
