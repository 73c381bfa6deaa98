"""What must be true of the brokers themselves once a network has come to rest: invariant INV-R, and no waste.

INV-R, for each broker and each neighbour h, for subscriptions and for advertisements:

    what h was told is what h has stored from this broker,
    it accepts whatever the relevant entries from other links accept (and nothing else, except imperfect merging),
    and it is as small as the algorithm says: nothing (flooding), every id (simple), no two equal filters (identity), no
    filter that another covers (covering and merging).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidings.broker import Book, Broker, Entry, Gate, Link, Table
from tidings.groups import Acknowledged, Groups
from tidings.mobility import OwnRoom, Roaming
from tidings.model import Filter, Matches, Notification
from tidings.scopes import Scopes

from ._excuses import Excuse, Excuses
from ._network import Network


def broken_invariants(
    network: Network, samples: Iterable[Notification] = (), excuses: Excuses | None = None
) -> list[str]:
    """Return everything that contradicts INV-R; `samples` are tried together with a witness of every filter.

    `excuses` counts what is let pass.
    """
    trial = _Trial(tuple(samples), Excuses() if excuses is None else excuses)
    found: list[str] = []
    for broker in network.brokers.values():
        for link in broker.adjacency.tree_links:
            found += _at(network, broker, link, trial)
        found += _off_the_tree(broker)
    return found


class _Trial(NamedTuple):
    """What is tried, and what was let pass."""

    samples: tuple[Notification, ...]
    excuses: Excuses


def _off_the_tree(broker: Broker) -> Iterator[str]:
    """Nothing is told on links that carry no traffic."""
    tree = broker.adjacency.tree_links
    for scope, table in broker.scoping.tables.items():
        for book in table.books:
            for link in book.opened:
                if link.is_broker and link not in tree and book.told(link):
                    yield f"{broker.name} -> {link.name}, '{scope}': {_show(book.told(link))} was told off the tree"


def _at(network: Network, broker: Broker, link: Link, trial: _Trial) -> Iterator[str]:
    neighbour = network.brokers[link.name]
    back = neighbour.adjacency.neighbours.get(broker.name)
    where = f"{broker.name} -> {link.name}"
    if back is None or not broker.adjacency.is_open(link) or not neighbour.adjacency.is_open(back):
        yield f"{where}: the link is not open on both sides"
        return
    for scope, table in broker.scoping.tables.items():
        other = neighbour.scoping.tables.get(scope)
        if (link in broker.scoping.links(scope)) != (other is not None and back in neighbour.scoping.links(scope)):
            yield f"{where}: only one of them thinks that both carry '{scope}'"
        elif other is not None and link in broker.scoping.links(scope):
            yield from (f"{where}, '{scope}', {text}" for text in _told(broker, table, other, (link, back), trial))


def _told(broker: Broker, table: Table, other: Table, ends: tuple[Link, Link], trial: _Trial) -> Iterator[str]:
    link, back = ends
    pairs = (
        (table.subscriptions, other.subscriptions, broker.routing.algorithm, "subscriptions"),
        (table.advertisements, other.advertisements, _for_advertisements(broker), "advertisements"),
    )
    for book, theirs, reduction, what in pairs:
        told = book.told(link)
        stored = {entry.id: entry.filter for entry in theirs.of(back)}
        if _meanings(told) != _meanings(stored):
            yield f"{what} told {_show(told)}, stored {_show(stored)}"
        given = _relevant(broker, table, book, link)
        yield from (f"{what}: {text}" for text in _reduced(reduction, told, given, trial))


def _for_advertisements(broker: Broker) -> str:
    if not broker.routing.advertisements:
        return "flooding"  # nobody is told anything
    return "simple" if broker.routing.algorithm == "flooding" else broker.routing.algorithm


def _relevant(broker: Broker, table: Table, book: Book, link: Link) -> list[Entry]:
    """The entries that the neighbour should know about, directly from the definition."""
    entries = [entry for entry in book if entry.link is not link and not _accepts_nothing(entry.filter)]
    if book is table.advertisements:
        return entries
    view = broker.scoping.active
    entries = [
        entry
        for entry in entries
        if not isinstance(entry.link, Gate)
        or not view.admits(entry.link.passage.member, entry.link.passage.scope, link.name)
    ]
    if broker.routing.advertisements:
        entries = [entry for entry in entries if _may_come(broker, table.scope, entry.filter, link)]
    return entries


def _may_come(broker: Broker, scope: str, filter: Matches, link: Link) -> bool:
    """Whether somebody behind the link has advertised, here or in a scope above, what may pass the filter here."""
    table = broker.scoping.tables[scope]
    view, hops = broker.scoping.active, broker.adjacency.tree.hops
    gateways = {view.gateway(scope, above) for above in view.supers(scope)} - {None}
    if any(hops.get(str(gateway)) == link.name for gateway in gateways):
        return True
    if any(_overlap(filter, advertisement.filter) for advertisement in table.advertisements.of(link)):
        return True
    above = {name: passage for name, passage in view.supers(scope).items() if view.gateway(scope, name) is None}
    return any(_may_come(broker, name, passage.wanted(filter), link) for name, passage in above.items())


def _accepts_nothing(filter: Matches) -> bool:
    return isinstance(filter, Filter) and not filter.conjunctions


def _overlap(one: Matches, two: Matches) -> bool:
    return not (isinstance(one, Filter) and isinstance(two, Filter)) or one.overlaps(two)


def _reduced(algorithm: str, told: dict[str, Matches], given: list[Entry], trial: _Trial) -> Iterator[str]:
    if algorithm == "flooding":
        if told:
            yield f"flooding has told {_show(told)}"
        return
    if algorithm == "simple":
        if sorted(told) != sorted(entry.public_id for entry in given):
            yield f"simple routing has told {sorted(told)} of {sorted(entry.public_id for entry in given)}"
    else:
        yield from _small(algorithm, told, given)
    yield from _same_notifications(algorithm, told, given, trial)


def _compares(filter: Matches) -> bool:
    return isinstance(filter, Filter)


def _small(algorithm: str, told: dict[str, Matches], given: list[Entry]) -> Iterator[str]:
    yield from (f"{one!r} was told, and {algorithm} cannot compare it" for one in told.values() if not _compares(one))
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
                yield f"{filter} was told, and no subscription wants it"


def _same_notifications(algorithm: str, told: dict[str, Matches], given: list[Entry], trial: _Trial) -> Iterator[str]:
    wants, tells = _distinct(entry.filter for entry in given), _distinct(told.values())
    tried = [*trial.samples, *_witnesses([*tells, *wants])]
    for sample in tried:
        wanted = any(filter.matches(sample) for filter in wants)
        passed = any(filter.matches(sample) for filter in tells)
        if wanted and not passed:
            yield f"{sample} is wanted, and would not be sent"
        if passed and not wanted:
            if algorithm == "imperfect-merging":
                trial.excuses.grant(Excuse.MERGED_IMPERFECTLY, [sample])
            else:
                yield f"{sample} would be sent, and no subscription wants it"


def _distinct(filters: Iterable[Matches]) -> list[Matches]:
    """One filter for each meaning: simple routing has the same one thousands of times where scopes share members."""
    return list({filter.id if isinstance(filter, Filter) else id(filter): filter for filter in filters}.values())


def _witnesses(filters: Iterable[Matches]) -> Iterator[Notification]:
    for filter in filters:
        witness = filter.witness() if isinstance(filter, Filter) else None
        if witness is not None:
            yield witness


def _meanings(told: dict[str, Matches]) -> dict[str, object]:
    """Filters by what they mean: their texts may be in another order after a journey."""
    return {id: filter.id if isinstance(filter, Filter) else filter for id, filter in told.items()}


def _show(told: dict[str, Matches]) -> str:
    return "{" + ", ".join(f"{id}: {filter}" for id, filter in sorted(told.items())) + "}"


def overgrown(network: Network) -> list[str]:
    """Return the scopes that a quiet network carries without a reason, or does not carry in spite of one."""
    found = []
    for name, broker in network.brokers.items():
        scoping = broker.scoping
        if set(scoping.tables) != scoping.active.scopes:
            found.append(f"{name} has tables of {sorted(scoping.tables)} and should of {sorted(scoping.active.scopes)}")
        if len(scoping.versions) != 1:
            found.append(f"{name} still knows the versions {scoping.versions}")
        if isinstance(scopes := broker.features.get("scopes"), Scopes):
            needed = {scope for link in broker.clients for scope in scoping.active.memberships(link.principal)} - {""}
            admitted = {scope for scope, brokers in scopes.graph.anchors.items() if name in brokers}
            if needed != admitted:
                found.append(f"{name} is admitted to {sorted(admitted)} and needs {sorted(needed)}")
    return found


def _of_roaming(feature: object) -> dict[str, int]:
    """What a broker holds of clients that roam."""
    if not isinstance(feature, Roaming):
        return {}
    keeping = feature.keeping
    return {
        "roaming clients": len(feature.controlling),
        "copies of clients": len(keeping.copies) + len(feature.homes) + len(feature.handing),
        "warm copies": len(keeping.warm),
        "bytes for warm copies": keeping.warm.buffer.bytes,
        "virtual clients": len(keeping.virtual),
        "bytes for virtual clients": keeping.virtual.buffer.bytes,
        "notifications for copies": len(keeping.buffer),
        "bytes for copies": keeping.buffer.bytes,
        "tombstones": len(keeping.tombstones),
        "bytes that are counted for those": keeping.room.total if isinstance(keeping.room, OwnRoom) else 0,
        "transfers": len(feature.transfers) if feature.transfers is not None else 0,
        "questions for what was missed": len(feature.fallback) if feature.fallback is not None else 0,
    }


def _of_groups(feature: object) -> dict[str, int]:
    """What a broker holds of groups."""
    if not isinstance(feature, Groups):
        return {}
    return {
        "groups with members": len(feature.members),
        "groups that it decides for": len(feature.groups) + len(feature.points),
    }


def _of_work(feature: object) -> dict[str, int]:
    """What a broker holds of acknowledged groups, but for what they have handled: that stays."""
    if not isinstance(feature, Acknowledged):
        return {}
    return {
        "acknowledged groups with members": len(feature.members),
        "acknowledged groups that it decides for": len(feature.groups) + len(feature.points),
        "dead letters under way": len(feature.undertaker),
    }


def waste(network: Network) -> list[str]:
    """Return what brokers still hold although every client has left and the network has come to rest."""
    found = []
    for name, broker in network.brokers.items():
        books = [book for table in broker.scoping.tables.values() for book in table.books]
        held = {
            "entries": sum(map(len, books)),
            "told filters": sum(len(book.told(link)) for book in books for link in book.opened),
            "waves": len(broker.waves),
            "clients": len(broker.clients),
            "subscriptions that wait for their past": len(broker.holds.all),
            "publications that wait": len(broker.delivery.waiting),
            "publications on their way to the disk": broker.publications.storing,
            "origins that are waited for": len(broker.recovery.suspended),
            **_of_groups(broker.features.get("groups")),
            **_of_work(broker.features.get("work")),
            **_of_roaming(broker.features.get("roaming")),
        }
        found += [f"{name} holds {count} {what}" for what, count in held.items() if count]
    return found
