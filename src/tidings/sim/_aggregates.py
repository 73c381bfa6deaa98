"""What must be true of aggregates once a network has come to rest, directly from the definition.

- What a client watches is complete, and no further from the truth than its bound: exact, if that is 0. The truth is
  counted from what applications do, in the part of the network that the client's broker reaches: of all who are seen
  in the scope, over edges that let counts pass.
- Each broker knows the truth about its own clients, and the truth of what lies behind a neighbour is inside the range
  that the neighbour told.
- What one end of a link has sent is what the other end has got, and what one end asks is what the other end wants.
- The slack and the shares of a direction together are within its bound.
- Nothing is kept that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.aggregation import Aggregation, State, Subject
from tidings.aggregation._named import is_name
from tidings.broker import Broker, Link, Passage
from tidings.broker.interest import Scoping
from tidings.model import Filter, Matches, Notification, ScopeError
from tidings.wire import decode_body

from ._network import Network
from ._promises import Promises
from ._watch import SimWatch

WATCHED_VALUE = "watched-value"
"""The guarantee of docs/promises.md."""


def broken_aggregates(network: Network, promises: Promises | None = None) -> list[str]:
    """Return everything that contradicts the promise about watched values, or the invariants that it rests on."""
    if promises is not None and not promises.holds(WATCHED_VALUE, "aggregation"):
        return []
    found: list[str] = []
    for broker in network.brokers.values():
        if isinstance(feature := broker.features.get("aggregation"), Aggregation):
            found += (f"{broker.name}: {text}" for text in _at(network, broker, feature))
    for client in network.clients.values():
        if client.connected and client.broker is not None:
            for watch in (one for one in client.watches.values() if not is_name(one.aggregate)):
                found += (f"{WATCHED_VALUE}: {client.name} {text}" for text in _told(network, client.broker, watch))
    return found


def kept_aggregates(network: Network) -> list[str]:
    """Return what brokers still keep of aggregates although nobody watches anything."""
    found: list[str] = []
    for name, broker in network.brokers.items():
        if isinstance(feature := broker.features.get("aggregation"), Aggregation):
            found += (f"{name} keeps {what} of aggregates" for what in feature.kept())
    return found


def _told(network: Network, broker: str, watch: SimWatch) -> Iterator[str]:
    what = (
        f"watches {watch.aggregate} of {watch.filter if watch.probe is None else watch.probe} "
        f"in '{watch.scope}' within {watch.max_error}"
    )
    if watch.declined is not None:
        if not (watch.declined.error == ScopeError.__name__ and watch.scope):  # it was not there then, or has ended
            yield f"{what}, and was refused: {watch.declined.reason}"
        return
    last = watch.last
    scoping = network.brokers[broker].scoping
    if not scoping.newest.knows(watch.scope):
        if scoping.ready or (last is not None and last.complete):  # else it was cut off before it heard of the graph
            yield f"{what}, which is not there, and was told {last}"
        return
    if last is None or not last.complete:
        yield f"{what}, and its last result is {last}"
        return
    reached = {broker, *network.brokers[broker].adjacency.tree.hops}
    key = watch.filter if watch.probe is None else Notification(watch.probe)
    truth = sum(_truth(network, one, watch.aggregate, key, watch.scope) for one in reached)
    if last.error > watch.max_error or abs(last.value - truth) > last.error:
        yield f"{what}, and was told {last.value}, give or take {last.error:g}; it is {truth}"


def _truth(network: Network, broker: str, aggregate: str, key: Filter | Notification | None, scope: str) -> int:
    """The contribution of the clients of one broker: those that are seen in the scope, by what they want or offer."""
    total = 0
    scoping = network.brokers[broker].scoping
    if not scoping.ready:  # it knows no graph yet, so its clients have no place in any scope
        return 0
    if not (scoping.newest.knows(scope) and scoping.newest.carries(broker, scope)):
        return 0
    for client in network.clients.values():
        if client.connected and client.broker == broker:
            offers = aggregate == "publisher_count"
            filters = (client.advertisements if offers else client.subscriptions).values()
            climbs = [*_climbs(scoping, client.name, scope)]
            touching = sum(any(_counts(key, filter, climb, offers=offers) for climb in climbs) for filter in filters)
            total += touching if aggregate == "subscription_count" else bool(touching)
    return total


def _climbs(scoping: Scoping, client: str, scope: str) -> Iterator[tuple[Passage, ...]]:
    """Every way from a client up to a scope on which counts pass all edges between scopes."""

    def climb(above: str, way: tuple[Passage, ...]) -> Iterator[tuple[Passage, ...]]:
        if above == scope:
            yield way
        view = scoping.newest
        for further, passage in view.supers(above).items() if view.knows(above) else ():
            designated = view.gateway(above, further) is not None
            if not designated and passage.outward(Notification(type="tidings.count")) is not None:
                yield from climb(further, (*way, passage))

    for first, passage in scoping.memberships(client).items():
        if first in scoping.tables:  # its broker has been admitted to carry it
            yield from climb(first, (passage,))


def _counts(key: Filter | Notification | None, filter: Matches, climb: tuple[Passage, ...], *, offers: bool) -> bool:
    """Whether a filter of a client touches a key at the end of a way: something of the key may come to it."""
    if isinstance(key, Notification) and not offers:
        seen: Notification | None = key
        for passage in reversed(climb):
            seen = passage.inward(seen) if seen is not None else None
        return seen is not None and filter.matches(seen)
    for passage in climb:
        filter = passage.offered(filter) if offers else passage.wanted(filter)
    if isinstance(key, Notification):
        return filter.matches(key)
    return key is None or not isinstance(filter, Filter) or key.overlaps(filter)


def _at(network: Network, broker: Broker, feature: Aggregation) -> Iterator[str]:
    if failures := broker.failures.by_feature.get(feature.name):
        yield f"{failures} failures of aggregation"
    hops = broker.adjacency.tree.hops
    for subject, state in feature.engine.states.items():
        if is_name(subject.aggregate):
            continue  # `_versions` judges what is deployed
        local = _truth_of(network, broker.name, subject)
        if not state.ready or state.local != (local, local):
            yield f"{subject}: {state.local} is known of its own clients, and it is {local}"
        yield from (f"{subject}: {text}" for text in _budget(state))
        for link, side in state.sides.items():
            if side.asked is not None:
                behind = sum(_truth_of(network, one, subject) for one, hop in hops.items() if hop == link.name)
                if side.got is None or not side.got.low <= behind <= side.got.high:
                    yield f"{subject}: {link.name} told {side.got}, and it is {behind}"
                yield from (f"{subject}: {text}" for text in _agreement(network, broker, link, state))
        if not state.requests and all(side.want is None for side in state.sides.values()):
            yield f"{subject}: nobody asks for it"


def _agreement(network: Network, broker: Broker, link: Link, state: State[Link]) -> Iterator[str]:
    side = state.sides[link]
    other = network.brokers[link.name].features["aggregation"]
    assert isinstance(other, Aggregation)
    back = network.brokers[link.name].adjacency.neighbours[broker.name]
    theirs = other.engine.states.get(state.subject)
    there = theirs.sides.get(back) if theirs is not None else None
    if there is None or there.want != side.asked or there.answers != side.number:
        yield f"{link.name} was asked within {side.asked}, and knows nothing of it"
    elif (there.sent, there.sent_complete) != (side.got, side.complete):
        yield f"{link.name} has sent {there.sent}, and {side.got} has come"


def _budget(state: State[Link]) -> Iterator[str]:
    directions: list[tuple[Link | None, float, float]] = [
        (link, side.want, side.slack) for link, side in state.sides.items() if side.want is not None
    ]
    if state.requests:
        directions.append((None, min(request.bound for request in state.requests), state.root_slack))
    for link, bound, slack in directions:
        given = sum(side.asked or 0 for other, side in state.sides.items() if other is not link)
        if slack + given > bound:
            yield f"{slack} and {given} have been given of {bound}"


def _truth_of(network: Network, broker: str, subject: Subject) -> int:
    key = decode_body(subject.probe) if subject.probe else Filter.parse(subject.key)
    return _truth(network, broker, subject.aggregate, key, subject.scope)
