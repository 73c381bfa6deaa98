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

from typing import NamedTuple

from tidings.broker.interest import OPEN_PASSAGE, Registration, View
from tidings.model import ROOT_ROUTE, ROOT_SCOPE
from tidings.wire import Envelope

from ._crossing import _anonymous, _Form, _mapped, _tags, _told_of, _with_routes


class Owed(NamedTuple):
    """One form of a publication that a subscription should have got."""

    envelope: Envelope
    due: int = 0
    """The time before which it should not, in microseconds since 1970 UTC; 0: at once."""
    path: tuple[str, ...] = ()
    """The scopes that it comes through."""


def owed(outlet: Registration, envelope: Envelope, then: View, now: View | None = None) -> list[Envelope]:
    """Return what a subscription should have got of a publication, each form once, as its client is told of it.

    `then` is the version of the graph under which it was published. With `now`, only what came by ways that this
    version leaves open, too: a replay shows nothing that may not be seen any more. What is not due yet is among it.
    """
    return [one.envelope for one in owed_when(outlet, envelope, then, now)]


def owed_when(outlet: Registration, envelope: Envelope, then: View, now: View | None = None) -> list[Owed]:
    """Return what `owed` does, and when it is due; of ways by which the same form comes, the earliest counts."""
    publisher, client = envelope.identity.publisher, outlet.link.principal
    if client == publisher and not outlet.receive_own:
        return []
    notification = envelope.notification
    identity = envelope.identity
    open_ways = None
    if now is not None:
        open_ways = {_way(seen.path) for seen in now.sightings(publisher, notification, client, identity)}
    memberships = then.memberships(client)
    forms: dict[_Form, Owed] = {}
    for sighting in then.sightings(publisher, notification, client, identity):
        if open_ways is not None and _way(sighting.path) not in open_ways:
            continue
        if outlet.filter.matches(sighting.notification):
            mapped, version, _ = _mapped(envelope, sighting.notification, ROOT_ROUTE)
            passage = memberships.get(sighting.path[-1], OPEN_PASSAGE) if sighting.path else OPEN_PASSAGE
            form = _Form(_told_of(version, sighting.path, outlet, passage), version)
            known = forms.get(form)
            if known is None or sighting.due < known.due:
                told = _with_routes(mapped, (_anonymous(form.told, _tags(then)),))
                forms[form] = Owed(told, sighting.due, sighting.path)
    return list(forms.values())


def _way(path: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes on a path; where there are none yet, everything goes through the root scope."""
    return path or (ROOT_SCOPE,)
