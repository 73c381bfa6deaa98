"""`tidings replay`: publish again what a store or an archive holds, as marked copies, at the pace of then or faster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import tidings
from tidings.model import MAX_ATTRIBUTES, Notification
from tidings.wire import Envelope

from ._connection import DEFAULT_BROKER, Brokers, Ca, Certificate, Insecure, Key, TokenFile, connect
from ._errors import UsageError, complain
from ._past import Archive, Data, Limit, Since, Until, asked, opened

COPY_OF = "replay.of"
"""The attribute of a copy that names its original: origin/epoch/number."""
COPY_FROM = "replay.published_at"
"""The attribute of a copy that tells when its original was published."""
MAX_SPEED = 1e6
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def replay(
    filter: Annotated[
        str, typer.Argument(metavar="FILTER", help="What to publish again, like \"type = 'quote'\".")
    ] = "",
    broker: Brokers = [DEFAULT_BROKER],  # noqa: B006 - typer does not change it
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    speed: Annotated[
        str, typer.Option(metavar="TIMES", help="10x is ten times the original pace; max leaves out all pauses.")
    ] = "1x",
    into: Annotated[
        str | None, typer.Option(metavar="SCOPE", help="Publish in this scope. You must be allowed to change it.")
    ] = None,
    data: Data = None,
    archive: Archive = None,
    client_name: Annotated[
        str, typer.Option("--client-name", "--client", metavar="NAME", help="The name of this client at the broker.")
    ] = "replay",
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Certificate = None,
    key: Key = None,
    insecure: Insecure = False,
) -> None:
    """Publish the contents of a store or an archive on this machine again, oldest first.

    Each copy is marked: replay.of names the original, replay.published_at is when it was published.
    Copies are not replayed again.
    """
    wanted, times = asked(filter, since, until)
    pace = _speed(speed)
    client = connect(
        broker, token_file=token_file, ca=ca, certificate=cert, key=key, name=client_name, insecure=insecure
    )
    with opened(data, archive) as (_, reader), _Shown(times, reader) as shown:
        steps = reader.query_in_steps(wanted, **times, limit=limit)
        told = asyncio.run(_published(client, (one for step in steps for one in step), pace, into, shown))
    if told.left_out:
        complain(f"{told.left_out:,} were skipped: they are copies themselves, or have no room for the marks of a copy")
    typer.echo(f"{told.published:,} published again")


class _Told(NamedTuple):
    published: int
    left_out: int


def _speed(text: str) -> float | None:
    """How many times as fast; None: without pauses."""
    if text == "max":
        return None
    with contextlib.suppress(ValueError):
        speed = float(text.removesuffix("x"))
        if 0 < speed <= MAX_SPEED:
            return speed
    raise UsageError(f"--speed {text}: write 10x for ten times as fast, 0.5x for half, or max")


async def _published(
    client: tidings.Client, originals: Iterator[Envelope], speed: float | None, into: str | None, shown: _Shown
) -> _Told:
    published = left_out = 0
    first: int | None = None
    loop = asyncio.get_running_loop()
    async with client, _member(client, into):
        begun = loop.time()
        for envelope in originals:
            copy = _copy(envelope)
            if copy is None:
                left_out += 1
                continue
            at = envelope.identity.published_at
            first = at if first is None else first
            if speed is not None and (pause := begun + (at - first) / 1e6 / speed - loop.time()) > 0:
                await asyncio.sleep(pause)
            await client.publish(copy)
            published += 1
            shown.reached(at, published)
        await client.flush()
    return _Told(published, left_out)


@contextlib.asynccontextmanager
async def _member(client: tidings.Client, scope: str | None) -> AsyncIterator[None]:
    """Be in a scope for a while."""
    if scope is None:
        yield
        return
    await client.admin.join(f"@{client.name}", scope)
    try:
        yield
    finally:
        await client.admin.leave(f"@{client.name}", scope)


def _copy(envelope: Envelope) -> Notification | None:
    """The marked copy of a publication; None: it is one itself, or has no room."""
    attributes = dict(envelope.notification)
    if COPY_OF in attributes or len(attributes) + 2 > MAX_ATTRIBUTES:
        return None
    identity = envelope.identity
    origin = f"{identity.origin}/{identity.epoch}/{identity.seq}"
    return Notification(
        {**attributes, COPY_OF: origin, COPY_FROM: _EPOCH + timedelta(microseconds=identity.published_at)}
    )


class _Shown:
    """A bar on a terminal: how far the replay has come in the time that it covers."""

    def __init__(self, times: dict[str, int | None], reader: Any) -> None:
        console = Console(stderr=True)
        columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}% {task.description}"), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._begin = self._end = 0
        if console.is_terminal:
            extent = reader.extent()
            self._begin = max(times["since"] or 0, extent.earliest or 0)
            self._end = min(times["until"] or 2**63, extent.latest or 0)
        self._task = self._progress.add_task("nothing yet", total=max(1, self._end - self._begin))

    def reached(self, at: int, count: int) -> None:
        """So many have been published, the last one a copy of that time."""
        self._progress.update(self._task, completed=at - self._begin, description=f"{count:,} published again")

    def __enter__(self) -> _Shown:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()
