"""A vigil: asks a silent peer for a sign of life, and gives its connection up if none comes.

Theory of operation
-------------------
A peer has a *heartbeat*: that of the broker, or for a client a third of the silence that it has asked for, or that is
configured for its name. A peer from which nothing has come for that long gets a ping, and another one after each half
of it; after three heartbeats its connection is given up, and its session waits. A client asks by itself after a
heartbeat, so its broker waits a little longer (`PATIENCE`), and an idle connection costs one question and one answer.

A client that has said nothing for its silence counts as away, even where the connection is given up later
(`client_silence`). A timer that is late by more than a heartbeat says that this process stood still: then nobody can
have been heard, and nobody is judged.

A neighbour that answers pings may still keep others waiting: it tells of its links, so that the tree uses them, and
never joins the tree. After `join_seconds` of that its link is given up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidings.wire import BEATS, Part, Stream, part

if TYPE_CHECKING:
    from ._host import Host
    from ._peer import Peer

log = logging.getLogger("tidings.net")

PATIENCE = 1.25
"""How many heartbeats of silence a client has to ask by itself, before it is asked."""


class Vigil:
    """Watches one connection of a peer until it ends."""

    def __init__(self, host: Host, peer: Peer, stream: Stream) -> None:
        limits = host.options.limits
        self._host = host
        self._peer = peer
        self._stream = stream
        self._heartbeat = peer.silence / BEATS if peer.silence else limits.heartbeat
        self._quiet = self._heartbeat
        self._away = peer.silence or limits.client_silence
        if peer.link.is_client:
            self._quiet = min(PATIENCE * self._heartbeat, self._away / 2)
        self._plan(self._quiet / 2)

    def _plan(self, seconds: float) -> None:
        self._due = self._host.loop.time() + seconds
        self._timer: asyncio.TimerHandle = self._host.loop.call_at(self._due, self._look)

    def end(self) -> None:
        """The connection is gone, or another one has taken its place."""
        self._timer.cancel()

    def _look(self) -> None:
        peer, stream, now = self._peer, self._stream, self._host.loop.time()
        late = now - self._due > self._heartbeat
        silence = now - stream.last_heard
        peer.ask_time()
        if stream.paused:
            stream.write(part(Part.PING))  # this side does not listen, and says that it is there
        elif silence >= BEATS * self._heartbeat and not late:
            log.warning("%s %s is silent; closing its connection", peer.link.kind.value, peer.link.name)
            stream.abort()
            return
        else:
            if silence >= self._quiet:
                stream.write(part(Part.PING))
            if peer.link.is_client:
                self._judge(silence, late=late)
            elif self._has_not_joined(now, late=late):
                return
        wait = self._quiet / 2
        if peer.link.is_client and not stream.paused:
            wait = max(wait, self._quiet - silence)
        self._plan(wait)

    def _judge(self, silence: float, *, late: bool) -> None:
        """Tell the broker whether a client is there."""
        if silence <= self._away:
            self._host.back(self._peer)
        elif not late:
            self._host.away(self._peer)

    def _has_not_joined(self, now: float, *, late: bool) -> bool:
        """Whether the link of a neighbour is given up, because it does not join the tree that uses this link."""
        peer, limit = self._peer, self._host.options.limits.join_seconds
        if late or not self._host.broker.awaits(peer.link):
            peer.awaited_since = now
        if now - peer.awaited_since < limit:
            return False
        reason = (
            f"broker '{peer.link.name}' told of its links and did not join the tree within {limit:g} seconds; "
            "check that it runs a version of Tidings that its neighbours understand"
        )
        log.warning("%s; closing its connection", reason)
        self._host.disconnect(peer, "not-joined", reason)
        return True
