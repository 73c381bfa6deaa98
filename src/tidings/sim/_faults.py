"""Which faults of docs/promises.md bear on a publication, judged from what a trace says was broken and mended.

A publication is under way for a few seconds, and longer if something holds it up: then, until that is over and a while
longer, and so on. Only what breaks until it must have arrived bears on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ._details import Broken
from ._reachability import Reachability
from ._trace import Op, Record

PAUSE = 10_000_000
"""Microseconds that are enough to catch up; outages that are closer together count as one."""
LONG = 60_000_000 - PAUSE
"""Microseconds of trouble without a pause after which an origin may have been given up: ORIGIN_TIMEOUT counts from when
something may have been missed, which is before the trouble if a client had just come back and was catching up."""
UNDER_WAY = 10_000_000
"""Microseconds for which something may be under way on the slowest links."""
MEMORY = 10_000
"""Publications of one broker, above which some may have left its memory (MEMORY_PUBLICATIONS)."""

NONE = "none"
CUT = "link cut and healed"
NEW_TREE = "new tree"
OTHER_CRASH = "other broker crash"
ORIGIN_CRASH = "origin crash and restart"
ORIGIN_GONE = "origin gone"
OWN_CRASH = "own broker crash"
CLIENT_MOVES = "client moves"
MEMORY_EXCEEDED = "memory exceeded"
PUBLISHER_LEAVES = "publisher leaves"
MEMBER_LEAVES = "member leaves"
OWN_FAULTS = {Op.LOST: OWN_CRASH, Op.DETACH: CLIENT_MOVES}
"""What befalls a subscriber, by its record."""
FOR_EVER = 1 << 63
"""Microseconds: later than any record."""

Spans: TypeAlias = Sequence[tuple[int, int]]
"""From when to when, in order of beginning."""


@dataclass(slots=True)
class _Outage:
    kind: str
    where: str
    begun: Record
    ended: Record | None = None

    def end(self, now: Record) -> int:
        return now.time if self.ended is None else self.ended.time


class Faults:
    """What was broken in a run so far."""

    def __init__(self) -> None:
        self._outages: list[_Outage] = []
        self._added: list[Record] = []
        self._published: dict[str, int] = {}
        self.reachability = Reachability()

    @property
    def happened(self) -> bool:
        """Whether anything was."""
        return bool(self._outages or self._added)

    def record(self, record: Record) -> None:
        """Something was broken or mended."""
        assert isinstance(record.detail, Broken)
        kind, where = record.detail
        self.reachability.note(record)
        if kind in ("fill", "empty", "link"):
            return  # a full disk shows in what publishers are told
        if kind in ("cut", "crash"):
            self._outages.append(_Outage(kind, where, record))
        elif kind in ("heal", "restart"):
            broken = "cut" if kind == "heal" else "crash"
            for outage in self._outages:
                if (outage.kind, outage.where, outage.ended) == (broken, where, None):
                    outage.ended = record
        else:
            self._added.append(record)

    def published(self, origin: str) -> None:
        """A client of this broker has published."""
        self._published[origin] = self._published.get(origin, 0) + 1

    def arrived_by(self, since: int, absences: Iterable[tuple[int, int]], now: Record) -> int:
        """When something must have arrived that was taken at that time, for a client that had these absences."""
        until = since + UNDER_WAY
        spans = [(outage.begun.time, outage.end(now)) for outage in self._outages]
        spans += [(one.time, one.time) for one in self._added]
        for begun, ended in sorted([*spans, *absences]):
            if begun <= until:
                until = max(until, ended + UNDER_WAY)
        return until

    def bearing_on(
        self, publication: Record, origin: str, now: Record, until: int = FOR_EVER, apart: Spans | None = None
    ) -> set[str]:
        """The faults that may keep a publication from those who want it, if it has arrived by `until`.

        `apart`: when the origin could not be reached from where it is wanted; None: whenever anything was broken.
        """
        faults = set(self._of_brokers(publication, origin, until))
        if any(outage.kind == "cut" and outage.begun.time <= until for outage in self._outages):
            faults.add(CUT)
        if any(one.time <= until for one in self._added):
            faults.add(NEW_TREE)
        spans = [(one.begun.time, one.end(now)) for one in self._outages] if apart is None else apart
        if _is_long(spans, publication, until):
            faults.add(ORIGIN_GONE)
        if faults and self._published.get(origin, 0) > MEMORY:
            faults.add(MEMORY_EXCEEDED)
        return faults or {NONE}

    def bearing_on_origin(self, origin: str, now: Record, apart: Spans | None = None) -> set[str]:
        """The faults that may have been bad for anything published at a broker."""
        return self.bearing_on(Record(-1, 0, Op.PUB), origin, now, apart=apart)

    def apart(self, origin: str, readers: Collection[str], now: Record, *, scopes: bool) -> Spans:
        """When an origin could not be reached from the brokers of a client, or a scope not be had there.

        Which broker is the authority, from which scopes are had, is not in the trace: it may be any of them.
        """
        reachability = self.reachability
        return reachability.apart(readers, reachability.brokers if scopes else (origin,), now.time)

    def is_cut_off(self, broker: str, now: Record) -> bool:
        """Whether some other broker cannot be reached from this one, and nothing has been mended until the end."""
        return any(end >= now.time for _, end in self.apart(broker, (broker,), now, scopes=True))

    def decided_apart(self, first: Record, broker: str, now: Record, *, anywhere: bool = False) -> bool:
        """Whether what was given to a member at a broker may be decided again, by who cannot know of it.

        It was decided by the smallest name of the part that the broker was in, or `anywhere` in that part. Either the
        network was in several parts, and that one has died since; or it was in three at some time, and two became one
        without it.
        """
        then = self.reachability.between(first.time - PAUSE, first.time)
        parties = [_part(parts, broker) for parts in then if broker in parts]
        deciders = set().union(*parties) if anywhere else set(map(min, parties))
        if any(len(set(parts.values())) > 1 for parts in then) and any(
            one.kind == "crash" and one.where in deciders and first.time - PAUSE < one.begun.time <= now.time
            for one in self._outages
        ):
            return True
        states = self.reachability.between(first.time - PAUSE, now.time)
        return any(
            _joined_without(one, decider, states[at + 1 :]) for decider in deciders for at, one in enumerate(states)
        )

    def was_whole(self, since: int, until: int) -> bool:
        """Whether all that time each broker reached each other one, and none was dead."""
        if any(one.kind == "crash" and one.begun.time <= until and _ended(one) >= since for one in self._outages):
            return False
        return all(len(set(parts.values())) <= 1 for parts in self.reachability.between(since, until))

    def is_dead(self, origin: str) -> bool:
        """Whether a broker has died and is not back."""
        return any((outage.kind, outage.where, outage.ended) == ("crash", origin, None) for outage in self._outages)

    def _of_brokers(self, publication: Record, origin: str, until: int) -> Iterator[str]:
        for outage in self._outages:
            if outage.kind != "crash" or outage.begun.time > until:
                continue
            if outage.where != origin:
                yield OTHER_CRASH
            elif outage.begun.seq > publication.seq:
                yield ORIGIN_CRASH if outage.ended is not None else ORIGIN_GONE
            elif outage.ended is not None and publication.time <= outage.ended.time + PAUSE:
                yield NEW_TREE  # its links have just come back


def _ended(outage: _Outage) -> int:
    return FOR_EVER if outage.ended is None else outage.ended.time


def _part(parts: Mapping[str, int], broker: str) -> set[str]:
    """The brokers that one reaches, itself included."""
    return {one for one, part in parts.items() if part == parts[broker]}


def _joined_without(before: Mapping[str, int], decider: str, later: Iterable[Mapping[str, int]]) -> bool:
    """Whether two parts of three, in none of which a broker was, became one while it still was in another."""
    if len(set(before.values())) < 3:
        return False
    for parts in later:
        own = _part(parts, decider) if decider in parts else {decider}
        others = {broker: part for broker, part in parts.items() if broker not in own and broker in before}
        for part in set(others.values()):
            joined = {before[broker] for broker, one in others.items() if one == part}
            if len(joined - {before.get(decider)}) > 1:
                return True
    return False


def _is_long(spans: Spans, publication: Record, until: int) -> bool:
    """Whether outages that follow one another without a pause lasted long, while a publication was under way."""
    begun: int | None = None
    ended = 0
    for start, end in spans:
        if begun is None or start > ended + PAUSE:
            begun, ended = start, end
        ended = max(ended, end)
        if ended - begun >= LONG and ended >= publication.time and begun <= until:
            return True
    return False
