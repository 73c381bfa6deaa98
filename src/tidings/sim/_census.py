"""A census: in which states the subscriptions of a run were, and from which state to which they went.

It looks at every client subscription of every broker after every turn. What it meets in thousands of runs shows
whether the tables of `tidings.broker.outlets._outlet` are complete, and whether random runs reach every row of them.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import NamedTuple

from tidings.broker import (
    TABLES,
    Announcing,
    Broker,
    Debt,
    Delivering,
    Registration,
    announcing,
    debts,
    delivering,
)

from ._network import Network


class State(NamedTuple):
    """Where a subscription stands after a turn."""

    announcing: Announcing
    delivering: Delivering
    debts: frozenset[tuple[str, Debt]]
    """Of each origin that owes something."""

    @property
    def kinds(self) -> tuple[Announcing, Delivering, frozenset[Debt]]:
        """The same whoever owes it."""
        return self.announcing, self.delivering, frozenset(debt for _, debt in self.debts)

    def __str__(self) -> str:
        owed = "+".join(sorted({debt.value for _, debt in self.debts})) or "nothing"
        return f"{self.announcing.value}, {self.delivering.value}, owed {owed}"


class Transition(NamedTuple):
    """A way from one state of a table to another, within one turn; None: not there, or nothing owed."""

    table: str
    before: enum.Enum | None
    after: enum.Enum | None

    def __str__(self) -> str:
        before, after = ("nothing" if one is None else one.value for one in (self.before, self.after))
        return f"{self.table}: {before} to {after}"


_ONCE = ("announcing", "delivering")
"""The tables of which a subscription that has ended is in no state any more."""


class Census:
    """What was counted in one run, or in several."""

    def __init__(self) -> None:
        self.states: Counter[State] = Counter()
        self.steps: Counter[Transition] = Counter()
        """What happened in turns that changed something."""
        self._last: dict[Registration, State] = {}

    def watch(self, network: Network) -> None:
        """Count what happens in a network from now on."""
        self._last = {}
        network.scheduler.after_each = lambda: self._look(network)

    @property
    def strange(self) -> list[str]:
        """What the tables do not know: states that exclude each other, and ways that no two rows explain."""
        held = [str(state) for state in self.states if state.delivering is Delivering.HELD and state.debts]
        return held + [str(step) for step in self.steps if not _explained(step)]

    def _look(self, network: Network) -> None:
        found = {
            outlet: _state(broker, outlet)
            for broker in network.brokers.values()
            for outlet in broker.client_subscriptions()
        }
        for outlet in self._last.keys() | found.keys():
            before, after = self._last.get(outlet), found.get(outlet)
            if after is not None:
                self.states[after] += 1
            if before != after:
                self.steps.update(_steps(before, after))
        self._last = found


def _state(broker: Broker, outlet: Registration) -> State:
    owed = frozenset(debts(broker, outlet).items())
    return State(announcing(broker, outlet), delivering(broker, outlet), owed)


def _steps(before: State | None, after: State | None) -> list[Transition]:
    one, two = ((state and (state.announcing, state.delivering)) or (None, None) for state in (before, after))
    steps = [Transition(table, *pair) for table, *pair in zip(("announcing", "delivering"), one, two, strict=True)]
    owed, owes = (dict(state.debts) if state is not None else {} for state in (before, after))
    steps += [
        Transition("debt of one origin", owed.get(origin), owes.get(origin)) for origin in owed.keys() | owes.keys()
    ]
    return [step for step in steps if step.before is not step.after]


def _explained(step: Transition) -> bool:
    """Whether one row of its table leads there, or two, one after the other in the same turn."""
    ways = {(row.before, row.after) for row in TABLES[step.table]}
    between = [after for before, after in ways if before is step.before and (after or step.table not in _ONCE)]
    return (step.before, step.after) in ways or any((middle, step.after) in ways for middle in between)
