"""Random scope graphs, and random changes of them while everything is under way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tidings.model import EVERYTHING, NOTHING, Filter
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    DestroyScope,
    EdgeMapping,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Mode,
    Placement,
    SetDelivery,
    SetInterface,
    SetMapping,
    SetPlacement,
    SetSelective,
    apply,
    client_node,
    is_client,
    mapping,
)
from tidings.scopes.steps import Add, AnyStep, Convert, Drop, Rename

from ._actions import Action, Verb
from ._workload import random_filter

_MIRRORED = (
    mapping(),
    mapping(Rename("n", "x")),
    mapping(Rename("x", "n")),
    mapping(Convert("n", 2)),
    mapping(Convert("n", 0.5)),
    mapping(Drop(("word",)), Add("word", "ab")),
)
NAMES = ("s1", "s2", "s3", "s4", "s5", "s6")


class ScopePlan:
    """Draws a scope graph, and what happens to it. It keeps a graph of its own, so that most changes make sense."""

    def __init__(
        self,
        rng: random.Random,
        brokers: Sequence[str],
        clients: Sequence[str],
        authority: str,
        *,
        gateways: bool,
        mirrored: bool = False,
        placed: bool = False,
    ) -> None:
        """`gateways`: whether edges may be crossed at designated brokers. What happens then if these break is not
        promised (docs/promises.md), so runs with faults have none. `mirrored`: mappings undo what others do, and
        scopes are ordered. `placed`: where edges are crossed changes."""
        self._rng = rng
        self._brokers = brokers
        self._clients = [client_node(client) for client in clients]
        self._authority = authority
        self._graph = Graph()
        self._mirrored = mirrored
        self._placed = placed
        self._mapped = rng.random() < 0.6 or mirrored
        self._filtered = rng.random() < 0.7
        self._everywhere = rng.random() < 0.15
        self.gateways = (rng.random() < (0.6 if mirrored else 0.15) or placed) and gateways

    def steps(self, length: int) -> Iterator[Action]:
        """A graph at the start, and changes from then on."""
        opening = [SetDelivery("", ordered=True)] if self._mirrored else []
        yield Action(0, Verb.CHANGE, (self._authority,), changes=(*opening, *self._opening()))
        times = sorted(self._rng.randrange(length + 1) for _ in range(self._rng.choice((0, 2, 6, 12))))
        for at in times:
            changes = tuple(self._some_changes())
            if changes:
                mode = self._rng.choice((Mode.RELAXED, Mode.RELAXED, Mode.RELAXED, Mode.DRAIN, Mode.INSTANT))
                yield Action(at, Verb.CHANGE, (self._rng.choice(self._brokers),), changes=changes, mode=mode)

    def _opening(self) -> Iterator[AnyChange]:
        names = NAMES[: self._rng.randint(1, len(NAMES))]
        for name in names:
            yield from self._take(self._creation(name))
        for at, name in enumerate(names):
            for above in names[:at]:
                if self._rng.random() < 0.5:
                    yield from self._take(self._join(name, above))
            if self._rng.random() < 0.15:
                yield from self._take(self._join(name, ""))
        for client in self._clients:
            for name in names:
                if self._rng.random() < 0.35:
                    yield from self._take(self._join(client, name))

    def _some_changes(self) -> Iterator[AnyChange]:
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
            yield from self._take(self._change())

    def _take(self, change: AnyChange | None) -> Iterator[AnyChange]:
        """A change that can be made to the graph as this plan knows it."""
        if change is None:
            return
        try:
            self._graph = apply(self._graph, (change,))
        except Exception:  # whatever cannot be is refused by the authority, too, and that is tested elsewhere
            if self._rng.random() < 0.8:
                return
        yield change

    def _change(self) -> AnyChange | None:
        scopes = [id for id in self._graph.scopes if id]
        edges = list(self._graph.memberships())
        draw = self._rng.random()
        if self._placed and draw < 0.5 and (between := [edge for edge in edges if not is_client(edge.member)]):
            edge = self._rng.choice(between)
            return SetPlacement(edge.member, edge.scope, *self._placement())
        if draw < 0.30 and scopes:
            member = self._rng.choice([*self._clients, *scopes])
            return self._join(member, self._rng.choice(scopes))
        if draw < 0.55 and edges:
            edge = self._rng.choice(edges)
            return Leave(edge.member, edge.scope)
        if draw < 0.65 and scopes:
            return SetInterface(self._rng.choice(scopes), self._interface())
        if draw < 0.72 and scopes:
            return Impose(self._rng.choice(scopes), self._interface())
        if draw < 0.82 and edges:
            edge = self._rng.choice(edges)
            return self._rng.choice(
                (Impose(edge.scope, self._interface(), edge.member), SetSelective(edge.member, edge.scope, OPEN))
            )
        if draw < 0.90 and edges:
            edge = self._rng.choice(edges)
            return SetMapping(edge.member, edge.scope, self._mapping())
        if draw < 0.95:
            return self._creation(self._rng.choice(NAMES))
        return DestroyScope(self._rng.choice(scopes), cascade=self._rng.random() < 0.8) if scopes else None

    def _creation(self, name: str) -> CreateScope:
        imposed = self._interface() if self._rng.random() < 0.2 else OPEN
        abstract = self._rng.random() < 0.08
        return CreateScope(name, self._interface(), imposed, abstract=abstract, ordered=self._mirrored)

    def _join(self, member: str, scope: str) -> Join:
        placement, gateway = Placement.ONCE, ""
        if not is_client(member):
            if self._everywhere:
                placement = Placement.EVERYWHERE
            elif self.gateways and self._rng.random() < 0.5:
                placement, gateway = Placement.GATEWAY, self._rng.choice(self._brokers)
        selective = self._interface() if self._rng.random() < 0.2 else OPEN
        imposed = self._interface() if self._rng.random() < 0.2 else OPEN
        return Join(member, scope, selective, imposed, self._mapping(), placement, gateway)

    def _placement(self) -> tuple[Placement, str]:
        placement = self._rng.choice((*Placement,) if self.gateways else (Placement.ONCE, Placement.EVERYWHERE))
        return placement, self._rng.choice(self._brokers) if placement is Placement.GATEWAY else ""

    def _interface(self) -> Interface:
        return Interface(self._side(), self._side())

    def _side(self) -> Filter:
        draw = self._rng.random()
        if draw < 0.6 or not self._filtered:
            return EVERYTHING
        return NOTHING if draw < 0.68 else random_filter(self._rng)

    def _mapping(self) -> EdgeMapping | None:
        """Few names and values, so that what comes out is still wanted by somebody."""
        if not self._mapped or self._rng.random() < 0.6:
            return None
        if self._mirrored:
            return EdgeMapping(self._rng.choice(_MIRRORED), self._rng.choice(_MIRRORED))
        steps: tuple[AnyStep, ...] = (
            Rename("n", "x"),
            Rename("kind", "word"),
            Drop(("word",)),
            Add("word", "ab"),
            Convert("n", 2),
            Convert("x", 0.5),
        )
        return EdgeMapping(
            mapping(*self._rng.sample(steps, self._rng.randint(0, 2))),
            mapping(*self._rng.sample(steps, self._rng.randint(0, 2))),
        )
