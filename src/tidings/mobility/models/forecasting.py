"""What to expect of each broker, given a neighbour graph and a number of clients that roam.

- *Clients*: how many are connected, from the walk along the graph (`ctmc.walk_model`).
- *Copies*: how many subscribers have a copy there: all those of brokers from which clients come, connected or away.
- *Buffer*: what is kept for those who are away, here and at the brokers that they may have left for this one. It is the
  mean if no two of them want the same notification; a body that several want is kept once.
- *Throughput*: what a curve says for so many connected clients.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from tidings.model import TidingsError

from .ctmc import Population, Times, Weights, walk_model
from .curve import DOCUMENT_CURVE, Curve, OutsideFittedRange, extrapolate

MESSAGE_BYTES = 1_024
"""Of a notification, unless somebody knows better."""
MATCHING_RATE = 1.0
"""Notifications a second that one client wants, unless somebody knows better."""


@dataclass(frozen=True, slots=True)
class BrokerForecast:
    """One broker."""

    broker: str
    clients: float
    copies: float
    active_copies: float
    """Those of clients that are away: they listen and buffer."""
    buffer_bytes: float
    throughput: float
    fitted: bool
    """Whether the curve was fitted for so many clients."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """All of them."""

    brokers: tuple[BrokerForecast, ...]
    handoffs: float
    """Hand-offs a second, in the whole network."""
    warning: str
    """What is doubtful about the throughput; "": nothing."""

    @property
    def throughput(self) -> float:
        """Of all brokers."""
        return sum(one.throughput for one in self.brokers)


def forecast(
    weights: Weights,
    clients: int,
    times: Times = Times(),  # noqa: B008 - frozen
    *,
    rate: float = MATCHING_RATE,
    message_bytes: int = MESSAGE_BYTES,
    curve: Curve = DOCUMENT_CURVE,
) -> Forecast:
    """What to expect of each broker. Raises `TidingsError` for a graph that clients cannot walk for ever."""
    if clients < 1:
        raise TidingsError(f"{clients} clients: there is nothing to forecast; give 1 or more")
    population = walk_model(weights, times)
    connected = population.expected(clients)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always", OutsideFittedRange)
        prediction = extrapolate(connected, curve)
    kept = rate * message_bytes * clients * _mean_kept_seconds(times)
    found = []
    for broker in weights:
        sources = [other for other in weights if weights[other].get(broker, 0) > 0]
        away = {one: population.disconnected[one] + population.handoff[one] for one in (broker, *sources)}
        copies = sum(population.connected[one] + away[one] for one in sources)
        share = sum(away.values()) / population.away
        found.append(
            BrokerForecast(
                broker,
                connected[broker],
                clients * copies,
                clients * sum(away[one] for one in sources),
                kept * share,
                prediction.values[broker],
                broker not in prediction.outside,
            )
        )
    rate_of_moves = clients * _moves(population, times)
    return Forecast(tuple(found), rate_of_moves, str(doubts[0].message) if doubts else "")


def _moves(population: Population, times: Times) -> float:
    return sum(population.handoff.values()) / times.handoff


def _mean_kept_seconds(times: Times) -> float:
    """How many seconds' worth of notifications are kept for one client, over all its time.

    It is away for A seconds in each round: 1/4 disconnected only, 1/4 disconnected and then under way, 1/2 under way
    only. What is kept grows while it is away, so its mean is E[A^2] / 2 per round.
    """
    disconnected, handoff = times.disconnected, times.handoff
    square = disconnected**2 + disconnected * handoff / 2 + 1.5 * handoff**2
    return square / 2 / times.round
