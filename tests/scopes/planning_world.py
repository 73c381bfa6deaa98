"""Random changes of random graphs, and what they do by the oracle: publication by publication, reader by reader."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scopes.graph_world import VALUES, World, _program, _sides, a_mapping, random_world

from tidings.model import ROOT_SCOPE, Notification, ScopeError, Value
from tidings.scopes import (
    AnyChange,
    CreateScope,
    DestroyScope,
    Doubt,
    EdgeMapping,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    Outcome,
    Outlook,
    SetInterface,
    SetMapping,
    SetSelective,
    SightChange,
    apply,
    reach,
    sightings,
)

SAMPLES = [
    *(Notification(a=value) for value in VALUES),
    *(Notification(a=items) for items in ((), (1, 4), (1, "x"))),
    *(Notification(), Notification(a="x"), Notification(b=1), Notification(a=2.5)),
]
NEWCOMERS = ["@new1", "@new2"]
"""Clients that no graph knows."""


@dataclass
class Planned:
    """A graph and changes that can be made to it."""

    before: Graph
    after: Graph
    changes: tuple[AnyChange, ...]
    clients: list[str]

    @property
    def strangers(self) -> list[str]:
        return [one for one in self.clients if self.before.is_stranger(one) and self.after.is_stranger(one)]


def planned(seed: int) -> Planned:
    """A random graph with mappings, and one to three random changes."""
    dice = random.Random(f"plan {seed}")
    world = random_world(seed, abstract=dice.random() < 0.2)
    before = after = world.graph()
    changes: list[AnyChange] = []
    for _ in range(dice.choice([1, 1, 2, 3])):
        for _ in range(10):
            change = _change(dice, world, after)
            try:
                after = apply(after, (change,))
            except ScopeError:
                continue
            changes.append(change)
            break
    return Planned(before, apply(before, tuple(changes)), tuple(changes), [*world.clients, *NEWCOMERS])


def _change(dice: random.Random, world: World, graph: Graph) -> AnyChange:
    scopes, edges = list(graph.scopes), list(graph.memberships())
    real = [scope for scope in scopes if scope] or [ROOT_SCOPE]
    member, scope, some = dice.choice([*real, *world.clients]), dice.choice(scopes), dice.choice(real)
    edge = dice.choice(edges) if edges else Join(member, scope)
    return dice.choice(
        [
            *[Join(member, scope, _interface(dice), _interface(dice), _mapping(dice, 0.5))] * 3,
            *[SetMapping(edge.member, edge.scope, _mapping(dice, 0.7))] * 2,
            Leave(edge.member, edge.scope),
            SetSelective(edge.member, edge.scope, _interface(dice)),
            Impose(edge.scope, _interface(dice), edge.member),
            Impose(scope, _interface(dice)),
            SetInterface(some, _interface(dice)),
            CreateScope(f"N{dice.randint(0, 9)}", _interface(dice), _interface(dice)),
            DestroyScope(some, dice.random() < 0.5),
        ]
    )


def _interface(dice: random.Random) -> Interface:
    return _sides(dice).real()


def _mapping(dice: random.Random, likely: float) -> EdgeMapping | None:
    mapped = EdgeMapping(a_mapping(_program(dice)), a_mapping(_program(dice)))
    return mapped if dice.random() < likely else None


# --- what was said, and what is so ----------------------------------------------------------------------

Pair = tuple[str, str]


@dataclass
class Said:
    """What a plan says of pairs of clients."""

    certain: dict[Pair, set[Outcome]] = field(default_factory=lambda: defaultdict(set))
    perhaps: dict[Pair, set[Outcome]] = field(default_factory=lambda: defaultdict(set))
    witnesses: dict[Pair, list[tuple[Outcome, Notification]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def notifications(self) -> set[Notification]:
        return {witness for some in self.witnesses.values() for _, witness in some}


def said(outlook: Outlook, strangers: list[str]) -> Said:
    """The entries about clients, pair by pair."""
    found = Said()
    for one in outlook.clients:
        for pair in _pairs(one, strangers):
            found.certain[pair].add(one.outcome)
            found.witnesses[pair].append((one.outcome, Notification(dict(one.witness))))
    for doubt in outlook.clients_perhaps:
        for pair in _pairs(doubt, strangers):
            found.perhaps[pair].update(doubt.outcomes)
    return found


def _pairs(entry: SightChange | Doubt, strangers: list[str]) -> Iterator[Pair]:
    sources, targets = entry.sources or (entry.source,), entry.targets or (entry.target,)
    for source in _expanded(sources, strangers):
        yield from ((source, target) for target in _expanded(targets, strangers) if target != source)


def _expanded(nodes: Iterable[str], strangers: list[str]) -> list[str]:
    return [one for node in nodes for one in (strangers if node == "@" else [node])]


class Oracle:
    """In which forms clients see what others publish."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._reached: dict[tuple[str, Notification], dict[str, set[Notification]]] = {}

    def forms(self, pair: Pair, publication: Notification) -> set[Notification]:
        """In which forms the second client sees what the first one publishes."""
        source, target = pair
        if self._graph.is_stranger(target):  # the oracle finds those that the graph names
            return {seen.notification for seen in sightings(self._graph, source, publication, target)}
        if (source, publication) not in self._reached:
            found: dict[str, set[Notification]] = defaultdict(set)
            for seen in reach(self._graph, source, publication):
                found[seen.node].add(seen.notification)
            self._reached[source, publication] = found
        grouped = target not in self._graph.members(ROOT_SCOPE) and ROOT_SCOPE in self._graph.upward(target)
        if grouped:
            return {seen.notification for seen in sightings(self._graph, source, publication, target)}
        return self._reached[source, publication].get(target, set())


def outcome(before: set[Notification], after: set[Notification]) -> Outcome | None:
    """What became of one publication for one reader, rounding apart."""
    if after and not before:
        return Outcome.GAINED
    if before and not after:
        return Outcome.LOST
    return None if _rounded(before) == _rounded(after) else Outcome.CHANGED


def _rounded(some: set[Notification]) -> set[Notification]:
    return {Notification({name: _round(value) for name, value in one.items()}) for one in some}


def _round(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_round, value))  # type: ignore[arg-type]
    return round(value, 6) + 0.0 if type(value) is float and math.isfinite(value) else value
