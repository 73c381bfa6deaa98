"""The one seam between the core and the world. `net` and `sim` are its two sides.

The core never reads a clock, a socket, a file or a random number by itself. It is called with one message or
one expired timer at a time (a *turn*), changes its state, and asks the runtime to send, to wait or to store.
A runtime must never call back into the core before the current turn has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from tidings.model import Filter
from tidings.wire import Envelope, Frame, Run, Written

from ._links import Link


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Forget it. Cancelling what has happened already does nothing."""
        ...


Heard: TypeAlias = Callable[[Sequence[Envelope | Run], Exception | None], None]
"""Hears of some that followed one another, in order; and what went wrong, if they are not on disk."""


class Log(Protocol):
    """The durable publications of this broker, its own and nobody else's."""

    @property
    def full(self) -> bool:
        """Whether nothing more can be taken for now."""
        ...

    def has_room(self, count: int, size: int) -> bool:
        """Whether so many publications, with so many bytes of bodies together, can be taken now."""
        ...

    def keep(self, what: Envelope | Run, heard: Heard) -> None:
        """Keep a publication, or a run of them.

        In a later turn, call `heard` when that would survive a crash, or has failed to. Whoever keeps many gives the
        same `heard` each time, and is called once for all that are ready.
        """
        ...

    def read(self, epoch: int, after: int) -> Iterator[Envelope]:
        """What is kept of one epoch with a number above `after`, in order."""
        ...

    def query_in_steps(
        self, filter: Filter, *, since: int | None = None, newest_first: bool = False
    ) -> Iterator[list[Envelope]]:
        """What is kept, passes, and was published then or later, in short steps that give what they found."""
        ...

    def forgotten(self) -> int:
        """The instant before which not everything is kept any more, in microseconds; 0: nothing was ever forgotten."""
        ...

    def epochs(self) -> Iterable[int]:
        """Every epoch that this log has seen, in order."""
        ...

    def ended(self, epoch: int) -> int | None:
        """The last number of an earlier epoch: noted when it ended in order, or, if it crashed and `note_unlogged` was
        never called in it, the last one that is kept; None if nobody knows."""
        ...

    def note_unlogged(self, synced: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Note that this epoch gives numbers to what is not kept here; call back in a later turn, as `put` does.

        A log that is `full` takes the note all the same. `TidingsError` if it takes nothing any more.
        """
        ...

    def put(
        self,
        table: str,
        key: str,
        value: bytes,
        synced: Callable[[], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Keep a piece of small state; in a later turn, call `synced` when it would survive a crash, or `failed`."""
        ...

    def delete(
        self,
        table: str,
        key: str,
        synced: Callable[[], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
    ) -> None:
        """Forget a piece of small state, in order with what is put; one that does not exist is forgotten already."""
        ...

    def items(self, table: str) -> dict[str, bytes]:
        """The small state of a table, by key."""
        ...

    def publishers(self) -> Mapping[str, list[int]]:
        """For each publisher among the latest stored publications, the numbers of its own, in ascending order.

        They begin with 0 if there are certainly no older ones.
        """
        ...


class Runtime(Protocol):
    """What a broker gets from the world."""

    @property
    def epoch(self) -> int:
        """The incarnation of this broker: larger after every restart."""
        ...

    @property
    def log(self) -> Log | None:
        """The durable log, if this broker has a disk."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def send(self, link: Link, frame: Frame) -> None:
        """Put a frame on a link. Links are FIFO."""
        ...

    def send_all(self, links: Mapping[Link, None], frame: Frame) -> None:
        """Put the same frame on several links, as `send` would, in this order.

        Whoever sends to the same links again gives the same mapping, unchanged: a runtime may recognise it.
        """
        ...

    def send_written(self, links: Mapping[Link, None], written: Written) -> None:
        """Put frames that are written already on several links, as `send_all` would one after the other."""
        ...

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None:
        """From now on frames for this link reach `receive`, in the turn that sends them and in the order of sending.

        `receive` must not call the broker: see `_inside`.
        """
        ...

    def close_local(self, link: Link) -> None:
        """Nothing more is sent on this link. Closing one that was not opened does nothing."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own, `delay` microseconds from now."""
        ...
