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

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from tidings.model import Constraint, Kind, Value
from tidings.model.operators import Range

from ._atom import Atom
from ._column import Column, Use
from ._home import Constraints, Home

SLOTS = 4096
"""Conjunctions in one segment: larger ones match faster, smaller ones change faster."""
PRECISION = 128
"""For so many conjunctions in a segment, one may be in doubt per gap: cells cost memory, and time to change."""
_OFFSETS = [tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]
"""The bits of each byte."""
_BITS = [1 << slot for slot in range(SLOTS)]


class Segments:
    """Any number of conjunctions, in as many segments as it takes."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Segment] = []

    def add(self, home: Home, left: Constraints) -> None:
        """Take a conjunction in, of which this is left to be tested."""
        for segment in self.parts:
            if len(segment.slots) < SLOTS:
                break
        else:
            segment = Segment()
            self.parts.append(segment)
        segment.add(home, left)

    def remove(self, home: Home, left: Constraints) -> None:
        """Let a conjunction go."""
        segment = next(segment for segment in self.parts if home in segment.slots)
        segment.remove(home, left)
        if not segment.slots:
            self.parts.remove(segment)

    def candidates(self, attributes: dict[str, Value]) -> list[Home]:
        """The conjunctions that may pass, some in vain. Values may be lists."""
        return [home for segment in self.parts for home in segment.candidates(attributes)]

    def homes(self) -> Iterator[Home]:
        """Every conjunction in them."""
        for segment in self.parts:
            yield from segment.slots

    def __len__(self) -> int:
        return sum([len(segment.slots) for segment in self.parts])


class Segment:
    """Up to `SLOTS` conjunctions, by attribute."""

    __slots__ = ("_alive", "_columns", "_free", "_homes", "_keys", "_unsure", "slots")

    def __init__(self) -> None:
        self.slots: dict[Home, int] = {}
        self._homes: list[Any] = []
        self._keys: list[Any] = []
        self._free: list[int] = []
        self._alive = 0
        self._unsure = 0
        """Who is always in doubt."""
        self._columns: dict[str, Column] = {}

    def add(self, home: Home, left: Constraints) -> None:
        """Give a conjunction a slot."""
        if not self._free:
            self._free.append(len(self._homes))
            self._homes.append(None)
            self._keys.append(None)
        slot = self._free.pop()
        self._homes[slot] = home
        self._keys[slot] = home.key
        self.slots[home] = slot
        bit = _BITS[slot]
        self._alive |= bit
        limit = len(self.slots) // PRECISION
        for use, constraint, atom in _uses(left):
            if use is Use.UNSURE or use is Use.KIND:
                self._unsure |= bit
                if use is Use.UNSURE:
                    continue
            column = self._columns.get(atom.name)
            if column is None:
                column = self._columns[atom.name] = Column()
            if use is Use.NULL:
                column.unwanted |= bit
                continue
            column.needed |= bit
            if atom.kind is not None:
                column.kinded |= bit
                column.of_kind(atom.kind).add(use, constraint, bit, limit)

    def remove(self, home: Home, left: Constraints) -> None:
        """Take a conjunction's slot back."""
        slot = self.slots.pop(home)
        self._homes[slot] = self._keys[slot] = None
        self._free.append(slot)
        bit = _BITS[slot]
        self._alive ^= bit
        self._unsure &= ~bit
        for use, constraint, atom in _uses(left):
            if use is Use.UNSURE:
                continue
            column = self._columns[atom.name]
            column.unwanted &= ~bit
            column.needed &= ~bit
            column.kinded &= ~bit
            if atom.kind is not None:
                column.of_kind(atom.kind).remove(use, constraint, bit)
        for name in home.conjunction.by_name:
            if name in self._columns and not (self._columns[name].needed or self._columns[name].unwanted):
                del self._columns[name]

    def match(self, attributes: dict[str, Value], found: list[Any]) -> None:
        """Append the keys of all conjunctions that pass. No value may be a list."""
        passed, doubt = self._sift(attributes)
        passed ^= doubt
        homes, keys, bits = self._homes, self._keys, _BITS
        if len(homes) <= 64:  # few and often dense: by bytes
            base = 0
            while passed:
                for offset in _OFFSETS[passed & 255]:
                    found.append(keys[base + offset])  # noqa: PERF401 - for a handful, a loop is faster
                passed >>= 8
                base += 8
        while passed:
            slot = passed.bit_length() - 1
            found.append(keys[slot])
            passed ^= bits[slot]
        while doubt:
            slot = doubt.bit_length() - 1
            home = homes[slot]
            if home.shape.check(home.row, attributes):
                found.append(home.key)
            doubt ^= bits[slot]

    def candidates(self, attributes: dict[str, Value]) -> list[Home]:
        """The conjunctions that may pass, some in vain. Values may be lists."""
        passed, _ = self._sift(attributes)
        homes = []
        while passed:
            slot = passed.bit_length() - 1
            homes.append(self._homes[slot])
            passed ^= _BITS[slot]
        return homes

    def _sift(self, attributes: dict[str, Value]) -> tuple[int, int]:
        """Who does not fail, and who of those is in doubt. A list fails nobody who needs a value."""
        fail, doubt = 0, self._unsure
        for name, column in self._columns.items():
            value: Any = attributes.get(name)
            if value is None:
                fail |= column.needed
                continue
            if column.unwanted:
                fail |= column.unwanted
            if type(value) not in column.types or column.others:
                if type(value) is tuple:
                    continue
                of_type = column.of_type(type(value))
                if of_type is None:
                    fail |= column.kinded
                    continue
                fail |= column.kinded & ~of_type.mentions
                column = of_type
            if column.equals:
                fail |= column.equals ^ column.equal.get(value, 0)
            if column.unequal is not None and value in column.unequal:
                fail |= column.unequal[value]
            cuts = column.cuts
            if cuts is not None:
                at = bisect_left(cuts, value)
                if at < len(cuts) and cuts[at] == value:
                    at += at + 1
                else:
                    at += at
                    doubt |= column.doubt[at]
                fail |= column.fail[at]
                if column.narrow:
                    fail |= column.narrow ^ column.passes[at]
        passed = self._alive
        passed ^= passed & fail
        return passed, doubt & passed


def _uses(constraints: Constraints) -> list[tuple[Use, Constraint, Atom]]:
    """What to do with each constraint of a conjunction; the same whenever it is asked."""
    kinds: dict[str, Kind] = {}
    taken: dict[tuple[str, Use], int] = {}
    uses: list[tuple[Use, Constraint, Atom]] = []
    for constraint, atom in constraints:
        use = _use(atom)
        if atom.kind is not None and use is not Use.UNSURE:
            if kinds.setdefault(atom.name, atom.kind) is not atom.kind:
                use = Use.UNSURE
            elif use is Use.EQUAL or use is Use.RANGE:
                earlier = taken.setdefault((atom.name, use), len(uses))
                if earlier < len(uses):
                    both = _both(uses[earlier][1], constraint)
                    if both is not None:
                        uses[earlier] = (use, both, atom)
                        continue
                    use = Use.KIND
        uses.append((use, constraint, atom))
    return uses


def _both(one: Constraint, two: Constraint) -> Range | None:
    """Two ranges as one, for scalars; None if they are none or do not meet."""
    if not (isinstance(one, Range) and isinstance(two, Range)):
        return None
    low, low_open = max(((r.low, r.low_open) for r in (one, two) if r.low is not None), default=(None, False))
    high, high_closed = min(((r.high, not r.high_open) for r in (one, two) if r.high is not None), default=(None, True))
    if low is not None and high is not None and low > high:
        return None
    return Range(one.name, low, high, low_open=low_open, high_open=not high_closed)


def _use(atom: Atom) -> Use:
    match atom.op:
        case "null":
            return Use.NULL
        case "exists":
            return Use.EXISTS
        case "ask":
            return Use.UNSURE
        case "eq" | "in":
            return Use.UNEQUAL if atom.negated else Use.EQUAL
    return Use.RANGE if atom.is_range and not atom.negated and not _inverted(atom) else Use.KIND


def _inverted(atom: Atom) -> bool:
    low: Any = atom.operands[0]
    return bool(low > atom.operands[-1])
