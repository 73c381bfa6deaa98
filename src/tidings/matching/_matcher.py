"""What every matching engine offers. Routing knows this interface and nothing else of matching.

An engine holds filters under keys and says, for a notification, which keys' filters match. How it finds
them is its own affair: engines differ in speed only, and the tests hold all of them to `bench._naive_index`.
An engine in another language would be one more class of this shape, chosen in `make_index`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from tidings.model import Conjunction, Filter, Matches, Notification

K = TypeVar("K", bound=Hashable)

Group: TypeAlias = tuple[Mapping[Any, None], bytes, bytes, bool, bytes | None]
"""Links, what opens a frame for them, what closes it, whether these are neighbours, and the routes that they are told;
None: those of the envelope."""
Plan: TypeAlias = tuple[Any, bool, list[Group], bool]
"""Who gets something, whether its publisher is among them, the groups that get the same frame, and whether it is a run
of its own."""


class Fed(NamedTuple):
    """What came of a run of publications."""

    upto: int
    """How far it came in the bytes."""
    taken: int
    """How many publications."""
    written: list[tuple[Mapping[Any, None], bytes, int, int, bytes]]
    """Links, the parts that they get as bytes, how many these are, the size of the largest, and the broker's number of
    what is in each, 64 bits each in the order of this machine."""
    left: bool
    """Whether some of those who get the last one stand apart, and have not been served."""
    clients: int
    """Copies for clients."""
    neighbours: int
    """Copies for neighbours."""
    seq: int
    """The publisher's own number of the last of them."""
    asked: int
    """The quality that was asked for."""
    quality: int
    """The quality that they got."""
    envelopes: bytes
    """Encoded, one after the other."""
    places: bytes
    """Where the body of each begins in these, and its size, 32 bits each in the order of this machine."""
    size: int
    """Of all bodies together."""
    watched: list[int]
    """Those that somebody observes, by their places in the run."""


class PassedOn(NamedTuple):
    """What a plane has passed on of what a neighbour brought."""

    upto: int
    """How far it came in the bytes."""
    taken: int
    """How many notifications."""
    written: list[tuple[Mapping[Any, None], bytes, int, int, bytes]]
    """As in `Fed`."""
    left: bool
    """As in `Fed`."""
    clients: int
    """Copies for clients."""
    neighbours: int
    """Copies for neighbours."""
    origin: str
    epoch: int
    seq: int
    """The number of the last."""


class Plane(Protocol):
    """The data plane of an engine: see docs/native.md."""

    def arm(  # noqa: PLR0917 - as for `feed`
        self, head: bytes, version: bytes, routes: bytes, passing: bytes, before: bytes, after: bytes, /
    ) -> None:
        """Take down what all envelopes have in common: what is before their number, the graph's version, the routes.

        What neighbours bring has the routes `passing`, if there are some; where there are scopes, its route may also be
        the name of its publisher between `before` and `after`, and it has the graph's version.
        """
        ...

    def feed(  # noqa: PLR0917 - by their places they are passed in a tenth of the time
        self,
        data: bytes,
        at: int,
        link: object,
        most: int,
        version: int,
        plan: Callable[[list[Any], Any], Plan | None],
        special: Callable[[Any], list[Group] | bool | None] | None,
        publisher: bytes,
        last: int,
        known: int,
        now: int,
        qualities: bytes,
        checks: Checks | None,
        /,
    ) -> tuple[Any, ...] | None:
        """Take publications of one client that follow each other, as far as they are plain; a `Fed`, or None."""
        ...

    def pass_on(  # noqa: PLR0917 - as above
        self,
        data: bytes,
        at: int,
        link: object,
        most: int,
        version: int,
        plan: Callable[[list[Any], Any], Plan | None],
        special: Callable[[Any], list[Group] | bool | None] | None,
        hop: bytes,
        /,
    ) -> tuple[Any, ...] | None:
        """Pass on notifications of one origin that follow each other, as far as they are plain; `PassedOn`, or None."""
        ...

    def is_sound(self, data: bytes, limit: int, /) -> bool:
        """Whether all parts in these bytes have a kind that there is, and a size within the limit."""
        ...

    def plans(self) -> int:
        """How many plans are remembered."""
        ...


Checks: TypeAlias = tuple[tuple[Plane, ...], Plane | None, Plane | None, Plane | bool | None]
"""What judges a publication: planes of which each must match; one that must announce it; one that must not match; one
whose matches are noted, True: all are."""


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

    @property
    def plane(self) -> Plane | None:
        """Takes whole publications as bytes and gives frames as bytes, by the same filters; None: it cannot."""
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
