"""The terms of a subscription: what `subscribe` was given, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

from tidings.broker import MAX_TIMEOUT
from tidings.groups import check_group
from tidings.model import ArgumentRefused, Bound, Duplicates, Matches, bound_of
from tidings.wire import Consistency, Gap, Past

from ._arguments import (
    callback_of,
    check_stays,
    choice_of,
    filter_of,
    flag_of,
    microseconds_of,
    name_of,
    plain_callback_of,
)
from ._jobs import Acks, acks_of
from ._typed import Misfit, Typed

_T = TypeVar("_T")

AnyPast: TypeAlias = Bound | int | str | timedelta | datetime
"""How far back: 10 for the last ten, "5m" for five minutes, "10,5m" for both, `last(10)`, `since(...)`, an instant."""


@dataclass(frozen=True, slots=True)
class Terms(Generic[_T]):
    """What a subscription gets, and how."""

    filter: Matches
    callback: Callable[[_T], object] | None = None
    on_gap: Callable[[Gap], object] | None = None
    receive_own: bool = True
    durable: str | None = None
    group: str | None = None
    acks: Acks | None = None
    past: Past | None = None
    with_origin: bool = False
    duplicates: Duplicates = Duplicates.DEFAULT
    typed: Typed[_T] | None = None
    on_misfit: Callable[[Misfit], object] | None = None
    keep_context: bool = False

    @classmethod
    def checked(
        cls,
        filter: Matches | str,
        *,
        callback: Callable[[_T], object] | None,
        on_gap: Callable[[Gap], object] | None,
        receive_own: bool,
        durable: str | None,
        group: str | None = None,
        ack: bool | Acks = False,
        past: AnyPast | None,
        consistency: Consistency | str,
        timeout: float | None,
        respect_ttl: bool,
        with_origin: bool,
        duplicates: Duplicates | str,
        as_: type[_T] | None,
        on_misfit: Callable[[Misfit], object] | None,
        keep_context: bool,
    ) -> Terms[_T]:
        """The terms, or the error that says what is wrong with them."""
        wanted = filter_of(filter)
        if durable is not None:
            check_stays(wanted)
        callback_of(callback, "callback")
        plain_callback_of(on_gap, "on_gap")
        plain_callback_of(on_misfit, "on_misfit")
        if durable is not None:
            name_of(durable, "durable", "give a name under which the broker keeps how far you have come")
        if durable is not None and past is not None:
            raise ArgumentRefused(
                f"the durable subscription '{durable}' goes on where it was; give either `durable` or `past`"
            )
        if group is not None:
            check_stays(wanted)
            _check_group(group, durable=durable, past=past, receive_own=receive_own)
        acks = acks_of(ack, group)
        if acks is not None and as_ is not None:
            raise ArgumentRefused("`ack` makes jobs of notifications, and `as_` makes something else of them; give one")
        if flag_of(with_origin, "with_origin") and as_ is not None:
            raise ArgumentRefused(
                "`with_origin` tells the origin of a notification, and `as_` makes something else of it; give one"
            )
        if on_misfit is not None and as_ is None:
            raise ArgumentRefused(
                "`on_misfit` hears of what does not fit `as_`, and there is none; give both or neither"
            )
        patience = None if timeout is None else microseconds_of(timeout, "a timeout", MAX_TIMEOUT)
        consistency = choice_of(Consistency, consistency, "consistency")
        flag_of(respect_ttl, "respect_ttl")
        return cls(
            wanted,
            callback,
            on_gap,
            flag_of(receive_own, "receive_own"),
            durable,
            group,
            acks,
            None if past is None else Past(bound_of(past), consistency, patience, respect_ttl),
            with_origin,
            choice_of(Duplicates, duplicates, "rule for second copies"),
            None if as_ is None else Typed(as_),
            on_misfit,
            flag_of(keep_context, "keep_context"),
        )


def _check_group(group: str, *, durable: str | None, past: object, receive_own: object) -> None:
    """What one subscriber of many cannot ask for alone."""
    if not isinstance(group, str):
        raise ArgumentRefused(f'group={group!r}: give the name of a group, as in group="billing"')
    check_group(group)
    if durable is not None:
        raise ArgumentRefused(
            f"group='{group}' and durable='{durable}': what a group has handled is not kept; give either of them"
        )
    if past is not None:
        raise ArgumentRefused(f"group='{group}' and `past`: a group begins with what is published; leave `past` out")
    if receive_own is not True:
        raise ArgumentRefused(
            f"group='{group}' and `receive_own`: who gets something is not known when it is published; leave it out"
        )
