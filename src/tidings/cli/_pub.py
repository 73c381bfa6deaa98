"""`tidings pub`: publish one notification from the command line, or many from stdin."""

from __future__ import annotations

import asyncio
import enum
import json
import sys
from contextlib import nullcontext
from typing import Annotated, cast

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
    as_json: AsJson = False,
) -> None:
    """Publish a notification and print the key of the event.

    Example: tidings pub type=quote symbol=SAP price=182.4
    """
    if attributes == ["-"]:
        count = asyncio.run(_publish_lines(client, quality, ttl, advertise))
        print(json.dumps({"published": count}) if as_json else f"published {count:,}")
        return
    notification = notification_of(attributes)
    event, reached = asyncio.run(_publish(client, notification, quality, ttl, advertise))
    if as_json:
        print(json.dumps({"event": None if event is None else event._asdict(), "quality": reached.name.lower()}))
    else:
        print("sent" if event is None else f"{event.origin}/{event.epoch}/{event.seq}")


async def _publish(
    client: tidings.Client, notification: Notification, quality: QualityWord, ttl: float | None, advertise: str | None
) -> tuple[EventKey | None, tidings.Quality]:
    async with client:
        if advertise is not None:
            await client.advertise(advertise)
        receipt = await client.publish(notification, quality=quality.value, ttl=ttl)
        event = await receipt
        assert receipt.quality is not None, "it was not refused"
        return event, receipt.quality


async def _publish_lines(client: tidings.Client, quality: QualityWord, ttl: float | None, advertise: str | None) -> int:
    errors = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} published"), TimeElapsedColumn())
    progress = Progress(*columns, console=errors, transient=True)
    task = progress.add_task("publish", total=None)
    count = losses = 0
    async with client:
        if advertise is not None:
            await client.advertise(advertise)
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
                await client.publish(notification, quality=quality.value, ttl=ttl)
                count += 1
                progress.update(task, completed=count)
            await client.flush()
    if losses:
        complain(f"skipped {losses:,} lines that report losses ($gap)")
    return count
