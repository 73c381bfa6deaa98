"""Oracles: who must get what, worked out with no network at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidings.broker import Broker
from tidings.model import Matches, Notification

from ._network import Network
from ._trace import Op, Record


class Delivery(NamedTuple):
    """One publication for one subscription."""

    client: str
    subscription: str
    publisher: str
    publication: int


def flat(records: Iterable[Record]) -> list[Delivery]:
    """Return the deliveries that must happen if every call took effect everywhere at once.

    This is flooding with a matcher at each client.

    A run in which every subscription settles before the next publication, and everything published arrives before the
    next subscription changes, delivers exactly this.
    """
    wanted: dict[tuple[str, str], tuple[Matches, bool]] = {}
    deliveries = []
    for record in records:
        if record.op is Op.SUB and record.filter is not None:
            wanted[record.component, record.subscription] = record.filter, bool(record.detail[0])
        elif record.op is Op.UNSUB:
            wanted.pop((record.component, record.subscription), None)
        elif record.op is Op.DETACH:
            wanted = {key: value for key, value in wanted.items() if key[0] != record.component}
        elif record.op is Op.PUB and record.notification is not None:
            for (client, id), (filter, receive_own) in wanted.items():
                if filter.matches(record.notification) and (receive_own or client != record.publisher):
                    deliveries.append(Delivery(client, id, record.publisher, record.publication))
    return sorted(deliveries)


def delivered(records: Iterable[Record]) -> list[Delivery]:
    """Return the deliveries that did happen."""
    return sorted(
        Delivery(record.component, record.subscription, record.publisher, record.publication)
        for record in records
        if record.op is Op.NOTIFY
    )


def interested(network: Network, notification: Notification) -> set[str]:
    """The brokers with a client that wants it."""
    return {
        client.broker
        for client in network.clients.values()
        if client.broker is not None and any(f.matches(notification) for f in client.subscriptions.values())
    }


def necessary_links(network: Network, origin: str, notification: Notification) -> int:
    """Return how many links between brokers must carry a notification: those on a path to a client that wants it."""
    edges: set[frozenset[str]] = set()
    for target in interested(network, notification):
        here = origin
        while here != target:
            step = hops(network.brokers[here])[target]
            edges.add(frozenset((here, step)))
            here = step
    return len(edges)


def hops(broker: Broker) -> Mapping[str, str]:
    """For every broker that the tree connects, the neighbour in whose direction it lies."""
    return broker.adjacency.tree.hops
