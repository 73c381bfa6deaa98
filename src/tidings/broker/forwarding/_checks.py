"""Checks: what judges a publication beside the table, as planes that the data plane asks from the same body.

    the filter of an identity     must match
    the edge of the publisher     its filters must match, each of them
    advertisements                one that has settled must announce it
    edges out of the scope        none may let it out: then the full path does it
    observers                     what concerns them is noted

Whatever fails goes the way of a single message, where it gets its words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from tidings.broker._links import Filtering, Guard, Link
from tidings.broker.interest import Passage, Registration
from tidings.matching import Checks, Matcher, Plane, make_index
from tidings.model import EVERYTHING, NOTHING, Matches
from tidings.wire import Envelope

Watch: TypeAlias = Plane | bool | None
"""What tells which publications are observed; True: all of them, None: none."""
_Known: TypeAlias = tuple[tuple[Registration, ...], Watch, Checks | None]

ALL_LEAVE = "everything leaves its scope"


def over(filters: Iterable[Matches]) -> Plane | None:
    """A plane over some filters; None: there is no compiled engine."""
    index: Matcher[int] = make_index()
    for number, filter in enumerate(filters):
        index.add(filter, number)
    return index.plane


class Watching(Protocol):
    """Whoever observes publications, if all of them take many at once."""

    @property
    def concerned(self) -> Callable[[], Matcher[Any] | None]:
        """An index whose filters match all that concerns them; None: everything may."""
        ...

    def observe(self, envelopes: Sequence[Envelope], link: Link) -> None:
        """These have come together from a client."""
        ...


class Judges:
    """What judges the publications of each client that publishes by one lane, while it is armed."""

    def __init__(
        self,
        passages: Mapping[Link, Passage],
        supers: Collection[Passage],
        advertised: Callable[[Link], Iterable[Registration]] | None,
        watch: Callable[[], Watch],
    ) -> None:
        """`passages`: by which each client is a member of the scope; not a copy. `supers`: the edges out of the scope,
        of which `why_not` has nothing to say. `advertised`: what a client advertises; None: it need not."""
        self._passages = passages
        self._advertised = advertised
        self._watch = watch
        out = [passage.outward_filters for passage in supers]
        # All filters of an edge let something out; whatever the first one stops needs no other.
        self._outer = over(filters[0] for filters in out if filters and NOTHING not in filters) if out else None
        self._guards: dict[int, tuple[Guard, Plane | Literal[False] | None]] = {}
        """By the guard, which is kept: identities are few."""
        self._known: dict[Link, _Known] = {}

    def forget(self, link: Link) -> None:
        """A client publishes no more."""
        self._known.pop(link, None)

    def of(self, link: Link) -> Checks | Literal[False] | None:
        """What judges the publications of a client; None: nothing does, False: only Python can."""
        announced: tuple[Registration, ...] = ()
        if self._advertised is not None:
            announced = tuple([one for one in self._advertised(link) if one.effective])
            if not announced:
                return False
        watch = self._watch()
        known = self._known.get(link)
        if known is None or known[1] is not watch or known[0] != announced:
            if (guards := self._of_link(link)) is None:
                return False
            checks: Checks = (guards, over(one.filter for one in announced) if announced else None, self._outer, watch)
            known = self._known[link] = (
                announced,
                watch,
                checks if any(one is not None for one in checks[1:]) or guards else None,
            )
        return known[2]

    def _of_link(self, link: Link) -> tuple[Plane, ...] | None:
        """What must match; None: only Python can judge."""
        found = []
        if link.guard is not None:
            guard = self._guard(link.guard)
            if guard is False:
                return None
            if guard is not None:
                found.append(guard)
        passage = self._passages.get(link)
        filters = () if passage is None else passage.outward_filters
        if filters is None:
            return None  # it is changed on its way
        for filter in filters:
            if (plane := over((filter,))) is None:
                return None
            found.append(plane)
        return tuple(found)

    def _guard(self, guard: Guard) -> Plane | Literal[False] | None:
        """What judges by the filter of an identity; None: it passes everything, False: only Python can judge."""
        known = self._guards.get(id(guard))
        if known is None:
            plane: Plane | Literal[False] | None = False
            if isinstance(guard, Filtering):
                plane = None if guard.publishes == EVERYTHING else over((guard.publishes,)) or False
            known = self._guards[id(guard)] = (guard, plane)
        return known[1]


def why_not(supers: Collection[Passage]) -> str:
    """Why nothing can be said by filters alone of what leaves a scope by these edges; empty: it can."""
    for passage in supers:
        if passage.outward_filters is None:
            return "an edge changes what leaves its scope"
        if not passage.outward_filters:
            return ALL_LEAVE
    return ""
