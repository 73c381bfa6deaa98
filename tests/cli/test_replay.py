"""`tidings replay`: marked copies, in order, at a pace, into a scope."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from archive_world import START, fill, quotes
from net.world import options, running, take, until, url
from typer.testing import CliRunner, Result

import tidings
from tidings.cli import app
from tidings.net import serve
from tidings.store.archive import Promoted, roll


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("replay")
    fill(home / "data", quotes(100, step=1_000_000))
    roll(home / "data", home / "archive", [Promoted("type")])
    return home


async def replay(*words: object) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, ["replay", *map(str, words)])


@pytest.mark.parametrize("tier", ["data", "archive"])
def test_copies_come_in_order_and_name_their_originals(home: Path, tier: str) -> None:
    @running
    async def test() -> None:
        async with serve(options("a")) as server, tidings.connect(url(server)) as client:
            subscription = await client.subscribe("EXISTS(replay.of)")
            done = await replay("n < 5", f"--{tier}", home / tier, "-b", url(server), "--speed", "max")
            assert done.exit_code == 0, done.output
            assert done.stdout == "5 published again\n"
            copies = await take(subscription, 5)
            assert [copy["n"] for copy in copies] == [0, 1, 2, 3, 4]
            origin, _, number = str(copies[0]["replay.of"]).split("/")
            assert (origin, number) == ("berlin", "2")
            assert copies[1]["replay.published_at"] == datetime.fromtimestamp((START + 1_000_000) / 1e6, UTC)

    test()


@running
async def test_the_pace_is_that_of_then_or_faster(home: Path) -> None:
    async with serve(options("a")) as server:
        begun = time.monotonic()
        done = await replay("--limit", 21, "--data", home / "data", "-b", url(server), "--speed", "50x")
        assert done.stdout == "21 published again\n"
        assert time.monotonic() - begun > 0.4  # twenty seconds, fifty times as fast


@running
async def test_copies_are_not_copied_again(tmp_path: Path) -> None:
    async with serve(options("a", data=tmp_path)) as server:
        async with tidings.connect(url(server)) as client:
            await (await client.publish(n=1, quality="stored"))
            await (await client.publish({"n": 1, "replay.of": "a/1/1"}, quality="stored"))
        done = await replay("--data", tmp_path, "-b", url(server), "--speed", "max")
        assert done.stdout == "1 published again\n"
        assert "1 were skipped: they are copies themselves" in done.stderr


@running
async def test_copies_for_a_scope_stay_in_it(home: Path) -> None:
    async with serve(options("a", data=home / "broker")) as server:
        async with tidings.connect(url(server), name="reader") as reader, tidings.connect(url(server)) as stranger:
            await reader.admin.create_scope("lab")
            await reader.admin.join("@reader", "lab")
            inside, outside = await reader.subscribe("n >= 0"), await stranger.subscribe("n >= 0")
            words = ("n < 3", "--data", home / "data", "-b", url(server), "--speed", "max", "--into", "lab")
            done = await replay(*words)
            assert done.exit_code == 0, done.output
            assert [copy["n"] for copy in await take(inside, 3)] == [0, 1, 2]
            await stranger.publish(n=77)
            assert [one["n"] for one in await take(outside, 1)] == [77]
            await until(lambda: "@replay" not in str(server.host.governance.scopes.graph.members("lab")))


@pytest.mark.parametrize("speed", ["fast", "0x", "-1", "nan", "1e9x"])
def test_a_speed_that_cannot_be_is_explained(speed: str) -> None:
    done = CliRunner().invoke(app, ["replay", "--speed", speed])
    assert done.exit_code == 2
    assert f"--speed {speed}: write 10x for ten times as fast" in done.stderr
