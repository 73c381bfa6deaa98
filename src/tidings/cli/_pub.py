"""`tidings pub`: publish one notification from the command line, or many from stdin."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Annotated, TypeVar, cast

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import tidings
from tidings.model import EventKey, Notification, ValueRefused

from ._connection import AsJson, entering
from ._counted import counted
from ._errors import UsageError, complain
from ._json_lines import read_line
from ._option_values import one_of, seconds
from ._stdin import Readable, lines
from ._values import notification_of

_T = TypeVar("_T")

TIMEOUT = 30.0
"""Seconds to wait for the broker's answer, unless the caller says otherwise."""


class QualityWord(enum.StrEnum):
    """What it takes for a publication to count as done."""

    FIRE = "fire"
    ACCEPTED = "accepted"
    STORED = "stored"
    DEFAULT = "default"


@entering
def pub(
    client: tidings.Client,
    attributes: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE",
            help="The attributes, or - to read one JSON object per line from stdin. The form of a value sets its "
            "type: price=182.4, count=7, urgent=true, symbol=SAP, tags=\\[a,b], code='\"7\"' (a text).",
            show_default=False,
        ),
    ],
    quality: Annotated[
        QualityWord,
        typer.Option(
            parser=one_of("--quality", QualityWord),
            metavar="QUALITY",
            help="When to count it as published: fire (sent), accepted (the broker has it), stored (on disk), default "
            "(stored if the broker has a store, else accepted).",
        ),
    ] = QualityWord.DEFAULT,
    ttl: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", parser=seconds("--ttl"), help="Do not deliver it live after this time."),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="FILTER",
            help="Advertise this filter first. Networks that use advertisements require it.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            parser=seconds("--timeout"),
            help="Give up if the broker has not answered within this time.",
        ),
    ] = TIMEOUT,
    count_receivers: Annotated[
        bool,
        typer.Option(
            "--count-receivers",
            help="Wait until those who get it have acknowledged it, and print how many did. Needs the right to count.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish a notification and print the key of the event.

    Example: tidings pub type=quote symbol=SAP price=182.4
    """
    if attributes == ["-"]:
        if count_receivers:
            raise UsageError("--count-receivers counts for one notification; give its attributes instead of -")
        count = asyncio.run(_publish_lines(client, quality, ttl, advertise, timeout))
        print(json.dumps({"published": count}) if as_json else f"published {count:,}")
        return
    notification = notification_of(attributes)
    published = _publish(client, notification, quality, ttl, advertise, timeout, count_receivers=count_receivers)
    event, receipt = asyncio.run(published)
    if as_json:
        said = {"event": None if event is None else event._asdict(), "quality": str(receipt.quality)}
        if receipt.receivers is not None:
            said["receivers"] = dataclasses.asdict(receipt.receivers)
        print(json.dumps(said))
    else:
        print("sent" if event is None else f"{event.origin}/{event.epoch}/{event.seq}")
        if receipt.receivers is not None:
            print(_received(receipt.receivers))


def _received(count: tidings.ReceiverCount) -> str:
    """How many have got it, for people."""
    if count.withheld:
        return "received by some clients, too few to be told"
    if count.handled is None:
        return "received by an unknown number of clients: the connection was lost"
    unknown = "" if count.unknown == 0 else f", unknown of {'some' if count.unknown is None else count.unknown} more"
    missing = "" if count.complete else "; not every broker has answered"
    return f"received by {counted(count.handled, 'client')}{unknown}{missing}"


async def _publish(
    client: tidings.Client,
    notification: Notification,
    quality: QualityWord,
    ttl: float | None,
    advertise: str | None,
    timeout: float,
    *,
    count_receivers: bool,
) -> tuple[EventKey | None, tidings.Receipt]:
    async with client:
        if advertise is not None:
            await _advertised(timeout, client, advertise)
        publishing = client.publish(notification, quality=quality.value, ttl=ttl, count_receivers=count_receivers)
        receipt = await _in_time(timeout, publishing, lambda: _silence(client, timeout))

        def problem() -> str:
            why = f": {receipt.waits_for}" if receipt.waits_for else ""
            return f"{_silence(client, timeout)}{why}. The notification was sent, and may still be published"

        event = await _in_time(timeout, receipt, problem)
        assert receipt.quality is not None, "it was not refused"
        return event, receipt


async def _in_time(limit: float, work: Awaitable[_T], problem: Callable[[], str]) -> _T:
    """What comes in time; otherwise an error with the problem as it is then."""
    try:
        async with asyncio.timeout(limit):
            return await work
    except TimeoutError:
        raise tidings.TidingsError(f"{problem()}; --timeout waits longer") from None


def _silence(client: tidings.Client, seconds: float) -> str:
    return f"no answer from broker '{client.statistics().broker}' for {seconds:g} seconds"


async def _advertised(limit: float, client: tidings.Client, filter: str) -> None:
    problem = f"the advertisement has not settled after {limit:g} seconds, so nothing was published"
    await _in_time(limit, client.advertise(filter), lambda: problem)


def _before(count: int) -> str:
    match count:
        case 0:
            return "Nothing was published."
        case 1:
            return "The one before it was published."
        case _:
            return f"The {count:,} before it were published."


async def _publish_lines(
    client: tidings.Client, quality: QualityWord, ttl: float | None, advertise: str | None, timeout: float
) -> int:
    errors = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} published"), TimeElapsedColumn())
    progress = Progress(*columns, console=errors, transient=True)
    task = progress.add_task("publish", total=None)
    count = losses = 0

    def problem() -> str:
        sent = f"{counted(count, 'line')} had been sent, and may still be published" if count else "no line was sent"
        return f"{_silence(client, timeout)}; {sent}"

    async with client:
        if advertise is not None:
            await _advertised(timeout, client, advertise)
        if sys.stdin.isatty():
            typer.echo("one JSON object per line; Ctrl-D ends", err=True)
        with progress if errors.is_terminal else nullcontext():
            number = 0
            async for line in lines(cast(Readable, sys.stdin.buffer)):
                number += 1
                if not line.strip():
                    continue
                try:
                    notification = read_line(line)
                except ValueRefused as error:
                    await client.flush()
                    raise UsageError(f"line {number} of stdin: {error}. {_before(count)}") from None
                if notification is None:
                    losses += 1
                    continue
                publishing = client.publish(notification, quality=quality.value, ttl=ttl)
                await _in_time(timeout, publishing, problem)
                count += 1
                progress.update(task, completed=count)
            await _in_time(timeout, client.flush(), problem)
    if losses:
        complain(f"skipped {losses:,} lines that report losses ($gap)")
    return count
