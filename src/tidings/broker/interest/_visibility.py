"""Visibility: what the core must know of a scope graph. The graph itself lives in `tidings.scopes`.

A *plan* is one version of the graph; on a tree, seen from one broker, it is a *view*. Every notification is judged by
one version only, the one in its identity, wherever it is: so brokers that learn of a change at different times never
disagree about where a notification crosses from scope to scope.

Without scopes there is one version, `FLAT`: everybody is a member of the root scope, which spans the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tidings.broker._bounds import MAX_COST
from tidings.broker.overlay import Tree
from tidings.model import (
    EVERYTHING,
    ROOT_ROUTE,
    ROOT_SCOPE,
    Duplicates,
    Filter,
    Identity,
    Matches,
    Notification,
    Route,
)

DECIDED = "decided"
"""The tag of what a deciding point has given to a client: nobody else gives it, whatever origins owe."""
SEAT = "/~seat/"
"""What the name of a client begins with that is the deciding point of a scope; the id of the scope follows. It is a
member of nothing else. No other client may have such a name: servers refuse it."""


class Passage(Protocol):
    """An edge of the scope graph: what may pass between a member and a scope, and in which form."""

    @property
    def member(self) -> str:
        """The client or scope that is the member."""
        ...

    @property
    def scope(self) -> str:
        """The scope that it is a member of."""
        ...

    @property
    def since(self) -> int:
        """The version in which this passage came to be as it is."""
        ...

    @property
    def route(self) -> Route:
        """The route of what the member, a client, publishes here."""
        ...

    @property
    def duplicates(self) -> Duplicates:
        """What counts as a second copy in the scope, unless its readers say otherwise."""
        ...

    @property
    def ordered(self) -> bool:
        """Whether members of the scope get what one publisher publishes in its order, also where it takes detours."""
        ...

    @property
    def exact(self) -> bool:
        """Whether everything in the scope reaches the member as it is."""
        ...

    @property
    def chooses(self) -> bool:
        """Whether a policy has a say, in one of the two directions."""
        ...

    @property
    def decides(self) -> bool:
        """Whether the member is the deciding point of the scope, which gets what is to be decided, as it is there."""
        ...

    @property
    def outward_filters(self) -> tuple[Filter, ...] | None:
        """What the scope gets of the member: all that passes each of these, as it is; None: it may be changed."""
        ...

    def outward(self, notification: Notification) -> Notification | None:
        """What the scope gets of a notification of the member; the same object if it is not changed."""
        ...

    def inward(self, notification: Notification) -> Notification | None:
        """What the member gets of a notification in the scope; the same object if it is not changed."""
        ...

    def sends(self, notification: Notification, identity: Identity, path: tuple[str, ...]) -> int | None:
        """When a policy of the member lets the scope have what passes: a time in microseconds since 1970 UTC, 0 for at
        once, None for not at all. It judges what the member has, and the scopes that this came through."""
        ...

    def compares(self, *, incoming: bool) -> bool:
        """Whether the deciding point of the scope says what the member gets, so that `takes` lets nothing pass."""
        ...

    def takes(
        self, notification: Notification, identity: Identity, path: tuple[str, ...], *, incoming: bool
    ) -> int | None:
        """When a policy of the scope lets the member have what passes, as `sends`; `incoming`: it came from above."""
        ...

    def wanted(self, filter: Matches) -> Matches:
        """What must be asked for in the scope so that the member gets all that the filter accepts."""
        ...

    def offered(self, filter: Matches) -> Matches:
        """What may appear in the scope if the member publishes what the filter accepts."""
        ...


class JointPassage:
    """An edge as several versions have it: what one of them needs is asked for. For the rest, it is the newest."""

    def __init__(self, parts: tuple[Passage, ...]) -> None:
        """`parts`: the passage in each of the versions, the newest first."""
        newest = parts[0]
        self.parts = parts
        self.member, self.scope, self.since, self.route = newest.member, newest.scope, newest.since, newest.route
        self.duplicates, self.ordered = newest.duplicates, newest.ordered
        self.exact = False
        self.outward_filters = newest.outward_filters
        self.decides = newest.decides
        self.outward, self.inward = newest.outward, newest.inward
        self.chooses, self.compares = newest.chooses, newest.compares
        self.sends, self.takes = newest.sends, newest.takes

    def wanted(self, filter: Matches) -> Matches:
        """What must be asked for in the scope, so that the member gets all that the filter accepts in some version."""
        return _either([part.wanted(filter) for part in self.parts])

    def offered(self, filter: Matches) -> Matches:
        """What may appear in the scope, in some version, if the member publishes what the filter accepts."""
        return _either([part.offered(filter) for part in self.parts])


def joint(parts: Iterable[Passage]) -> Passage:
    """One edge, as each version has it, the newest first. Versions between which it stayed as it was count once."""
    distinct = tuple({part.since: part for part in reversed(tuple(parts))}.values())[::-1]
    return distinct[0] if len(distinct) == 1 else JointPassage(distinct)


def same_passage(one: Passage, other: Passage) -> bool:
    """Whether an edge is the same still, in every version that counts."""
    return [part.since for part in _parts(one)] == [part.since for part in _parts(other)]


def _parts(passage: Passage) -> tuple[Passage, ...]:
    return passage.parts if isinstance(passage, JointPassage) else (passage,)


def _either(filters: list[Matches]) -> Matches:
    """A filter that accepts what one of these accepts, and perhaps more: it tells who must hear, not who sees."""
    either = filters[0]
    for filter in filters[1:]:
        if filter == either:
            continue
        if not (isinstance(either, Filter) and isinstance(filter, Filter)):
            return EVERYTHING
        if (both := either.union(filter)) is None or both.cost > MAX_COST:
            return EVERYTHING
        either = both
    return either


class Border(NamedTuple):
    """The names of the keys by which a scope guards its border."""

    sign: str = ""
    """What leaves it is signed by this one; "": it is not signed."""
    check: str = ""
    """What comes in must be signed by this one; "": it need not be."""


Climbing: TypeAlias = Callable[[tuple[str, ...], str], bool]
"""Whether what has climbed through these scopes may climb into the next one, interfaces aside."""


class Sighting(NamedTuple):
    """A notification as it is visible somewhere, and how it came there."""

    notification: Notification
    path: tuple[str, ...]
    due: int = 0
    """The time before which a policy does not let it be seen, in microseconds since 1970 UTC; 0: at once."""


class Choice(NamedTuple):
    """Whom a policy gives a notification."""

    clients: tuple[str, ...]
    again: bool = False
    """Whether it is asked again, about others, if none of these is there any more."""
    waits: bool = False
    """Whether it cannot be decided yet."""
    wakes: bool = False
    """Whether what waits may be decided now."""


class View(Protocol):
    """One version of the scope graph on one tree, as one broker sees it."""

    @property
    def version(self) -> int:
        """Which version it is."""
        ...

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that this broker carries."""
        ...

    @property
    def several(self) -> bool:
        """Whether one publication may come to somebody in several forms, one after the other."""
        ...

    @property
    def at_points(self) -> frozenset[tuple[str, bool]]:
        """The scopes whose deciding points say who gets what came from above (True), or what was published inside."""
        ...

    @property
    def delays(self) -> bool:
        """Whether a policy may keep something back for a while: then it is overtaken."""
        ...

    @property
    def gateways(self) -> frozenset[str]:
        """The brokers that are designated as gateways: what crosses there takes a detour, and may be overtaken."""
        ...

    @property
    def sessions(self) -> Mapping[str, str]:
        """The session scopes, each with the tag of its session."""
        ...

    @property
    def confined(self) -> frozenset[str]:
        """Those of the tags whose sessions keep reactions to themselves."""
        ...

    @property
    def borders(self) -> Mapping[str, Border]:
        """The scopes that guard their borders."""
        ...

    def knows(self, scope: str) -> bool:
        """Whether there is such a scope."""
        ...

    def administers(self, client: str, scope: str) -> bool:
        """Whether a client is an administrator of a scope, or of one that it was made in."""
        ...

    def memberships(self, client: str) -> Mapping[str, Passage]:
        """The scopes that a client is a member of."""
        ...

    def trusts(self, client: str, broker: str) -> bool:
        """Whether a broker may know what a client wants: every scope above the client trusts it."""
        ...

    @property
    def comparing(self) -> tuple[str, ...]:
        """The scopes with a policy that compares their members: a deciding point says who gets something."""
        ...

    def point(self, scope: str) -> str:
        """The broker that decides for such a scope, the same at every broker; "": none can."""
        ...

    def chosen(
        self,
        notification: Notification,
        clients: Iterable[str],
        identity: Identity,
        path: tuple[str, ...],
        load: Callable[[str], tuple[int, int]],
        *,
        waited: bool = False,
    ) -> Choice:
        """Decide which of these clients get a notification in the scope that ends its path.

        To be asked once, at the deciding point. `load` is what is under way to a client, and what it was given before;
        `waited`: whether it could not be decided before.
        """
        ...

    def decides_by(self, path: tuple[str, ...]) -> str | None:
        """Which policy with a state decides about what came by a path, by kind and name; None: it needs no state."""
        ...

    def gives_to_several(self, scope: str) -> bool:
        """Whether a policy of a scope that is asked at its deciding point may choose several."""
        ...

    def remembered(self, scope: str) -> dict[str, bytes]:
        """What the policies of a scope must know at its next deciding point, by kind and policy."""
        ...

    def recall(self, scope: str, states: Sequence[Mapping[str, bytes]]) -> None:
        """Let the policies of a scope begin here with what other deciding points have remembered, the latest first."""
        ...

    def supers(self, scope: str) -> Mapping[str, Passage]:
        """The scopes that a scope is a member of."""
        ...

    def gates(self, scope: str) -> Mapping[str, Passage]:
        """Those of them from which something may cross into the scope here."""
        ...

    def gateway(self, scope: str, above: str) -> str | None:
        """The broker where everything crosses between a scope and its superscope; None: no such one is designated."""
        ...

    def subs(self, scope: str) -> Mapping[str, Passage]:
        """The scopes that are members of a scope."""
        ...

    def neighbours(self, scope: str) -> frozenset[str]:
        """The tree neighbours of this broker that carry a scope, too."""
        ...

    def admits(self, sub: str, scope: str, neighbour: str) -> bool:
        """Whether what is in `scope` at a neighbour crosses into `sub` there, rather than here."""
        ...

    def sightings(
        self,
        publisher: str,
        notification: Notification,
        client: str,
        climbing: Climbing | None = None,
        *,
        identity: Identity | None = None,
        possible: bool = False,
    ) -> Iterable[Sighting]:
        """Every form in which a client may see what a publisher published, one for each path.

        `climbing`: where it may climb, if not wherever interfaces let it. With the `identity` of the publication, those
        that policies choose; and if `possible`, those that a deciding point may have given to the client.
        """
        ...

    def visible_in(self, publisher: str) -> Iterable[str]:
        """The scopes in which what a publisher publishes may be seen."""
        ...

    def carries(self, broker: str, scope: str) -> bool:
        """Whether a broker carries a scope."""
        ...


class Plan(Protocol):
    """One version of the scope graph."""

    @property
    def version(self) -> int:
        """Which version it is."""
        ...

    @property
    def moved(self) -> frozenset[str] | None:
        """The clients that are members in another way than in the version before; None: more than that has changed."""
        ...

    def on(self, broker: str, tree: Tree) -> View:
        """What it means for one broker on one tree."""
        ...


class _Open:
    """The passage between a client and the root scope: everything passes."""

    member = ""
    scope = ROOT_SCOPE
    since = 0
    route = ROOT_ROUTE
    duplicates = Duplicates.DEFAULT
    ordered = False
    exact = True
    chooses = False
    decides = False
    outward_filters: tuple[Filter, ...] | None = ()

    def outward(self, notification: Notification) -> Notification:
        return notification

    inward = outward

    def sends(self, notification: Notification, identity: Identity, path: tuple[str, ...]) -> int:
        return 0

    def compares(self, *, incoming: bool) -> bool:
        return False

    def takes(self, notification: Notification, identity: Identity, path: tuple[str, ...], *, incoming: bool) -> int:
        return 0

    def wanted(self, filter: Matches) -> Matches:
        return filter

    offered = wanted


OPEN_PASSAGE: Passage = _Open()
"""The passage of a client that knows nothing of scopes."""


class _FlatView:
    """The root scope and nothing else."""

    version = 0
    several = False
    delays = False
    at_points: frozenset[tuple[str, bool]] = frozenset()
    comparing: tuple[str, ...] = ()
    gateways: frozenset[str] = frozenset()
    confined: frozenset[str] = frozenset()
    scopes = frozenset((ROOT_SCOPE,))
    sessions: Mapping[str, str] = {}
    borders: Mapping[str, Border] = {}
    _root: Mapping[str, Passage] = {ROOT_SCOPE: OPEN_PASSAGE}
    _none: Mapping[str, Passage] = {}

    def __init__(self, tree: Tree) -> None:
        self._neighbours = tree.neighbours

    def knows(self, scope: str) -> bool:
        return scope == ROOT_SCOPE

    def administers(self, client: str, scope: str) -> bool:
        return False

    def memberships(self, client: str) -> Mapping[str, Passage]:
        return self._none if client.startswith(SEAT) else self._root

    def trusts(self, client: str, broker: str) -> bool:
        return True

    def point(self, scope: str) -> str:
        return ""

    def chosen(
        self,
        notification: Notification,
        clients: Iterable[str],
        identity: Identity,
        path: tuple[str, ...],
        load: Callable[[str], tuple[int, int]],
        *,
        waited: bool = False,
    ) -> Choice:
        return Choice(())

    def decides_by(self, path: tuple[str, ...]) -> str | None:
        return None

    def gives_to_several(self, scope: str) -> bool:
        return False

    def remembered(self, scope: str) -> dict[str, bytes]:
        return {}

    def recall(self, scope: str, states: Sequence[Mapping[str, bytes]]) -> None:
        """Nobody decides here."""

    def supers(self, scope: str) -> Mapping[str, Passage]:
        return self._none

    subs = gates = supers

    def neighbours(self, scope: str) -> frozenset[str]:
        return self._neighbours if scope == ROOT_SCOPE else frozenset()

    def gateway(self, scope: str, above: str) -> str | None:
        return None

    def admits(self, sub: str, scope: str, neighbour: str) -> bool:
        return False

    def sightings(
        self,
        publisher: str,
        notification: Notification,
        client: str,
        climbing: Climbing | None = None,
        *,
        identity: Identity | None = None,
        possible: bool = False,
    ) -> Iterable[Sighting]:
        return (Sighting(notification, ()),)

    def visible_in(self, publisher: str) -> Iterable[str]:
        return (ROOT_SCOPE,)

    def carries(self, broker: str, scope: str) -> bool:
        return scope == ROOT_SCOPE


class _Flat:
    version = 0
    moved: frozenset[str] | None = None

    def on(self, broker: str, tree: Tree) -> View:
        return _FlatView(tree)


FLAT: Plan = _Flat()
"""A system without scopes."""
