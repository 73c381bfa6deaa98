"""Liveness on finite traces: once nothing is left to happen, what was promised must have happened.

For every publication since the last quiescence and every subscription that is active now:

    if   the subscription had settled before it, towards the broker it was published at,
    and  every version of the scope graph, until it must have arrived, shows it to the subscriber in the same form,
    and  that has passed every filter of the subscription since,
    and  the publisher was told that it was taken, or asked for no answer,
    then it was delivered, or a gap contains it and the promises for the faults of the run allow a gap.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from tidings.model import Filter, Matches, NotAdvertised, Notification
from tidings.wire import Quality

from ._details import Missing
from ._excuses import Excuse, Excuses
from ._faults import NONE, ORIGIN_GONE, OWN_FAULTS, PUBLISHER_LEAVES, UNDER_WAY, Faults
from ._observer import Client, Observer, Publication, Subscription, Violation
from ._promises import Outcome, Promises
from ._trace import Record

ANSWERED = "answered"


class _Sight(NamedTuple):
    """A publication as a client may see it."""

    client: str
    publication: Publication
    form: Notification


class _Missing(NamedTuple):
    """A delivery that should have been."""

    violation: Violation
    excuse: Excuse | None


class Liveness:
    """Judges a trace each time it has come to rest."""

    def __init__(
        self, observer: Observer, faults: Faults, promises: Promises, excuses: Excuses, advertisements: bool
    ) -> None:
        self._observer = observer
        self._advertisements = advertisements
        self._faults = faults
        self._promises = promises
        self._excuses = excuses

    def judge(self, now: Record) -> Iterator[Violation]:
        """What should have happened by now and did not."""
        for publication in self._observer.fresh:
            yield from self._judge_answer(publication, now)
            for missing in self._judge_deliveries(publication, now):
                if missing.excuse is None:
                    yield missing.violation
                else:
                    self._excuses.grant(missing.excuse, [missing])

    # --- what the publisher is told -------------------------------------------------------------------

    def _judge_answer(self, publication: Publication, now: Record) -> Iterator[Violation]:
        record, client = publication.record, self._observer.client(publication.record.component)
        if publication.refused and not self._explained(publication):
            yield Violation(ANSWERED, record, f"it was refused ({publication.refused}), and nothing explains that")
        if publication.key is not None and self._advertisements and not any(_announcements(publication)):
            yield Violation(ANSWERED, record, "it was acknowledged although no advertisement announces it")
        asked, reached = publication.asked, publication.reached
        if reached is not None and asked is not Quality.DEFAULT and asked is not reached:
            yield Violation(ANSWERED, record, f"it asked for {asked!r} and was acknowledged as {reached!r}")
        if publication.quality is Quality.FIRE or publication.key is not None or publication.refused:
            return
        unanswered = Violation(ANSWERED, record, "it was neither acknowledged nor refused")
        if client.broker is None or publication.abandoned:
            self._excuses.grant(Excuse.NO_ANSWER_WHILE_AWAY, [unanswered])
            return
        faults = self._faults.bearing_on(record, _origin(publication) or client.broker, now)
        if self._observer.visibility.graphs and self._faults.is_cut_off(client.broker, now):
            faults.add(ORIGIN_GONE)  # perhaps from the authority, without which a broker may not know the graph
        if self._promises.outcome(ANSWERED, faults | self._own_faults(publication)) is Outcome.DELIVERED:
            yield unanswered
        else:
            self._excuses.grant(Excuse.PROMISED_NOTHING, [unanswered])

    def _explained(self, publication: Publication) -> bool:
        """Whether a publication was refused with good reason."""
        if publication.refused == NotAdvertised.__name__:
            return self._advertisements and not all(_announcements(publication))
        return publication.asked is Quality.STORED and publication.starved

    def _own_faults(self, publication: Publication) -> set[str]:
        """Whether the publisher has lost or left its broker before this can have got there for sure."""
        record = publication.record
        interruptions = self._observer.client(record.component).interruptions
        left = any(one.seq > record.seq and one.time < record.time + UNDER_WAY for one in interruptions)
        return {PUBLISHER_LEAVES} if left else set()

    # --- what subscribers get -------------------------------------------------------------------------

    def _judge_deliveries(self, publication: Publication, now: Record) -> Iterator[_Missing]:
        origin = _origin(publication)
        if origin is None:
            return  # it was made while its client had no broker, and none has taken it since
        for name, client in self._observer.clients.items():
            if not client.subscriptions:
                continue
            until = self._faults.arrived_by(publication.since.time, client.absences(now), now)
            apart = self._faults.apart(origin, client.brokers, now, scopes=bool(self._observer.visibility.graphs))
            faults = self._faults.bearing_on(publication.record, origin, now, until, apart)
            faults |= self._own_faults(publication)
            for form in self._observer.visibility.ever(publication.judged, publication.record, name):
                sight = _Sight(name, publication, form)
                for missing in self._missing(client, sight, faults):
                    yield missing._replace(excuse=self._excuse(client, sight, until) or missing.excuse)

    def _excuse(self, client: Client, sight: _Sight, until: int) -> Excuse | None:
        """Why the client need not get this, whatever it has subscribed to."""
        publication, visibility = sight.publication, self._observer.visibility
        record = publication.record
        if publication.refused or (publication.quality is not Quality.FIRE and publication.key is None):
            return Excuse.NOT_TAKEN
        if client.broker is None:
            return Excuse.SUBSCRIBER_AWAY
        versions = visibility.between(min(publication.judged, default=0), until + visibility.longest_delay)
        if sight.form not in visibility.always(versions, record, sight.client):
            return Excuse.LATER_VERSION
        if sight.form != record.notification and len(versions) > 1 and visibility.longest_delay:
            held = visibility.mapped_and_delayed(publication.judged, record, sight.client)
            if held:
                return Excuse.MAPPED_AND_DELAYED
        moved = sight.client == record.publisher and client.interrupted > record.seq
        return Excuse.OWN_AND_MOVED if moved and visibility.graphs and sight.form != record.notification else None

    def _missing(self, client: Client, sight: _Sight, faults: set[str]) -> Iterator[_Missing]:
        """For each subscription of a client that should have got this and has not."""
        publication = sight.publication
        for id, subscription in client.subscriptions.items():
            own = list(_settled_before(subscription, sight))
            if not own or (id, *publication.identity, sight.form) in client.seen:
                continue
            owed = self._owed(publication, faults, own)
            in_gap = any(_contains(gap, publication) for gap in subscription.gaps)
            excuse: Excuse | None = None
            if owed is Outcome.NOTHING:
                excuse = Excuse.PROMISED_NOTHING
            elif owed is Outcome.GAP and not in_gap:
                excuse = _in_gap_perhaps(subscription, publication, faults)
            passes = excuse is not None or (owed is Outcome.GAP and in_gap)
            if passes and self._is_trouble_elsewhere(publication, faults, own):
                excuse = Excuse.TROUBLE_ELSEWHERE
            elif passes and excuse is None:
                continue
            reason = f"it never reached {sight.client}/{id}, whose filter is {subscription.filter}"
            if in_gap:
                reason = f"{sight.client}/{id} was told a gap, and it should have been delivered"
            yield _Missing(Violation(_guarantee(publication), publication.record, reason), excuse)

    def _owed(self, publication: Publication, faults: set[str], own: list[set[str]]) -> Outcome:
        """The most that any settling promises: for each, what has happened to the subscriber since."""
        return max(self._promises.outcome(_guarantee(publication), faults | some) for some in own)

    def _is_trouble_elsewhere(self, publication: Publication, faults: set[str], own: list[set[str]]) -> bool:
        """Whether more is owed unless the origin was gone, which only trouble somewhere makes us believe."""
        known = self._faults.reachability.is_known and not self._observer.visibility.graphs
        if known or ORIGIN_GONE not in faults or self._faults.is_dead(str(_origin(publication))):
            return False
        return self._owed(publication, faults - {ORIGIN_GONE} or {NONE}, own) > self._owed(publication, faults, own)


def _settled_before(subscription: Subscription, sight: _Sight) -> Iterator[set[str]]:
    """For each settling by which this is owed as the client sees it: what has happened to the client since."""
    for settling in subscription.settlings:
        earlier = settling.record.seq <= sight.publication.record.seq and _origin(sight.publication) in settling.reach
        if earlier and _passes_since(subscription, settling.record.seq, sight):
            yield {OWN_FAULTS[op] for seq, op in subscription.interruptions if seq > settling.record.seq}


def _guarantee(publication: Publication) -> str:
    return f"delivery of {publication.quality.name.lower()}"


def _origin(publication: Publication) -> str | None:
    return str(publication.key[0]) if publication.key is not None else publication.origin


def _announcements(publication: Publication) -> Iterator[bool]:
    """Each time that it was handed over: whether one alternative of one advertisement accepts it.

    It must accept it whichever elements its lists stand for.
    """
    attributes = dict(publication.record.notification or {})
    choices = [value if isinstance(value, tuple) and value else (value,) for value in attributes.values()]
    versions = [Notification(dict(zip(attributes, values, strict=True))) for values in itertools.product(*choices)]
    for advertisements in publication.advertised:
        yield any(
            all(alternative.matches(version) for version in versions)
            for filter in advertisements
            for alternative in _alternatives(filter)
        )


def _alternatives(filter: Matches) -> list[Matches]:
    return [Filter([conjunction]) for conjunction in filter.conjunctions] if isinstance(filter, Filter) else [filter]


def _passes_since(subscription: Subscription, seq: int, sight: _Sight) -> bool:
    """Whether the notification passes every filter that the subscription has had from `seq` on."""
    later = [at for at, (since, *_) in enumerate(subscription.filters) if since > seq]
    first = later[0] - 1 if later else len(subscription.filters) - 1
    return all(
        filter.matches(sight.form) and (receive_own or sight.client != sight.publication.record.publisher)
        for _, filter, receive_own in subscription.filters[first:]
    )


def _contains(gap: Record, publication: Publication) -> bool:
    """Whether a gap contains a publication."""
    if publication.key is None:
        return False
    assert isinstance(gap.detail, Missing)
    origin, epoch, first, last = gap.detail
    number = publication.key[2]
    within = first <= number and (last is None or number <= last)
    return (origin, epoch) == publication.key[:2] and within


def _in_gap_perhaps(subscription: Subscription, publication: Publication, faults: set[str]) -> Excuse | None:
    """Why a gap may stand for a publication that it does not contain by its number."""
    if publication.key is None:
        return None
    origin, now, number = publication.key
    for gap in subscription.gaps:
        assert isinstance(gap.detail, Missing)
        epoch, last = gap.detail.epoch, gap.detail.last
        if gap.detail.origin != origin or epoch > now:
            continue
        if not number and gap.seq > publication.record.seq:
            return Excuse.NUMBER_UNKNOWN
        if last is None and epoch < now and ORIGIN_GONE in faults:
            return Excuse.ENDLESS_GAP
    return None
