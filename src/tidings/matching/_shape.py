"""Shapes: conjunctions without their operands. Rows of one shape are checked by the same function."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from tidings.model import Kind

from ._atom import RANK, Atom
from ._code import Check, Row, Term, function

Signature: TypeAlias = tuple[tuple[str, str, bool, Kind | None], ...]

PATIENCE = 16
"""So many slow checks before a shape gets its own code; many shapes are hardly ever asked."""


def ordered(atoms: Iterable[Atom]) -> list[Atom]:
    """Atoms in the order in which they are checked: cheap operators first."""
    return sorted(atoms, key=_cost)


def _cost(atom: Atom) -> tuple[bool, int, str]:
    return atom.negated, RANK[atom.op], atom.name


def signature(atoms: list[Atom]) -> Signature:
    """What rows must share to share their code."""
    return tuple([(atom.name, atom.op, atom.negated, atom.kind) for atom in atoms])


class RowShape:
    """One signature, and the function that checks its rows."""

    __slots__ = ("_asked", "check", "key", "names", "rows")

    def __init__(self, key: Signature) -> None:
        self.key = key
        self.names = frozenset(name for name, *_ in key)
        self.rows = 0
        """How many rows there are of it, anywhere."""
        self._asked = 0
        self.check: Check = self._slow_check

    def row(self, atoms: list[Atom], home: object, key: object) -> Row:
        """The row of a conjunction of this shape."""
        return (self, *[operand for atom in atoms for operand in atom.operands], home, key)

    def drop(self) -> None:
        """Forget the function: as long as it is our own method, it holds us alive."""
        del self.check

    def _slow_check(self, row: Row, attributes: dict[str, Any]) -> bool:
        self._asked += 1
        if self._asked >= PATIENCE:
            self.check = self._compile()
        return row[-2].conjunction.passes(attributes)  # type: ignore[no-any-return]

    def _compile(self) -> Check:
        names = tuple(dict.fromkeys(name for name, *_ in self.key))
        terms = []
        at = 1
        for name, op, negated, kind in self.key:
            places = tuple(range(at, at + OPERANDS.get(op, 1)))
            at += len(places)
            terms.append(Term(names.index(name), op, negated, kind, places))
        return function(tuple(terms), names)


OPERANDS = {"exists": 0, "null": 0, "within": 2, "ge le": 2, "ge lt": 2, "gt le": 2, "gt lt": 2}
"""How many operands an operator has, if not one."""
