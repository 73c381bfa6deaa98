"""Shapes: conjunctions without their operands. Rows of one shape are tested by the same code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from tidings.model import Kind

from ._atom import RANK, Atom
from ._code import Check, Leaf, Pattern, Row, Scan, Term, functions

Signature: TypeAlias = tuple[tuple[str, str, bool, Kind | None], ...]

PATIENCE = 64
"""So many slow checks before a shape gets its own code: about what generating it costs."""


def ordered(atoms: Iterable[Atom]) -> list[Atom]:
    """Atoms in the order in which their row is tested: equalities, a leading range, then by cost."""
    atoms = sorted(atoms, key=lambda atom: (atom.negated, RANK[atom.op], atom.name))
    equal = [atom for atom in atoms if atom.op == "eq" and not atom.negated]
    rest = atoms[len(equal) :]
    ranges = [atom for atom in rest if _bound(atom) is not None]
    if ranges:
        lead = min(ranges, key=lambda atom: len(atom.operands))
        rest.remove(lead)
        rest.insert(0, lead)
    return equal + rest


def signature(atoms: list[Atom]) -> Signature:
    """What rows must share to share their code and their table."""
    return tuple([(atom.name, atom.op, atom.negated, atom.kind) for atom in atoms])


def _bound(atom: Atom) -> str | None:
    """Which bound of a range rows can be sorted by."""
    if atom.negated:
        return None
    return "low" if atom.op[:2] in ("ge", "gt") else "high" if atom.op[:2] in ("le", "lt") else None


class Shape:
    """One signature: how its rows are laid out, sorted and tested."""

    __slots__ = ("_asked", "_names", "_pattern", "check", "equal_at", "key", "lead", "rows", "scan")

    def __init__(self, key: Signature, atoms: list[Atom]) -> None:
        self.key = key
        self.rows = 0
        """How many rows there are of it, anywhere."""
        names = tuple(dict.fromkeys(atom.name for atom in atoms))
        equalities = sum(atom.op == "eq" and not atom.negated for atom in atoms)
        self.lead = _bound(atoms[equalities]) if len(atoms) > equalities else None
        at = 2 if self.lead else 1
        terms = []
        for number, atom in enumerate(atoms):
            places = list(range(at, at + len(atom.operands)))
            if self.lead and number == equalities:
                places = [0, *places[:-1]]  # the leading bound is the sort key
            at += len(atom.operands) - (places[:1] == [0])
            terms.append(Term(names.index(atom.name), atom.op, atom.negated, atom.kind, tuple(places)))
        self.equal_at = tuple(term.at[0] for term in terms[:equalities])
        self._names = names
        self._pattern = Pattern(tuple(terms), equalities, self.lead, at + 2)
        self._asked = 0
        self.check: Check = self._slow_check
        self.scan: Scan = self._slow_scan

    def row(self, atoms: list[Atom], seq: int, home: object, key: object) -> Row:
        """The row of a conjunction of this shape."""
        row: list[Any] = [None] * self._pattern.width
        for atom, term in zip(atoms, self._pattern.terms, strict=True):
            for at, operand in zip(term.at, atom.operands, strict=True):
                row[at] = operand
        row[1 if self.lead else 0] = seq
        row[-2:] = home, key
        return tuple(row)

    def leaf_key(self, row: Row) -> object:
        """Where in a leaf a row belongs: its equalities' operands."""
        at = self.equal_at
        return row[at[0]] if len(at) == 1 else tuple([row[i] for i in at])

    def _compile(self) -> None:
        self.check, self.scan = functions(self._pattern, self._names)

    def _slow_check(self, row: Row, attributes: dict[str, Any]) -> bool:
        self._asked += 1
        if self._asked == PATIENCE:
            self._compile()
        return row[-2].conjunction.passes(attributes)  # type: ignore[no-any-return]

    def _slow_scan(self, leaf: Leaf, attributes: dict[str, Any], out: list[Any]) -> None:
        self._compile()  # a table of rows is worth it at once
        self.scan(leaf, attributes, out)
