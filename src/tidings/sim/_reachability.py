"""Who could reach whom, and when: worked out from what a trace says of links and brokers.

Links are there from the beginning or are added later; they are cut and healed. Brokers die and come back. Two brokers
reach each other as long as a chain of links and living brokers joins them. A trace that names no links says nothing of
this: then trouble anywhere counts as trouble for everybody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from ._details import Broken
from ._trace import Record


class _Since(NamedTuple):
    """From some time on."""

    time: int
    parts: dict[str, int]
    """For each living broker, which part of the network it is in."""
    trouble: bool
    """Whether anything is broken."""


class Reachability:
    """The links and brokers of a run so far."""

    def __init__(self) -> None:
        self._links: set[frozenset[str]] = set()
        self._cut: set[frozenset[str]] = set()
        self._dead: set[str] = set()
        self._history: list[_Since] = []
        self._apart: dict[tuple[frozenset[str], frozenset[str]], list[tuple[int, int | None]]] = {}
        """What was worked out since the last change."""

    @property
    def is_known(self) -> bool:
        """Whether the trace names links."""
        return bool(self._links)

    @property
    def brokers(self) -> set[str]:
        """Every broker that has had a link."""
        return {broker for link in self._links for broker in link}

    def note(self, record: Record) -> None:
        """A link or a broker is there, is broken, or is mended."""
        assert isinstance(record.detail, Broken)
        kind, where = record.detail
        link = frozenset(where.split(" - "))
        match kind:
            case "link" | "connect":
                self._links.add(link)
            case "cut":
                self._cut.add(link)
            case "heal":
                self._cut.discard(link)
            case "crash":
                self._dead.add(where)
            case "restart":
                self._dead.discard(where)
            case _:
                return
        self._apart.clear()
        if kind == "link":  # what was there from the beginning was never missing
            self._history.clear()
        self._history.append(_Since(record.time, self._parts(), bool(self._cut or self._dead)))

    def _parts(self) -> dict[str, int]:
        neighbours: dict[str, list[str]] = {}
        for link in self._links - self._cut:
            one, two = sorted(link)
            if not link & self._dead:
                neighbours.setdefault(one, []).append(two)
                neighbours.setdefault(two, []).append(one)
        parts: dict[str, int] = {}
        for number, broker in enumerate(sorted(self.brokers - self._dead)):
            stack = [] if broker in parts else [broker]
            while stack:
                reached = stack.pop()
                if reached not in parts:
                    parts[reached] = number
                    stack += neighbours.get(reached, ())
        return parts

    def between(self, since: int, until: int) -> list[dict[str, int]]:
        """For each living broker, in which part of the network it was: how it was at a time, and after each change."""
        before = [one.parts for one in self._history if one.time <= since][-1:]
        return before + [one.parts for one in self._history if since < one.time <= until]

    def together(self, one: str, two: str) -> bool:
        """Whether two brokers reach each other now."""
        if not self._history or not self.is_known:
            return not self._history or not self._history[-1].trouble
        parts = self._history[-1].parts
        return one in parts and parts[one] == parts.get(two)

    def apart(self, here: Collection[str], there: Collection[str], now: int) -> list[tuple[int, int]]:
        """From when to when some broker here could not reach some broker there."""
        between = (frozenset(here), frozenset(there))
        if between not in self._apart:
            self._apart[between] = list(self._spans(*between))
        return [(begun, now if ended is None else ended) for begun, ended in self._apart[between]]

    def _spans(self, here: Collection[str], there: Collection[str]) -> Iterator[tuple[int, int | None]]:
        begun: int | None = None
        for since in self._history:
            apart = self._is_apart(since, here, there)
            if apart and begun is None:
                begun = since.time
            elif begun is not None and not apart:
                yield begun, since.time
                begun = None
        if begun is not None:
            yield begun, None

    def _is_apart(self, since: _Since, here: Collection[str], there: Collection[str]) -> bool:
        if not self.is_known:
            return since.trouble
        parts = since.parts
        return any(one != two and (one not in parts or parts[one] != parts.get(two)) for one in here for two in there)
