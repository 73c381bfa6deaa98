"""Random policies: which scopes and clients get which, while everything is under way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tidings.model import ROOT_SCOPE
from tidings.scopes import PolicyKind, PolicyUse, SetAttributes, SetPolicy, client_node

from ._actions import Action, Verb
from ._scope_plan import NAMES
from ._workload import KINDS

DELAYS = (0.0, 0.05, 1.0, 7.5)
"""Seconds."""


def policy_steps(rng: random.Random, clients: Sequence[str], brokers: Sequence[str], length: int) -> Iterator[Action]:
    """Policies from the start, and others from then on; what makes no sense is refused by the authority."""
    nodes = [client_node(client) for client in clients]
    for node in (*NAMES, *nodes):
        if rng.random() < 0.5:
            described = SetAttributes(node, {"level": rng.randint(0, 3), "kinds": tuple(rng.sample(KINDS, 2))})
            yield Action(rng.randrange(1, 20), Verb.CHANGE, (rng.choice(brokers),), changes=(described,))
    times = [0, 0, *sorted(rng.randrange(length + 1) for _ in range(rng.choice((1, 3, 6))))]
    for at in times:
        change = _change(rng, nodes)
        yield Action(max(1, at), Verb.CHANGE, (rng.choice(brokers),), changes=(change,))


def _change(rng: random.Random, clients: Sequence[str]) -> SetPolicy:
    if rng.random() < 0.25:
        return SetPolicy(rng.choice(clients), PolicyKind.PUBLISHING, _use(rng, clients, PolicyKind.PUBLISHING))
    kind = rng.choice((PolicyKind.PUBLISHING, PolicyKind.DELIVERY, PolicyKind.INTERNAL))
    return SetPolicy(rng.choice((*NAMES, ROOT_SCOPE)), kind, _use(rng, clients, kind))


def _use(rng: random.Random, clients: Sequence[str], kind: PolicyKind) -> PolicyUse | None:
    if rng.random() < 0.15:
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
