"""The client: what an application uses to publish and subscribe.

Everything happens on the event loop of whoever connected; there is no thread and, besides one task that keeps the
connection and one for each durable subscription, nothing in the background. Leaving the context manager ends it all.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from tidings.broker import MAX_TIMEOUT, LocalBroker
from tidings.history import CacheLimits, RememberingLocalBroker
from tidings.model import EVERYTHING, Bound, Duplicates, EventKey, Filter, Identity, Matches, Notification, TidingsError
from tidings.wire import (
    Answer,
    Browse,
    Consistency,
    Extension,
    Forget,
    Frame,
    Gap,
    HistoryReport,
    Keep,
    Measure,
    Measured,
    Offers,
    Page,
    Past,
    Quality,
    Question,
    Read,
    Refused,
    Status,
    StatusReply,
    StatusRequest,
    Welcome,
    decode_status,
)

from ._address import Address, ConnectionFailed
from ._admin import Admin
from ._durable import Durable, Durables
from ._link import Link
from ._questions import Questions
from ._receipt import UNHEARD, Receipt, error_of
from ._subscription import Subscription

log = logging.getLogger("tidings.client")

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
    ) -> None:
        self.name = name or f"client-{secrets.token_hex(6)}"
        addresses = [Address.parse(url) for url in ([urls] if isinstance(urls, str) else urls)]
        self._link = Link(
            self.name,
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
            self._local = LocalBroker(self.name, self._link.send, self, published=published)
        else:
            self._local = RememberingLocalBroker(
                self.name, self._link.send, self, published=published, limits=remember, now=_now
            )
        self._own_numbers = own_numbers
        self._link.receive = self._local.receive
        self.admin = Admin(lambda body: self._link.send(Frame(Extension("scopes", body))), self._check)
        """The scope graph: who sees what."""
        self._max_unacknowledged = max_unacknowledged
        self._receipts: dict[int, Receipt] = {}
        self._failures: list[TidingsError] = []
        self._room: asyncio.Event = asyncio.Event()
        self._idle: asyncio.Event = asyncio.Event()
        self._subscriptions: dict[str, Subscription] = {}
        self._advertisements: dict[str, asyncio.Future[None]] = {}
        self._questions = Questions(lambda question: self._link.send(Frame(question)))
        self._durables = Durables()
        self._behind: set[Subscription] = set()
        self._published = 0
        self._gaps = 0

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
                await self._durables.keep()
        finally:
            self._durables.end()
            for subscription in list(self._subscriptions.values()):
                subscription.finish(None)
            await self._link.close()

    async def flush(self) -> None:
        """Wait until every publication is acknowledged; raise the first refusal that nobody has asked about."""
        while self._receipts:
            self._idle.clear()
            await self._idle.wait()
        if self._failures:
            failures, self._failures = self._failures, []
            raise failures[0]

    # --- publishing -----------------------------------------------------------------------------------

    async def publish(
        self,
        notification: Mapping[str, object] | None = None,
        /,
        *,
        quality: Quality | str = Quality.ACCEPTED,
        ttl: float | None = None,
        publisher_seq: int | None = None,
        **attributes: object,
    ) -> Receipt:
        """Publish attributes. Returns as soon as the publication is under way.

        `await` the receipt to wait for the acknowledgement. While too many publications wait for theirs, or while
        the broker does not take more, this waits: a fast publisher is slowed down. Give attributes whose names are
        no Python names, or are `quality`, `ttl` or `publisher_seq`, as a mapping.

        `publisher_seq` is the number of this publication, from clients that were connected with `own_numbers`.
        """
        if notification is None:
            notification = attributes
        elif attributes:
            notification = Notification(notification, **attributes)
        if isinstance(quality, str):
            quality = Quality[quality.upper()]
        receipts = self._receipts
        if not self._link.flowing or len(receipts) >= self._max_unacknowledged:
            await self._may_publish()
        lifetime = None if ttl is None else int(ttl * 1_000_000)
        number = self._local.publish(notification, quality=quality, ttl=lifetime, seq=publisher_seq)
        self._published += 1
        if quality is Quality.FIRE:
            return Receipt(number, UNHEARD)
        receipt = receipts[number] = Receipt(number)
        return receipt

    async def _may_publish(self) -> None:
        """Wait until the broker takes more; raise the reason if it never will."""
        self._check()
        while not self._link.flowing or len(self._receipts) >= self._max_unacknowledged:
            if not self._link.flowing:
                await self._link.flow()
            else:
                self._room.clear()
                await self._room.wait()
            self._check()

    async def publish_many(
        self, notifications: Iterable[Mapping[str, object]], *, quality: Quality | str = Quality.ACCEPTED
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
        if isinstance(filter, str):
            filter = Filter.parse(filter)
        if isinstance(consistency, str):
            consistency = _consistency(consistency)
        if isinstance(duplicates, str):
            duplicates = Duplicates[duplicates.upper()]
        subscription = Subscription(self, filter, callback, on_gap, receive_own)
        subscription.duplicates = duplicates
        subscription.with_origin = with_origin
        if past is not None:
            if durable is not None:
                raise TidingsError(
                    f"the durable subscription '{durable}' goes on where it was; give either `durable` or `past`"
                )
            subscription.past = Past(past, consistency, _microseconds(timeout), respect_ttl)
        if durable is not None:
            self._durables.claim(durable)
            subscription.id = self._local.new_id()
            subscription.durable = Durable(self, subscription, durable)
            self._durables.add(subscription.durable)
        else:
            subscription.id = self._local.subscribe(
                filter,
                subscription.notify,
                receive_own=receive_own,
                duplicates=duplicates,
                past=subscription.past,
            )
        self._subscriptions[subscription.id] = subscription
        return subscription

    def begin(self, subscription: Subscription, after: dict[str, tuple[int, int]] | None) -> None:
        """Begin a durable subscription where it goes on; see `Subscription.begin`."""
        self._local.subscribe(
            subscription.filter,
            subscription.notify,
            id=subscription.id,
            receive_own=subscription.receive_own,
            after=after,
            duplicates=subscription.duplicates,
        )

    async def forget(self, name: str) -> None:
        """End a durable subscription for good: the broker keeps nothing of it. Ending it again does nothing."""
        self._durables.forget(name)
        await self.ask(lambda id: Forget(id, name))

    def tell(self, message: Keep) -> None:
        """Tell the broker something whose answer nobody waits for."""
        self._link.send(Frame(message))

    def position(self, subscription: Subscription) -> dict[str, tuple[int, int]] | None:
        """How far a subscription has seen each origin; None if it has ended."""
        return self._local.position(subscription.id)

    @property
    def delivering(self) -> Identity:
        """Who published what is being handed over, and where."""
        assert self._local.delivering is not None
        return self._local.delivering

    @property
    def delivering_past(self) -> bool:
        """Whether what is being handed over comes from the past."""
        return self._local.delivering_past

    def change(self, subscription: Subscription) -> None:
        """Tell the service the new filter of a subscription; see `Subscription.update`."""
        if subscription.id not in self._local.subscriptions:
            return  # a durable one that has not begun; it will, with this filter
        self._local.subscribe(
            subscription.filter,
            subscription.notify,
            id=subscription.id,
            receive_own=subscription.receive_own,
            duplicates=subscription.duplicates,
        )

    def end(self, subscription: Subscription) -> None:
        """End a subscription; see `Subscription.unsubscribe`."""
        if subscription.durable is not None:
            subscription.durable.unsubscribed()
        self._local.unsubscribe(subscription.id)
        self._subscriptions.pop(subscription.id, None)

    async def advertise(self, filter: Matches | str) -> str:
        """Announce what this client may publish; returns its id once the network knows."""
        self._check()
        id = self._local.advertise(filter)
        settled = self._advertisements[id] = asyncio.get_running_loop().create_future()
        await settled
        return id

    def unadvertise(self, id: str) -> None:
        """Take an advertisement back."""
        self._local.unadvertise(id)

    def statistics(self) -> ClientStatistics:
        """What this client has done so far."""
        return ClientStatistics(
            self._published,
            len(self._receipts),
            self._link.frames,
            self._local.duplicates,
            self._gaps,
            self._link.reconnects,
            self._link.broker,
            self._link.connected,
        )

    async def status(self, timeout: float = STATUS_TIMEOUT) -> Status:
        """What the broker says about itself; only those who may administer it are answered."""
        try:
            async with asyncio.timeout(timeout):
                reply = await self.ask(StatusRequest)
        except TimeoutError:
            raise TidingsError(f"the broker did not say how it is within {timeout:g} seconds; try again") from None
        assert isinstance(reply, StatusReply)
        return decode_status(reply.body)

    async def browse(self, filter: Matches | str = EVERYTHING, *, timeout: float = STATUS_TIMEOUT) -> Offers:
        """What is advertised anywhere in the network and may bring something that passes the filter.

        Each filter is shown as far as this client may subscribe to it. Refused where brokers route without
        advertisements.
        """
        wanted = Filter.parse(filter) if isinstance(filter, str) else filter
        answer = await self._ask_in_time(lambda id: Browse(id, wanted), timeout)
        assert isinstance(answer, Offers)
        return answer

    async def measure_log(
        self, after: tuple[int, int] = (0, 0), *, rows: int = 0, size: int = 0, timeout: float | None = None
    ) -> Measured:
        """What the log of the broker holds, and how far one gets in it from a position with so many rows or bytes.

        A broker that is down is waited for, for `timeout` seconds; then `ConnectionFailed` is raised.
        """
        answer = await self._ask_in_time(lambda id: Measure(id, after, rows, size), timeout)
        assert isinstance(answer, Measured)
        return answer

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
        wanted = Filter.parse(filter) if isinstance(filter, str) else filter
        while after < upto:
            answer = await self._ask_in_time(partial(_read, after, upto, wanted), timeout)
            assert isinstance(answer, Page)
            yield answer
            if answer.reached <= after:
                return  # the log ends before
            after = answer.reached

    async def _ask_in_time(self, question: Callable[[str], Question], timeout: float | None) -> Answer:
        try:
            async with asyncio.timeout(timeout):
                return await self.ask(question)
        except TimeoutError:
            where = self._link.broker or "the broker"
            raise ConnectionFailed(f"'{where}' has not answered for {timeout:g} seconds; is it running?") from None

    async def ask(self, question: Callable[[str], Question]) -> Answer:
        """What the broker answers; `question` makes the message of an id. It is asked again in a new session."""
        self._check()
        return await self._questions.ask(question)

    # --- flow control ---------------------------------------------------------------------------------

    def falls_behind(self, subscription: Subscription) -> None:
        """The application does not keep up: stop reading."""
        self._behind.add(subscription)
        self._link.pause()

    def keeps_up(self, subscription: Subscription) -> None:
        """The application keeps up again."""
        self._behind.discard(subscription)
        if not self._behind:
            self._link.resume()

    def _check(self) -> None:
        """Raise the reason if this client has ended."""
        if self._link.failure is not None:
            raise self._link.failure

    # --- what the link and the local broker call ------------------------------------------------------

    def _renewed(self, welcome: Welcome) -> None:
        self.admin.renewed()
        if not self._own_numbers:
            self._local.go_on_after(welcome.published)
        self._local.announce()
        for question in self._questions:
            self._link.send(Frame(question))

    def _failed(self, error: ConnectionFailed) -> None:
        for subscription in list(self._subscriptions.values()):
            subscription.finish(error)
        for future in self._advertisements.values():
            if not future.done():
                future.set_exception(error)
        self._questions.end(error)
        self.admin.failed(error)
        for number in list(self._receipts):
            self._settle(number, error)

    def settled(self, id: str, advertisement: bool) -> None:
        """A subscription or advertisement has settled."""
        if advertisement:
            future = self._advertisements.pop(id, None)
            if future is not None and not future.done():
                future.set_result(None)
        elif (subscription := self._subscriptions.get(id)) is not None:
            subscription.has_settled()

    def acknowledged(self, seq: int, key: EventKey) -> None:
        """A publication has reached its quality."""
        receipt = self._receipts.pop(seq, None)
        if receipt is not None:
            receipt.done(key)
            self._make_room()

    def _settle(self, seq: int, error: TidingsError) -> None:
        receipt = self._receipts.pop(seq, None)
        if receipt is not None:
            receipt.failed(error, self._failures)
            self._make_room()

    def _make_room(self) -> None:
        self._room.set()
        if not self._receipts:
            self._idle.set()

    def refused(self, refusal: Refused) -> None:
        """The service has refused something."""
        error = error_of(refusal)
        if refusal.reference.isdecimal():
            if int(refusal.reference) not in self._receipts:
                self._failures.append(error)  # a publication of quality FIRE: nobody else would hear of it
            self._settle(int(refusal.reference), error)
        elif (subscription := self._subscriptions.pop(refusal.reference, None)) is not None:
            self._local.unsubscribe(refusal.reference)
            subscription.finish(error)
        elif (future := self._advertisements.pop(refusal.reference, None)) is not None and not future.done():
            self._local.unadvertise(refusal.reference)
            future.set_exception(error)
        elif not self._questions.refused(refusal.reference, error):
            log.warning("refused: %s", error)

    def answered(self, reply: Answer) -> None:
        """The broker has answered a question."""
        self._questions.answered(reply)

    def remembered(self, report: HistoryReport) -> None:
        """The past of a subscription has come."""
        if (subscription := self._subscriptions.get(report.id)) is not None:
            subscription.remembered(report)

    def progressed(self) -> None:
        """The broker says how far everything has been sent: durable subscriptions may have come further."""
        self._durables.moved()

    def extended(self, message: Extension) -> None:
        """A feature of the broker has sent something."""
        if message.feature == "scopes":
            self.admin.answered(message.body)

    def gap(self, gap: Gap) -> None:
        """Something was lost for some subscriptions."""
        self._gaps += 1
        told = [self._subscriptions[id].lost(gap) for id in gap.subscriptions if id in self._subscriptions]
        if not all(told):
            last = "an unknown end" if gap.last is None else gap.last
            log.warning("lost: numbers %s to %s of broker %s, epoch %s", gap.first, last, gap.origin, gap.epoch)


def _read(after: tuple[int, int], upto: tuple[int, int], filter: Matches, id: str) -> Read:
    return Read(id, after, upto, filter)


def _consistency(word: str) -> Consistency:
    try:
        return Consistency[word.upper()]
    except KeyError:
        raise TidingsError(f'\'{word}\' is no consistency; choose "strict" or "best_effort"') from None


def _microseconds(timeout: float | None) -> int | None:
    if timeout is None:
        return None
    if not 0 <= timeout <= MAX_TIMEOUT / 1_000_000:  # refuses NaN, too
        raise TidingsError(f"a timeout of {timeout} seconds; give one from 0 to {MAX_TIMEOUT // 1_000_000:,}")
    return round(timeout * 1_000_000)


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
) -> Client:
    """A client of the service, to be used with `async with`.

    `urls` names one broker or several; if one is lost, the client goes on with another. `name` should be unique in the
    network; without it a random one is made up. `tls` says whom to trust and which certificate to show.

    With `remember`, the past of a subscription is what this client has got for others, kept within these limits. It is
    there before `subscribe` returns; no broker is asked. See docs/history-strategies.md, "local".

    With `own_numbers` the application numbers what it publishes, from 1 and growing, for as long as it uses its `name`:
    what it publishes again under a number that the broker knows is acknowledged, and published once.
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
    )


def _now() -> int:
    return time.time_ns() // 1_000
