"""What a group has handled: facts that mean "handled", that only ever grow, and that everybody may join with his own.

A fact says that a member has acknowledged an event, that it has become a dead letter, that it is lost and the members
were told, or that it is none of the group's business. Whoever knows fewer facts knows nothing wrong, only less: the
worst that comes of it is a job that is done twice. So there is no newest version to agree on. A broker joins whatever
it hears with what it knows; so does a client that moves, and a broker that reads its disk.

The first number of an origin's first range is where the group began with it. Nothing may be noted about an origin of
which that is not known: whoever went on from there would leave out what others have not handled yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.broker import END, Facts
from tidings.model import EventKey, Position
from tidings.wire import Gap, Ranges

MAX_HOLES = 10_000
"""The most ranges of one epoch of an origin: more than there are jobs of a group at once."""


class HandledFacts:
    """What is known of one group, and the news of it."""

    def __init__(self) -> None:
        self._facts = Facts(most=MAX_HOLES)
        self._news = Facts(most=MAX_HOLES)
        self._lost = Facts()
        self.is_written = False
        """Whether the disk has all of it, where there is one."""

    def __contains__(self, event: EventKey) -> bool:
        return event in self._facts

    def __bool__(self) -> bool:
        return bool(self._facts)

    def knows(self, origin: str) -> bool:
        """Whether it is known where the group began with an origin."""
        return self._facts.knows(origin)

    def told(self) -> Ranges:
        """As brokers tell it to one another."""
        return self._facts.told()

    def take_news(self) -> Ranges:
        """What has been added since this was asked last."""
        news, self._news = self._news, Facts(most=MAX_HOLES)
        return news.told()

    @property
    def has_news(self) -> bool:
        """Whether something has been added since."""
        return bool(self._news)

    def _add(self, origin: str, epoch: int, first: int, last: int) -> bool:
        if last < first - 1 or self._facts.covers(origin, epoch, first, last):
            return False
        self._facts.add(origin, epoch, first, last)
        self._news.add(origin, epoch, first, last)
        self.is_written = False
        return True

    def begin(self, origin: str, position: Position) -> None:
        """The group begins with what follows a position."""
        self._add(origin, position.epoch, position.seq + 1, position.seq)

    def note(self, event: EventKey) -> bool:
        """An event is handled; whether that is news."""
        return self.knows(event.origin) and self._add(event.origin, event.epoch, event.seq, event.seq)

    def pass_over(self, origin: str, behind: Position, upto: Position) -> None:
        """Whatever lies between two positions, the second one included, is none of the group's business."""
        if behind.epoch == upto.epoch:
            self._add(origin, upto.epoch, behind.seq + 1, upto.seq)
        elif behind.epoch < upto.epoch:
            if behind.epoch:
                self._add(origin, behind.epoch, behind.seq + 1, END)
            self._add(origin, upto.epoch, 1, upto.seq)

    def leave_out(self, origin: str, upto: Position) -> None:
        """Nothing up to a position is to be handled any more."""
        behind = self.resume().get(origin)
        if behind is None:
            self.begin(origin, upto)
        elif upto > behind:
            for epoch, first, last in self.holes(origin, upto):
                self._add(origin, epoch, first, last)
            self.pass_over(origin, behind, upto)

    def lose(self, gap: Gap) -> None:
        """Something is lost, and the members are told."""
        self._lost.add(gap.origin, gap.epoch, gap.first, END if gap.last is None else gap.last)
        if gap.last is not None:
            self._add(gap.origin, gap.epoch, gap.first, gap.last)

    def join(self, told: Ranges, lost: Ranges | None = None) -> bool:
        """Take what somebody else knows; whether that is news."""
        for one in Facts(lost):
            self._lost.add(*one)
        added = [self._add(*one) for one in Facts(told, MAX_HOLES)]
        return any(added)

    def told_lost(self) -> Ranges:
        """What is lost, as brokers tell it to one another."""
        return self._lost.told()

    def untold(self, known: Ranges) -> Iterator[Gap]:
        """What is lost, and somebody who knows this much may not have heard of."""
        facts = Facts(known, MAX_HOLES)
        for origin, epoch, first, last in self._lost:
            if origin in known and epoch >= min(known[origin]) and not facts.covers(origin, epoch, first, last):
                yield Gap(origin, epoch, first, None if last == END else last)

    def resume(self) -> dict[str, Position]:
        """For each origin, the position before the first hole: whoever goes on asks for what follows it."""
        return self._facts.resume()

    def holes(self, origin: str, upto: Position) -> list[tuple[int, int, int]]:
        """Epoch, first and last number of what is not handled, up to a position."""
        return list(self._facts.undecided(origin, upto))
