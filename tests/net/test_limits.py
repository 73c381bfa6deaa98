"""Limits that are limits: nobody shuts a port by sitting on connections, or by what it writes where a number stands."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from net.certificates import Authority
from net.proxy import proxy
from net.world import Raw, connected, options, running, take, until, url, well

import tidings
from tidings.net import Server, _descriptors, serve
from tidings.net._descriptors import RESERVE
from tidings.net._http import MAX_MANAGED, MAX_REQUESTS
from tidings.net._listener import ACCEPT_PAUSE, MARGIN
from tidings.wire import Welcome

ENDLESS = "9" * 5_000
"""A number of more digits than `int` reads."""


async def asked(port: int | None, head: str) -> bytes:
    """What a request is answered; nothing if it is closed without a word."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n\r\n".encode())
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def healthy(server: Server) -> bool:
    return (await asked(server.metrics_port, "GET /health HTTP/1.1")).startswith(b"HTTP/1.1 200")


@contextlib.asynccontextmanager
async def silent(port: int | None, count: int, words: bytes = b"") -> AsyncIterator[list[asyncio.StreamWriter]]:
    """So many connections that say only this."""
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(words)
        writers.append(writer)
    try:
        yield writers
    finally:
        for writer in writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


# --- metrics, health and management -------------------------------------------------------------------


@running
async def test_requests_with_endless_numbers_are_refused_and_leave_nothing_behind() -> None:
    async with serve(options(metrics_port=0, management=True)) as server:
        for _ in range(MAX_REQUESTS + 1):
            answer = await asked(server.metrics_port, f"POST /scopes HTTP/1.1\r\nContent-Length: {ENDLESS}")
            assert answer.startswith(b"HTTP/1.1 413")
        for length in ("", "-1", "1e3", "٣", "0x10", "1 1"):
            answer = await asked(server.metrics_port, f"POST /scopes HTTP/1.1\r\nContent-Length: {length}")
            assert answer.startswith((b"HTTP/1.1 411", b"HTTP/1.1 413"))
        for limit in (ENDLESS, "0", "1001", "-1", "١"):
            answer = await asked(server.metrics_port, f"GET /scopes/log?limit={limit} HTTP/1.1\r\nHost: localhost")
            assert answer.startswith(b"HTTP/1.1 400")
            assert b"from 1 to 1000" in answer
        assert await healthy(server)


@pytest.mark.parametrize(
    "words",
    [b"", b"GET /health HTTP/1.1\r\n", b"POST /scopes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"],
    ids=["nothing", "half a head", "no body"],
)
@running
async def test_connections_that_do_not_finish_their_request_do_not_shut_the_pages(words: bytes) -> None:
    """Renewed as soon as they are closed, as somebody would who wants to keep others out."""
    async with serve(options(metrics_port=0, management=True)) as server:
        for _ in range(4):
            async with silent(server.metrics_port, MAX_REQUESTS + 6, words):
                for _ in range(3):
                    began = time.monotonic()
                    assert await healthy(server)
                    assert time.monotonic() - began < 1  # a supervisor that waits no longer would end the broker
                assert server.pages is not None
                assert server.pages.count <= MAX_REQUESTS
        await until(lambda: server.pages.count == 0)


@running
async def test_management_takes_so_many_requests_at_a_time_and_health_is_still_there(tmp_path: Path) -> None:
    question = b"GET /scopes/log HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with (
        serve(options("a", authority="a", data=tmp_path)) as a,
        proxy(a.port) as way,
        serve(options("b", metrics_port=0, management=True, authority="a", neighbours=(way.url,))) as b,
    ):
        await until(lambda: connected([a, b]))
        way.stall()  # the authority does not answer
        async with silent(b.metrics_port, MAX_MANAGED, question):
            assert b.pages is not None
            await until(lambda: b.pages.managed == MAX_MANAGED)
            answer = await asked(b.metrics_port, question.decode().rstrip())
            assert answer.startswith(b"HTTP/1.1 503")
            assert f"already working on {MAX_MANAGED} requests".encode() in answer
            async with silent(b.metrics_port, MAX_REQUESTS):
                assert await healthy(b)
        way.flow()
        await until(lambda: b.pages.managed == 0)


# --- the port of the broker ---------------------------------------------------------------------------


@running
async def test_connections_without_a_hello_make_room_for_others() -> None:
    async with serve(options(limits={"connections": 20}, metrics_port=0)) as server:
        assert server.listener is not None
        async with silent(server.port, 60):
            await until(lambda: server.listener.dismissed == 40)
            assert server.listener.count == 20
            page = await asked(server.metrics_port, "GET /metrics HTTP/1.1")
            assert b"\ntidings_connections 20.0\n" in page
            assert b"\ntidings_connections_dismissed_total 40.0\n" in page
            assert b"\ntidings_accept_failures_total 0.0\n" in page
            await well(server)


@running
async def test_connections_that_never_begin_tls_are_counted_make_room_and_time_out(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    limits = {"connections": 20, "handshake": 1.0}
    async with serve(options(tls=authority.sign("localhost"), limits=limits)) as server:
        assert server.listener is not None
        async with silent(server.port, 60):
            await until(lambda: server.listener.dismissed >= 40)
            assert server.listener.count <= 20
            address = f"tidings+tls://localhost:{server.port}"
            async with tidings.connect(address, tls=authority.trust()) as client:
                await (await client.publish(n=1))
                await until(lambda: server.listener.count == 1)  # they are still there; the time is up
        await until(lambda: server.listener.count == 0)


@running
async def test_a_full_house_tells_those_who_ask_and_is_never_fuller_than_it_says() -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serve(options(limits={"connections": 5})))
        assert server.listener is not None
        for _ in range(5):
            await stack.enter_async_context(tidings.connect(url(server)))
        await stack.enter_async_context(silent(server.port, 3 * MARGIN))
        await until(lambda: server.listener.dismissed == 2 * MARGIN)
        assert server.listener.count == 5 + MARGIN
        assert server.host.peer_count == 5
        async with await Raw.open(server) as raw:
            assert (await raw.hello()).code == "full"  # type: ignore[union-attr]


@running
async def test_a_stopping_server_ends_handshakes_that_are_under_way(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        async with serve(options(tls=authority.sign("localhost"))) as server:
            await stack.enter_async_context(silent(server.port, 3))
            await until(lambda: server.listener.count == 3)


@running
async def test_a_stopping_server_takes_nothing_more_so_its_queues_empty_however_much_is_sent() -> None:
    async def publish(client: tidings.Client) -> None:
        while True:
            await client.publish(n=1)

    async def session(server: Server) -> None:
        async with tidings.connect(url(server)) as client:
            subscription = await client.subscribe("n = 1")
            publishing = asyncio.create_task(publish(client))
            reading = asyncio.create_task(take(subscription, 10**9))
            await until(lambda: server.host.broker.publications.last > 1_000)
            try:
                async with asyncio.timeout(20):
                    await server.stop()
            finally:
                for task in (publishing, reading):
                    task.cancel()
                await asyncio.gather(publishing, reading, return_exceptions=True)
            raise ZeroDivisionError  # so it leaves without a flush: nobody would take it

    server = Server(options(limits={"drain": 60.0}))
    await server.start()
    with pytest.raises(ZeroDivisionError):
        await session(server)


# --- file descriptors ---------------------------------------------------------------------------------

HUNGRY = """
import asyncio, logging, os, resource, sys
from tidings.net import Limits, Options, serve

connections, soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

async def main():
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    async with serve(Options(port=0, limits=Limits(connections=connections))) as server:
        print(server.port, resource.getrlimit(resource.RLIMIT_NOFILE)[0], server.host.max_connections, flush=True)
        eaten = []
        while (command := await asyncio.to_thread(sys.stdin.readline)) != "end\\n":
            while command == "eat\\n":
                try:
                    eaten.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    break
            while command == "free\\n" and eaten:
                os.close(eaten.pop())
            print(len(eaten), flush=True)

asyncio.run(main())
"""


class Hungry:
    """A broker in a process of its own that may have so many descriptors, and takes all of them if told."""

    def __init__(self, connections: int, soft: int, hard: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HUNGRY, str(connections), str(soft), str(hard)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port, self.descriptors, self.connections = map(int, self._process.stdout.readline().split())

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline()

    def end(self) -> list[str]:
        """The lines of its log."""
        return self._process.communicate("end\n", timeout=30)[1].splitlines()


def test_the_soft_limit_of_descriptors_is_raised_as_far_as_the_connections_need() -> None:
    broker = Hungry(300, soft=128, hard=1_000)
    assert broker.descriptors == 300 + RESERVE
    assert broker.connections == 300
    assert broker.end() == []


def test_fewer_descriptors_than_connections_are_warned_of_and_bound_the_connections() -> None:
    broker = Hungry(20_000, soft=128, hard=600)
    assert broker.descriptors == 600
    assert broker.connections == 600 - RESERVE
    (warning,) = broker.end()
    assert warning.startswith("WARNING 600 file descriptors suffice for 344 connections, not for 20000; allow 20256")


@pytest.mark.parametrize(("chosen", "level"), [(True, "INFO"), (False, "DEBUG")])
def test_a_narrow_limit_of_descriptors_is_logged_for_those_who_chose_the_connections(
    chosen: bool, level: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_descriptors, "_raised", lambda needed: 20_000)
    with caplog.at_level("DEBUG", "tidings.net"):
        assert _descriptors.room_for(20_000, chosen=chosen) == 20_000 - RESERVE
    assert [record.levelname for record in caplog.records] == [level]


@running
async def test_running_out_of_descriptors_is_told_once_and_passes() -> None:
    broker = await asyncio.to_thread(Hungry, 50, 128, 128)
    await asyncio.to_thread(broker.tell, "eat")
    async with silent(broker.port, 5):
        await asyncio.sleep(4 * ACCEPT_PAUSE)
        await asyncio.to_thread(broker.tell, "free")
        async with await Raw.open(broker.port) as raw:
            assert isinstance(await raw.hello(), Welcome)
    (error,) = await asyncio.to_thread(broker.end)
    assert error.startswith(f"ERROR cannot accept connections on port {broker.port}")
    assert "too many open files" in error
    assert "ulimit -n" in error
