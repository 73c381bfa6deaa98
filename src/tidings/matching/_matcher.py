"""What every matching engine offers. Routing knows this interface and nothing else of matching.

An engine holds filters under keys and says, for a notification, which keys' filters match. How it finds
them is its own affair: engines differ in speed only, and the tests hold all of them to `bench._naive_index`.
An engine in another language would be one more class of this shape, chosen in `make_index`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

from tidings.model import Conjunction, Filter, Matches, Notification

K = TypeVar("K", bound=Hashable)


class Matcher(Protocol[K]):
    """Filters under keys, and the question which of them match."""

    def add(self, filter: Filter | Matches, key: K, /) -> None:
        """Hold a filter under a key. A key that is there already raises `KeyError`: remove it first."""
        ...

    def remove(self, key: K, /) -> None:
        """Forget a key and its filter. An unknown key raises `KeyError`."""
        ...

    def match(self, notification: Notification, /) -> list[K]:
        """The keys whose filters match, each once, in no particular order."""
        ...

    @property
    def match_body(self) -> Callable[[bytes], list[K] | None] | None:
        """As `match`, from an encoded notification, whose names and values it checks; None: it must be decoded.

        An engine that matches decoded notifications only has no such method.
        """
        ...

    def match_many(self, batch: Iterable[Notification], /) -> list[list[K]]:
        """As `match`, for each notification of a batch."""
        ...

    def __len__(self) -> int:
        """How many keys there are."""
        ...

    def __contains__(self, key: object, /) -> bool:
        """Whether the key holds a filter."""
        ...

    def statistics(self) -> dict[str, int]:
        """How much there is of what; every engine counts at least `filters` and `conjunctions`."""
        ...


def conjunctions_of(filter: Filter | Matches) -> tuple[Conjunction, ...] | None:
    """The conjunctions that say all about a filter; None if only its `matches` can.

    The filter model is open: a class may bring its own `matches`, and a subclass may override ours.
    """
    if not isinstance(filter, Filter) or type(filter).matches is not Filter.matches:
        return None
    if any(type(conjunction).passes is not Conjunction.passes for conjunction in filter.conjunctions):
        return None
    return filter.conjunctions
