"""The client: what an application uses to publish and subscribe.

Everything happens on the event loop of whoever connected; there is no thread and, besides one task that keeps the
connection and one for each durable subscription, nothing in the background. Leaving the context manager ends it all.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TypeVar

from tidings.broker import MAX_NUMBER, MAX_TIMEOUT, LocalBroker, check_place
from tidings.history import CacheLimits, RememberingLocalBroker
from tidings.model import EVERYTHING, Bound, Duplicates, Matches, Notification, TidingsError
from tidings.wire import (
    SERIALISERS,
    Answer,
    Browse,
    Consistency,
    Extension,
    Frame,
    Gap,
    Measure,
    Measured,
    Offers,
    Page,
    Past,
    Quality,
    Question,
    Read,
    Status,
    StatusReply,
    StatusRequest,
    Welcome,
    decode_status,
)

from ._address import Address, ConnectionFailed
from ._admin import Admin
from ._arguments import choice_of, filter_of, microseconds_of
from ._awaited import Awaited
from ._link import Link
from ._publications import Publications
from ._questions import Questions
from ._receipt import UNHEARD, Receipt
from ._reception import Reception
from ._subscription import Subscription
from ._subscriptions import Subscriptions

_Answer = TypeVar("_Answer", bound=Answer)

STATUS_TIMEOUT = 5.0
"""Seconds to wait for a broker to say how it is."""
MAX_UNACKNOWLEDGED = 8_192
"""Publications that may wait for their acknowledgement before `publish` waits, too."""


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """What a client has done so far."""

    published: int
    unacknowledged: int
    received: int
    duplicates: int
    gaps: int
    reconnects: int
    broker: str
    """The broker that it is connected to, or was last."""
    connected: bool


class Client:
    """A connection to the service. Made by `tidings.connect`."""

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        name: str | None,
        token: str | None,
        tls: ssl.SSLContext | None,
        serialiser: str,
        max_unacknowledged: int,
        remember: CacheLimits | None,
        own_numbers: bool,
        insecure: bool,
    ) -> None:
        if serialiser not in SERIALISERS:
            known = " or ".join(f'"{known}"' for known in SERIALISERS)
            raise TidingsError(f"'{serialiser}' is no serialiser; choose {known}")
        if max_unacknowledged < 1:
            raise TidingsError(f"max_unacknowledged is {max_unacknowledged}, with which nothing is ever sent; give 1")
        addresses = [Address.parse(url) for url in ([urls] if isinstance(urls, str) else urls)]
        if not addresses:
            raise TidingsError("no broker is named; give its address: tidings://host:port")
        for address in addresses if token is not None and not insecure else ():
            address.check_token()
        self._link = Link(
            name or "",
            addresses,
            token=token,
            tls=tls,
            serialiser=serialiser,
            renewed=self._renewed,
        )
        self._link.on_failure = self._failed
        # A later client of the same name has larger numbers: what it publishes is not taken for a repetition.
        published = 0 if own_numbers else time.time_ns() // 1_000
        if remember is None:
            self._local = LocalBroker(self._link.name, self._link.send, published=published)
        else:
            self._local = RememberingLocalBroker(
                self._link.name, self._link.send, published=published, limits=remember, now=_now
            )
        self._own_numbers = own_numbers
        self._link.receive = self._local.receive
        self._publications = Publications(max_unacknowledged)
        self._questions = Questions(lambda question: self._link.send(Frame(question)), self._check)
        self._subscriptions = Subscriptions(self._local, self._link, self._questions)
        self._advertisements: Awaited[None] = Awaited()
        self.admin = Admin(lambda body: self._link.send(Frame(Extension("scopes", body))), self._check)
        """The scope graph: who sees what."""
        self._local.observer = Reception(
            self._publications, self._subscriptions, self._advertisements, self._questions, self.admin
        )
        self._published = 0

    @property
    def name(self) -> str:
        """What this client is called in the network; "" until a broker has given it a name, if it was given none."""
        return self._link.name

    # --- coming and going -----------------------------------------------------------------------------

    async def __aenter__(self) -> Client:
        await self._link.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
                await self._subscriptions.durables.keep()
        finally:
            self._subscriptions.durables.end()
            self._subscriptions.finish(None)
            await self._link.close()
            assert self._link.failure is not None
            self._failed(self._link.failure)  # other tasks may still wait for something

    async def flush(self) -> None:
        """Wait until every publication is acknowledged; raise the first refusal that nobody has asked about."""
        await self._publications.flush()

    # --- publishing -----------------------------------------------------------------------------------

    async def publish(
        self,
        notification: Mapping[str, object] | None = None,
        /,
        *,
        quality: Quality | str = Quality.DEFAULT,
        ttl: float | None = None,
        publisher_seq: int | None = None,
        **attributes: object,
    ) -> Receipt:
        """Publish attributes. Returns as soon as the publication is under way.

        Unless a `quality` is given, the broker chooses: `stored` where it has a store, else `accepted`. `await` the
        receipt to wait for the acknowledgement; then `receipt.quality` says what was reached.

        While too many publications wait for theirs, or while the broker does not take more, this waits: a fast
        publisher is slowed down. Give attributes whose names are no Python names, or are `quality`, `ttl` or
        `publisher_seq`, as a mapping.

        `publisher_seq` is the number of this publication, from clients that were connected with `own_numbers`.
        """
        if notification is None:
            notification = attributes
        elif attributes:
            notification = Notification(notification, **attributes)
        if not isinstance(quality, Quality):
            quality = choice_of(Quality, quality, "quality")
        if not self._link.flowing or self._publications.full:
            await self._may_publish()
        lifetime = None if ttl is None else microseconds_of(ttl, "a time to live", MAX_NUMBER)
        number = self._local.publish(notification, quality=quality, ttl=lifetime, seq=publisher_seq)
        self._published += 1
        if quality is Quality.FIRE:
            return Receipt(number, Quality.FIRE, UNHEARD)
        return self._publications.add(number)

    async def _may_publish(self) -> None:
        """Wait until the broker takes more; raise the reason if it never will."""
        self._check()
        while not self._link.flowing or self._publications.full:
            await (self._publications.moved() if self._link.flowing else self._link.flow())
            self._check()

    async def publish_many(
        self, notifications: Iterable[Mapping[str, object]], *, quality: Quality | str = Quality.DEFAULT
    ) -> int:
        """Publish one after the other and wait until all are acknowledged; how many there were."""
        count = 0
        for notification in notifications:
            await self.publish(notification, quality=quality)
            count += 1
        await self.flush()
        return count

    # --- subscribing ----------------------------------------------------------------------------------

    def subscribe(
        self,
        filter: Matches | str,
        *,
        callback: Callable[[Notification], None] | None = None,
        on_gap: Callable[[Gap], None] | None = None,
        receive_own: bool = True,
        durable: str | None = None,
        past: Bound | None = None,
        consistency: Consistency | str = Consistency.STRICT,
        timeout: float | None = None,
        respect_ttl: bool = False,
        with_origin: bool = False,
        duplicates: Duplicates | str = Duplicates.DEFAULT,
    ) -> Subscription:
        """Subscribe. Iterate over the result, or give a `callback`, which must not block.

        `duplicates` says what counts as a second copy where scopes let an event come on several ways: "suppress" drops
        the same event in the same form, "event" in any form, and for "per_path" each way brings a notification of its
        own. If it is left out, the scope decides; one that says nothing suppresses.

        `past` reaches back: `tidings.last(10)`, `tidings.since("5m")` or `tidings.last(10, since="5m")`. What was
        published before comes first, then everything that follows, without a gap. With `consistency="strict"` all
        brokers are asked first, for `timeout` seconds at most; "best_effort" goes on as soon as there is enough, even
        if that is new. `history_report` tells what was found. With `respect_ttl`, what has outlived its time to live is
        left out; with `with_origin`, each notification has `from_past`, `published_at` and `identity`.

        `on_gap` is called with what was lost; without it, losses are logged as warnings. With `durable`, a name, the
        broker keeps how far the application has come, under this client's name and that one: after a crash, or after
        `unsubscribe`, the subscription goes on from there. `forget` ends it. Another filter changes it.
        """
        self._check()
        wanted = filter_of(filter)
        check_place(wanted)
        subscription = Subscription(self._subscriptions, wanted, callback, on_gap, receive_own)
        subscription.duplicates = choice_of(Duplicates, duplicates, "rule for second copies")
        subscription.with_origin = with_origin
        consistency = choice_of(Consistency, consistency, "consistency")
        if past is not None:
            if durable is not None:
                raise TidingsError(
                    f"the durable subscription '{durable}' goes on where it was; give either `durable` or `past`"
                )
            patience = None if timeout is None else microseconds_of(timeout, "a timeout", MAX_TIMEOUT)
            subscription.past = Past(past, consistency, patience, respect_ttl)
        if durable is None:
            self._subscriptions.add(subscription)
        else:
            self._subscriptions.add_durable(subscription, durable)
        return subscription

    async def forget(self, name: str) -> None:
        """End a durable subscription for good: the broker keeps nothing of it. Ending it again does nothing."""
        await self._subscriptions.durables.forget(name)

    async def advertise(self, filter: Matches | str) -> str:
        """Announce what this client may publish; returns its id once the network knows."""
        self._check()
        id = self._local.advertise(filter)
        try:
            await self._advertisements.wait(id)
        except BaseException:  # it was refused, or whoever waited no longer does: nobody can take it back later
            self._local.unadvertise(id)
            raise
        return id

    def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        self._local.unadvertise(id)

    def statistics(self) -> ClientStatistics:
        """What this client has done so far."""
        return ClientStatistics(
            self._published,
            len(self._publications),
            self._link.frames,
            self._local.duplicates,
            self._subscriptions.gaps,
            self._link.reconnects,
            self._link.broker,
            self._link.connected,
        )

    async def status(self, timeout: float = STATUS_TIMEOUT) -> Status:
        """What the broker says about itself; only those who may administer it are answered."""
        reply = await self._ask(StatusRequest, StatusReply, timeout)
        return decode_status(reply.body)

    async def browse(self, filter: Matches | str = EVERYTHING, *, timeout: float = STATUS_TIMEOUT) -> Offers:
        """What is advertised anywhere in the network and may bring something that passes the filter.

        Each filter is shown as far as this client may subscribe to it. Refused where brokers route without
        advertisements.
        """
        wanted = filter_of(filter)
        return await self._ask(lambda id: Browse(id, wanted), Offers, timeout)

    async def measure_log(
        self, after: tuple[int, int] = (0, 0), *, rows: int = 0, size: int = 0, timeout: float | None = None
    ) -> Measured:
        """What the log of the broker holds, and how far one gets in it from a position with so many rows or bytes.

        A broker that is down is waited for, for `timeout` seconds; then `ConnectionFailed` is raised.
        """
        return await self._ask(lambda id: Measure(id, after, rows, size), Measured, timeout)

    async def read_log(
        self,
        after: tuple[int, int],
        upto: tuple[int, int],
        filter: Matches | str = EVERYTHING,
        *,
        timeout: float | None = None,
    ) -> AsyncIterator[Page]:
        """What the log of the broker holds after one position, up to another, page by page, in the order of the log.

        The log holds what clients of that broker have published with quality `stored`, as far as it is synced. A page
        that does not come within `timeout` seconds is a `ConnectionFailed`.
        """
        wanted = filter_of(filter)
        while after < upto:
            page = await self._ask(partial(Read, after=after, upto=upto, filter=wanted), Page, timeout)
            yield page
            if page.reached <= after:
                return  # the log ends before
            after = page.reached

    async def _ask(self, question: Callable[[str], Question], kind: type[_Answer], timeout: float | None) -> _Answer:
        """What the broker answers in time; `question` makes the message of an id, which a new session is asked, too."""
        try:
            async with asyncio.timeout(timeout):
                answer = await self._questions.ask(question)
        except TimeoutError:
            where = self._link.broker or "the broker"
            raise ConnectionFailed(f"'{where}' has not answered for {timeout:g} seconds; is it running?") from None
        assert isinstance(answer, kind)
        return answer

    def _check(self) -> None:
        """Raise the reason if this client has ended."""
        if self._link.failure is not None:
            raise self._link.failure

    # --- what the link calls --------------------------------------------------------------------------

    def _renewed(self, welcome: Welcome) -> None:
        self._local.name = self.name
        self.admin.renewed()
        if not self._own_numbers:
            self._local.go_on_after(welcome.published)
        self._local.announce()
        self._questions.ask_again()

    def _failed(self, error: ConnectionFailed) -> None:
        self._subscriptions.finish(error)
        self._publications.failed(error)
        self._advertisements.failed(error)
        self._questions.answers.failed(error)
        self.admin.failed(error)


def connect(
    urls: str | Sequence[str] = "tidings://localhost:7311",
    *,
    name: str | None = None,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    serialiser: str = "msgpack",
    max_unacknowledged: int = MAX_UNACKNOWLEDGED,
    remember: CacheLimits | None = None,
    own_numbers: bool = False,
    insecure: bool = False,
) -> Client:
    """A client of the service, to be used with `async with`.

    `urls` names one broker or several; if one is lost, the client goes on with another. `name` is unique in the
    network; without it the broker gives the client one, which it keeps for as long as it lives. Where brokers know
    identities, `name` must belong to the identity of the `token` or certificate: see docs/security.md. `tls` says whom
    to trust and which certificate to show.

    With `remember`, the past of a subscription is what this client has got for others, kept within these limits. It is
    there before `subscribe` returns; no broker is asked. See docs/history-strategies.md, "local".

    With `own_numbers` the application numbers what it publishes, from 1 and growing, for as long as it uses its `name`:
    what it publishes again under a number that the broker knows is acknowledged, and published once.

    A `token` is sent to brokers on this machine and to `tidings+tls://`. With `insecure` it is sent to others, too, and
    everybody on the way can read it; without, `NotAdmitted` is raised.
    """
    return Client(
        urls,
        name=name,
        token=token,
        tls=tls,
        serialiser=serialiser,
        max_unacknowledged=max_unacknowledged,
        remember=remember,
        own_numbers=own_numbers,
        insecure=insecure,
    )


def _now() -> int:
    return time.time_ns() // 1_000
