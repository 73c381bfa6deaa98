"""Why nothing was found: the question behind every empty answer.

What a subscriber may not see is not told. So the reasons for an empty past come from what the broker reports about
itself and its neighbours, and from further questions of the same client, which are held to the same rights.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import tidings
from tidings.model import EVERYTHING, Bound, Matches, TidingsError
from tidings.wire import Ending, HistoryReport

from ._times import as_instant

POLL = 0.01
"""Seconds between two looks at whether a report has come; it follows right behind the subscription."""


async def nothing_from_the_past(client: tidings.Client, subscription: tidings.Subscription, past: Bound) -> str:
    """Why a subscription gets nothing from the past; "" if it gets something."""
    report = await _reported(subscription)
    if report is None or report.count:
        return ""
    if report.ending is not Ending.ANSWERED:
        return f"{_brokers(report)} answered in time; there may be more where no answer came from"
    if past.count is None or past != Bound(past.count):
        newest = await _newest(client, subscription.filter)
        if newest is not None:
            return f"the last one that passes the filter was published at {_at(newest)}; --past 1 shows it"
    newest = await _newest(client, EVERYTHING) if subscription.filter != EVERYTHING else None
    if newest is not None:
        kept = f"nothing that is kept passes the filter; the last of what you may see was published at {_at(newest)}"
        return kept + _forgotten(report)
    return f"nothing that you may see is kept, or nothing was ever published{_forgotten(report)}"


def nothing_held(reader: Any, filter: str, since: int | None, until: int | None) -> str:
    """Why a query of a store or an archive has found nothing."""
    held = reader.extent()
    if not held.count:
        return "nothing found: nothing is held here; only what is published with quality stored is"
    there = f"{held.count:,} publications are held, from {as_instant(held.earliest)} to {as_instant(held.latest)} UTC"
    before = since is not None and since > held.latest
    after = until is not None and until <= held.earliest
    if before or after:
        gone = after and getattr(reader, "forgotten", int)()
        return f"nothing found: {there}, and none in that time" + ("; older ones were forgotten" if gone else "")
    in_time = " of that time" if since is not None or until is not None else ""
    return f"nothing found: {there}, but none{in_time} passes the filter" if filter else f"nothing found: {there}"


def _forgotten(report: HistoryReport) -> str:
    """What the brokers do not have any more, as far as it may be told."""
    if not report.forgotten:
        return ""
    instant = as_instant(report.forgotten)
    if not report.unstored:
        return f"; publications from before {instant} UTC are forgotten"
    who = "the broker has" if report.brokers == 1 else f"{report.unstored} of {report.brokers} brokers have"
    return f"; {who} no store, and forgot what was published before {instant} UTC"


def _brokers(report: HistoryReport) -> str:
    return "no broker" if not report.brokers else f"only {report.brokers} broker{'s' * (report.brokers > 1)}"


def _at(instant: datetime) -> str:
    return instant.astimezone().isoformat(sep=" ", timespec="seconds")


async def _reported(subscription: tidings.Subscription) -> HistoryReport | None:
    """What the broker says of the past; None if the subscription ends before."""
    while subscription.history_report is None and not subscription.ended:
        await asyncio.sleep(POLL)
    return subscription.history_report


async def _newest(client: tidings.Client, wanted: Matches) -> datetime | None:
    """When the last one was published that passes and that this client may see; None: never, or it may not ask."""
    try:
        asked = await client.subscribe(wanted, past=tidings.last(1), with_origin=True)
    except TidingsError:
        return None
    try:
        report = await _reported(asked)
        if report is None or not report.count:
            return None
        found = await anext(asked)
        return found.published_at if isinstance(found, tidings.Traced) else None
    finally:
        asked.unsubscribe()
