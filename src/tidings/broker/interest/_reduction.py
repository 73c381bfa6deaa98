"""Reductions: what a broker tells a neighbour about all the filters that come from elsewhere.

Theory of operation
-------------------
A routing algorithm is a choice of one thing: given the filters that arrived from everywhere but neighbour h,
which filters is h told? That set must accept every notification that the given filters accept (invariant INV-R).

A `Reduction` keeps the answer for one neighbour, incrementally. `add` and `remove` change the given filters, by
key, and return a `Delta`: what to announce and what to withdraw. The broker sends announcements first, so that
coverage never has a hole (make before break). `representative` tells which announced filter stands for a given
one; the broker uses it to know when a subscription has settled.

To write a routing algorithm: write a class with these four members and register it in `ALGORITHMS`
(see docs/architecture.md, "A routing algorithm of your own").
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from tidings.model import Filter, Matches, UnsupportedFilter

Key: TypeAlias = Hashable
"""Names a given filter: one subscription of one link."""


class Announcement(NamedTuple):
    """A filter as neighbours know it."""

    id: str
    filter: Matches


@dataclass(slots=True)
class Delta:
    """What changes at a neighbour: these filters are announced, then those ids withdrawn."""

    announce: dict[str, Matches] = field(default_factory=dict)
    withdraw: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.announce or self.withdraw)

    def then(self, later: Delta) -> Delta:
        """This change, then the later one; what cancels out is gone."""
        for id, filter in later.announce.items():
            if id in self.withdraw:
                del self.withdraw[id]
            else:
                self.announce[id] = filter
        for id in later.withdraw:
            if id in self.announce:
                del self.announce[id]
            else:
                self.withdraw[id] = None
        return self


class Reduction(Protocol):
    """What one neighbour is told."""

    @property
    def announced(self) -> Mapping[str, Matches]:
        """What it has been told, by id."""
        ...

    def add(self, key: Key, id: str, filter: Matches) -> Delta:
        """A filter has come. `id` is the name that it came with."""
        ...

    def remove(self, key: Key) -> Delta:
        """The filter of this key has gone."""
        ...

    def representative(self, key: Key) -> str | None:
        """The id of the announced filter that stands for this one; None if nothing needs to be told."""
        ...


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """How a network routes; every broker of a network has the same."""

    algorithm: str = "covering"
    advertisements: bool = False
    precision: float = 0.5
    """Imperfect merging: the least share of wanted notifications among those a merger accepts."""
    slack: float = 0.25
    """Imperfect merging: a merger is kept as it is until this share of its filters has gone."""
    merge_width: int = 32
    """The most filters that one merger stands for."""


class Flooding:
    """Tells nothing: notifications go everywhere."""

    announced: Mapping[str, Matches] = {}

    def add(self, key: Key, id: str, filter: Matches) -> Delta:
        return Delta()

    def remove(self, key: Key) -> Delta:
        return Delta()

    def representative(self, key: Key) -> None:
        return


class Simple:
    """Tells everything: every broker knows every subscription. Any filter class will do."""

    def __init__(self) -> None:
        self._ids: dict[Key, str] = {}
        self._announced: dict[str, Matches] = {}

    @property
    def announced(self) -> Mapping[str, Matches]:
        """All given filters, by the ids they came with."""
        return self._announced

    def add(self, key: Key, id: str, filter: Matches) -> Delta:
        """Announce it under its own id."""
        self._ids[key] = id
        self._announced[id] = filter
        return Delta(announce={id: filter})

    def remove(self, key: Key) -> Delta:
        id = self._ids.pop(key)
        del self._announced[id]
        return Delta(withdraw={id: None})

    def representative(self, key: Key) -> str:
        return self._ids[key]


class IdentityBased:
    """Tells each filter once, however many subscriptions share it."""

    def __init__(self) -> None:
        self._filters: dict[Key, str] = {}
        self._holders: dict[str, int] = {}
        self._announced: dict[str, Matches] = {}

    @property
    def announced(self) -> Mapping[str, Matches]:
        """One filter per class of equal ones."""
        return self._announced

    def add(self, key: Key, id: str, filter: Matches) -> Delta:
        """Announce the filter if it is the first of its class."""
        filter = algebraic(filter).canonical()
        self._filters[key] = filter.id
        self._holders[filter.id] = holders = self._holders.get(filter.id, 0) + 1
        if holders > 1:
            return Delta()
        self._announced[filter.id] = filter
        return Delta(announce={filter.id: filter})

    def remove(self, key: Key) -> Delta:
        """Withdraw the filter if it was the last of its class."""
        id = self._filters.pop(key)
        self._holders[id] -= 1
        if self._holders[id]:
            return Delta()
        del self._holders[id], self._announced[id]
        return Delta(withdraw={id: None})

    def representative(self, key: Key) -> str:
        """The first of its class."""
        return self._filters[key]


def algebraic(filter: Matches) -> Filter:
    """The filter, if it has the relations that all algorithms but flooding and simple need."""
    if isinstance(filter, Filter):
        return filter
    raise UnsupportedFilter(
        f"{type(filter).__name__} has no covers, overlaps and merge; "
        "use routing = 'simple' or 'flooding' for filter classes of your own"
    )


ALGORITHMS: dict[str, Callable[[RoutingOptions], Reduction]] = {
    "flooding": lambda options: Flooding(),
    "simple": lambda options: Simple(),
    "identity": lambda options: IdentityBased(),
}
"""The routing algorithms by name; covering and merging add themselves."""
