"""One name, one broker, on real sockets."""

from __future__ import annotations

import asyncio

import pytest
from net.proxy import proxy
from net.world import Raw, brokers, running, until, url

import tidings
from tidings.net import Server
from tidings.wire import TAKEN_OVER, Reject, Welcome, ack


def _has(server: Server, name: str) -> bool:
    return server.host.broker.client(name) is not None


@running
async def test_a_name_in_use_at_another_broker_is_refused_or_taken_over() -> None:
    async with brokers("abc", ["ab", "bc"]) as servers:
        first = await tidings.connect(url(servers["a"]), name="phone")
        with pytest.raises(tidings.NotAdmitted, match="already connected, to broker 'a' since"):
            await tidings.connect(url(servers["c"]), name="phone")
        async with tidings.connect(url(servers["c"]), name="phone", take_over=True) as second:
            await until(lambda: not first.connected)
            with pytest.raises(tidings.TakenOver, match="connected to broker 'c' since"):
                await first.publish(n=1)
            assert second.connected
            assert [name for name, server in servers.items() if _has(server, "phone")] == ["c"]
        await first.close()


@running
async def test_a_connection_that_answers_no_ping_makes_room() -> None:
    async with brokers("ab", ["ab"]) as servers, await Raw.open(servers["a"]) as silent:
        assert isinstance(await silent.hello("phone"), Welcome)
        async with tidings.connect(url(servers["b"]), name="phone") as client:
            assert client.connected
            await until(lambda: not _has(servers["a"], "phone"))


@running
async def test_the_name_of_a_client_that_has_left_is_free() -> None:
    async with brokers("a") as servers, proxy(servers["a"].port) as way:
        async with tidings.connect(way.url, name="phone") as phone:
            way.bytes_per_second = 20_000
            await phone.publish_many([{"n": n} for n in range(80)], quality="fire")  # it leaves behind them
            assert _has(servers["a"], "phone")
        assert not _has(servers["a"], "phone")


@running
async def test_what_a_client_had_sent_before_it_was_asked_is_no_answer() -> None:
    async with brokers("ab", ["ab"]) as servers, await Raw.open(servers["a"]) as silent:
        assert isinstance(await silent.hello("phone"), Welcome)

        async def arrive() -> None:
            for _ in range(10):  # as from a client that has gone since
                silent.write(ack(0))
                await asyncio.sleep(0.02)

        arriving = asyncio.create_task(arrive())
        async with tidings.connect(url(servers["b"]), name="phone") as client:
            assert client.connected
        await arriving


@running
async def test_a_client_that_loses_its_broker_is_let_go_there_as_soon_as_it_is_elsewhere() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect([url(servers["a"]), url(servers["b"])], name="phone") as phone:
            await phone.subscribe("n >= 0")
            servers["a"].host.max_connections = 0  # it does not come back here
            [peer] = [one for one in servers["a"].host.peers if one.link.name == "phone"]
            servers["a"].host._sessions.clear()  # nor go on with its session
            assert peer.stream is not None
            peer.stream.abort()
            await until(lambda: _has(servers["b"], "phone"))
            await until(lambda: not _has(servers["a"], "phone"))  # and not after `client_resume`
            assert phone.connected


@running
async def test_an_epoch_is_given_repeated_and_never_made_up() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with await Raw.open(servers["a"]) as one:
            first = await one.hello("phone")
            assert isinstance(first, Welcome)
            async with await Raw.open(servers["b"]) as two:
                second = await two.hello("phone", attached=first.attached, last="a")
                assert isinstance(second, Welcome)
                assert second.attached > first.attached
                await until(lambda: not _has(servers["a"], "phone"))
                refused = await one.rejection()
                assert (refused.code, refused.retry) == (TAKEN_OVER, False)
        async with await Raw.open(servers["a"]) as three:
            answer = await three.hello("phone", attached=second.attached + 3_600_000_000, last="b")
            assert isinstance(answer, Reject)
            assert answer.code == "epoch"


@running
async def test_who_is_refused_and_who_is_taken_over_is_counted() -> None:
    async with brokers("ab", ["ab"], metrics_port=0) as servers:
        first = await tidings.connect(url(servers["a"]), name="phone")
        with pytest.raises(tidings.NotAdmitted):
            await tidings.connect(url(servers["b"]), name="phone")
        async with tidings.connect(url(servers["b"]), name="phone", take_over=True):
            await until(lambda: not first.connected)
        await first.close()
        assert "tidings_clients_taken_over_total 1.0" in await _metrics(servers["a"])
        assert "tidings_names_in_use_total 1.0" in await _metrics(servers["b"])


async def _metrics(server: Server) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.metrics_port)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    text = await reader.read()
    writer.close()
    await writer.wait_closed()
    return text.decode()


@running
async def test_a_hello_that_comes_late_does_not_end_the_client_that_said_it() -> None:
    said: asyncio.Queue[bytes] = asyncio.Queue()

    async def cut_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.put_nowait(await reader.read(65_536))
        writer.close()

    async with brokers("ab", ["ab"]) as servers, await asyncio.start_server(cut_off, "127.0.0.1", 0) as way:
        port = way.sockets[0].getsockname()[1]
        async with tidings.connect(url(servers["b"]), name="phone") as phone:
            news = await phone.subscribe("n >= 0")
            with pytest.raises(tidings.ConnectionFailed):
                await phone.move(f"tidings://127.0.0.1:{port}")
            await until(lambda: phone.connected and _has(servers["b"], "phone"))
            late = await asyncio.open_connection("127.0.0.1", servers["a"].port)
            late[1].write(await said.get())  # it is at broker b again when broker a reads this
            await until(lambda: _has(servers["a"], "phone"))
            await until(lambda: not _has(servers["b"], "phone") or phone.statistics().reconnects > 1)
            async with tidings.connect(url(servers["a"]), name="feed") as feed:
                await feed.publish(n=1)
                assert (await anext(news))["n"] == 1
            assert phone.connected
            late[1].close()
