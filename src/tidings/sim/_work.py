"""Whether acknowledged groups keep their promises: everything is handled, and little is given to two members.

It knows the trace and nothing of deciding points: which member got which job, what it said about that, and what members
were told is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.model import Matches, Notification
from tidings.wire import Quality

from ._details import Broken, Enlisted, Given, Missing, Notified, Settlement
from ._faults import NONE, PUBLISHER_LEAVES, UNDER_WAY, Faults
from ._observer import Observer, Publication, Violation
from ._promises import Outcome, Promises
from ._trace import Op, Record

OF_THE_GROUP = "of-the-group"
MEMORY_LOST = "group memory lost"
FEATURE = "groups"
AWAY = 5_000_000
"""Microseconds after which a member that is gone has lost its jobs to others."""


@dataclass(slots=True)
class _Member:
    group: str
    filter: Matches
    settlings: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    """When its broker said that it is a member, and which brokers that reached."""


class _Holding(NamedTuple):
    """A job that a member has got."""

    member: tuple[str, str]
    record: Record


@dataclass(slots=True)
class _Group:
    ack_within: int
    done: set[tuple[str, int]] = field(default_factory=set)
    """By publisher and its own number."""
    holding: dict[tuple[object, ...], _Holding] = field(default_factory=dict)
    """By job, who got it last, and has said nothing about it."""
    acked: set[tuple[object, ...]] = field(default_factory=set)
    missed: list[Missing] = field(default_factory=list)
    floors: list[tuple[int, frozenset[str], Matches]] = field(default_factory=list)
    """The settlings of members that have died or left."""


class WorkJudge:
    """Follows who is a member of what, and what becomes of jobs."""

    def __init__(self, observer: Observer, faults: Faults, promises: Promises) -> None:
        self._observer = observer
        self._faults = faults
        self._promises = promises
        self._of_the_group = promises.holds(OF_THE_GROUP, FEATURE)
        self._members: dict[tuple[str, str], _Member] = {}
        self._groups: dict[str, _Group] = {}
        self._crashed = False
        self._gone: dict[str, int] = {}
        """Clients that have no broker, and since when."""
        self._left: dict[tuple[str, str], Record] = {}
        """When each member was last away, died or left."""
        self.given = self.again = self.needless = 0
        """How many jobs were given; how many of them again; how many of those though the member had it, in time."""
        self.needless_records: list[Record] = []

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by it."""
        key = (record.component, record.subscription)
        member = self._members.get(key)
        match record.op:
            case Op.ENLIST:
                assert isinstance(record.detail, Enlisted)
                assert record.filter is not None
                self._groups.setdefault(record.detail.group, _Group(record.detail.ack_within))
                if member is None or member.group != record.detail.group:
                    self._members[key] = _Member(record.detail.group, record.filter)
            case Op.ENLISTED if member is not None:
                assert isinstance(record.detail, Settlement)
                member.settlings.append((record.seq, record.detail.reach))
            case Op.QUIT if member is not None:
                self._ended(key, record)
                del self._members[key]
            case Op.DIED:
                for one in [one for one in self._members if one[0] == record.component]:
                    self._ended(one, record)
                    was = self._members[one]
                    self._members[one] = _Member(was.group, was.filter)
            case Op.LOST | Op.DETACH | Op.ENDED:
                self._gone[record.component] = record.time
            case Op.ATTACH:
                since = self._gone.pop(record.component, record.time)
                for one in self._members:
                    if one[0] == record.component and record.time - since >= AWAY:
                        self._left[one] = record
            case Op.FAULT if isinstance(record.detail, Broken) and record.detail.kind == "crash":
                self._crashed = True
            case Op.MISSED if member is not None:
                assert isinstance(record.detail, Missing)
                self._groups[member.group].missed.append(record.detail)
            case Op.JOB:
                yield from self._judge_job(record, member)
            case Op.DONE | Op.BACK if member is not None:
                assert isinstance(record.detail, Notified)
                group = self._groups[member.group]
                group.holding.pop(record.detail[:4], None)
                if record.op is Op.DONE:
                    group.done.add((record.publisher, record.publication))
                    group.acked.add(record.detail[:4])
            case Op.QUIESCE:
                yield from self._judge_rest(record)

    def _ended(self, key: tuple[str, str], record: Record) -> None:
        """A member knows nothing of the group any more."""
        member = self._members[key]
        group = self._groups[member.group]
        group.floors += [(seq, reach, member.filter) for seq, reach in member.settlings]
        member.settlings = []
        self._left[key] = record

    def _judge_job(self, record: Record, member: _Member | None) -> Iterator[Violation]:
        if member is None or self._observer.client(record.component).broker is None:
            yield Violation(OF_THE_GROUP, record, "the client is no member")
            return
        published = self._observer.published.get((record.publisher, record.publication))
        if self._of_the_group and (published is None or published.record.notification != record.notification):
            yield Violation(OF_THE_GROUP, record, "this was never published")
        elif self._of_the_group and not _passes(member.filter, record.notification):
            yield Violation(OF_THE_GROUP, record, f"the filter is {member.filter}")
        assert isinstance(record.detail, Given)
        group, job = self._groups[member.group], record.detail[:4]
        before = group.holding.get(job)
        self.given += 1
        if job in group.acked:
            self.again += 1
            self.needless += 1
            self.needless_records.append(record)
        elif before is not None:
            self.again += 1
            if not self._had_to_go(before, record, group):
                self.needless += 1
                self.needless_records.append(record)
        group.holding[job] = _Holding((record.component, record.subscription), record)

    def _had_to_go(self, before: _Holding, now: Record, group: _Group) -> bool:
        """Whether a member has lost a job to another: it left, died, was away, or was too slow."""
        left = self._left.get(before.member)
        if left is not None and left.seq > before.record.seq:
            return True
        since = self._gone.get(before.member[0])
        if since is not None and now.time - since >= AWAY:
            return True
        return now.time - before.record.time >= group.ack_within

    def _judge_rest(self, now: Record) -> Iterator[Violation]:
        """Nothing is under way: what was published for a group has been handled, or members were told."""
        for publication in self._observer.fresh:
            if publication.key is None and publication.quality is not Quality.FIRE:
                continue
            for name, group in self._groups.items():
                yield from self._judge(publication, name, group, now)

    def _judge(self, publication: Publication, name: str, group: _Group, now: Record) -> Iterator[Violation]:
        record = publication.record
        origin = publication.key[0] if publication.key is not None else publication.origin
        if publication.refused or origin is None or (record.publisher, record.publication) in group.done:
            return
        there = [
            member
            for (client, _), member in self._members.items()
            if member.group == name and member.settlings and self._observer.client(client).broker is not None
        ]
        if not there:
            return
        owed = any(_is_owed(member.settlings, member.filter, record, origin) for member in there)
        faults = self._bearing(publication, origin, now)
        if not owed:
            before = [([(seq, reach)], filter) for seq, reach, filter in group.floors]
            if not any(_is_owed(settlings, filter, record, origin) for settlings, filter in before):
                return
            if self._crashed:
                faults = faults - {NONE} | {MEMORY_LOST}
        guarantee = f"handled of {publication.quality.name.lower()}"
        promised = self._promises.outcome(guarantee, faults, FEATURE)
        if promised is Outcome.NOTHING or (promised is Outcome.GAP and _was_told(group, publication)):
            return
        yield Violation(guarantee, record, f"no member of {name} has handled it, after {', '.join(sorted(faults))}")

    def _bearing(self, publication: Publication, origin: str, now: Record) -> set[str]:
        record = publication.record
        apart = self._faults.apart(origin, (origin,), now, scopes=True)
        faults = set(self._faults.bearing_on(record, origin, now, now.time, apart))
        interruptions = self._observer.client(record.component).interruptions
        if any(one.seq > record.seq and one.time < record.time + UNDER_WAY for one in interruptions):
            faults = faults - {NONE} | {PUBLISHER_LEAVES}
        return faults


def _passes(filter: Matches, notification: Notification | None) -> bool:
    return notification is not None and filter.matches(notification)


def _is_owed(settlings: list[tuple[int, frozenset[str]]], filter: Matches, record: Record, origin: str) -> bool:
    """Whether a publication follows a settling that reached its origin, and passes the filter."""
    settled = any(seq < record.seq and origin in reach for seq, reach in settlings)
    return settled and _passes(filter, record.notification)


def _was_told(group: _Group, publication: Publication) -> bool:
    if publication.key is None:
        return bool(group.missed)
    origin, epoch, number = publication.key
    for gap in group.missed:
        if gap.origin != origin or gap.epoch > epoch:
            continue
        if gap.epoch < epoch:
            if gap.last is None:
                return True
        elif not number or (gap.first <= number and (gap.last is None or number <= gap.last)):
            return True
    return False
