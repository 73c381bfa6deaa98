"""Handing over: what an origin has answered, what was kept back meanwhile, and word of what is lost, each in its place.

An answer travels behind what its origin has published, on the same links. So whatever was kept back up to then is in
the answer, too, unless its origin has lost it, and what neither of them holds is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings.broker.interest import Registration
from tidings.model import Position
from tidings.wire import Envelope, Gap

from ._backlog import Kept
from ._host import Handing
from ._suspension import Suspension


def hand_over(
    delivery: Handing,
    suspension: Suspension,
    fetched: Mapping[Position, Envelope],
    held: Iterable[Kept],
    *,
    lost: Iterable[tuple[int, int, int | None]],
    since: Position,
) -> None:
    """Deliver to those who are owed it what follows `since`, in the order of its origin, and tell what is lost."""
    kept: dict[Position, list[Kept]] = {}
    for one in held:
        kept.setdefault(one.position, []).append(one)
    gaps = {Position(epoch, first): Gap(suspension.origin, epoch, first, last) for epoch, first, last in lost}
    for at in sorted(fetched.keys() | kept.keys() | gaps.keys()):
        if at in gaps:
            delivery.report_gap(gaps[at], suspension.owed)
        if at <= since:
            continue
        if at in fetched:
            if unproven := delivery.deliver_late(fetched[at], suspension.owed):
                _tell_of(delivery, suspension.origin, at, unproven, kept.get(at, ()))
        else:
            for one in kept.get(at, ()):
                delivery.deliver_held(*one)


def _tell_of(
    delivery: Handing, origin: str, at: Position, unproven: dict[Registration, None], kept: Iterable[Kept]
) -> None:
    """What came by itself was checked at the border; who has nothing of it, and may not have it late, is told."""
    for envelope, subscriptions in kept:
        if served := [one for one in subscriptions if one in unproven]:
            delivery.deliver_held(envelope, served)
            unproven = {one: None for one in unproven if one not in served}
    if unproven:
        delivery.report_gap(Gap(origin, at.epoch, at.seq, at.seq), unproven)


def give_up(delivery: Handing, suspension: Suspension) -> None:
    """Tell those who are owed something that nobody knows what they have missed."""
    epoch, seq = suspension.since
    delivery.report_gap(Gap(suspension.origin, epoch, seq + 1, None), suspension.owed)
