"""A client without a broker says so, and what waits for one."""

from __future__ import annotations

import asyncio

import pytest
from net.world import options, running, serve, until, url

import tidings
from tidings.client import _client, _uplink


@running
async def test_the_log_says_how_long_there_is_no_broker_and_what_closing_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_uplink, "OFFLINE_SOON", 0.1)
    monkeypatch.setattr(_client, "CLOSING_SOON", 0.1)
    async with serve(options("b", limits={"client_resume": 0.01})) as server:
        client = await tidings.connect(url(server), name="alice")
        await client.publish(n=1)
        await client.flush()
    await until(lambda: not client.connected)
    publishing = asyncio.create_task(client.publish(n=2))
    await until(lambda: "has been without a broker for" in caplog.text)
    assert (
        "the client 'alice' has been without a broker for 0 seconds, and its calls wait: nothing listens there"
        in caplog.text
    )
    assert not publishing.done()
    publishing.cancel()
    client._local.publish({"n": 3})
    client._publications.add(3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.close()
    assert "closing the client 'alice' waits for a broker, and there is none now: 1 unacknowledged" in caplog.text
    assert client.state is tidings.State.CLOSED
