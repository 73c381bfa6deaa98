"""What is owed: every form in which a subscription should have seen a publication, worked out without a network.

Notifications that arrive by themselves are judged hop by hop (`_crossing`). What comes late is judged here, as a whole:
recovery hands over what was missed, strict history what was published before, and the audit compares what was sent.
All of them call `owed`, so they cannot disagree. The trace checker does not: it has its own, written from the
definition (`tidings.sim._definition`), so that a mistake here is noticed.

A publication is judged by the version of the scope graph that its identity names, from its publisher to the client of
the subscription: scopes, interfaces and mappings. Then comes the filter, then what counts as a second copy. A policy
that chooses or delays has its place between the two: it is asked what it *has* decided, and never decides again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidings.broker._causes import climbs, told_of
from tidings.broker.interest import OPEN_PASSAGE, Climbing, Registration, Sighting, View
from tidings.model import ROOT_ROUTE, ROOT_SCOPE, Route
from tidings.wire import Envelope

from ._borders import is_checked
from ._crossing import _anonymous, _Form, _mapped, _tags, _told_of, _with_routes, whole
from ._decisions import Decision


class Owed(NamedTuple):
    """One form of a publication that a subscription should have got."""

    envelope: Envelope
    due: int = 0
    """The time before which it should not, in microseconds since 1970 UTC; 0: at once."""
    path: tuple[str, ...] = ()
    """The scopes that it comes through."""
    unproven: bool = False
    """Whether it comes into a scope that checks what comes in, and nothing vouches for it here."""


def owed(outlet: Registration, envelope: Envelope, then: View, now: View | None = None) -> list[Envelope]:
    """Return what a subscription should have got of a publication, each form once, as its client is told of it.

    `then` is the version of the graph under which it was published. With `now`, only what came by ways that this
    version leaves open, too: a replay shows nothing that may not be seen any more. What is not due yet is among it.
    """
    return [one.envelope for one in owed_when(outlet, envelope, then, now)]


def owed_when(
    outlet: Registration,
    envelope: Envelope,
    then: View,
    now: View | None = None,
    given: Collection[Decision] = (),
) -> list[Owed]:
    """Return what `owed` does, and when it is due; of ways by which the same form comes, the earliest counts.

    `given`: what deciding points have given to the client. That it was owed, too, and nobody else can say so.
    """
    publisher, client = envelope.identity.publisher, outlet.link.principal
    if client == publisher and not outlet.receive_own:
        return []
    notification, tags, identity = envelope.notification, envelope.routes[0].tags, envelope.identity
    memberships = then.memberships(client)
    forms: dict[_Form, Owed] = {}
    causes: dict[_Form, dict[str, None]] = {}
    open_ways = None
    if now is not None:
        seen_now = now.sightings(
            publisher, notification, client, _climbing(envelope, now), identity=identity, possible=True
        )
        open_ways = {_way(seen.path) for seen in seen_now}
    climbing = _climbing(envelope, then)
    seen_then = list(then.sightings(publisher, notification, client, climbing, identity=identity))
    if given:
        possible = then.sightings(publisher, notification, client, climbing, identity=identity, possible=True)
        sure = {one.path for one in seen_then}
        seen_then += [one for one in possible if one.path not in sure and _decided(envelope, one) in given]
    for sighting in seen_then:
        if open_ways is not None and _way(sighting.path) not in open_ways:
            continue
        if outlet.filter.matches(sighting.notification):
            mapped, version, _ = _mapped(envelope, sighting.notification, ROOT_ROUTE)
            passage = memberships.get(sighting.path[-1], OPEN_PASSAGE) if sighting.path else OPEN_PASSAGE
            form = _Form(_told_of(version, sighting.path, outlet, passage), version)
            if passage.decides:
                form = form._replace(whole=Route(sighting.path[-1], path=sighting.path, version=version, tags=tags))
            known = forms.get(form)
            unproven = bool(then.borders) and is_checked(sighting.path, then)
            if known is None or (unproven, sighting.due) < (known.unproven, known.due):
                forms[form] = Owed(mapped, sighting.due, sighting.path, unproven)
            if tags or then.sessions:
                for path in (sighting.path,) if sighting.path else _returned(envelope, then):
                    causes.setdefault(form, {}).update(told_of(path, tags, then))
    return [
        one._replace(envelope=_with_routes(one.envelope, (_route(form, _tags(then), causes.get(form, {})),)))
        for form, one in forms.items()
    ]


def _decided(envelope: Envelope, sighting: Sighting) -> Decision:
    """The decision by which a client was given what it might see."""
    version = _mapped(envelope, sighting.notification, ROOT_ROUTE)[1]
    return Decision.about(sighting.path[-1], envelope.identity, version)


def _route(form: _Form, tags: tuple[str, ...], causes: dict[str, None]) -> Route:
    return _anonymous(form.told, (*tags, *causes)) if form.whole is None else whole(form.whole, tags)


def _climbing(envelope: Envelope, view: View) -> Climbing | None:
    """Where a publication may climb, because of what it reacts to; None: wherever others may."""
    tags = envelope.routes[0].tags
    return (lambda path, scope: climbs(path, scope, tags, view)) if tags else None


def _returned(envelope: Envelope, view: View) -> list[tuple[str, ...]]:
    """The scopes from which a publisher gets its own publication back."""
    shown, tags = envelope.notification, envelope.routes[0].tags
    passages = view.memberships(envelope.identity.publisher).values()
    out = ((one, one.outward(shown)) for one in passages if climbs((), one.scope, tags, view))
    return [(one.scope,) for one, outside in out if outside is not None and one.inward(outside) is not None]


def _way(path: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes on a path; where there are none yet, everything goes through the root scope."""
    return path or (ROOT_SCOPE,)
