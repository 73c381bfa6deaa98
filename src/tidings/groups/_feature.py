"""Groups: several subscribers share one stream, and each notification goes to one of them.

Theory of operation
-------------------
`_members` is what every broker does for the members that are attached to it, `_point` what one broker of the tree does
for the group. This module joins the two, and both to the broker: it hears clients and other brokers, works out where
the point of a group is, and gathers there before anything is decided (`tidings.broker.Points`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tidings.broker import (
    POINT_WAVE,
    Advice,
    Feature,
    InnerClient,
    Joinpoint,
    Link,
    Points,
    Timer,
    WaveKind,
    check_filter,
    is_located,
    point_of,
)
from tidings.model import ROOT_SCOPE, Filter, Position, TidingsError
from tidings.wire import (
    CLIENT_COST,
    GROUPS,
    AnyMessage,
    Envelope,
    Frame,
    Leave,
    Refused,
    WireError,
    pack,
    read_membership,
)

from ._limits import KEPT, OVERDUE
from ._members import Members
from ._messages import (
    Assign,
    Begun,
    Confirm,
    Known,
    Lost,
    Present,
    Refuse,
    Said,
    Saying,
    Terms,
    read_known,
    read_saying,
)
from ._names import named
from ._point import Group

_SUFFIX = "/~group/"
"""Between the name of a member and the key of its group: the client inside the broker that stands for it."""
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError, TidingsError)


class Groups(Feature):
    """The groups of one broker: their members that are attached to it, and those that it is the point of."""

    name = GROUPS

    def __init__(self) -> None:
        self.points = Points(lambda: self.context, self)
        self.members = Members(self)
        self.groups: dict[str, Group] = {}
        """Those that this broker decides for, or has decided for, by key."""
        self._expiring: dict[str, Timer] = {}
        self._watching = False

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
        }

    def neighbour_ready(self, link: Link) -> None:
        """What could not be said to a point before may be said now."""
        self.members.reached(lambda key: self.context.hop_towards(self.point(key)) is link)

    def _detached(self, proceed: Callable[[Link], None], link: Link) -> None:
        self.members.gone(link)
        proceed(link)

    def _moved(self, proceed: Callable[[Link], None], link: Link) -> None:
        proceed(link)
        self.members.moved(link)

    def _new_tree(self, proceed: Callable[..., None], old: object, new: object) -> None:
        proceed(old, new)
        self.points.moved()
        self.members.new_tree()

    def on_message(self, link: Link, body: bytes) -> None:
        """A client joins or leaves."""
        try:
            said = read_membership(body)
        except WireError:
            self.context.refused()
            return
        if not link.is_client:
            self.context.refused()
        elif isinstance(said, Leave):
            self.members.leave(link, said.id)
        else:
            try:
                filter = _checked(said.filter, link)
                sees = self.sees(link.principal)
                self._check_edges(link)
                owner = link.guard.name if link.guard is not None else ""
                name = named(said.group, owner, sees, link.name)
                self.members.join(link, said.id, said.number, name, Terms(str(filter), sees))
            except TidingsError as error:
                self.refuse(link, said.id, error)

    def _check_edges(self, link: Link) -> None:
        """What a group gets is what one of its members would see: that must be what every one of them sees."""
        for scope, passage in self.context.scoping.memberships(link.principal).items():
            if not passage.exact:
                raise TidingsError(
                    f"client '{link.name}' sees scope '{scope}' through an interface or a mapping of its own, so it "
                    "cannot share what a group gets there; join with a client that is a plain member"
                )

    def on_routed(self, source: str, body: bytes) -> None:
        """Another broker says something."""
        try:
            said = read_saying(body).said
        except _UNREADABLE:
            self.context.refused()
            return
        self._heard(source, said)

    def _heard(self, source: str, said: Said) -> None:
        match said:
            case Present():
                self._present(source, said)
            case Begun():
                self.members.begun(said)
                self._succeeded(source, said)
            case Assign():
                self.members.assigned(said)
            case Confirm():
                if (group := self.groups.get(said.key)) is not None:
                    group.confirmed(source, said)
            case Lost():
                self.members.lost(said)
            case Refuse():
                self.members.refused(said)

    # --- the point ------------------------------------------------------------------------------------

    def _present(self, source: str, said: Present) -> None:
        key = said.key
        if self.points.is_deciding(key) and (group := self.groups.get(key)) is not None:
            group.present(source, said)
            self._look(key, group)
        else:
            self.points.wanted(key)

    def _look(self, key: str, group: Group) -> None:
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

    def _expire_later(self, key: str) -> None:
        self._keep(key)
        self._expiring[key] = self.context.call_later(KEPT, lambda: self._expired(key))

    def _expired(self, key: str) -> None:
        self._expiring.pop(key, None)
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

    def tell(self, key: str) -> bytes | None:
        """What this broker knows about a group."""
        present, group = self.members.present(key), self.groups.get(key)
        if present is None and group is None:
            return pack(Known(self.context.epoch))
        return pack(
            Known(
                self.context.epoch,
                present,
                self.members.heard(key),
                self.members.taken(key),
                group.decided(self.points.askers(key)) if group is not None else None,
            )
        )

    def begin(self, key: str, told: Mapping[str, bytes]) -> None:
        """This broker decides for a group from now on."""
        known = {broker: read_known(body) for broker, body in told.items()}
        if (group := self.groups.get(key)) is None:
            group = self.groups[key] = self._made(key)
        self._keep(key)
        group.begin(known)
        if not group.members:
            self.points.forget(key)
            group.cease()
            self._expire_later(key)
        elif not self._watching:
            self._watching = True
            self.context.call_later(OVERDUE, self._watch)

    def _made(self, key: str) -> Group:
        return Group(self, key)

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

    def say(self, broker: str, said: Said) -> None:
        """Tell a broker something; this one hears it at once."""
        if broker == self.context.name:
            self._heard(broker, said)
        else:
            self.context.send_to(broker, pack(Saying(said)))

    def say_to_point(self, key: str, said: Said) -> None:
        """Tell the point of a group something."""
        self.say(self.point(key), said)

    def hand(self, key: str, client: str, id: str, envelope: Envelope) -> bool:
        """Give a notification to a member that is attached here."""
        return self.members.hand(key, client, id, envelope)

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open the client that subscribes for a group."""
        return self.context.open_client(f"{principal}{_SUFFIX}{key}", receive, principal)

    def sees(self, principal: str) -> tuple[str, ...]:
        """The scopes that a client is a member of."""
        return tuple(sorted(scope for scope in self.context.scoping.memberships(principal) if scope != ROOT_SCOPE))

    def origins(self) -> Mapping[str, Position]:
        """How far this broker has seen each origin."""
        return self.context.marks_of(())

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


def _checked(text: str, link: Link) -> Filter:
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
