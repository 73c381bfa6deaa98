"""Naming: who could hear a notification, by name. Told only where operators allow it.

Everything else that is counted has no names in it. With the capability `identity`, which is a setting of each broker,
administrators may ask for names: a wave collects them, and a broker without the capability gives none, whoever asks. So
names leave a broker only if its own operator lets them.

A broker looks at what its clients have registered, a part in each turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from tidings.broker import Context, Link, Registration
from tidings.model import AggregateError, Filter, Matches, Notification, ScopeError
from tidings.wire import UNREADABLE, pack

from ._counting import LOOK_COST, is_copy, reaches
from ._key import key_of, subject_of
from ._options import AggregationOptions
from ._places import Places, Way, Ways
from ._rights import Rights
from ._subject import Subject
from .definitions import Key, touches
from .receiving import Found, Names, Wanted, Who, read_found, read_wanted

MAX_NAMES = 1_000
"""The most names that are told; of the others, how many there are at least."""


class Naming:
    """The names that one broker tells: a kind of wave."""

    def __init__(self, context: Context, options: AggregationOptions, rights: Rights) -> None:
        self._context = context
        self._allowed = options.identity
        self._rights = rights

    def ask(self, link: Link, who: Who, answer: Callable[[Names], None]) -> None:
        """A client asks; `TidingsError` if it may not, or if that makes no sense."""
        if not self._allowed:
            raise AggregateError(
                f"broker '{self._context.name}' tells nobody's name; set identity = true in [aggregation] of the "
                "brokers whose clients may be named"
            )
        subject = subject_of("subscriber_count", "1", who.key, who.probe, who.scope, away=True)
        view = self._context.scoping.newest
        if not view.knows(who.scope):
            raise ScopeError(f"there is no scope '{who.scope:.80}'; `tidings scope tree` shows which there are")
        self._rights.may_administer(link, who.scope, view)

        def done(body: bytes, complete: bool) -> None:
            found = read_found(body) if body else Found([])
            answer(Names(who.id, found.names, found.left_out, complete))

        self._context.wave("who", pack(Wanted(subject.key, subject.probe, subject.scope)), done)

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Look for the names of clients of this broker, if they may be told."""
        if not self._allowed:
            answer(None)
            return
        try:
            wanted = read_wanted(body)
            key = key_of(Subject("subscriber_count", "1", wanted.key, wanted.probe))
        except (AggregateError, *UNREADABLE):
            self._context.refused()
            answer(None)
            return
        context = self._context
        waiting = deque(one for client in context.clients if not is_copy(client) for one in context.subscribed(client))
        self._look(key, Places(context).of(wanted.scope).ways, waiting, {}, answer)

    def _look(
        self,
        key: Key,
        ways: Ways,
        waiting: deque[Registration],
        names: dict[str, None],
        answer: Callable[[bytes | None], None],
    ) -> None:
        left = LOOK_COST
        while waiting and left > 0:
            one = waiting.popleft()
            left -= one.filter.cost if isinstance(one.filter, Filter) else 1
            if one.link.name not in names and self._context.is_current(one) and _could_hear(one, key, ways):
                names[one.link.name] = None
        if waiting:
            self._context.call_later(0, lambda: self._look(key, ways, waiting, names, answer))
        else:
            answer(pack(_bounded(set(names), 0)))

    def combine(self, answers: list[bytes]) -> bytes:
        """The union."""
        found = [read_found(one) for one in answers]
        names = {name for one in found for name in one.names}
        return pack(_bounded(names, sum(one.left_out for one in found)))


def _bounded(names: set[str], left_out: int) -> Found:
    ordered = sorted(names)
    return Found(ordered[:MAX_NAMES], left_out + len(ordered[MAX_NAMES:]))


def _could_hear(registration: Registration, key: Key, ways: Ways) -> bool:
    for scope, entry in registration.entries.items():
        for way in ways.get(scope, ()):
            if isinstance(key, Notification):
                hears = reaches(key, way, entry)
            else:
                hears = touches(key, _seen(entry.filter, way))
            if hears:
                return True
    return False


def _seen(filter: Matches, way: Way) -> Matches:
    for passage in way:
        filter = passage.wanted(filter)
    return filter
