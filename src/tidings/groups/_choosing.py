"""Choosing: scopes whose policies compare their members, such as `one-of-n`.

Theory of operation
-------------------
Such a scope is decided for as a group is: every broker tells the deciding point which clients of its own are members
and what they subscribe to, what is published goes to the point, and the point says who gets it (`_panel`). So this is
the feature of groups once more, with other members and another rule for where the point is.

    who is a member   a client that is attached, is a member of the scope in a version that is not retired, and
                      subscribes; it does not join, and is told nothing
    where it is       the broker that the policy names, else the smallest name among those with members
    when it settles   a subscription has settled when its point knows it, too
    a loss            is told to the subscriptions of the members as a `Gap` without an end: marks do not speak of what
                      goes by the point, so they must not hide it. It begins behind what each subscription has certainly
                      got by other ways, or before, so that it hides no loss of those
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from tidings.broker import (
    SEAT,
    Advice,
    Choice,
    InnerClient,
    Joinpoint,
    Link,
    Passage,
    Registration,
    Term,
    View,
    point_of,
)
from tidings.model import NOWHERE, TidingsError
from tidings.wire import CHOOSING, AnyMessage, Deliver, Envelope, Frame, Gap, Settled

from ._feature import Groups
from ._members import Members, _Local
from ._messages import Begun, Present, Terms
from ._names import GroupName
from ._panel import Panel
from ._point import Group

_EVERYTHING = "TRUE"
LOOK_AGAIN = 1_000_000
"""Microseconds after which it is looked whether a version is retired, while something waits for a policy of it."""


class _Seated(Members):
    """The members of scopes at one broker."""

    def __init__(self, host: Choosing) -> None:
        super().__init__(host)
        self._choosing = host
        self._said: dict[tuple[Link, str], tuple[str, ...]] = {}
        """What each client wants in each scope, as its point was told."""

    def of(self, link: Link) -> list[str]:
        """The scopes that a client is a candidate in."""
        return list(self._of.get(link, ()))

    def seat(self, link: Link, scope: str, filters: tuple[str, ...]) -> None:
        """A client is a candidate, and wants this."""
        name = GroupName("", scope, "")
        if scope not in self._of.get(link, ()) or self._said.get((link, scope)) != filters:
            self._said[link, scope] = filters
            self.join(link, scope, 0, name, Terms(_EVERYTHING, (scope,)))
        elif self._is_known(group := self._groups[name.key]):  # another subscription wants the same
            self._choosing.known(name.key, [one.link for one in group.members.values()])

    def leave(self, link: Link, id: str) -> None:
        """A client is no candidate any more."""
        self._said.pop((link, id), None)
        super().leave(link, id)

    def hand(self, key: str, client: str, id: str, envelope: Envelope) -> bool:
        """Give a notification to a member."""
        group = self._groups.get(key)
        joined = group.members.get((client, id)) if group is not None else None
        return joined is not None and self._choosing.deliver(joined.link, envelope)

    def present(self, key: str) -> Present | None:
        """Who is there, and what each of them wants."""
        present = super().present(key)
        if present is None:
            return None
        members = tuple(
            msgspec.structs.replace(
                one, filters=self._choosing.filters(one.client), was_told=self._choosing.was_told(one.client)
            )
            for one in present.members
        )
        return msgspec.structs.replace(present, members=members)

    def _say(self, key: str, group: _Local) -> None:
        """Say who is there; if nobody decides about the scope any more, there is nothing to say."""
        if self._choosing.point(key):
            super()._say(key, group)
            return
        links = [one.link for one in group.members.values()]
        for joined in group.members.values():
            self._said.pop((joined.link, joined.id), None)
            self._of.get(joined.link, {}).pop(joined.id, None)
            if not self._of.get(joined.link, True):
                del self._of[joined.link]
        self._drop(key, group)
        self._choosing.undecided(key, links)

    def begun(self, begun: Begun) -> None:
        """The point decides, and knows some members."""
        super().begun(begun)
        group = self._groups.get(begun.key)
        if group is not None and self._is_known(group):
            self._choosing.known(begun.key, [one.link for one in group.members.values()])

    @staticmethod
    def _is_known(group: _Local) -> bool:
        """Whether the point decides, and knows who is here and what each of them wants."""
        return group.settled and group.answered >= group.version


class Choosing(Groups):
    """The scopes of one broker whose members are chosen: with members here, or decided for by this broker."""

    name = CHOOSING
    members: _Seated

    def __init__(self) -> None:
        super().__init__()
        self.members = _Seated(self)
        self._waits: dict[Registration, set[str]] = {}
        """The subscriptions that are awaited, each with the scopes whose points must know it."""
        self._points: dict[str, str] = {}
        self._looking = False
        self.presides: Callable[[str, Term, Collection[Term]], object] = lambda *begun: None
        """Told when this broker begins to decide for a scope: under which term, and with the states of which others."""
        self.ruled: Callable[..., object] = lambda *ruling, waited: None
        """Told whenever a policy was asked: by which scope and term, about what, whom it could choose, what it said."""

    # --- the broker -----------------------------------------------------------------------------------

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Members come and go with subscriptions, with clients and with versions."""
        return {
            **super().advice(),
            Joinpoint.SUBSCRIBE: self._subscribes,
            Joinpoint.SUB_DEL: self._ended,
            Joinpoint.ADOPT: self._adopted,
        }

    def on_message(self, link: Link, body: bytes) -> None:
        """Clients say nothing about this."""
        self.context.refused()

    def _subscribes(self, proceed: Callable[..., None], registration: Registration) -> None:
        proceed(registration)
        if scopes := self._scopes_of(registration.link):
            registration.awaited = True
            self._waits[registration] = set(scopes)
            self.context.call_later(0, lambda: self._look_at(registration.link))

    def _ended(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
        result = proceed(scope, entry)
        registration = entry.registration
        if registration is not None and (registration in self._waits or self.members.of(registration.link)):
            self.context.call_later(0, lambda: self._look_at(registration.link))
        return result

    def _adopted(self, proceed: Callable[..., None], old: Link, new: Link, only: object) -> None:
        proceed(old, new, only)
        for link in (old, new):
            self.context.call_later(0, lambda link=link: self._look_at(link))  # type: ignore[misc]

    def _detached(self, proceed: Callable[[Link], None], link: Link) -> None:
        super()._detached(proceed, link)
        for registration in [one for one in self._waits if one.link is link]:
            del self._waits[registration]

    def _new_tree(self, proceed: Callable[..., None], old: object, new: object) -> None:
        super()._new_tree(proceed, old, new)
        self._points = {scope: self.point(scope) for scope in self._comparing()}

    def _regraph(self) -> None:
        """There is another version: others may be members, and points may be elsewhere."""
        self._soon = False
        self._look_again()
        points = {scope: self.point(scope) for scope in self._comparing()}
        if points != self._points:
            self._points = points
            self.points.moved()
            self.members.new_tree()
        for link in list(self.context.clients):
            self._look_at(link)

    def _look_again(self) -> None:
        """What waits for a policy that has been replaced is lost when the version that had it is retired."""
        for group in self.groups.values():
            group.look_again()
        if not self._looking and len(self.context.scoping.versions) > 1 and any(map(_waits, self.groups.values())):
            self._looking = True
            self.context.call_later(LOOK_AGAIN, self._looked)

    def _looked(self) -> None:
        self._looking = False
        self._look_again()

    # --- members --------------------------------------------------------------------------------------

    def _views(self) -> list[View]:
        """The versions that are not retired, the newest first."""
        scoping = self.context.scoping
        views = (scoping.view(version) for version in reversed(scoping.versions))
        return [view for view in views if view is not None]

    def _comparing(self) -> set[str]:
        return {scope for view in self._views() for scope in view.comparing}

    def _scopes_of(self, link: Link) -> list[str]:
        """The scopes for which a client is a candidate."""
        if link.principal != link.name or link.name.startswith(SEAT):
            return []  # a stand-in, or a seat
        return sorted(
            {scope for view in self._views() for scope in view.comparing if scope in view.memberships(link.principal)}
        )

    def _look_at(self, link: Link) -> None:
        """Let a client be a candidate where it is one now, with what it subscribes to now."""
        if self.context.client(link.name) is not link:
            return
        subscribed = self.context.subscribed(link)
        scopes = self._scopes_of(link) if subscribed else []
        for scope in self.members.of(link):
            if scope not in scopes:
                self.members.leave(link, scope)
        if scopes:
            self._await(link, set(scopes).difference(self.members.of(link)))
        filters = self.filters(link.name)
        for scope in scopes:
            try:
                self.members.seat(link, scope, filters)
            except TidingsError:  # there are too many: it is no candidate, and need not wait
                self.context.refused()
                scopes = [one for one in scopes if one != scope]
        for registration in [one for one in self._waits if one.link is link]:
            if not self.context.is_current(registration):
                del self._waits[registration]
                continue
            self._waits[registration] &= set(scopes)
            self._release(registration)

    def _await(self, link: Link, scopes: set[str]) -> None:
        """A client is to be a candidate here, too: what it was not told to have settled waits until the points know."""
        for registration in self.context.subscribed(link) if scopes else ():
            if not registration.told:
                registration.awaited = True
                self._waits.setdefault(registration, set()).update(scopes)

    def _release(self, registration: Registration) -> None:
        if not self._waits[registration]:
            del self._waits[registration]
            self.context.known(registration)

    def known(self, key: str, links: list[Link]) -> None:
        """The point of a scope knows these members."""
        scope, there = GroupName.of_key(key).scope, set(links)
        for registration in [one for one in self._waits if one.link in there]:
            self._waits[registration].discard(scope)
            self._release(registration)

    def undecided(self, key: str, links: list[Link]) -> None:
        """Nobody decides about a scope: if that stays so, these clients need not wait for it."""
        if GroupName.of_key(key).scope not in self._comparing():
            self.known(key, links)

    def filters(self, client: str) -> tuple[str, ...]:
        """What a client of this broker subscribes to."""
        link = self.context.client(client)
        found = () if link is None else self.context.subscribed(link)
        return tuple(sorted({str(one.filter) for one in found}))

    def was_told(self, client: str) -> bool:
        """Whether a client of this broker was told that a subscription has settled."""
        link = self.context.client(client)
        return link is not None and any(one.told for one in self.context.subscribed(link))

    # --- the point ------------------------------------------------------------------------------------

    def point(self, key: str) -> str:
        """Where a scope is decided for, by the newest version that has something to decide there."""
        scope = GroupName.of_key(key).scope if key.startswith("[") else key
        views = (view for view in self._views() if scope in view.comparing)
        return next((view.point(scope) for view in views), point_of(()))

    def _made(self, key: str) -> Panel:
        return Panel(self, key)

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open the client that has the seat of a scope."""
        return self.context.open_client(principal, receive)

    def deliver(self, link: Link, envelope: Envelope) -> bool:
        """Give a notification to a client that is attached here; False: it does not want it any more.

        If its version is not known here, the client is told a `Gap`: given back, it could come again without end.
        """
        if not self.judges(envelope):
            identity = envelope.identity
            self.tell_client(link, Gap(identity.origin, identity.epoch, identity.seq, identity.seq))
            return True
        return self.context.deliver_decided(link, envelope)

    def passages(self, envelope: Envelope, client: str) -> Passage | None:
        """How a client was a member of the scope of a notification, when that was published."""
        view = self.context.scoping.view(envelope.identity.graph_epoch)
        return None if view is None else view.memberships(client).get(envelope.routes[0].scope)

    def decides(self, envelope: Envelope) -> bool:
        """Whether the policy under which a notification was published is there, with its state."""
        scoping, version = self.context.scoping, envelope.identity.graph_epoch
        if scoping.active.version == version:
            return True
        view, path = scoping.view(version), envelope.routes[0].path
        if view is None or version in scoping.versions or not path:
            return view is not None
        policy = view.decides_by(path)
        return policy is None or any(one.decides_by(path) == policy for one in self._views())

    def gives_to_several(self, key: str) -> bool:
        """Whether a policy of a scope may give something to several of its members."""
        scope = GroupName.of_key(key).scope
        return any(view.gives_to_several(scope) for view in self._views())

    def remembered(self, key: str) -> dict[str, bytes]:
        """What the policies of a scope must know at its next deciding point, of all versions that still judge."""
        scope, states = GroupName.of_key(key).scope, dict[str, bytes]()
        for view in self._views():
            states |= view.remembered(scope)
        return states

    def recall(self, key: str, states: list[dict[str, bytes]]) -> None:
        """Let the policies of a scope begin with what deciding points have remembered, the latest first."""
        scope = GroupName.of_key(key).scope
        for view in self._views():
            view.recall(scope, states)

    def began(self, key: str, term: Term, before: list[Term]) -> None:
        """This broker decides for a scope from now on."""
        self.presides(GroupName.of_key(key).scope, term, before)

    def choose(
        self,
        term: Term,
        envelope: Envelope,
        clients: list[str],
        load: Callable[[str], tuple[int, int]],
        *,
        waited: bool,
    ) -> Choice:
        """Ask the policy of the version under which a notification was published."""
        view, path = self.context.scoping.view(envelope.identity.graph_epoch), envelope.routes[0].path
        if view is None or not path:  # there was no such scope then
            return Choice(())
        choice = view.chosen(envelope.notification, clients, envelope.identity, path, load, waited=waited)
        self.ruled(path[-1], term, envelope, clients, choice, waited=waited)
        return choice

    def tell_client(self, link: Link, message: AnyMessage) -> None:
        """Tell a member what concerns it: of losses, and nothing of its being a member."""
        if isinstance(message, Gap):
            ids: dict[int, list[str]] = {}
            for one in self.context.subscribed(link):
                ids.setdefault(self._begins(message, one), []).append(one.id)
            for first, there in ids.items():
                self.context.tell(link, Gap(message.origin, message.epoch, first, None, tuple(there), True))
        else:
            assert isinstance(message, Settled | Deliver)

    def _begins(self, gap: Gap, registration: Registration) -> int:
        """The number with which a gap begins for a subscription: nothing before it may still be missed by another way.

        A client takes what lies before a gap without an end for handed over, and what it is told of the ordinary way
        behind one for no news.
        """
        mark = self.context.marks_of((registration,)).get(gap.origin, NOWHERE)
        return gap.first if mark.epoch > gap.epoch else 1 if mark.epoch < gap.epoch else min(gap.first, mark.seq + 1)


def _waits(group: Group) -> bool:
    return isinstance(group, Panel) and group.holds
