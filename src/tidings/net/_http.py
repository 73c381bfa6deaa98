"""Metrics and health over HTTP: three small pages on a port of their own.

    GET /metrics   for Prometheus
    GET /health    200 or 503, with the reasons as JSON
    GET /ready     likewise

If the configuration says so, management is there, too (see `_management`).

It runs on the broker's loop and reads the live objects there, so it needs no locks. One request per connection, small
limits, no dependency on a web framework.

Nobody can shut these pages by sitting on connections: at `MAX_REQUESTS` the oldest of those goes that management has
not let in (see `_listener`), and management has `MAX_MANAGED` of them at most.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import msgspec

from ._health import Health
from ._listener import Listener, Visitor
from ._management import MANAGEMENT_SECONDS, PATHS, Management, Reply, Request, number, refusal
from ._metrics import render
from ._status import Reporter

if TYPE_CHECKING:
    from ._server import Server

log = logging.getLogger("tidings.net")

MAX_REQUEST = 8_192
"""The most bytes of the head of a request."""
MAX_BODY = 1_048_576
"""The most bytes of the body of a request."""
MAX_REQUESTS = 64
"""The most requests at a time; beyond, the oldest that has not been let in goes."""
MAX_MANAGED = 16
"""The most requests that management works on at a time; further ones are told to come later."""
REQUEST_SECONDS = 5.0
"""How long a request and its answer may take."""


class _Visit(asyncio.StreamReaderProtocol, Visitor):
    """One connection, for one request."""

    def __init__(self, pages: StatusPages) -> None:
        super().__init__(asyncio.StreamReader(limit=MAX_REQUEST), self._opened)
        self._pages = pages
        self._connection: asyncio.Transport | None = None
        self.managed = False
        """Whether management has let it in."""
        self.done = asyncio.get_running_loop().create_future()

    @property
    def known(self) -> bool:
        """Whether management has let it in."""
        return self.managed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read the request."""
        self._connection = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        super().connection_lost(error)
        self.done.set_result(None)

    def abort(self) -> None:
        """Close at once."""
        if self._connection is not None:
            self._connection.abort()

    async def _opened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._pages.serve(self, reader, writer)
        finally:
            writer.close()


class StatusPages:
    """The HTTP side of a server."""

    def __init__(self, server: Server, reporter: Reporter) -> None:
        self._reporter = reporter
        self._management = Management(server, reporter) if server.options.management else None
        self._health = Health(server, reporter)
        self._listener = Listener(lambda: _Visit(self), MAX_REQUESTS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.managed = 0
        """How many requests management works on."""

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._listener.port

    @property
    def count(self) -> int:
        """How many connections are open."""
        return self._listener.count

    def start(self, sockets: list[socket.socket]) -> None:
        """Answer what comes on sockets from `bind`."""
        self._listener.start(sockets)

    async def stop(self) -> None:
        """Stop listening, and end what is under way."""
        await self._listener.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, visit: _Visit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request and answer it. Whatever goes wrong, the request is over and nothing of it stays."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._exchange(visit, reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass  # whoever asked has gone, or is too slow
        except Exception:
            log.exception("cannot answer a request")
        finally:
            self._tasks.discard(task)

    async def _exchange(self, visit: _Visit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await _read(reader)
        if isinstance(request, Reply):
            answer = request
        elif self._management is not None and request.path in PATHS:
            async with asyncio.timeout(MANAGEMENT_SECONDS):
                answer = await self._manage(visit, self._management, request)
        else:
            answer = self._answer(request)
        writer.write(
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
        )
        if isinstance(request, Reply) or request.method != "HEAD":
            writer.write(answer.body)
        async with asyncio.timeout(REQUEST_SECONDS):
            await writer.drain()

    async def _manage(self, visit: _Visit, management: Management, request: Request) -> Reply:
        who = await management.admit(request)
        if isinstance(who, Reply):
            return who
        if self.managed >= MAX_MANAGED:
            reason = f"management is already working on {MAX_MANAGED} requests; try again later"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "Busy", reason)
        self.managed += 1
        visit.managed = True
        try:
            return await management.answer(request, who)
        finally:
            self.managed -= 1
            visit.managed = False

    def _answer(self, request: Request) -> Reply:
        if request.method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        match request.path:
            case "/metrics":
                content_type, body = render(self._reporter, request.headers.get("accept", ""))
                return Reply(HTTPStatus.OK, content_type, body)
            case "/health":
                return _verdict("healthy", self._health.complaints())
            case "/ready":
                return _verdict("ready", self._health.hindrances())
        more = ", /status and /scopes" if self._management is not None else ""
        return _text(HTTPStatus.NOT_FOUND, f"not found; there are /metrics, /health and /ready{more}")


async def _read(reader: asyncio.StreamReader) -> Request | Reply:
    """The next request, or what is wrong with it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return _text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {MAX_REQUEST} bytes")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1"):
        return _text(HTTPStatus.BAD_REQUEST, "this is not HTTP/1; clients connect to the other port of the broker")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    said = headers.get("content-length", "0")
    if not said.isdecimal() or "transfer-encoding" in headers:
        return _text(HTTPStatus.LENGTH_REQUIRED, "state the length of the body as a number in Content-Length")
    length = number(said, MAX_BODY)
    if length is None:
        return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY:,} bytes in the body")
    path, _, query = words[1].partition("?")
    return Request(words[0], path, query, headers, await reader.readexactly(length))


def _text(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _verdict(word: str, reasons: list[str]) -> Reply:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return Reply(status, "application/json", msgspec.json.encode({word: not reasons, "reasons": reasons}) + b"\n")
