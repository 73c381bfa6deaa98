"""A subscription as the local broker keeps it: its filter, its callback, and how far it has seen each origin.

Whether a notification passes the filter is decided by the border broker. The local broker decides again only while the
border broker may not know the filter of now: from `subscribe` until that very filter is reported as settled. Links are
FIFO, so whatever comes behind that report was tested with it. Who published is another matter: what comes late, from an
origin's memory, may be the application's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from tidings.model import NOWHERE, Duplicates, Identity, Matches, Notification, Position, Route
from tidings.wire import Deliveries, Gap, Join, Subscribe

Callback: TypeAlias = Callable[[Notification], None]
TakeMany: TypeAlias = Callable[[Iterator[Notification]], None]
"""Takes notifications one after the other, until none is left or something has changed; then the rest comes again."""

MAX_GAPS = 1_000
"""The most gaps of one origin that are remembered, to tell each of them once."""


class Membership(NamedTuple):
    """A share in what a group gets. What comes has been decided elsewhere: it is handed over as it comes."""

    join: Join
    callback: Callback


class LocalSubscription:
    """One subscription of the application."""

    __slots__ = (
        "asked",
        "callback",
        "confirmed",
        "filter",
        "first_past",
        "gaps",
        "last",
        "many",
        "marks",
        "message",
        "name",
        "partial",
        "settled",
        "unsure",
    )

    def __init__(
        self, message: Subscribe, callback: Callback, filter: Matches | None = None, many: TakeMany | None = None
    ) -> None:
        """`filter` is what the filter of the message means here, if that speaks of a place.

        `many` is called with what would be given to `callback` one by one, where nothing needs to be known of each.
        """
        self.message = message
        self.first_past = message.past
        """How far it reached back when it began, as it does again at each place where it begins anew."""
        self.name = message.id if message.past is None else f"{message.id}#{message.number}"
        """By which second copies are recognised. What reaches back may get again what an earlier one of its id got."""
        self.asked = message.number if message.past is not None else 0
        """The number with which its past was asked for last."""
        self.filter = message.filter if filter is None else filter
        self.callback = callback
        self.many = many
        self.settled = False
        """Whether it has ever settled: from then on it is owed everything."""
        self.confirmed = False
        """Whether it has settled at the border broker of now, whose marks count for it from then on."""
        self.unsure = True
        """Whether what comes may not be wanted, and has to be looked at."""
        self.marks: dict[str, Position] = {}
        """For each origin, the position up to which everything has been handed over or was not wanted."""
        self.last: dict[str, Identity | Position] = {}
        """For each origin, the last notification that was handed over, or where that was."""
        self.gaps: dict[str, set[tuple[int, int, int | None]]] = {}
        """For each origin, the gaps that were told since its last mark: epoch, first and last number."""
        self.partial: set[str] = set()
        """The origins whose last event may not have come in all its forms yet."""

    def wants(self, identity: Identity, notification: Notification, me: str) -> bool:
        """Whether the application wants this notification, now."""
        if not self.message.receive_own and identity.publisher == me:
            return False
        return self.filter.matches(notification)

    def takes(self, run: Deliveries) -> bool:
        """Whether these can be handed over together: all are wanted, and none can have been handed over before."""
        if self.many is None or self.unsure or self.awaits_past or run.origin in self.gaps:
            return False
        last = self.last.get(run.origin)
        return last is None or (last.epoch, last.seq) <= (run.epoch, run.first)

    def has_passed(self, identity: Identity, several: bool) -> bool:
        """Whether something behind this has been handed over before; if not, this is now.

        One event may come in several forms, so what has just been handed over may come again.
        """
        origin, last = identity.origin, self.last.get(identity.origin)
        if last is not None and (last.epoch, last.seq) > (identity.epoch, identity.seq):
            return True
        self.last[origin] = identity
        if self.gaps and origin in self.gaps:  # a gap without an end stands for what follows until something comes
            self.gaps[origin] = {_ended(gap, identity.position) for gap in self.gaps[origin]}
        if several:
            self.partial.add(origin)
        return False

    def has_heard(self, gap: Gap) -> bool:
        """Whether all of this gap was told before, and nothing has come since; if not, it is told now.

        Another border broker tells it again if no mark has come since: this subscription still asks from before it.
        An origin that was gone knows more when it is back, but nothing that is news. What marks do not speak of is
        news before them, too.
        """
        if not gap.unmarked and _is_before((gap.epoch, gap.first, gap.last), self.marks.get(gap.origin, NOWHERE)):
            return True  # of everything up to there it has been told, by whoever knew
        told = self.gaps.setdefault(gap.origin, set())
        news = gap if gap.unmarked else _behind(self._reached(gap.origin), gap)
        if any(_contains(one, news) for one in told):
            return True
        if len(told) >= MAX_GAPS:
            told.clear()
        told.add((gap.epoch, gap.first, gap.last))
        return False

    @property
    def awaits_past(self) -> bool:
        """Whether its past has not begun yet: nothing else can come for it. One that goes on elsewhere has no past."""
        return self.message.past is not None and not self.confirmed and not self.settled

    def form(self, route: Route) -> int:
        """What must be the same for two copies of one event to be the same notification."""
        match self.message.duplicates:
            case Duplicates.PER_PATH:
                return hash((route.version, route.path))
            case Duplicates.EVENT:
                return 0
            case _:
                return route.version

    def mark(self, marks: dict[str, Position]) -> None:
        """The border broker has sent everything up to here."""
        for origin, mark in marks.items():
            self.marks[origin] = max(mark, self.marks.get(origin, mark))
            if origin in self.gaps:
                self.gaps[origin] = {gap for gap in self.gaps[origin] if not _is_before(gap, self.marks[origin])}
                if not self.gaps[origin]:
                    del self.gaps[origin]

    def has_settled(self, marks: dict[str, Position]) -> None:
        """The border broker knows the filter of now, and so does everybody behind it."""
        self.settled = self.confirmed = True
        self.unsure = not self.message.receive_own
        self.mark(marks)

    def goes_on(self, after: Mapping[str, Position]) -> None:
        """It goes on with an earlier subscription, which had come so far."""
        self.settled = True
        self.marks.update(after)

    def begins_at(self, filter: Matches, number: int) -> None:
        """It begins a new stretch at another place, where its filter means this.

        Positions do not speak of places: what was published before at the new place has smaller numbers than what came
        from the old one. What is handed over a second time is still recognised, because its name stays.
        """
        self.message = msgspec.structs.replace(self.message, past=self.first_past, number=number)
        self.asked = number if self.first_past is not None else 0
        self.filter = filter
        self.settled = self.confirmed = False
        self.unsure = True
        self.marks, self.last, self.gaps, self.partial = {}, {}, {}, set()

    def begins_anew(self) -> None:
        """It is announced to a border broker that does not know it."""
        self.confirmed = False
        self.unsure = True

    def follows(self, known: LocalSubscription) -> None:
        """It takes the place of another, whose filter it changes: it is owed what both want."""
        self.name = known.name
        self.asked = self.asked or known.asked
        self.first_past = self.first_past or known.first_past
        self.settled, self.confirmed = known.settled, known.confirmed
        self.marks, self.last, self.partial, self.gaps = known.marks, known.last, known.partial, known.gaps

    @property
    def after(self) -> dict[str, Position]:
        """How far it has seen each origin."""
        return {origin: self._reached(origin) for origin in {**self.marks, **self.last}}

    def _reached(self, origin: str) -> Position:
        last, mark = self.last.get(origin), self.marks.get(origin, NOWHERE)
        return mark if last is None else max(Position(last.epoch, last.seq - (origin in self.partial)), mark)


def _behind(reached: Position, gap: Gap) -> Gap:
    """The part of a gap behind what has been handed over, if there is one."""
    epoch, seq = reached
    within = gap.epoch == epoch and gap.first <= seq and (gap.last is None or seq < gap.last)
    return Gap(gap.origin, gap.epoch, seq + 1, gap.last) if within else gap


def _is_before(gap: tuple[int, int, int | None], mark: Position) -> bool:
    """Whether a mark lies behind all of a gap. One without an end reaches to the end of its epoch."""
    epoch, _, last = gap
    return epoch < mark[0] if last is None else (epoch, last) <= mark


def _ended(told: tuple[int, int, int | None], position: Position) -> tuple[int, int, int | None]:
    """A gap that was told, now that something has come."""
    epoch, first, last = told
    ends = last is None and epoch == position[0] and first < position[1]
    return (epoch, first, position[1] - 1) if ends else told


def _contains(told: tuple[int, int, int | None], gap: Gap) -> bool:
    """Whether a gap says nothing new. One without an end says nothing new behind another of its epoch, wherever it
    begins: a border broker that has forgotten how far the subscription had come begins earlier. One that is unmarked
    has lost more if it begins earlier."""
    epoch, first, last = told
    if epoch != gap.epoch or last is None:
        forgotten = gap.last is None and not gap.unmarked
        return epoch == gap.epoch and (forgotten or first <= gap.first)
    return first <= gap.first and gap.last is not None and gap.last <= last
