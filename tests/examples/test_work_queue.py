"""The example with an acknowledged group."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path

from net.world import brokers, running, url

import tidings

FOLDER = Path(__file__).parents[2] / "examples" / "work_queue"


@running
async def test_every_order_is_billed_though_a_worker_dies() -> None:
    sys.path.insert(0, str(FOLDER))
    try:
        example = importlib.import_module("work_queue")
    finally:
        sys.path.remove(str(FOLDER))
    ledger = example.Ledger()
    async with (
        brokers("a") as servers,
        tidings.connect(url(servers["a"]), name="shop") as shop,
        tidings.connect(url(servers["a"]), name="ann") as ann,
    ):
        async with tidings.connect(url(servers["a"]), name="ben") as ben:
            stuck = await ben.subscribe("type = 'order'", group="billing", ack=example.ACKS)
            await shop.publish_many([{"type": "order", "n": n, "amount": n} for n in (1, 2, 3)])
            async with asyncio.timeout(20):
                assert (await anext(stuck))["n"] == 1
            worker = await example.start_worker(ann, ledger)
        letters = await example.collect_dead_letters(shop)
        await shop.publish(type="order", n=4)
        async with asyncio.timeout(20):
            assert (await anext(letters))["job.n"] == 4
            while len(ledger.billed) < 3:
                await asyncio.sleep(0.01)
        assert ledger.billed == {1: "ann", 2: "ann", 3: "ann"}
        worker.cancel()
