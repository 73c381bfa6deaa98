"""Whether groups keep their promises: each notification goes to one member, and is not lost while members stay.

It knows the trace and nothing of deciding points. Two records say it all: which member got what, and what members were
told is lost. An event is one delivery for the whole group, wherever its members are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tidings.model import Matches
from tidings.wire import Quality

from ._details import Joined, Missing, Notified, Settlement, Unnoticed
from ._excuses import Excuse, Excuses
from ._faults import MEMBER_LEAVES, NONE, PUBLISHER_LEAVES, UNDER_WAY, Faults
from ._observer import Observer, Publication, Violation
from ._promises import Outcome, Promises
from ._trace import Op, Record

ONE_MEMBER = "one-member"
UNNOTICED = 20_000_000
"""Microseconds after which a broker has given up a client that has vanished."""
FEATURE = "groups"


@dataclass(slots=True)
class _Membership:
    group: str
    filter: Matches
    settled: Record | None = None
    """When its broker said that it is a member; None: not since it has lost or left a broker."""


@dataclass(slots=True)
class _Group:
    got: dict[tuple[object, ...], Record] = field(default_factory=dict)
    """By event, who got it."""
    publications: dict[tuple[str, int], Record] = field(default_factory=dict)
    """By publisher and its own number."""
    departures: list[tuple[int, int]] = field(default_factory=list)
    """From when to when something for a member that left may have been under way."""
    missed: list[Missing] = field(default_factory=list)


class GroupJudge:
    """Follows who is a member of what."""

    def __init__(self, observer: Observer, faults: Faults, promises: Promises, excuses: Excuses) -> None:
        self._observer = observer
        self._faults = faults
        self._promises = promises
        self._excuses = excuses
        self._one = promises.holds(ONE_MEMBER, FEATURE)
        self._members: dict[tuple[str, str], _Membership] = {}
        self._groups: dict[str, _Group] = {}

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by it."""
        member = self._members.get((record.component, record.subscription))
        match record.op:
            case Op.JOIN:
                assert isinstance(record.detail, Joined)
                assert record.filter is not None
                self._left(record, member)
                self._members[record.component, record.subscription] = _Membership(record.detail.group, record.filter)
                self._groups.setdefault(record.detail.group, _Group())
            case Op.LEAVE:
                self._left(record, member)
                self._members.pop((record.component, record.subscription), None)
            case Op.LOST | Op.DETACH | Op.ENDED:
                for (client, _), one in self._members.items():
                    if client == record.component:
                        self._left(record, one)
            case Op.JOINED if member is not None:
                member.settled = record
            case Op.MISSED if member is not None:
                assert isinstance(record.detail, Missing)
                self._groups[member.group].missed.append(record.detail)
            case Op.SHARE:
                yield from self._judge_share(record, member)
            case Op.QUIESCE:
                yield from self._judge_rest(record)

    def _left(self, record: Record, member: _Membership | None) -> None:
        if member is not None:
            member.settled = None
            since = record.time - (UNNOTICED if isinstance(record.detail, Unnoticed) else 0)
            self._groups[member.group].departures.append((since, record.time))

    def _judge_share(self, record: Record, member: _Membership | None) -> Iterator[Violation]:
        if member is None or self._observer.client(record.component).broker is None:
            yield Violation(ONE_MEMBER, record, "the client is no member")
            return
        published = self._observer.published.get((record.publisher, record.publication))
        if published is None or published.record.notification != record.notification:
            yield Violation(ONE_MEMBER, record, "this was never published")
        elif record.notification is None or not member.filter.matches(record.notification):
            yield Violation(ONE_MEMBER, record, f"the filter is {member.filter}")
        assert isinstance(record.detail, Notified)
        group, event = self._groups[member.group], record.detail[:3]
        publication = (record.publisher, record.publication)
        before = group.got.get(event)
        if before is None and published is not None and not self._handed_over_again(published):
            before = group.publications.get(publication)
        if before is not None and self._faults.crashed_while_apart(before, record):
            self._excuses.grant(Excuse.DECIDED_APART, [record])
        elif before is not None and self._one:
            yield Violation(ONE_MEMBER, record, f"{before.component} got it before, in record {before.seq}")
        group.got[event] = group.publications[publication] = record

    def _handed_over_again(self, published: Publication) -> bool:
        """Whether two brokers may have taken it: then it is two events."""
        interruptions = self._observer.client(published.record.component).interruptions
        return published.resent or any(one.seq > published.record.seq for one in interruptions)

    def _judge_rest(self, now: Record) -> Iterator[Violation]:
        """Nothing is under way: what was published for a group has reached a member, or one was told."""
        for publication in self._observer.fresh:
            if publication.key is None and publication.quality is not Quality.FIRE:
                continue
            for name, group in self._groups.items():
                yield from self._judge(publication, name, group, now)

    def _judge(self, publication: Publication, name: str, group: _Group, now: Record) -> Iterator[Violation]:
        record = publication.record
        origin = publication.key[0] if publication.key is not None else publication.origin
        if publication.refused or origin is None or not self._is_owed(name, publication, origin):
            return
        if (record.publisher, record.publication) in group.publications:
            return
        since = publication.acknowledged or record
        until = self._faults.arrived_by(since.time, (), now)
        apart = self._faults.apart(origin, (origin,), now, scopes=True)
        faults = self._faults.bearing_on(record, origin, now, until, apart)
        interruptions = self._observer.client(record.component).interruptions
        if any(one.seq > record.seq and one.time < record.time + UNDER_WAY for one in interruptions):
            faults = faults - {NONE} | {PUBLISHER_LEAVES}
        if any(begun <= until and ended >= record.time for begun, ended in group.departures):
            faults = faults - {NONE} | {MEMBER_LEAVES}
        guarantee = f"share of {publication.quality.name.lower()}"
        owed = self._promises.outcome(guarantee, faults, FEATURE)
        if owed is Outcome.NOTHING or (owed is Outcome.GAP and self._was_told(group, publication)):
            return
        yield Violation(guarantee, record, f"it reached no member of group {name}, after {', '.join(sorted(faults))}")

    def _is_owed(self, name: str, publication: Publication, origin: str) -> bool:
        """Whether a member has been there since before the publication, which passes its filter."""
        record = publication.record
        return any(
            member.group == name
            and member.settled is not None
            and member.settled.seq < record.seq
            and isinstance(member.settled.detail, Settlement)
            and origin in member.settled.detail.reach
            and record.notification is not None
            and member.filter.matches(record.notification)
            for member in self._members.values()
        )

    def _was_told(self, group: _Group, publication: Publication) -> bool:
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
