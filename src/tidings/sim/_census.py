"""A census: in which states the subscriptions of a run were, and from which state to which they went.

It looks at every client subscription of every broker after every turn. What it meets in thousands of runs shows
whether the tables of the states are complete, and whether random runs reach every row of them.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import NamedTuple

from tidings.broker import Broker, Registration

from ._network import Network


class Announcing(enum.Enum):
    """How far a subscription is known in the network."""

    PLACING = "placing"
    """Its broker does not carry every scope of its client."""
    SETTLING = "settling"
    """Some broker on the current tree may not know it yet, or the marks of the tree are not known."""
    SETTLED = "settled"


class Delivering(enum.Enum):
    """Whether notifications may go to the client."""

    OPEN = "open"
    HELD = "held"
    """Its past comes first."""


class Debt(enum.Enum):
    """What one origin owes a subscription; a state for each origin that owes something."""

    WAITING = "waiting"
    ASKED = "asked"


class State(NamedTuple):
    """Where a subscription stands after a turn."""

    announcing: Announcing
    delivering: Delivering
    debts: frozenset[Debt]
    """Of all origins together."""
    owed_twice: bool = False
    """Whether one origin owes it something twice, which must never be."""

    def __str__(self) -> str:
        debts = "+".join(sorted(debt.value for debt in self.debts)) or "nothing"
        twice = ", twice by one origin" * self.owed_twice
        return f"{self.announcing.value}, {self.delivering.value}, owed {debts}{twice}"


class Census:
    """What was counted in one run, or in several."""

    def __init__(self) -> None:
        self.states: Counter[State] = Counter()
        self.transitions: Counter[tuple[State | None, State | None]] = Counter()
        """From one state to another; None: not yet there, or not any more."""
        self._last: dict[Registration, State] = {}

    def watch(self, network: Network) -> None:
        """Count what happens in a network from now on."""
        self._last = {}
        network.scheduler.after_each = lambda: self._look(network)

    def _look(self, network: Network) -> None:
        found = {
            registration: _state(broker, registration)
            for broker in network.brokers.values()
            for registration in broker.client_subscriptions()
        }
        for registration in self._last.keys() | found.keys():
            before, after = self._last.get(registration), found.get(registration)
            if after is not None:
                self.states[after] += 1
            if before != after:
                self.transitions[before, after] += 1
        self._last = found


def _state(broker: Broker, registration: Registration) -> State:
    if not registration.placed:
        announcing = Announcing.PLACING
    elif broker.settling.is_settled(registration):
        announcing = Announcing.SETTLED
    else:
        announcing = Announcing.SETTLING
    debts = broker.recovery.debts(registration)
    return State(
        announcing,
        Delivering.HELD if registration in broker.holds else Delivering.OPEN,
        frozenset(Debt.ASKED if asked else Debt.WAITING for _, asked in debts),
        len({origin for origin, _ in debts}) < len(debts),
    )
