"""What must be true of aggregates once a network has come to rest, directly from the definition.

- What a client watches is complete, and no further from the truth than its bound: exact, if that is 0. The truth is
  counted from what applications do, in the part of the network that the client's broker reaches.
- Each broker knows the truth about its own clients, and the truth of what lies behind a neighbour is inside the range
  that the neighbour told.
- What one end of a link has sent is what the other end has got, and what one end asks is what the other end wants.
- The slack and the shares of a direction together are within its bound.
- Nothing is kept that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidings.aggregation import Aggregation, State, Subject
from tidings.broker import Broker, Link
from tidings.model import ROOT_SCOPE, Filter, Matches
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
            for watch in client.watches.values():
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
        f"watches {watch.aggregate} of {watch.filter if watch.probe is None else watch.probe} within {watch.max_error}"
    )
    if watch.declined is not None:
        yield f"{what}, and was refused: {watch.declined.reason}"
        return
    last = watch.last
    if last is None or not last.complete:
        yield f"{what}, and its last result is {last}"
        return
    reached = {broker, *network.brokers[broker].adjacency.tree.hops}
    truth = sum(_truth(network, one, watch.aggregate, watch.touches) for one in reached)
    if last.error > watch.max_error or abs(last.value - truth) > last.error:
        yield f"{what}, and was told {last.value}, give or take {last.error:g}; it is {truth}"


def _truth(network: Network, broker: str, aggregate: str, touches: object) -> int:
    """The contribution of the clients of one broker: members of the root scope, by what they want or offer there."""
    assert callable(touches)
    total = 0
    scoping = network.brokers[broker].scoping
    if not scoping.ready:  # it knows no graph yet, so its clients have no place in any scope
        return 0
    for client in network.clients.values():
        passage = scoping.memberships(client.name).get(ROOT_SCOPE) if client.connected else None
        if passage is not None and client.broker == broker:
            if aggregate == "publisher_count":
                there = [passage.offered(filter) for filter in client.advertisements.values()]
            else:
                there = [passage.wanted(filter) for filter in client.subscriptions.values()]
            touching = sum(map(touches, there))
            total += touching if aggregate == "subscription_count" else bool(touching)
    return total


def _at(network: Network, broker: Broker, feature: Aggregation) -> Iterator[str]:
    if failures := broker.failures.by_feature.get(feature.name):
        yield f"{failures} failures of aggregation"
    hops = broker.adjacency.tree.hops
    for subject, state in feature.engine.states.items():
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
    return _truth(network, broker, subject.aggregate, lambda wanted: _touches(subject, wanted))


def _touches(subject: Subject, wanted: Matches) -> bool:
    if subject.probe:
        return wanted.matches(decode_body(subject.probe))
    return not isinstance(wanted, Filter) or Filter.parse(subject.key).overlaps(wanted)
