"""What a scope gave to no member, or lost, while members that may have wanted it were out of reach.

A part of a cut network may have no candidate for what is published there. The point of that part decides that nobody
gets it, and it stays decided. So the members in the other part are told a `Gap` when the parts are one again, and
likewise of what the point told the members in its own part as lost.

The point does not know which brokers are out of reach. It remembers which ones are in reach, and for each such set the
first position of each origin that no member got. A broker that is not in the set is told when it comes into reach.
This goes from point to point with the facts, and its size depends on the sets and origins, not on publications.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings.model import EventKey, Position

from ._messages import Stretch

MAX_STRETCHES = 16
"""The most sets of brokers. Beyond it, two of them become what they have in common, so more brokers may be told."""


class Unmet:
    """What no member got, by the brokers that were in reach."""

    def __init__(self) -> None:
        self._reach: frozenset[str] = frozenset()
        self._first: dict[frozenset[str], dict[str, Position]] = {}
        """For each set of brokers, the first position of each origin that no member got."""

    def begin(self, known: Iterable[list[Stretch]], reach: Iterable[str]) -> None:
        """A point begins with these brokers, and with what the points before it remember."""
        self._reach, self._first = frozenset(reach), {}
        for stretches in known:
            for stretch in stretches:
                self._add(frozenset(stretch.reach), stretch.first)

    def note(self, event: EventKey) -> None:
        """No member at the brokers in reach gets this."""
        self._add(self._reach, {event.origin: Position(event.epoch, event.seq)})

    def missed(self, broker: str) -> dict[str, Position]:
        """From where on members at a broker may have missed something of each origin."""
        missed: dict[str, Position] = {}
        for reach, first in self._first.items():
            if broker not in reach:
                _merge(missed, first)
        return missed

    @property
    def is_told(self) -> bool:
        """Whether every broker in reach was told of everything."""
        return all(self._reach <= reach for reach in self._first)

    def tell(self) -> None:
        """Every broker in reach has been told."""
        known, self._first = self._first, {}
        for reach, first in known.items():
            self._add(reach | self._reach, first)

    def stretches(self) -> list[Stretch]:
        """As points tell it to one another."""
        return [Stretch(tuple(sorted(reach)), dict(first)) for reach, first in self._first.items()]

    def _add(self, reach: frozenset[str], first: Mapping[str, Position]) -> None:
        _merge(self._first.setdefault(reach, {}), first)
        if len(self._first) > MAX_STRETCHES:
            one, two, *_ = self._first
            older, newer = self._first.pop(one), self._first.pop(two)
            self._add(one & two, older)
            self._add(one & two, newer)


def _merge(positions: dict[str, Position], more: Mapping[str, Position]) -> None:
    for origin, position in more.items():
        positions[origin] = min(position, positions.get(origin, position))
