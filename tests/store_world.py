"""What the tests of the store share: publications, and answers collected in order."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidings.model import ROOT_ROUTE, Identity, Notification
from tidings.store import Store, StoreError
from tidings.wire import Envelope, Quality, encode_body


def envelope(epoch: int, seq: int, publisher: str = "p", publisher_seq: int | None = None, **more: Any) -> Envelope:
    """A publication whose content tells its number."""
    identity = Identity("b", epoch, seq, publisher, seq if publisher_seq is None else publisher_seq, 1_000 * seq)
    return Envelope(identity, (ROOT_ROUTE,), encode_body(Notification(n=seq, **more)), Quality.STORED)


class Loop:
    """Stands for the broker's loop: what is posted runs when the test says so."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.synced: list[int] = []
        self.failed: list[tuple[int, StoreError]] = []

    def post(self, call: Callable[[], None]) -> None:
        self.posted.put(call)

    def turn(self, timeout: float = 20) -> None:
        """Run the next thing that is posted."""
        self.posted.get(timeout=timeout)()

    def append(self, store: Store, seq: int, **more: Any) -> None:
        store.append(
            envelope(store.epoch, seq, **more),
            lambda: self.synced.append(seq),
            lambda error: self.failed.append((seq, error)),
        )

    def append_all(self, store: Store, *seqs: int, **more: Any) -> None:
        """Append, and wait until everything has been answered."""
        answered = len(self.synced) + len(self.failed) + len(seqs)
        for seq in seqs:
            self.append(store, seq, **more)
        while len(self.synced) + len(self.failed) < answered:
            self.turn()

    def open(self, directory: Path, **options: Any) -> Store:
        return Store.open(directory, post=self.post, **options)


def numbers(store: Store, epoch: int | None = None, after: int = 0) -> list[int]:
    return [found.identity.seq for found in store.read(store.epoch if epoch is None else epoch, after)]
