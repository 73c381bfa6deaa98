"""An `async def` callback is awaited: everything, in order, one at a time, and acknowledged when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from pathlib import Path
from typing import Any

import pytest
from client.transports import brokers, on_both, options, serve, take, until, url

import tidings
from tidings.client import _subscription


@on_both
async def test_an_async_callback_is_awaited_in_order_one_at_a_time() -> None:
    heard: list[object] = []
    running_now = 0

    async def slow(notification: tidings.Notification) -> None:
        nonlocal running_now
        running_now += 1
        assert running_now == 1
        await asyncio.sleep(0.001 if notification["n"] % 2 else 0)  # type: ignore[operator]
        heard.append(notification["n"])
        running_now -= 1

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        await client.subscribe("EXISTS(n)", callback=slow)
        await client.publish_many([{"n": n} for n in range(100)])
        await until(lambda: len(heard) == 100)
    assert heard == list(range(100))


class Callable_:
    def __init__(self) -> None:
        self.heard: list[object] = []

    async def __call__(self, notification: tidings.Notification) -> None:
        await asyncio.sleep(0)
        self.heard.append(notification["n"])


@pytest.mark.parametrize("kind", ["partial", "object", "method", "lambda"])
@on_both
async def test_whatever_returns_something_to_await_is_awaited(kind: str) -> None:
    called = Callable_()

    async def heard(more: int, notification: tidings.Notification) -> None:
        await called(notification)

    callback: Any = {
        "partial": functools.partial(heard, 1),
        "object": called,
        "method": called.__call__,
        "lambda": lambda notification: (called)(notification),  # noqa: PLW0108 - as people write it
    }[kind]
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        await client.subscribe("EXISTS(n)", callback=callback)
        await client.publish_many([{"n": n} for n in range(10)])
        await until(lambda: called.heard == list(range(10)))


@on_both
async def test_a_callback_that_fails_is_logged_and_the_next_follows(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[object] = []

    async def fails(notification: tidings.Notification) -> None:
        await asyncio.sleep(0)
        heard.append(notification["n"])
        raise RuntimeError(f"not {notification['n']}")

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        with caplog.at_level(logging.ERROR, "tidings.client"):
            await client.subscribe("EXISTS(n)", callback=fails)
            await client.publish_many([{"n": n} for n in range(3)])
            await until(lambda: len(heard) == 3)
        assert client.statistics().reconnects == 0
    assert all(f"not {n}" in caplog.text for n in range(3))


@pytest.mark.parametrize("kind", ["async", "plain"])
@on_both
async def test_a_callback_that_meets_a_cancelled_future_is_logged_and_the_next_follows(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[object] = []
    cancelled = asyncio.get_running_loop().create_future()
    cancelled.cancel()

    async def awaits(notification: tidings.Notification) -> None:
        heard.append(notification["n"])
        await cancelled

    def asks(notification: tidings.Notification) -> None:
        heard.append(notification["n"])
        cancelled.result()

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        await client.subscribe("EXISTS(n)", callback=awaits if kind == "async" else asks)
        await client.publish_many([{"n": n} for n in range(3)])
        await until(lambda: len(heard) == 3)
        assert client.statistics().reconnects == 0
    assert heard == [0, 1, 2]
    assert caplog.text.count("a callback failed") == 3


@on_both
async def test_while_a_callback_is_slow_the_client_stops_reading_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_subscription, "MAX_QUEUE", 10)
    heard: list[object] = []
    go_on = asyncio.Event()

    async def slow(notification: tidings.Notification) -> None:
        await go_on.wait()
        heard.append(notification["n"])

    async with (
        brokers("b") as servers,
        tidings.connect(url(servers["b"])) as reader,
        tidings.connect(url(servers["b"])) as writer,
    ):
        subscription = await reader.subscribe("EXISTS(n)", callback=slow)
        for n in range(50):
            await (await writer.publish(n=n))  # one at a time: what one read brings is taken in one go
        await until(lambda: subscription.waiting >= 10)
        assert reader._link.traffic._paused
        assert heard == []
        go_on.set()
        await until(lambda: len(heard) == 50)
        assert heard == list(range(50))
        assert not reader._link.traffic._paused


@on_both
async def test_closing_waits_for_the_callbacks_of_what_has_come() -> None:
    heard: list[object] = []

    async def slow(notification: tidings.Notification) -> None:
        await asyncio.sleep(0.01)
        await (await client.publish(echo=notification["n"]))  # a client that closes still works
        heard.append(notification["n"])

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as other:
        echoes = await other.subscribe("EXISTS(echo)")
        client = await tidings.connect(url(servers["b"]))
        subscription = await client.subscribe("EXISTS(n)", callback=slow)
        await client.publish_many([{"n": n} for n in range(10)])
        await until(lambda: subscription.waiting + len(heard) >= 9)
        await client.close()
        assert heard == list(range(10))
        assert [n["echo"] for n in await take(echoes, 10)] == list(range(10))


@on_both
async def test_an_error_that_ends_a_client_waits_for_no_callback(caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()

    async def endless(notification: tidings.Notification) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with brokers("b") as servers:
        with contextlib.suppress(ZeroDivisionError):
            async with tidings.connect(url(servers["b"])) as client:
                await client.subscribe("EXISTS(n)", callback=endless)
                await client.publish(n=1)
                await begun.wait()
                raise ZeroDivisionError
    assert "a callback failed" not in caplog.text


@on_both
async def test_a_callback_may_close_its_client() -> None:
    closed = asyncio.Event()

    async def last(notification: tidings.Notification) -> None:
        await client.close()
        closed.set()

    async with brokers("b") as servers:
        client = await tidings.connect(url(servers["b"]))
        await client.subscribe("EXISTS(n)", callback=last)
        await (await client.publish(n=1))
        await closed.wait()
        assert client.state is tidings.State.CLOSED
        await asyncio.sleep(0)


@on_both
async def test_after_unsubscribing_no_callback_begins() -> None:
    heard: list[object] = []
    go_on = asyncio.Event()

    async def slow(notification: tidings.Notification) -> None:
        heard.append(notification["n"])
        await go_on.wait()

    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("EXISTS(n)", callback=slow)
        await client.publish_many([{"n": n} for n in range(5)])
        await until(lambda: subscription.waiting == 4)
        begun = list(heard)
        subscription.unsubscribe()
        assert subscription.waiting == 0
        go_on.set()
    assert heard == begun
    assert len(begun) <= 1


@on_both
async def test_a_subscription_with_a_callback_is_not_iterated_over() -> None:
    async with brokers("b") as servers, tidings.connect(url(servers["b"])) as client:
        subscription = await client.subscribe("TRUE", callback=print)
        with pytest.raises(tidings.TidingsError, match="hands everything to its callback"):
            await anext(subscription)


@on_both
async def test_a_durable_subscription_is_acknowledged_when_its_callback_is_done(tmp_path: Path) -> None:
    heard: list[object] = []
    stuck = asyncio.Event()

    async def gets_stuck(notification: tidings.Notification) -> None:
        if notification["n"] == 2:
            stuck.set()
            await asyncio.Event().wait()
        heard.append(notification["n"])

    async def works(notification: tidings.Notification) -> None:
        await asyncio.sleep(0)
        heard.append(notification["n"])

    async with serve(options(data=tmp_path)) as server:
        with contextlib.suppress(ZeroDivisionError):
            async with tidings.connect(url(server), name="alice") as client:
                subscription = await client.subscribe("EXISTS(n)", durable="numbers", callback=gets_stuck)
                await client.publish_many([{"n": n} for n in range(4)])
                await stuck.wait()
                durable = subscription.durable
                assert durable is not None
                await until(lambda: durable._kept == {"b": (server.host.epoch, 2)})
                raise ZeroDivisionError  # the application crashes: 2 was not done, 3 has not begun
        assert heard == [0, 1]
        async with tidings.connect(url(server), name="alice") as client:
            await client.subscribe("EXISTS(n)", durable="numbers", callback=works)
            await until(lambda: len(heard) == 4)
        assert heard == [0, 1, 2, 3]
        async with tidings.connect(url(server), name="alice") as client:
            await client.subscribe("EXISTS(n)", durable="numbers", callback=works)
            await (await client.publish(n=4))
            await until(lambda: len(heard) == 5)
        assert heard == [0, 1, 2, 3, 4]


@on_both
async def test_a_callback_that_ends_after_unsubscribing_has_handled_its_notification(tmp_path: Path) -> None:
    heard: list[object] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(notification: tidings.Notification) -> None:
        begun.set()
        await go_on.wait()
        heard.append(notification["n"])

    async with serve(options(data=tmp_path)) as server:
        async with tidings.connect(url(server), name="alice") as client:
            subscription = await client.subscribe("EXISTS(n)", durable="numbers", callback=slow)
            await client.publish_many([{"n": n} for n in range(3)])
            await begun.wait()
            subscription.unsubscribe()
            go_on.set()
        assert heard == [0]
        async with tidings.connect(url(server), name="alice") as client:
            again = await client.subscribe("EXISTS(n)", durable="numbers")
            assert [n["n"] for n in await take(again, 2)] == [1, 2]
