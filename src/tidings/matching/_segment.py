"""A segment: conjunctions that no single constraint tells apart, tested all at once with big integers.

Theory of operation
-------------------
Each conjunction has a slot, that is, a bit. For each attribute, a column says who fails and who is in
doubt, given the value; failures and doubts of all attributes are joined by OR. Who is alive and did not
fail has matched, unless in doubt: those few are checked one by one.

What a column cannot express (LIKE, a user's operator, two ranges on one attribute) is always in doubt.
Being in doubt about too many is slow, never wrong; failing one too many would be wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, TypeAlias

from tidings.model import Constraint, Kind, Value

from ._atom import TYPES, Atom
from ._column import Column, Use
from ._node import Home

Constraints: TypeAlias = list[tuple[Constraint, Atom]]

SLOTS = 4096
"""Conjunctions in one segment: larger ones match faster, smaller ones change faster."""
_BITS = [1 << slot for slot in range(SLOTS)]


class _Attribute:
    """Who needs an attribute, and a column for each kind that somebody needs."""

    __slots__ = ("columns", "kinded", "kinds", "mentions")

    def __init__(self) -> None:
        self.mentions = 0
        """Who fails if it is missing."""
        self.kinded = 0
        """Who fails if it is of a kind that nobody asks for."""
        self.columns: dict[type, Column] = {}
        self.kinds = 0
        """How many different columns there are."""

    def column(self, kind: Kind) -> Column:
        """The column of a kind."""
        column = self.columns.get(TYPES[kind][0])
        if column is None:
            column = Column()
            self.kinds += 1
            for type_ in TYPES[kind]:
                self.columns[type_] = column
        return column

    def prune(self) -> bool:
        """Drop columns that nobody needs; True if nobody needs the attribute."""
        if not all(column.mentions for column in self.columns.values()):
            self.columns = {type_: column for type_, column in self.columns.items() if column.mentions}
            self.kinds = len(set(map(id, self.columns.values())))
        return not self.mentions


class Segment:
    """Up to `SLOTS` conjunctions, by attribute."""

    __slots__ = ("_alive", "_attributes", "_free", "_homes", "_keys", "_unsure", "epoch", "size")

    def __init__(self) -> None:
        self._alive = 0
        self._unsure = 0
        """Who is always in doubt."""
        self._attributes: dict[str, _Attribute] = {}
        self._homes: list[Home | None] = []
        self._keys: list[Any] = []
        self._free: list[int] = []
        self.size = 0
        self.epoch = 0
        """When it was last looked at whether its members have better places."""

    def add(self, home: Home, constraints: Constraints) -> None:
        """Give a conjunction a slot."""
        if not self._free:
            self._free.append(len(self._homes))
            self._homes.append(None)
            self._keys.append(None)
        slot = self._free.pop()
        home.place, home.slot = self, slot
        self._homes[slot] = home
        self._keys[slot] = home.key
        self.size += 1
        bit = _BITS[slot]
        self._alive |= bit
        for use, constraint, atom in _uses(constraints):
            if use in (Use.UNSURE, Use.KIND):
                self._unsure |= bit
            if use is Use.UNSURE:
                continue
            attribute = self._attribute(atom.name)
            attribute.mentions |= bit
            if atom.kind is not None:
                attribute.kinded |= bit
                attribute.column(atom.kind).add(use, constraint, bit)

    def remove(self, home: Home, constraints: Constraints) -> None:
        """Take a conjunction's slot back."""
        slot = home.slot
        self._homes[slot] = self._keys[slot] = None
        self._free.append(slot)
        self.size -= 1
        bit = _BITS[slot]
        self._alive ^= bit
        self._unsure &= ~bit
        for use, constraint, atom in _uses(constraints):
            if use is Use.UNSURE:
                continue
            attribute = self._attributes[atom.name]
            attribute.mentions &= ~bit
            if atom.kind is not None:
                attribute.kinded &= ~bit
                attribute.column(atom.kind).remove(use, constraint, bit)
        for name in home.conjunction.by_name:
            if name in self._attributes and self._attributes[name].prune():
                del self._attributes[name]

    def match(self, attributes: dict[str, Value], out: list[Any]) -> None:
        """Append the keys of all conjunctions that pass. No value may be a list."""
        passed, doubt = self._sift(attributes)
        passed ^= doubt
        keys, bits = self._keys, _BITS
        while passed:
            slot = passed.bit_length() - 1
            out.append(keys[slot])
            passed ^= bits[slot]
        homes: Any = self._homes
        while doubt:
            slot = doubt.bit_length() - 1
            home = homes[slot]
            if home.shape.check(home.row, attributes):
                out.append(keys[slot])
            doubt ^= bits[slot]

    def candidates(self, attributes: dict[str, Value]) -> list[Home]:
        """The conjunctions that may pass, some in vain. Values may be lists."""
        passed, _ = self._sift(attributes)
        return [home for slot, home in enumerate(self._homes) if home is not None and passed >> slot & 1]

    def _sift(self, attributes: dict[str, Value]) -> tuple[int, int]:
        """Who does not fail, and who of those is in doubt."""
        fail, doubt = 0, self._unsure
        for name, attribute in self._attributes.items():
            value = attributes.get(name)
            if value is None:
                fail |= attribute.mentions
                continue
            column = attribute.columns.get(type(value))
            if column is None:
                if type(value) is not tuple:
                    fail |= attribute.kinded
                continue
            if attribute.kinds > 1:
                fail |= attribute.kinded & ~column.mentions
            if column.equals:
                fail |= column.equals ^ column.equal.get(value, 0)
            if column.unequal and value in column.unequal:
                fail |= column.unequal[value]
            if column.ranges:
                at = bisect_right(column.cuts, value)
                fail |= column.fail[at]
                doubt |= column.doubt[at]
        passed = self._alive
        passed ^= passed & fail
        return passed, doubt & passed

    def homes(self) -> Iterator[Home]:
        """Every conjunction in it."""
        return (home for home in self._homes if home is not None)

    def _attribute(self, name: str) -> _Attribute:
        attribute = self._attributes.get(name)
        if attribute is None:
            attribute = self._attributes[name] = _Attribute()
        return attribute


def _uses(constraints: Constraints) -> list[tuple[Use, Constraint, Atom]]:
    """What to do with each constraint of a conjunction; the same whenever it is asked."""
    kinds: dict[str, Kind] = {}
    taken: set[tuple[str, Use]] = set()
    uses = []
    for constraint, atom in constraints:
        use = _use(atom)
        if use is not Use.UNSURE and atom.kind is not None:
            if kinds.setdefault(atom.name, atom.kind) is not atom.kind:
                use = Use.UNSURE
            elif use in (Use.EQUAL, Use.RANGE):
                if (atom.name, use) in taken:
                    use = Use.KIND
                taken.add((atom.name, use))
        uses.append((use, constraint, atom))
    return uses


def _use(atom: Atom) -> Use:
    if not atom.needs_value:
        return Use.UNSURE
    if atom.kind is None:
        return Use.EXISTS
    if atom.op == "eq":
        return Use.UNEQUAL if atom.negated else Use.EQUAL
    if atom.negated:
        return Use.KIND
    if atom.is_range and not _inverted(atom):
        return Use.RANGE
    return Use.EQUAL if atom.op == "in" else Use.KIND


def _inverted(atom: Atom) -> bool:
    low, high = atom.operands[0], atom.operands[-1]
    return bool(low > high)  # type: ignore[operator]
