"""Delays: clients whose requests wait for others are told what for.

A publication waits for its scopes and its advertisement, a subscription or advertisement until the network knows it.
All that takes milliseconds, unless a broker is missing: an authority that nobody has heard of, a neighbour that does
not answer. So once a second this looks at what waits. What has waited for `PATIENCE` seconds is explained to its
client, by an `Extension` of the feature "waiting", which clients of other versions do not look at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from tidings.broker import Broker, Link
from tidings.wire import WAITING, Extension, Publish

if TYPE_CHECKING:
    from ._governance import Governance

log = logging.getLogger("tidings.net")

PATIENCE = 2.0
"""Seconds after which a client hears what its request waits for."""
COMPLAINT_SECONDS = 60.0
"""How often the log speaks of an authority that nobody has heard of."""
MAX_LOOKED_AT = 10_000
"""The most subscriptions and advertisements that one look takes in."""
MAX_NAMED = 5
"""The most brokers that an explanation names."""


class Delays:
    """What waits at one broker."""

    def __init__(self, broker: Broker, governance: Governance) -> None:
        self._broker = broker
        self._governance = governance
        self._since: dict[tuple[Link, str, int], float] = {}
        """When each request was first seen to wait."""
        self._told: set[tuple[Link, str, int]] = set()
        self._started: float | None = None
        self._complained: float | None = None

    def look(self, now: float) -> None:
        """See what waits, and explain what has waited for long."""
        self._look_for_authority(now)
        waiting = dict(self._waiting())
        self._since = {key: self._since.get(key, now) for key in waiting}
        self._told &= waiting.keys()
        for key, reason in waiting.items():
            if now - self._since[key] >= PATIENCE and key not in self._told:
                self._told.add(key)
                link, reference, _ = key
                body = msgspec.msgpack.encode((reference, f"{reason}, at broker '{self._broker.name}'"))
                self._broker.send(link, Extension(WAITING, body))

    def _look_for_authority(self, now: float) -> None:
        if self._started is None:
            self._started = now
        due = self._complained is None or now - self._complained >= COMPLAINT_SECONDS
        if now - self._started >= PATIENCE and due and (absence := self._governance.absence):
            self._complained = now
            log.warning(
                "%s; until then changes of scopes are refused, and what clients ask may wait. Check `authority` in the "
                "configuration, and that this broker is linked with it",
                absence,
            )

    def _waiting(self) -> Iterator[tuple[tuple[Link, str, int], str]]:
        """Each request that waits, and what for."""
        broker = self._broker
        for link, message in broker.delivery.waiting.heads():
            if isinstance(message, Publish):
                yield (link, str(message.seq), 0), self._of_publication(link)
        for link, waiting in islice(broker.registrations.returning.waiting(), MAX_LOOKED_AT):
            recovering = "this broker is recovering as much for its owner, or for all, as it may at a time"
            yield (link, waiting.id, waiting.number), recovering
        if broker.scoping.ready and not broker.scoping.unconfirmed and not broker.registrations.unplaced:
            return  # what is left has settled, or will with the next marks
        left = MAX_LOOKED_AT
        for link in broker.clients:
            for registrations in (broker.registrations.advertisements(link), broker.registrations.subscriptions(link)):
                for one in islice(registrations.values(), left):
                    left -= 1
                    if broker.scoping.ready and not one.placed:
                        yield (link, one.id, one.number), self._of_scopes()
                    elif not one.settled or not broker.scoping.ready:
                        yield (link, one.id, one.number), self._of_network()

    def _of_publication(self, link: Link) -> str:
        broker = self._broker
        if broker.scoping.passages(link) is None or not broker.routing.advertisements:
            return self._of_network()
        return f"its advertisement has not settled: {self._of_network()}"

    def _of_scopes(self) -> str:
        """What holds up a client whose scopes this broker does not carry yet."""
        if absence := self._governance.absence:
            return absence
        authority = self._governance.scopes.authority_name
        away = (
            "" if authority in (self._broker.name, *self._broker.adjacency.tree.hops) else ", which cannot be reached"
        )
        return f"its scopes are not carried here yet; that is for the authority '{authority}' to admit{away}"

    def _of_network(self) -> str:
        """What holds up whatever the whole network has to know."""
        if absence := self._governance.absence:
            return absence
        if not self._broker.scoping.ready:
            return "no neighbour has told the scope graph yet"
        silent = {link.name for book in list(self._broker.scoping.unconfirmed) for link, _, _ in book.pending}
        if silent:
            names = ", ".join(f"'{name}'" for name in sorted(silent)[:MAX_NAMED])
            return f"not confirmed by {names}"
        return "a change of the scope graph is under way"
