"""Questions to the authority, and its answers: what every method of `client.admin` stands on.

A question is asked once. If the connection is lost before the answer, nobody knows here whether it was carried out, and
the error says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from tidings import scopes
from tidings.model import ScopeError, TidingsError
from tidings.scopes import (
    Answer,
    AnyChange,
    Ask,
    AuthorityUnreachable,
    Census,
    Counted,
    Look,
    LookBack,
    Mode,
    Review,
    Reviewed,
    Revision,
    ScopeEnded,
    Seen,
    refusal_in,
)

from ._admin_arguments import texts_of
from ._arguments import choice_of, integer_of, timeout_of
from ._callbacks import MISTAKES
from ._pending import Pending

log = logging.getLogger("tidings.client")

_Question: TypeAlias = Ask | Look | LookBack | Review | Census
_Reply: TypeAlias = Answer | Reviewed | Revision | Seen | Counted

ADMIN_TIMEOUT = 30.0
"""Seconds to wait for the authority, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A change that has taken effect everywhere."""

    version: int
    """The version of the graph that it made."""
    warnings: tuple[str, ...] = ()
    """What is allowed and makes no sense, like an edge that nothing can ever cross."""
    granted: tuple[AnyChange, ...] = ()
    """What was done, if it differs from what was asked: whoever admits members may narrow an interface."""


class AdminLink:
    """Asks the authority, by way of this client's broker."""

    def __init__(self, send: Callable[[bytes], None], check: Callable[[], None]) -> None:
        self._send = send
        self._check = check
        self._replies: Pending[_Reply] = Pending()
        self._count = 0
        self.on_scope_end: Callable[[ScopeEnded], None] = lambda ended: log.warning("%s", ended)
        """Called when a scope that this client is a member of has ended; by default a warning is logged."""

    async def change(
        self,
        *changes: AnyChange,
        mode: Mode | str = Mode.RELAXED,
        credentials: Iterable[str] = (),
        expected: int | None = None,
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Make several changes as one: all of them take effect together, or none does.

        With `expected`, the version of the graph on which they were worked out, they are refused with `StaleGraph` if
        the graph has been changed since. Clients that moved to another broker meanwhile do not count.
        """
        mode = choice_of(Mode, mode, "mode", ScopeError)
        shows = texts_of(credentials, "credentials")
        if expected is not None:
            integer_of(expected, "expected", 0, 2**63 - 1)
        ask = Ask("", changes, mode, shows, expected=expected)
        answer = await self._ask(lambda id: msgspec.structs.replace(ask, request=id), timeout, "make the change")
        assert isinstance(answer, Answer)
        return Changed(answer.version, answer.warnings, answer.changes)

    async def _ask(self, question: Callable[[str], _Question], timeout: float, what: str) -> _Reply:
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
            case Answer() | Reviewed() | Revision() | Seen() | Counted():
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


def _checked(question: _Question) -> bytes:
    """The message as bytes that every broker can read; `ScopeError` if there are none."""
    try:
        body = scopes.encode(question)
        scopes.decode(body)
    except (TypeError, ValueError, RecursionError, ScopeError) as error:
        raise ScopeError(f"this cannot be sent: {error}; give texts for names, and mappings of texts") from None
    return body
