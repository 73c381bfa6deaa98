"""Questions: how a change that somebody asks for finds the authority, and its answer the way back.

Each broker on the way remembers the link that a question came from; one answer goes back on it, and it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.broker import Link
from tidings.model import AuthorityUnreachable, ScopeError, TidingsError
from tidings.scopes._messages import (
    Answer,
    Ask,
    Census,
    Look,
    LookBack,
    Review,
    Reviewed,
    Revision,
    Seen,
    Snapshot,
    decode_question,
    request_in,
)

from ._census import Takers
from ._rights import shown_to

if TYPE_CHECKING:
    from ._service import Scopes

TRAIL_TIME = 60_000_000
"""Microseconds for which a broker remembers where a question came from."""
MAX_TRAILS = 10_000
"""The most questions that a broker remembers the way of."""
NOBODY = (
    "nothing says which broker orders changes of the scope graph; "
    "start broker '{}' and all others with the same --authority NAME, or set `authority = \"NAME\"` in their "
    "configurations"
)
"""Why a broker without an authority takes no changes."""

Done = Callable[[Any], None]
"""Called with an `Answer`, or with `Reviewed` if that was the question."""


class Questions:
    """The questions that pass one broker."""

    def __init__(self, service: Scopes) -> None:
        self._service = service
        self._trails: dict[str, Link | Done] = {}
        self._numbers = 0
        self._takers = Takers(service)

    def forward(self, question: Ask | Review, done: Done, who: str, administrator: bool) -> str:
        """Ask under a name of this broker's own; who asks and what it may is as this broker says."""
        self._numbers += 1
        request = f"{self._service.context.name}/{self._service.context.epoch}/{self._numbers}"
        self.asked(done, msgspec.structs.replace(question, request=request, who=who, administrator=administrator))
        return request

    def asked(self, source: Link | Done, message: Ask | Review) -> None:
        """Remember the way of a question, and send it on; or answer it, if this is the authority."""
        if len(self._trails) >= MAX_TRAILS:
            self._reply(source, Answer(message.request, error="ScopeError", reason="too many changes are under way"))
            return
        self._trails[message.request] = source
        self._service.context.call_later(TRAIL_TIME, lambda: self._lost(message.request))
        if not self._service.authority_name:
            self.answered(
                Answer(message.request, error="NoAuthority", reason=NOBODY.format(self._service.context.name))
            )
        elif self._service.authority is None:
            self._ask_authority(message)
        elif isinstance(message, Review):
            authority = self._service.authority
            self.answered(authority.firings.counted(message) if message.rules else authority.log.reviewed(message))
        elif objection := self._service.objection():
            self.answered(Answer(message.request, error="NoAuthority", reason=objection))
        else:
            self._service.authority.asked(message, self.answered)

    def _ask_authority(self, message: Ask | Review) -> None:
        link = self._service.context.hop_towards(self._service.authority_name)
        if link is None:
            authority, here = self._service.authority_name, self._service.context.name
            reason = f"the authority '{authority}' cannot be reached from broker '{here}' now; try again later"
            if self._service.is_unheard_of:
                reason = (
                    f"broker '{here}' has never heard of '{authority}', the authority of its scope graph; check "
                    "`authority` in its configuration, and that it is linked with that broker"
                )
            self.answered(Answer(message.request, error=AuthorityUnreachable.__name__, reason=reason))
        else:
            self._service.send(link, message)

    def answered(self, answer: Answer | Reviewed) -> None:
        """An answer has come: it goes back the way of its question."""
        source = self._trails.pop(answer.request, None)
        if source is not None:
            self._reply(source, answer)

    def _reply(self, source: Link | Done, answer: Answer | Reviewed) -> None:
        if not isinstance(source, Link):
            source(answer)
        elif source.is_client or self._service.context.is_open(source):
            self._service.send(source, answer)

    def _lost(self, request: str) -> None:
        reason = "the authority did not answer, and may have made the change or not; look at the graph, then try again"
        if request in self._trails:
            self.answered(Answer(request, error=AuthorityUnreachable.__name__, reason=reason))

    def from_client(self, link: Link, body: bytes) -> None:
        """A client asks. Who it is and what it may is for this broker to say."""
        administrator = link.guard is None or link.guard.administer
        try:
            message = decode_question(body)
        except ScopeError as error:
            self._misunderstood(link, body, error)
            return
        match message:
            case Ask() | Review():
                reference = message.request

                def done(answer: Answer | Reviewed) -> None:
                    if self._service.context.client(link.name) is link:
                        self._service.send(link, msgspec.structs.replace(answer, request=reference))

                self.forward(message, done, link.principal, administrator)
            case Look():
                graph = shown_to(self._service.versions.graph, link.principal, administrator)
                self._service.send(link, Seen(message.request, Snapshot.of(graph), graph.partial))
            case LookBack():
                self._service.send(link, self._revision(message, administrator))
            case Census():
                self._takers.asked(link, message, administrator)
            case _:
                raise TidingsError(f"a client may not send {type(message).__name__}")

    def _revision(self, question: LookBack, administrator: bool) -> Revision | Answer:
        versions, version = self._service.versions, question.version
        if not administrator:
            reason = "only clients that may change everything see how versions came to be; ask for the log instead"
            return Answer(question.request, error="NotAllowed", reason=reason)
        made = versions.transaction(version)
        if made is None:
            known = f"{versions.base.version + 1} to {versions.newest}" if versions.newest else "none yet"
            reason = f"version {version} of the scope graph is not remembered; those that are: {known}"
            return Answer(question.request, error="ScopeError", reason=reason)
        # A change may take a second version, in which brokers come to carry a scope: the first is what was asked for.
        while (before := versions.transaction(made.version - 1)) is not None and before.request == made.request:
            made = before
        return Revision(question.request, Snapshot.of(versions.plan(made.version - 1).graph), made)

    def _misunderstood(self, link: Link, body: bytes, error: ScopeError) -> None:
        """A question that cannot be read is answered, if it says at least which one it is."""
        reference = request_in(body)
        if not reference:
            raise error
        self._service.context.refused()
        self._service.send(link, Answer(reference, error=type(error).__name__, reason=str(error)))
