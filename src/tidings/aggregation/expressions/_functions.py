"""The functions of the language: which there are, what they take, and which definition of the catalogue each is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tidings.aggregation.definitions import (
    JP,
    BitAnd,
    BitOr,
    BitXor,
    Count,
    Distinct,
    Frequent,
    Histogram,
    Intersection,
    Max,
    Mean,
    Measured,
    Min,
    Product,
    Quantile,
    Rate,
    Sum,
    Union,
    peer,
)
from tidings.model import AggregateError

from ._syntax import Operand

_PERCENTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]{1,6})?)")


@dataclass(frozen=True, slots=True)
class Function:
    """A function: `takes` is whether it needs an operand, None if it may have one."""

    example: str
    make: Callable[..., Measured[Any]]
    takes: bool | None = True
    numbers: bool = False
    word: str = ""

    def misfit(self, operand: Operand | None, numbers: Sequence[float]) -> str:
        """What is wrong with the arguments; empty if nothing is."""
        if self.takes and operand is None:
            return "it needs to know of what"
        if self.takes is False and operand is not None:
            return "it takes nothing"
        if numbers and not self.numbers:
            return "it takes one argument"
        if self.numbers:
            try:
                self.make("x", *numbers)
            except AggregateError as error:
                return str(error)
        return ""

    def canonical(self, name: str) -> str:
        """The name that it is printed by."""
        return self.word or name


def _histogram(operand: Any, *edges: float, **more: Any) -> Histogram:
    return Histogram(operand, edges=edges, **more)


def _publishers(operand: Any = None, **more: Any) -> Distinct:
    return Distinct(peer, **more)


def _subscriptions(operand: Any = None, **more: Any) -> Count:
    return Count(joinpoints=frozenset({JP.SUB_ADD}), **more)


def _subscription_rate(operand: Any = None, **more: Any) -> Rate:
    return Rate(joinpoints=frozenset({JP.SUB_ADD}), **more)


PEOPLE = frozenset({"publishers", "subscriptions", "subscription_rate"})
"""The functions that tell about clients, and not about what is published."""
OF_SUBSCRIPTIONS = PEOPLE - {"publishers"}
"""Those that measure subscriptions."""
FUNCTIONS: dict[str, Function] = {
    "count": Function("count() or count(load)", Count, takes=None),
    "rate": Function("rate()", Rate, takes=None),
    "sum": Function("sum(size)", Sum),
    "mean": Function("mean(load)", Mean),
    "max": Function("max(load)", Max),
    "min": Function("min(load)", Min),
    "product": Function("product(factor)", Product),
    "distinct": Function("distinct(user)", Distinct),
    "frequent": Function("frequent(word)", Frequent),
    "values": Function("values(rack)", Union),
    "common": Function("common(tags)", Intersection),
    "bit_and": Function("bit_and(flags)", BitAnd),
    "bit_or": Function("bit_or(flags)", BitOr),
    "bit_xor": Function("bit_xor(flags)", BitXor),
    "histogram": Function("histogram(load, 50, 90)", _histogram, numbers=True),
    "publishers": Function("publishers()", _publishers, takes=False),
    "subscriptions": Function("subscriptions()", _subscriptions, takes=False),
    "subscription_rate": Function("subscription_rate()", _subscription_rate, takes=False),
}
"""All functions but the percentiles."""


def function_of(name: str) -> Function | None:
    """The function of a name, in lower case; None if there is none.

    >>> function_of("p95").make("load").q, function_of("p101")
    (Fraction(19, 20), None)
    """
    if name == "avg":
        return Function(FUNCTIONS["mean"].example, Mean, word="mean")
    if name == "median":
        return _percentile("50", "p50")
    if (match := _PERCENTILE.fullmatch(name)) and Fraction(match[1]) <= 100:
        return _percentile(match[1], name)
    return FUNCTIONS.get(name)


def _percentile(percent: str, word: str) -> Function:
    q = Fraction(percent) / 100

    def make(operand: Any, **more: Any) -> Quantile:
        return Quantile(operand, q=q, **more)

    return Function(f"{word}(load)", make, word=word)
