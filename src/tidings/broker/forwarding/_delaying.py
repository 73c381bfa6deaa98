"""Delaying: what a policy keeps back waits at the broker of its reader until it is due, and is judged once more then.

Theory of operation
-------------------
A delayed copy travels at once, with the time before which nobody gets it. So marks stay true: whatever lies before a
mark has reached the broker, and what has not waits here. A client is told marks only up to what waits for it, and goes
by marks alone where policies delay. So whatever breaks while something waits, the client asks the origins for it
again, here or elsewhere, and it waits again until the same time: the time follows from the publication.

    waiting    it is not due; the client has no mark behind it
    released   it is due: handed over, if the graph of now shows it, too
    abandoned  its client or its subscription has gone, or what the subscription gets of the past begins behind it

It is shown if the version by which this broker judges now lets its reader see it, on its own way or on another. If the
other way has a later time, it waits until then. A copy that a mapping has changed is not what was published, and cannot
be judged again by interfaces: it is handed over if every edge of its way is as it was, otherwise its reader is told a
`Gap`.

A debt of its origin does not keep back what is released: a debt is about what follows a position, and this lies before
it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from tidings.broker._links import Link
from tidings.broker.interest import Passage, Registration, View
from tidings.model import NOWHERE, Position
from tidings.wire import Envelope, Gap

from ._host import Host

MAX_DELAYED = 100_000
"""The most copies that wait at one broker; of the next ones their readers are told a `Gap`."""


class _Waiting(NamedTuple):
    envelope: Envelope
    subscriptions: tuple[Registration, ...]
    """As they were when it came: the filter of one may change meanwhile."""
    due: int
    path: tuple[str, ...]
    """The scopes that it came through."""


class _Way(NamedTuple):
    due: int
    path: tuple[str, ...]


class Delaying:
    """What waits at one broker until it is due."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._waiting: dict[Link, dict[int, _Waiting]] = {}
        """By client, numbered."""
        self._count = 0
        self._number = 0

    @property
    def count(self) -> int:
        """How many copies wait."""
        return self._count

    def keeps(
        self, link: Link, envelope: Envelope, registrations: Iterable[Registration], due: int, path: tuple[str, ...]
    ) -> bool:
        """Keep a copy until it is due; False if it is due already."""
        wait = due - self._broker.runtime.now()
        if wait <= 0:
            return False
        kept = list(registrations)
        if self._count >= MAX_DELAYED:
            self._lost(envelope, kept)
            return True
        self._put(link, _Waiting(envelope, tuple(kept), due, path), wait)
        return True

    def _put(self, link: Link, waiting: _Waiting, wait: int) -> None:
        self._number += 1
        self._count += 1
        self._waiting.setdefault(link, {})[self._number] = waiting
        self._broker.call_later(wait, partial(self._release, link, self._number))

    def _release(self, link: Link, number: int) -> None:
        waiting = self._taken(link, number)
        if waiting is None:
            return  # its client has gone, or others have it
        current = self._broker.registrations.subscriptions(link)
        wanting = [current[one.id] for one in waiting.subscriptions if one.id in current]
        shown = self._shown(waiting, link.principal)
        if shown is None:
            self._lost(waiting.envelope, wanting)
            return
        for due, path in shown[:1]:
            if (wait := due - self._broker.runtime.now()) > 0:
                self._put(link, waiting._replace(due=due, path=path), wait)
            else:
                self._broker.delivery.deliver_held(waiting.envelope, wanting)

    def _taken(self, link: Link, number: int) -> _Waiting | None:
        waiting = self._waiting.get(link, {}).pop(number, None)
        if waiting is not None:
            self._count -= 1
            if not self._waiting[link]:
                del self._waiting[link]
        return waiting

    def _shown(self, waiting: _Waiting, client: str) -> list[_Way] | None:
        """The ways by which the graph of now shows a copy to its reader, its own first; None: nobody can tell."""
        scoping, identity = self._broker.scoping, waiting.envelope.identity
        now, own = scoping.active, _Way(waiting.due, waiting.path)
        if now.version <= identity.graph_epoch:
            return [own]
        then = scoping.view(identity.graph_epoch)
        if then is None:
            return None
        if not waiting.envelope.routes[0].version:
            notification = waiting.envelope.notification
            seen = now.sightings(identity.publisher, notification, client, identity=identity)
            ways = sorted(_Way(one.due, one.path) for one in seen if one.notification == notification)
            return [own] if any(way.path == own.path for way in ways) else ways
        ways_of = [list(_edges(view, identity.publisher, waiting.path, client)) for view in (then, now)]
        if None in ways_of[1]:
            return []
        same = all(
            old is not None and new is not None and old.since == new.since for old, new in zip(*ways_of, strict=True)
        )
        return [own] if same else None

    def _lost(self, envelope: Envelope, subscriptions: Iterable[Registration]) -> None:
        identity = envelope.identity
        gap = Gap(identity.origin, identity.epoch, identity.seq, identity.seq)
        self._broker.delivery.report_gap(gap, dict.fromkeys(subscriptions))

    # --- marks ----------------------------------------------------------------------------------------

    def oldest(self, link: Link) -> dict[str, Position]:
        """For each origin of which something waits for a client, the position before the oldest."""
        found: dict[str, Position] = {}
        for waiting in self._waiting.get(link, {}).values():
            identity = waiting.envelope.identity
            before = Position(identity.epoch, identity.seq - 1)
            found[identity.origin] = min(before, found.get(identity.origin, before))
        return found

    # --- clients --------------------------------------------------------------------------------------

    def ended(self, registration: Registration) -> None:
        """A subscription has ended: one that takes its id is another."""
        self._forget(registration.link, lambda waiting, one: one.id == registration.id)

    def reached(self, registration: Registration, positions: Mapping[str, Position]) -> None:
        """A subscription has been asked for its past: what came for it up to these positions is in that, or too old."""

        def is_in_past(waiting: _Waiting, one: Registration) -> bool:
            identity = waiting.envelope.identity
            return one is registration and identity.position <= positions.get(identity.origin, NOWHERE)

        self._forget(registration.link, is_in_past)

    def _forget(self, link: Link, whose: Callable[[_Waiting, Registration], bool]) -> None:
        """Let nothing wait any longer for subscriptions of a client."""
        for number, waiting in list(self._waiting.get(link, {}).items()):
            left = tuple(one for one in waiting.subscriptions if not whose(waiting, one))
            if not left:
                self._taken(link, number)
            elif len(left) < len(waiting.subscriptions):
                self._waiting[link][number] = waiting._replace(subscriptions=left)

    def adopt(self, old: Link, new: Link) -> None:
        """What waits for one client waits for another, too: some of its subscriptions may stay."""
        now = self._broker.runtime.now()
        for one in list(self._waiting.get(old, {}).values()):
            self._put(new, one, max(0, one.due - now))

    def abandon(self, link: Link) -> None:
        """A client has gone. It has no mark behind what waits, and asks for it where it comes next."""
        self._count -= len(self._waiting.pop(link, {}))


def _edges(view: View, publisher: str, path: tuple[str, ...], client: str) -> Iterator[Passage | None]:
    """The edges of a way, as far as there are."""
    yield view.memberships(publisher).get(path[0])
    for one, other in itertools.pairwise(path):
        known = view.knows(one) and view.knows(other)
        yield view.supers(one).get(other) or view.subs(one).get(other) if known else None
    yield view.memberships(client).get(path[-1])
