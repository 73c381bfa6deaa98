"""What an application must not do in a simulated world is refused, with the place in its code."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import importlib
import multiprocessing
import os
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import tidings
import tidings.sync
from tidings.model import ArgumentRefused, TidingsError
from tidings.sim import NeverEnds, OutsideWorld, Search, World


def within(application: Callable[[World], Awaitable[object]], **settings: object) -> None:
    async def main() -> None:
        async with World(**settings) as world:  # type: ignore[arg-type]
            await application(world)

    asyncio.run(main())


async def sleeps(world: World) -> None:
    time.sleep(1)


async def starts_a_thread(world: World) -> None:
    threading.Thread(target=print).start()


async def uses_a_thread(world: World) -> None:
    await asyncio.to_thread(print)


async def makes_a_loop(world: World) -> None:
    asyncio.new_event_loop()


async def opens_a_socket(world: World) -> None:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def sends_a_datagram() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.sendto(b"", ("127.0.0.1", 9))


async def listens(world: World) -> None:
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)


async def starts_a_process(world: World) -> None:
    await asyncio.create_subprocess_exec("true")


async def resolves(world: World) -> None:
    socket.getaddrinfo("localhost", 80)


async def connects_elsewhere(world: World) -> None:
    await tidings.connect("tidings://localhost:7311")


async def enters_another_world(world: World) -> None:
    async with World():
        pass


@pytest.mark.parametrize(
    ("application", "told"),
    [
        (sleeps, "await asyncio.sleep"),
        (starts_a_thread, "asyncio.create_task"),
        (uses_a_thread, "coroutine"),
        (makes_a_loop, "on its own"),
        (opens_a_socket, "world.url"),
        (listens, "through brokers"),
        (starts_a_process, "another process"),
        (resolves, "world.url"),
        (connects_elsewhere, "tidings://berlin.sim:7311"),
        (enters_another_world, "already"),
    ],
)
def test_it_is_refused_with_the_remedy(application: Callable[[World], Awaitable[object]], told: str) -> None:
    with pytest.raises(OutsideWorld, match=told):
        within(application)


@pytest.mark.parametrize(
    ("leave", "told"),
    [
        (lambda: subprocess.run(["true"], check=False), "another process"),
        (lambda: os.system("true"), "another process"),
        (lambda: os.popen("true"), "another process"),
        (lambda: os.fork(), "another process"),  # noqa: PLW0108 - the one that is there then
        (lambda: os.posix_spawn("/bin/true", ["true"], {}), "another process"),
        (lambda: multiprocessing.get_context("fork").Process(target=print).start(), "another process"),
        (lambda: multiprocessing.get_context("spawn").Process(target=print).start(), "another process"),
        (lambda: _thread.start_new_thread(print, ()), "a thread"),
        (lambda: threading.Event().wait(0.01), "waiting for a thread"),
        (lambda: queue.Queue().get(timeout=0.01), "waiting for a thread"),
        (lambda: select.select([], [], [], 0.01), "waiting for real files"),
        (lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), "a signal"),
        (lambda: signal.setitimer(signal.ITIMER_REAL, 0), "a signal"),
        (lambda: asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print), "a signal"),
        (sends_a_datagram, "a real socket"),
    ],
)
def test_what_waits_for_something_real_is_refused_at_its_place(leave: Callable[[], object], told: str) -> None:
    async def application(world: World) -> None:
        leave()

    with pytest.raises(OutsideWorld, match=f"{told}.*would leave the simulated world, at {re.escape(__file__)}:"):
        within(application)
    assert subprocess.run(["true"], check=False).returncode == 0


@pytest.mark.parametrize("application", [sleeps, starts_a_thread, uses_a_thread, opens_a_socket, connects_elsewhere])
def test_the_place_in_the_application_is_named(application: Callable[[World], Awaitable[object]]) -> None:
    code = application.__code__  # type: ignore[attr-defined]
    with pytest.raises(OutsideWorld) as caught:
        within(application)
    assert f"{code.co_filename}:{code.co_firstlineno + 1} " in str(caught.value) or (
        f"{code.co_filename}:{code.co_firstlineno + 2} " in str(caught.value)
    )
    assert f"in {code.co_name}" in str(caught.value)


def test_all_of_it_works_again_when_the_world_has_ended() -> None:
    with pytest.raises(OutsideWorld):
        within(sleeps)
    time.sleep(0)
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    asyncio.new_event_loop().close()


def test_a_module_that_is_imported_in_a_world_has_the_real_functions_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text(
        "from time import sleep, time\nfrom os import urandom\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    told: list[object] = []

    async def application(world: World) -> None:
        late = importlib.import_module("imported_late")
        told.append((late.time(), late.urandom(8)))

    within(application)
    late = importlib.import_module("imported_late")
    assert abs(late.time() - time.time()) < 60
    late.sleep(0)
    assert late.urandom(8) != late.urandom(8)
    within(application)
    assert told[0] == told[1]  # in the next world it has that one's


def test_other_threads_keep_the_real_clock() -> None:
    told: list[float] = []
    go = threading.Event()
    thread = threading.Thread(target=lambda: (go.wait(), time.sleep(0), told.append(time.time())))
    thread.start()
    begun = time.time()

    async def main() -> None:
        async with World():
            go.set()
            await asyncio.sleep(1)
            while not told:
                await asyncio.sleep(0.001)

    asyncio.run(main())
    thread.join()
    assert begun <= told[0] < begun + 60


def test_there_is_one_world_at_a_time_in_a_process() -> None:
    refused: list[OutsideWorld] = []

    def another() -> None:
        try:
            within(starts_nothing)
        except OutsideWorld as error:
            refused.append(error)

    go = threading.Event()
    thread = threading.Thread(target=lambda: (go.wait(), another()))
    thread.start()

    async def main() -> None:
        async with World():
            go.set()
            while not refused:
                await asyncio.sleep(0.001)

    asyncio.run(main())
    thread.join()
    assert "another world runs in this process" in str(refused[0])
    within(starts_nothing)


async def starts_nothing(world: World) -> None:
    pass


def test_the_blocking_client_says_that_it_cannot() -> None:
    async def application(world: World) -> None:
        tidings.sync.connect(world.url("berlin"))

    with pytest.raises(TidingsError, match=r"tidings\.sync runs in a thread of its own"):
        within(application)


async def waits_for_ever(world: World) -> None:
    async with tidings.connect(world.url("berlin")) as client:
        subscription = await client.subscribe("n = 1")
        await anext(subscription)


async def goes_round(world: World) -> None:
    while True:
        await asyncio.sleep(0)


async def waits_for_nothing(world: World) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("application", "line", "why"),
    [
        (waits_for_ever, "await anext(subscription)", "its time is over"),
        (goes_round, "await asyncio.sleep(0)", "turns without waiting"),
        (waits_for_nothing, "await asyncio.Event().wait()", "nothing is left that could happen"),
    ],
)
def test_an_application_that_never_ends_is_stopped_with_what_it_waited_for(
    application: Callable[[World], Awaitable[object]], line: str, why: str
) -> None:
    with pytest.raises(NeverEnds) as caught:
        within(application, limit=100.0)
    assert why in str(caught.value)
    assert f"in {application.__name__}: {line}" in str(caught.value)  # type: ignore[attr-defined]
    assert "repeat with: " in str(caught.value)


async def ignores_cancellation() -> None:
    while True:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            continue


async def ignores_everything() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.sleep(10)


async def ignores_it_in_the_background() -> None:
    asyncio.get_running_loop().create_task(ignores_cancellation())
    await asyncio.sleep(1)


async def waits_for_one_that_ignores_it() -> None:
    await asyncio.create_task(ignores_cancellation())


@pytest.mark.parametrize(
    "application", [ignores_cancellation, ignores_it_in_the_background, waits_for_one_that_ignores_it]
)
def test_the_error_about_an_application_that_ignores_its_cancellation_can_be_caught(
    application: Callable[[], Awaitable[None]],
) -> None:
    async def main() -> str:
        try:
            async with World(limit=100.0):
                await application()
        except NeverEnds as error:
            await asyncio.sleep(0.001)  # the loop is as it was, and nothing is left to cancel this
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            assert asyncio.all_tasks() == {task}
            return str(error)
        return ""

    assert "its time is over" in asyncio.run(main())
    time.sleep(0)  # the border is open again


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it is collected while it waits
def test_an_application_that_ignores_everything_is_stopped_all_the_same() -> None:
    with pytest.raises(NeverEnds):
        within(lambda world: ignores_everything(), limit=100.0)
    assert isinstance(Search(lambda world: ignores_everything(), faults=0, limit=100.0).run(1), NeverEnds)
    gc.collect()
    time.sleep(0)  # the border is open again


def test_the_end_of_the_program_inside_a_world_is_the_end_of_the_program() -> None:
    async def leaves() -> None:
        sys.exit(3)

    async def application(world: World) -> None:
        await asyncio.create_task(leaves())

    with pytest.raises(SystemExit):
        within(application)
    within(starts_nothing)  # the border is open again


def test_tasks_that_are_left_end_with_the_world() -> None:
    ended: list[bool] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ended.append(True)

    async def application(world: World) -> None:
        application.task = asyncio.create_task(background())  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    within(application)
    assert ended == [True]


def test_a_world_without_brokers_is_refused() -> None:
    for brokers in ([], "berlin"):
        with pytest.raises(TidingsError, match="give the names of one or more brokers"):
            World(brokers=brokers)


@pytest.mark.parametrize(
    "call",
    [
        lambda world: world.check(),
        lambda world: world.rest(),
        lambda world: world.cut("berlin", "paris"),
        lambda world: world.heal("berlin"),
        lambda world: world.reset("berlin"),
        lambda world: world.crash("berlin"),
        lambda world: world.vanish("berlin"),
        lambda world: world.slow_disk("berlin", 1),
        lambda world: world.start("app", lambda: asyncio.sleep(1)),
        lambda world: world.random_faults(),
        lambda world: world.add_broker("rome"),
        lambda world: world.link("berlin", "paris"),
    ],
)
def test_a_world_that_does_not_run_is_refused_what_needs_one(call: Callable[[World], Awaitable[None] | None]) -> None:
    async def attempt(world: World) -> None:
        if (waiting := call(world)) is not None:
            await asyncio.wait_for(waiting, 1)

    async def main() -> None:
        world = World(brokers=["berlin", "paris"])
        for state in ("has not begun", "has ended"):
            with pytest.raises(OutsideWorld, match=f"this world {state}, at .*call it inside `async with`"):
                await attempt(world)
            if state == "has not begun":
                async with world:
                    pass

    asyncio.run(main())


def test_a_world_is_entered_once() -> None:
    async def main() -> None:
        world = World()
        async with world:
            pass
        with pytest.raises(OutsideWorld, match="make another one"):
            async with world:
                pass
        await asyncio.sleep(0)  # the loop is as it was

    asyncio.run(main())


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda world: World(seed="x"), "seed='x'; give a whole number"),
        (lambda world: World(limit="x" * 1_000_000), "limit='xxx.*; give seconds from 1"),
        (lambda world: World(limit=-1), "limit=-1; give seconds from 1"),
        (lambda world: World(limit=float("nan")), "limit=nan; give seconds"),
        (lambda world: World(brokers=[1]), "1 is no name for a broker; give a text"),
        (lambda world: World(brokers=["a b/"]), "'a b/' is no name for a broker"),
        (lambda world: World(brokers=5), "brokers=5; give the names"),
        (lambda world: World(weather=3), "weather=3; give a Weather"),
        (lambda world: World(client_weather="x"), "client_weather='x'; give a Weather"),
        (lambda world: world.add_broker(""), "'' is no name for a broker"),
        (lambda world: world.start("x", starts_nothing(world)), "give a coroutine function without arguments"),
        (lambda world: world.start(None, lambda: starts_nothing(world)), "None is no name for an application"),
        (lambda world: world.slow_disk("berlin", "x"), "seconds='x'; give seconds from 0"),
        (lambda world: world.slow_disk("berlin", -1), "seconds=-1; give seconds from 0"),
        (lambda world: world.slow_disk("berlin", float("nan")), "seconds=nan"),
        (lambda world: world.clock_jump("berlin", float("inf")), "seconds=inf; give seconds from -31,536,000 to"),
        (lambda world: world.cut(1, "berlin"), "there is nothing between 1 and 'berlin'"),
        (lambda world: world.random_faults("x"), "seed='x'; give a whole number"),
        (lambda world: world.random_faults(seconds=-1), "seconds=-1; give seconds from 0"),
        (lambda world: world.random_faults(kinds=["boom"]), r"kinds=\['boom'\]; give one or more of Trouble\.CUT"),
        (lambda world: Search(sleeps, faults=float("inf")), "faults=inf; give seconds"),
        (lambda world: Search(sleeps).first([]), r"seeds=\[\] holds no seed"),
        (lambda world: Search(sleeps).first("abc"), "seeds='abc'; give whole numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine 'starts_nothing' was never awaited")
def test_an_argument_that_means_nothing_is_refused_with_its_value(call: Callable[[World], object], reason: str) -> None:
    async def application(world: World) -> None:
        with pytest.raises(ArgumentRefused, match=reason) as caught:
            call(world)
        assert len(str(caught.value)) < 300

    within(application)


def test_a_seed_of_the_environment_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_SEED", "abc")
    with pytest.raises(ArgumentRefused, match="TIDINGS_SEED is 'abc'; set it to a whole number"):
        World()
