"""The versions of the graph that one broker remembers: a whole graph, and every change since."""

from __future__ import annotations

from collections.abc import Iterable

from tidings.model import ScopeError
from tidings.scopes._applying import apply
from tidings.scopes._changes import moved
from tidings.scopes._graph import Graph
from tidings.scopes._messages import Snapshot, State, Transaction

from ._view import Plan

MAX_VERSIONS = 1_000
"""How many changes are remembered: what was published under an older version can no longer be judged."""


class Versions:
    """A graph and how it came to be."""

    def __init__(self, base: Graph | None = None, transactions: Iterable[Transaction] = ()) -> None:
        self._base = base if base is not None else Graph()
        self._transactions: list[Transaction] = []
        self._plans: dict[int, Plan] = {self._base.version: Plan(self._base)}
        for transaction in transactions:
            self.add(transaction)

    @property
    def base(self) -> Graph:
        """The oldest version that is remembered, as a whole."""
        return self._base

    @property
    def newest(self) -> int:
        """The number of the newest version."""
        return self._base.version + len(self._transactions)

    @property
    def graph(self) -> Graph:
        """The newest version."""
        return self.plan(self.newest).graph

    def add(self, transaction: Transaction) -> Plan:
        """Take in the next version."""
        if transaction.version != self.newest + 1:
            raise ScopeError(f"version {transaction.version} of the scope graph cannot follow {self.newest}")
        plan = Plan(apply(self.graph, transaction.changes), self._plans.get(self.newest), moved(transaction.changes))
        self._transactions.append(transaction)
        self._plans[plan.version] = plan
        if len(self._transactions) > MAX_VERSIONS:
            self._fold()
        return plan

    def plan(self, version: int) -> Plan:
        """One version; `KeyError` if it is not remembered."""
        if version not in self._plans:
            if not self._base.version <= version <= self.newest:
                raise KeyError(version)
            start = max(known for known in self._plans if known < version)
            graph = self._plans[start].graph
            for transaction in self._transactions[start - self._base.version : version - self._base.version]:
                graph = apply(graph, transaction.changes)
            self._plans[version] = Plan(graph)
        return self._plans[version]

    def recall(self, version: int) -> Plan | None:
        """One version, if it is remembered."""
        try:
            return self.plan(version)
        except KeyError:
            return None

    def forget_plans(self, before: int) -> None:
        """Versions before this one are rarely asked for: they are worked out again when they are."""
        for version in [known for known in self._plans if known < before and known != self._base.version]:
            del self._plans[version]

    def since(self, version: int) -> list[Transaction]:
        """The changes after a version."""
        return self._transactions[max(0, version - self._base.version) :]

    def transaction(self, version: int) -> Transaction | None:
        """What made a version, if that is remembered."""
        at = version - self._base.version - 1
        return self._transactions[at] if 0 <= at < len(self._transactions) else None

    def state(self, active: int, floor: int) -> State:
        """Everything, for a neighbour."""
        return State(Snapshot.of(self._base), tuple(self._transactions), active, floor)

    def _fold(self) -> None:
        half = len(self._transactions) // 2
        base = self.plan(self._base.version + half)
        self._transactions = self._transactions[half:]
        self._base = base.graph
        self._plans = {version: plan for version, plan in self._plans.items() if version >= base.version}
        self._plans[base.version] = base
