"""The peer: one compiled Python function per filter. What one writes first, done well.

Each constraint becomes an expression, with its operands bound as defaults, which is some percent faster than
a closure. Constraints that are cheap and selective (equality first) stand in front, as a careful author would
write them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from tidings.matching._atom import RANK, TESTS, Atom, atom_of
from tidings.model import Conjunction, Filter, Kind, Location

Predicate: TypeAlias = Callable[[dict[str, Any]], bool]

_RIGHT_KIND = {
    Kind.NUMBER: "(type({v}) is float or type({v}) is int)",
    Kind.TEXT: "type({v}) is str",
    Kind.BOOLEAN: "type({v}) is bool",
    Kind.BYTES: "type({v}) is bytes",
    Kind.TIME: "type({v}) is datetime",
    Kind.PLACE: "type({v}) is Location",
}


def predicate(filter: Filter) -> Predicate:
    """A function of the attributes of a notification without lists."""
    operands: list[Any] = []
    tests = [_conjunction(conjunction, operands) for conjunction in filter.conjunctions]
    return _factory(" or ".join(tests) or "False", len(operands))(*operands)


@functools.cache
def _factory(test: str, operands: int) -> Callable[..., Predicate]:
    """Filters of one form share their code: 10,000 copies of it would not fit into a processor's caches."""
    names = "".join(f", x{number}" for number in range(operands))
    namespace: dict[str, Any] = {"datetime": datetime, "Location": Location}
    exec(f"def test(a{names}): return {test}", namespace)
    code: CodeType = namespace["test"].__code__
    return lambda *bound: FunctionType(code, namespace, "test", bound)


def _conjunction(conjunction: Conjunction, operands: list[Any]) -> str:
    atoms = sorted(map(atom_of, conjunction), key=lambda atom: (atom.negated, RANK[atom.op]))
    return " and ".join(_constraint(atom, operands) for atom in atoms) or "True"


def _constraint(atom: Atom, operands: list[Any]) -> str:
    def bind(value: object) -> str:
        operands.append(value)
        return f"x{len(operands) - 1}"

    fetched = f"a.get({bind(atom.name)})"
    if atom.op == "exists":
        return f"{fetched} is not None"
    if atom.op == "null":
        return f"{fetched} is None"
    test = TESTS[atom.op].format(*map(bind, atom.operands), v="v")
    if atom.op == "eq" and atom.kind is not Kind.NUMBER and atom.kind is not Kind.BOOLEAN and not atom.negated:
        return f"{fetched} == {test.rpartition(' ')[2]}"  # the kinds cannot be confused
    if atom.kind is None:
        return TESTS[atom.op].format(*map(bind, atom.operands), v=fetched)
    kind = _RIGHT_KIND[atom.kind].format(v="v")
    kind = kind.replace("type(v)", f"type(v := {fetched})", 1)
    return f"({kind} and {'not ' if atom.negated else ''}({test}))"
