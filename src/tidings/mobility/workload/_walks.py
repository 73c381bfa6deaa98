"""Walks: where a client is when.

A client is connected to a broker, disconnected from it, or under way from it to another one, each for an exponential
time. From *connected* it goes to either of the others, from *disconnected* back or on, with equal odds; then it turns
up at another broker: any (`RANDOM`), or one that a path leads to (`NEIGHBOURING`), each equally likely.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tidings.mobility.models.ctmc import Times
from tidings.model import TidingsError


class Pattern(enum.Enum):
    """Where clients go."""

    RANDOM = "RND"
    NEIGHBOURING = "NBR"


class State(enum.Enum):
    """What a client is doing."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    HANDOFF = "hand-off"


class Stay(NamedTuple):
    """A time in one state, in seconds; `broker` is where the client is, or was last."""

    state: State
    broker: str
    begin: float
    end: float


def walk(
    rng: random.Random,
    start: str,
    graph: Mapping[str, Collection[str]],
    pattern: Pattern = Pattern.RANDOM,
    times: Times = Times(),  # noqa: B008 - frozen
) -> Iterator[Stay]:
    """The stays of one client, for ever. The same seed gives the same walk.

    >>> from tidings.mobility.workload import BUILDING
    >>> first = next(walk(random.Random(1), "B5", BUILDING, Pattern.NEIGHBOURING))
    >>> first.state, first.broker, first.begin
    (<State.CONNECTED: 'connected'>, 'B5', 0.0)
    """
    targets = {broker: _targets(broker, graph, pattern) for broker in graph}
    if start not in targets:
        raise TidingsError(f"a walk begins at '{start}', which is not in the graph; begin at one of {sorted(targets)}")
    means = {
        State.CONNECTED: times.connected,
        State.DISCONNECTED: times.disconnected,
        State.HANDOFF: times.handoff,
    }
    state, broker, now = State.CONNECTED, start, 0.0
    while True:
        end = now - means[state] * math.log(1 - rng.random())  # of a number above 0, up to 1
        yield Stay(state, broker, now, end)
        now = end
        if state is State.HANDOFF:
            state, broker = State.CONNECTED, rng.choice(targets[broker])
        elif rng.random() < 0.5:
            state = State.HANDOFF
        else:
            state = State.DISCONNECTED if state is State.CONNECTED else State.CONNECTED


def _targets(broker: str, graph: Mapping[str, Collection[str]], pattern: Pattern) -> list[str]:
    found = sorted(graph[broker] if pattern is Pattern.NEIGHBOURING else graph.keys() - {broker})
    if not found:
        raise TidingsError(f"nothing leads on from '{broker}'; give it a neighbour, or leave it out")
    return found
