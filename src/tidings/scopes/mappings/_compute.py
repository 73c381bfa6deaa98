"""Compute: an attribute from others, by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tidings.model import Conjunction, Constraint, Filter, Kind, MappingError
from tidings.model.operators import Exists, IsNull

from ._expression import Expression, parsed
from ._step import Attributes, MappingFailed, Step, checked_names
from ._translate import absent, within_limits, without

_INTS = range(-(2**63), 2**63)


class Compute(Step, frozen=True):
    """`name` is what the expression gives; if an attribute in it is missing, nothing changes.

    >>> Compute("total", "price * size").run({"price": 2.5, "size": 4})
    {'price': 2.5, 'size': 4, 'total': 10.0}
    """

    name: str
    expression: str

    def __post_init__(self) -> None:
        checked_names(self, self.name, *self._parsed.names)
        if not self._parsed.names:
            raise MappingError(f"Compute: {self.expression!r} is a constant; use Add")

    @property
    def _parsed(self) -> Expression:
        return parsed(self.expression)

    def run(self, attributes: Attributes) -> Attributes:
        """The attributes and the result; blocked where an operand or the result is no number that Tidings can hold."""
        expression = self._parsed
        if any(name not in attributes for name in expression.names):
            return attributes
        for name in expression.names:
            if type(attributes[name]) not in (int, float):
                raise MappingFailed(f"Compute: '{name}' is {attributes[name]!r:.60}, which is not one number")
        try:
            result = expression.evaluate(attributes)
        except (ZeroDivisionError, OverflowError) as error:
            raise MappingFailed(f"Compute: {self.expression}: {error}") from None
        if not (result in _INTS if type(result) is int else math.isfinite(result)):
            raise MappingFailed(f"Compute: {self.expression} comes to a number that is too large")
        return {**attributes, self.name: result}

    def wanted(self, filter: Filter) -> Filter:
        """What the filter says of others, where the operands are there; the filter itself, where one is missing."""
        return within_limits(self._alternatives(filter), lambda: without(filter, self.name.__eq__))

    def _alternatives(self, filter: Filter) -> Iterator[Conjunction]:
        operands = self._parsed.names
        missing = Conjunction([IsNull(operands[0])] if len(operands) == 1 else [])
        for conjunction in filter.conjunctions:
            asked = conjunction.by_name.get(self.name, ())
            if not asked:
                yield conjunction
                continue
            others = [one for one in conjunction if one.name != self.name]
            if all(_may_be_a_number(one) for one in asked):
                yield Conjunction((*others, *map(Exists, operands)))
            if operands != (self.name,) or all(map(absent, asked)):
                yield conjunction & missing

    def offered(self, filter: Filter) -> Filter:
        """What the filter says of others, and the result; the filter itself, where an operand may be missing."""
        return within_limits(self._outcomes(filter), lambda: without(filter, self.name.__eq__))

    def _outcomes(self, filter: Filter) -> Iterator[Conjunction]:
        operands = self._parsed.names
        for conjunction in filter.conjunctions:
            known = {one.name: absent(one) for one in conjunction}
            if not any(known.get(name) for name in operands):
                others = [one for one in conjunction if one.name != self.name]
                yield Conjunction((*others, Exists(self.name)))
            if any(known.get(name, True) for name in operands):
                yield conjunction


def _may_be_a_number(constraint: Constraint) -> bool:
    return constraint.kind in (None, Kind.NUMBER) and not absent(constraint)
