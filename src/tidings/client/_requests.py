"""Requests and replies in the hands of an application.

A request is on its way when it is awaited or iterated over. It ends with its first reply if it is awaited; if it is
iterated over, at the end of its time, or with the loop: when nothing refers to its replies any more. So nothing here
refers to them but by weak references.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from weakref import ref

from tidings.broker import Cause
from tidings.model import NoReply, NotARequest, Notification, RequestEnded, TidingsError, TopologyError
from tidings.wire import (
    MAX_TO,
    REQUESTS,
    Close,
    Ended,
    Extension,
    Opening,
    Outcome,
    Replied,
    Reply,
    WireError,
    decode_body,
    encode_body,
    pack,
    read_request,
)

from ._pending import Pending
from ._receipt import error_from

REQUEST_TIMEOUT = 10.0
"""Seconds that a request waits for replies, unless it says otherwise."""

Publish = Callable[[Opening], Awaitable[int]]
"""Publishes a request that opens a session; its number. `TimeoutError` if it cannot leave in time."""


class Replies(AsyncIterator[Notification], Awaitable[Notification]):
    """The replies to one request, as `Client.request` returns it.

    `await` it for the first reply; `async for` gives all that come until the time is up.
    """

    def __init__(self, requests: Requests, publish: Publish, timeout: float) -> None:
        self._requests = requests
        self._publish = publish
        self._timeout = timeout
        self._id = ""
        self.number = 0
        """Of the publication; 0: it has not left."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._late = False
        self._came: deque[Notification] = deque()
        self._news: asyncio.Future[None] | None = None
        self._error: TidingsError | None = None
        self._over = False
        self._ended = False
        """Whether no more replies are taken from the broker."""

    def __await__(self) -> Generator[None, None, Notification]:
        return self._first().__await__()

    async def _first(self) -> Notification:
        reply = None
        try:
            await self._begin(1)
            reply = await self._next()
        finally:
            self._close(ended=reply is not None)  # with the only reply, the broker has ended the session
        if reply is None and not self.number:
            raise NoReply(
                f"the request has not left within {self._timeout:g} s, because there is no broker now, or it takes no "
                "more; ask again later"
            )
        if reply is None:
            raise NoReply(
                f"no reply has come within {self._timeout:g} s; give it a longer timeout, or see whether a responder "
                "is there"
            )
        return reply

    def __aiter__(self) -> Replies:
        return self

    async def __anext__(self) -> Notification:
        if self._over:
            raise StopAsyncIteration
        try:
            if not self._id:
                await self._begin(0)
            reply = await self._next()
        except BaseException:
            self._close()
            raise
        if reply is None:
            self._close()
            raise StopAsyncIteration
        return reply

    async def aclose(self) -> None:
        """Take no more replies."""
        self._close()

    async def _begin(self, replies: int) -> None:
        if self._id:
            raise TidingsError("this request was made before; call `request` again for another one")
        self._loop = asyncio.get_running_loop()
        self._id = self._requests.new_id()
        self._requests.open[self._id] = here = ref(self)
        self._timer = self._loop.call_later(self._timeout, _is_late, here)
        idle = int(self._timeout * 1_000_000) + 1_000_000
        try:
            self.number = await self._publish(Opening(self._id, replies, idle))
        except TimeoutError:
            self._late = True

    async def _next(self) -> Notification | None:
        """The next reply; None when the time is up."""
        while not self._came:
            if self._error is not None:
                raise self._error
            if self._late:
                return None
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return self._came.popleft()

    def __del__(self) -> None:
        if self._loop is not None and not self._ended:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the client with it
                self._loop.call_soon_threadsafe(self._requests.close, self._id, self._error is None)

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _close(self, *, ended: bool = False) -> None:
        if not self._over:
            self._over = True
            if self._timer is not None:
                self._timer.cancel()
            self._end(tell=not ended)

    def _end(self, *, tell: bool = True) -> None:
        if self._id and not self._ended:
            self._ended = True
            self._requests.close(self._id, tell and self._error is None)

    # --- what the service says ------------------------------------------------------------------------

    def late(self) -> None:
        """The time is up: what came can still be taken."""
        self._late = True
        self._end()
        self._wake()

    def came(self, reply: Notification) -> None:
        """Take a reply."""
        self._came.append(reply)
        self._wake()

    def failed(self, error: TidingsError) -> None:
        """No reply will come any more."""
        self._error = error
        self._wake()


def _is_late(replies: ref[Replies]) -> None:
    if (known := replies()) is not None:
        known.late()


class Requests:
    """The requests of one client that wait for replies, and its replies that wait for their outcome."""

    def __init__(self, send: Callable[[Extension], None], check: Callable[[], None]) -> None:
        """`check` raises the reason if the client is not open."""
        self._send = send
        self._check = check
        self.open: dict[str, ref[Replies]] = {}
        self._outcomes: Pending[Outcome] = Pending()
        self._count = 0
        self.new_id: Callable[[], str] = lambda: secrets.token_hex(12)
        """Makes an id that nobody guesses."""

    def close(self, id: str, tell: bool) -> None:
        """No more replies are wanted; the broker is told, unless it said so itself."""
        self.open.pop(id, None)
        if tell:
            self._send(Extension(REQUESTS, pack(Close(id))))

    async def reply(self, cause: Cause | None, notification: Mapping[str, object]) -> None:
        """Reply to the request that is the cause of this; the error says why it does not arrive."""
        if cause is None or not cause.request or len(cause.request) > MAX_TO:
            raise NotARequest("there is no request to reply to here; reply while you handle one, or publish")
        self._check()
        body = encode_body(notification)
        self._count += 1
        number = self._count
        self._send(Extension(REQUESTS, pack(Reply(number, cause.request, body, tuple(sorted(cause.reaction))))))
        outcome = await self._outcomes.wait(str(number))
        if outcome.error:
            raise error_from(outcome.error, outcome.reason)

    # --- what the service says ------------------------------------------------------------------------

    def heard(self, body: bytes) -> None:
        """The broker says something about a request or a reply."""
        try:
            said = read_request(body)
        except WireError:
            return  # of another version
        if isinstance(said, Outcome):
            self._outcomes.came(str(said.number), said)
        elif isinstance(said, Replied):
            if (replies := self._known(said.id)) is not None:
                replies.came(decode_body(said.body))
        elif isinstance(said, Ended) and (replies := self._known(said.id)) is not None:
            replies.failed(error_from(said.error, said.reason))

    def _known(self, id: str) -> Replies | None:
        known = self.open.get(id)
        return None if known is None else known()

    @property
    def _all(self) -> list[Replies]:
        return [replies for known in list(self.open.values()) if (replies := known()) is not None]

    def refused(self, number: int, error: TidingsError) -> bool:
        """A publication was refused; whether it was a request."""
        replies = next((one for one in self._all if one.number == number), None)
        if replies is not None:
            replies.failed(error)
        return replies is not None

    def renewed(self) -> None:
        """The broker knows nothing any more of what was sent before."""
        error = RequestEnded("the broker has forgotten this client, and what it waited for; ask again")
        for replies in self._all:
            if replies.number:
                replies.failed(error)
        self._outcomes.failed(
            TopologyError("the broker has forgotten this client; whether the reply arrived is not known")
        )

    def failed(self, error: TidingsError) -> None:
        """Nothing more will be heard of any."""
        for replies in self._all:
            replies.failed(error)
        self._outcomes.failed(error)


class Request(Notification):
    """A notification that asks for a reply."""

    __slots__ = ("_answer",)

    _answer: Callable[[Mapping[str, object]], Awaitable[None]]

    @classmethod
    def of(cls, notification: Notification, answer: Callable[[Mapping[str, object]], Awaitable[None]]) -> Request:
        """The same notification, which can be replied to."""
        request = cls.__new__(cls)
        request._attributes = notification.attributes
        request._answer = answer
        return request

    async def reply(self, notification: Mapping[str, object] | None = None, /, **attributes: object) -> None:
        """Reply with these attributes; return when the reply is on its way to the requester from its broker.

        `RequestEnded` if the requester waits no longer, `NotAllowed` if no scope lets it see this.
        """
        await self._answer({**(notification or {}), **attributes})
