"""How soon a lost connection is noticed: silences that are agreed, processes that slept, addresses that changed."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from net.proxy import proxy
from net.test_links import Noting
from net.world import Raw, brokers, options, running, serve, take, until, url

import tidings
from tidings.client import _vigil
from tidings.mobility import MobilityOptions
from tidings.net import Server
from tidings.wire import VERSION, Parser, Part, Reject, Welcome, encode_words, part

SHORT = 0.6
"""A silence that a test can wait for; without one it is 30 seconds."""


@running
@pytest.mark.req("MOB-019")
async def test_a_broker_gives_up_a_client_after_the_silence_that_it_asked_for() -> None:
    noting = Noting()
    async with serve(options("b"), [noting]) as server, await Raw.open(server) as silent, await Raw.open(server) as pc:
        begun = asyncio.get_running_loop().time()
        welcome = await silent.hello("phone", silence=SHORT)
        assert isinstance(welcome, Welcome)
        assert welcome.heartbeat == pytest.approx(SHORT / 3)
        assert isinstance(await pc.hello("pc"), Welcome)
        await silent.gone()
        assert SHORT <= asyncio.get_running_loop().time() - begun < 5
        await until(lambda: noting.seen == [("away", "phone")])
        assert [peer.link.name for peer in server.host.peers if peer.stream is not None] == ["pc"]


@running
async def test_a_client_gives_up_a_broker_after_the_silence_that_it_asked_for_and_loses_nothing() -> None:
    async with brokers("b") as servers, proxy(servers["b"].port) as way:
        async with (
            tidings.connect(way.url, name="phone", silence=SHORT) as phone,
            tidings.connect(url(servers["b"])) as pc,
        ):
            news = await phone.subscribe("EXISTS(n)")
            way.strand()
            begun = time.monotonic()
            await pc.publish(n=1)
            assert [one["n"] for one in await take(news, 1)] == [1]
            assert time.monotonic() - begun < 10
            assert phone.statistics().reconnects == 1


@running
async def test_an_idle_client_with_a_short_silence_stays_connected() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"]), silence=0.5) as phone:
        await asyncio.sleep(1.6)
        assert phone.statistics().reconnects == 0


@running
async def test_a_client_keeps_its_own_silence_with_a_broker_that_knows_of_none() -> None:
    """A broker of an older version says its own heartbeat; this side asks and gives up by itself."""
    dialled: list[int] = []
    pings: list[int] = []
    open_: set[asyncio.StreamWriter] = set()

    async def older(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.append(1)
        open_.add(writer)
        parser = Parser()
        try:
            while data := await reader.read(65_536):
                for kind, _ in parser.feed(data):
                    if kind == Part.HELLO:
                        writer.write(part(Part.WELCOME, encode_words(Welcome(VERSION, "older", "secret"))))
                    pings.extend([kind] * (kind == Part.PING))
        finally:
            writer.transport.abort()
            open_.discard(writer)

    server = await asyncio.start_server(older, "127.0.0.1", 0)
    async with server:
        address = f"tidings://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with tidings.connect(address, name="phone", silence=SHORT):
            await until(lambda: len(dialled) == 2)
            assert pings
        await until(lambda: not open_)


@running
async def test_the_configuration_has_silences_for_patterns_of_names_and_the_first_that_matches_counts() -> None:
    async with serve(options("b", mobility=MobilityOptions(silence={"phone-1": 60.0, "phone-*": SHORT}))) as server:
        assert await _heartbeat(server, "phone-1") == 20.0
        assert await _heartbeat(server, "phone-2") == pytest.approx(SHORT / 3)
        assert await _heartbeat(server, "pc") == 10.0
        assert await _heartbeat(server, "phone-3", silence=6.0) == 2.0  # its own word counts


async def _heartbeat(server: Server, name: str, **more: float) -> float:
    async with await Raw.open(server) as client:
        welcome = await client.hello(name, **more)
        assert isinstance(welcome, Welcome)
        return welcome.heartbeat


@pytest.mark.parametrize("silence", [0.4, 601.0, -1.0, float("nan"), float("inf")])
@running
async def test_a_silence_out_of_bounds_is_refused_by_either_side(silence: float) -> None:
    with pytest.raises(tidings.ArgumentRefused, match=r"a silence of .* seconds; give one from 0\.5 to 600"):
        tidings.connect(silence=silence)
    async with serve(options("b")) as server, await Raw.open(server) as client:
        refused = await client.hello("phone", silence=silence)
        assert isinstance(refused, Reject)
        assert "seconds; ask for one from 0.5 to 600, or for none" in refused.reason
        assert not server.host.peers


def _late(seconds: float) -> SimpleNamespace:
    """The time of day of a machine that slept just now, while the clocks of its loops stood still."""
    return SimpleNamespace(time=lambda: time.time() + seconds)


@running
async def test_a_client_whose_machine_slept_asks_at_once_and_dials_anew_after_a_second(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers("b") as servers, proxy(servers["b"].port) as way:
        async with tidings.connect(way.url, name="laptop") as laptop, tidings.connect(url(servers["b"])) as pc:
            news = await laptop.subscribe("EXISTS(n)")
            way.strand()
            await pc.publish(n=1)
            monkeypatch.setattr(_vigil, "time", _late(3_600.0))
            begun = time.monotonic()
            await take(news, 1)
            assert 1 <= time.monotonic() - begun < 15  # without: after 30 seconds
            assert "the broker does not answer; closing the connection" in caplog.text


@running
async def test_a_client_whose_process_was_held_up_keeps_a_connection_that_works() -> None:
    async with brokers("b") as servers, proxy(servers["b"].port) as way, tidings.connect(way.url) as client:
        await asyncio.sleep(0.05)
        passed = way.passed
        time.sleep(2.2)
        await until(lambda: way.passed > passed)
        await asyncio.sleep(1.3)
        assert client.statistics().reconnects == 0


@running
async def test_another_address_goes_on_with_the_session_although_the_old_connection_is_half_open() -> None:
    async with brokers("b") as servers, proxy(servers["b"].port) as way:
        async with tidings.connect(way.url, name="phone") as phone, tidings.connect(url(servers["b"])) as pc:
            news = await phone.subscribe("EXISTS(n)")
            peer = next(one for one in servers["b"].host.peers if one.link.name == "phone")
            session, old = peer.session.id, peer.stream
            way.strand()
            way.source = "127.0.0.2"
            await pc.publish(n=1)
            assert not await phone.check()
            assert [one["n"] for one in await take(news, 1)] == [1]
            assert peer.session.id == session
            assert peer.stream is not None
            assert peer.stream is not old
            assert peer.stream.transport.get_extra_info("peername")[0] == "127.0.0.2"
            assert not news.gaps
