"""Random policies: which scopes and clients get which, from the start and while everything is under way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tidings.model import ROOT_SCOPE, ScopeError
from tidings.scopes import AnyChange, Graph, PolicyKind, PolicyUse, SetAttributes, SetPolicy, apply, client_node

from ._actions import Action, Verb
from ._scope_plan import NAMES
from ._workload import KINDS

DELAYS = (0.05, 0.3, 1.0, 7.5)
"""Seconds."""


def with_policies(
    rng: random.Random, steps: Sequence[Action], clients: Sequence[str], brokers: Sequence[str]
) -> tuple[Action, ...]:
    """The same steps with policies: some in the graph from the start, and others from then on."""
    nodes = [client_node(client) for client in clients]
    opening = next(step for step in steps if step.verb is Verb.CHANGE)
    first = opening._replace(changes=(*opening.changes, *_opening(rng, apply(Graph(), opening.changes), nodes)))
    length = max(step.at for step in steps)
    later = [
        Action(rng.randrange(1, length + 2), Verb.CHANGE, (rng.choice(brokers),), changes=(_change(rng, nodes),))
        for _ in range(rng.choice((0, 1, 4)))
    ]
    return (first, *sorted([*(step for step in steps if step is not opening), *later], key=lambda step: step.at))


def _opening(rng: random.Random, graph: Graph, clients: Sequence[str]) -> Iterator[AnyChange]:
    described: list[AnyChange] = [
        SetAttributes(node, {"level": rng.randint(0, 3), "kinds": tuple(rng.sample(KINDS, 2))})
        for node in (*graph.scopes, *clients)
        if node and rng.random() < 0.6
    ]
    described += [_change(rng, clients) for _ in range(rng.choice((2, 4, 6)))]
    for change in described:
        try:
            graph = apply(graph, (change,))
        except ScopeError:
            continue  # there is no such scope
        yield change


def _change(rng: random.Random, clients: Sequence[str]) -> SetPolicy:
    if rng.random() < 0.25:
        return SetPolicy(rng.choice(clients), PolicyKind.PUBLISHING, _use(rng, clients, PolicyKind.PUBLISHING))
    kind = rng.choice((PolicyKind.PUBLISHING, PolicyKind.DELIVERY, PolicyKind.INTERNAL))
    return SetPolicy(rng.choice((*NAMES[:3], *NAMES[:2], ROOT_SCOPE)), kind, _use(rng, clients, kind))


def _use(rng: random.Random, clients: Sequence[str], kind: PolicyKind) -> PolicyUse | None:
    if rng.random() < 0.1:
        return None
    drawn = rng.choice(("delay", "delay", "producer", "credentials", "parameters", "key-dispatch", "chain", "full"))
    members = [*clients, *NAMES]
    match drawn:
        case "delay":
            filter = {"filter": "n > 3"} if rng.random() < 0.3 else {}
            return PolicyUse("delay", {"seconds": rng.choice(DELAYS), **filter})
        case "producer" if rng.random() < 0.5:
            return PolicyUse("producer", {"publishers": tuple(rng.sample(clients, 1)), "deny": rng.random() < 0.5})
        case "producer":
            return PolicyUse("producer", {"through": tuple(rng.sample(NAMES, 2)), "deny": rng.random() < 0.5})
        case "credentials" if rng.random() < 0.5:
            return PolicyUse("credentials", {"attribute": "level", "level": rng.randint(0, 2)})
        case "credentials":
            return PolicyUse("credentials", {"attribute": "level", "demanded": "n"})
        case "parameters" if kind is not PolicyKind.PUBLISHING:
            return PolicyUse("parameters", {"attribute": "kind", "member": "kinds"})
        case "key-dispatch" if kind is not PolicyKind.PUBLISHING:
            table = tuple(f"{value}={rng.choice(members)}" for value in range(4))
            return PolicyUse("key-dispatch", {"attribute": "n", "table": table, "others": rng.choice(members)})
        case "chain" if kind is PolicyKind.INTERNAL:
            return PolicyUse("chain", {"members": tuple(rng.sample(members, min(3, len(members))))})
    return PolicyUse("full")
