"""The roster of a group at its deciding point: which members are where, and whose turn it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ._messages import Member, Present, Refuse, Said, Terms, conflict


class Place(NamedTuple):
    """A member, and where it is."""

    broker: str
    member: Member


class Roster:
    """Who is there, as the brokers of the members say."""

    def __init__(self, key: str, say: Callable[[str, Said], None]) -> None:
        """`say` tells a broker something."""
        self._key = key
        self._say = say
        self.terms: Terms | None = None
        """What all members have in common; None: nobody has ever been there."""
        self.present: dict[str, Present] = {}
        """By broker."""
        self.turn: deque[Place] = deque()
        """Those that are ready, the next one first."""

    def __len__(self) -> int:
        return sum(len(present.members) for present in self.present.values())

    def places(self) -> Iterator[Place]:
        """All members, each with its broker."""
        for broker, present in sorted(self.present.items()):
            for member in present.members:
                yield Place(broker, member)

    def is_news(self, broker: str, present: Present) -> bool:
        """Whether what a broker says is not older than what it said before."""
        known = self.present.get(broker)
        return known is None or (known.epoch, known.version) <= (present.epoch, present.version)

    def accept(self, broker: str, present: Present) -> None:
        """Note the members of a broker; refuse those that want something else than the others."""
        if self.terms is None:
            self.terms = present.terms
        refused = () if present.terms == self.terms else present.members
        if refused:
            present = Present(present.key, present.terms, (), present.since, present.version, present.epoch)
        self.present[broker] = present
        places = {Place(broker, one) for one in present.members if one.ready}
        kept = [one for one in self.turn if one.broker != broker or one in places]
        added = [one for one in sorted(places, key=lambda one: one.member.id) if one not in set(kept)]
        self.turn = deque([*kept, *added])
        if refused:
            self._say(broker, Refuse(self._key, refused, conflict(present.terms, self.terms)))

    def gather(self, terms: Terms | None, present: Mapping[str, Present]) -> None:
        """Begin with these; without terms, those of who joined first count."""
        first = min(((one.since, broker) for broker, one in present.items() if one.members), default=None)
        self.terms = terms if terms is not None else present[first[1]].terms if first is not None else None
        self.present.clear()
        for broker, one in sorted(present.items()):
            self.accept(broker, one)
        there = set(self.places())
        self.turn = deque(one for one in self.turn if one in there)
