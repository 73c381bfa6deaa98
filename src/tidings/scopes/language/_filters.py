"""From what stands between the parentheses of INPUT and OUTPUT to a filter."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Filter,
    FilterError,
    FilterSyntaxError,
    TidingsError,
    attr,
    channel,
    of_type,
    subject,
)
from tidings.scopes._interface import Interface

from ._extensions import Extensions
from ._mistakes import Misfit
from ._syntax import (
    And,
    Body,
    Call,
    Comparison,
    Condition,
    Contents,
    Everything,
    FilterText,
    Interfaces,
    Likeness,
    Not,
    Nothing,
    Or,
    Path,
    Quoted,
    Side,
    Topics,
    Types,
)

FILTER_MODEL = "filter-model"
"""The attribute that says what a name in an interface is the name of."""
_MODELS = {"type": of_type, "channel": channel}


class Reading:
    """How interfaces of one scope are read."""

    def __init__(self, extensions: Extensions, model: object = "type") -> None:
        self._extensions = extensions
        self._model = model if isinstance(model, str) else "type"

    def filter(self, body: Body) -> Filter:
        """The filter that a body means; raises `Misfit`."""
        match body:
            case Everything():
                return EVERYTHING
            case Nothing():
                return NOTHING
            case FilterText():
                return _parsed(body)
            case Types():
                named = _MODELS.get(self._model)
                if named is None:
                    raise Misfit(
                        f"{FILTER_MODEL} is '{self._model}', and names are those of a type or a channel",
                        body.at,
                        f'SET {FILTER_MODEL} = "type" or "channel".',
                    )
                return _union(map(named, body.names))
            case Topics():
                return _union(_made(functools.partial(subject, one), body.at) for one in body.patterns)
            case Contents():
                return _union(_made(functools.partial(self.condition, one), body.at) for one in body.conditions)

    def sides(self, clauses: Iterable[Interfaces]) -> dict[bool, Filter]:
        """What these clauses say of each direction, True for OUTPUT; several bodies are a union."""
        found: dict[bool, Filter] = {}
        for clause in clauses:
            for side in clause.sides:
                filter = self.filter(side.body)
                found[side.output] = found[side.output] | filter if side.output in found else filter
        return found

    def side(self, side: Side) -> Filter:
        """The filter of one side."""
        return self.filter(side.body)

    def interface(self, clauses: Iterable[Interfaces], default: Interface) -> Interface:
        """The interface that these clauses mean; a direction that none of them speaks of is as in `default`."""
        sides = self.sides(clauses)
        return Interface(sides.get(False, default.input), sides.get(True, default.output))

    def condition(self, one: Condition) -> Filter:
        """The filter that a condition on notifications means."""
        match one:
            case And():
                return reduce(lambda left, right: left & right, map(self.condition, one.parts))
            case Or():
                return _union(map(self.condition, one.parts))
            case Not():
                return ~self.condition(one.part)
            case Comparison():
                return _compared(one)
            case Likeness(operator="LIKE"):
                return _made(lambda: attr[str(one.path)].like(one.pattern), one.at)
            case Call():
                made = self._extensions.interfaces.get(one.name)
                if made is None:
                    raise Misfit(
                        f"no kind of interface '{one.name}' is known", one.at, "Register it, or write a filter."
                    )
                return made(one.arguments)
        what = "MATCHES" if isinstance(one, Likeness) else "a test of components"
        raise Misfit(
            f"{what} cannot stand in an interface, which tests notifications",
            one.at,
            "Write comparisons, LIKE, or a filter in single quotes.",
        )


def _compared(one: Comparison) -> Filter:
    if isinstance(one.operand, Path | Quoted):
        raise Misfit(
            f"{one.operand} is an attribute, and filters compare with constants",
            one.operand.at,
            f'Write a text in quotes: "{one.operand}".',
        )
    if isinstance(one.operand, tuple):
        raise Misfit("an attribute cannot be compared with a list", one.at, "Compare with each element.")
    attribute = attr[str(one.path)]
    return _made(lambda: OPERATORS[one.operator](attribute, one.operand), one.at)


OPERATORS = {
    "=": lambda attribute, value: attribute == value,
    "<>": lambda attribute, value: attribute != value,
    "<": lambda attribute, value: attribute < value,
    "<=": lambda attribute, value: attribute <= value,
    ">": lambda attribute, value: attribute > value,
    ">=": lambda attribute, value: attribute >= value,
}


def _union(filters: Iterable[Filter]) -> Filter:
    return reduce(or_, filters)


def _made(make: object, at: int) -> Filter:
    try:
        return make()  # type: ignore[operator, no-any-return]
    except TidingsError as error:
        raise Misfit(*_said(error, at)) from None


def _said(error: TidingsError, at: int) -> tuple[str, int, str]:
    problem, _, remedy = str(error).rpartition("; ")
    return problem or remedy, at, f"{remedy[:1].upper()}{remedy[1:]}." if problem else ""


def _parsed(body: FilterText) -> Filter:
    try:
        return Filter.parse(body.text)
    except FilterSyntaxError as error:
        doubled = body.text[: error.column - 1].count("'")  # a quote in the text is written twice
        raise Misfit(error.problem, body.at + error.column + doubled, error.remedy) from None
    except FilterError as error:
        raise Misfit(*_said(error, body.at)) from None


def interfaces_in(properties: Sequence[object]) -> list[Interfaces]:
    """The clauses about interfaces among others."""
    return [one for one in properties if isinstance(one, Interfaces)]
