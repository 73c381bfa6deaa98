"""`tidings aggregate`: questions about the traffic, answered inside the network."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer
from rich.table import Table
from rich.text import Text

import tidings
from tidings.aggregation.messages import Seen, Watched
from tidings.client import AggregateValue, AggregateWatch
from tidings.model import BoundError, Filter, duration

from ._aggregate_deploy import add_to
from ._aggregate_history import backtest, history
from ._aggregate_keys import check, keygen
from ._aggregate_reconcile import reconcile
from ._connection import AsJson, entering
from ._errors import ExitCode, UsageError, complain
from ._help import Commands
from ._option_values import finite, seconds, whole
from ._printable import printable, printable_json
from ._terminal import terminal
from ._values import notification_of

aggregate = Commands(help="Ask about the traffic: how many subscribe to this?")
aggregate.command()(check)
aggregate.command()(keygen)
add_to(aggregate)
aggregate.command()(history)
aggregate.command()(backtest)
aggregate.command()(reconcile)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The aggregate, like subscriber_count (see `tidings aggregate list`), or a question like "
        "\"p95(load) BY rack WINDOW 60s WHERE type = 'load'\".",
    ),
]
Wanted = Annotated[
    str | None,
    typer.Argument(metavar="FILTER", help="What to ask about, like \"type = 'quote'\". By default everything."),
]


def _bound(value: str | float) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise UsageError(f"--max-error {value}: write a number, 0 or more; 0 asks for the exact value")
    return found


def _limit(value: str | float) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"--above {value}: write a number, like 90")
    return found


def _lasting(value: str | float) -> float:
    if isinstance(value, float):
        return value
    try:
        return duration(value) / 1_000_000
    except BoundError as error:
        raise UsageError(f"--for {error}") from None


MaxError = Annotated[
    float,
    typer.Option(
        "--max-error", metavar="N", parser=_bound, help="By how much the value may be off; a larger bound is cheaper."
    ),
]


Scope = Annotated[
    str, typer.Option("--scope", metavar="SCOPE", help="The scope in which to count.", show_default="root")
]
Window = Annotated[
    str | None,
    typer.Option("--window", metavar="DURATION", help="Of a rate, of active_publishers, of a distribution: how long."),
]
Of = Annotated[str, typer.Option("--of", metavar="NAME", help="Of a distribution: the attribute.")]
Edges = Annotated[
    list[float],
    typer.Option("--edge", metavar="N", parser=finite("--edge"), help="Of a distribution: where to divide. Repeat it."),
]
Away = Annotated[bool, typer.Option("--away", help="Count clients as well whose connections are lost.")]


@aggregate.command("list")
@entering
def list_all(client: tidings.Client, as_json: AsJson = False) -> None:
    """List the aggregates that can be watched."""
    found = asyncio.run(_look(client)).offered
    if as_json:
        print(printable_json(msgspec.json.encode([msgspec.structs.asdict(one) for one in found]).decode()))
        return
    table = Table("name", "version", "about", box=None)
    for one in found:
        table.add_row(printable(one.name), printable(one.version), printable(one.about))
    terminal().print(table)


@aggregate.command()
@entering
def get(
    client: tidings.Client,
    name: Name,
    filter: Wanted = None,
    max_error: MaxError = 0.0,
    scope: Scope = "root",
    away: Away = False,
    window: Window = None,
    of: Of = "",
    edge: Edges = [],  # noqa: B006 - typer does not change it
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", parser=seconds("--timeout"), help="How long to wait for all brokers.")
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Print one complete value."""
    wanted = None if filter is None else Filter.parse(filter)

    async def ask() -> AggregateValue:
        async with client:
            return await client.aggregates.get(
                name,
                filter=wanted,
                max_error=max_error,
                scope=_scope(scope),
                away=away,
                window=window,
                of=of,
                edges=edge,
                timeout=timeout,
            )

    value = asyncio.run(ask())
    print(_as_json(value) if as_json else _as_text(value))


@aggregate.command()
@entering
def watch(
    client: tidings.Client,
    name: Name,
    filter: Wanted = None,
    max_error: MaxError = 0.0,
    scope: Scope = "root",
    away: Away = False,
    window: Window = None,
    of: Of = "",
    edge: Edges = [],  # noqa: B006 - typer does not change it
    count: Annotated[
        int | None, typer.Option(metavar="N", parser=whole("--count", 1), help="Exit after this many complete values.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            parser=seconds("--timeout"),
            help="Exit after this time, with code 1 if --count was not reached.",
        ),
    ] = None,
    above: Annotated[
        float | None,
        typer.Option(
            metavar="N", parser=_limit, help="Exit with code 2 as soon as a complete value, or a group, is above this."
        ),
    ] = None,
    lasting: Annotated[
        float,
        typer.Option(
            "--for", metavar="DURATION", parser=_lasting, help="With --above: only if it stays so for, say, 1m."
        ),
    ] = 0.0,
    into: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUE",
            help="Publish each complete value as a notification with these attributes, and value, error, version and "
            "the group. Repeat it for several.",
        ),
    ] = [],  # noqa: B006 - typer does not change it
    as_json: AsJson = False,
) -> None:
    """Print a value now and whenever it changes. Ctrl-C ends it. Values that miss a broker are marked incomplete."""
    wanted = None if filter is None else Filter.parse(filter)
    if lasting and above is None:
        raise UsageError("--for says how long a value must be above a limit; give the limit with --above")
    attributes = dict(notification_of(into)) if into else None
    alarm = _Alarm(above, lasting)
    console = terminal()

    def show(value: AggregateValue) -> None:
        if as_json:
            print(_as_json(value), flush=True)
        else:
            at = value.as_of if value.window is None else value.window[1]
            console.print(f"{at.astimezone():%H:%M:%S} {_as_text(value)}")
            console.file.flush()

    async def follow() -> bool:
        seen = 0
        loop = asyncio.get_running_loop()
        async with client:
            with contextlib.suppress(TimeoutError):
                async with (
                    asyncio.timeout(timeout),
                    client.aggregates.watch(
                        name,
                        filter=wanted,
                        max_error=max_error,
                        scope=_scope(scope),
                        away=away,
                        window=window,
                        of=of,
                        edges=edge,
                    ) as watching,
                ):
                    with _until_interrupted(watching):
                        async for value in _until(watching, alarm):
                            if value is not None:
                                show(value)
                                seen += value.complete
                                if attributes is not None and value.complete:
                                    await client.publish_many(_notifications(name, attributes, value))
                            if alarm.rings(value, loop.time()):
                                return True
                            if seen == count:
                                return True
                        return True
        return count is None

    if not asyncio.run(follow()):
        complain(f"fewer than {count} complete values arrived in {timeout:g} seconds")
        raise typer.Exit(ExitCode.FAILED)
    if alarm.rang:
        complain(f"{name} is above {above:g}{f' for {lasting:g} seconds' if lasting else ''}")
        raise typer.Exit(ExitCode.USAGE)


class _Alarm:
    """Rings when a complete value has been above a limit for some time."""

    def __init__(self, above: float | None, lasting: float) -> None:
        self._above = above
        self._lasting = lasting
        self._since: float | None = None
        self.rang = False

    def rings(self, value: AggregateValue | None, now: float) -> bool:
        """Whether it does now; without a new value, whether the last one has lasted long enough."""
        if self._above is None:
            return False
        if value is not None and value.complete:
            if not any(number > self._above for number in _numbers(value.value)):
                self._since = None
            elif self._since is None:
                self._since = now
        self.rang = self._since is not None and now - self._since >= self._lasting
        return self.rang

    def wait(self, now: float) -> float | None:
        """After how many seconds it rings if nothing changes; None: not at all."""
        return None if self._since is None else max(self._lasting - (now - self._since), 0)


async def _until(watching: AggregateWatch, alarm: _Alarm) -> AsyncIterator[AggregateValue | None]:
    """Each value; None, when the alarm may ring without one."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with asyncio.timeout(alarm.wait(loop.time())):
                value = await anext(watching, None)
            if value is None:
                return
            yield value
        except TimeoutError:
            yield None


def _numbers(value: Any) -> Iterator[float]:
    """The first measure of each group."""
    for one in value.values() if isinstance(value, dict) else (value,):
        first = one[0] if isinstance(one, list) and one else one
        if isinstance(first, int | float):
            yield first


def _notifications(name: str, attributes: dict[str, Any], value: AggregateValue) -> Iterator[dict[str, Any]]:
    """What is published of a value: one notification, or one for each group."""
    about = {**attributes, "aggregate": name, "error": value.error, "version": value.version}
    if value.window is not None:
        about["window_end"] = value.window[1]
    groups = value.value.items() if isinstance(value.value, dict) else [((), value.value)]
    for group, one in groups if not value.withheld else ():
        numbers = one if isinstance(one, list) else [one]
        measured = {"value" if not at else f"value{at + 1}": number for at, number in enumerate(numbers)}
        said = {f"group{at + 1}": part for at, part in enumerate(group) if part is not None}
        yield {**about, **said, **{key: number for key, number in measured.items() if _is_scalar(number)}}


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


@aggregate.command()
@entering
def status(client: tidings.Client, as_json: AsJson = False) -> None:
    """Show what is watched at one broker, by its clients and by other brokers through it."""
    found = asyncio.run(_look(client))
    if as_json:
        print(status_json(found))
        return
    console = terminal()
    console.print(watched_table(found))
    if found.left_out:
        complain(f"{found.left_out:,} more are not shown")


def status_json(found: Seen) -> str:
    """What is watched at a broker, as JSON."""
    watched = [msgspec.structs.asdict(one) for one in found.watched]
    words: dict[str, Any] = {"broker": found.broker, "watched": watched, "left_out": found.left_out}
    words["traffic"] = [msgspec.structs.asdict(one) for one in found.traffic]
    return printable_json(msgspec.json.encode({**words, "counters": found.counters}).decode())


def watched_table(found: Seen) -> Table | Text:
    """What is watched at a broker, for people."""
    if not found.watched:
        return Text(f"nothing is watched at {printable(found.broker)}")
    table = Table("aggregate", "filter", "scope", "value", "watched by", "asked by", box=None)
    for one in found.watched:
        table.add_row(*map(printable, _row(one)))
    return table


def _row(one: Watched) -> tuple[str, ...]:
    value = f"{one.value}{f' ± {one.error:g}' if one.error else ''}{'' if one.complete else ', incomplete'}"
    clients = f"{one.requests} within {one.bound:g}" if one.bound is not None else "-"
    key = f"{one.key or '-'}{', away as well' if one.away else ''}"
    return one.aggregate, key, one.scope or "root", value, clients, f"{one.neighbours} neighbours"


async def _look(client: tidings.Client) -> Seen:
    async with client:
        return await client.aggregates.status()


def _scope(name: str) -> str:
    return "" if name == "root" else name


def _as_text(value: AggregateValue) -> str:
    if value.withheld:
        return f"withheld: too few{'' if value.complete else ' (incomplete)'}"
    error = f" ± {value.error:.4g}" if value.error else ""
    end = f"{error}{'' if value.complete else ' (incomplete)'}"
    if not isinstance(value.value, dict):
        return f"{_number(value.value)}{end}"
    lines = [f"  {', '.join(map(_number, group))}: {_number(one)}" for group, one in value.value.items()]
    return "\n".join([f"{len(lines)} groups{end}", *lines])


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_number, value))
    return f"{value:.6g}" if isinstance(value, float) else printable(str(value))


def _as_json(value: AggregateValue) -> str:
    said: Any = value.value
    if isinstance(said, dict):
        said = [{"group": list(group), "value": one} for group, one in said.items()]
    words = {
        "value": said,
        "error": value.error,
        "complete": value.complete,
        "version": value.version,
        "as_of": _iso(value.as_of),
        **({"withheld": True} if value.withheld else {}),
    }
    if value.window is not None:
        words["window"] = [*map(_iso, value.window)]
    if value.included is not None:
        words["included"] = [one._asdict() for one in value.included]
    return printable_json(json.dumps(words))


def _iso(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@contextlib.contextmanager
def _until_interrupted(watching: AggregateWatch) -> Iterator[None]:
    """Let Ctrl-C end the watch."""
    loop = asyncio.get_running_loop()
    installed = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(number, watching.close)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)
