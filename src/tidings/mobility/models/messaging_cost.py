"""When pro-active hand-off is cheaper than reactive and durable: a Markov chain of one client, in four states.

State 0 is connected, 1 disconnected, 2 under way to a neighbour of its last broker, 3 under way to another broker. A
client stays in state i for an exponential time and then goes to state j with probability `a_ij`.

Costs: `transfer` (xi_m), what was buffered goes from the old broker to the new one; `control` (xi_s), control messages;
`neighbours` (xi_n), buffering at the neighbours; `everywhere` (xi_n3), storing at all brokers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.mobility._options import Scheme
from tidings.model import TidingsError

TAU = 0.001
"""Seconds between two looks at the chain; far less than any stay."""
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Branching:
    """Where a client goes next: `a01` from connected to disconnected, and so on. From 2 and 3 it always connects."""

    a01: float
    a02: float
    a03: float
    a10: float
    a12: float
    a13: float

    def __post_init__(self) -> None:
        """Raise `TidingsError` unless what leaves a state adds up to 1."""
        for state, shares in (("connected", (self.a01, self.a02, self.a03)), ("disconnected", self._from_disconnected)):
            if min(shares) < 0 or abs(sum(shares) - 1) > _TOLERANCE:
                raise TidingsError(
                    f"what leaves the state {state}, {shares}, does not add up to 1; give shares that do"
                )

    @property
    def _from_disconnected(self) -> tuple[float, float, float]:
        return self.a10, self.a12, self.a13

    @property
    def w2(self) -> float:
        """How often a client goes to a neighbour in one round from connected to connected."""
        return self.a02 + self.a01 * self.a12

    @property
    def w3(self) -> float:
        """How often it goes elsewhere."""
        return self.a03 + self.a01 * self.a13


class Stays(NamedTuple):
    """Mean seconds in each state: 1/lambda."""

    connected: float
    disconnected: float
    to_neighbour: float
    elsewhere: float


SCHEMES = (Scheme.PROACTIVE, Scheme.REACTIVE, Scheme.DURABLE)
"""Those that are compared."""
CASES = (
    Branching(0.1, 0.7, 0.2, 0.4, 0.4, 0.2),
    Branching(0.2, 0.4, 0.4, 0.1, 0.7, 0.2),
    Branching(0.2, 0.7, 0.1, 0.2, 0.7, 0.1),
    Branching(0.2, 0.6, 0.2, 0.3, 0.6, 0.1),
    Branching(0.4, 0.5, 0.1, 0.3, 0.5, 0.2),
)
"""The document's five."""
CONNECTED = (60.0, 120.0, 300.0, 420.0, 600.0)
"""Its mean times connected, in seconds,"""
DISCONNECTED = (10.0, 30.0, 60.0, 90.0, 300.0)
"""and disconnected."""


@dataclass(frozen=True, slots=True)
class HandOffTimes:
    """Mean seconds that a hand-off takes under each scheme."""

    to_neighbour: dict[Scheme, float] = field(
        default_factory=lambda: {Scheme.DURABLE: 0.05, Scheme.PROACTIVE: 0.32, Scheme.REACTIVE: 3.29}
    )
    elsewhere: dict[Scheme, float] = field(
        default_factory=lambda: {Scheme.DURABLE: 0.05, Scheme.PROACTIVE: 3.29, Scheme.REACTIVE: 3.29}
    )

    def stays(self, scheme: Scheme, connected: float, disconnected: float) -> Stays:
        """All four times under a scheme."""
        return Stays(connected, disconnected, self.to_neighbour[scheme], self.elsewhere[scheme])


TABLE_3_1 = HandOffTimes()
"""The document's table."""
FIGURE_3_5 = HandOffTimes(elsewhere={Scheme.DURABLE: 0.05, Scheme.PROACTIVE: 7.5, Scheme.REACTIVE: 7.5})
"""What reproduces the numbers that its figure 3.5 is quoted with, and the table does not;"""
FIGURE_3_6 = HandOffTimes(elsewhere={Scheme.DURABLE: 0.05, Scheme.PROACTIVE: 0.32, Scheme.REACTIVE: 0.32})
"""and those of figure 3.6."""


class Shares(NamedTuple):
    """The share of its time that a client spends in each state."""

    connected: float
    disconnected: float
    to_neighbour: float
    elsewhere: float


def transitions(branching: Branching, stays: Stays, tau: float = TAU) -> list[list[float]]:
    """The chain as it is seen every `tau` seconds (3.7)."""
    p0, p1, p2, p3 = (-math.expm1(-tau / stay) for stay in stays)
    one = branching
    return [
        [1 - p0, one.a01 * p0, one.a02 * p0, one.a03 * p0],
        [one.a10 * p1, 1 - p1, one.a12 * p1, one.a13 * p1],
        [p2, 0.0, 1 - p2, 0.0],
        [p3, 0.0, 0.0, 1 - p3],
    ]


def stationary(branching: Branching, stays: Stays, tau: float = TAU) -> Shares:
    """The distribution in the long run (3.15)."""
    p0, p1, p2, p3 = (-math.expm1(-tau / stay) for stay in stays)
    weights = (
        p1 * p2 * p3,
        branching.a01 * p0 * p2 * p3,
        branching.w2 * p0 * p1 * p3,
        branching.w3 * p0 * p1 * p2,
    )
    return Shares(*(weight / sum(weights) for weight in weights))


def stationary_limit(branching: Branching, stays: Stays) -> Shares:
    """The same for a `tau` that goes to 0."""
    weights = (
        stays.connected,
        branching.a01 * stays.disconnected,
        branching.w2 * stays.to_neighbour,
        branching.w3 * stays.elsewhere,
    )
    return Shares(*(weight / sum(weights) for weight in weights))


@dataclass(frozen=True, slots=True)
class Prices:
    """What each kind of work costs, in any one unit."""

    transfer: float
    neighbours: float
    everywhere: float
    control: float = 0.0


def cost(scheme: Scheme, branching: Branching, shares: Shares, prices: Prices) -> float:
    """What a client costs per transition, as printed in the document (3.10 to 3.12)."""
    if scheme is Scheme.DURABLE:
        return prices.everywhere
    moving = shares.to_neighbour + shares.elsewhere
    if scheme is Scheme.REACTIVE:
        return (prices.transfer + prices.control) * moving
    return (
        prices.neighbours * shares.disconnected
        + prices.control * (shares.disconnected * branching.a10 + moving)
        + prices.transfer * shares.elsewhere
    )


def prices_of_transitions(scheme: Scheme, prices: Prices) -> list[list[float]]:
    """What each transition costs (3.9): the same as `cost`, said in another way."""
    none, said = 0.0, prices
    if scheme is Scheme.DURABLE:
        return [[said.everywhere] * 4 for _ in range(4)]
    if scheme is Scheme.REACTIVE:
        moved = said.transfer + said.control
        return [[none] * 4, [none] * 4, [moved, none, none, none], [moved, none, none, none]]
    return [
        [none] * 4,
        [said.control + said.neighbours, none, said.neighbours, said.neighbours],
        [said.control, none, none, none],
        [said.transfer + said.control, none, none, none],
    ]


def cost_per_round(scheme: Scheme, branching: Branching, prices: Prices) -> float:
    """What a client costs from one time that it is connected to the next; control messages are neglected."""
    if scheme is Scheme.DURABLE:
        return prices.everywhere
    if scheme is Scheme.REACTIVE:
        return (branching.w2 + branching.w3) * prices.transfer
    return branching.a01 * prices.neighbours + branching.w3 * prices.transfer


def round_threshold(branching: Branching) -> float:
    """Below which xi_n/xi_m pro-active is cheaper than reactive, per round; also the N1 below which R1 says so."""
    return branching.w2 / branching.a01


def r1(
    branching: Branching, connected: float, disconnected: float, times: HandOffTimes = TABLE_3_1, tau: float = TAU
) -> float:
    """Below which xi_n/xi_m pro-active is cheaper than reactive (3.13, 3.16)."""
    reactive = stationary(branching, times.stays(Scheme.REACTIVE, connected, disconnected), tau)
    proactive = stationary(branching, times.stays(Scheme.PROACTIVE, connected, disconnected), tau)
    return (reactive.to_neighbour + reactive.elsewhere - proactive.elsewhere) / proactive.disconnected


def r2(
    branching: Branching,
    connected: float,
    disconnected: float,
    transfer_by_neighbours: float,
    times: HandOffTimes = TABLE_3_1,
    *,
    tau: float = TAU,
) -> float:
    """Below which xi_n/xi_n3 pro-active is cheaper than durable, for a given xi_m/xi_n (3.14, 3.17)."""
    shares = stationary(branching, times.stays(Scheme.PROACTIVE, connected, disconnected), tau)
    return 1 / (shares.disconnected + transfer_by_neighbours * shares.elsewhere)


def neighbours_by_transfer(n1: float, disconnected: float, elsewhere: float = 3.29, n2: float = 1.0) -> float:
    """An estimate of xi_n/xi_m: `n1` sends per message to neighbours, `n2` per transferred message (Table 3.2)."""
    return n1 * elsewhere / (n2 * disconnected)


def neighbours_by_everywhere(n1: float, n3: float) -> float:
    """An estimate of xi_n/xi_n3: `n1` sends per message to neighbours, `n3` to all brokers."""
    return n1 / n3
