"""`tidings request`: ask whoever subscribes to this, and print what they reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Annotated

import typer
from rich.console import Console

import tidings
from tidings.model import NoReply, NoResponder, Notification

from ._connection import AsJson, entering
from ._errors import ExitCode, complain
from ._json_lines import plain_line
from ._option_values import seconds, whole
from ._readable_lines import Lines
from ._values import notification_of

TIMEOUT = 10.0
"""Seconds to wait for replies, unless the caller says otherwise."""


@entering
def request(
    client: tidings.Client,
    attributes: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE",
            help="The attributes of the request; values are written as for `tidings pub`.",
            show_default=False,
        ),
    ],
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", parser=seconds("--timeout"), help="Wait this long for replies."),
    ] = TIMEOUT,
    replies: Annotated[
        int,
        typer.Option(
            "--replies", metavar="N", parser=whole("--replies", 0), help="End with the Nth reply; 0: take all in time."
        ),
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Ask whoever subscribes to this, and print the replies. They come to you and to nobody else.

    Code 7: nobody subscribes to it. Code 8: fewer than N replies have come in time, or with --replies 0, none.

    Example: tidings request type=price? symbol=SAP
    """
    asked = notification_of(attributes)
    show: Callable[[Notification], None] = _as_json if as_json else _Shown()
    try:
        came = asyncio.run(_ask(client, asked, timeout, replies, show))
    except NoResponder as error:
        complain(str(error))
        raise typer.Exit(ExitCode.NO_RESPONDER) from None
    except NoReply as error:
        complain(str(error))
        raise typer.Exit(ExitCode.NO_REPLY) from None
    if came < max(replies, 1):
        few = "no reply has" if came == 0 else f"{came:,} of {replies:,} replies have"
        complain(f"{few} come within {timeout:g} s; wait longer with --timeout, or see whether a responder is there")
        raise typer.Exit(ExitCode.NO_REPLY)


class _Shown:
    """Prints for eyes, with the time at which each reply came."""

    def __init__(self) -> None:
        self._console = Console(soft_wrap=True, highlight=False)
        self._lines = Lines()

    def __call__(self, reply: Notification) -> None:
        self._console.print(self._lines.line(reply, datetime.now().astimezone()))
        self._console.file.flush()


def _as_json(reply: Notification) -> None:
    print(plain_line(reply), flush=True)


async def _ask(
    client: tidings.Client, asked: Notification, timeout: float, replies: int, show: Callable[[Notification], None]
) -> int:
    """Print replies as they come; how many there were."""
    came = 0
    async with client:
        answers = client.request(asked, timeout=timeout)
        if replies == 1:
            show(await answers)
            return 1
        async for reply in answers:
            show(reply)
            came += 1
            if came == replies:
                await answers.aclose()
                break
    return came
