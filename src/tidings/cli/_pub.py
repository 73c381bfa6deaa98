"""`tidings pub`: publish one notification from the command line, or many from stdin."""

from __future__ import annotations

import asyncio
import enum
import json
import sys
from collections.abc import Awaitable
from contextlib import nullcontext
from typing import Annotated, TypeVar, cast

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import tidings
from tidings.model import EventKey, Notification, ValueRefused

from ._connection import AsJson, entering
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
    as_json: AsJson = False,
) -> None:
    """Publish a notification and print the key of the event.

    Example: tidings pub type=quote symbol=SAP price=182.4
    """
    if attributes == ["-"]:
        count = asyncio.run(_publish_lines(client, quality, ttl, advertise, timeout))
        print(json.dumps({"published": count}) if as_json else f"published {count:,}")
        return
    notification = notification_of(attributes)
    event, reached = asyncio.run(_publish(client, notification, quality, ttl, advertise, timeout))
    if as_json:
        print(json.dumps({"event": None if event is None else event._asdict(), "quality": reached.name.lower()}))
    else:
        print("sent" if event is None else f"{event.origin}/{event.epoch}/{event.seq}")


async def _publish(
    client: tidings.Client,
    notification: Notification,
    quality: QualityWord,
    ttl: float | None,
    advertise: str | None,
    timeout: float,
) -> tuple[EventKey | None, tidings.Quality]:
    async with client:
        if advertise is not None:
            await _in_time(timeout, client.advertise(advertise), "the advertisement has not settled")
        receipt = await client.publish(notification, quality=quality.value, ttl=ttl)
        event = await _in_time(timeout, receipt, "the publication is not acknowledged", receipt)
        assert receipt.quality is not None, "it was not refused"
        return event, receipt.quality


async def _in_time(limit: float, work: Awaitable[_T], problem: str, receipt: tidings.Receipt | None = None) -> _T:
    """What comes in time; otherwise an error that says what it waited for, as far as the broker has told."""
    try:
        async with asyncio.timeout(limit):
            return await work
    except TimeoutError:
        why = f": {receipt.waits_for}" if receipt is not None and receipt.waits_for else ""
        raise tidings.TidingsError(
            f"{problem} after {limit:g} seconds{why}. It may still come true; --timeout waits longer"
        ) from None


async def _publish_lines(
    client: tidings.Client, quality: QualityWord, ttl: float | None, advertise: str | None, timeout: float
) -> int:
    errors = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} published"), TimeElapsedColumn())
    progress = Progress(*columns, console=errors, transient=True)
    task = progress.add_task("publish", total=None)
    count = losses = 0
    async with client:
        if advertise is not None:
            await _in_time(timeout, client.advertise(advertise), "the advertisement has not settled")
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
                    raise UsageError(
                        f"line {number} of stdin: {error}. The {count:,} before it were published."
                    ) from None
                if notification is None:
                    losses += 1
                    continue
                publishing = client.publish(notification, quality=quality.value, ttl=ttl)
                await _in_time(timeout, publishing, f"the broker takes no more after {count:,}")
                count += 1
                progress.update(task, completed=count)
            await _in_time(timeout, client.flush(), "not every publication is acknowledged")
    if losses:
        complain(f"skipped {losses:,} lines that report losses ($gap)")
    return count
