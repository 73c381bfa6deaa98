"""`tidings serve`: run a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import os
import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from tidings.broker import Role
from tidings.net import Options, Server, StartError
from tidings.net import serve as serving
from tidings.wire import is_local

from ._addresses import urls
from ._config import Configuration, load
from ._connection import DEFAULT_BROKER
from ._errors import UsageError, complain
from ._logs import set_up_logs
from ._option_values import one_of, whole, words_of
from ._paths import default_data
from ._quiet import Quiet
from ._settings import LOG_LEVELS, Bad, text, url
from ._settings_text import kept

MAX_PORT = 65_535
_LEVELS = ", ".join(LOG_LEVELS)


def serve(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file with settings. Options on the command line override it."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the broker, unique in its network.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            parser=whole("--port", 0, MAX_PORT),
            metavar="PORT",
            help="The port to listen on; 0 picks a free one.",
            show_default="7311",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The directory of the store.", show_default="~/.local/share/tidings/NAME"),
    ] = None,
    no_store: Annotated[bool, typer.Option("--no-store", help="Store nothing on disk.")] = False,
    neighbour: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A broker to connect to, as tidings://host:port. Repeat it to name several."),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The broker that decides on changes of scopes for the whole network."),
    ] = None,
    role: Annotated[
        Role | None,
        typer.Option(
            parser=one_of("--role", Role),
            metavar=words_of(Role),
            help="A border broker serves clients and brokers, an inner one only brokers.",
            show_default="border",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines connect without TLS and authentication.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            parser=whole("--metrics-port", 0, MAX_PORT),
            metavar="PORT",
            help="Serve /metrics, /health and /ready over HTTP on this port; 0 picks a free one.",
        ),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help=f"One of {_LEVELS}.", show_default="info")
    ] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON.")] = False,
) -> None:
    """Run a broker. Ctrl-C or SIGTERM stops it gracefully; a second one stops it at once.

    Without options it listens on port 7311 of this machine only, and has a store.
    """
    if log_level is not None and log_level not in LOG_LEVELS:
        raise UsageError(f"--log-level {log_level}: choose one of {_LEVELS}")
    if no_store and data is not None:
        raise UsageError("--data and --no-store exclude each other; choose one")
    given: dict[str, Any] = {"name": _text("--name", name), "host": _text("--host", host), "port": port, "data": data}
    given |= {"metrics_port": metrics_port, "neighbours": _urls(neighbour), "insecure": insecure or None}
    given |= {"authority": _text("--authority", authority), "role": role}
    overrides = {key: value for key, value in given.items() if value is not None}
    configuration = load(config, overrides) if config is not None else Configuration(Options(**overrides))
    options = configuration.options
    if no_store:
        options = dataclasses.replace(options, data=None)
    elif options.data is None:
        options = dataclasses.replace(options, data=default_data(options.name))
    set_up_logs(options.name, log_level or configuration.log_level, as_json=log_json or configuration.log_json)
    for warning in configuration.warnings:
        complain(f"warning: {config}:{warning}")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_run(options, as_json))


def _text(option: str, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return text(value, Path())
    except Bad as bad:
        raise UsageError(f"{option} '{value[:40]}': {bad.problem}; {bad.remedy}") from None


def _urls(neighbours: list[str] | None) -> tuple[str, ...] | None:
    try:
        return tuple(map(url, neighbours)) if neighbours else None
    except Bad as bad:
        raise UsageError(f"--neighbour: {bad.problem}; {bad.remedy}") from None


def _loop_factory() -> Any:
    try:
        return importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None  # asyncio's own


async def _run(options: Options, as_json: bool) -> None:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    async with serving(options, [Quiet()]) as server:
        _announce(server, as_json)
        assert server.failed is not None
        stopped = asyncio.create_task(stop.wait())
        waited: list[asyncio.Future[Any]] = [stopped, server.failed]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        failure = server.failed.exception() if server.failed.done() else None
        if failure is None and not as_json:
            Console(stderr=True).print("Stopping: no new connections; emptying the queues. Ctrl-C again stops at once.")
    if failure is not None:
        raise StartError(f"the broker failed: {failure}; its log says more") from failure


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def told(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)  # somebody does not want to wait for order
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told, number)


def _announce(server: Server, as_json: bool) -> None:
    options = server.options
    addresses = urls(options.host, server.port, tls=options.tls is not None)
    if as_json:
        words = {"name": options.name, "url": addresses[0], "urls": addresses, "port": server.port}
        words["metrics_port"] = server.metrics_port
        bounds = server.keeper.bounds if server.keeper is not None else None
        words["retain_bytes"] = bounds.store if bounds is not None else None
        words["archive_retain_bytes"] = bounds.archive if bounds is not None else None
        print(json.dumps({**words, "data": str(options.data) if options.data is not None else None}), flush=True)
        return
    console = Console(highlight=False, soft_wrap=True)
    first, *others = addresses
    console.print(f"[bold]Broker {escape(options.name)}[/] listens on [bold cyan]{escape(first)}[/]")
    for address in others:
        console.print(f"  also     {address}", markup=False)
    if options.tls is not None:
        console.print("  TLS      connect to a name or address that the certificate lists", markup=False)
    data = str(options.data) if options.data is not None else "none: nothing is stored"
    console.print(f"  data     {data}", markup=False)
    if server.keeper is not None:
        console.print(f"  keeps    {kept(server.keeper.bounds)}", markup=False)
    if server.metrics_port is not None:
        pages = urls(options.metrics_host, server.metrics_port, tls=False)[0].replace("tidings://", "http://")
        console.print(f"  metrics  {pages}/metrics, /health, /ready", markup=False)
    if not is_local(options.host) and options.access.open:
        console.print("  [bold red]open to anyone[/] who can reach it (--insecure)")
    where = "" if _is_default(first) else f" --broker {first}"
    console.print("In another terminal:")
    console.print(f"  tidings sub \"type = 'quote' AND price > 100\"{where}", markup=False)
    console.print(f"  tidings pub type=quote symbol=SAP price=182.4{where}", markup=False)
    console.print("Press Ctrl-C to stop.")
    console.file.flush()


def _is_default(address: str) -> bool:
    """Whether commands find it without being told where it is."""
    return address in {DEFAULT_BROKER, *(f"tidings://{host}:7311" for host in ("127.0.0.1", "[::1]"))}
