"""Warming: at which of its next brokers copies of a client listen before it goes, and from when on.

The neighbour graph says which ones are likely, and how long clients usually stay before they go there. With `warm_from`
a copy begins to listen when its client has stayed for that part of this time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ._controlled import Controlled
from ._neighbourhood import Neighbourhood
from ._options import MobilityOptions
from ._woven import SECOND, Woven


class Chosen(NamedTuple):
    """What is right now."""

    brokers: frozenset[str]
    """Where copies are to listen."""
    again: int | None = None
    """After how many microseconds others are."""


class Warming:
    """Chooses, for the clients of one broker."""

    def __init__(self, feature: Woven, options: MobilityOptions, neighbourhood: Neighbourhood) -> None:
        self._feature = feature
        self._options = options
        self._neighbourhood = neighbourhood

    def chosen(self, client: Controlled, likely: Iterable[str]) -> Chosen:
        """Those of the brokers where a client may go next, the likeliest first, that are to listen."""
        if not self._options.warms(client.whose.name):
            return Chosen(frozenset())
        stayed = self._feature.context.now() - client.since
        likeliest = list(likely)[: self._options.warm_copies]
        begin = {broker: int(self._options.warm_from * self._stay(broker)) for broker in likeliest}
        later = [at - stayed for at in begin.values() if at > stayed]
        return Chosen(frozenset(one for one, at in begin.items() if at <= stayed), min(later, default=None))

    def _stay(self, broker: str) -> float:
        """How many microseconds clients usually stay here before they go there; 0: nobody knows."""
        edge = self._neighbourhood.graph.edge(self._feature.context.name, broker)
        return edge.dwell * SECOND if edge is not None else 0.0
