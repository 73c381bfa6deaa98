"""Subscribing: the methods of a client that say what it wants, and what it may publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

from tidings.broker import LocalBroker
from tidings.model import ArgumentRefused, Duplicates, Matches, Notification
from tidings.wire import Consistency, Gap

from ._arguments import filter_of, name_of, shown
from ._jobs import Acks, Job
from ._pending import Pending
from ._settings import Settings
from ._subscription import Subscription
from ._subscriptions import Subscriptions
from ._terms import AnyPast, Terms
from ._typed import Misfit

_T = TypeVar("_T")


class Subscribing:
    """What a client needs to subscribe and to advertise; whoever derives from it sets these."""

    _settings: Settings
    _local: LocalBroker
    _subscriptions: Subscriptions
    _advertisements: Pending[None]

    def _check(self) -> None:
        """Raise the reason if nothing can be asked for now."""
        raise NotImplementedError

    @overload
    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Notification], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str | None = None,
        ack: Literal[False] = False,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: None = None,
        on_misfit: None = None,
        keep_context: bool = False,
    ) -> Subscription[Notification]: ...

    @overload
    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Job], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str,
        ack: Literal[True] | Acks,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: None = None,
        on_misfit: None = None,
        keep_context: bool = False,
    ) -> Subscription[Job]: ...

    @overload
    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[_T], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str | None = None,
        ack: Literal[False] = False,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: type[_T],
        on_misfit: Callable[[Misfit], object] | None = None,
        keep_context: bool = False,
    ) -> Subscription[_T]: ...

    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Any], object] | None = None,
        on_gap: Callable[[Gap], object] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        group: str | None = None,
        ack: bool | Acks = False,
        past: AnyPast | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        as_: type[Any] | None = None,
        on_misfit: Callable[[Misfit], object] | None = None,
        keep_context: bool = False,
    ) -> Subscription[Any]:
        """Subscribe to what passes a filter. Iterate over the result, or pass a `callback`.

        A plain callback must not block. An `async def` is awaited, one notification at a time, in order.

        With `as_`, a dataclass or a msgspec Struct, each notification becomes an instance of that class. One that does
        not fit is left out: `on_misfit` is called with a `Misfit`; without `on_misfit`, it is logged.

        `duplicates` says what counts as a second copy where scopes let an event arrive along several paths: "suppress"
        drops the same event in the same form, "event" drops it in any form, and with "per_path" each path brings a
        notification of its own. By default the scope decides, and a scope without a rule suppresses.

        `past` reaches back: 10 for the last ten, "5m" for five minutes, "10,5m" for both, or a bound made by
        `tidings.last` or `tidings.since`. Notifications from the past come first, then everything that follows, without
        a gap. With `consistency="strict"` all brokers are asked first, for at most `timeout` seconds; "best_effort"
        goes live as soon as there is enough, even if that is new. `history_report` says what was found. With
        `respect_ttl`, notifications that have outlived their time to live are left out. With `with_origin`, each
        notification has `from_past`, `published_at` and `identity`.

        What is published while a notification is handled is a reaction to it: where there are session scopes, it stays
        in those that the notification was in. With `keep_context`, that holds for tasks that were started meanwhile
        until they end; without it, until the notification is handled.

        `on_gap` is called with each loss; without it, losses are logged as warnings. With `durable`, a name, the broker
        records how far the application has come, under this client's name and that one: after a crash, or after
        `unsubscribe`, the subscription continues from there. `forget` ends it. Subscribing with another filter changes
        it.

        With `group`, a name, all subscribers of that group and of the same identity share what passes the filter: each
        notification goes to one of them. "scope/name" is a group of a scope, for its members. All must give the same
        filter. A subscriber that stays is not passed over; no order is promised.

        With `ack` as well, the group is a work queue: what is yielded are `Job`s, and each must be answered by `ack()`
        or `nack()`. What is not acknowledged in time, or by a member that is gone, goes to another one. Pass
        `tidings.Acks(...)` instead of True to say how long that takes, and more: see docs/groups.md.
        """
        terms = Terms[Any].checked(
            filter,
            callback=callback,
            on_gap=on_gap,
            receive_own=receive_own,
            durable=durable,
            group=group,
            ack=ack,
            past=past,
            consistency=consistency,
            timeout=timeout,
            respect_ttl=respect_ttl,
            with_origin=with_origin,
            duplicates=duplicates,
            as_=as_,
            on_misfit=on_misfit,
            keep_context=keep_context,
        )
        if durable is not None and self._settings.name is None:
            raise ArgumentRefused(
                f"durable={shown(durable)}: the broker keeps it under the name of this client, which has none of its "
                'own; give one with tidings.connect(..., name="...")'
            )
        self._check()
        return self._subscriptions.add(terms)

    async def forget(self, name: str) -> None:
        """End a durable subscription for good: the broker forgets it. Ending it again does nothing."""
        name_of(name, "name", "give the name of a durable subscription")
        self._check()
        await self._subscriptions.durables.forget(name)

    async def advertise(self, filter: Matches | str) -> str:
        """Announce what this client may publish; return the id of the advertisement once the network knows it."""
        wanted = filter_of(filter)
        self._check()
        id = self._local.advertise(wanted)
        try:
            await self._advertisements.wait(id)
        except BaseException:  # it was refused, or whoever waited no longer does: nobody can take it back later
            self._local.unadvertise(id)
            raise
        return id

    def unadvertise(self, id: str) -> None:
        """Withdraw an advertisement."""
        name_of(id, "id", "give what `advertise` has returned")
        self._check()
        self._local.unadvertise(id)
