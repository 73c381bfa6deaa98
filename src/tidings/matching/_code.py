"""Python code for a shape: one function that checks whether a row of operands passes.

Theory of operation
-------------------
The *shape* of a conjunction is what is left when its operands are taken out: attributes, operators, kinds.
Conjunctions of one shape share one function, and each brings a row of operands:

    def check(r, a, n0, n1):
        v0 = a.get(n0)
        if not (v0 == r[1]): return False
        v1 = a.get(n1)
        if type(v1) is not float and type(v1) is not int: return False
        if not (r[2] <= v1 < r[3]): return False
        return True

The source consists of the text in this file and of numbers, never of anything that a user wrote: names of
attributes are the defaults of `n0`, `n1`, ..., operands come in the row. So the code depends only on the
pattern of operators. It is compiled once per pattern, which takes some 200 microseconds, whatever the
attributes are called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeAlias

from tidings.model import Kind, Location

from ._atom import TESTS

Row: TypeAlias = tuple[Any, ...]
"""The shape, the operands in the order of its terms, the home and the key."""
Check: TypeAlias = Callable[[Row, dict[str, Any]], bool]

_GLOBALS: dict[str, Any] = {"Location": Location, "datetime": datetime}
_WRONG_KIND = {
    Kind.NUMBER: "type({v}) is not float and type({v}) is not int",
    Kind.TEXT: "type({v}) is not str",
    Kind.BOOLEAN: "type({v}) is not bool",
    Kind.BYTES: "type({v}) is not bytes",
    Kind.TIME: "type({v}) is not datetime",
    Kind.PLACE: "type({v}) is not Location",
}


class Term(NamedTuple):
    """One constraint of a pattern."""

    attribute: int
    """The number of its attribute."""
    op: str
    negated: bool
    kind: Kind | None
    at: tuple[int, ...]
    """Where in the row its operands are."""


def function(terms: tuple[Term, ...], names: tuple[str, ...]) -> Check:
    """The check for these terms over these attributes."""
    return FunctionType(_compiled(terms), _GLOBALS, "check", names)


@functools.lru_cache(maxsize=4096)
def _compiled(terms: tuple[Term, ...]) -> CodeType:
    namespace: dict[str, Any] = {}
    exec(source(terms), namespace)  # noqa: S102 - the source holds no text but this module's own
    code: CodeType = namespace["check"].__code__
    return code


def source(terms: tuple[Term, ...]) -> str:
    """The text of the function."""
    names = [f", n{number}" for number in sorted({term.attribute for term in terms})]
    lines = [f"def check(r, a{''.join(names)}):"]
    known: set[tuple[int, Kind | None]] = set()
    for term in terms:
        lines += _guard(term, known)
        if test := TESTS[term.op].format(*[f"r[{at}]" for at in term.at], v=f"v{term.attribute}"):
            lines.append(f"if {'' if term.negated else 'not '}({test}): return False")
    return "\n    ".join([*lines, "return True"]) + "\n"


def _guard(term: Term, known: set[tuple[int, Kind | None]]) -> list[str]:
    """Fetch the attribute, once, and give up if the term cannot pass whatever the operand."""
    v = f"v{term.attribute}"
    lines = [] if (term.attribute, None) in known else [f"{v} = a.get(n{term.attribute})"]
    known.add((term.attribute, None))
    if term.op == "exists":
        lines.append(f"if {v} is None: return False")
    elif term.op == "null":
        lines.append(f"if {v} is not None: return False")
    elif term.kind is not None and (term.attribute, term.kind) not in known and not _tells_kinds_apart(term):
        known.add((term.attribute, term.kind))
        lines.append(f"if {_WRONG_KIND[term.kind].format(v=v)}: return False")
    return lines


def _tells_kinds_apart(term: Term) -> bool:
    """Whether the test fails for other kinds by itself: only `True` equals something of another kind, `1`."""
    return term.op == "eq" and not term.negated and term.kind not in (Kind.NUMBER, Kind.BOOLEAN)
