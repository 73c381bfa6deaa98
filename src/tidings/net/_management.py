"""Management over HTTP: what `tidings status` and `tidings scope` do, for tools that do not speak the protocol.

    GET  /status        the broker: links, clients, tables, counters, as JSON
    GET  /mobility      hosted clients, copies, and the neighbour graph of the network
    POST /mobility      {"evacuate": "berlin"} sends the clients of a broker elsewhere, {"evacuation": ...}: how far?
    GET  /scopes        the scope graph, as far as whoever asks may see it
    GET  /scopes/log    what was changed and refused lately
    POST /scopes        changes: {"changes": [{"type": "CreateScope", "id": "market"}], "mode": "relaxed"}

It is off unless the configuration turns it on, and is only served on this machine. Who may do what is as for clients:
where identities are configured, a request needs `Authorization: Bearer TOKEN`. A web page must not reach it through the
browser of somebody on this machine, so a request that a page has made, or that was sent to another name, is refused.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import msgspec

from tidings.aggregation.messages import Seen
from tidings.mobility import Whole
from tidings.model import AccessDenied, ScopeError, TidingsError, json_problem
from tidings.scopes import Answer, AnyChange, Ask, BoundedReading, Mode, Review, Reviewed, Snapshot, enc_hook, shown_to
from tidings.wire import EvacuationStatus, encode_evacuation, encode_status

from ._access import AccessEntry
from ._connection import DENIAL_DELAY
from ._status import Reporter

if TYPE_CHECKING:
    from ._server import Server

log = logging.getLogger("tidings.net")

MANAGEMENT_SECONDS = 65.0
"""How long a change may take: a little longer than a broker waits for the authority."""
COMPLAINT_SECONDS = 60.0
"""How often the log speaks of requests with wrong credentials."""
MAX_ENTRIES = 1_000
"""The most entries of the log of changes in one answer."""
PATHS = ("/status", "/aggregates", "/mobility", "/scopes", "/scopes/log")
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_REFUSALS = {
    "NotAllowed": HTTPStatus.FORBIDDEN,
    "FrozenGraph": HTTPStatus.FORBIDDEN,
    "AuthorityUnreachable": HTTPStatus.SERVICE_UNAVAILABLE,
    "StaleGraph": HTTPStatus.CONFLICT,
    "NoAuthority": HTTPStatus.SERVICE_UNAVAILABLE,
}


class Request(NamedTuple):
    """One request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    """By name, in lower case."""
    body: bytes


class Reply(NamedTuple):
    """What a request is answered."""

    status: HTTPStatus
    content_type: str
    body: bytes


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    evacuate: str = ""
    evacuation: str = ""


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    changes: tuple[AnyChange, ...]
    mode: Mode = Mode.RELAXED
    credentials: tuple[str, ...] = ()
    expected: int | None = None


_encoder = msgspec.json.Encoder(enc_hook=enc_hook)


def number(text: str, most: int) -> int | None:
    """The number that a text stands for; None if it is none, or larger than that.

    However long the text is, nothing more than its length is looked at: `int` raises from 4,300 digits on.
    """
    if len(text) > len(str(most)) or not (text.isascii() and text.isdecimal()):
        return None
    found = int(text)
    return found if found <= most else None


def refusal(status: HTTPStatus, error: str, reason: str) -> Reply:
    """Why a request was not fulfilled."""
    return _json(status, {"error": error, "reason": reason})


class Management:
    """The broker, to be looked at and changed by tools."""

    def __init__(self, server: Server, reporter: Reporter) -> None:
        self._server = server
        self._reporter = reporter
        self._complained: float | None = None
        self._turned_away = 0
        """Requests with wrong credentials that the log has not spoken of yet."""

    async def admit(self, request: Request) -> AccessEntry | Reply:
        """Who asks, or why it is not let in."""
        if (stranger := _stranger(request)) is not None:
            return stranger
        try:
            return self._identified(request.headers.get("authorization", ""))
        except AccessDenied as error:
            self._complain(request, error)
            await asyncio.sleep(DENIAL_DELAY)
            return refusal(HTTPStatus.UNAUTHORIZED, "AccessDenied", str(error))

    def _complain(self, request: Request, error: AccessDenied) -> None:
        """Tell the log, once in a minute, how many were turned away, and the last of them."""
        self._turned_away += 1
        now = asyncio.get_running_loop().time()
        if self._complained is None or now - self._complained >= COMPLAINT_SECONDS:
            log.warning(
                "turned away %d requests with wrong credentials, the last one for %s: %s",
                self._turned_away,
                request.path,
                error,
            )
            self._complained, self._turned_away = now, 0

    async def answer(self, request: Request, who: AccessEntry) -> Reply:
        """What a request by somebody who was let in is answered."""
        match request.method, request.path:
            case "GET", "/status":
                if not who.administer:
                    reason = f"'{who.name}' may not see the status; it needs the right to administer"
                    return refusal(HTTPStatus.FORBIDDEN, "AccessDenied", reason)
                return Reply(HTTPStatus.OK, "application/json", encode_status(self._reporter.status()) + b"\n")
            case "GET", "/aggregates":
                if not who.administer:
                    reason = f"'{who.name}' may not see what is counted; it needs the right to administer"
                    return refusal(HTTPStatus.FORBIDDEN, "AccessDenied", reason)
                return _json(HTTPStatus.OK, _by_name(self._reporter.watched()))
            case "GET", "/mobility":
                if not who.administer:
                    reason = f"'{who.name}' may not see how clients move; it needs the right to administer"
                    return refusal(HTTPStatus.FORBIDDEN, "AccessDenied", reason)
                return Reply(HTTPStatus.OK, "application/json", await self._mobility() + b"\n")
            case "POST", "/mobility":
                if not who.administer:
                    reason = f"'{who.name}' may not send clients elsewhere; it needs the right to administer"
                    return refusal(HTTPStatus.FORBIDDEN, "AccessDenied", reason)
                return await self._evacuate(request)
            case "GET", "/scopes":
                graph = shown_to(self._server.host.governance.scopes.graph, who.name, who.administer)
                words = msgspec.to_builtins(Snapshot.of(graph), enc_hook=enc_hook)
                return _json(HTTPStatus.OK, {**words, "partial": graph.partial})
            case "GET", "/scopes/log":
                return await self._log(request, who)
            case "POST", "/scopes":
                return await self._change(request, who)
        return refusal(
            HTTPStatus.METHOD_NOT_ALLOWED,
            "NotPossible",
            f"{request.method} {request.path} is not supported; use GET, or POST for /scopes and /mobility",
        )

    def _identified(self, authorization: str) -> AccessEntry:
        scheme, _, token = authorization.partition(" ")
        return self._server.options.access.identify(token.strip() if scheme.lower() == "bearer" else None, None)

    async def _log(self, request: Request, who: AccessEntry) -> Reply:
        given = parse_qs(request.query).get("limit", ["100"])[0]
        limit = number(given, MAX_ENTRIES)
        if not limit:
            reason = f"limit={given:.20}: write a number from 1 to {MAX_ENTRIES}"
            return refusal(HTTPStatus.BAD_REQUEST, "ValueRefused", reason)
        answer = await self._asked(Review("", limit), who)
        return _json(HTTPStatus.OK, answer.entries) if isinstance(answer, Reviewed) else _refused(answer)

    async def _change(self, request: Request, who: AccessEntry) -> Reply:
        if (strange := _no_json(request)) is not None:
            return strange
        try:
            wish = msgspec.json.decode(request.body, type=_Wish, dec_hook=BoundedReading())
        except (msgspec.MsgspecError, ScopeError, ValueError, RecursionError) as error:
            return refusal(
                HTTPStatus.BAD_REQUEST,
                "ValueRefused",
                f"these changes cannot be read: {json_problem(request.body, error)}",
            )
        answer = await self._asked(Ask("", wish.changes, wish.mode, wish.credentials, expected=wish.expected), who)
        if not isinstance(answer, Answer) or answer.error:
            return _refused(answer)
        return _json(HTTPStatus.OK, {"version": answer.version, "warnings": answer.warnings, "granted": answer.changes})

    async def _mobility(self) -> bytes:
        movement, loop = self._server.movement, asyncio.get_running_loop()
        heard: asyncio.Future[bytes] = loop.create_future()

        def done(whole: Whole) -> None:
            if not heard.done():
                heard.set_result(movement.encoded(whole))

        neighbourhood = self._server.host.neighbourhood
        neighbourhood.context.call_later(0, lambda: neighbourhood.look(done))  # in a turn of the broker
        return await heard

    async def _evacuate(self, request: Request) -> Reply:
        if (strange := _no_json(request)) is not None:
            return strange
        try:
            order = msgspec.json.decode(request.body, type=_Order)
        except (msgspec.MsgspecError, RecursionError) as error:
            reason = f"this cannot be read: {json_problem(request.body, error)}"
            return refusal(HTTPStatus.BAD_REQUEST, "ValueRefused", reason)
        broker = order.evacuate or order.evacuation
        if not broker or (order.evacuate and order.evacuation):
            reason = 'say which broker: {"evacuate": "berlin"}, and then {"evacuation": "berlin"} for how far it is'
            return refusal(HTTPStatus.BAD_REQUEST, "ValueRefused", reason)
        evacuation, loop = self._server.host.evacuation, asyncio.get_running_loop()
        heard: asyncio.Future[EvacuationStatus | TidingsError] = loop.create_future()

        def done(status: EvacuationStatus | TidingsError) -> None:
            if not heard.done():
                heard.set_result(status)

        def ask() -> None:
            try:
                evacuation.order(broker, "", done, begin=bool(order.evacuate))
            except TidingsError as error:
                done(error)

        evacuation.context.call_later(0, ask)  # in a turn of the broker
        status = await heard
        if isinstance(status, TidingsError):
            return refusal(HTTPStatus.CONFLICT, type(status).__name__, str(status))
        return Reply(HTTPStatus.OK, "application/json", encode_evacuation(status) + b"\n")

    async def _asked(self, question: Ask | Review, who: AccessEntry) -> Answer | Reviewed:
        service, loop = self._server.host.governance.scopes, asyncio.get_running_loop()
        heard: asyncio.Future[Answer | Reviewed] = loop.create_future()

        def done(answer: Answer | Reviewed) -> None:
            if not heard.done():
                heard.set_result(answer)

        def ask() -> None:
            service.questions.forward(question, done, who.name, who.administer)

        service.context.call_later(0, ask)  # in a turn of the broker
        return await heard


def _stranger(request: Request) -> Reply | None:
    """Why a request may come from a web page; None: it does not."""
    host = request.headers.get("host", "")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if "origin" in request.headers or name.lower() not in LOCAL_NAMES:
        reason = f"management is for tools on this machine, at one of {', '.join(LOCAL_NAMES)}, and not for web pages"
        return refusal(HTTPStatus.FORBIDDEN, "AccessDenied", reason)
    return None


def _no_json(request: Request) -> Reply | None:
    """Why the body of a request is not read; None: it is."""
    if request.headers.get("content-type", "").partition(";")[0].strip() == "application/json":
        return None
    reason = "changes are sent as JSON, with the header `Content-Type: application/json`"
    return refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "ValueRefused", reason)


def _refused(answer: Answer | Reviewed) -> Reply:
    assert isinstance(answer, Answer)
    return refusal(_REFUSALS.get(answer.error, HTTPStatus.CONFLICT), answer.error, answer.reason)


def _json(status: HTTPStatus, content: object) -> Reply:
    return Reply(status, "application/json", _encoder.encode(content) + b"\n")


def _by_name(seen: Seen | None) -> dict[str, Any]:
    """What is watched at a broker, with the names of its parts."""
    if seen is None:
        return {"watched": []}
    parts = {name: [msgspec.structs.asdict(one) for one in getattr(seen, name)] for name in _PARTS}
    return {"broker": seen.broker, **parts, "left_out": seen.left_out, "counters": seen.counters}


_PARTS = ("offered", "watched", "traffic")
