"""One broker without sockets, to whose connections bytes are given by hand, and the bytes that it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from tidings import _native
from tidings.broker import Feature
from tidings.broker._joinpoints import Advice, For, Joinpoint
from tidings.broker._links import Link, LinkKind
from tidings.broker._runtime import Heard
from tidings.matching import Index
from tidings.net import Options
from tidings.net._connection import Accepted
from tidings.net._host import Host
from tidings.net._ledger import Ledger
from tidings.net._peer import Peer
from tidings.store import Store
from tidings.wire import VERSION, Envelope, Hello, Parser, Part, PeerRole, Run, encode_words, part

compiled = pytest.mark.skipif(_native.engine is None, reason=f"there is no compiled engine: {_native.WHY_PURE}")
NOW = 1_800_000_000_000_000


class Notebook:
    """A log that syncs when it is told to, and fails when it is told to."""

    def __init__(self) -> None:
        self.full = False
        self._kept: list[tuple[Envelope | Run, Heard]] = []
        self._notes: list[Callable[[], None]] = []
        self.stored: list[Envelope] = []

    def has_room(self, count: int, size: int) -> bool:
        return not self.full

    def keep(self, what: Envelope | Run, heard: Heard) -> None:
        self._kept.append((what, heard))

    def commit(self, error: Exception | None = None) -> None:
        """Everything that waits is on disk now, or nothing of it."""
        kept, self._kept = self._kept, []
        notes, self._notes = self._notes, []
        for note in notes:
            note()
        if kept:
            if error is None:
                for one, _ in kept:
                    self.stored += one.envelopes() if isinstance(one, Run) else [one]
            kept[0][1]([one for one, _ in kept], error)

    def note_unlogged(self, synced: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        self._notes.append(synced)

    def publishers(self) -> dict[str, list[int]]:
        return {}

    def items(self, table: str) -> dict[str, bytes]:
        return {}

    def put(self, *_: Any) -> None: ...

    def delete(self, *_: Any) -> None: ...

    def epochs(self) -> list[int]:
        return [7]

    def ended(self, epoch: int) -> None: ...

    def forgotten(self) -> int:
        return 0


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


class Paper:
    """A journal that nobody reads."""

    def record(self, record: Any, failed: Any) -> None: ...


class Watching(Feature):
    """Advises DELIVER for some clients, and observes publications while somebody wants that."""

    name = "watching"

    def __init__(self) -> None:
        self.links: set[Link] = set()
        self.seen: list[int] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.DELIVER: For(self.links, lambda proceed, *arguments: proceed(*arguments))}

    def watch(self, watching: bool) -> None:
        def observe(envelope: Any, link: Link) -> None:
            self.seen.append(envelope.identity.seq)

        self.context.weave({Joinpoint.PUBLISHED: cast(Advice, observe) if watching else None})


class Site:
    """A broker of one engine, with its clients."""

    def __init__(self, *, pure: bool, patch: pytest.MonkeyPatch, log: Any = None, **options: Any) -> None:
        self.feature, self.log = Watching(), log
        with patch.context() as only:
            if pure:
                only.setattr("tidings.broker.interest._table.make_index", Index)
            self.host = Host(Options(name="b1", port=0, **options), 7, log, [self.feature])
        self.moment = NOW
        self.host.ledger = Ledger(cast(Store, Paper()), lambda: self.moment, lambda *_: None)
        for limit in ("SLICE", "LIGHT_SLICE"):  # how long something takes must not matter
            patch.setattr(f"tidings.net._connection.{limit}", 1e9)
        patch.setattr(self.host, "call_later", self._call_later)
        patch.setattr(self.host.broker.delivery, "_now", lambda: self.moment)
        self.broker = self.host.broker
        self.wires: dict[str, Wire] = {}
        unreadable = self.host.unreadable
        refuse = unreadable.refuse
        patch.setattr(unreadable, "refuse", lambda *arguments: refuse(*arguments[:-1], 0.0))
        self.connections: dict[str, Accepted] = {}

    def _call_later(self, delay: int, action: Callable[[], None]) -> Any:
        """What happens after this turn happens; what happens after a while does not."""
        return asyncio.get_running_loop().call_soon(action if delay == 0 else lambda: None)

    def connect(self, name: str, serialiser: str = "msgpack", **more: Any) -> None:
        connection, wire = Accepted(self.host), Wire()
        connection.connection_made(cast(asyncio.BaseTransport, wire))
        hello = Hello((VERSION,), PeerRole.CLIENT, name, serialisers=(serialiser,), **more)
        connection.data_received(part(Part.HELLO, encode_words(hello)))
        self.wires[name], self.connections[name] = wire, connection

    def peer(self, name: str) -> Peer:
        peer = self.host.peer_of(name, LinkKind.CLIENT)
        assert peer is not None
        return peer

    async def send(self, name: str, data: bytes, cuts: tuple[int, ...] = ()) -> None:
        """Bytes come from a client, in pieces."""
        at = 0
        for cut in (*sorted(cuts), len(data)):
            if at < cut <= len(data):
                self.connections[name].data_received(data[at:cut])
                at = cut
        await asyncio.sleep(0)
        while any(connection._rest is not None for connection in self.connections.values()):
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    def told(self, name: str) -> list[tuple[int, bytes]]:
        """What a client was sent after its welcome, but for acknowledgements of parts, which a timer sends."""
        parts = Parser().feed(bytes(self.wires[name].written))
        return [(kind, payload) for kind, payload in parts if kind not in (Part.WELCOME, Part.ACK)]

    def state(self) -> dict[str, object]:
        """What others can ask about."""
        broker = self.broker
        table, numbers = broker.root, broker.publications.numbers
        return {
            "received": dict(broker.statistics.received),
            "sent": dict(broker.statistics.sent),
            "refused": broker.statistics.refused,
            "last": numbers.last,
            "publishers": list(numbers.publishers.items()),
            "recent": [(one.identity, one.routes, one.body, one.quality) for one in broker.publications.recent],
            "oldest": numbers.oldest,
            "bytes": numbers._bytes,
            "table": (table.lookups, table.copies),
            "taken": {scope: lane.taken for scope, lane in broker.delivery.lanes.all().items()},
            "due": broker.progress.due,
            "sessions": {name: self.peer(name).session.received for name in self.wires if not self.wires[name].closed},
            "seen": self.feature.seen,
            "unsynced": broker.publications.storing,
            "open": broker.publications.open,
            "refusals": broker.publications._refusals,
            "unstored": (broker.statistics.unstored, broker.remembering.trouble),
            "repeated": broker.statistics.repeated_publications,
            "stored": [one.identity for one in self.log.stored] if self.log is not None else [],
        }

    def noted(self) -> dict[str, list[object]]:
        """What the ledger has noted of each client, in order."""
        ledger, found = self.host.ledger, dict[str, list[object]]()
        assert ledger is not None
        sources = list(ledger._sources)
        for row in ledger._rows:
            group = ledger._members[row.group]
            for client in group.clients:
                what = (group.subscriptions, group.past, sources[row.source], row.seq, row.at, row.form)
                found.setdefault(client, []).append(what)
        return found

    @property
    def fed(self) -> int:
        return sum(lane.fed for lane in self.broker.delivery.lanes.all().values())

    async def close(self) -> None:
        for connection in self.connections.values():
            connection.connection_lost(None)
        for peer in self.host.peers:
            self.host.end(peer, "the test is over")
        await asyncio.sleep(0)
