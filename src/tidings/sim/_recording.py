"""What brokers of a simulated network do that its trace records, so that the checker can judge by it."""

from __future__ import annotations

from collections.abc import Collection

from tidings.broker import Broker, Choice, Term
from tidings.groups import Choosing
from tidings.mobility import Hosts
from tidings.scopes import Scopes
from tidings.wire import Envelope, Run

from ._couriers import Couriers
from ._details import Activated, Attached, Presiding, Ruled, Taken
from ._trace import Op, Trace


def record(trace: Trace, broker: Broker, couriers: Couriers) -> None:
    """Record what a broker does from now on."""
    _record_publications(trace, broker)
    if isinstance(scopes := broker.features.get("scopes"), Scopes):
        _record_versions(trace, broker, scopes)
    if isinstance(hosts := broker.features.get("hosts"), Hosts):
        _record_hosts(trace, broker.name, hosts, couriers)
    if isinstance(choosing := broker.features.get("choosing"), Choosing):
        _record_decisions(trace, broker.name, choosing)


def _record_decisions(trace: Trace, name: str, choosing: Choosing) -> None:
    """What a broker decides for scopes."""

    def presides(scope: str, term: Term, before: Collection[Term]) -> None:
        trace.add(Op.PRESIDES, name, detail=Presiding(scope, _plain(term), tuple(map(_plain, before))))

    def ruled(
        scope: str, term: Term, envelope: Envelope, candidates: Collection[str], choice: Choice, *, waited: bool
    ) -> None:
        identity, route = envelope.identity, envelope.routes[0]
        where = (*identity.key, identity.graph_epoch, route.path)
        trace.add(
            Op.RULED,
            name,
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            notification=envelope.notification,
            detail=Ruled(
                scope, _plain(term), *where, frozenset(candidates), frozenset(choice.clients), choice.waits, waited
            ),
        )

    choosing.presides, choosing.ruled = presides, ruled


def _record_hosts(trace: Trace, name: str, hosts: Hosts, couriers: Couriers) -> None:
    """Whom a broker hosts."""

    def told(client: str, epoch: int, hosted: bool) -> None:
        trace.add(Op.HOSTED if hosted else Op.RELEASED, client, detail=Attached(name, epoch))
        if hosted:
            couriers.hosted(client, name)

    hosts.told = told


def _record_publications(trace: Trace, broker: Broker) -> None:
    """Which identity a broker gives to each publication."""
    numbers = broker.publications.numbers
    remember, remember_run = numbers.remember, numbers.remember_run

    def note(envelope: Envelope) -> None:
        identity = envelope.identity
        trace.add(
            Op.TAKEN,
            publication=identity.publisher_seq,
            publisher=identity.publisher,
            detail=Taken(*identity.key, identity.published_at, identity.graph_epoch),
        )

    def taken(envelope: Envelope) -> None:
        note(envelope)
        remember(envelope)

    def taken_run(run: Run) -> None:
        for envelope in run.envelopes():
            note(envelope)
        remember_run(run)

    numbers.remember = taken  # type: ignore[method-assign]
    numbers.remember_run = taken_run  # type: ignore[method-assign]


def _record_versions(trace: Trace, broker: Broker, scopes: Scopes) -> None:
    """By which versions of the scope graph a broker judges."""

    def activated(version: int) -> None:
        trace.add(Op.ACTIVE, broker.name, detail=Activated(version, scopes.versions.plan(version).graph))

    broker.scoping.activated = activated
    activated(broker.scoping.active.version)


def _plain(term: Term) -> tuple[int, str, int]:
    return term.number, term.point, term.epoch
