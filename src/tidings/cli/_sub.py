"""`tidings sub`: a live subscription on the terminal, or as JSON lines in a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

import tidings
from tidings.model import Bound, BoundError, Filter, bound_of
from tidings.wire import Gap

from ._connection import DEFAULT_BROKER, AsJson, Brokers, Ca, Certificate, ClientName, Insecure, Key, TokenFile, connect
from ._errors import ExitCode, UsageError, complain
from ._json_lines import as_line, gap_as_line
from ._nothing import nothing_from_the_past
from ._option_values import seconds, whole
from ._printable import printable
from ._readable_lines import Lines, gap_as_text

MAX_BOUND = 100
"""Characters of a bound: the longest that means something has an instant and a number."""


def sub(
    filter: Annotated[
        str,
        typer.Argument(metavar="FILTER", help="What to receive, like \"type = 'quote' AND price > 100\"."),
    ],
    broker: Brokers = [DEFAULT_BROKER],  # noqa: B006 - typer does not change it
    count: Annotated[
        int | None, typer.Option(metavar="N", parser=whole("--count", 1), help="Exit after this many notifications.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=seconds("--timeout"),
            help="Exit after this time, with code 1 if --count was not reached.",
        ),
    ] = None,
    client_name: ClientName = None,
    durable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Continue where the last run with this name and --client ended.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Share with the other subscribers of this group: each notification goes to one of them.",
        ),
    ] = None,
    ack: Annotated[
        bool,
        typer.Option("--ack", help="With --group: acknowledge each notification once it is printed; a work queue."),
    ] = False,
    no_dead_letters: Annotated[
        bool,
        typer.Option(
            "--no-dead-letters",
            help="With --ack: give a job to members until one acknowledges it, as groups of scopes do.",
        ),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --client: continue, at any broker, from what the last run left in this file.",
        ),
    ] = None,
    past: Annotated[
        str | None,
        typer.Option(
            metavar="BOUND",
            help="Begin with the past: 10 for the last ten, 5m for five minutes, 10,5m for both. Each line is then "
            "marked past or live.",
        ),
    ] = None,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="With --past: do not wait for all brokers once there is enough.")
    ] = False,
    as_json: AsJson = False,
    token_file: TokenFile = None,
    ca: Ca = None,
    cert: Certificate = None,
    key: Key = None,
    insecure: Insecure = False,
) -> None:
    """Subscribe and print each notification with the time at which it was published. Ctrl-C ends it.

    The filter TRUE selects everything. Losses are reported, too.
    """
    wanted = Filter.parse(filter)
    if durable is not None and client_name is None:
        raise UsageError("--durable needs the name of a client; give one with --client")
    if durable is not None and past is not None:
        raise UsageError("--durable continues where it ended, and --past begins earlier; choose one")
    if group is not None and durable is not None:
        raise UsageError("--group shares what comes, and nothing of it is kept, as --durable does; choose one")
    if group is not None and past is not None:
        raise UsageError("--group begins with what is published, and --past begins earlier; choose one")
    if ack and group is None:
        raise UsageError("--ack needs the name of a group; give one with --group")
    if no_dead_letters and not ack:
        raise UsageError("--no-dead-letters is about jobs that are acknowledged; give --ack, too")
    if state is not None and client_name is None:
        raise UsageError("--state needs the name of a client; give one with --client")
    bound = None if past is None else _bound(past)
    client = connect(
        broker,
        token_file=token_file,
        ca=ca,
        certificate=cert,
        key=key,
        name=client_name,
        insecure=insecure,
        state=state,
    )
    acks = tidings.Acks(max_deliveries=None) if no_dead_letters else tidings.Acks() if ack else None
    printer = _JsonPrinter() if as_json else _Printer(marked=past is not None)
    complete = asyncio.run(
        _listen(client, wanted, printer, _How(durable, group, acks, bound, best_effort), count, timeout)
    )
    if not complete:
        complain(f"fewer than {count} notifications arrived in {timeout:g} seconds")
        raise typer.Exit(ExitCode.FAILED)


class _How(NamedTuple):
    """How to subscribe."""

    durable: str | None
    group: str | None
    acks: tidings.Acks | None
    past: Bound | None
    best_effort: bool


def _bound(text: str) -> Bound:
    """`10`, `5m`, `10,5m`, or an instant in the place of the duration; as `past` of `tidings.Client.subscribe`."""
    if len(text) > MAX_BOUND:
        raise UsageError(f"--past {text[:20]}...: {len(text):,} characters are too many; write 10, 5m, or 10,5m")
    try:
        return bound_of(text)
    except BoundError as error:
        raise UsageError(f"--past {error}") from None


class _Printer:
    """Prints for eyes."""

    def __init__(self, *, marked: bool = False) -> None:
        """`marked`: say of each notification whether it is past or live."""
        self._marked = marked
        self._console = Console(soft_wrap=True, highlight=False)
        self._lines = Lines()

    def notification(self, notification: tidings.Notification) -> None:
        assert isinstance(notification, tidings.Traced)
        now, at = datetime.now().astimezone(), notification.published_at.astimezone()
        mark = ("past" if notification.from_past else "live") if self._marked else ""
        self._console.print(self._lines.line(notification, at, dated=at.date() != now.date(), mark=mark))
        self._console.file.flush()

    def gap(self, gap: Gap) -> None:
        self._console.print(gap_as_text(gap))
        self._console.file.flush()


class _JsonPrinter(_Printer):
    """Prints for scripts."""

    def notification(self, notification: tidings.Notification) -> None:
        assert isinstance(notification, tidings.Traced)
        print(as_line(notification, notification.identity, past=notification.from_past), flush=True)

    def gap(self, gap: Gap) -> None:
        print(gap_as_line(gap), flush=True)


async def _listen(
    client: tidings.Client,
    wanted: Filter,
    printer: _Printer,
    how: _How,
    count: int | None,
    timeout: float | None,
) -> bool:
    """Print until the end; whether everything came that was asked for."""
    seen = 0
    telling: asyncio.Task[None] | None = None
    async with client:
        subscription = _subscribe(client, wanted, printer, how)
        await subscription
        try:
            async with asyncio.timeout(timeout):
                with _until_interrupted(subscription):
                    typer.echo(
                        f"subscribed at {client.statistics().broker} to {wanted}; press Ctrl-C to stop", err=True
                    )
                    if how.past is not None:
                        telling = asyncio.create_task(_tell_if_nothing(client, subscription, how.past))
                    async for notification in subscription:
                        printer.notification(notification)
                        if isinstance(notification, tidings.Job):
                            await notification.ack()
                        seen += 1
                        if seen == count:
                            break
                    else:
                        return True
        except TimeoutError:
            return count is None
        finally:
            if telling is not None:
                telling.cancel()
    return True


def _subscribe(client: tidings.Client, wanted: Filter, printer: _Printer, how: _How) -> tidings.Subscription[Any]:
    if how.group is not None and how.acks is not None:
        return client.subscribe(wanted, on_gap=printer.gap, group=how.group, ack=how.acks)
    return client.subscribe(
        wanted,
        on_gap=printer.gap,
        durable=how.durable,
        group=how.group,
        past=how.past,
        consistency="best_effort" if how.best_effort else "strict",
        with_origin=True,
    )


async def _tell_if_nothing(client: tidings.Client, subscription: tidings.Subscription[Any], past: Bound) -> None:
    reason = await nothing_from_the_past(client, subscription, past)
    if reason:
        typer.echo(f"nothing from the past: {printable(reason)}", err=True)


@contextlib.contextmanager
def _until_interrupted(subscription: tidings.Subscription[Any]) -> Iterator[None]:
    """Let Ctrl-C end the subscription, so that what waits is still printed."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    installed = []
    for number in signals:
        with contextlib.suppress(
            NotImplementedError, RuntimeError, ValueError
        ):  # not in the main thread: not our Ctrl-C
            loop.add_signal_handler(number, subscription.unsubscribe)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
