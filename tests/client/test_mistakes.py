"""What becomes of those who wait when a client ends, and of a client whose application makes mistakes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from client.transports import brokers, on_both, on_sockets, options, serve, take, until, url, way_to

import tidings
import tidings.sync
from tidings.broker import RoutingOptions, _bounds
from tidings.client import NotAdmitted
from tidings.model import Matches, NotAdvertised, TidingsError, UnsupportedFilter
from tidings.net import Server, StartError


@contextlib.asynccontextmanager
async def cut_off(most: int = 1) -> AsyncIterator[tuple[tidings.Client, Any]]:
    """A client that the broker does not hear any more, and with it `most` publications."""
    async with brokers("b") as servers, way_to(servers["b"]) as way:
        with contextlib.suppress(ZeroDivisionError):
            async with tidings.connect(way.url, max_unacknowledged=most) as client:
                way.closed = True
                way.cut()
                await until(lambda: not client.statistics().connected)
                yield client, way
                raise ZeroDivisionError  # whoever has no error waits for the broker


WAITING = {
    "an advertisement": lambda client: client.advertise("TRUE"),
    "a question": lambda client: client.browse(timeout=None),
    "a question about scopes": lambda client: client.admin.graph(timeout=None),
    "a publication": lambda client: client.publish(n=1),
    "a flush": lambda client: client.flush(),
    "what is forgotten": lambda client: client.forget("quotes"),
}


@pytest.mark.parametrize("what", list(WAITING))
@on_both
async def test_who_waits_for_the_broker_hears_that_the_client_was_closed(what: str) -> None:
    async with cut_off() as (client, _):
        client._link.traffic.flowing = True  # one publication is under way, and there is room for no more
        receipt = await client.publish(n=0)
        waiting = asyncio.create_task(WAITING[what](client))
        await asyncio.sleep(0.01)
        assert not waiting.done()
    with pytest.raises(tidings.ConnectionFailed, match="is closed"):
        await waiting
    with pytest.raises(tidings.ConnectionFailed, match="is closed"):
        await receipt


@on_both
async def test_who_waits_until_a_subscription_settles_hears_that_it_has_ended() -> None:
    async with cut_off() as (client, _):
        taken_back, left = client.subscribe("n = 1"), client.subscribe("n = 2")
        waiting = [asyncio.ensure_future(taken_back._wait()), asyncio.ensure_future(left._wait())]
        await asyncio.sleep(0.01)
        taken_back.unsubscribe()
        with pytest.raises(TidingsError, match="ended before the network knew it"):
            await waiting[0]
        assert not waiting[1].done()
        assert not taken_back.settled
    with pytest.raises(TidingsError, match="ended before the network knew it"):
        await waiting[1]
    with pytest.raises(StopAsyncIteration):
        await anext(left)


@on_both
async def test_an_advertisement_that_nobody_waits_for_any_more_is_taken_back() -> None:
    async with (
        brokers("b", routing=RoutingOptions(advertisements=True)) as servers,
        way_to(servers["b"]) as way,
        tidings.connect(way.url) as client,
    ):
        way.closed = True
        way.cut()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.advertise("EXISTS(n)")
        way.closed = False
        with pytest.raises(NotAdvertised):
            await (await client.publish(n=1))
        id = await client.advertise("EXISTS(n)")
        await (await client.publish(n=1))
        client.unadvertise(id)


class Odd:
    """A filter of the application's own, with no name under which it could travel."""

    def matches(self, notification: tidings.Notification) -> bool:
        return bool(notification["n"])


@on_sockets
async def test_a_filter_that_cannot_travel_is_refused_and_is_not_in_the_way_later() -> None:
    odd: Matches = Odd()
    async with (
        brokers("b", limits={"client_resume": 0.05}) as servers,
        way_to(servers["b"]) as way,
        tidings.connect(way.url) as client,
    ):
        subscription = await client.subscribe("EXISTS(n)")
        with pytest.raises(UnsupportedFilter, match="Odd"):
            client.subscribe(odd)
        with pytest.raises(UnsupportedFilter, match="Odd"):
            await client.advertise(odd)
        way.closed = True
        way.cut()
        await until(lambda: not servers["b"].host.broker.clients)
        way.closed = False
        await client.publish(n=1)
        assert [n["n"] for n in await take(subscription, 1)] == [1]
        assert client.statistics().reconnects == 1


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
@on_sockets
async def test_an_on_gap_that_fails_does_not_cost_the_connection(
    error: type[BaseException], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(options(data=tmp_path)) as server:
        async with tidings.connect(url(server), name="alice") as client:
            await client.subscribe("EXISTS(n)", durable="quotes")
        async with tidings.connect(url(server)) as writer:
            await writer.publish_many([{"n": n} for n in range(3)], quality="stored")
    async with serve(options(data=tmp_path)) as server:
        store = server.store
        assert store is not None
        async with tidings.connect(url(server)) as writer:
            await writer.publish_many([{"n": 4}], quality="stored")
        while store.bounds(store.epochs()[0]) is not None:  # the keeper's own limits may stand in the same commit
            store.retain(older_than=2**62)
            await asyncio.sleep(0.05)

        def broken(gap: tidings.Gap) -> None:
            raise error(f"not from {gap.first}")

        with caplog.at_level(logging.ERROR, "tidings.client"):
            async with tidings.connect(url(server), name="alice") as client:
                subscription = await client.subscribe("EXISTS(n)", durable="quotes", on_gap=broken)
                assert [n["n"] for n in await take(subscription, 1)] == [4]
                assert len(subscription.gaps) == 1
                assert client.statistics().reconnects == 0
        assert "not from 1" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
@on_both
async def test_an_on_scope_end_that_fails_does_not_cost_the_connection(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(ended: object) -> None:
        raise error("not this one")

    async with brokers("b") as servers, tidings.connect(url(servers["b"]), name="alice") as client:
        client.admin.on_scope_end = broken
        await client.admin.create_scope("team")
        await client.admin.join("@alice", "team")
        with caplog.at_level(logging.ERROR, "tidings.client"):
            await client.admin.destroy_scope("team", cascade=True)
            await until(lambda: "not this one" in caplog.text)
        assert "team" not in (await client.admin.graph()).scopes
        assert client.statistics().reconnects == 0


@on_both
async def test_what_cannot_be_chosen_is_refused_with_what_can() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with pytest.raises(
            TidingsError, match='\'sure\' is no quality; choose "fire", "accepted", "stored" or "default"'
        ):
            await client.publish(n=1, quality="sure")
        with pytest.raises(TidingsError, match="7 is no quality"):
            await client.publish(n=1, quality=7)  # type: ignore[arg-type]
        with pytest.raises(TidingsError, match="'all' is no rule for second copies; choose \"default\", "):
            client.subscribe("TRUE", duplicates="all")
        with pytest.raises(TidingsError, match='\'lax\' is no consistency; choose "strict" or "best_effort"'):
            client.subscribe("TRUE", consistency="lax")
        for ttl in (-1, float("nan"), float("inf")):
            with pytest.raises(TidingsError, match=f"a time to live of {ttl} seconds; give one from 0"):
                await client.publish(n=1, ttl=ttl)
        with pytest.raises(tidings.model.ScopeError, match="'soon' is no mode; choose \"relaxed\", "):
            await client.admin.create_scope("team", mode="soon")
        with pytest.raises(tidings.model.ScopeError, match="'there' is no placement; choose \"once\", "):
            await client.admin.join("a", "b", placement="there")
        assert client.statistics().published == 0


@on_both
async def test_several_tasks_may_take_from_one_subscription() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("EXISTS(n)")
        tasks = [asyncio.create_task(anext(subscription)) for _ in range(3)]
        await asyncio.sleep(0)
        tasks.pop().cancel()
        for n in (1, 2):
            await (await client.publish(n=n))
        async with asyncio.timeout(10):
            assert [(await task)["n"] for task in tasks] == [1, 2]


@on_both
async def test_a_client_that_cannot_read_what_comes_does_not_connect_again_and_again_without_a_pause() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:

        def fail(frame: object) -> None:
            raise ZeroDivisionError

        client._link.traffic.receive = fail
        client.subscribe("TRUE")  # the broker answers it, in every new connection
        await asyncio.sleep(0.5)
        assert 2 <= client.statistics().reconnects <= 8


@on_both
async def test_a_filter_may_change_when_there_is_no_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bounds, "MAX_ENTRIES", 2)
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        first, _ = await client.subscribe("n = 1"), await client.subscribe("n = 2")
        with pytest.raises(
            TidingsError, match="at most 2 subscriptions and as many advertisements; end some, or use wider"
        ):
            await client.subscribe("n = 3")
        first.update("n = 4")
        await first
        await client.publish(n=4)
        assert [one["n"] for one in await take(first, 1)] == [4]


def test_what_one_cannot_connect_with_is_refused_at_once() -> None:
    with pytest.raises(TidingsError, match='\'xml\' is no serialiser; choose "msgpack" or "json"'):
        tidings.connect(serialiser="xml")
    with pytest.raises(TidingsError, match="max_unacknowledged=0; give a whole number from 1"):
        tidings.connect(max_unacknowledged=0)
    with pytest.raises(TidingsError, match="no broker is named"):
        tidings.connect([])
    for address in ("tidings://host:port", "tidings://host:70000", "tidings://[::1:7311", "nats://host"):
        with pytest.raises(
            tidings.ConnectionFailed, match=r"is not the address of a broker; write tidings://host:port"
        ):
            tidings.connect(address)
    for address in ("tidings://host:port", "tidings://host:70000", "host:0"):
        with pytest.raises(tidings.ConnectionFailed, match="with a port from 1 to 65535"):
            tidings.connect(address)
    for address in ("", "tidings://", "tidings://:7311"):
        with pytest.raises(tidings.ConnectionFailed, match=f"'{address}' is not the address of a broker"):
            tidings.connect(address)
    with pytest.raises(tidings.ConnectionFailed, match=r"'host' has a user .* token=\.\.\. \(--token-file\)") as caught:
        tidings.connect("tidings://bill:secret@host")
    assert "secret" not in str(caught.value)
    for rest in ("quotes", "?a=1", "#a"):
        with pytest.raises(tidings.ConnectionFailed, match=r"more than a host and a port; write tidings://host:99$"):
            tidings.connect(f"tidings://host:99/{rest}")
    assert tidings.connect("tidings://host/").name == ""


# --- tokens -------------------------------------------------------------------------------------------

TOKEN = "a-token-that-is-long-enough"


@pytest.mark.parametrize("connect", [tidings.connect, tidings.sync.connect])
@pytest.mark.parametrize("host", ["broker.example.org:99", "192.0.2.1:99", "[2001:db8::1]:99", "0.0.0.0:99"])
def test_a_token_does_not_leave_this_machine_in_the_clear(connect, host: str) -> None:
    for urls in (f"tidings://{host}", ["tidings://localhost", f"tidings://{host}"]):
        with pytest.raises(NotAdmitted) as caught:
            connect(urls, token=TOKEN)
        assert str(caught.value).startswith(f"the token would go to tidings://{host} in the clear")
        assert f"connect to tidings+tls://{host}, or" in str(caught.value)
        assert TOKEN not in str(caught.value)


def test_a_token_goes_where_nobody_can_read_it_and_elsewhere_if_that_is_said() -> None:
    for address in ("tidings://localhost", "tidings://127.0.0.1:99", "tidings://[::1]", "tidings+tls://192.0.2.1"):
        tidings.connect(address, token=TOKEN)
    tidings.connect("tidings://192.0.2.1", token=TOKEN, insecure=True)
    tidings.connect("tidings://192.0.2.1")  # nothing to be read


def test_the_token_of_a_broker_does_not_leave_its_machine_in_the_clear_either() -> None:
    away = options(neighbours=("tidings://127.0.0.1", "tidings://192.0.2.1:99"), neighbour_token=TOKEN)
    with pytest.raises(StartError) as caught:
        Server(away)
    assert "would go to tidings://192.0.2.1:99 unencrypted" in str(caught.value)
    assert "write tidings+tls://192.0.2.1:99, or pass --insecure" in str(caught.value)
    assert TOKEN not in str(caught.value)
    Server(replace(away, insecure=True))
    Server(replace(away, neighbour_token=None))
    Server(replace(away, neighbours=("tidings+tls://192.0.2.1:99",)))
