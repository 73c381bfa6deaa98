"""Policies over real sockets: a delay in real time, and what an operator sees of a policy that fails."""

from __future__ import annotations

import asyncio

import pytest
from net.test_status import fetch, metrics
from net.world import options, running, take, url

import tidings
from tidings.model import ScopeError
from tidings.net import serve


@running
async def test_a_delay_holds_for_real_and_a_policy_that_nobody_registered_is_counted() -> None:
    async with (
        serve(options("b", metrics_port=0)) as server,
        tidings.connect(url(server), name="boss") as boss,
        tidings.connect(url(server), name="late") as late,
    ):
        await boss.admin.create_scope("s")
        for member in ("@boss", "@late"):
            await boss.admin.join(member, "s")
        await boss.admin.set_policy("s", "internal", "delay", {"seconds": 0.3})
        subscription = await late.subscribe("TRUE")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await boss.publish(n=1)
        assert [one["n"] for one in await take(subscription, 1)] == [1]
        assert loop.time() - began >= 0.3

        await boss.admin.set_policy("s", "internal", "unheard-of")
        before = metrics((await fetch(server.metrics_port, "/metrics"))[1])["tidings_policy_failures_total", ""]
        await (await boss.publish(n=2))
        after = metrics((await fetch(server.metrics_port, "/metrics"))[1])["tidings_policy_failures_total", ""]
        assert after == before + 1

        with pytest.raises(ScopeError) as refused:
            await boss.admin.set_policy("s", "sometimes", "full")
        assert "sometimes" in str(refused.value)
