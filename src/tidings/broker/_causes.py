"""Causes: what ties a publication to the notification that it reacts to, and so to a session.

Theory of operation
-------------------
A *session scope* has a session id. What is published in it is tagged, and so is what is published in reaction to that:
a reaction appears in no session scope but those that its cause was in. Nobody writes tags into notifications. They
travel in `Route.tags`, and applications never see them.

    in:<digest>     the notification belongs to this session: a session scope that it climbed through, or one that its
                    own cause was in
    at:<digest>     a scope through which it came down to this client; told only if one of its sessions keeps reactions
                    to itself (mode `origin_only`)
    re:<where>/<key> the notification is a request; a reply names this

A client is told digests, not names: it may not know of the scopes at all. Its local broker keeps what it was told while
the application handles the notification, in a context variable, and repeats it with what the application publishes
meanwhile. The border broker leaves out the scopes that the cause rules out. It never adds one: a client that
lies about a cause publishes to fewer scopes than it may, or to as many.

    handled by                    the cause holds
    a callback                    until it returns, or what it returned has been awaited
    `async for`, `receive`        until the next notification of that subscription is asked for, or it ends
    a task or thread of these     as long as the cause does; with `keep_context`, for ever

Several may hold at once, if one task reads several subscriptions in turns. Then a publication is a reaction to each of
them, and appears in the session scopes that all of them were in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from tidings.model import ValueRefused

_T = TypeVar("_T")

IN = "in:"
AT = "at:"
RE = "re:"
_SESSION = (IN, AT, RE)
NO_SESSION = IN
"""The tag of what belongs to no session that any scope has: a reaction to several sessions at once."""
NO_SCOPE = AT
NO_TAGS: tuple[str, ...] = ()
MAX_CAUSES_KEPT = 64
"""The most tags of a cause that go on with a publication. A client may say more: what it was told has these, and the
sessions that it came through."""


class Sessions(Protocol):
    """What is asked of one version of the scope graph."""

    @property
    def sessions(self) -> Mapping[str, str]:
        """The session scopes, each with the tag of its session."""
        ...

    @property
    def confined(self) -> frozenset[str]:
        """Those of the tags whose sessions keep reactions to themselves."""
        ...

    def supers(self, scope: str) -> Mapping[str, object]:
        """The scopes that a scope is a member of."""
        ...


def session_tag(id: str) -> str:
    """The tag of the session of this id."""
    return IN + _digest(id)


def scope_tag(scope: str) -> str:
    """The tag of what a scope hands over."""
    return AT + _digest(scope)


def request_tag(broker: str, key: str) -> str:
    """The tag of a request that has opened a session by this key at a broker."""
    return f"{RE}{broker}/{key}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_cause(tags: Iterable[str]) -> None:
    """Raise `ValueRefused` unless these are tags that a cause may have."""
    for tag in tags:
        if not tag.startswith((IN, AT)):
            raise ValueRefused(f"cause {tag!r:.60} is no tag of a session; repeat what the notification came with")


def kept(tags: tuple[str, ...]) -> tuple[str, ...]:
    """What goes on with a publication that has this cause: if it is too much, that it is of no session at all."""
    if len(tags) <= MAX_CAUSES_KEPT:
        return tags
    return tuple(dict.fromkeys(NO_SESSION if tag.startswith(IN) else NO_SCOPE for tag in tags))


def check_session_id(id: str) -> None:
    """Raise `ValueRefused` unless a client may open a session by this id."""
    if not id or "/" in id or not id.isprintable():
        raise ValueRefused(f"session id {id!r:.60} cannot be; use printable characters other than '/', at least one")


def climbs(path: Iterable[str], scope: str, tags: Collection[str], graph: Sessions) -> bool:
    """Whether a publication with these tags that has climbed through some scopes may climb into this one.

    Once it is in a session that its cause was in, it is like any other: a session scope forwards everything alike.
    """
    known = graph.sessions
    for climbed in path:
        if climbed in known:
            return True
    sessions = [tag for tag in tags if tag.startswith(IN)]
    if sessions and scope in known and known[scope] not in sessions:
        return False
    places = [tag for tag in tags if tag.startswith(AT)]
    return not places or scope_tag(scope) in places


def told_of(path: tuple[str, ...], tags: Iterable[str], graph: Sessions) -> dict[str, None]:
    """The tags that a client is told of a copy that came by this path, with these tags of its own."""
    told = {tag: None for tag in tags if tag.startswith((IN, RE))}
    known, top = graph.sessions, 0
    if known:
        for at, scope in enumerate(path):
            if at and scope not in graph.supers(path[at - 1]):
                break  # from here on it came down, and nobody published it there
            top = at
            if scope in known:
                told[known[scope]] = None
        if not graph.confined.isdisjoint(told):
            told.update((scope_tag(scope), None) for scope in path[top:])
    return told


class Cause:
    """What a notification is told to belong to, while an application handles it."""

    __slots__ = ("__weakref__", "_kept", "holds", "request", "tags")

    def __init__(self, tags: Iterable[str], *, kept: bool = False) -> None:
        """`kept`: it holds for ever, for what the application has started."""
        self.tags = tuple(tags)
        self.holds = True
        """Whether what is published here is a reaction to it."""
        self._kept = kept
        self.request = ""
        """Where a reply goes; empty if the notification was no request."""
        for tag in self.tags:
            if tag.startswith(RE):
                self.request = tag[len(RE) :]

    def end(self) -> None:
        """The application has handled the notification."""
        self.holds = self._kept

    @property
    def reaction(self) -> frozenset[str]:
        """The tags of what is published in reaction: a request is a session of its own."""
        own = session_tag(self.request)  # a digest: whoever hears of the reaction must not be able to reply
        return frozenset(tag if not tag.startswith(RE) else own for tag in self.tags)


_Causes = Mapping[object, Cause]
_NONE: _Causes = {}
_current: ContextVar[_Causes] = ContextVar("tidings causes", default=_NONE)
"""What is being handled here, by who handed it over."""


def session_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the tags of a notification that say which sessions it belongs to."""
    return tuple([tag for tag in tags if tag.startswith(_SESSION)])


def enter(source: object, cause: Cause | None) -> None:
    """In this context, `source` has handed over something with this cause; what it handed over before is handled."""
    known = _current.get()
    if not known and cause is None:
        return
    causes = {one: other for one, other in known.items() if one is not source and other.holds}
    if cause is not None:
        causes[source] = cause
    _current.set(causes or _NONE)


handled_here: Callable[[], Mapping[object, Cause]] = _current.get
"""What was handed over in this context and came from a session; empty, as it mostly is, if nothing did. It is asked for
each publication and each notification, and costs no call of a Python function."""


def leave(source: object) -> Cause | None:
    """In this context, what `source` has handed over is handled: return its cause, if there is one.

    Tasks that it has started may go on with it.
    """
    known = _current.get()
    if (cause := known.get(source)) is not None:
        cause.end()
        _current.set({one: other for one, other in known.items() if one is not source} or _NONE)
    return cause


def handle(source: object, tags: tuple[str, ...], callback: Callable[[_T], object], item: _T) -> None:
    """Call back; until it returns, and no longer, what is published here is a reaction to what has these tags."""
    cause = Cause(tags)
    token = _current.set({source: cause})
    try:
        callback(item)
    finally:
        _current.reset(token)
        cause.end()


@contextmanager
def during(source: object, cause: Cause) -> Iterator[None]:
    """While this lasts, what is published here is a reaction to this alone; what was begun here may go on with it."""
    token = _current.set({source: cause})
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Cause | None:
    """What a reply here would answer; None: nothing, or several requests at once."""
    requests = [cause for cause in _current.get().values() if cause.holds and cause.request]
    return requests[0] if len(requests) == 1 else None


def reaction() -> tuple[str, ...]:
    """The tags of what is published here, now."""
    known = _current.get()
    if not known:
        return NO_TAGS
    return combined([cause.reaction for cause in known.values() if cause.holds])


def combined(causes: list[frozenset[str]]) -> tuple[str, ...]:
    """The tags of a reaction to all of these."""
    if len(causes) == 1:
        return tuple(sorted(causes[0]))
    return (*_shared(causes, IN, NO_SESSION), *_shared(causes, AT, NO_SCOPE))


def _shared(causes: list[frozenset[str]], kind: str, none: str) -> tuple[str, ...]:
    of_kind = [tags for cause in causes if (tags := {tag for tag in cause if tag.startswith(kind)})]
    if not of_kind:
        return NO_TAGS
    return tuple(sorted(set.intersection(*of_kind))) or (none,)
