"""Whether groups keep their promises: each notification goes to one member, and is not lost while members stay.

It knows the trace and nothing of deciding points. Two records say it all: which member got what, and what members were
told is lost. An event is one delivery for the whole group, wherever its members are; where mappings make several forms
of it, each of them is one.

    a member may get    each form in which it sees a publication, or, of its own, in which another member sees it, under
                        the version of the scope graph by which that was judged
    a group is owed     each form in which a member sees a publication that was there before it and stays: under every
                        version until it must have arrived, and, of what a member publishes, as it was published
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidings.model import Matches, Notification
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
    got: dict[tuple[object, ...], tuple[Record, str]] = field(default_factory=dict)
    """By event and form, who got it, and at which broker."""
    publications: dict[tuple[str, int, Notification | None], tuple[Record, str]] = field(default_factory=dict)
    """By publisher, its own number, and form."""
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
        broker = self._observer.client(record.component).broker
        if member is None or broker is None:
            yield Violation(ONE_MEMBER, record, "the client is no member")
            return
        published = self._observer.published.get((record.publisher, record.publication))
        yield from self._judge_content(record, member, published)
        assert isinstance(record.detail, Notified)
        group, event = self._groups[member.group], (*record.detail[:3], record.notification)
        publication = (record.publisher, record.publication, record.notification)
        before = group.got.get(event)
        if before is None and published is not None and not handed_over_again(self._observer, published):
            before = group.publications.get(publication)
        if before is not None and self._faults.decided_apart(before[0], before[1], record):
            self._excuses.grant(Excuse.DECIDED_APART, [record])
        elif before is not None and self._one:
            yield Violation(ONE_MEMBER, record, f"{before[0].component} got it before, in record {before[0].seq}")
        group.got[event] = group.publications[publication] = (record, broker)

    def _judge_content(self, record: Record, member: _Membership, published: Publication | None) -> Iterator[Violation]:
        """Whether a member may get this at all."""
        assert isinstance(record.detail, Notified)
        visibility, version = self._observer.visibility, record.detail.graph_epoch
        if published is None:
            yield Violation(ONE_MEMBER, record, "this was never published")
            return
        readers = self._members_of(member.group) if record.publisher == record.component else {record.component}
        if visibility.graphs and version not in published.judged:
            yield Violation(ONE_MEMBER, record, f"version {version} was not active where it was published")
        elif not any(record.notification in visibility.forms(version, published.record, one) for one in readers):
            yield Violation(ONE_MEMBER, record, f"under version {version}, the client does not see it in this form")
        elif record.notification is None or not member.filter.matches(record.notification):
            yield Violation(ONE_MEMBER, record, f"the filter is {member.filter}")

    def _members_of(self, group: str) -> set[str]:
        return {client for (client, _), member in self._members.items() if member.group == group}

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
        if publication.refused or origin is None:
            return
        until = self._faults.arrived_by(publication.since.time, (), now)
        missing = self._owed(name, publication, origin, until)
        missing = {form for form in missing if (record.publisher, record.publication, form) not in group.publications}
        if not missing:
            return
        faults = shared_faults(self._observer, self._faults, publication, (origin, until, now), group.departures)
        guarantee = f"share of {publication.quality.name.lower()}"
        owed = self._promises.outcome(guarantee, faults, FEATURE)
        if owed is Outcome.NOTHING or (owed is Outcome.GAP and in_gap(group.missed, publication)):
            return
        for form in missing:
            after = ", ".join(sorted(faults))
            seen = "" if form == record.notification else f" as {form}"
            yield Violation(guarantee, record, f"it reached no member of group {name}{seen}, after {after}")

    def _owed(self, name: str, publication: Publication, origin: str, until: int) -> set[Notification]:
        """The forms in which members that have been there since before the publication see it."""
        record, visibility = publication.record, self._observer.visibility
        versions = visibility.between(min(publication.judged, default=0), until + visibility.longest_delay)
        forms: set[Notification] = set()
        for (client, _), member in self._members.items():
            settled = member.settled
            if member.group != name or settled is None or settled.seq > record.seq:
                continue
            assert isinstance(settled.detail, Settlement)
            if origin in settled.detail.reach:
                seen = visibility.always(versions, record, client)
                forms |= {form for form in seen if member.filter.matches(form)}
        own = record.publisher in self._members_of(name)
        return forms & {record.notification} if own else forms


def shared_faults(
    observer: Observer,
    faults: Faults,
    publication: Publication,
    where: tuple[str, int, Record],
    departures: Iterable[tuple[int, int]],
) -> set[str]:
    """The faults that may keep a publication from all of several members, who had these departures.

    `where`: its origin, when it must have arrived, and now.
    """
    record, (origin, until, now) = publication.record, where
    apart = faults.apart(origin, (origin,), now, scopes=True)
    found = faults.bearing_on(record, origin, now, until, apart)
    interruptions = observer.client(record.component).interruptions
    if any(one.seq > record.seq and one.time < record.time + UNDER_WAY for one in interruptions):
        found = found - {NONE} | {PUBLISHER_LEAVES}
    if any(begun <= until and ended >= record.time for begun, ended in departures):
        found = found - {NONE} | {MEMBER_LEAVES}
    return found


def in_gap(gaps: Iterable[Missing], publication: Publication) -> bool:
    """Whether one of these says that a publication is lost, or may be."""
    if publication.key is None:
        return any(True for _ in gaps)
    origin, epoch, number = publication.key
    for gap in gaps:
        if gap.origin != origin or gap.epoch > epoch:
            continue
        if gap.epoch < epoch:
            if gap.last is None:
                return True
        elif not number or (gap.first <= number and (gap.last is None or number <= gap.last)):
            return True
    return False


def handed_over_again(observer: Observer, published: Publication) -> bool:
    """Whether two brokers may have taken it: then it is two events."""
    interruptions = observer.client(published.record.component).interruptions
    return published.resent or any(one.seq > published.record.seq for one in interruptions)
