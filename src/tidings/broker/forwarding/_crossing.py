"""Crossing: how a notification moves through the scopes. Integrated routing, in one broker.

Theory of operation
-------------------
Every copy of a notification is in one scope, in one of three states: *internal* (published by a member), *upward* (came
from a subscope), *downward* (came from a superscope). Once downward, never back. It is routed in the table of its scope
like a notification in a system without scopes; besides, it may cross, here, by the version of the graph that judges it:

    upward      where it was published, and nowhere else: a scope's overlay contains those of its subscopes, so the
                publisher's broker carries every scope above the publisher's
    downward    at the first broker on its way that carries the subscope: the neighbour it came from does not, or it
                came from no neighbour

unless a gateway is designated: then it goes there, whatever the detour, and crosses there in both directions.

Without gateways every copy follows the one path of the tree from its publisher's broker to its reader's, whatever it
crosses on the way, and order and progress hold for all scopes together. A copy remembers its path through the graph and
never enters a scope twice. Each crossing applies interfaces and mapping of its passage, once.

Mappings make another form of an event, known by its version: a digest of its content, 0 for what was published. So
forms that are equal are one, wherever they were made.

Copies with the same body that take the same link share one frame (combined delivery).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tidings.broker._causes import climbs, told_of
from tidings.broker._links import Link, LinkKind
from tidings.broker.interest import DECIDED, SEAT, Border, Entry, Gate, Passage, Registration, View
from tidings.model import ROOT_ROUTE, ROOT_SCOPE, Duplicates, Notification, Route, RouteState
from tidings.wire import Envelope, WireError, canonical_body, encode_body

from ._host import Host

ONE_OF_SEVERAL = "form"
"""The tag of what a client gets if other forms of the same event may follow."""
FROM_PAST = "past"
"""The tag of what a client gets from the past."""
DETOUR = "detour"
"""The tag of what a client gets if it may have been overtaken."""
_ORIGINAL = "of:"
"""Between brokers, what the tag of a mapped copy begins with; the digest of what was published follows."""
_DUE = "due:"
"""Between brokers, what the tag of a delayed copy begins with; the time before which nobody gets it follows."""

_Frames: TypeAlias = dict[tuple[Link, bytes], tuple[Envelope, list[Route]]]
Told: TypeAlias = tuple[int, tuple[str, ...]]
"""What a client is told of a copy: its version, and its path if paths count."""
_DETOURED = (ONE_OF_SEVERAL, DETOUR)
_ROOT_ONLY = (ROOT_ROUTE,)
_ONLY_ROOT = (ROOT_SCOPE,)
_HERE = Link("here", LinkKind.SCOPE)  # where a copy comes from that has crossed in this broker


class _Form(NamedTuple):
    """One form of a notification, for one way of handing it over."""

    told: Told
    version: int
    ordered: bool = False
    """Whether its scope is."""
    due: int = 0
    """The time before which nobody gets it; 0: at once."""
    path: tuple[str, ...] = ()
    """The scopes it came through, if it is not due at once."""
    whole: Route | None = None
    """The route that a deciding point is told; None: whoever gets it is told nothing of the graph."""


class Copy(NamedTuple):
    """One copy on its way: in one scope, with one body."""

    route: Route
    envelope: Envelope
    inbound: Link
    """The link it came in on."""


class Crossing:
    """What one broker does with notifications where there are scopes."""

    def __init__(self, broker: Host) -> None:
        self._broker = broker
        self._copies: list[Copy] = []

    def entering(self, view: View, passages: tuple[Passage, ...], envelope: Envelope, source: Link) -> list[Copy]:
        """The copies of a publication, one for each scope of its publisher that lets it in.

        A reaction enters no session scope that its cause was not in (see `_causes`).
        """
        copies = []
        tags = envelope.routes[0].tags
        for passage in passages:
            if tags and not climbs((), passage.scope, tags, view):
                continue
            shown = passage.outward(envelope.notification)
            if shown is None:
                continue
            due: int | None = 0
            if passage.chooses:
                due = passage.sends(envelope.notification, envelope.identity, ())
            if due is None:
                continue
            marked = _timed(tags, due) if due else tags
            route = passage.route if not marked else _in_form(passage.route, 0, marked)
            mapped, version, marked = _mapped(envelope, shown, route)
            copies.append(Copy(route if not version else _in_form(route, version, marked), mapped, source))
        return copies

    def spread(self, view: View, copies: list[Copy], published: Envelope, source: Link) -> bool:
        """Route these copies, and whatever they become, of what came in on a link; does anybody get one?"""
        frames: _Frames = {}
        handed = _Handed(self._broker, published, _tags(view))
        if source.is_client:
            handed.own(view, source)
        outer, self._copies = self._copies, copies[::-1]
        while self._copies:
            copy = self._copies.pop()
            route, envelope, inbound = copy
            table = self._broker.scoping.tables.get(route.scope)
            at_point = (route.scope, route.state is RouteState.DOWNWARD) in view.at_points
            for link, entries in self._broker.at_pub_match(route, envelope, inbound).items():
                if table is not None and link.kind is not LinkKind.SCOPE:
                    table.copies += 1
                if link.is_broker:
                    _aim(frames, link, copy)
                elif isinstance(link, Gate):
                    self._down(view, copy, link)
                elif link.principal != envelope.identity.publisher:
                    if not at_point or link.name.startswith(SEAT):
                        handed.note(view, copy, link, entries)
                elif link is not source or inbound is not source:  # somebody who stands for the publisher, too
                    handed.moved(view, copy, link)
            if route.state is not RouteState.DOWNWARD:
                self._up(view, copy, frames)
        self._copies = outer
        self._send(frames, source)
        handed.send()
        return bool(frames) or handed.reached

    def _up(self, view: View, copy: Copy, frames: _Frames) -> None:
        route, envelope, inbound = copy
        for scope, passage in view.supers(route.scope).items():
            if scope in route.path or (route.tags and not climbs(route.path, scope, route.tags, view)):
                continue
            gateway = view.gateway(route.scope, scope)
            if gateway is None and inbound.is_broker:
                continue  # it crossed where it was published
            shown = passage.outward(envelope.notification)
            if shown is None:
                continue
            if gateway is None or gateway == self._broker.name:
                due: int | None = 0
                if passage.chooses:
                    due = passage.sends(envelope.notification, envelope.identity, route.path)
                if due is not None:
                    self._cross(copy, scope, RouteState.UPWARD, shown, due, border=view.borders.get(route.scope))
            else:
                self._towards(gateway, copy, frames)

    def _towards(self, gateway: str, copy: Copy, frames: _Frames) -> None:
        """Send a copy on in its scope, to where it can cross."""
        link = self._broker.adjacency.hop_towards(gateway)
        if link is not None and link is not copy.inbound:
            _aim(frames, link, copy)

    def _down(self, view: View, copy: Copy, gate: Gate) -> None:
        scope, sub = copy.route.scope, gate.passage.member
        passage = view.subs(scope).get(sub)
        if passage is None or sub in copy.route.path or scope not in view.gates(sub):
            return
        if copy.inbound.is_broker and view.admits(sub, scope, copy.inbound.name):
            return
        shown = passage.inward(copy.envelope.notification)
        if shown is None or (due := _taken(passage, copy)) is None:
            return
        border = view.borders.get(sub)
        if border is None or not border.check or self._broker.borders.admits(copy.route, copy.envelope, sub, border):
            self._cross(copy, sub, RouteState.DOWNWARD, shown, due)

    def _cross(
        self,
        copy: Copy,
        scope: str,
        state: RouteState,
        shown: Notification,
        due: int,
        *,
        border: Border | None = None,
    ) -> None:
        """`border`: how the scope that it leaves guards its border."""
        old = copy.route
        envelope, version, tags = _mapped(copy.envelope, shown, old)
        if due or old.tags:
            tags = _timed(tags, max(due, _due(old)))
        # What is published in an open root scope has no path yet, and has been there all the same.
        route = Route(scope, state, old.scope, (*(old.path or (old.scope,)), scope), version, tags)
        if border is not None and border.sign:
            sealed = self._broker.borders.sealed(route, envelope, border)
            if sealed is None:
                return
            route = _in_form(route, version, sealed)
        self._broker.at_cross(route, envelope, scope)

    def cross(self, route: Route, envelope: Envelope, scope: str) -> None:
        """A copy crosses into another scope; it is routed there in this same turn."""
        self._broker.statistics.crossings += 1
        self._copies.append(Copy(route, envelope, _HERE))

    def _send(self, frames: _Frames, source: Link) -> None:
        """One frame for each link and body; those who get the same get the same."""
        groups: dict[tuple[bytes, tuple[Route, ...]], tuple[Envelope, dict[Link, list[Entry]]]] = {}
        for (link, body), (envelope, routes) in frames.items():
            groups.setdefault((body, tuple(routes)), (envelope, {}))[1][link] = []
        for (_, combined), (envelope, targets) in groups.items():
            self._broker.at_pub_send(combined[0], _with_routes(envelope, combined), source, targets)


class _Handed:
    """What the clients of this broker get of one notification, each form of it once."""

    def __init__(self, broker: Host, published: Envelope, tags: tuple[str, ...]) -> None:
        self._broker = broker
        self._published = published
        self._tags = tags
        self._forms: dict[_Form, Envelope] = {}
        self._got: dict[Link, dict[_Form, dict[Registration, None]]] = {}
        self._causes: dict[tuple[Link, _Form], dict[str, None]] = {}
        """What a client is told of sessions, where there are some."""

    @property
    def reached(self) -> bool:
        """Whether a client of this broker gets it."""
        return bool(self._got)

    def own(self, view: View, publisher: Link) -> None:
        """The publisher itself gets what it published, as it published it, if a passage lets it out and in again."""
        subscriptions = self._broker.registrations.subscriptions(publisher).values()
        if not subscriptions:
            return
        tags, passages = self._published.routes[0].tags, view.memberships(publisher.principal).values()
        back = [one.scope for one in passages if climbs((), one.scope, tags, view) and self._returns(one)]
        for subscription in subscriptions if back else ():
            if subscription.receive_own and subscription.filter.matches(self._published.notification):
                self._add(publisher, form := _Form((0, ()), 0), self._published, subscription)
                for scope in back if tags or view.sessions else ():
                    self._caused(publisher, form, told_of((scope,), tags, view))

    def _returns(self, passage: Passage) -> bool:
        outside = passage.outward(self._published.notification)
        return outside is not None and passage.inward(outside) is not None

    def moved(self, view: View, copy: Copy, publisher: Link) -> None:
        """A publisher that has come here since gets what it published, if it comes as it was published."""
        if len(copy.route.path) <= 1 and not copy.route.version:
            self.own(view, publisher)

    def note(self, view: View, copy: Copy, link: Link, entries: list[Entry]) -> None:
        """A copy has reached a client: what it sees of it is judged by the version of the notification."""
        for entry in entries:
            registration, passage = entry.registration, entry.passage
            if registration is None or passage is None:
                continue
            if passage.chooses or passage.since > view.version or not self._broker.scoping.steady:
                then = view.memberships(link.principal).get(copy.route.scope)
                if then is None:
                    continue  # it is a member now, or was one, but not when this was published
                passage = then
                if passage.chooses and passage.compares(incoming=copy.route.state is RouteState.DOWNWARD):
                    continue  # whatever it wants
            elif passage.exact:
                told = _told_of(copy.route.version, copy.route.path, registration, passage)
                form = _at(_Form(told, copy.route.version, passage.ordered), copy.route, 0)
                self._add(link, form, copy.envelope, registration)
                if copy.route.tags or view.sessions:
                    self._caused(link, form, told_of(copy.route.path, copy.route.tags, view))
                continue
            shown = passage.inward(copy.envelope.notification)
            if shown is not None and registration.filter.matches(shown):
                due = _taken(passage, copy)
                if due is None:
                    continue
                envelope, version, _ = _mapped(copy.envelope, shown, copy.route)
                told = _told_of(version, copy.route.path, registration, passage)
                form = _at(_Form(told, version, passage.ordered), copy.route, due)
                if passage.decides:
                    form = form._replace(whole=copy.route)
                self._add(link, form, envelope, registration)
                if copy.route.tags or view.sessions:
                    self._caused(link, form, told_of(copy.route.path, copy.route.tags, view))

    def _add(self, link: Link, form: _Form, envelope: Envelope, registration: Registration) -> None:
        self._forms.setdefault(form, envelope)
        self._got.setdefault(link, {}).setdefault(form, {})[registration] = None

    def _caused(self, link: Link, form: _Form, tags: dict[str, None]) -> None:
        if tags:
            self._causes.setdefault((link, form), {}).update(tags)

    def _earliest(self, forms: dict[_Form, dict[Registration, None]]) -> Iterator[tuple[_Form, Iterable[Registration]]]:
        """What a client gets: of a form that comes at once, nothing waits that comes by another way."""
        if not any(form.due for form in forms):
            yield from forms.items()
            return
        now = self._broker.runtime.now()
        at_once = {(form.told, one) for form, some in forms.items() if form.due <= now for one in some}
        for form, some in forms.items():
            wanting = [one for one in some if form.due <= now or (form.told, one) not in at_once]
            if wanting:
                yield form, wanting

    def send(self) -> None:
        """Hand it over. Clients are told nothing of the graph, only which form and which path this is."""
        shown: dict[tuple[_Form, bool, tuple[str, ...]], Envelope] = {}
        publisher = self._published.identity.publisher
        for link, forms in self._got.items():
            for form, registrations in self._earliest(forms):
                waits = form.ordered and self._broker.ordering.applies(link, publisher)
                causes = tuple(self._causes.get((link, form), ()))
                envelope = shown.get((form, waits, causes))
                if envelope is None:
                    tags = _DETOURED if waits else self._tags  # others will have come before it
                    route = _anonymous(form.told, (*tags, *causes)) if form.whole is None else whole(form.whole, tags)
                    envelope = _with_routes(self._forms[form], (route,))
                    shown[form, waits, causes] = envelope
                if form.due and self._broker.delaying.keeps(link, envelope, registrations, form.due, form.path):
                    continue
                self._broker.delivery.following.reached(link, sent=False)
                if waits:
                    self._broker.ordering.hold(link, envelope, tuple(registrations))
                else:
                    self._broker.at_deliver(envelope.routes[0], envelope, link, list(registrations))


def whole(route: Route, tags: tuple[str, ...]) -> Route:
    """What a deciding point is told of a copy: where it is, how it came there, and what to expect of others."""
    return _in_form(route, route.version, (*(tag for tag in route.tags if tag not in tags), *tags))


def shown_to(view: View, envelope: Envelope, passage: Passage, registration: Registration) -> Envelope | None:
    """What a member gets of a copy that a deciding point has given to it; None: it does not want that."""
    route = envelope.routes[0]
    shown = passage.inward(envelope.notification)
    if shown is None or not registration.filter.matches(shown):
        return None
    mapped, version, _ = _mapped(envelope, shown, route)
    causes = told_of(route.path, route.tags, view) if route.tags or view.sessions else {}
    told = _told_of(version, route.path, registration, passage)
    return _with_routes(mapped, (_anonymous(told, (*_DETOURED, DECIDED, *causes)),))


def version_in(envelope: Envelope, passage: Passage) -> int:
    """The version of the form in which a member sees a copy that a deciding point has given to it."""
    shown = passage.inward(envelope.notification)
    return 0 if shown is None else _mapped(envelope, shown, envelope.routes[0])[1]


def _aim(frames: _Frames, link: Link, copy: Copy) -> None:
    """Let a link get a copy, once, with whatever else has the same body."""
    routes = frames.setdefault((link, copy.envelope.body), (copy.envelope, []))[1]
    if copy.route not in routes:
        routes.append(copy.route)


def from_past(form: Envelope) -> Envelope:
    """What a client gets of a notification from the past."""
    route = form.routes[0]
    return _with_routes(form, (Route(version=route.version, path=route.path, tags=(*route.tags, FROM_PAST)),))


def told(view: View) -> tuple[Route, ...]:
    """The route of what a client gets as it was published."""
    tags = _tags(view)
    return (_anonymous((0, ()), tags),) if tags else _ROOT_ONLY


def _tags(view: View) -> tuple[str, ...]:
    if view.gateways or view.delays:
        return _DETOURED
    return (ONE_OF_SEVERAL,) if view.several else ()


def _taken(passage: Passage, copy: Copy) -> int | None:
    """When a policy of its scope lets a member have a copy."""
    if not passage.chooses:
        return 0
    incoming = copy.route.state is RouteState.DOWNWARD
    return passage.takes(copy.envelope.notification, copy.envelope.identity, copy.route.path, incoming=incoming)


def _at(form: _Form, route: Route, due: int) -> _Form:
    """A form with the time before which nobody gets it."""
    due = max(due, _due(route)) if route.tags else due
    return form._replace(due=due, path=route.path) if due else form


def _due(route: Route) -> int:
    """The time before which nobody gets a copy."""
    for tag in route.tags:
        if tag.startswith(_DUE):
            try:
                return int(tag[len(_DUE) :], 16)
            except ValueError:
                raise WireError(f"{tag!r:.60} is no time; a neighbour writes '{_DUE}' and a number") from None
    return 0


def _timed(tags: tuple[str, ...], due: int) -> tuple[str, ...]:
    kept = tuple(tag for tag in tags if not tag.startswith(_DUE))
    return (*kept, f"{_DUE}{due:x}") if due else kept


def _told_of(version: int, path: tuple[str, ...], registration: Registration, passage: Passage) -> Told:
    """What a subscription is told of a copy: by this it recognises a second one.

    A subscription that has a rule of its own applies it itself. For one that leaves it to the scope, what it is told is
    the same for what its scope takes for the same. What was only in the root scope has no path, whoever says so.
    """
    path = () if path == _ONLY_ROOT else path
    if registration.duplicates:
        return version, path if registration.duplicates is Duplicates.PER_PATH else ()
    if passage.duplicates is Duplicates.PER_PATH:
        return _hashed(repr((version, path)).encode()), ()
    return 0 if passage.duplicates is Duplicates.EVENT else version, ()


def _anonymous(told: Told, tags: tuple[str, ...]) -> Route:
    """What a client is told: which form this is, which path if paths count, and what to expect of others."""
    version, path = told
    if not version and not path and not tags:
        return ROOT_ROUTE
    return Route(version=version, path=(f"{_hashed(repr(path).encode()):x}",) if path else (), tags=tags)


def _mapped(envelope: Envelope, shown: Notification, route: Route) -> tuple[Envelope, int, tuple[str, ...]]:
    """What is shown as an envelope, with its version and the tags of its route.

    What is as it was published has version 0, also if mappings have made something else of it in between: a mapped copy
    knows the digest of what was published.
    """
    if shown is envelope.notification or shown == envelope.notification:
        return envelope, route.version, route.tags
    tags = route.tags if route.version else (*route.tags, f"{_ORIGINAL}{_digest(envelope.notification):x}")
    version = _digest(shown)
    mapped = Envelope.of(envelope.identity, envelope.routes, encode_body(shown), envelope.quality, shown)
    if f"{_ORIGINAL}{version:x}" in tags:
        return mapped, 0, tuple([tag for tag in tags if not tag.startswith(_ORIGINAL)])
    return mapped, version, tags


def version_of(shown: Notification, published: Notification) -> int:
    """The version of a form of an event: 0 for what was published, else a digest of its content."""
    return 0 if shown == published else _digest(shown)


def _digest(notification: Notification) -> int:
    """The same for notifications that are equal."""
    return _hashed(canonical_body(notification))


def _hashed(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=7).digest(), "big") or 1


def _in_form(route: Route, version: int, tags: tuple[str, ...]) -> Route:
    return Route(route.scope, route.state, route.source, route.path, version, tags)


def _with_routes(envelope: Envelope, routes: tuple[Route, ...]) -> Envelope:
    if envelope.routes == routes:
        return envelope
    changed = Envelope(envelope.identity, routes, envelope.body, envelope.quality)
    changed.__dict__.update(envelope.__dict__)  # a body that has been decoded is not decoded again
    return changed
