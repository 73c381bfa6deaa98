"""Progress: how far the subscription of a group has come with each origin, and what that makes a fact.

    before      event                                                  after       what happens
    CLOSED      there is a member, and nothing to go on with           BEGINNING   subscribe to what is published
    CLOSED      there is a member                                      RESUMING    subscribe behind the first hole
    BEGINNING   it has settled                                         SETTLED     what came before counts as decided
    RESUMING    it has settled                                         SETTLED     marks become facts
    any other   it is to begin anew, or to stand for somebody else     BEGINNING   subscribe anew
                                                                       or RESUMING
    any other   no member is there that it may stand for               CLOSED

What comes while it is BEGINNING is dropped: it may have been taken under a term that is lost, and nothing is promised
yet. Whatever the state, if more comes than may wait, the subscription is *dropped*: what comes is asked for again, by a
subscription behind the facts, when there is room.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from tidings.broker import Facts
from tidings.model import EventKey, Position
from tidings.wire import Envelope


class Reading(enum.Enum):
    """See the table above."""

    CLOSED = "closed"
    BEGINNING = "beginning"
    RESUMING = "resuming"
    SETTLED = "settled"


class Progress:
    """What has come, and what is decided."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.state = Reading.CLOSED
        self.dropped = False
        """Whether what comes is to be asked for again."""
        self.anew = True
        """Whether the next subscription begins with what is published from then on."""
        self.reached: dict[str, Position] = {}
        """How far the subscription has come with each origin, in what was taken."""
        self._before: dict[str, Position] = {}
        """While it is BEGINNING: what came before it has settled."""
        self._began: dict[str, Position] = {}
        """How far each origin was when it began: where there are gateways, no marks say so at first."""

    @property
    def settled(self) -> bool:
        """Whether everything that is published from now on reaches the group."""
        return self.state is Reading.SETTLED

    def resume(self) -> dict[str, Position]:
        """Behind what the next subscription begins; empty: with what is published from then on."""
        return {} if self.anew else self.facts.resume()

    def is_whole(self, after: Mapping[str, Position]) -> bool:
        """Whether the subscription brings all that follows these positions."""
        whole = all(origin in self.reached and position >= self.reached[origin] for origin, position in after.items())
        return whole and not self.dropped

    def open(self, after: Mapping[str, Position], origins: Mapping[str, Position]) -> None:
        """It subscribes behind these positions, while the origins are so far."""
        self.dropped = False
        self.state = Reading.BEGINNING if self.anew else Reading.RESUMING
        self.reached = dict(after)
        self._before = {}
        self._began = dict(origins)

    def close(self) -> None:
        """There is no subscription any more."""
        self.state = Reading.CLOSED

    def ignore(self, envelope: Envelope) -> None:
        """Something came while it was BEGINNING."""
        identity = envelope.identity
        self._before[identity.origin] = Position(identity.epoch, identity.seq)

    def settle(self, told: Mapping[str, Position], origins: Mapping[str, Position]) -> dict[str, Position]:
        """It has settled, with these marks; how far it is with each origin now."""
        marks = dict(self._before) if self.state is Reading.BEGINNING else {}
        self.state = Reading.SETTLED
        for origin, mark in told.items():
            marks[origin] = max(mark, marks.get(origin, mark))
        for origin, mark in {**origins, **self._began}.items():
            if origin not in self.reached:
                marks.setdefault(origin, mark)
        return marks

    def close_up_to(self, marks: Mapping[str, Position]) -> None:
        """What came before these counts as decided."""
        for origin, mark in marks.items():
            self.facts.close(origin, mark)
            self.reached[origin] = mark

    def mark(self, marks: Mapping[str, Position], reaches: Callable[[str], bool]) -> None:
        """Everything up to here has come, and is taken."""
        for origin, mark in marks.items():
            reached = self.reached.get(origin)
            if reached is None:
                if not reaches(origin):
                    continue  # it may be further, and others may have decided what it has published since
                self.facts.add(origin, mark.epoch, mark.seq + 1, mark.seq)  # from here on everything comes
            elif mark > reached:
                self.facts.take(EventKey(origin, *mark), reached)
            self.reached[origin] = max(mark, reached or mark)

    def note(self, event: EventKey, *, detour: bool) -> None:
        """An event is taken; by a detour, it says nothing about what came before it."""
        reached = self.reached.get(event.origin)
        position = Position(event.epoch, event.seq)
        if detour or (reached is not None and position <= reached):
            self.facts.take(event, None)
        else:
            self.facts.take(event, reached)
            if reached is not None or self.settled:
                self.reached[event.origin] = position
