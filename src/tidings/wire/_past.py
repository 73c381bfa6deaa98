"""How far a subscription reaches into the past, what it waits for, and why it went on."""

from __future__ import annotations

import enum

import msgspec

from tidings.model import Bound


class Consistency(enum.IntEnum):
    """What a subscription into the past waits for."""

    STRICT = 0
    """Waits until every broker has answered: past and live join without a gap."""
    BEST_EFFORT = 1
    """Waits until there is enough, even if that is new: nothing arrives later than it would without the past."""


class Past(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a subscription reaches back, and what it waits for."""

    bound: Bound
    consistency: Consistency = Consistency.STRICT
    timeout: int | None = None
    """Microseconds after which it goes live with what has been found; None: as the broker is configured."""
    respect_ttl: bool = False
    """Whether notifications that have outlived their time to live are left out."""


class Ending(enum.IntEnum):
    """Why a subscription into the past went live."""

    ANSWERED = 0
    """Every broker has answered."""
    SATISFIED = 1
    """There was enough before every broker had answered."""
    TIMER = 2
    """The time was up."""
