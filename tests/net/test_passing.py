"""A durable subscription at a broker without a store: its record stays where it is, and is kept up to date there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from net.world import connected, options, running, serve, take, until, url

import tidings
from tidings.net import Server


@contextlib.asynccontextmanager
async def with_and_without(data: Path) -> AsyncIterator[tuple[Server, Server]]:
    """A broker with a store, and one without."""
    async with serve(options("kept", data=data)) as kept, serve(options("bare", neighbours=(url(kept),))) as bare:
        await until(lambda: connected([kept, bare]))
        yield kept, bare


@running
async def test_a_client_goes_on_and_what_it_acknowledges_is_on_the_disk_of_the_other_broker(tmp_path: Path) -> None:
    async with with_and_without(tmp_path) as (kept, bare), tidings.connect(url(kept)) as shop:
        async with tidings.connect(url(kept), name="reader") as reader:
            await reader.subscribe("EXISTS(n)", durable="all")
        await shop.publish_many([{"n": n} for n in range(1, 5)], quality="stored")
        async with tidings.connect(url(bare), name="reader") as reader:
            stream = await reader.subscribe("EXISTS(n)", durable="all")
            assert [one["n"] for one in await take(stream, 2)] == [1, 2]
            await stream.acknowledge()
            record = kept.durables.record_of("reader", "all")
            assert record is not None
            assert record.positions["kept"].seq == shop.statistics().published - 2
        async with tidings.connect(url(bare), name="reader") as reader:
            stream = await reader.subscribe("EXISTS(n)", durable="all")
            assert [one["n"] for one in await take(stream, 1)] == [3]
        async with tidings.connect(url(kept), name="reader") as reader:
            stream = await reader.subscribe("EXISTS(n)", durable="all")
            assert [one["n"] for one in await take(stream, 1)] == [4]
        assert not bare.durables.count


@running
async def test_a_new_one_is_refused_there_and_forgetting_works(tmp_path: Path) -> None:
    async with with_and_without(tmp_path) as (kept, bare):
        async with tidings.connect(url(bare), name="reader") as reader:
            with pytest.raises(tidings.StoreError, match="broker 'bare' has no store to keep 'all' in"):
                await reader.subscribe("EXISTS(n)", durable="all")
        async with tidings.connect(url(kept), name="reader") as reader:
            await reader.subscribe("EXISTS(n)", durable="all")
        async with tidings.connect(url(bare), name="reader") as reader:
            await reader.forget("all")
            await until(lambda: kept.durables.record_of("reader", "all") is None)


@running
async def test_the_client_is_told_while_the_broker_with_the_record_is_away(tmp_path: Path) -> None:
    async with with_and_without(tmp_path) as (kept, bare):
        async with tidings.connect(url(kept), name="reader") as before:
            await before.subscribe("EXISTS(n)", durable="all")
        async with tidings.connect(url(bare), name="reader") as reader:
            stream = await reader.subscribe("EXISTS(n)", durable="all")
            await kept.stop()
            await reader.publish(n=1)
            await take(stream, 1)
            with pytest.raises(tidings.TidingsError, match="broker 'kept', which keeps durable subscription 'all'"):
                await stream.acknowledge()
