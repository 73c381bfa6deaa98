"""Watches by name: which version serves each, and when it goes over to another one.

Theory of operation
-------------------
A client watches a name, and is served by one version at a time, its *current* one. When another version is the newest,
that one is asked for as well, as the *candidate*; the client hears nothing of it until it has a complete value. Then
it is the current one, and the other is let go. So the client sees one stream, the version changes once, and while the
upgrade is under way some complete version serves it. Every value is of one version: they are different subjects.

    newest version is     | current runs here            | current does not run here any more
    ----------------------|------------------------------|-----------------------------------
    none                  | -                            | the client is told why; the watch ends
    the current one       | the candidate is let go      | -
    another one           | it becomes the candidate     | it becomes the current one at once

A candidate that is complete becomes the current one.

When the versions of a name change, everything that is to be let go is let go first, for all watches, and only then is
another version asked for: a broker never measures more of them than run side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from tidings.broker import Link
from tidings.model import AggregateError, TidingsError

from ._measurements import QUESTION_VERSION
from ._state import Request
from ._subject import Subject
from ._windows import is_question, question_of
from .deploying import EVERY, Place, Registry, Tier


def is_name(aggregate: object) -> bool:
    """Whether this is the name of something that was deployed: names of Tidings have no dot, questions have
    parentheses."""
    return isinstance(aggregate, str) and "." in aggregate and not is_question(aggregate)


class NamedRequest(Request[Link]):
    """What one client asks of one version."""

    __slots__ = ("place", "watch")

    def __init__(self, watch: NamedWatch, place: Place) -> None:
        super().__init__(watch.link, watch.id, 0)
        self.watch = watch
        self.place = place


class NamedWatch:
    """A watch by name. Compared by identity."""

    __slots__ = ("candidate", "current", "id", "link", "name", "scope")

    def __init__(self, link: Link, id: str, name: str, scope: str) -> None:
        self.link = link
        self.id = id
        self.name = name
        self.scope = scope
        self.current: NamedRequest
        self.candidate: NamedRequest | None = None


class Asking(Protocol):
    """What watches by name need of the broker around them."""

    def register(self, subject: Subject, request: NamedRequest) -> None:
        """Ask for a subject, or raise `TidingsError` if the client may not."""
        ...

    def release(self, request: NamedRequest) -> None:
        """Ask no longer."""
        ...

    def serves(self, request: NamedRequest) -> None:
        """From now on this request serves its watch."""
        ...

    def finished(self, watch: NamedWatch, reason: str) -> None:
        """No version serves a watch any more; it is forgotten, and its client is to be told."""
        ...


class NamedWatches:
    """The watches by name of one broker."""

    def __init__(self, registry: Registry, asking: Asking, subject_of: Callable[[Place, str], Subject]) -> None:
        self._registry = registry
        self._asking = asking
        self._subject_of = subject_of
        self._watches: dict[str, dict[NamedWatch, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._watches.values()))

    def __iter__(self) -> Iterator[NamedWatch]:
        return (watch for watches in self._watches.values() for watch in watches)

    def watching(self, place: Place) -> int:
        """How many watches a version serves."""
        return sum(watch.current.place == place for watch in self._watches.get(place.name, ()))

    def newest(self, name: str) -> Place:
        """The version that answers to a name, or `AggregateError`."""
        if running := self._registry.versions(name):
            return running[0]
        raise AggregateError(self._absence(name))

    def watch(self, link: Link, id: str, name: str, scope: str) -> NamedRequest:
        """A client watches a name."""
        place = self.newest(name)
        watch = NamedWatch(link, id, name, scope)
        watch.current = NamedRequest(watch, place)
        self._asking.register(self._subject_of(place, scope), watch.current)
        self._watches.setdefault(name, {})[watch] = None
        return watch.current

    def unwatch(self, watch: NamedWatch) -> None:
        """It ends, and with it what is asked for it."""
        self._forget(watch)
        for request in (watch.candidate, watch.current):
            if request is not None:
                self._asking.release(request)

    def changed(self, name: str) -> None:
        """The versions of a name may have changed."""
        for one in list(self._watches) if name == EVERY else [name]:
            running = self._registry.versions(one)
            looked_at = [self._look(watch, running) for watch in list(self._watches.get(one, ()))]
            for request in filter(None, looked_at):
                self._ask(request)

    def told(self, request: NamedRequest, complete: bool) -> bool:
        """Whether the client hears what was found out for a request."""
        watch = request.watch
        if request is watch.current:
            return True
        if request is watch.candidate and complete:
            self._switch(watch)
            return True
        return False

    def _look(self, watch: NamedWatch, running: list[Place]) -> NamedRequest | None:
        """Let go of the versions that shall not serve a watch any more, and return what is to be asked for it."""
        newest = running[0] if running else None
        candidate = watch.candidate
        if candidate is not None and candidate.place != newest:
            watch.candidate = None
            self._asking.release(candidate)
        if newest is None:
            self.unwatch(watch)
            self._asking.finished(watch, self._absence(watch.name))
            return None
        if watch.current.place in running:
            if watch.candidate is not None or newest == watch.current.place:
                return None
            watch.candidate = NamedRequest(watch, newest)
            return watch.candidate
        if watch.candidate is not None:
            self._switch(watch)
            return None
        before, watch.current = watch.current, NamedRequest(watch, newest)
        self._asking.serves(watch.current)
        self._asking.release(before)
        return watch.current

    def _ask(self, request: NamedRequest) -> None:
        """Ask for a version; if the client may not, because it measures more than the one before, the watch ends."""
        watch = request.watch
        try:
            self._asking.register(self._subject_of(request.place, watch.scope), request)
        except TidingsError as error:
            self._forget(watch)
            if request is not watch.current:
                self._asking.release(watch.current)
            self._asking.finished(watch, f"{request.place}: {error}")

    def _switch(self, watch: NamedWatch) -> None:
        assert watch.candidate is not None
        before, watch.current, watch.candidate = watch.current, watch.candidate, None
        self._asking.serves(watch.current)
        self._asking.release(before)

    def _forget(self, watch: NamedWatch) -> None:
        watches = self._watches[watch.name]
        del watches[watch]
        if not watches:
            del self._watches[watch.name]

    def _absence(self, name: str) -> str:
        """Why nothing answers to a name."""
        known = self._registry.places_of(name)
        if not known:
            return f"nothing is deployed as '{name:.80}'; `tidings aggregate list` shows what is"
        place = max(known, key=lambda one: (self._issued(one), one.version))
        judged = self._registry.judge(place)
        return f"{place} is {judged.phase} here: {judged.reason}"

    def _issued(self, place: Place) -> int:
        statement = self._registry.statement(place)
        return statement.manifest.issued_at if statement is not None else 0


def deployed_subject(registry: Registry, place: Place, scope: str) -> Subject:
    """What is asked for if a version is: the question itself, or the code by its digest."""
    statement = registry.statement(place)
    assert statement is not None
    if statement.manifest.tier is Tier.EXPRESSION:
        return Subject(question_of(statement.source).name, QUESTION_VERSION, "", b"", scope)
    return Subject(place.name, f"{place.version}@{statement.manifest.digest}", "", b"", scope)


def place_in(subject: Subject) -> Place:
    """The name and version of code that a subject is about."""
    return Place(subject.aggregate, subject.version.partition("@")[0])
