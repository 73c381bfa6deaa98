"""The kept graph: the scope graph on a broker's disk, as one whole graph and the changes that followed it.

A version is put there as the change that made it. When so many have come that the oldest are folded into a whole graph
(see `_versions`), that is put there, and once it would survive a crash, the changes in it are forgotten. So what a
broker keeps is bounded, however often the graph changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidings.broker import Log
from tidings.model import TidingsError
from tidings.scopes._graph import Graph
from tidings.scopes._messages import Snapshot, Transaction, decode_snapshot, decode_transaction, encode

from ._versions import Versions

TABLE = "graph"
"""Where the graph is in a broker's store."""
_BASE = "base"


class KeptGraph:
    """What one broker keeps of the graph. Without a disk, nothing."""

    def __init__(self, log: Log | None) -> None:
        self._log = log
        self._changes: set[int] = set()
        """The versions that are there as changes, or on their way."""
        self._folded = 0
        """The version of the whole graph that is there, or on its way."""

    def read(self) -> Versions | None:
        """What the disk holds; None: nothing."""
        kept = self._log.items(TABLE) if self._log is not None else {}
        if not kept:
            return None
        base = decode_snapshot(kept.pop(_BASE)).graph() if _BASE in kept else Graph()
        self._folded = base.version
        changes = sorted(map(decode_transaction, kept.values()), key=lambda change: change.version)
        self._changes = {change.version for change in changes}
        versions = Versions(base, _following(base.version, changes))
        self._forget(base.version)  # what a crash has left there
        self.fold(versions)
        return versions

    def put(self, change: Transaction, synced: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Keep a version; `synced` is called once it would survive a crash, `failed` if it cannot be kept."""
        self._changes.add(change.version)
        if self._log is None:
            synced()
        else:
            self._put(_key(change.version), encode(change), synced, failed)

    def fold(self, versions: Versions) -> None:
        """If changes have been folded into a whole graph, keep that instead of them."""
        base, before = versions.base, self._folded
        if base.version <= before:
            return

        def failed(error: Exception) -> None:
            self._folded = before  # with the next version it is tried again

        self._folded = base.version
        self._put(_BASE, encode(Snapshot.of(base)), lambda: self._forget(base.version), failed)

    def _put(self, key: str, value: bytes, synced: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        if self._log is None:
            synced()
            return
        try:
            self._log.put(TABLE, key, value, synced, failed)
        except TidingsError as error:
            failed(error)

    def _forget(self, version: int) -> None:
        """Forget the changes up to this version; what the disk does not take now is forgotten with the next ones."""
        for old in sorted(known for known in self._changes if known <= version):
            try:
                if self._log is not None:
                    self._log.delete(TABLE, _key(old))
            except TidingsError:
                return
            self._changes.discard(old)


def _key(version: int) -> str:
    return f"{version:015d}"


def _following(version: int, changes: list[Transaction]) -> Iterator[Transaction]:
    """The changes that follow a version, up to the first that the disk refused: neighbours know the others."""
    for change in changes:
        if change.version == version + 1:
            version += 1
            yield change
