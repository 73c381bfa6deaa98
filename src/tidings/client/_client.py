"""The client: what an application uses to publish and subscribe.

Everything happens on the event loop of whoever opened it; there is no thread. In the background run one task that keeps
the connection, one for each durable subscription, and one for each callback that has to be awaited. Closing the client
ends them all. `_state` has the states of a client, and what may be done in each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from tidings.aggregation.deploying.messages import FEATURE as DEPLOYMENTS
from tidings.aggregation.messages import FEATURE
from tidings.aggregation.quenching import FEATURE as QUENCH
from tidings.aggregation.receiving import FEATURE as RECEIVERS
from tidings.broker import MAX_NUMBER, MAX_TIMEOUT, LocalBroker, current
from tidings.model import (
    ArgumentRefused,
    Duplicates,
    Location,
    Matches,
    Notification,
    TidingsError,
    ValueRefused,
    object_attributes,
)
from tidings.wire import GROUP_LOOKS, REQUESTS, Consistency, Extension, Frame, Gap, Opening, Quality, Welcome

from ._address import Address, ConnectionFailed
from ._admin import Admin
from ._aggregates import Aggregates
from ._arguments import choice_of, filter_of, integer_of, microseconds_of, name_of, shown
from ._carried import WRITE_SECONDS, Carried, Keeping
from ._groups import Groups
from ._incoming import Incoming
from ._inquiries import Inquiries
from ._jobs import Acks, Job
from ._moves import Moves
from ._pending import Pending
from ._publications import Publications
from ._quenching import Quenching
from ._questions import Questions
from ._receipt import UNHEARD, Receipt
from ._receivers import COUNT_WITHIN, Counting, CountTerms
from ._requests import REQUEST_TIMEOUT, Replies, Requests
from ._settings import Settings
from ._state import Lifecycle, State, Trigger
from ._subscription import Subscription
from ._subscriptions import Subscriptions
from ._terms import AnyPast, Terms
from ._typed import Misfit
from ._uplink import Uplink

log = logging.getLogger("tidings.client")

_T = TypeVar("_T")

CLOSING_SOON = 2.0
"""Seconds that closing may take before the log says what it waits for."""
_FIRE = Quality.FIRE  # as a name of its own it is found faster
_QUALITIES = {name.lower(): quality for name, quality in Quality.__members__.items()}


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """The counters of one client."""

    published: int
    unacknowledged: int
    received: int
    duplicates: int
    gaps: int
    reconnects: int
    broker: str
    """The broker that it is connected to, or was connected to last."""
    connected: bool
    quenched: int = 0
    """Publications that were left out, because nobody wants them."""


class Client(Inquiries):
    """A connection to the service. Made by `tidings.connect`, opened by `async with` or `await`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._link = Uplink(
            settings.name or "",
            settings.addresses,
            token=settings.token,
            attributes=settings.brought,
            tls=settings.tls,
            serialiser=settings.serialiser,
            renewed=self._renewed,
            on_disconnect=settings.on_disconnect,
            on_reconnect=settings.on_reconnect,
            take_over=settings.take_over,
            silence=settings.silence,
        )
        self._life = Lifecycle(lambda: self.name)
        self._link.on_failure = self._lost
        # A later client of the same name has larger numbers: what it publishes is not taken for a repetition.
        published = 0 if settings.own_numbers else _now()
        if settings.remember is None:
            self._local = LocalBroker(self._link.name, self._link.send, published=published)
        else:
            from tidings.history.caching import RememberingLocalBroker  # noqa: PLC0415 - who does not ask does not pay

            self._local = RememberingLocalBroker(
                self._link.name, self._link.send, published=published, limits=settings.remember, now=_now
            )
        self._link.receive = self._local.receive
        self._publications = Publications(settings.max_unacknowledged)
        self._questions = Questions(lambda question: self._link.send(Frame(question)), self._check)
        self._subscriptions = Subscriptions(self._local, self._link, self._questions)
        self._advertisements: Pending[None] = Pending()
        self.admin = Admin(lambda body: self._link.send(Frame(Extension("scopes", body))), self._check)
        """The scope graph: who sees what."""
        self._counting = Counting(lambda body: self._link.send(Frame(Extension(RECEIVERS, body))))
        self.aggregates = Aggregates(
            lambda body: self._link.send(Frame(Extension(FEATURE, body))),
            self._check,
            self._counting,
            lambda body: self._link.send(Frame(Extension(DEPLOYMENTS, body))),
        )
        """Questions about the traffic: how many would hear this?"""
        self.groups = Groups(
            lambda body: self._link.send(Frame(Extension(GROUP_LOOKS, body))), self._check, lambda: self._link.features
        )
        """Groups: who is in them, and what waits for them."""
        self._quenching = Quenching(lambda body: self._link.send(Frame(Extension(QUENCH, body))))
        self._link.on_lost, self._link.on_resumed = self._disconnected, self.aggregates.resumed
        self._moves = Moves(self._local, self._link)
        self._requests = Requests(lambda message: self._link.send(Frame(message)), self._check)
        self._subscriptions.answer = self._requests.reply
        self._local.observer = Incoming(
            self._publications,
            self._subscriptions,
            self._advertisements,
            self._questions,
            admin=self.admin,
            aggregates=self.aggregates,
            counting=self._counting,
            groups=self.groups,
            quenching=self._quenching,
            moves=self._moves,
            requests=self._requests,
            crossing=self._link.crossing,
        )
        self._keeping = Keeping(settings.state) if settings.state is not None else None
        self._writer: asyncio.Task[None] | None = None
        self._published = 0
        self._witnessed = False

    @property
    def name(self) -> str:
        """The name of this client in the network; without one of its own, "" until a broker has given it one."""
        return self._link.name

    @property
    def state(self) -> State:
        """Whether the client is unopened, open, closed, or between two of these."""
        return self._life.state

    @property
    def connected(self) -> bool:
        """Whether there is a connection now. An open client without one is trying to reconnect."""
        return self._link.connected

    @property
    def place(self) -> Location | None:
        """Where the broker of this client stands, which is what `myloc` means in filters; None: that has no place."""
        return self._local.place

    @property
    def moved(self) -> Moves:
        """The moves of this client from broker to broker: `async for move in client.moved`.

        Each iteration gets the moves that end from then on, with what they have cost: see `Move`. It ends when the
        client is closed.
        """
        return self._moves

    # --- coming and going -----------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Client]:
        return self._open().__await__()

    async def _open(self) -> Client:
        """Connect, unless it is connected already."""
        if self._life.take(Trigger.OPEN) is State.OPEN:
            return self
        if (witness := getattr(asyncio.get_running_loop(), "witness", None)) is not None and not self._witnessed:
            # The loop of a simulated world: it writes down what this client does.
            self._link.receive, self._witnessed = witness(self._local), True
        try:
            self._carry_on()
            await self._link.open(self._settings.wait)
        except BaseException:
            self._life.take(Trigger.REFUSED)
            if self._keeping is not None:
                self._keeping.close()
            raise
        if self._life.state is State.CLOSED:  # by another task, meanwhile
            await self._link.close(self._life.error())
            raise self._life.error()
        self._life.take(Trigger.OPENED)
        if self._keeping is not None and self._keeping.is_file:
            self._writer = asyncio.create_task(self._write_states(self._keeping), name="tidings state")
        return self

    def _carry_on(self) -> None:
        """Come as the client that an earlier process was, if there was one."""
        if self._keeping is not None and (carried := self._keeping.open(self.name)) is not None:
            self._link.carry_on(carried.name, carried.attached, carried.broker)
            self._local.name = carried.name
            self._subscriptions.durables.carried = dict(carried.durable)

    async def _write_states(self, keeping: Keeping) -> None:
        while True:
            self._write_state(keeping)
            await asyncio.sleep(WRITE_SECONDS)

    def _write_state(self, keeping: Keeping) -> None:
        try:
            keeping.write(self._carried())
        except OSError as error:
            log.warning("the state of client '%s' cannot be written: %s", self.name, error)

    def _carried(self) -> Carried:
        return Carried(self.name, self._link.attached, self._link.broker, self._subscriptions.durables.positions())

    def snapshot(self) -> dict[str, Any]:
        """Return what the next process of this client needs to continue: JSON, for `tidings.connect(..., state=...)`.

        An application that keeps its own state keeps this with it, in the same transaction.
        """
        self._check()
        return self._carried().plain()

    async def __aenter__(self) -> Client:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(in_order=error is None)

    async def close(self) -> None:
        """Wait until callbacks have handled what has arrived and publications are acknowledged, then disconnect.

        Raises the first refusal of a publication whose receipt was not awaited. Closing again does nothing.
        """
        await self._close(in_order=True)

    async def _close(self, *, in_order: bool) -> None:
        if self._life.take(Trigger.CLOSE) not in (State.OPEN, State.FAILED):
            if self._life.state is State.CLOSED:
                self._link.give_up(self._life.error())  # whoever is opening it hears it
            return
        reminder = asyncio.get_running_loop().call_later(CLOSING_SOON, self._closes_slowly)
        try:
            if in_order:
                await self._subscriptions.drain()
                await self._publications.flush()
                await self._subscriptions.durables.keep()
                await self._subscriptions.leave_work()
        finally:
            reminder.cancel()
            self._life.take(Trigger.CLOSED)
            if self._writer is not None:
                self._writer.cancel()
            if self._keeping is not None:
                self._write_state(self._keeping)
                self._keeping.close()
            self._subscriptions.durables.end()
            self._subscriptions.finish(None)
            await self._subscriptions.end_callbacks()
            self._quenching.end()
            await self._link.close(self._life.error())
            assert self._link.failure is not None
            self._failed(self._link.failure)  # other tasks may still wait for something

    def _closes_slowly(self) -> None:
        where = f"broker '{self._link.broker}'" if self._link.connected else "a broker, and there is none now"
        log.warning(
            "closing the client '%s' waits for %s: %d unacknowledged", self.name, where, len(self._publications)
        )

    async def move(self, url: str) -> None:
        """Go to another broker of the network, with everything: subscriptions continue without loss or repetition.

        There is no need to call this: a client that loses its broker finds another by itself. It is for applications
        that know better. The broker is tried first from now on; if it does not let the client in, `ConnectionFailed` is
        raised, and the client is connected to another of its brokers.
        """
        address = Address.parse(url)
        if self._settings.token is not None and not self._settings.insecure:
            address.check_token()
        self._check()
        await self._link.move(address)

    async def check(self) -> bool:
        """Find out at once whether the connection works: for applications that hear of a new network.

        The broker has a second to answer; otherwise, or if there is no connection, the brokers of the client are tried
        at once. Returns when the client is connected: True if the connection worked, False if it is another one.
        Subscriptions continue without loss or repetition. There is no need to call this: see `silence` of
        `tidings.connect`. A client whose application does not keep up with what comes cannot hear an answer, and takes
        its connection for a good one.
        """
        self._check()
        return await self._link.check()

    async def flush(self) -> None:
        """Wait until every publication is acknowledged; raise the first refusal whose receipt was not awaited."""
        self._check()
        await self._publications.flush()

    # --- publishing -----------------------------------------------------------------------------------

    async def publish(
        self,
        notification: object = None,
        /,
        *,
        quality: Quality | str = Quality.DEFAULT,
        ttl: float | None = None,
        publisher_seq: int | None = None,
        count_receivers: bool | str = False,
        count_within: float = COUNT_WITHIN,
        quench: bool = False,
        **attributes: object,
    ) -> Receipt:
        """Publish attributes, a mapping, a dataclass or a msgspec Struct; return once the publication is on its way.

        Unless a `quality` is given, the broker chooses: `stored` where it has a store, else `accepted`. `await` the
        receipt to wait for the acknowledgement; then `receipt.quality` says what was reached.

        While too many publications are unacknowledged, or while the broker takes no more, this call waits: a fast
        publisher is slowed down. Pass a mapping for attributes whose names are not Python names, or those of other
        arguments. For an object, `type` holds the names of its class and superclasses, unless it has a field of that
        name.

        `publisher_seq` is the number of this publication, for clients that were connected with `own_numbers`.

        With `count_receivers`, this call waits until the clients that get the publication have acknowledged it, at most
        `count_within` seconds, and `receipt.receivers` says how many did. True counts in the root scope; give the name
        of another one to count there. This needs the right to count in that scope: without it, `AccessDenied` is
        raised, and nothing is published.

        With `quench`, what nobody wants is not published: it does not leave this client, and `receipt.quenched` is
        True. It would be missing from the past, so this needs quality `fire`, or a broker without a store; otherwise
        `ArgumentRefused` is raised. Who does that knows what others subscribe to, and needs the right `administer`.
        """
        content: Mapping[str, object]
        if notification is None:
            content = attributes
        elif attributes or type(notification) is not dict:
            content = _notification(notification, attributes)
        else:
            content = notification
        if not isinstance(quality, Quality):
            known = _QUALITIES.get(quality)
            quality = known if known is not None else choice_of(Quality, quality, "quality")
        if publisher_seq is not None:
            integer_of(publisher_seq, "publisher_seq", 1, MAX_NUMBER)
        lifetime = None if ttl is None else microseconds_of(ttl, "a time to live", MAX_NUMBER)
        if quench:
            self._check()
            if count_receivers:
                raise ArgumentRefused("quench and count_receivers: what is not published has no receivers; choose one")
            if quality is not _FIRE:
                await self._quenching.answered(quality)
            if (receipt := self._quenching.leaves_out(content, quality)) is not None:
                return receipt
        if not self._link.flowing or self._publications.full:
            await self._may_publish()
        if count_receivers:
            terms = CountTerms.checked(count_receivers, count_within, quality)
            return await self._publish_counted(content, quality, lifetime, publisher_seq, terms)
        number = self._local.publish(content, quality=quality, ttl=lifetime, seq=publisher_seq)
        self._published += 1
        if quality is _FIRE:
            return Receipt(number, _FIRE, UNHEARD)
        return self._publications.add(number)

    async def _publish_counted(
        self,
        content: Mapping[str, object],
        quality: Quality,
        ttl: int | None,
        seq: int | None,
        terms: CountTerms,
    ) -> Receipt:
        """Publish something, and wait until its receivers are counted."""
        body = Notification(content)  # what cannot be published is refused before anybody is asked
        id = await self._counting.reserve(terms)
        try:
            await self._may_publish()
            number = seq if seq is not None else self._local.published + 1
            self._counting.follow(id, number)
            self._local.publish(body, quality=quality, ttl=ttl, seq=number)
            self._published += 1
            receipt = self._publications.add(number)
            await receipt
        except BaseException:
            if self._link.failure is None:
                self._counting.abandon(id)
            raise
        receipt.receivers = await self._counting.received(id, terms)
        return receipt

    # --- requests -------------------------------------------------------------------------------------

    def request(
        self, notification: object = None, /, *, timeout: float = REQUEST_TIMEOUT, **attributes: object
    ) -> Replies:
        """Ask whoever subscribes to this: `await` the result for the first reply, or iterate over all that come.

        An iteration ends after `timeout` seconds. `NoResponder` is raised at once if the broker knows that nobody gets
        the request, `NoReply` if none has come in time. Replies go to this client and to nobody else. Whoever handles
        the request replies by `await request.reply(...)`.
        """
        microseconds_of(timeout, "a timeout", MAX_TIMEOUT)
        content = _notification(notification, attributes) if notification is not None else attributes

        async def publish(opening: Opening) -> int:
            self._check()
            if REQUESTS not in (self._link.features or ()):
                raise TidingsError(
                    f"broker '{self._link.broker}' is of a version that knows no requests; upgrade it, or publish"
                )
            if not self._link.flowing or self._publications.full:
                await self._may_publish()
            self._published += 1
            return self._local.publish(content, opens=opening)

        return Replies(self._requests, publish, timeout)

    async def reply(self, notification: object = None, /, **attributes: object) -> None:
        """Reply to the request that is being handled here, as `request.reply` does.

        `NotARequest` if there is none, or more than one.
        """
        content = _notification(notification, attributes) if notification is not None else attributes
        await self._requests.reply(current(), content)

    async def _may_publish(self) -> None:
        """Wait until the broker takes more; raise the reason if it never will."""
        self._check()
        while not self._link.flowing or self._publications.full:
            await (self._publications.moved() if self._link.flowing else self._link.flow())
            self._check()

    async def publish_many(self, notifications: Iterable[object], *, quality: Quality | str = Quality.DEFAULT) -> int:
        """Publish one after the other and wait until all are acknowledged; return how many there were."""
        if isinstance(notifications, Mapping | str | bytes) or not hasattr(notifications, "__iter__"):
            raise ArgumentRefused(f"notifications={shown(notifications)}; give a list of mappings or objects")
        count = 0
        for notification in notifications:
            await self.publish(notification, quality=quality)
            count += 1
        await self.flush()
        return count

    # --- subscribing ----------------------------------------------------------------------------------

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

    def statistics(self) -> ClientStatistics:
        """Return the counters of this client."""
        return ClientStatistics(
            self._published,
            len(self._publications),
            self._link.frames,
            self._local.duplicates,
            self._subscriptions.gaps,
            self._link.reconnects,
            self._link.broker,
            self._link.connected,
            self._quenching.count,
        )

    @property
    def _broker_name(self) -> str:
        return self._link.broker

    def _check(self) -> None:
        """Raise the reason if this client is not open."""
        if self._link.failure is not None:
            raise self._link.failure
        self._life.check()

    # --- what the link calls --------------------------------------------------------------------------

    def _renewed(self, welcome: Welcome) -> None:
        self._local.name = self.name
        self._local.arrive(welcome.name, _place(welcome))
        self.admin.renewed()
        if not self._settings.own_numbers:
            self._local.go_on_after(welcome.published)
        self._requests.renewed()
        self._local.announce()
        self._questions.ask_again()
        self.aggregates.renewed()
        self._counting.renewed()
        self.groups.renewed()
        self._quenching.renewed()

    def _disconnected(self) -> None:
        self.aggregates.disconnected()
        self._quenching.disconnected()

    def _lost(self, error: ConnectionFailed) -> None:
        """No broker takes this client any more."""
        self._life.take(Trigger.FAIL)
        self._failed(error)

    def _failed(self, error: ConnectionFailed) -> None:
        self._moves.end()
        self._subscriptions.finish(error)
        self._publications.failed(error)
        self._advertisements.failed(error)
        self._questions.answers.failed(error)
        self._requests.failed(error)
        self.admin.failed(error)
        self.aggregates.failed(error)
        self._counting.failed(error)
        self.groups.failed(error)


def _place(welcome: Welcome) -> Location | None:
    try:
        return Location(welcome.place) if welcome.place else None
    except ValueRefused:
        return None  # of another version


def _notification(given: object, more: Mapping[str, object]) -> Mapping[str, object]:
    """What `publish` was given, if it is more than attributes or one dict."""
    if isinstance(given, Mapping):
        return Notification(given, **more) if more else given
    if isinstance(given, type) or not (hasattr(given, "__struct_fields__") or hasattr(given, "__dataclass_fields__")):
        raise ArgumentRefused(
            f"{shown(given)} cannot be published; give attributes (symbol='SAP'), a mapping, a dataclass or a "
            "msgspec.Struct"
        )
    return Notification(object_attributes(given), **more)


def _now() -> int:
    return time.time_ns() // 1_000
