"""A client knows whether it is unopened, open or closed, and says what to do; its connection is watched."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest
from client.transports import brokers, on_both, on_sockets, serve, take, until, url, way_to
from ports import free_port

import tidings
from tidings import ClientNotOpen, ConnectionFailed, State
from tidings.client._state import TRANSITIONS, WORKING, Lifecycle, Trigger
from tidings.net import Access, AccessEntry, Options

CALLS: dict[str, Callable[[tidings.Client], Any]] = {
    "publish": lambda client: client.publish(n=1),
    "publish_many": lambda client: client.publish_many([{"n": 1}]),
    "subscribe": lambda client: client.subscribe("TRUE"),
    "advertise": lambda client: client.advertise("TRUE"),
    "unadvertise": lambda client: client.unadvertise("a1"),
    "forget": lambda client: client.forget("quotes"),
    "flush": lambda client: client.flush(),
    "status": lambda client: client.status(),
    "browse": lambda client: client.browse(),
    "measure_log": lambda client: client.measure_log(),
    "read_log": lambda client: anext(client.read_log((0, 0), (1, 1))),
    "admin": lambda client: client.admin.graph(),
}


async def call(what: str, client: tidings.Client) -> None:
    async with asyncio.timeout(10):
        result = CALLS[what](client)
        if hasattr(result, "__await__"):
            await result


@pytest.mark.parametrize("what", list(CALLS))
@on_both
async def test_a_client_that_nobody_opened_says_so_at_once(what: str) -> None:
    client = tidings.connect("tidings://127.0.0.1:1")
    assert client.state is State.UNOPENED
    with pytest.raises(
        ClientNotOpen, match=r"is not open yet; use it inside `async with client:`, or open it with `await"
    ):
        await call(what, client)


@pytest.mark.parametrize("what", list(CALLS))
@on_both
async def test_a_closed_client_says_so(what: str) -> None:
    async with brokers("b") as servers:
        client = await tidings.connect(url(servers["b"]), name="alice")
        await client.close()
        assert client.state is State.CLOSED
        with pytest.raises(ClientNotOpen, match="the client 'alice' is closed; connect a new one"):
            await call(what, client)


@on_both
async def test_a_client_is_awaited_and_closed_as_well_as_entered_and_left() -> None:
    async with brokers("b") as servers:
        client = await tidings.connect(url(servers["b"]))
        assert (client.state, client.connected) == (State.OPEN, True)
        subscription = await client.subscribe("EXISTS(n)")
        await client.publish(n=1)
        assert [n["n"] for n in await take(subscription, 1)] == [1]
        await client.close()
        await client.close()
        assert (client.state, client.connected) == (State.CLOSED, False)
        with pytest.raises(StopAsyncIteration):
            await anext(subscription)
        with pytest.raises(tidings.TidingsError, match="has ended, and its filter cannot be changed"):
            subscription.update("TRUE")
        with pytest.raises(ClientNotOpen, match="is closed; connect a new one"):
            await client
        async with await tidings.connect(url(servers["b"])) as both:
            await (await both.publish(n=2))
        assert both.state is State.CLOSED
        await until(lambda: not servers["b"].host.peers)


@on_sockets
async def test_closing_waits_for_what_is_under_way_and_raises_what_was_refused() -> None:
    async with brokers("b") as servers:
        client = await tidings.connect(url(servers["b"]))
        receipt = await client.publish(n=1)
        await client.close()
        assert receipt.quality is tidings.Quality.ACCEPTED
        client = await tidings.connect(url(servers["b"]))
        await client.publish(n=1, quality="stored")
        with pytest.raises(tidings.StoreError, match="has no store"):
            await client.close()
        assert client.state is State.CLOSED


@on_both
async def test_a_client_that_was_never_opened_can_be_closed() -> None:
    client = tidings.connect("tidings://127.0.0.1:1")
    await client.close()
    assert client.state is State.CLOSED
    with pytest.raises(ClientNotOpen, match="is closed"):
        async with client:
            pass


@on_sockets
async def test_an_attempt_that_failed_may_be_repeated() -> None:
    port = free_port()
    client = tidings.connect(f"tidings://127.0.0.1:{port}")
    with pytest.raises(ConnectionFailed, match="Is the server running"):
        await client
    assert client.state is State.UNOPENED
    async with serve(at(port)), client:
        await (await client.publish(n=1))


def at(port: int) -> Options:
    return Options(name="b", port=port)


@on_sockets
async def test_the_first_connection_waits_for_its_broker(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    client = tidings.connect(f"tidings://127.0.0.1:{port}", wait=20)
    with caplog.at_level(logging.WARNING, "tidings.client"):
        opening = asyncio.ensure_future(client._open())
        await until(lambda: "no broker is there yet, waiting for 20 seconds" in caplog.text)
    assert client.state is State.OPENING
    with pytest.raises(ClientNotOpen, match="it waits for its broker"):
        client.subscribe("TRUE")
    with pytest.raises(ClientNotOpen, match="it waits for its broker"):
        await client
    async with serve(at(port)):
        assert await opening is client
        await (await client.publish(n=1))
        await client.close()


@on_sockets
async def test_waiting_ends_with_the_time_that_was_given_and_with_what_no_waiting_helps_against() -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(ConnectionFailed, match=r"for 0.2 seconds\. Is the server running"):
        await tidings.connect("tidings://127.0.0.1:1", wait=0.2)
    assert 0.2 <= loop.time() - begun < 10
    access = Access(tokens={"right": AccessEntry("somebody")})
    async with brokers("b", access=access) as servers:
        begun = loop.time()
        with pytest.raises(tidings.NotAdmitted, match="this token is not known"):
            await tidings.connect(url(servers["b"]), token="wrong", wait=30)
        assert loop.time() - begun < 15


@on_sockets
async def test_a_client_may_be_closed_while_it_waits_for_its_broker() -> None:
    client = tidings.connect("tidings://127.0.0.1:1", wait=30)
    opening = asyncio.ensure_future(client._open())
    await until(lambda: client.state is State.OPENING)
    await client.close()
    with pytest.raises(ClientNotOpen, match="is closed"):
        await asyncio.wait_for(opening, 15)
    assert client.state is State.CLOSED


@pytest.mark.parametrize(
    ("greeting", "name"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"), (b"SSH-2.0-x\r\n", "SSH"), (b'INFO {"port":4222}\r\n', "NATS")],
    ids=["http", "ssh", "nats"],
)
@on_sockets
async def test_another_service_at_the_port_is_recognised_and_told_once(
    greeting: bytes, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()
        writer.close()

    told = f"speaks {name} and is no Tidings broker; the default port of a broker is 7311"
    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        address = f"tidings://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionFailed, match=told):
            await tidings.connect(address)
        assert caplog.text == ""
        async with serve(Options(name="b", port=0, neighbours=(address,))) as broker:
            await until(lambda: broker.diallers[0].problem)
    assert [told in record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [True]


def test_every_state_has_a_way_out_and_every_call_works_in_some_state() -> None:
    for state in State:
        assert (state, Trigger.CLOSE) in TRANSITIONS
    assert set(TRANSITIONS.values()) == set(State)
    assert {State.OPEN, State.CLOSING} == WORKING
    for state, step in itertools.product(State, Trigger):
        life = Lifecycle(lambda: "alice")
        life.state = state
        if (state, step) in TRANSITIONS:
            assert life.take(step) is state
            assert life.state is TRANSITIONS[state, step]
        else:
            with pytest.raises(ClientNotOpen, match="the client 'alice' "):
                life.take(step)
            assert life.state is state


# --- the connection -----------------------------------------------------------------------------------


@on_both
async def test_an_application_hears_that_its_connection_is_lost_and_back(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[object] = []
    async with brokers("b") as servers, way_to(servers["b"]) as way:
        with caplog.at_level(logging.WARNING, "tidings.client"):
            async with tidings.connect(
                way.url, name="alice", on_disconnect=heard.append, on_reconnect=heard.append
            ) as client:
                assert heard == []
                way.closed = True
                way.cut()
                await until(lambda: len(heard) == 1)
                assert not client.connected
                assert client.state is State.OPEN
                assert isinstance(heard[0], ConnectionFailed)
                told = "the client 'alice' lost broker 'b': the connection was lost; reconnecting"
                assert str(heard[0]) == told
                assert told in caplog.text
                way.closed = False
                await until(lambda: len(heard) == 2)
                assert heard[1] == "b"
                assert "the client 'alice' is connected again, to broker 'b', after" in caplog.text
                await (await client.publish(n=1))
        assert len(heard) == 2, "closing is no loss"
        assert {record.levelno for record in caplog.records} == {logging.WARNING}


@on_sockets
async def test_a_broker_that_takes_nobody_back_is_told_once_and_for_all(caplog: pytest.LogCaptureFixture) -> None:
    lost: list[ConnectionFailed] = []
    async with brokers("b") as servers:
        client = await tidings.connect(url(servers["b"]), on_disconnect=lost.append)
        (peer,) = servers["b"].host.peers
        servers["b"].host.disconnect(peer, "policy", "you were told to go")
        await until(lambda: client.state is State.FAILED)
        assert "you were told to go; it will not reconnect" in str(lost[0])
        with pytest.raises(ConnectionFailed, match="you were told to go"):
            client.subscribe("TRUE")
        with contextlib.suppress(ConnectionFailed):
            await client.close()
        assert client.state is State.CLOSED


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
@on_both
async def test_what_hears_of_the_connection_may_fail_without_harm(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(what: object) -> None:
        raise error("not this way")

    async with brokers("b") as servers, way_to(servers["b"]) as way:
        async with tidings.connect(way.url, on_disconnect=broken, on_reconnect=broken) as client:
            way.cut()
            await until(lambda: client.statistics().reconnects == 1)
            await (await client.publish(n=1))
    assert "`on_disconnect` failed" in caplog.text
    assert "`on_reconnect` failed" in caplog.text
