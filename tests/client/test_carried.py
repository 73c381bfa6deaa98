"""What a client carries from one process to the next, and moving on purpose."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from client.transports import on_sockets, options, serve, take, url

import tidings
from tidings import sync
from tidings.client._carried import further
from tidings.mobility import Hosts, Newcomer
from tidings.sim import World

BROKERS = ("a", "b", "c")


def in_world(main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with World(limit=1_000, brokers=BROKERS) as world:
            await asyncio.sleep(1)
            await main(world)
            await world.check()

    asyncio.run(run())


async def publish(world: World, broker: str, *numbers: int) -> None:
    async with tidings.connect(world.url(broker)) as client:
        await client.publish_many([{"n": n} for n in numbers], quality="stored")


def test_with_the_file_not_even_the_old_broker_is_needed(tmp_path: Path) -> None:
    file = tmp_path / "phone.tidings"

    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="phone", state=file) as phone:
            stream = await phone.subscribe("n >= 0", durable="all")
            await publish(world, "b", 1, 2)
            assert [(await anext(stream))["n"] for _ in range(2)] == [1, 2]
        world.crash("a")
        await publish(world, "b", 3)
        before = world.now
        async with tidings.connect(world.url("c"), name="phone", state=file) as phone:
            stream = await phone.subscribe("n >= 0", durable="all")
            assert world.now - before < 5  # and not a minute
            assert (await anext(stream))["n"] == 3
            assert not stream.gaps
        world.restart("a")

    in_world(main)


@pytest.mark.req("MOB-021")
def test_the_last_broker_is_in_the_file_and_said_at_each_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, said = tmp_path / "phone.tidings", []
    enter = Hosts.enter

    def noting(self: Hosts, newcomer: Newcomer, decide: Any) -> None:
        said.append((self.context.name, newcomer.last, newcomer.epoch > 0))
        enter(self, newcomer, decide)

    monkeypatch.setattr(Hosts, "enter", noting)

    async def main(world: World) -> None:
        async with tidings.connect([world.url("a"), world.url("b")], name="phone", state=file) as phone:
            await asyncio.sleep(2)
            assert json.loads(file.read_text())["broker"] == "a"
            world.cut("phone", "a")
            await asyncio.sleep(5)
            assert phone.statistics().broker == "b"
        async with tidings.connect(world.url("c"), name="phone", state=file):
            pass
        world.heal("phone", "a")
        assert said == [("a", "", False), ("b", "a", True), ("c", "b", True)]

    in_world(main)


def test_the_file_is_private_and_has_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "phone.tidings"

    async def main(world: World) -> None:
        async with tidings.connect(
            world.url("a"), name="phone", state=str(file), token="secret", insecure=True
        ) as phone:
            await phone.subscribe("n >= 0", durable="all")
            await publish(world, "b", 1)
            await asyncio.sleep(3)  # it is written while the client lives
            carried = json.loads(file.read_text())
            assert (carried["name"], carried["broker"], list(carried["durable"])) == ("phone", "a", ["all"])
            assert carried == phone.snapshot()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "secret" not in file.read_text()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["phone.tidings", "phone.tidings.lock"]

    in_world(main)


@pytest.mark.skipif(os.name != "posix", reason="links and rights are those of POSIX")
def test_the_file_is_private_whatever_stood_where_it_is_written(tmp_path: Path) -> None:
    state, beside, other = tmp_path / "phone.tidings", tmp_path / ".phone.tidings.new", tmp_path / "other"
    other.write_text("of somebody else")

    async def main(world: World) -> None:
        for planted in (lambda: beside.symlink_to(other), lambda: beside.touch(0o666)):
            planted()
            async with tidings.connect(world.url("a"), name="phone", state=state):
                pass
            assert not state.is_symlink()
            assert stat.S_IMODE(state.stat().st_mode) == 0o600
            state.unlink()

    in_world(main)
    assert other.read_text() == "of somebody else"


def test_a_file_from_a_backup_moves_nothing_back(tmp_path: Path) -> None:
    file = tmp_path / "phone.tidings"

    async def main(world: World) -> None:
        old = b""
        for turn in range(3):
            await publish(world, "b", turn)
            async with tidings.connect(world.url("abc"[turn]), name="phone", state=file) as phone:
                stream = await phone.subscribe("n >= 0", durable="all")
                if not turn:
                    await publish(world, "b", 10)
                expected = turn or 10
                assert (await anext(stream))["n"] == expected
            old = old or file.read_bytes()
            file.write_bytes(old)

    in_world(main)


def test_an_application_may_keep_the_state_itself() -> None:
    async def main(world: World) -> None:
        kept: dict[str, Any] | None = None
        for turn, broker in enumerate("abc"):
            async with tidings.connect(world.url(broker), name="phone", state=kept) as phone:
                stream = await phone.subscribe("n >= 0", durable="all")
                await publish(world, "b", turn)
                assert (await anext(stream))["n"] == turn
                await stream.acknowledge()
                kept = json.loads(json.dumps(phone.snapshot()))
                assert kept is not None
                assert kept["broker"] == broker

    in_world(main)


def _state(**more: object) -> str:
    return json.dumps({"name": "phone", "attached": 1, "broker": "a", "durable": {}, "version": 1, **more})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (_state()[:-9], "is damaged, or no state of a client: .*; without it the client continues"),
        ("[]", "is damaged, or no state of a client"),
        (_state(token="x"), "unknown field `token`"),
        (_state(name="tablet"), "is the state of client 'tablet', not of 'phone'; each client has a state of its own"),
        (_state(name=""), "names no client"),
        (_state(attached=-1), "an epoch below 0"),
        (_state(version=2), "has version 2, not 1"),
        (_state(durable={"all": {"a": [1]}}), "is damaged"),
    ],
)
def test_a_state_that_is_none_is_refused_before_anybody_is_dialled(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "state"
    file.write_text(content)

    async def main() -> None:
        with pytest.raises(tidings.ArgumentRefused, match=problem):
            await tidings.connect("tidings://127.0.0.1:1", name="phone", state=file)
        with pytest.raises(tidings.ArgumentRefused, match=problem):  # the lock was given back
            await tidings.connect("tidings://127.0.0.1:1", name="phone", state=file)
        assert file.read_text() == content

    asyncio.run(main())


@pytest.mark.parametrize("state", [3, "", b"x", {"name": "phone"}])
def test_what_is_no_state_is_refused_at_once(state: Any) -> None:
    with pytest.raises(tidings.ArgumentRefused, match="state"):
        tidings.connect("tidings://127.0.0.1:1", name="phone", state=state)


def test_a_file_in_use_is_refused_and_one_in_a_missing_directory(tmp_path: Path) -> None:
    file = tmp_path / "phone.tidings"

    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="phone", state=file):
            with pytest.raises(tidings.ArgumentRefused, match="is in use by another client; end that one"):
                await tidings.connect(world.url("b"), name="phone", state=file)
        with pytest.raises(tidings.ArgumentRefused, match="choose a directory that can be written"):
            await tidings.connect(world.url("b"), name="phone", state=tmp_path / "nowhere" / "file")

    in_world(main)


def test_positions_go_forwards_only() -> None:
    one, other = {"a": (1, 5), "b": (2, 1)}, {"a": (1, 7), "b": (1, 9), "c": (1, 1)}
    assert further(one, other) == further(other, one) == {"a": (1, 7), "b": (2, 1), "c": (1, 1)}


# --- moving on purpose -----------------------------------------------------------------------------------


def test_a_client_moves_with_everything_and_nothing_is_lost_or_comes_twice() -> None:
    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="phone") as phone:
            stream = await phone.subscribe("n >= 0")
            for turn, broker in enumerate("bcab"):
                await publish(world, "b", 2 * turn)
                await phone.move(world.url(broker))
                assert phone.statistics().broker == broker
                await phone.publish(n=2 * turn + 1)
            assert sorted([(await anext(stream))["n"] for _ in range(8)]) == list(range(8))

    in_world(main)


def test_a_broker_that_is_not_there_is_not_moved_to() -> None:
    async def main(world: World) -> None:
        async with tidings.connect(world.url("a"), name="phone") as phone:
            world.crash("b")
            with pytest.raises(
                tidings.ConnectionFailed, match=r"did not let the client 'phone' in; .* to broker 'a' now"
            ):
                await phone.move(world.url("b"))
            assert phone.connected
            world.restart("b")

    in_world(main)


@on_sockets
async def test_on_sockets_and_without_a_loop_it_is_the_same(tmp_path: Path) -> None:
    async with (
        serve(options("a", data=tmp_path / "a")) as one,
        serve(options("b", data=tmp_path / "b")) as two,
    ):
        file = os.fspath(tmp_path / "state")
        async with tidings.connect(url(one), name="phone", state=file) as phone:
            stream = await phone.subscribe("EXISTS(n)", durable="all")
            await phone.publish(n=1)
            await take(stream, 1)
            await phone.move(url(two))
            assert phone.statistics().broker == "b"

        def blocking() -> tuple[str, str]:
            with sync.connect(url(two), name="phone", state=file) as client:
                broker = client.snapshot()["broker"]
                client.move(url(one))
                return broker, client.snapshot()["broker"]

        assert await asyncio.to_thread(blocking) == ("b", "a")
