"""`publish(..., quench=True)`: what nobody wants does not leave the client, and nothing is missed by it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from client.transports import brokers, on_both, on_sockets, options, serve, url
from serving import serving

import tidings
from tidings import sync
from tidings.client import Client
from tidings.model import AccessDenied, ArgumentRefused
from tidings.net import Access, AccessEntry, Options

TOKEN = "a-token-for-the-tests"


async def quiet(client: Client, **attributes: object) -> None:
    """Publish this until it is left out."""
    async with asyncio.timeout(20):
        while not (await client.publish(attributes, quality="fire", quench=True)).quenched:
            await asyncio.sleep(0.02)


@on_both
async def test_what_nobody_wants_is_not_published() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"])) as one, tidings.connect(url(servers["b"])) as two:
            await quiet(one, type="load", load=1)
            got: list[object] = []
            subscription = await two.subscribe("load > 90", callback=lambda each: got.append(each["load"]))
            published = one.statistics().published
            receipts = [await one.publish(load=load, quality="fire", quench=True) for load in (80, 95, 90, 99)]
            assert [receipt.quenched for receipt in receipts] == [True, False, True, False]
            assert await receipts[0] is None
            async with asyncio.timeout(10):
                while len(got) < 2:
                    await asyncio.sleep(0.02)
            assert got == [95, 99]
            assert one.statistics().published == published + 2
            assert one.statistics().quenched >= 3
            subscription.unsubscribe()


@on_both
async def test_who_quenches_hears_itself() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        await quiet(client, n=1)
        subscription = await client.subscribe("n > 1")
        assert not (await client.publish(n=2, quality="fire", quench=True)).quenched
        assert (await anext(subscription))["n"] == 2


@on_both
async def test_what_is_left_out_may_not_be_missing_from_the_past() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        with pytest.raises(ArgumentRefused, match="missing from the past"):
            await client.publish(n=1, quality="stored", quench=True)
        with pytest.raises(ArgumentRefused, match="choose one"):
            await client.publish(n=1, count_receivers=True, quench=True)
        assert client.statistics().published == 0


@on_sockets
async def test_without_a_store_any_quality_may_be_left_out() -> None:
    async with serve(Options(name="b", port=0)) as server, tidings.connect(url(server)) as client:
        receipt = await client.publish(n=1, quench=True)
        if client.statistics().quenched == 0:
            assert await receipt is not None
        async with asyncio.timeout(10):
            while not (receipt := await client.publish(n=1, quench=True)).quenched:
                await asyncio.sleep(0.02)
        assert (await receipt, receipt.quality) == (None, None)
        await client.flush()


@on_sockets
async def test_with_a_store_only_fire_may_be_left_out(tmp_path: Path) -> None:
    async with serve(options(data=str(tmp_path))) as server, tidings.connect(url(server)) as client:
        with pytest.raises(ArgumentRefused, match="quench at a broker with a store"):
            await client.publish(n=1, quench=True)
        with pytest.raises(ArgumentRefused, match="quench at a broker with a store"):
            await client.publish(n=1, quality="accepted", quench=True)
        assert client.statistics().published == 0
        await quiet(client, n=1)


@on_sockets
async def test_who_may_not_administer_does_not_learn_what_others_want() -> None:
    access = Access({TOKEN: AccessEntry("someone", count=("root",)), TOKEN * 2: AccessEntry("boss", administer=True)})
    async with serve(Options(name="closed", port=0, access=access)) as server:
        async with tidings.connect(url(server), token=TOKEN) as client:
            with pytest.raises(AccessDenied, match="'someone' may not know what others subscribe to"):
                await client.publish(n=1, quench=True)
        async with tidings.connect(url(server), token=TOKEN * 2) as client:
            await quiet(client, n=1)


def test_a_blocking_program_leaves_out_what_nobody_wants() -> None:
    with serving(options()) as server, sync.connect(server) as client:
        with pytest.raises(ArgumentRefused, match="missing from the past"):
            client.publish(n=1, quality="stored", quench=True)
        assert client.publish(n=1, quality="fire", quench=True) is None
