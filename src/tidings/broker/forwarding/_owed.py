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

from tidings.broker._causes import climbs, told_of
from tidings.broker.interest import OPEN_PASSAGE, Climbing, Registration, View
from tidings.model import ROOT_ROUTE, ROOT_SCOPE
from tidings.wire import Envelope

from ._crossing import _anonymous, _Form, _mapped, _tags, _told_of, _with_routes


def owed(outlet: Registration, envelope: Envelope, then: View, now: View | None = None) -> list[Envelope]:
    """Return what a subscription should have got of a publication, each form once, as its client is told of it.

    `then` is the version of the graph under which it was published. With `now`, only what came by ways that this
    version leaves open, too: a replay shows nothing that may not be seen any more.
    """
    publisher, client = envelope.identity.publisher, outlet.link.principal
    if client == publisher and not outlet.receive_own:
        return []
    notification, tags = envelope.notification, envelope.routes[0].tags
    memberships = then.memberships(client)
    forms: dict[_Form, Envelope] = {}
    causes: dict[_Form, dict[str, None]] = {}
    open_ways = None
    if now is not None:
        open_ways = {
            _way(seen.path) for seen in now.sightings(publisher, notification, client, _climbing(envelope, now))
        }
    for sighting in then.sightings(publisher, notification, client, _climbing(envelope, then)):
        if open_ways is not None and _way(sighting.path) not in open_ways:
            continue
        if outlet.filter.matches(sighting.notification):
            mapped, version, _ = _mapped(envelope, sighting.notification, ROOT_ROUTE)
            passage = memberships.get(sighting.path[-1], OPEN_PASSAGE) if sighting.path else OPEN_PASSAGE
            form = _Form(_told_of(version, sighting.path, outlet, passage), version)
            forms.setdefault(form, mapped)
            if tags or then.sessions:
                for path in (sighting.path,) if sighting.path else _returned(envelope, then):
                    causes.setdefault(form, {}).update(told_of(path, tags, then))
    return [
        _with_routes(mapped, (_anonymous(form.told, (*_tags(then), *causes.get(form, ()))),))
        for form, mapped in forms.items()
    ]


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
