"""What must be true of the brokers themselves once a network has come to rest: invariant INV-R, and no waste.

INV-R, for each broker and each neighbour h, for subscriptions and for advertisements:

    what h was told is what h has stored from this broker,
    it accepts whatever the relevant entries from other links accept (and nothing else, except imperfect merging),
    and it is as small as the algorithm says: nothing (flooding), every id (simple), no two equal filters (identity), no
    filter that another covers (covering and merging).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidings.broker import Book, Broker, Entry, Link
from tidings.model import Filter, Matches, Notification

from ._network import Network


def broken_invariants(network: Network, samples: Iterable[Notification] = ()) -> list[str]:
    """Everything that contradicts INV-R; `samples` are tried together with a witness of every filter."""
    found: list[str] = []
    samples = tuple(samples)
    for broker in network.brokers.values():
        for link in broker.adjacency.tree_links:
            found += _at(network, broker, link, samples)
    return found


def _at(network: Network, broker: Broker, link: Link, samples: Sequence[Notification]) -> Iterator[str]:
    neighbour = network.brokers[link.name]
    back = neighbour.adjacency.neighbours.get(broker.name)
    where = f"{broker.name} -> {link.name}"
    if back is None or not broker.adjacency.is_open(link) or not neighbour.adjacency.is_open(back):
        yield f"{where}: the link is not open on both sides"
        return
    algorithm = broker.routing.algorithm
    pairs = (
        (broker.root.subscriptions, neighbour.root.subscriptions, algorithm, "subscriptions"),
        (broker.root.advertisements, neighbour.root.advertisements, _for_advertisements(broker), "advertisements"),
    )
    for book, other, reduction, what in pairs:
        told = book.told(link)
        stored = {entry.id: entry.filter for entry in other.of(back)}
        if told != stored:
            yield f"{where}: {what} told {_show(told)}, stored {_show(stored)}"
        given = _relevant(broker, book, link)
        yield from (f"{where}, {what}: {text}" for text in _reduced(reduction, told, given, samples))


def _for_advertisements(broker: Broker) -> str:
    if not broker.routing.advertisements:
        return "flooding"  # nobody is told anything
    return "simple" if broker.routing.algorithm == "flooding" else broker.routing.algorithm


def _relevant(broker: Broker, book: Book, link: Link) -> list[Entry]:
    """The entries that the neighbour should know about, directly from the definition."""
    entries = [entry for entry in book if entry.link is not link and not _accepts_nothing(entry.filter)]
    if book is broker.root.subscriptions and broker.routing.advertisements:
        announced = broker.root.advertisements.of(link)
        entries = [entry for entry in entries if any(_overlap(entry.filter, a.filter) for a in announced)]
    return entries


def _accepts_nothing(filter: Matches) -> bool:
    return isinstance(filter, Filter) and not filter.conjunctions


def _overlap(one: Matches, two: Matches) -> bool:
    return not (isinstance(one, Filter) and isinstance(two, Filter)) or one.overlaps(two)


def _reduced(
    algorithm: str, told: dict[str, Matches], given: list[Entry], samples: Sequence[Notification]
) -> Iterator[str]:
    if algorithm == "flooding":
        if told:
            yield f"flooding has told {_show(told)}"
        return
    if algorithm == "simple":
        if sorted(told) != sorted(entry.public_id for entry in given):
            yield f"simple routing has told {sorted(told)} of {sorted(entry.public_id for entry in given)}"
    else:
        yield from _small(algorithm, told, given)
    yield from _same_notifications(algorithm, told, given, samples)


def _small(algorithm: str, told: dict[str, Matches], given: list[Entry]) -> Iterator[str]:
    filters = [filter for filter in told.values() if isinstance(filter, Filter)]
    wanted = [entry.filter for entry in given if isinstance(entry.filter, Filter)]
    if algorithm == "identity":
        if {filter.id for filter in filters} != {filter.id for filter in wanted}:
            yield f"identity routing has told {_show(told)} of {wanted}"
        return
    for one in filters:
        for two in filters:
            if one is not two and one.covers(two):
                yield f"{one} covers {two}, and both were told"
    for filter in wanted:
        if not any(one.covers(filter) for one in filters):
            yield f"no told filter covers {filter}"
    if algorithm == "covering":
        for filter in filters:
            if not any(filter.id == other.id for other in wanted):
                yield f"{filter} was told, and nobody wants it"


def _same_notifications(
    algorithm: str, told: dict[str, Matches], given: list[Entry], samples: Sequence[Notification]
) -> Iterator[str]:
    tried = [*samples, *_witnesses([*told.values(), *(entry.filter for entry in given)])]
    for sample in tried:
        wanted = any(entry.filter.matches(sample) for entry in given)
        passed = any(filter.matches(sample) for filter in told.values())
        if wanted and not passed:
            yield f"{sample} is wanted and would not be sent"
        if passed and not wanted and algorithm != "imperfect-merging":
            yield f"{sample} would be sent and nobody wants it"


def _witnesses(filters: Iterable[Matches]) -> Iterator[Notification]:
    for filter in filters:
        witness = filter.witness() if isinstance(filter, Filter) else None
        if witness is not None:
            yield witness


def _show(told: dict[str, Matches]) -> str:
    return "{" + ", ".join(f"{id}: {filter}" for id, filter in sorted(told.items())) + "}"


def waste(network: Network) -> list[str]:
    """What brokers still hold although every client has left and the network has come to rest."""
    found = []
    for name, broker in network.brokers.items():
        held = {
            "subscriptions": len(broker.root.subscriptions),
            "advertisements": len(broker.root.advertisements),
            "told filters": sum(
                len(book.told(link))
                for book in (broker.root.subscriptions, broker.root.advertisements)
                for link in broker.adjacency.tree_links
            ),
            "waves": len(broker.waves),
            "clients": len(broker.clients),
        }
        found += [f"{name} holds {count} {what}" for what, count in held.items() if count]
    return found
