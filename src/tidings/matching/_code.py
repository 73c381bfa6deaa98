"""Python code for a shape: one function that checks a row, one that scans a table of rows.

Theory of operation
-------------------
The *shape* of a conjunction is what is left when its operands are taken out: attributes, operators, kinds.
Rows of one shape hold only operands, so one comprehension tests them all:

    def scan(leaf, a, out):
        v0 = a.get(n0)
        if type(v0) is not str: return
        rows = leaf.get(v0)                              # equalities: one look into a dict
        if rows is None: return
        v1 = a.get(n1)
        ...
        rows = rows[:bisect(rows, (v1, last))]           # rows are sorted by their leading range
        out += [k for _, _, x0, x1, _, k in rows if x0 <= v2 <= x1]

The source consists of the text in this file and of numbers, never of anything that a user wrote: names of
attributes are bound to `n0`, `n1`, ... in the namespace, operands come in the rows. So the code depends
only on the pattern of operators, and is compiled once per pattern (some 200 microseconds), whatever the
attributes are called.

A row is `(operand, ..., home, key)`, after its sort key: `(lead, seq)` if there is a leading range, else
`(seq,)`. The sequence number makes the order total, so that operands and keys are never compared.
"""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Callable
from datetime import datetime
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

from tidings.model import Kind, Location

from ._atom import TESTS

Row: TypeAlias = tuple[Any, ...]
Leaf: TypeAlias = dict[Any, list[Row]]
Check: TypeAlias = Callable[[Row, dict[str, Any]], bool]
Scan: TypeAlias = Callable[[Leaf, dict[str, Any], list[Any]], None]

_WRONG_KIND = {
    Kind.NUMBER: "type({v}) is not float and type({v}) is not int",
    Kind.TEXT: "type({v}) is not str",
    Kind.BOOLEAN: "type({v}) is not bool",
    Kind.BYTES: "type({v}) is not bytes",
    Kind.TIME: "type({v}) is not datetime",
    Kind.PLACE: "type({v}) is not Location",
}


class Term(NamedTuple):
    """One constraint of a pattern: the number of its attribute, and how it is tested."""

    attribute: int
    op: str
    negated: bool
    kind: Kind | None
    at: tuple[int, ...]
    """Where in the row its operands are."""


class Pattern(NamedTuple):
    """A shape without names: what the code depends on."""

    terms: tuple[Term, ...]
    equalities: int
    """So many terms at the start are equalities; the leaf is a dict by their operands."""
    lead: str | None
    """`low` or `high`, if the first term after the equalities has rows sorted by that bound."""
    width: int
    """The length of a row."""


def functions(pattern: Pattern, names: tuple[str, ...]) -> tuple[Check, Scan]:
    """`check` and `scan` for a pattern over these attributes."""
    namespace: dict[str, Any] = {f"n{number}": name for number, name in enumerate(names)}
    namespace |= {
        "bisect_left": bisect_left,
        "last": float("inf"),
        "Location": Location,
        "datetime": datetime,
    }
    exec(_compiled(pattern), namespace)  # noqa: S102 - the source holds no text but this file's own
    return namespace["check"], namespace["scan"]


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: Pattern) -> CodeType:
    return compile(source(pattern), "<shape>", "exec")


def source(pattern: Pattern) -> str:
    """The text of both functions."""
    return "\n".join([*_check_lines(pattern), *_scan_lines(pattern), ""])


def _check_lines(pattern: Pattern) -> list[str]:
    lines = ["def check(r, a):"]
    known: set[int] = set()
    for term in pattern.terms:
        lines += [f"    {line}" for line in _guard(term, known, "return False")]
        if test := _test(term, [f"r[{at}]" for at in term.at]):
            lines.append(f"    if not ({test}): return False")
    return [*lines, "    return True"]


def _scan_lines(pattern: Pattern) -> list[str]:
    lines = ["def scan(leaf, a, out):"]
    known: set[int] = set()
    equal, rest = pattern.terms[: pattern.equalities], pattern.terms[pattern.equalities :]
    for term in equal:
        lines += [f"    {line}" for line in _guard(term, known, "return")]
    key = f"v{equal[0].attribute}" if len(equal) == 1 else f"({''.join(f'v{t.attribute}, ' for t in equal)})"
    lines += [f"    rows = leaf.get({key})", "    if rows is None: return"]
    tests = []
    columns: dict[int, str] = {}
    for term in rest:
        lines += [f"    {line}" for line in _guard(term, known, "return")]
        done = set()
        if pattern.lead and term is rest[0]:
            lines.append(f"    rows = rows{_cut(term, pattern.lead)}")
            done.add(0)
        test = _remainder(term) if done else _test(term, [f"x{at}" for at in term.at])
        if test:
            tests.append(test)
            columns |= {at: f"x{at}" for at in term.at}
    unpack = ", ".join(columns.get(at, "_") for at in range(pattern.width - 1)) + ", k"
    if tests:
        lines.append(f"    out += [k for {unpack} in rows if {' and '.join(tests)}]")
    else:
        lines.append("    out += [r[-1] for r in rows]")
    return lines


def _guard(term: Term, known: set[int], leave: str) -> list[str]:
    """Fetch the attribute, once, and leave if the term cannot pass whatever the operand."""
    v = f"v{term.attribute}"
    lines = [] if term.attribute in known else [f"{v} = a.get(n{term.attribute})"]
    known.add(term.attribute)
    if term.op == "exists":
        lines.append(f"if {v} is None: {leave}")
    elif term.op == "null":
        lines.append(f"if {v} is not None: {leave}")
    elif term.kind is not None:
        lines.append(f"if {_WRONG_KIND[term.kind].format(v=v)}: {leave}")
    return lines


def _test(term: Term, operands: list[str]) -> str:
    test = TESTS[term.op].format(*operands, v=f"v{term.attribute}")
    return f"not ({test})" if term.negated else test


def _cut(term: Term, lead: str) -> str:
    """The slice of the sorted rows whose leading bound passes."""
    v = f"v{term.attribute}"
    if lead == "low":
        return f"[:bisect_left(rows, ({v}, {'last' if term.op.startswith('ge') else '-1'}))]"
    return f"[bisect_left(rows, ({v}, {'last' if term.op.startswith('lt') else '-1'})):]"


def _remainder(term: Term) -> str:
    """What a range still has to be asked after its lower bound has been used to cut."""
    _, _, high = term.op.partition(" ")
    return TESTS[high].format(f"x{term.at[1]}", v=f"v{term.attribute}") if high else ""
