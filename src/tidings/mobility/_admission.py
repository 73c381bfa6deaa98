"""Admission: who wants to begin a session under a name, what it is told, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from tidings.wire import TAKEN_OVER

from ._claims import Held


class Newcomer(NamedTuple):
    """Who wants to begin a session."""

    name: str
    owner: str
    epoch: int = 0
    """The one it was given last; 0: it has none."""
    last: str = ""
    """The broker that gave it."""
    take_over: bool = False
    fresh: bool = False
    """Whether this broker has just made the name up, so that nobody else can have it."""


class Admitted(NamedTuple):
    """It may come in."""

    epoch: int
    """The one under which it is hosted."""
    shown: int = 0
    last: str = ""
    sure: bool = False
    """Whether nobody else can host it."""
    fencing: bool = False
    """Whether it is let in because somebody could not be asked."""


class Denied(NamedTuple):
    """It may not."""

    code: str
    reason: str


Verdict: TypeAlias = Admitted | Denied


def denied(held: Held, newcomer: Newcomer) -> Denied:
    """The name is in use. Who was attached before hears that it was taken over, and does not try again."""
    if newcomer.epoch and newcomer.epoch < held.epoch:
        return Denied(TAKEN_OVER, taken_over(held.name, held.broker, held.since))
    return Denied("duplicate", _in_use(held, newcomer))


def too_early(newcomer: Newcomer, now: int) -> Denied:
    """The epoch that it shows lies in the future."""
    ahead = (newcomer.epoch - now) / 1_000_000
    reason = (
        f"client '{newcomer.name}' shows the epoch {newcomer.epoch}, which lies {ahead:,.0f} seconds in the future; "
        "compare the clocks of the brokers, or begin without the kept state"
    )
    return Denied("epoch", reason)


def taken_over(name: str, broker: str, at: int) -> str:
    """Why the connection of a client ends that another broker hosts."""
    return f"client '{name}' was taken over: it has been connected to broker '{broker}' since {_time(at)}"


def _in_use(held: Held, newcomer: Newcomer) -> str:
    where = f"client '{held.name}' is already connected, to broker '{held.broker}' since {_time(held.since)}"
    if newcomer.take_over and not held.epoch:
        return f"{where}; it took the name over at the same time"
    return f"{where}; choose another name, disconnect that client, or take its place with take_over=True"


def _time(microseconds: int) -> str:
    try:
        return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # another broker says so
        return "a time that no clock shows"
