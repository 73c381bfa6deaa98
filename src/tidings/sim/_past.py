"""The oracle of history: what must a subscription into the past have got, judged from the trace alone.

A subscription that reaches back gets, from each origin, an end of what it would have seen, then everything that
follows. What came from the past is marked as such. So *what was there* when it went on live is known: of each origin,
everything before the first that came live. The past must be the newest of that, as many as the bound allows, neither
more nor fewer:

    past first       nothing from the past comes behind something live
    bounded          no more than `count`, nothing from before the reference
    exact            the newest of what was there and could still be had
    unbroken         from the first that was delivered to the moment of settling, nothing is left out
    reported         everybody who asks is told in the end; that time was up is excused by faults only

Of what a scope gives to one of its members, or to some, that is the past which the client was given: what reached it
before it subscribed, by any subscription. The broker where it got that remembers it, until it crashes.

What an origin had only in memory may be gone after its crash. A client that loses its broker in the middle of the past
gets the rest unmarked: then only order, matching and repetitions are judged, by the checker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.model import Bound, Matches, Notification, Position
from tidings.wire import Ending, Past, Quality

from ._details import Broken, Missing, Notified, Remembered, Settlement, Subscribed, Taken
from ._excuses import Excuse, Excuses
from ._faults import OWN_FAULTS, UNDER_WAY, Faults
from ._observer import Observer, Publication, Violation
from ._promises import Outcome, Promises
from ._stretches import Stretches
from ._trace import Op, Record

COMPLETE = "past complete"
EXACT = "past"
PATIENCE = 10_000_000
"""Microseconds for which every subscription should be ready to wait; with less, it is its own fault."""


class _Event(NamedTuple):
    """A publication as its origin took it."""

    origin: str
    epoch: int
    number: int
    at: int
    version: int
    record: Record
    """The TAKEN."""

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.number)


@dataclass(slots=True)
class _Asked:
    """A subscription into the past, and what has come of it."""

    record: Record
    had: frozenset[tuple[str, int, int]]
    """What it has got at other places, and does not get again."""
    pasts: list[Past]
    """What it asked for, and what the filters asked for that took its place before all of it had come."""
    settled: Record | None = None
    report: Record | None = None
    notified: list[Record] = field(default_factory=list)
    disturbed: bool = False
    """Whether its client lost its broker before all of it had come, so that the rest came otherwise."""
    changed: bool = False
    """Whether the filter was changed before what was under way can have come."""
    faults: set[str] = field(default_factory=set)
    """What has happened to its client."""
    gaps: list[Missing] = field(default_factory=list)
    """What is lost, as it was told."""

    def interrupted(self, record: Record) -> None:
        """Its client has no broker."""
        self.faults.add(OWN_FAULTS[record.op])
        self.disturbed |= not self.is_over and self.settled is not None

    @property
    def is_over(self) -> bool:
        """Whether all of its past has come."""
        return self.report is not None and len(list(filter(_from_past, self.notified))) >= _report(self.report).found

    @property
    def bounds(self) -> list[Bound]:
        """How far it may reach back."""
        return [past.bound for past in self.pasts]

    @property
    def filter(self) -> Matches:
        assert self.record.filter is not None
        return self.record.filter


class PastJudge:
    """Follows a trace, and judges each time that it has come to rest."""

    def __init__(
        self, observer: Observer, faults: Faults, promises: Promises, excuses: Excuses, stretches: Stretches
    ) -> None:
        self._stretches = stretches
        self._observer = observer
        self._faults = faults
        self._promises = promises
        self._excuses = excuses
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._events: dict[str, list[_Event]] = {}
        self._taken: dict[tuple[str, int], int] = {}
        """How many brokers have taken each publication: a publisher that is not sure hands it over again."""
        self._crashes: dict[str, list[int]] = {}
        """When each broker has died."""
        self._given: dict[tuple[str, str, int, int, Notification], tuple[int, str]] = {}
        """What each client got where scopes choose: in which record first, and at which broker."""

    def note(self, record: Record) -> Iterator[Violation]:
        """Take one record into account."""
        key = (record.component, record.subscription)
        asked = self._asked.get(key)
        match record.op:
            case Op.SUB:
                self._subscribed(record, asked)
            case Op.UNSUB:
                self._asked.pop(key, None)
            case Op.TAKEN:
                assert isinstance(record.detail, Taken)
                event = _Event(*record.detail, record)
                self._events.setdefault(event.origin, []).append(event)
                publication = (record.publisher, record.publication)
                self._taken[publication] = self._taken.get(publication, 0) + 1
            case Op.LOST | Op.DETACH:
                for (client, _), one in self._asked.items():
                    if client == record.component:
                        one.interrupted(record)
            case Op.FAULT if isinstance(record.detail, Broken) and record.detail.kind == "crash":
                self._crashes.setdefault(record.detail.where, []).append(record.seq)
            case Op.SETTLED if asked is not None and asked.settled is None:
                if not _settlement(record).advertisement:
                    asked.settled = record
            case Op.GAP if asked is not None:
                assert isinstance(record.detail, Missing)
                asked.gaps.append(record.detail)
            case Op.REMEMBERED if asked is not None:
                asked.report = record
            case Op.NOTIFY:
                self._note_given(record)
                if asked is not None:
                    yield from self._notified(asked, record)

    def _subscribed(self, record: Record, asked: _Asked | None) -> None:
        past = record.detail.past if isinstance(record.detail, Subscribed) else None
        known = self._observer.client(record.component).subscriptions.get(record.subscription)
        if asked is not None:
            asked.changed |= asked.report is None or not asked.is_over or record.time < asked.report.time + UNDER_WAY
            if asked.changed and isinstance(past, Past):
                asked.pasts.append(past)
        elif isinstance(past, Past) and not past.bound.asks_for_nothing and known is None:
            self._asked[record.component, record.subscription] = _Asked(record, self._stretches.had(record), [past])

    def _notified(self, asked: _Asked, record: Record) -> Iterator[Violation]:
        asked.notified.append(record)
        if asked.report is None:
            found = Violation(EXACT, record, "it arrived while the subscription was held")
        elif _from_past(record) and len(asked.notified) > 1 and not _from_past(asked.notified[-2]):
            found = Violation(EXACT, record, "it is from the past, but something live arrived before it")
        else:
            return
        if asked.disturbed or asked.changed:
            self._excuses.grant(Excuse.PAST_INTERRUPTED if asked.disturbed else Excuse.PAST_CHANGED, [found])
        else:
            yield found

    def _note_given(self, record: Record) -> None:
        if self._observer.visibility.chooses and not _from_past(record):
            assert isinstance(record.detail, Notified)
            assert record.notification is not None
            where = self._observer.client(record.component).broker or ""
            self._given.setdefault((record.component, *record.detail[:3], record.notification), (record.seq, where))

    def judge(self, now: Record) -> Iterator[Violation]:
        """What should have come from the past and did not, and the other way round."""
        for (client, _), asked in self._asked.items():
            if asked.report is None:
                yield from self._judge_silence(client, asked, now)
                continue
            if _report(asked.report).ending is Ending.TIMER:
                yield from self._judge_timer(asked, now)
            yield from self._judge_bound(asked)
            if asked.settled is not None:
                wrong = self._judge_exact(client, asked, asked.settled)
                if excuse := _excuse(asked):
                    self._excuses.grant(excuse, wrong)
                else:
                    yield from wrong
        self._asked = {key: asked for key, asked in self._asked.items() if asked.report is None}

    def _judge_silence(self, client: str, asked: _Asked, now: Record) -> Iterator[Violation]:
        """Nobody has reported: whatever else is promised, a report is, unless the client was away meanwhile."""
        silence = Violation(COMPLETE, asked.record, "the outcome of its past was never reported")
        if self._observer.client(client).broker is None:
            self._excuses.grant(Excuse.SUBSCRIBER_AWAY, [silence])
        elif asked.disturbed:
            self._excuses.grant(Excuse.PAST_INTERRUPTED, [silence])
        elif self._promises.outcome(COMPLETE, self._bearing_on(asked, now), "history") is Outcome.NOTHING:
            self._excuses.grant(Excuse.PROMISED_NOTHING, [silence])
        else:
            yield silence

    def _judge_timer(self, asked: _Asked, now: Record) -> Iterator[Violation]:
        """Time was up: if nothing bears on a broker that was asked, nor on the client, that is no excuse."""
        faults = self._bearing_on(asked, now)
        found = Violation(
            COMPLETE, asked.record, f"it timed out, and no fault excuses that: {', '.join(sorted(faults))}"
        )
        impatient = any(past.timeout is not None and past.timeout < PATIENCE for past in asked.pasts)
        if impatient or self._promises.outcome(COMPLETE, faults, "history") is not Outcome.DELIVERED:
            self._excuses.grant(Excuse.PAST_OUT_OF_TIME, [found])
        else:
            yield found

    def _bearing_on(self, asked: _Asked, now: Record) -> set[str]:
        """The faults that bear on a broker that was asked, or on the client."""
        reach = _settlement(asked.settled).reach if asked.settled is not None else frozenset(("",))
        return asked.faults.union(*(self._faults.bearing_on_origin(origin, now) for origin in reach))

    # --- the bound ------------------------------------------------------------------------------------

    def _judge_bound(self, asked: _Asked) -> Iterator[Violation]:
        past = [one for one in asked.notified if _from_past(one)]
        assert asked.report is not None
        reported = _report(asked.report).found
        interfered = (
            asked.changed or asked.disturbed or asked.had
        )  # the client may have dropped what it does not want any more
        if len(past) > reported or (len(past) < reported and not interfered):
            yield Violation(EXACT, asked.report, f"{len(past)} came from the past, but the report says otherwise")
        if all(bound.count is not None and len(past) > bound.count for bound in asked.bounds):
            yield Violation(EXACT, asked.record, f"{len(past)} came from the past")
        references = [bound.reference(asked.record.time) for bound in asked.bounds]
        for record in past:
            event = self._event(record)
            if event is None or all(reference is not None and event.at < reference for reference in references):
                yield Violation(EXACT, record, f"it is older than {asked.bounds[0]} allows")
            elif event.record.seq > asked.report.seq:
                yield Violation(EXACT, record, "it is from the future")

    def _event(self, record: Record) -> _Event | None:
        assert isinstance(record.detail, Notified)
        for event in self._events.get(record.detail.origin, ()):
            if event.position == (record.detail.epoch, record.detail.number):
                return event
        return None

    # --- the oracle -----------------------------------------------------------------------------------

    def _judge_exact(self, client: str, asked: _Asked, settled: Record) -> Iterator[Violation]:
        reach = _settlement(settled).reach
        got: dict[tuple[str, int, int], list[Record]] = {}
        for record in asked.notified:
            assert isinstance(record.detail, Notified)
            got.setdefault(record.detail[:3], []).append(record)
        there: list[tuple[_Event, bool]] = []
        for origin in sorted(reach):
            taken = [event for event in self._events.get(origin, ()) if event.record.seq < settled.seq]
            visible = [event for event in taken if self._shown(client, asked, event)]
            came_live = {event for event in visible if _live(got.get((origin, *event.position), ()))}
            given = {event for event in came_live if self._may_be_given(client, event)}  # whatever came before
            live = [event in came_live - given for event in visible]
            first_live = live.index(True) if True in live else len(visible)
            there += [(event, self._kept(client, event, asked)) for event in visible[:first_live] if event not in given]
            delivered = [(origin, *event.position) in got and event not in given for event in visible]
            if True in delivered:
                for event, came in list(zip(visible, delivered, strict=True))[delivered.index(True) :]:
                    if came or event in given or (origin, *event.position) in asked.had:
                        continue
                    left_out = Violation(EXACT, asked.record, f"{event.origin}#{event.position} is left out")
                    if self._kept(client, event, asked):
                        yield left_out
                    else:
                        self._excuses.grant(Excuse.PAST_LOST, [left_out])
        past = {(event.origin, *event.position) for event, _ in there} & got.keys()
        different = self._compare(asked, settled, there, past)
        if len(past) < len([one for one in asked.notified if _from_past(one)]) or self._has_copies(asked.had):
            self._excuses.grant(Excuse.PAST_COPIES, different)
        else:
            yield from different
        yield from self._judge_order(asked)

    def _has_copies(self, positions: frozenset[tuple[str, int, int]]) -> bool:
        """Whether one of these publications was taken by several brokers."""
        events = (event for taken in self._events.values() for event in taken) if positions else ()
        return any(
            (event.origin, *event.position) in positions
            and self._taken[event.record.publisher, event.record.publication] > 1
            for event in events
        )

    def _compare(
        self,
        asked: _Asked,
        settled: Record,
        there: list[tuple[_Event, bool]],
        past: set[tuple[str, int, int]],
    ) -> Iterator[Violation]:
        """Whether the past is the newest of what was there: what is sure to be kept, and what evidently was."""
        bound = asked.bounds[0]
        reference = bound.reference(settled.time)
        sure = [
            event
            for event, kept in there
            if (event.origin, *event.position) in past or (kept and (reference is None or event.at >= reference))
        ]
        expected = _newest(sure, bound.count)
        wanted = {(event.origin, *event.position) for event in expected} - asked.had
        if wanted != past:
            missing, extra = sorted(wanted - past), sorted(past - wanted)
            reason = f"of {bound} it lacks {missing} and has {extra} instead"
            yield Violation(EXACT, asked.record, reason)

    def _judge_order(self, asked: _Asked) -> Iterator[Violation]:
        events = [event for one in asked.notified if _from_past(one) and (event := self._event(one)) is not None]
        if events != sorted(events, key=lambda event: (event.at, event.origin, event.position)):
            yield Violation(EXACT, asked.record, "the past came in another order than that of publication")

    def _shown(self, client: str, asked: _Asked, event: _Event) -> bool:
        """Whether the subscription gets this at all, then and now."""
        publication = self._publication(event)
        if self._taken[event.record.publisher, event.record.publication] > 1:
            return False  # which of the copies comes is not said
        if publication is None or (client == event.record.publisher and not _receives_own(asked.record)):
            return False
        see = self._observer.visibility.unchanged
        forms = see(event.version, publication.record, client)
        sure = see(event.version, publication.record, client, possible=False)
        if forms != sure and not self._was_given(client, asked, event, forms):
            return False  # a reaction, and it is left open where it appears; or it was given to somebody else
        return any(asked.filter.matches(form) for form in forms)

    def _was_given(self, client: str, asked: _Asked, event: _Event, forms: frozenset[Notification]) -> bool:
        """Whether a publication can only be visible to a client as what it was given, and it was, before it asked."""
        publication = self._publication(event)
        assert publication is not None
        visibility = self._observer.visibility
        choices = {one.form for one in visibility.choices(event.version, publication.record, client)}
        other = visibility.forms(event.version, publication.record, client, possible=False)
        given, _ = self._given_as(client, event, forms) or (asked.record.seq, "")
        return given < asked.record.seq and len(choices) == 1 and forms == choices and not forms & other

    def _given_as(self, client: str, event: _Event, forms: Iterable[Notification]) -> tuple[int, str] | None:
        """In which record a client first got a publication in one of these forms, and at which broker."""
        keys = ((client, event.origin, *event.position, form) for form in forms)
        return min((self._given[key] for key in keys if key in self._given), default=None)

    def _may_be_given(self, client: str, event: _Event) -> bool:
        """Whether a scope that chooses may give a publication to a client; then it comes in no order."""
        publication = self._publication(event)
        assert publication is not None
        return bool(self._observer.visibility.choices(event.version, publication.record, client))

    def _publication(self, event: _Event) -> Publication | None:
        return self._observer.published.get((event.record.publisher, event.record.publication))

    def _kept(self, client: str, event: _Event, asked: _Asked) -> bool:
        """Whether its origin is sure to have had it when it was asked, and while it was under way."""
        publication = self._publication(event)
        assert publication is not None
        if self._may_be_given(client, event):
            choices = self._observer.visibility.choices(event.version, publication.record, client)
            given, where = self._given_as(client, event, {one.form for one in choices}) or (0, "")
            if any(seq > given for seq in self._crashes.get(where, ())):
                return False  # who knew that it was given has died
            if where and asked.settled is not None and where not in _settlement(asked.settled).reach:
                return False  # or cannot be reached
        if any(_contains(gap, event) for gap in asked.gaps):
            return False
        crashes = [seq for seq in self._crashes.get(event.origin, ()) if event.record.seq < seq]
        if not crashes:
            return True
        return (
            publication.quality is Quality.STORED
            and publication.acknowledged is not None
            and publication.acknowledged.seq < crashes[0]
        )


def _excuse(asked: _Asked) -> Excuse | None:
    """Why the past of a subscription need not be exact."""
    assert asked.report is not None
    _, ending, capped, _ = _report(asked.report)
    if asked.disturbed:
        return Excuse.PAST_INTERRUPTED
    if asked.changed:
        return Excuse.PAST_CHANGED
    if ending is Ending.TIMER:
        return Excuse.PAST_OUT_OF_TIME
    if ending is not Ending.ANSWERED:
        return Excuse.PAST_NOT_STRICT
    return Excuse.PAST_CAPPED if capped else None


def _contains(gap: Missing, event: _Event) -> bool:
    within = gap.first <= event.number and (gap.last is None or event.number <= gap.last)
    return (gap.origin, gap.epoch) == (event.origin, event.epoch) and within


def _report(record: Record) -> Remembered:
    assert isinstance(record.detail, Remembered)
    return record.detail


def _settlement(record: Record) -> Settlement:
    assert isinstance(record.detail, Settlement)
    return record.detail


def _receives_own(record: Record) -> bool:
    return not isinstance(record.detail, Subscribed) or record.detail.receive_own


def _from_past(record: Record) -> bool:
    return isinstance(record.detail, Notified) and record.detail.from_past


def _live(records: list[Record] | tuple[()]) -> bool:
    return any(not _from_past(record) for record in records)


def _newest(events: list[_Event], count: int | None) -> list[_Event]:
    """The last of these by time, brute force: again and again, the latest of the last of each origin."""
    left: dict[str, list[_Event]] = {}
    for event in sorted(events, key=lambda one: (one.origin, one.position)):
        left.setdefault(event.origin, []).append(event)
    times: dict[str, int] = {}
    chosen: list[_Event] = []
    while left and (count is None or len(chosen) < count):
        ends = {origin: min(times.get(origin, some[-1].at), some[-1].at) for origin, some in left.items()}
        origin = max(ends, key=lambda one: (ends[one], one))
        times[origin] = ends[origin]
        chosen.append(left[origin].pop())
        if not left[origin]:
            del left[origin]
    return chosen[::-1]
