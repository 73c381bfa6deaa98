"""What plain and acknowledged groups have in common: members at every broker, and a point that decides.

Theory of operation
-------------------
Every broker knows the members that are attached to it, and one broker of the tree decides for the group. This module
joins the two, and both to the broker: it works out where the point of a group is, gathers there before anything is
decided (`tidings.broker.Points`), and hears of clients that come, go, and are away.

What a group gets is what each of its members would see: that is why all of them must be in the same scopes, by plain
edges. So it is looked at again with each version of the scope graph. A member that is in other scopes by the newest one
leaves, and is told so; the point looks for another member to stand for, if it stood for that one; and what is judged by
an older version goes to a member that saw it by that version.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tidings.broker import (
    POINT_WAVE,
    Advice,
    Feature,
    InnerClient,
    Joinpoint,
    Link,
    Passage,
    Points,
    Term,
    Timer,
    WaveKind,
    check_filter,
    is_located,
    point_of,
)
from tidings.model import ROOT_SCOPE, Filter, Position, TidingsError
from tidings.wire import CLIENT_COST, AnyMessage, Envelope, Frame, Refused

from ._fair import FairShare
from ._limits import KEPT, MAX_GROUPS, MAX_IDLE, OVERDUE
from ._members import Members, not_taken
from ._messages import Begun, Present, Refuse, conflict
from ._names import GroupName, named

_SUFFIX = "/~group/"
"""Between the name of a member and the key of its group: the client inside the broker that stands for it."""
_FLAT = (ROOT_SCOPE,)
"""What everybody sees where there are no scopes."""
UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, TidingsError)


class Decided(Protocol):
    """A group at its point, as far as this module needs it."""

    @property
    def term(self) -> Term | None:
        """Under which this broker decides, or has decided."""
        ...

    @property
    def members(self) -> int:
        """How many there are."""
        ...

    @property
    def open(self) -> int:
        """How much is under way."""
        ...

    def present(self, broker: str, present: Present) -> None:
        """A broker says who is there."""
        ...

    def suspend(self) -> None:
        """Decide nothing for now."""
        ...

    def cease(self) -> None:
        """Decide nothing any more."""
        ...

    def look_again(self) -> None:
        """There is another version of the scope graph."""
        ...

    def overdue(self) -> bool:
        """Whether something is under way for too long."""
        ...


_G = TypeVar("_G", bound=Decided)
_M = TypeVar("_M", bound=Members)
_J = TypeVar("_J")


class Sharing(Feature, abc.ABC, Generic[_G, _M, _J]):
    """The groups of one broker: their members that are attached to it, and those that it is the point of."""

    members: _M
    strength = ""
    """Why a client that wants another strength cannot be a member of a group that has this one."""

    def __init__(self) -> None:
        self.points = Points(lambda: self.context, self)
        self.groups: dict[str, _G] = {}
        """Those that this broker decides for, or has decided for, by key."""
        self._expiring: dict[str, Timer] = {}
        """Groups without members, or of another point, until they are forgotten."""
        self._share = FairShare(MAX_IDLE)
        self._watching = False
        self._soon = False
        self._unready: dict[tuple[Link, str], _J] = {}
        """Who has asked to join before the graph is known here."""
        self.other: Sharing[Any, Any, Any] | None = None
        """The groups of the other strength, which have the same names."""

    # --- the broker -----------------------------------------------------------------------------------

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The wave by which a point gathers."""
        return {POINT_WAVE: self.points}

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Members come and go with their clients; the point moves with the tree."""
        return {
            Joinpoint.DETACH: self._detached,
            Joinpoint.AWAY: self._moved,
            Joinpoint.BACK: self._moved,
            Joinpoint.TREE: self._new_tree,
            Joinpoint.GRAPH: self._graph,
        }

    def neighbour_ready(self, link: Link) -> None:
        """What could not be said to a point before may be said now."""
        self.members.reached(lambda key: self.context.hop_towards(self.point(key)) is link)

    def _detached(self, proceed: Callable[[Link], None], link: Link) -> None:
        for asked in [one for one in self._unready if one[0] is link]:
            del self._unready[asked]
        self.members.gone(link)
        proceed(link)

    def _moved(self, proceed: Callable[[Link], None], link: Link) -> None:
        proceed(link)
        self.members.moved(link)

    def _new_tree(self, proceed: Callable[..., None], old: object, new: object) -> None:
        proceed(old, new)
        self.points.moved()
        self.members.new_tree()

    def _graph(self, proceed: Callable[..., None], old: object, new: object) -> None:
        proceed(old, new)
        if not self._soon:
            self._soon = True
            self.context.call_later(0, self._regraph)

    def _regraph(self) -> None:
        """There is another version: members may be in other scopes."""
        self._soon = False
        if not self.context.scoping.ready:
            return
        unready, self._unready = self._unready, {}
        for (link, _), said in unready.items():
            self._join(link, said)
        for key, group in self.groups.items():
            if self.points.is_deciding(key):
                group.look_again()
        for link, id, terms in self.members.joined():
            try:
                sees = self._plain_scopes(link)
                if sees != terms.sees:
                    raise TidingsError(conflict(msgspec.structs.replace(terms, sees=sees), terms))
            except TidingsError as error:
                self.members.put_out(link, id, str(error))

    def _ask(self, link: Link, id: str, said: _J) -> None:
        """A client asks to join; nobody is a member of anything before the graph is known here."""
        if self.context.scoping.ready:
            self._join(link, said)
        elif len(self._unready) < MAX_GROUPS:
            self._unready[link, id] = said
        else:
            waiting = f"{MAX_GROUPS:,} members wait until this broker knows the scopes, the maximum; join later"
            self.refuse(link, id, TidingsError(waiting))

    @abc.abstractmethod
    def _join(self, link: Link, said: _J) -> None:
        """Let a client join."""

    def has(self, key: str) -> bool:
        """Whether a group has members, as far as this broker knows."""
        group, present = self.groups.get(key), self.members.present(key)
        return (group is not None and group.members > 0) or (present is not None and bool(present.members))

    def name_of(self, link: Link, text: str) -> GroupName:
        """The group that a client means; `TidingsError` if it cannot join it."""
        sees = self._plain_scopes(link)
        owner = link.guard.name if link.guard is not None else ""
        name = named(text, owner, sees, link.name)
        if self.other is not None and self.other.has(name.key):
            raise TidingsError(not_taken(name, link.name, f"{self.other.strength}, or choose another group"))
        return name

    def _plain_scopes(self, link: Link) -> tuple[str, ...]:
        """The scopes that a client is in; `TidingsError` if it sees one of them in its own way."""
        for scope, passage in self.context.scoping.newest.memberships(link.principal).items():
            if not passage.exact:
                raise TidingsError(
                    f"client '{link.name}' sees {_scope(scope)} through an interface or a mapping of its own, so it "
                    "cannot share what a group gets there; join with a client that is a plain member"
                )
            if not _is_plain(passage):
                raise TidingsError(
                    f"client '{link.name}' publishes in {_scope(scope)} through an interface, a mapping or a policy of "
                    "its own, so it sees there what others do not, and cannot share it; join with a client that is a "
                    "plain member"
                )
        return self.sees(link.principal)

    # --- the point ------------------------------------------------------------------------------------

    def _present(self, source: str, said: Present) -> None:
        key = said.key
        if said.members and self.other is not None and key in self.other.groups and self.other.has(key):
            self.say(source, Refuse(key, said.members, f"{self.other.strength}, or choose another group"))
        elif self.points.is_deciding(key) and (group := self.groups.get(key)) is not None:
            group.present(source, said)
            self._look(key, group)
        else:
            self.points.wanted(key)

    def _look(self, key: str, group: _G) -> None:
        """A group without members ends; one that has some again goes on."""
        if group.members:
            self._keep(key)
            return
        self.points.forget(key)
        group.cease()
        self._expire_later(key)

    def _keep(self, key: str) -> None:
        if (timer := self._expiring.pop(key, None)) is not None:
            timer.cancel()
            self._share.discard(key)

    def _expire_later(self, key: str) -> None:
        self._keep(key)
        self._expiring[key] = self.context.call_later(KEPT, lambda: self._expired(key))
        self._share.add(key)
        if (oldest := self._share.excess(lambda one: one == key)) is not None:
            self._keep(oldest)
            self._expired(oldest)

    def _expired(self, key: str) -> None:
        self._expiring.pop(key, None)
        self._share.discard(key)
        if key not in self.points and (group := self.groups.pop(key, None)) is not None:
            group.cease()
            self.points.drop(key)

    def _succeeded(self, source: str, begun: Begun) -> None:
        """Another broker decides: it has what this one knew."""
        group = self.groups.get(begun.key)
        if source == self.context.name or group is None or self.points.is_deciding(begun.key):
            return
        if group.term is not None and begun.term > group.term and not self.points.is_here(begun.key):
            group.cease()
            del self.groups[begun.key]
            self.points.drop(begun.key)
            self._keep(begun.key)

    def point(self, key: str) -> str:
        """The smallest name of all brokers that the tree connects."""
        return point_of(self.context.tree.parents)

    @abc.abstractmethod
    def say(self, broker: str, said: Present | Refuse) -> None:
        """Tell a broker something; this one hears it at once."""

    @abc.abstractmethod
    def tell(self, key: str) -> bytes | None:
        """What this broker knows about a group."""

    @abc.abstractmethod
    def begin(self, key: str, told: Mapping[str, bytes]) -> None:
        """This broker decides for a group from now on."""

    def _has_begun(self, key: str, group: _G) -> None:
        """A group without members ends; another one is watched."""
        if not group.members:
            self.points.forget(key)
            group.cease()
            self._expire_later(key)
        elif not self._watching:
            self._watching = True
            self.context.call_later(OVERDUE, self._watch)

    def _watch(self) -> None:
        """What is open for too long may have been lost without a new tree: ask everybody."""
        for key, group in self.groups.items():
            if self.points.is_deciding(key) and group.overdue():
                self.points.again(key)
        self._watching = any(group.open for group in self.groups.values())
        if self._watching:
            self.context.call_later(OVERDUE, self._watch)

    def suspend(self, key: str) -> None:
        """Wait until everybody has been heard."""
        if (group := self.groups.get(key)) is not None:
            group.suspend()

    def cease(self, key: str) -> None:
        """Another broker decides."""
        if (group := self.groups.get(key)) is not None:
            group.cease()
            self._expire_later(key)

    # --- what the two halves use ----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The incarnation of the broker."""
        return self.context.epoch

    @property
    def broker(self) -> str:
        """Its name."""
        return self.context.name

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        return self.context.now()

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        return self.context.call_later(delay, action)

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open the client that subscribes for a group."""
        return self.context.open_client(f"{principal}{_SUFFIX}{key}", receive, principal)

    def sees(self, principal: str) -> tuple[str, ...]:
        """The scopes that a client is a member of, by the newest version."""
        return tuple(sorted(self.context.scoping.newest.memberships(principal)))

    def always_sees(self, principal: str, scopes: tuple[str, ...]) -> bool:
        """Whether a client is a member of these scopes by every version that something may be judged by."""
        scoping = self.context.scoping
        views = (scoping.view(version) for version in scoping.versions)
        return all(view is None or tuple(sorted(view.memberships(principal))) == scopes for view in views)

    def sees_since(self, principal: str, scopes: tuple[str, ...]) -> int | None:
        """The oldest version by which, and by all later ones, a client is a member of these scopes; None: it is not."""
        scoping, since = self.context.scoping, None
        for version in reversed(scoping.versions):
            view = scoping.view(version)
            if view is not None and tuple(sorted(view.memberships(principal))) != scopes:
                break
            since = version
        return since

    def judges(self, envelope: Envelope) -> bool:
        """Whether the version under which a notification was published is known here."""
        return self.context.scoping.view(envelope.identity.graph_epoch) is not None

    def saw(self, envelope: Envelope, client: str) -> tuple[str, ...]:
        """The scopes that a client was a plain member of when a notification was published."""
        if self.context.scoping.flat:
            return _FLAT
        view = self.context.scoping.view(envelope.identity.graph_epoch)
        found = view.memberships(client) if view is not None else {}
        return tuple(sorted(found)) if all(map(_is_plain, found.values())) else ()

    def reaches(self, broker: str) -> bool:
        """Whether the tree leads to a broker."""
        return broker in self.context.tree.parents

    def origins(self) -> Mapping[str, Position]:
        """How far each origin is at least; what follows that is still to come."""
        return self.context.origins()

    def tell_client(self, link: Link, message: AnyMessage) -> None:
        """Send a message to a client."""
        self.context.tell(link, message)

    def refuse(self, link: Link, id: str, error: TidingsError) -> None:
        """Tell a client that it is no member."""
        self.context.refused()
        self.context.tell(link, Refused(type(error).__name__, str(error), id))

    def is_away(self, link: Link) -> bool:
        """Whether the connection of a client is lost."""
        return self.context.is_away(link)


def _is_plain(passage: Passage) -> bool:
    """Whether a member sees what is in a scope as others do, and others see what it publishes there as it does."""
    return passage.exact and passage.outward_filters == () and not passage.chooses


def _scope(name: str) -> str:
    return "the root scope" if name == ROOT_SCOPE else f"scope '{name}'"


def checked(text: str, link: Link) -> Filter:
    """The filter of a group, if a client may see what passes it."""
    filter = Filter.parse(text, most=CLIENT_COST)
    check_filter(filter)
    if is_located(filter):
        raise TidingsError(
            f"'{text[:80]}' uses myloc, which means something else for each member; name the place, as in "
            "WITHIN LOCATION '/berlin'"
        )
    if link.guard is not None:
        link.guard.check_subscribe(filter)
    return filter
