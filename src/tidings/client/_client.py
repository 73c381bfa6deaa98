"""The client: what an application uses to publish and subscribe.

Everything happens on the event loop of whoever opened it; there is no thread. In the background run one task that keeps
the connection, one for each durable subscription, and one for each callback that has to be awaited. Closing the client
ends them all. `_state` has the states of a client, and what may be done in each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Generator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tidings.aggregation.deploying.messages import FEATURE as DEPLOYMENTS
from tidings.aggregation.messages import FEATURE
from tidings.aggregation.quenching import FEATURE as QUENCH
from tidings.aggregation.receiving import FEATURE as RECEIVERS
from tidings.broker import LocalBroker
from tidings.model import Location, ValueRefused
from tidings.wire import GROUP_LOOKS, Extension, Frame, Welcome

from ._address import Address, ConnectionFailed
from ._admin import Admin
from ._aggregates import Aggregates
from ._carried import WRITE_SECONDS, Carried, Keeping
from ._groups import Groups
from ._incoming import Incoming
from ._inquiries import Inquiries
from ._moves import Moves
from ._pending import Pending
from ._publications import Publications
from ._publishing import Publishing
from ._quenching import Quenching
from ._questions import Questions
from ._receivers import Counting
from ._requests import Requests
from ._settings import Settings
from ._state import Lifecycle, State, Trigger
from ._subscribing import Subscribing
from ._subscriptions import Subscriptions
from ._uplink import Uplink

log = logging.getLogger("tidings.client")

CLOSING_SOON = 2.0
"""Seconds that closing may take before the log says what it waits for."""


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


class Client(Publishing, Subscribing, Inquiries):
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
            overlap=settings.overlap,
        )
        send = self._link.traffic.send
        self._life = Lifecycle(lambda: self.name)
        self._link.on_failure = self._lost
        # A later client of the same name has larger numbers: what it publishes is not taken for a repetition.
        published = 0 if settings.own_numbers else _now()
        if settings.remember is None:
            self._local = LocalBroker(self._link.name, send, published=published)
        else:
            from tidings.history.caching import RememberingLocalBroker  # noqa: PLC0415 - who does not ask does not pay

            self._local = RememberingLocalBroker(
                self._link.name, send, published=published, limits=settings.remember, now=_now
            )
        self._link.traffic.hand_to(self._local.receive, self._local.take)
        self._publications = Publications(settings.max_unacknowledged)
        self._questions = Questions(lambda question: send(Frame(question)), self._check)
        self._subscriptions = Subscriptions(self._local, self._link, self._questions)
        self._advertisements: Pending[None] = Pending()
        self.admin = Admin(lambda body: send(Frame(Extension("scopes", body))), self._check)
        """The scope graph: who sees what."""
        self._counting = Counting(lambda body: send(Frame(Extension(RECEIVERS, body))))
        self.aggregates = Aggregates(
            lambda body: send(Frame(Extension(FEATURE, body))),
            self._check,
            self._counting,
            lambda body: send(Frame(Extension(DEPLOYMENTS, body))),
        )
        """Questions about the traffic: how many would hear this?"""
        self.groups = Groups(
            lambda body: send(Frame(Extension(GROUP_LOOKS, body))), self._check, lambda: self._link.features
        )
        """Groups: who is in them, and what waits for them."""
        self._quenching = Quenching(lambda body: send(Frame(Extension(QUENCH, body))))
        self._link.on_lost, self._link.on_resumed = self._disconnected, self.aggregates.resumed
        self._moves = Moves(self._local, self._link)
        self._requests = Requests(lambda message: send(Frame(message)), self._check)
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
            self._link.traffic.receive, self._witnessed = witness(self._local), True
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

    def statistics(self) -> ClientStatistics:
        """Return the counters of this client."""
        return ClientStatistics(
            self._published,
            len(self._publications),
            self._link.traffic.frames,
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


def _now() -> int:
    return time.time_ns() // 1_000
