"""Whether acknowledged groups keep their promises: everything is handled, and little is given to two members.

It knows the trace and nothing of deciding points: which member got which job, what it said about that, and what members
were told is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.model import Matches, Notification
from tidings.wire import Quality

from ._details import Broken, Enlisted, Given, Missing, Notified, Settlement
from ._faults import NONE, PUBLISHER_LEAVES, UNDER_WAY, Faults
from ._groups import UNNOTICED
from ._observer import Observer, Publication, Violation
from ._promises import Outcome, Promises
from ._trace import Op, Record

OF_THE_GROUP = "of-the-group"
MEMORY_LOST = "group memory lost"
FEATURE = "groups"
AWAY = 5_000_000
"""Microseconds after which a member that is gone has lost its jobs to others."""
ON_THE_WAY = 1_000_000
"""Microseconds for which a job, what is said about it, or that the network has changed may be on the way."""


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
    acked: dict[tuple[object, ...], _Holding] = field(default_factory=dict)
    """By job, who acknowledged it last."""
    missed: list[Missing] = field(default_factory=list)
    floors: list[_Member] = field(default_factory=list)
    """Members that have died or left, as they were then."""
    ended: list[tuple[str, int]] = field(default_factory=list)
    """Their clients, each with the time of its end."""


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
        self.owed = 0
        """How many publications were to be handled, each by one group."""
        self.given = self.again = self.apart = self.needless = 0
        """How many jobs were given; how many of them again though a member had it in time: because brokers did not
        reach each other or died; and for no such reason.
        """
        self.needless_records: list[Record] = []
        self.faults = 0
        """How many links were cut, brokers died, and members died, left or moved."""

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by it."""
        key = (record.component, record.subscription)
        member = self._members.get(key)
        self._count(record, member)
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
                    group.acked[record.detail[:4]] = _Holding(key, record)
            case Op.QUIESCE:
                yield from self._judge_rest(record)

    def _ended(self, key: tuple[str, str], record: Record) -> None:
        """A member knows nothing of the group any more."""
        member = self._members[key]
        group = self._groups[member.group]
        if member.settlings:
            group.floors.append(_Member(member.group, member.filter, member.settlings))
            group.ended.append((key[0], record.time))
        member.settlings = []
        self._left[key] = record

    def _judge_job(self, record: Record, member: _Member | None) -> Iterator[Violation]:
        if member is None or self._observer.client(record.component).broker is None:
            yield Violation(OF_THE_GROUP, record, "the client is no member")
            return
        published = self._observer.published.get((record.publisher, record.publication))
        assert isinstance(record.detail, Given)
        if self._of_the_group:
            yield from self._judge_content(record, member, published, record.detail.graph_epoch)
        group, job = self._groups[member.group], record.detail[:4]
        before, acked = group.holding.get(job), group.acked.get(job)
        self.given += 1
        self.again += before is not None or acked is not None
        first = acked or before
        if first is None or (self._was_lost(first) if acked else self._had_to_go(first, record, group)):
            pass
        elif not self._faults.was_whole(first.record.time - ON_THE_WAY, record.time):
            self.apart += 1
        else:
            self.needless += 1
            self.needless_records.append(record)
        group.holding[job] = _Holding((record.component, record.subscription), record)

    def _count(self, record: Record, member: _Member | None) -> None:
        broken = isinstance(record.detail, Broken) and record.detail.kind in ("cut", "crash")
        if record.op is Op.FAULT:
            self.faults += broken
        elif record.op in (Op.DIED, Op.DETACH):
            self.faults += any(client == record.component for client, _ in self._members)
        elif record.op is Op.QUIT:
            self.faults += member is not None

    def _was_lost(self, acked: _Holding) -> bool:
        """Whether a member died or left right after it had acknowledged a job: perhaps no broker has heard of that."""
        left = self._left.get(acked.member)
        return left is not None and acked.record.seq < left.seq and left.time <= acked.record.time + ON_THE_WAY

    def _judge_content(
        self, record: Record, member: _Member, published: Publication | None, version: int
    ) -> Iterator[Violation]:
        """Whether a member may get this at all."""
        visibility = self._observer.visibility
        if published is None:
            yield Violation(OF_THE_GROUP, record, "this was never published")
            return
        own = record.publisher == record.component
        readers = self._clients_of(member.group) if own else {record.component}
        if visibility.graphs and version not in published.judged:
            yield Violation(OF_THE_GROUP, record, f"version {version} was not active where it was published")
        elif not any(record.notification in visibility.forms(version, published.record, one) for one in readers):
            yield Violation(OF_THE_GROUP, record, f"under version {version}, the client does not see it in this form")
        elif not _passes(member.filter, record.notification):
            yield Violation(OF_THE_GROUP, record, f"the filter is {member.filter}")

    def _clients_of(self, group: str) -> set[str]:
        return {client for (client, _), member in self._members.items() if member.group == group}

    def _had_to_go(self, before: _Holding, now: Record, group: _Group) -> bool:
        """Whether a member has lost a job to another: it left, died, was away, or was too slow."""
        left = self._left.get(before.member)
        if left is not None and left.seq > before.record.seq:
            return True
        since = self._gone.get(before.member[0])
        if since is not None and now.time - since >= AWAY:
            return True
        slack = min(ON_THE_WAY, group.ack_within // 2)  # its time began when it was given, before it came
        return now.time - before.record.time >= group.ack_within - slack

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
        if publication.refused or origin is None:
            return
        there = [
            member
            for (client, _), member in self._members.items()
            if member.group == name and member.settlings and self._observer.client(client).broker is not None
        ]
        if not there:
            return
        forms = self._seen_by_all(name, publication, now)
        faults = self._bearing(publication, origin, now)
        if not _is_owed(there, record, origin, forms):
            if not _is_owed(group.floors, record, origin, forms):
                return
            if self._crashed:
                faults = faults - {NONE} | {MEMORY_LOST}
        self.owed += 1
        if (record.publisher, record.publication) in group.done:
            return
        guarantee = f"handled of {publication.quality.name.lower()}"
        promised = self._promises.outcome(guarantee, faults, FEATURE)
        if promised is Outcome.NOTHING or (promised is Outcome.GAP and _was_told(group, publication)):
            return
        yield Violation(guarantee, record, f"no member of {name} has handled it, after {', '.join(sorted(faults))}")

    def _seen_by_all(self, name: str, publication: Publication, now: Record) -> frozenset[Notification]:
        """The forms that every version from then on shows to all who have been members since, in the same scopes."""
        record, visibility = publication.record, self._observer.visibility
        assert record.notification is not None
        versions = visibility.between(min(publication.judged, default=0), now.time + visibility.longest_delay)
        members = {client for (client, _), one in self._members.items() if one.group == name and one.settlings}
        members |= {client for client, ended in self._groups[name].ended if ended >= record.time - UNNOTICED}
        if len({visibility.scopes(version, client) for version in versions or {0} for client in members}) > 1:
            return frozenset()
        forms = frozenset.intersection(*(visibility.always(versions, record, client) for client in members))
        return forms & {record.notification} if record.publisher in self._clients_of(name) else forms

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


def _is_owed(members: Iterable[_Member], record: Record, origin: str, forms: frozenset[Notification]) -> bool:
    """Whether it follows a settling of one of these members that reached its origin, and passes the filter."""
    return any(
        seq < record.seq and origin in reach and any(_passes(member.filter, form) for form in forms)
        for member in members
        for seq, reach in member.settlings
    )


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
