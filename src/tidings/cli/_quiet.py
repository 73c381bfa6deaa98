"""Keeps the garbage collector from stopping a server: a process that is a broker and nothing else can afford it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidings.broker import Advice, Entry, Feature, Joinpoint
from tidings.matching import Calm
from tidings.model import Filter

ORDINARY_COST = 1
"""The cost of a filter that counts as one change."""


class Quiet(Feature):
    """Tells the collector's policy of every change of the tables (see `tidings.matching.Calm`)."""

    name = "quiet"
    fail_stop = False

    def __init__(self) -> None:
        self._calm = Calm()
        self._calm.start()

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Every subscription that comes or goes counts."""
        return {Joinpoint.SUB_ADD: self._changed, Joinpoint.SUB_DEL: self._changed}

    def _changed(self, proceed: Callable[[], Any], scope: str, entry: Entry) -> Any:
        result = proceed()
        self._calm.changed(max(1, entry.filter.cost // ORDINARY_COST) if isinstance(entry.filter, Filter) else 1)
        return result
