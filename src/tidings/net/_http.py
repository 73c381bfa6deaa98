"""Metrics and health over HTTP: three small pages on a port of their own.

    GET /metrics   for Prometheus
    GET /health    200 or 503, with the reasons as JSON
    GET /ready     likewise

It runs on the broker's loop and reads the live objects there, so it needs no locks. One request per connection, small
limits, no dependency on a web framework.
"""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from ._health import Health
from ._metrics import render
from ._status import Reporter

if TYPE_CHECKING:
    from ._server import Server

MAX_REQUEST = 8_192
"""The most bytes of a request."""
MAX_REQUESTS = 64
"""The most requests that are answered at a time; further ones are closed at once."""
REQUEST_SECONDS = 5.0
"""How long a request and its answer may take."""


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class StatusPages:
    """The HTTP side of a server."""

    def __init__(self, server: Server, reporter: Reporter) -> None:
        self._reporter = reporter
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
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._serve(reader, writer)
            self._tasks.discard(task)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            answer = _text(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"at most {MAX_REQUEST} bytes")
            head = False
        else:
            lines = request.decode("latin-1").split("\r\n")
            answer = self._answer(lines[0], _header(lines[1:], "accept"))
            head = lines[0].startswith("HEAD ")
        writer.write(
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\nContent-Length: {len(answer.body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
        )
        if not head:
            writer.write(answer.body)
        await writer.drain()

    def _answer(self, request: str, accept: str) -> _Answer:
        words = request.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1"):
            return _text(HTTPStatus.BAD_REQUEST, "this is not HTTP/1; clients of the broker use its other port")
        if words[0] not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET")
        match words[1].partition("?")[0]:
            case "/metrics":
                content_type, body = render(self._reporter, accept)
                return _Answer(HTTPStatus.OK, content_type, body)
            case "/health":
                return _verdict("healthy", self._health.complaints())
            case "/ready":
                return _verdict("ready", self._health.hindrances())
            case _:
                return _text(HTTPStatus.NOT_FOUND, "there are /metrics, /health and /ready")


def _header(lines: list[str], name: str) -> str:
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return ""


def _text(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _verdict(word: str, reasons: list[str]) -> _Answer:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return _Answer(status, "application/json", msgspec.json.encode({word: not reasons, "reasons": reasons}) + b"\n")
