"""Fetching: one origin is asked for what follows a position, and answers from memory and store.

A question is asked again as long as there is no answer, later each time: a slow answer must not be drowned in
questions. Only a few are under way at a time, because their answers together must fit into a client's queue.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.broker._bounds import check_positions, check_readable
from tidings.model import EVERYTHING, Identity, Matches
from tidings.wire import Fetch, Fetched

from ._host import Host
from ._suspension import Suspension

MAX_FETCHES = 8
"""The most answers that are waited for at a time."""
MAX_FETCH_FILTERS = 262_144
"""The most characters of filters in a fetch; with more, everything is asked for and sorted out here."""


class Fetching:
    """What one broker asks origins, and what it answers to others."""

    def __init__(
        self,
        broker: Host,
        answered: Callable[[Suspension, Fetched], None],
        unanswered: Callable[[Suspension], None],
    ) -> None:
        """`answered` gets each piece of an answer; `unanswered` a debt that may be asked for again."""
        self._broker = broker
        self._answered = answered
        self._unanswered = unanswered
        self._asked: dict[int, Suspension] = {}
        self._number = 0

    @property
    def is_busy(self) -> bool:
        """Whether as many answers are waited for as may be."""
        return len(self._asked) >= MAX_FETCHES

    # --- asking ---------------------------------------------------------------------------------------

    def number(self, suspension: Suspension) -> int:
        """Give a debt that is asked for the number by which its answer is known."""
        self._number += 1
        suspension.number = self._number
        suspension.fetched.clear()
        return self._number

    def ask(self, suspension: Suspension) -> None:
        """Ask an origin for what it owes."""
        number = self.number(suspension)
        self._asked[number] = suspension
        epoch, seq = suspension.since
        fetch = Fetch(suspension.origin, self._broker.name, number, {epoch: seq}, self._filters(suspension))
        if suspension.origin == self._broker.name:
            self.requested(fetch)
            return
        self._broker.doors.forward(fetch, suspension.origin)

        def again() -> None:
            if self._asked.pop(number, None) is not None:
                suspension.number = None
                suspension.patience *= 2
                self._unanswered(suspension)

        self._broker.call_later(suspension.patience, again)

    def _filters(self, suspension: Suspension) -> tuple[Matches, ...]:
        filters = suspension.filters
        if not self._broker.scoping.flat:
            return (EVERYTHING,)  # what a publication looks like to a subscription is worked out here
        return filters if sum(len(str(filter)) for filter in filters) <= MAX_FETCH_FILTERS else (EVERYTHING,)

    def forget(self, suspension: Suspension) -> None:
        """An answer, if it comes, is of no use any more."""
        if suspension.number is not None:
            self._asked.pop(suspension.number, None)

    def forget_all(self) -> None:
        """A new tree: no answer will come."""
        self._asked.clear()

    def answered(self, message: Fetched) -> None:
        """A piece of an answer; pass it on if it is for another broker. `WireError` if it holds what is none."""
        for envelope in message.envelopes:
            envelope.notification  # noqa: B018 - decoded here: whatever is wrong with it is the doing of the neighbour
        if message.requester != self._broker.name:
            self._broker.doors.forward(message, message.requester)
        elif (suspension := self._asked.get(message.number)) is not None:
            self._answered(suspension, message)

    # --- answering ------------------------------------------------------------------------------------

    def requested(self, message: Fetch) -> None:
        """A broker asks an origin; answer if it is this one, pass it on otherwise."""
        check_positions(message.after.items())
        for filter in message.filters:
            check_readable(filter)
        if message.origin != self._broker.name:
            self._broker.doors.forward(message, message.origin)
            return
        for piece in self._broker.publications.answer(message, self._shown_to(message.requester)):
            if message.requester == self._broker.name:
                self.answered(piece)
            else:
                self._broker.doors.forward(piece, message.requester)

    def _shown_to(self, broker: str) -> Callable[[Identity], bool]:
        """What a broker may be told of: nothing of scopes that it has no part in."""
        scoping = self._broker.scoping
        if scoping.flat:
            return lambda identity: True
        return lambda identity: scoping.concerns(broker, identity.graph_epoch, identity.publisher)
