"""`client.admin`: how administrators, people or programs, define who sees what.

Every method asks the broker, which asks the authority of the network; when it returns, the change has been made
everywhere. A refused change raises a `ScopeError` with the reason and the remedy, and has changed nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidings import scopes
from tidings.model import ArgumentRefused, Duplicates, Filter, Notification, ScopeError, TidingsError, UnsupportedFilter
from tidings.scopes import (
    CLOSED,
    OPEN,
    Anchor,
    Answer,
    AnyChange,
    Ask,
    AuditEntry,
    AuthorityUnreachable,
    CreateScope,
    DestroyScope,
    EdgeMapping,
    Explanation,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Look,
    Mode,
    Placement,
    Review,
    Reviewed,
    ScopeEnded,
    Seen,
    SetAdministration,
    SetAttributes,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetSelective,
    Unanchor,
    credential,
    edge_mapping,
    explain,
    refusal_in,
)

from ._arguments import choice_of, filter_of, integer_of, shown, timeout_of
from ._awaited import Awaited
from ._callbacks import MISTAKES

log = logging.getLogger("tidings.client")

_Reply: TypeAlias = Answer | Reviewed | Seen

ADMIN_TIMEOUT = 30.0
"""Seconds to wait for the authority, unless the caller says otherwise."""
MAX_REVIEW = 1_000
"""The most entries that the log is asked for at a time."""

AnyFilter: TypeAlias = Filter | str
AnyInterface: TypeAlias = Interface | Mapping[str, AnyFilter]
"""An interface, or what it lets pass by direction: `{"output": "type = 'quote'"}`. A direction left out is open."""
AnyMapping: TypeAlias = EdgeMapping | scopes.Mapping
"""A mapping of an edge, or of its outward direction; then the inward one is the inverse."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that has taken effect everywhere."""

    version: int
    """The version of the graph that it made."""
    warnings: tuple[str, ...] = ()
    """What is allowed and makes no sense, like an edge that nothing can ever cross."""
    granted: tuple[AnyChange, ...] = ()
    """What was done, if it differs from what was asked: whoever admits members may narrow an interface."""


class Admin:
    """The scope graph, as far as this client may see and change it. Clients are written `"@name"`."""

    def __init__(self, send: Callable[[bytes], None], check: Callable[[], None]) -> None:
        self._send = send
        self._check = check
        self._replies: Awaited[_Reply] = Awaited()
        self._count = 0
        self.on_scope_end: Callable[[ScopeEnded], None] = lambda ended: log.warning("%s", ended)
        """Called when a scope that this client is a member of has ended; by default a warning is logged."""

    # --- scopes ---------------------------------------------------------------------------------------

    async def create_scope(
        self,
        name: str,
        *,
        within: str | None = None,
        input: AnyFilter | None = None,
        output: AnyFilter | None = None,
        imposed: AnyInterface | None = None,
        abstract: bool = False,
        attributes: Mapping[str, str] | None = None,
        hidden: bool = False,
        trusted: Iterable[str] = (),
        administrators: Iterable[str] = (),
        admission: Iterable[str] = (),
        duplicates: Duplicates | str = Duplicates.DEFAULT,
        ordered: bool = False,
        credentials: Iterable[str] = (),
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Create a scope. By default it lets nothing in (`input`) and nothing out (`output`).

        With `within`, it is a member of that scope, and is called `within/name`; `credentials` admit it there.
        `admission` lists secrets, one of which a new member must present; the graph keeps only their digests. `trusted`
        names the only brokers that may carry the scope; while the tree needs another one, its traffic stands still.
        `duplicates` says what counts as a second copy for members that do not choose. With `ordered`, members get the
        publications of one publisher in order even where these take detours by gateways; members wait for them.
        """
        id = name if within is None else f"{within}/{name}" if within else name
        create = CreateScope(
            id,
            _interface({"input": input, "output": output}, CLOSED),
            _interface(imposed, OPEN),
            abstract,
            dict(attributes or {}),
            _texts(administrators, "administrators"),
            hidden,
            _texts(trusted, "trusted"),
            tuple(map(credential, _texts(admission, "admission"))),
            _rule(duplicates),
            ordered,
        )
        changes: tuple[AnyChange, ...] = (create,) if within is None else (create, Join(id, within))
        return await self.change(*changes, mode=mode, credentials=credentials, timeout=timeout)

    async def destroy_scope(
        self, scope: str, *, cascade: bool = False, mode: Mode | str = Mode.RELAXED, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """Destroy a scope; with `cascade` its memberships end with it, without `cascade` it must have none."""
        return await self.change(DestroyScope(scope, cascade), mode=mode, timeout=timeout)

    async def set_interface(
        self,
        scope: str,
        *,
        input: AnyFilter | None = None,
        output: AnyFilter | None = None,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set what a scope lets in from its superscopes and out to them; a direction that is left out is closed."""
        interface = _interface({"input": input, "output": output}, CLOSED)
        return await self.change(SetInterface(scope, interface), mode=mode, timeout=timeout)

    async def impose(
        self,
        scope: str,
        *,
        input: AnyFilter = "TRUE",
        output: AnyFilter = "TRUE",
        member: str | None = None,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set what a scope lets its members get (`input`) and publish (`output`): all of them, or one."""
        interface = _interface({"input": input, "output": output}, OPEN)
        return await self.change(Impose(scope, interface, member), mode=mode, timeout=timeout)

    async def extend(self, scope: str, broker: str, *, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Let a broker carry a scope even while it has no members of it, so that the first member need not wait."""
        return await self.change(Anchor(scope, broker, stay=True), timeout=timeout)

    async def retract(self, scope: str, broker: str, *, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Let a broker carry a scope only for as long as it has to; the opposite of `extend`."""
        return await self.change(Unanchor(scope, broker, stay=True), timeout=timeout)

    async def set_delivery(
        self,
        scope: str,
        *,
        duplicates: Duplicates | str | None = None,
        ordered: bool | None = None,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set how members get what reaches a scope, as in `create_scope`; None changes nothing."""
        rule = None if duplicates is None else _rule(duplicates)
        return await self.change(SetDelivery(scope, rule, ordered), timeout=timeout)

    async def set_attributes(
        self, scope: str, attributes: Mapping[str, str | None], *, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """Set attributes of a scope; an attribute whose value is None is removed, others stay."""
        return await self.change(SetAttributes(scope, dict(attributes)), timeout=timeout)

    async def set_administration(
        self,
        scope: str,
        *,
        administrators: Iterable[str] | None = None,
        admission: Iterable[str] | None = None,
        trusted: Iterable[str] | None = None,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set the administrators of a scope, the secrets that admit new members, and the brokers that it trusts.

        A new member must present one of the secrets. None changes nothing.
        """
        secrets = None if admission is None else tuple(map(credential, _texts(admission, "admission")))
        clients = None if administrators is None else _texts(administrators, "administrators")
        brokers = None if trusted is None else _texts(trusted, "trusted")
        return await self.change(SetAdministration(scope, clients, secrets, brokers), timeout=timeout)

    # --- members --------------------------------------------------------------------------------------

    async def join(
        self,
        member: str,
        scope: str,
        *,
        selective: AnyInterface | None = None,
        imposed: AnyInterface | None = None,
        mapping: AnyMapping | None = None,
        placement: Placement | str = Placement.ONCE,
        gateway: str = "",
        credentials: Iterable[str] = (),
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Make a client (`"@name"`) or a scope a member of a scope."""
        join = Join(
            member,
            scope,
            _interface(selective, OPEN),
            _interface(imposed, OPEN),
            _mapping(mapping),
            _placement(placement),
            gateway,
        )
        return await self.change(join, mode=mode, credentials=credentials, timeout=timeout)

    async def leave(
        self, member: str, scope: str, *, mode: Mode | str = Mode.RELAXED, timeout: float = ADMIN_TIMEOUT
    ) -> Changed:
        """End a membership."""
        return await self.change(Leave(member, scope), mode=mode, timeout=timeout)

    async def set_selective(
        self,
        member: str,
        scope: str,
        *,
        input: AnyFilter = "TRUE",
        output: AnyFilter = "TRUE",
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set what a member lets pass between itself and one of its superscopes."""
        interface = _interface({"input": input, "output": output}, OPEN)
        return await self.change(SetSelective(member, scope, interface), mode=mode, timeout=timeout)

    async def set_mapping(
        self,
        member: str,
        scope: str,
        mapping: AnyMapping | None,
        *,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set how notifications are mapped between a member and a superscope; None leaves them unchanged."""
        return await self.change(SetMapping(member, scope, _mapping(mapping)), mode=mode, timeout=timeout)

    async def set_placement(
        self,
        member: str,
        scope: str,
        placement: Placement | str,
        gateway: str = "",
        *,
        mode: Mode | str = Mode.RELAXED,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Set at which brokers notifications cross between a scope and a superscope."""
        change = SetPlacement(member, scope, _placement(placement), gateway)
        return await self.change(change, mode=mode, timeout=timeout)

    # --- everything at once, and looking ---------------------------------------------------------------

    async def change(
        self,
        *changes: AnyChange,
        mode: Mode | str = Mode.RELAXED,
        credentials: Iterable[str] = (),
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Make several changes as one: all of them take effect together, or none does."""
        mode = choice_of(Mode, mode, "mode", ScopeError)
        shows = _texts(credentials, "credentials")
        answer = await self._ask(lambda id: Ask(id, changes, mode, shows), timeout, "make the change")
        assert isinstance(answer, Answer)
        return Changed(answer.version, answer.warnings, answer.changes)

    async def graph(self, *, timeout: float = ADMIN_TIMEOUT) -> Graph:
        """Return the newest version of the scope graph, as far as this client may see it."""
        seen = await self._ask(Look, timeout, "show the scope graph")
        assert isinstance(seen, Seen)
        return seen.graph.graph()

    async def log(self, limit: int = 100, *, timeout: float = ADMIN_TIMEOUT) -> list[AuditEntry]:
        """Return the latest changes, made or refused, the oldest first.

        Clients that may change everything see all of them; others see the changes that they asked for themselves.
        """
        integer_of(limit, "limit", 1, 2**31)
        reviewed = await self._ask(lambda id: Review(id, min(limit, MAX_REVIEW)), timeout, "show the log")
        assert isinstance(reviewed, Reviewed)
        return list(reviewed.entries)

    async def explain(
        self, publisher: str, notification: Mapping[str, object], reader: str, *, timeout: float = ADMIN_TIMEOUT
    ) -> Explanation:
        """Explain why a client or scope sees a publication, or why not, as far as this client may see the graph."""
        if not isinstance(notification, Mapping):
            raise ArgumentRefused(f"notification={shown(notification)}; give a mapping of its attributes")
        published = Notification(notification)
        graph = await self.graph(timeout=timeout)
        return explain(graph, publisher, published, reader)

    # --- questions and answers ------------------------------------------------------------------------

    async def _ask(self, question: Callable[[str], Ask | Look | Review], timeout: float, what: str) -> _Reply:
        """What is answered; `question` makes the message of an id. Asked once: a lost session may have done it."""
        timeout_of(timeout)
        self._check()
        self._count += 1
        id = f"admin-{self._count}"
        self._send(_checked(question(id)))
        try:
            async with asyncio.timeout(timeout):
                reply = await self._replies.wait(id)
        except TimeoutError:
            raise AuthorityUnreachable(
                f"no answer for {timeout:g} seconds to the request to {what}; "
                "it may still be carried out: look at the graph before you try again"
            ) from None
        if isinstance(reply, Answer) and (refusal := refusal_in(reply)) is not None:
            raise refusal
        return reply

    def answered(self, body: bytes) -> None:
        """The broker has sent something about scopes."""
        try:
            message = scopes.decode(body)
        except ScopeError as error:
            log.warning("the broker has sent something that this client cannot read: %s", error)
            return
        match message:
            case ScopeEnded():
                self._ended(message)
            case Answer() | Reviewed() | Seen():
                self._replies.came(message.request, message)

    def _ended(self, ended: ScopeEnded) -> None:
        try:
            self.on_scope_end(ended)
        except MISTAKES:  # a mistake of the application must not cost it the connection
            log.exception("`on_scope_end` failed")

    def failed(self, error: TidingsError) -> None:
        """No answer can come any more."""
        self._replies.failed(error)

    def renewed(self) -> None:
        """The client is connected anew: what it asked before will not be answered here."""
        self.failed(
            AuthorityUnreachable("the connection was lost before the answer came; look at the graph, then try again")
        )


def _interface(given: AnyInterface | Mapping[str, AnyFilter | None] | None, default: Interface) -> Interface:
    """An interface from what an administrator gives; a direction that is left out is as in the default."""
    if isinstance(given, Interface):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ScopeError(f"an interface is a mapping like {{'output': \"type = 'quote'\"}}, not {shown(given)}")
    sides = {"input": default.input, "output": default.output}
    for side, filter in (given or {}).items():
        if side not in sides:
            raise ScopeError(f"an interface has 'input' and 'output', not '{side}'; rename it")
        if filter is not None:
            wanted = filter_of(filter)
            if not isinstance(wanted, Filter):
                raise UnsupportedFilter(f"the {side} of an interface is a content filter, not {shown(filter)}")
            sides[side] = wanted
    return Interface(**sides)


def _checked(question: Ask | Look | Review) -> bytes:
    """The message as bytes that every broker can read; `ScopeError` if there are none."""
    try:
        body = scopes.encode(question)
        scopes.decode(body)
    except (TypeError, ValueError, RecursionError, ScopeError) as error:
        raise ScopeError(f"this cannot be sent: {error}; give texts for names, and mappings of texts") from None
    return body


def _texts(given: Iterable[str], name: str) -> tuple[str, ...]:
    """Several texts. One alone would be taken for its letters."""
    texts = None if isinstance(given, str) or not hasattr(given, "__iter__") else tuple(given)
    if texts is None or set(map(type, texts)) - {str}:
        raise ScopeError(f'{name} is no list of texts; write ["..."]')  # it may be a secret, so it is not shown
    return texts


def _rule(given: Duplicates | str) -> Duplicates:
    return choice_of(Duplicates, given, "rule for second copies", ScopeError)


def _placement(given: Placement | str) -> Placement:
    return choice_of(Placement, given, "placement", ScopeError)


def _mapping(given: AnyMapping | None) -> EdgeMapping | None:
    return edge_mapping(given) if isinstance(given, scopes.Mapping) else given
