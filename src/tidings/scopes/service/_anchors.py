"""Anchors: a broker with attached members of a scope asks to be admitted to carry it, and gives it up after them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tidings.model import ROOT_SCOPE, AuthorityUnreachable, NotTrusted
from tidings.scopes._changes import Anchor, AnyChange, Unanchor
from tidings.scopes._messages import Answer

from ._view import View

if TYPE_CHECKING:
    from tidings.broker import View as BrokerView

    from ._service import Scopes

ASK_AGAIN = 1_000_000
"""Microseconds after which a broker asks again to be admitted."""
RETREAT_DELAY = 30_000_000
"""Microseconds after the last member of a scope has gone until its broker gives the scope up."""
SETTLING_TIME = 500_000
"""Microseconds that a new tree is given before a broker asks the authority again for what it needs."""


class Anchors:
    """What one broker is admitted to, and should be."""

    def __init__(self, service: Scopes) -> None:
        self._service = service
        self._asked: set[AnyChange] = set()
        self._retreating = False
        self._seen: BrokerView | None = None
        self._changed: set[str] = set()
        """The clients that have come or gone since then."""
        self._of_client: dict[str, tuple[str, ...]] = {}
        self._counts: Counter[str] = Counter()
        """How many attached clients are members of each scope, in the version that was seen last."""

    def new_tree(self) -> None:
        """The authority may be in reach again."""
        self._asked.clear()
        self._service.context.call_later(SETTLING_TIME, self._settled)
        self.retreat_later()

    def _settled(self) -> None:
        self._give_way()
        self.seek()

    def client_changed(self, client: str) -> None:
        """Somebody has come or gone."""
        self._changed.add(client)

    def _needed(self) -> set[str]:
        """The scopes that attached clients are members of."""
        view, seen = self._service.scoping.newest, self._seen
        changed, self._changed = self._changed, set()
        if view is not seen:
            moved = view.plan.moved if isinstance(view, View) else None
            if seen is None or view.version != seen.version + 1 or moved is None:
                self._of_client, self._counts = {}, Counter()
                moved = frozenset(link.principal for link in self._service.context.clients)
            changed |= moved
            self._seen = view
        for client in changed:
            self._counts.subtract(self._of_client.pop(client, ()))
            if self._service.context.standing_for(client):
                self._of_client[client] = tuple(view.memberships(client))
                self._counts.update(self._of_client[client])
        return {scope for scope, count in self._counts.items() if count > 0} - {ROOT_SCOPE}

    def missing(self) -> list[tuple[str, str]]:
        """The scopes that this broker must carry, and has not been admitted to: each with its own name."""
        here, anchors = self._service.context.name, self._service.versions.graph.anchors
        return [(scope, here) for scope in sorted(self._needed()) if here not in anchors.get(scope, ())]

    def seek(self) -> None:
        """Ask to be admitted wherever attached clients are members."""
        if self._service.scoping.ready:
            self._ask_for([Anchor(scope, here) for scope, here in self.missing()])

    def _idle(self) -> list[str]:
        """The scopes that this broker is admitted to, and that no attached client is a member of."""
        here, needed = self._service.context.name, self._needed()
        anchors = self._service.versions.graph.anchors
        return [scope for scope, brokers in sorted(anchors.items()) if here in brokers and scope not in needed]

    def retreat_later(self) -> None:
        """Give up in a while what is not needed then either."""
        if not self._retreating and self._idle():
            self._retreating = True
            self._service.context.call_later(RETREAT_DELAY, self._retreat)

    def _retreat(self) -> None:
        """Give up scopes that no attached client is a member of."""
        self._retreating = False
        if self._service.scoping.ready:
            self._ask_for([Unanchor(scope, self._service.context.name) for scope in self._idle()])

    def _give_way(self) -> None:
        """Give up what only copies need here, where a scope stands still: the way to here may lead over strangers."""
        view, here = self._service.scoping.newest, self._service.context.name
        if not isinstance(view, View) or not view.plan.careful or not self._service.scoping.ready:
            return
        graph = view.plan.graph
        still = {one for one, brokers in graph.anchors.items() if here in brokers and view.stands_still(one)}
        there = (link.principal for link in self._service.context.clients if not link.is_inside)
        needed = {scope for client in there for scope in view.memberships(client)} if still else set()
        self._ask_for([Unanchor(scope, here) for scope in sorted(still - needed)])

    def _ask_for(self, changes: list[AnyChange]) -> None:
        new = tuple(change for change in changes if change not in self._asked)
        if not new:
            return
        self._asked.update(new)

        def done(answer: Answer) -> None:
            self._asked.difference_update(new)
            if answer.error and answer.error not in (AuthorityUnreachable.__name__, NotTrusted.__name__):
                # It is busy. If it is away, or the way leads over strangers, the next tree brings us back here.
                self._service.context.call_later(ASK_AGAIN, self.seek)

        self._service.ask(new, done)
