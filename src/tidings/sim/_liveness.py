"""Liveness on finite traces: once nothing is left to happen, what was promised must have happened.

For every publication since the last quiescence and every subscription that is active now:

    if   the subscription had settled before it, towards the broker it was published at,
    and  every version of the scope graph since shows it to the subscriber, in one and the same form,
    and  that has passed every filter of the subscription since,
    and  the publisher was told that it was taken, or asked for no answer,
    then it was delivered, or a gap contains it and the promises for the faults of the run allow a gap.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from tidings.model import Filter, Matches, Notification
from tidings.wire import Quality

from ._faults import CLIENT_MOVES, ORIGIN_GONE, OWN_CRASH, UNDER_WAY, Faults
from ._observer import Client, Observer, Publication, Subscription, Violation
from ._promises import Outcome, Promises
from ._trace import Op, Record

ANSWERED = "answered"
_OWN_FAULTS = {Op.LOST: OWN_CRASH, Op.DETACH: CLIENT_MOVES}


class _Sight(NamedTuple):
    """A publication as a client may see it."""

    client: str
    publication: Publication
    form: Notification


class Liveness:
    """Judges a trace each time it has come to rest."""

    def __init__(self, observer: Observer, faults: Faults, promises: Promises, advertisements: bool) -> None:
        self._observer = observer
        self._advertisements = advertisements
        self._faults = faults
        self._promises = promises

    def judge(self, now: Record) -> Iterator[Violation]:
        """What should have happened by now and did not."""
        for publication in self._observer.fresh:
            origin = _origin(publication)
            if origin is None:
                continue  # it was made while its client had no broker, and none has taken it since
            faults = self._faults.bearing_on(publication.record, origin, now)
            yield from self._judge_answer(publication, faults)
            guarantee = f"delivery of {publication.quality.name.lower()}"
            if self._counts(publication) and self._promises.outcome(guarantee, faults) is not Outcome.NOTHING:
                yield from self._judge_deliveries(publication, guarantee, faults)

    def _judge_answer(self, publication: Publication, faults: set[str]) -> Iterator[Violation]:
        record = publication.record
        if self._advertisements and not publication.resent:
            if publication.refused == "NotAdvertised" and announced(publication):
                yield Violation(ANSWERED, record, "it was refused although the advertisements announce it")
            if publication.key is not None and not announced(publication):
                yield Violation(ANSWERED, record, "it was acknowledged although no advertisement announces it")
        asked, reached = record.detail[0], publication.reached
        if reached is not None and asked is not Quality.DEFAULT and asked is not reached:
            yield Violation(ANSWERED, record, f"it asked for {asked!r} and was acknowledged as {reached!r}")
        answered = publication.key is not None or publication.refused
        owed = publication.quality is not Quality.FIRE and self._observer.client(record.component).broker is not None
        if owed and not answered and self._promises.outcome(ANSWERED, faults) is Outcome.DELIVERED:
            yield Violation(ANSWERED, record, "it was neither acknowledged nor refused")

    def _under_way(self, record: Record) -> bool:
        """Whether the publisher has lost or left its broker before this can have got there for sure."""
        interruptions = self._observer.client(record.component).interruptions
        return any(one.seq > record.seq and one.time < record.time + UNDER_WAY for one in interruptions)

    def _counts(self, publication: Publication) -> bool:
        if publication.refused:
            return False
        if publication.quality is Quality.FIRE:
            return not self._under_way(publication.record)
        return publication.key is not None

    def _judge_deliveries(self, publication: Publication, guarantee: str, faults: set[str]) -> Iterator[Violation]:
        for name, client in self._observer.clients.items():
            if client.broker is None or self._moved_since(name, client, publication):
                continue
            forms = self._observer.visibility.always(publication.versions, publication.record, name)
            for (id, subscription), form in itertools.product(client.subscriptions.items(), forms):
                owed = self._owed(subscription, _Sight(name, publication, form), guarantee, faults)
                if owed in (Outcome.GAP, Outcome.DELIVERED) and not _delivered(client, id, publication, form):
                    endless = ORIGIN_GONE in faults
                    if not _told(subscription, publication, endless):
                        reason = f"it never reached {name}/{id}, whose filter is {subscription.filter}"
                        yield Violation(guarantee, publication.record, reason)
                    elif owed is not Outcome.GAP:
                        reason = f"{name}/{id} was told a gap, and it should have been delivered"
                        yield Violation(guarantee, publication.record, reason)

    def _moved_since(self, name: str, client: Client, publication: Publication) -> bool:
        """Where there are scopes, a publisher gets its own publications where it published them, not elsewhere."""
        record = publication.record
        return name == record.publisher and client.interrupted > record.seq and bool(self._observer.visibility.graphs)

    def _owed(self, subscription: Subscription, sight: _Sight, guarantee: str, faults: set[str]) -> Outcome:
        """The most that any settling of the subscription promises for this publication, as the client sees it."""
        record = sight.publication.record
        best = Outcome.NOTHING
        for settling in subscription.settlings:
            if settling.record.seq > record.seq or _origin(sight.publication) not in settling.reach:
                continue
            if not _passes_since(subscription, settling.record.seq, sight):
                continue
            own = {_OWN_FAULTS[op] for seq, op in subscription.interruptions if seq > settling.record.seq}
            best = max(best, self._promises.outcome(guarantee, faults | own))
        return best


def _origin(publication: Publication) -> str | None:
    return str(publication.key[0]) if publication.key is not None else publication.origin


def announced(publication: Publication) -> bool:
    """Whether one alternative of one advertisement accepts it, whichever elements its lists stand for."""
    attributes = dict(publication.record.notification or {})
    choices = [value if isinstance(value, tuple) and value else (value,) for value in attributes.values()]
    versions = [Notification(dict(zip(attributes, values, strict=True))) for values in itertools.product(*choices)]
    return any(
        all(alternative.matches(version) for version in versions)
        for filter in publication.advertisements
        for alternative in _alternatives(filter)
    )


def _alternatives(filter: Matches) -> list[Matches]:
    return [Filter([conjunction]) for conjunction in filter.conjunctions] if isinstance(filter, Filter) else [filter]


def _delivered(client: Client, id: str, publication: Publication, form: Notification) -> bool:
    return (id, publication.record.publisher, publication.record.publication, form) in client.seen


def _passes_since(subscription: Subscription, seq: int, sight: _Sight) -> bool:
    """Whether the notification passes every filter that the subscription has had from `seq` on."""
    later = [at for at, (since, *_) in enumerate(subscription.filters) if since > seq]
    first = later[0] - 1 if later else len(subscription.filters) - 1
    return all(
        filter.matches(sight.form) and (receive_own or sight.client != sight.publication.record.publisher)
        for _, filter, receive_own in subscription.filters[first:]
    )


def _told(subscription: Subscription, publication: Publication, endless: bool) -> bool:
    """Whether the subscription was told a gap that contains the publication."""
    key = publication.key
    return key is not None and any(not key[2] or _contains(gap, key, endless) for gap in subscription.gaps)


def _contains(gap: tuple[object, ...], key: tuple[object, ...], endless: bool) -> bool:
    """Whether a gap contains an event; `endless`: a gap without an end goes on into later epochs."""
    origin, epoch, first, last = gap
    assert isinstance(first, int)
    assert isinstance(epoch, int)
    _, event_epoch, number = key
    assert isinstance(number, int)
    assert isinstance(event_epoch, int)
    if origin != key[0]:
        return False
    if last is None and endless:
        return (epoch, first) <= (event_epoch, number)
    return epoch == event_epoch and first <= number and (not isinstance(last, int) or number <= last)
