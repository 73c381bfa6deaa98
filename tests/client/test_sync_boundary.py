"""The blocking client at its boundary: states, threads, callbacks, objects, a connection that is lost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ports import free_port
from serving import serving

import tidings
from tidings import ClientNotOpen, State, sync
from tidings.net import Options

PATIENCE = 20.0


@dataclass
class Quote:
    symbol: str
    price: float


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(Options(name="b", port=0)) as url:
        yield url


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    gc.collect()  # what was not closed complains now, and warnings are errors
    assert set(threading.enumerate()) <= before


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_closed_client_says_so_whatever_it_is_asked(address: str) -> None:
    client = sync.connect(address, name="alice")
    subscription = client.subscribe("TRUE")
    assert (client.state, client.connected) == (State.OPEN, True)
    client.close()
    client.close()
    assert (client.state, client.connected) == (State.CLOSED, False)
    for call in (
        lambda: client.publish(n=1),
        lambda: client.publish_many([{"n": 1}]),
        lambda: client.subscribe("TRUE"),
        lambda: client.advertise("TRUE"),
        lambda: client.unadvertise("a1"),
        lambda: client.forget("quotes"),
        client.flush,
        client.status,
        client.browse,
        client.measure_log,
        lambda: next(client.read_log((0, 0), (1, 1))),
        client.admin.graph,
        client.__enter__,
        lambda: next(subscription),
        lambda: subscription.update("TRUE"),
    ):
        with pytest.raises(ClientNotOpen, match=r"this client is closed; connect a new one with tidings\.sync"):
            call()


def test_another_thread_that_waits_hears_that_the_client_is_closed(address: str) -> None:
    outcomes: list[object] = []
    client = sync.connect(address)
    subscription = client.subscribe("EXISTS(never)")

    def wait() -> None:
        outcomes.append(list(subscription))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    client.close()
    thread.join(PATIENCE)
    assert outcomes == [[]]


def test_threads_that_go_on_calling_hear_that_the_client_is_closed(address: str) -> None:
    client = sync.connect(address)
    calls = [0] * 4
    closed = threading.Event()
    refused: list[int] = []

    def work(me: int) -> None:
        while True:
            last = closed.is_set()
            try:
                client.publish(n=me)
            except ClientNotOpen:
                if last:
                    refused.append(me)
                    return
            calls[me] += 1

    threads = [threading.Thread(target=work, args=(me,), daemon=True) for me in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: all(calls))
    client.close()
    closed.set()
    for thread in threads:
        thread.join(PATIENCE / 4)
    assert sorted(refused) == [0, 1, 2, 3]


def test_a_callback_that_closes_its_client_is_told_to_leave_that_to_others(address: str) -> None:
    told: list[str] = []

    def close(notification: tidings.Notification) -> None:
        with pytest.raises(tidings.TidingsError, match="close it in another thread") as refusal:
            client.close()
        told.append(str(refusal.value))

    async def close_later(notification: tidings.Notification) -> None:
        close(notification)

    with sync.connect(address) as client:
        for callback in (close, close_later):
            client.subscribe("EXISTS(last)", callback=callback)
        client.publish(last=1)
        until(lambda: len(told) == 2)
        assert client.publish(n=1) is not None
    assert client.state is State.CLOSED


def test_objects_are_published_and_come_back_typed(address: str) -> None:
    misfits: list[tidings.Misfit] = []
    heard: list[Quote] = []
    with sync.connect(address) as client:
        quotes = client.subscribe("EXISTS(symbol)", as_=Quote, on_misfit=misfits.append)
        client.subscribe("EXISTS(symbol)", as_=Quote, callback=heard.append)
        client.publish(symbol="SAP", price="cheap")
        client.publish(Quote("SAP", 182.4))
        assert client.publish_many([Quote("BMW", 1.0), {"symbol": "DTE", "price": 2}]) == 2
        assert [next(quotes) for _ in range(3)] == [Quote("SAP", 182.4), Quote("BMW", 1.0), Quote("DTE", 2.0)]
        assert quotes.misfits == 1
        assert quotes.receive(timeout=0.05) is None
        until(lambda: len(heard) == 3)
    assert "no Quote" in misfits[0].problem


def test_an_async_callback_is_awaited_in_order(address: str) -> None:
    heard: list[object] = []

    async def slow(notification: tidings.Notification) -> None:
        await asyncio.sleep(0.001)
        heard.append(notification["order"])

    with sync.connect(address) as client:
        seen = client.subscribe("EXISTS(order)")
        client.subscribe("EXISTS(order)", callback=slow)
        client.publish_many([{"order": n} for n in range(20)])
        assert [next(seen)["order"] for _ in range(20)] == list(range(20))
    assert heard == list(range(20)), "closing waits for the callbacks of what has come"


def test_the_past_is_written_as_on_the_command_line(tmp_path: Path) -> None:
    with serving(Options(name="b", port=0, data=tmp_path)) as url, sync.connect(url) as client:
        client.publish_many([{"n": n} for n in range(5)])
        assert [one["n"] for one in client.subscribe("EXISTS(n)", past=2).within(0.2)] == [3, 4]
        assert [one["n"] for one in client.subscribe("EXISTS(n)", past="3,1h").within(0.2)] == [2, 3, 4]
        with pytest.raises(tidings.BoundError, match="write 10, 5m, or 10,5m"):
            client.subscribe("TRUE", past="soon")


def test_refusals_have_their_own_class(address: str) -> None:
    with sync.connect(address) as client:
        with pytest.raises(tidings.StoreError, match="has no store"):
            client.publish(n=1, quality="stored")
        with pytest.raises(tidings.ArgumentRefused, match="which has none of its own"):
            client.subscribe("TRUE", durable="quotes")
        with pytest.raises(tidings.ScopeError, match="'nowhere'"):
            client.admin.join("@alice", "nowhere")
        client.publish(n=1)


def test_the_first_connection_waits_and_a_lost_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    heard: list[object] = []
    clients: list[sync.Client] = []

    def open_it() -> None:
        clients.append(
            sync.connect(
                f"tidings://127.0.0.1:{port}", wait=PATIENCE, on_disconnect=heard.append, on_reconnect=heard.append
            )
        )

    with contextlib.ExitStack() as stack, caplog.at_level(logging.WARNING, "tidings.client"):
        opening = threading.Thread(target=open_it)
        opening.start()
        until(lambda: "no broker is there yet" in caplog.text)
        with serving(Options(name="b", port=port)):
            opening.join(PATIENCE)
            (client,) = clients
            stack.callback(client.close)
            client.publish(n=1)
        until(lambda: len(heard) == 1)
        assert isinstance(heard[0], tidings.ConnectionFailed)
        assert not client.connected
        with serving(Options(name="b", port=port)):
            until(lambda: len(heard) == 2)
            assert heard[1] == "b"
            client.publish(n=2)
            stack.close()


def test_a_broker_that_does_not_come_leaves_no_thread() -> None:
    with pytest.raises(tidings.ConnectionFailed, match=r"for 0\.1 seconds"):
        sync.connect("tidings://127.0.0.1:1", wait=0.1)


def test_a_subscription_that_is_refused_is_not_left_behind(address: str) -> None:
    with sync.connect(address) as client:
        for _ in range(3):
            with pytest.raises(tidings.FilterTooLarge):
                client.subscribe("n LIKE '%" + "a%" * 300 + "'")
        assert client._twin._local.subscriptions == {}
        client.publish(n=1)
