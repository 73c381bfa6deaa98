"""A disk that forgets: what was written but not synced does not survive a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from tidings.broker import Heard
from tidings.model import Filter, TidingsError
from tidings.wire import Envelope, Run

from ._scheduler import Event, Scheduler

_UNLOGGED = "unlogged"
"""The table of the epochs that have given numbers to what is not on this disk."""


class SimDisk:
    """The durable log of one broker. Writes are synced together, `sync_time` microseconds after the first."""

    def __init__(self, scheduler: Scheduler, sync_time: int) -> None:
        self._scheduler = scheduler
        self.sync_time = sync_time
        """Microseconds between the first write and the sync of all that have come meanwhile."""
        self._synced: dict[int, list[Envelope]] = {}
        self._written: list[tuple[Envelope | Run, Heard]] = []
        self._tables: dict[str, dict[str, bytes]] = {}
        self._putting: list[tuple[str, str, bytes | None, Callable[[], None] | None]] = []
        """Small state on its way to the disk; None: it is to be forgotten."""
        self._sync: Event | None = None
        self._epochs: list[int] = []
        self.full = False
        """Whether it takes nothing more for now, except the note that something is not stored."""

    def begin(self, epoch: int | None = None) -> int:
        """The broker starts: return its epoch, the next number unless one is given that is larger than all before."""
        self._epochs.append(len(self._epochs) + 1 if epoch is None else epoch)
        return self._epochs[-1]

    def epochs(self) -> Sequence[int]:
        """The epochs so far, one for each start of the broker."""
        return self._epochs

    def has_room(self, count: int, size: int) -> bool:
        """Whether it takes so much more."""
        return not self.full

    def keep(self, what: Envelope | Run, heard: Heard) -> None:
        """Write; `heard` is called when the write would survive a crash."""
        self._check_room()
        self._written.append((what, heard))
        if self._sync is None:
            self._sync = self._scheduler.after(self.sync_time, self._flush)

    def put(
        self,
        table: str,
        key: str,
        value: bytes | None,
        synced: Callable[[], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Keep a piece of small state; None forgets it."""
        self._check_room()
        self._put(table, key, value, synced)

    def _put(self, table: str, key: str, value: bytes | None, synced: Callable[[], None] | None) -> None:
        self._putting.append((table, key, value, synced))
        if self._sync is None:
            self._sync = self._scheduler.after(self.sync_time, self._flush)

    def _check_room(self) -> None:
        if self.full:
            raise TidingsError("this disk is full; wait until it takes something again")

    def delete(
        self,
        table: str,
        key: str,
        synced: Callable[[], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Forget a piece of small state."""
        self.put(table, key, None, synced, failed)

    def items(self, table: str) -> dict[str, bytes]:
        """The small state of a table, synced or not."""
        waiting = {key: value for where, key, value, _ in self._putting if where == table}
        found = {**self._tables.get(table, {}), **waiting}
        return {key: value for key, value in found.items() if value is not None}

    def read(self, epoch: int, after: int) -> Iterator[Envelope]:
        """Return what the running broker can read of an epoch, synced or not."""
        pending = (envelope for what, _ in self._written for envelope in _envelopes(what))
        kept = [*self._synced.get(epoch, ()), *(one for one in pending if one.identity.epoch == epoch)]
        return (envelope for envelope in kept if envelope.identity.seq > after)

    def query_in_steps(
        self, filter: Filter, *, since: int | None = None, newest_first: bool = False
    ) -> Iterator[list[Envelope]]:
        """Yield what the running broker can find, one epoch in each step."""
        for epoch in reversed(self.epochs()) if newest_first else self.epochs():
            found = [
                envelope
                for envelope in self.read(epoch, 0)
                if (since is None or envelope.identity.published_at >= since) and filter.matches(envelope.notification)
            ]
            yield found[::-1] if newest_first else found

    def forgotten(self) -> int:
        """Nothing is forgotten here, as long as it was synced."""
        return 0

    def ended(self, epoch: int) -> int | None:
        """Return the last number of an epoch, or None if it is not known.

        Here epochs end in crashes, so it is known only if everything that had a number was kept.
        """
        if str(epoch) in self._tables.get(_UNLOGGED, {}):
            return None
        kept = self._synced.get(epoch, ())
        return kept[-1].identity.seq if kept else 0

    def note_unlogged(self, synced: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Note that this epoch gives numbers to what is not kept."""
        self._put(_UNLOGGED, str(self._epochs[-1] if self._epochs else 0), b"", synced)

    def publishers(self) -> dict[str, list[int]]:
        """The numbers of each publisher among what is synced, in ascending order behind 0."""
        found: dict[str, list[int]] = {}
        for envelopes in self._synced.values():
            for envelope in envelopes:
                found.setdefault(envelope.identity.publisher, []).append(envelope.identity.publisher_seq)
        return {publisher: [0, *sorted(numbers)] for publisher, numbers in found.items()}

    def crash(self) -> None:
        """Lose every write that was not synced."""
        self._written.clear()
        self._putting.clear()
        if self._sync is not None:
            self._sync.cancel()
            self._sync = None

    def _flush(self) -> None:
        self._sync = None
        written, self._written = self._written, []
        for what, _ in written:
            for envelope in _envelopes(what):
                self._synced.setdefault(envelope.identity.epoch, []).append(envelope)
        putting, self._putting = self._putting, []
        for table, key, value, _ in putting:
            self._tables.setdefault(table, {}).pop(key, None)
            if value is not None:
                self._tables[table][key] = value
        for heard, group in groupby(written, key=lambda one: one[1]):
            heard([what for what, _ in group], None)
        for *_, kept in putting:
            if kept is not None:
                kept()


def _envelopes(what: Envelope | Run) -> Sequence[Envelope]:
    return what.envelopes() if isinstance(what, Run) else (what,)
