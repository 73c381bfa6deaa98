"""The scope graph and its past, from the stores of brokers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidings.model import ScopeError
from tidings.scopes import GRAPH_TABLE, Graph, Versions, decode_snapshot, decode_transaction
from tidings.store import StoreReader


def scope_graph(data: str | Path, version: int | None = None) -> Graph:
    """Return a version of the scope graph from the data directory of a broker: by default the newest that it has."""
    with StoreReader(data) as store:
        base, changes = history([store])
    versions = Versions(decode_snapshot(base).graph() if base else None, map(decode_transaction, changes))
    if version is None:
        return versions.graph
    if (plan := versions.recall(version)) is None:
        known = f"{versions.base.version} to {versions.newest}"
        raise ScopeError(f"{data} holds versions {known} of the scope graph, not {version}; ask another broker")
    return plan.graph


def history(stores: Iterable[StoreReader]) -> tuple[bytes, list[bytes]]:
    """The history of the scope graph, from the broker that knows most of it."""
    best: tuple[bytes, list[bytes]] = (b"", [])
    most = (0, 0)
    for store in stores:
        kept = store.items(GRAPH_TABLE)
        base = kept.pop("base", b"")
        version = decode_snapshot(base).version if base else 0
        changes = []
        while (change := kept.get(f"{version + 1:015d}")) is not None:  # up to the first that the disk refused
            changes.append(change)
            version += 1
        if (len(changes), version) > most:
            best, most = (base, changes), (len(changes), version)
    return best
