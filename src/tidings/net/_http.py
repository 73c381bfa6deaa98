"""Metrics and health over HTTP: three small pages on a port of their own.

    GET /metrics   for Prometheus
    GET /health    200 or 503, with the reasons as JSON
    GET /ready     likewise

If the configuration says so, management is there, too (see `_management`).

It runs on the broker's loop and reads the live objects there, so it needs no locks. One request per connection, small
limits, no dependency on a web framework.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from ._health import Health
from ._management import MANAGEMENT_SECONDS, Management, Reply, Request
from ._metrics import render
from ._status import Reporter

if TYPE_CHECKING:
    from ._server import Server

MAX_REQUEST = 8_192
"""The most bytes of the head of a request."""
MAX_BODY = 1_048_576
"""The most bytes of the body of a request."""
MAX_REQUESTS = 64
"""The most requests that are answered at a time; further ones are closed at once."""
REQUEST_SECONDS = 5.0
"""How long a request and its answer may take."""


class StatusPages:
    """The HTTP side of a server."""

    def __init__(self, server: Server, reporter: Reporter) -> None:
        self._reporter = reporter
        self._management = Management(server, reporter) if server.options.management else None
        self._health = Health(server, reporter)
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        """The port it listens on."""

    async def start(self, host: str, port: int) -> None:
        """Listen; `OSError` if that is not possible."""
        self._listener = await asyncio.start_server(self._connected, host, port, limit=MAX_REQUEST)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, and end what is under way."""
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) < MAX_REQUESTS:
            self._tasks.add(task)
            with contextlib.suppress(OSError, TimeoutError, asyncio.CancelledError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
            self._tasks.discard(task)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_SECONDS):
            request = await _read(reader)
        if isinstance(request, Reply):
            answer = request
        elif self._management is not None and request.path.startswith(("/status", "/scopes")):
            async with asyncio.timeout(MANAGEMENT_SECONDS):
                answer = await self._management.answer(request) or self._answer(request)
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

    def _answer(self, request: Request) -> Reply:
        if request.method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET")
        match request.path:
            case "/metrics":
                content_type, body = render(self._reporter, request.headers.get("accept", ""))
                return Reply(HTTPStatus.OK, content_type, body)
            case "/health":
                return _verdict("healthy", self._health.complaints())
            case "/ready":
                return _verdict("ready", self._health.hindrances())
        more = ", /status and /scopes" if self._management is not None else ""
        return _text(HTTPStatus.NOT_FOUND, f"there are /metrics, /health and /ready{more}")


async def _read(reader: asyncio.StreamReader) -> Request | Reply:
    """The next request, or what is wrong with it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return _text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {MAX_REQUEST} bytes")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1"):
        return _text(HTTPStatus.BAD_REQUEST, "this is not HTTP/1; clients of the broker use its other port")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length", "0")
    if not length.isdecimal() or "transfer-encoding" in headers:
        return _text(HTTPStatus.LENGTH_REQUIRED, "the length of the body must be said, as a number")
    if int(length) > MAX_BODY:
        return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY:,} bytes in the body")
    path, _, query = words[1].partition("?")
    return Request(words[0], path, query, headers, await reader.readexactly(int(length)))


def _text(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _verdict(word: str, reasons: list[str]) -> Reply:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return Reply(status, "application/json", msgspec.json.encode({word: not reasons, "reasons": reasons}) + b"\n")
