"""How something went over time: gauges and windows over what clients registered, from the journals of all brokers.

A *gauge* is the sum of what `lift` gives of each record, so its course is a step at each change. A window is lifted and
combined pane by pane, as brokers do. Both run the definitions that brokers run, over records of the same type
(`_registered`); the definition cannot tell the present from the past.

Steps are ordered by the clocks of the brokers that wrote them. What a journal no longer holds is refused, and where
rows of it are missing, steps and windows are flagged incomplete until the broker has started anew.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from tidings.aggregation.definitions import (
    JP,
    Aggregate,
    PublisherCount,
    Record,
    SubscriberCount,
    SubscriptionCount,
    pseudonym,
)
from tidings.aggregation.expressions import OF_SUBSCRIPTIONS, compiled, parse
from tidings.model import EVERYTHING, ROOT_SCOPE, AggregateError, Filter
from tidings.store import StoreReader

from ._archive import microseconds
from ._audit import AuditError
from ._registered import Registered

GAUGES: dict[str, type[Aggregate[int]]] = {
    one.name: one for one in (SubscriberCount, SubscriptionCount, PublisherCount)
}
"""What can be told of any moment, by name."""
FOR_EVER = 2**62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Step(NamedTuple):
    """What a gauge shows from a moment on, until the next step."""

    at: datetime
    value: int
    complete: bool
    """Whether no row of a journal is missing that could change it."""


class Windowed(NamedTuple):
    """What was measured in one window."""

    ends_at: datetime
    partial: bytes
    """As brokers encode it."""
    value: Any
    complete: bool
    """Whether it lies between `since` and `until`, and no row of a journal is missing in it."""


class _Event(NamedTuple):
    """A record, or that a broker's journal lacks rows from now on, or lacks none any more."""

    at: int
    """In milliseconds since 1970."""
    broker: str
    record: Record | None
    sure: bool


def series(
    data: Sequence[str | Path],
    aggregate: str,
    filter: str = "",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    scope: str = ROOT_SCOPE,
) -> list[Step]:
    """The course of `subscriber_count`, `subscription_count` or `publisher_count`: the value at `since`, and each step
    behind it. Clients count that are away and expected back, and members of the scope itself.

    `data` names the data directories of all brokers. Raises `AggregateError` for another aggregate, and `AuditError` if
    a journal does not go back to `since`.
    """
    if aggregate not in GAUGES:
        raise AggregateError(f"'{aggregate:.80}' has no course in the journal; choose one of {', '.join(GAUGES)}")
    definition = GAUGES[aggregate]()
    begin, end = _span(since, until)
    events = _events(data, Filter.parse(filter or "TRUE"), begin, scope, definition)
    first = begin // 1_000
    steps = [Step(_moment(first), definition.zero(), complete=True)]
    unsure: set[str] = set()
    for event in events:
        if event.at * 1_000 >= end:
            break
        value = steps[-1].value
        if event.record is not None and (lifted := definition.lift(event.record)) is not None:
            value = definition.combine(value, lifted)
        (unsure.discard if event.sure else unsure.add)(event.broker)
        step = Step(_moment(max(first, event.at)), value, not unsure)
        if step.at == steps[-1].at:
            steps.pop()
        if not steps or step[1:] != steps[-1][1:]:
            steps.append(step)
    return steps


def windows(
    data: Sequence[str | Path],
    question: str,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    scope: str = ROOT_SCOPE,
    secret: bytes = b"",
) -> list[Windowed]:
    """What a question about subscriptions measured, window by window: `subscriptions() WINDOW 60s WHERE type = 'x'`.

    Raises as `series` does.
    """
    asked = parse(question)
    definition = compiled(question)
    measured = compiled(dataclasses.replace(asked, where=EVERYTHING))  # of what is known to touch the filter
    window = definition.window
    if window is None or not all(measure.function in OF_SUBSCRIPTIONS for measure in asked.measures):
        raise AggregateError(f"'{question:.80}' is not about subscriptions; `historic` reads what was published")
    begin, end = _span(since, until)
    panes: dict[int, Any] = {}
    doubts: dict[str, int] = {}
    doubtful: list[tuple[int, int]] = []
    for event in _events(data, asked.where, begin, scope, definition, secret=secret):
        if not event.sure:
            doubts.setdefault(event.broker, event.at)
        elif event.broker in doubts:
            doubtful.append((doubts.pop(event.broker), event.at))
        if event.record is not None and begin <= event.at * 1_000 < end:
            lifted, pane = measured.lift(event.record), window.pane(event.at)
            if lifted is not None:
                panes[pane] = definition.combine(panes[pane], lifted) if pane in panes else lifted
    doubtful += ((start, FOR_EVER) for start in doubts.values())
    found = []
    for number in sorted({number for pane in panes for number in range(pane + 1, pane + window.panes + 1)}):
        partial = definition.zero()
        for pane in window.covers(number):
            if pane in panes:
                partial = definition.combine(partial, panes[pane])
        ends = window.ends_at(number)
        starts = ends - window.size_ms
        whole = begin <= starts * 1_000 and ends * 1_000 <= end
        complete = whole and not any(start < ends and starts <= over for start, over in doubtful)
        found.append(Windowed(_moment(ends), definition.encode(partial), definition.present(partial), complete))
    return found


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _span(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    begin, end = microseconds("since", since), microseconds("until", until)
    return begin or 0, FOR_EVER if end is None else end


def _events(
    data: Sequence[str | Path], key: Filter, begin: int, scope: str, definition: Aggregate[Any], *, secret: bytes = b""
) -> list[_Event]:
    """What clients registered at all brokers that touches the key, as far as it concerns a definition, in order."""
    if not data:
        raise AuditError("a series needs the journals of all brokers; name their data directories")
    found: list[_Event] = []
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(StoreReader(one)) for one in data]
        owners = [store.owner for store in stores]
        if twice := {owner for owner in owners if owners.count(owner) > 1}:
            raise AuditError(f"two of the data directories belong to broker '{min(twice)}'; name each broker once")
        for store in stores:
            registered = Registered(
                store.owner, key, scope=scope, peer=lambda client: pseudonym(secret, definition.name, client)
            )
            with store.moment():  # a broker that runs may forget meanwhile
                found += _of_store(store, registered, begin, definition)
    return sorted(found, key=lambda event: event.at)


def _of_store(store: StoreReader, registered: Registered, begin: int, definition: Aggregate[Any]) -> Iterator[_Event]:
    owner, joinpoints = store.owner, definition.joinpoints
    carried = store.carried()
    _check_horizon(owner, carried.horizon, begin, advertised=JP.AD_ADD in joinpoints)
    for record in registered.resume(carried):
        if record.jp in joinpoints:
            yield _Event(record.ts_ms, owner, record, not registered.unsure)
    before, sure = carried.horizon, not registered.unsure
    for row in store.journal(holes=True):
        records = [record for record in registered.take(row) if record.jp in joinpoints]
        if sure is registered.unsure:
            sure = not sure
            yield _Event((row.at if sure else before) // 1_000, owner, None, sure)
        for record in records:
            yield _Event(record.ts_ms, owner, record, sure)
        before = row.at


def _check_horizon(owner: str, horizon: int, begin: int, *, advertised: bool) -> None:
    if horizon and advertised:
        raise AuditError(f"the journal of '{owner}' has forgotten advertisements; journal_for in [store] keeps more")
    if horizon and begin < horizon:
        told = _moment(horizon // 1_000 + 1).isoformat(timespec="milliseconds")
        raise AuditError(
            f"the journal of '{owner}' goes back to {told}; choose --since then or later (journal_for in [store] says "
            "how much a broker keeps)"
        )
