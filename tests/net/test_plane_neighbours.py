"""What one broker passes on as bytes is what another one, without a plane, passes on message by message."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from net.plane_world import compiled
from net.world import connected, options, running, take, until, url

import tidings
from tidings.matching import Index
from tidings.net import Server, serve
from tidings.net._connection import Connection
from tidings.wire import Notify, Parser, Part, Quality, decode

COUNT = 400


class Taps:
    """Everything that brokers read, by the reader and by whom it came from."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._read: dict[Connection, bytearray] = {}
        received = Connection.data_received

        def tap(connection: Connection, data: bytes) -> None:
            self._read.setdefault(connection, bytearray()).extend(data)
            received(connection, data)

        patch.setattr(Connection, "data_received", tap)

    def notified(self, reader: str, sender: str) -> list[bytes]:
        """The frames with notifications, as they came."""
        for connection, data in self._read.items():
            peer = connection.peer
            if connection.host.broker.name == reader and peer is not None and peer.link.name == sender:
                payloads = [payload for kind, payload in Parser().feed(bytes(data)) if kind == Part.DATA]
                return [one for one in payloads if type(decode(one).message) is Notify]
        return []


@contextlib.asynccontextmanager
async def two_ways(patch: pytest.MonkeyPatch) -> AsyncIterator[dict[str, Server]]:
    """A broker with two neighbours, of which one has no plane; behind each of them is another broker."""
    servers: dict[str, Server] = {}
    async with contextlib.AsyncExitStack() as stack:
        for name, dials in {"source": "", "bytes": "source", "pure": "source", "b2": "bytes", "p2": "pure"}.items():
            neighbours = (url(servers[dials]),) if dials else ()
            with patch.context() as only:
                if name == "pure":
                    only.setattr("tidings.broker.interest._table.make_index", Index)
                servers[name] = await stack.enter_async_context(serve(options(name, neighbours=neighbours)))
        await until(lambda: connected(servers.values()))
        yield servers


def fed(server: Server) -> int:
    return sum(lane.fed for lane in server.host.broker.delivery.lanes.all().values())


@compiled
@running
async def test_neighbours_get_the_same_bytes_over_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    taps = Taps(monkeypatch)
    for limit in ("SLICE", "LIGHT_SLICE"):  # how long something takes must not matter
        monkeypatch.setattr(f"tidings.net._connection.{limit}", 1e9)
    async with two_ways(monkeypatch) as servers, contextlib.AsyncExitStack() as stack:
        heard = []
        for name in ("b2", "p2", "bytes", "pure"):
            client = await stack.enter_async_context(tidings.connect(url(servers[name]), name=f"c-{name}"))
            heard.append(await client.subscribe("n EXISTS AND n < 300 OR last = true"))
            heard.append(await client.subscribe("text LIKE '%7%' OR last = true"))
        publisher = await stack.enter_async_context(tidings.connect(url(servers["source"])))
        await until(lambda: not any(server.host.broker.recovery.active for server in servers.values()))
        for n in range(COUNT):
            quality = Quality.FIRE if n % 50 < 40 else Quality.ACCEPTED
            text = "ü" * (n % 300) + str(n)
            await publisher.publish({"n": n, "text": text}, quality=quality, ttl=n + 1 if n % 3 else None)
        await publisher.publish({"n": -1, "last": True})
        wanted = sum(n < 300 or "7" in str(n) for n in range(COUNT)) + 1
        for one, other in zip(heard[::2], heard[1::2], strict=True):
            assert [each["n"] for each in await take(one, 301)] == [*range(300), -1]
            assert (await take(other, sum("7" in str(n) for n in range(COUNT)) + 1))[-1]["last"]
        assert len(taps.notified("b2", "bytes")) == wanted
        assert taps.notified("b2", "bytes") == taps.notified("p2", "pure")
        assert fed(servers["bytes"]) > COUNT / 8  # on a busy machine, the first go by Python: the network still settles
        assert fed(servers["pure"]) == 0
