"""Random scopes that choose some of their members: who is in them, what they choose by, and what becomes of them.

`ChoicePlan` draws policies that give something to one of several, `StatePlan` those that give it to some or to nobody,
by ranks, rates, states and verdicts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tidings.model import EVERYTHING, ROOT_SCOPE, Filter, Notification, ScopeError
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    Graph,
    Interface,
    Join,
    Leave,
    PolicyKind,
    PolicyUse,
    SetAttributes,
    SetPolicy,
    apply,
    client_node,
)
from tidings.wire import Quality

from ._actions import Action, Verb
from ._workload import NUMBERS, random_filter

SECOND = 1_000_000
CODA = 16
"""How many publications follow when nothing changes any more."""


class ChoicePlan:
    """Draws the scopes of one run that choose one of several."""

    names = ("o1", "o2")
    """The scopes; nothing else is done to them."""
    subscription = "o"

    def __init__(self, rng: random.Random, clients: Sequence[str], brokers: Sequence[str], authority: str) -> None:
        self._rng = rng
        self._clients = clients
        self._brokers = brokers
        self._authority = authority
        self._scopes = self.names[: rng.choice((1, 1, 2))]

    def applied_to(self, steps: Sequence[Action]) -> tuple[Action, ...]:
        """The same steps with scopes that choose: in the graph from the start, changed later, and used at the end."""
        opening = next(step for step in steps if step.verb is Verb.CHANGE)
        graph = apply(Graph(), opening.changes)
        first = opening._replace(changes=(*opening.changes, *self._opening(graph)))
        length = max(step.at for step in steps)
        others = [step for step in steps if step is not opening]
        together = sorted([*others, *self._subscriptions(), *self._later(length)], key=lambda step: step.at)
        return (first, *together, *self._coda(length))

    def _opening(self, graph: Graph) -> Iterator[AnyChange]:
        for scope in self._scopes:
            above = self._rng.choice(("", ROOT_SCOPE, *(one for one in graph.scopes if one)))
            changes: list[AnyChange] = [CreateScope(scope, OPEN)]
            if self._rng.random() < 0.5:
                changes.append(Join(scope, above))
            changes += self._described()
            changes += [self._join(client, scope) for client in self._clients if self._rng.random() < 0.7]
            changes += [SetPolicy(scope, kind, self._use()) for kind in self._kinds()]
            for change in changes:
                try:
                    graph = apply(graph, (change,))
                except ScopeError:
                    continue  # there is no such scope
                yield change

    def _described(self) -> list[AnyChange]:
        """What policies read of members."""
        return []

    def _kinds(self) -> tuple[PolicyKind, ...]:
        both = (PolicyKind.INTERNAL, PolicyKind.DELIVERY)
        return self._rng.choice((both[:1], both[:1], both[1:], both))

    def _use(self) -> PolicyUse:
        point = {"point": self._rng.choice(self._brokers)} if self._rng.random() < 0.3 else {}
        match self._rng.choice(("turn", "turn", "turn", "random", "least-loaded", "attribute", "single")):
            case "single":
                return PolicyUse("single", point)
            case "turn":
                return PolicyUse("one-of-n", point)
            case "attribute":
                return PolicyUse("one-of-n", {"by": "attribute", "attribute": "kind", **point})
            case by:
                return PolicyUse("one-of-n", {"by": by, **point})

    def _join(self, client: str, scope: str) -> Join:
        filtered = Interface(random_filter(self._rng), EVERYTHING) if self._rng.random() < 0.15 else OPEN
        return Join(client_node(client), scope, filtered)

    def _subscriptions(self) -> Iterator[Action]:
        """What most clients want all the time."""
        for client in self._clients:
            if self._rng.random() < 0.6:
                yield Action(0, Verb.SUBSCRIBE, (client,), self.subscription, Filter.parse("n >= 0"))

    def _later(self, length: int) -> Iterator[Action]:
        for _ in range(self._rng.choice((0, 0, 2, 5))):
            scope, client = self._rng.choice(self._scopes), self._rng.choice(self._clients)
            change: AnyChange = self._rng.choice((self._join(client, scope), Leave(client_node(client), scope)))
            if self._rng.random() < 0.2:
                kind = self._rng.choice((PolicyKind.INTERNAL, PolicyKind.DELIVERY))
                change = SetPolicy(scope, kind, self._use() if self._rng.random() < 0.7 else None)
            at = self._rng.randrange(1, length + 2)
            yield Action(at, Verb.CHANGE, (self._rng.choice(self._brokers),), changes=(change,))

    def _coda(self, length: int) -> Iterator[Action]:
        """When nothing changes any more, whoever takes turns must get as much as the others."""
        client, at = self._rng.choice(self._clients), length + 40 * SECOND
        for number in range(CODA):
            notification = Notification(n=number % 4, kind="a", word="ab", x=2.0)
            at += self._rng.randrange(SECOND)
            yield Action(at, Verb.PUBLISH, (client,), notification=notification, quality=Quality.ACCEPTED)


class StatePlan(ChoicePlan):
    """Draws the scopes of one run that choose several, or by a state."""

    names = ("k1", "k2")
    subscription = "k"

    def __init__(self, rng: random.Random, clients: Sequence[str], brokers: Sequence[str], authority: str) -> None:
        super().__init__(rng, clients, brokers, authority)
        self._count = 0

    def _described(self) -> list[AnyChange]:
        return [
            SetAttributes(client_node(client), {"rank": self._rng.choice((1, 2, 2, 3.5, "best"))})
            for client in self._clients
            if self._rng.random() < 0.7
        ]

    def _use(self) -> PolicyUse:
        point = {"point": self._rng.choice(self._brokers)} if self._rng.random() < 0.3 else {}
        by = {"by": "kind"} if self._rng.random() < 0.5 else {}
        held = {"filter": "n > 4"} if self._rng.random() < 0.5 else {}
        match self._rng.choice(("top-k", "rate-limit", "state", "state", "release", "release", "acknowledged")):
            case "top-k" if self._rng.random() < 0.3:
                return PolicyUse("top-k", {"k": self._rng.randint(1, 3), "by": "least-loaded", **point})
            case "top-k":
                return PolicyUse("top-k", {"k": self._rng.randint(1, 3), "attribute": "rank", **point})
            case "rate-limit":
                seconds = self._rng.choice((0.1, 1.0, 5.0, 60.0)) + self._number() / 1_000
                return PolicyUse("rate-limit", {"count": self._rng.randint(1, 4), "seconds": seconds, **point})
            case "state":
                initially = {"initially": True} if self._rng.random() < 0.3 else {}
                return PolicyUse("state", {"opens": self._says(), "closes": self._says(), **by, **initially, **point})
            case "release":
                abort = {"abort": self._says()} if self._rng.random() < 0.6 else {}
                return PolicyUse("release", {"commit": self._says(), **abort, "by": "kind", **held, **point})
            case _:
                said = {"acknowledgement": self._says(), "count": self._rng.randint(1, 2), "by": "kind"}
                return PolicyUse("acknowledged", {**said, **held, **point})

    def _says(self) -> str:
        """What opens, closes, commits, aborts or acknowledges; no two policies ever say the same."""
        return f"n = {self._rng.randrange(4)} OR n = {NUMBERS + self._number()}"

    def _number(self) -> int:
        self._count += 1
        return self._count
