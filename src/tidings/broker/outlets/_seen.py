"""How far subscriptions have certainly seen each origin: what their clients are told, and go on from elsewhere.

A subscription that is owed nothing has seen what its broker has seen pass by, and at least what the marks of the
current tree say, because it came after them. One that is owed something has seen what lies before that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidings.broker._links import Link
from tidings.broker.interest import Registration
from tidings.model import Position

from ._debts import Debts
from ._host import Host


class Seen:
    """What the clients of one broker have seen."""

    def __init__(self, broker: Host, debts: Debts) -> None:
        self._broker = broker
        self._debts = debts
        self.tree_marks: dict[str, Position] = {}
        """The marks of the current tree; none as long as they are not known, or where they mean nothing."""

        self.gathered: dict[str, Position] = {}
        """The same, wherever: how far each origin was when the tree began. What it published earlier may come later."""

    def origins(self) -> dict[str, Position]:
        """How far each origin is at least, this broker included. By a gateway, something of that may still come."""
        broker = self._broker
        marks = {**self.everything(), broker.name: Position(broker.epoch, broker.publications.last)}
        for origin, mark in self.gathered.items():
            marks[origin] = max(mark, marks.get(origin, mark))
        return marks

    def everything(self) -> dict[str, Position]:
        """How far a subscription that is owed nothing has seen each other origin."""
        known = self._broker.progress.seen
        for origin, mark in self.tree_marks.items():
            known[origin] = max(mark, known.get(origin, mark))
        for origin, mark in self.gathered.items():  # where there are gateways, nothing later may be believed yet
            if origin != self._broker.name:
                known.setdefault(origin, mark)
        return known

    def marks_of(self, entries: Collection[Registration]) -> dict[str, Position]:
        """How far these subscriptions have certainly seen each origin, this broker included."""
        broker = self._broker
        marks = self.everything()
        if not broker.scoping.gateways:
            marks[broker.name] = Position(broker.epoch, broker.publications.last)
        elif entries:  # as long as no mark of its own is believed: none of them is owed what was published before it
            marks.setdefault(broker.name, Position(broker.epoch, min(entry.begun for entry in entries)))
        delaying = self._broker.delaying
        for link in {entry.link for entry in entries} if delaying.count else ():
            for origin, before in delaying.oldest(link).items():
                marks[origin] = min(before, marks.get(origin, before))
        for entry in entries:
            for origin, suspension in self._debts.to(entry).items():
                marks[origin] = min(suspension.since, marks.get(origin, suspension.since))
        return marks

    def marks_of_clients(self) -> Iterator[tuple[Link, dict[str, Position]]]:
        """How far each client with subscriptions has certainly seen each origin."""
        special = self._debts.origins or self._broker.delaying.count
        common = None if special else self.marks_of(())
        for link in self._broker.clients:
            if registrations := self._broker.registrations.subscriptions(link).values():
                yield link, self.marks_of(registrations) if common is None else common

    def heard_of(self, origin: str) -> bool:
        """Whether this broker knows of a broker of this name, in the network or from notifications and marks."""
        broker = self._broker
        known = broker.adjacency.topology.knows(origin) or origin in self.tree_marks
        return known or broker.progress.of(origin) is not None
