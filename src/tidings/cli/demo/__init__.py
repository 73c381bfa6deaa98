"""`tidings demo`: what Tidings is for, in one terminal and one minute."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from tidings.cli._option_values import one_of, words_of


class Scene(enum.StrEnum):
    """The parts of the demonstration, in their order."""

    FILTERS = "filters"
    HISTORY = "history"
    SCOPES = "scopes"
    NETWORK = "network"


def demo(
    scene: Annotated[
        Scene | None,
        typer.Option(
            parser=one_of("--scene", Scene),
            metavar=words_of(Scene),
            help="Play one scene alone.",
            show_default="all, one after the other",
        ),
    ] = None,
    fast: Annotated[bool, typer.Option("--fast", help="Without pauses, for tests and the impatient.")] = False,
) -> None:
    """See it work: three brokers, a filter, a latecomer, a scope, and a broker that is killed.

    The brokers are processes on this machine. What they store goes into a temporary directory, and both are gone when
    the demonstration ends; Ctrl-C ends it early.
    """
    from ._play import play  # noqa: PLC0415 - loads a client, which takes a while

    if not play([scene] if scene is not None else list(Scene), fast=fast):
        raise typer.Exit(1)


__all__ = ["Scene", "demo"]
