"""Congestion: who waits while a peer's queue is full.

Theory of operation
-------------------
A turn of the broker belongs to the peer that was read, so what the turn sends is that peer's doing. If it goes into a
full queue, the peer that was read, and no other, *waits* for the full one: it is not read from until the full one has
room again. Publications that have waited go on behalf of their publishers (`Broker.charge`), which then wait as well.
What timers send has no source; those who send it ask beforehand (`Broker.crowded`).

- A full peer is always read from, because its acknowledgements are what the others wait for. So a peer that waits is
  not full itself, and whom it waits for does not wait: this cannot lock up.
- A *client* holds up other clients only, with the policy `block`, while it is connected and has seconds left (see
  `_patience`). The link of a neighbour is shared by everybody behind it, so no client holds it up.
- A *neighbour* holds up everybody who feeds it, for as long as it acknowledges anything. A neighbour that acknowledges
  nothing for `stall_seconds` is given up. A neighbour that does not read, because it waits for somebody itself, says
  again what it has got; so the broker next to the one that does not move gives it up, and no other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ._options import SlowPolicy

if TYPE_CHECKING:
    from ._patience import Patience
    from ._peer import Peer

STALL_STEPS = 4
"""In how many steps `stall_seconds` are counted: a pause of this process is one step, however long it was."""


class Congestion:
    """Of one peer: since when its queue is full, who waits for it, and for whom it waits."""

    def __init__(self, peer: Peer, patience: Patience, stall_seconds: float) -> None:
        self._peer = peer
        self._patience = patience
        self._step = stall_seconds / STALL_STEPS
        self._loop = peer.host.loop
        self.since: float | None = None
        """When the queue became full."""
        self.waits_for: set[Congestion] = set()
        """The full ones that its peer has sent to: it is not read from until they have room."""
        self._held_up: set[Congestion] = set()
        self._holding_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._idle_steps = 0
        self._still_here: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The queue is full."""
        if self.since is None:
            self.since = self._loop.time()
            self._wait_for_nobody()
            if self._peer.link.is_broker:
                self.progress()
                self._timer = self._loop.call_later(self._step, self._look)

    def end(self) -> None:
        """The queue has room again, or the link has ended."""
        self.since = None
        self.release()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def hold_up(self, source: Peer | None) -> bool:
        """Let the peer whose turn this is wait; False: it must not, so that something has to be dropped."""
        if self._peer.link.is_client and not self._may_hold_up(source):
            return False
        if source is not None and (other := source.congestion).since is None and self not in other.waits_for:
            if not self._held_up and self._peer.link.is_client:
                self._spend()
            self._held_up.add(other)
            other._wait_for(self)
        return True

    def _may_hold_up(self, source: Peer | None) -> bool:
        peer = self._peer
        if peer.policy is not SlowPolicy.BLOCK or peer.stream is None or (source is not None and source.link.is_broker):
            return False
        return bool(self._held_up) or self._left() > 0

    # --- the seconds of a client ----------------------------------------------------------------------

    @property
    def _identity(self) -> str:
        return self._peer.identity.name if self._peer.identity is not None else ""

    def _left(self) -> float:
        return self._patience.left(self._identity, self._peer.link.name, self._loop.time())

    def _spend(self) -> None:
        self._holding_since = self._loop.time()
        self._timer = self._loop.call_later(self._left(), self.release)

    def release(self) -> None:
        """Nobody waits for this peer any longer."""
        held_up, self._held_up = self._held_up, set()
        for other in held_up:
            other.waits_for.discard(self)
            other._go_on()
        if held_up:
            self._spent()

    def _spent(self) -> None:
        if self._peer.link.is_client:
            now = self._loop.time()
            self._patience.spend(self._identity, self._peer.link.name, now - self._holding_since, now)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    # --- the progress of a neighbour ------------------------------------------------------------------

    def progress(self) -> None:
        """A neighbour has acknowledged something, or has said that it waits itself."""
        self._idle_steps = 0

    def _look(self) -> None:
        self._idle_steps += 1
        if self._idle_steps >= STALL_STEPS:
            self._timer = None
            self._peer.give_up(f"its queue is full, and it acknowledged nothing for {self._step * STALL_STEPS:g} s")
        else:
            self._timer = self._loop.call_later(self._step, self._look)

    # --- waiting for others ---------------------------------------------------------------------------

    def _wait_for(self, full: Congestion) -> None:
        self.waits_for.add(full)
        if self._peer.link.is_broker and self._still_here is None:
            self._still_here = self._loop.call_later(self._step, self._say_so)

    def _say_so(self) -> None:
        self._peer.still_here()
        self._still_here = self._loop.call_later(self._step, self._say_so)

    def _go_on(self) -> None:
        if self.waits_for:
            return
        if self._still_here is not None:
            self._still_here.cancel()
            self._still_here = None
        if self._peer.stream is not None:
            self._peer.stream.unpause()

    def _wait_for_nobody(self) -> None:
        waited_for, self.waits_for = self.waits_for, set()
        for full in waited_for:
            full._held_up.discard(self)
            if not full._held_up:
                full._spent()
        self._go_on()

    def close(self) -> None:
        """The link has ended: nobody waits for it, and it waits for nobody."""
        self.end()
        self._wait_for_nobody()
