"""Reactions, by whatever an application handles notifications with, appear where their causes were, and nowhere else.

The tests of contexts look at what publications say that they react to, and those of scopes at what brokers make of it.
These put both together: production clients and brokers, and handlers that are at work at the same time.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from serving import serving

import tidings
from tidings import sync
from tidings.net import Options
from tidings.sim import World

SCOPES = ("s", "t", "plain")
MODES = st.fixed_dictionaries({scope: st.sampled_from(["default", "origin_only"]) for scope in ("s", "t")})
HANDLERS = ("awaited", "loop", "task", "kept")


def expected(scope: str, modes: dict[str, str]) -> set[str]:
    """By the definition of session scopes: where a reaction to what was published in this scope appears."""
    if scope not in modes:
        return set(SCOPES)
    return {scope} if modes[scope] == "origin_only" else {scope, "plain"}


async def make(admin: tidings.Client, modes: dict[str, str]) -> None:
    for scope in SCOPES:
        await admin.admin.create_scope(scope)
        for member in ("worker", f"of-{scope}"):
            await admin.admin.join(f"@{member}", scope)
        if scope in modes:
            await admin.admin.make_session(scope, mode=modes[scope])


async def handle(client: tidings.Client, how: str) -> None:
    """Answer each document after the time that it says, in one of the ways that there are."""

    async def answer(document: tidings.Notification) -> None:
        await asyncio.sleep(document["takes"] / 1_000)  # type: ignore[operator]
        await client.publish(type="answer", n=document["n"])

    filter = f"type = 'document' AND how = '{how}'"
    if how == "awaited":
        await client.subscribe(filter, callback=answer)
    elif how == "kept":
        tasks: list[asyncio.Task[None]] = []
        await client.subscribe(
            filter, callback=lambda one: tasks.append(asyncio.create_task(answer(one))), keep_context=True
        )
    else:
        async for document in await client.subscribe(filter):
            if how == "task":
                await asyncio.create_task(answer(document))
            else:
                await answer(document)


DOCUMENTS = st.lists(
    st.tuples(st.sampled_from(SCOPES), st.sampled_from(HANDLERS), st.integers(0, 30), st.integers(0, 10)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=10, deadline=None, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(MODES, DOCUMENTS)
def test_a_reaction_appears_where_its_cause_was_whatever_handles_it_and_what_else_is_handled(
    modes: dict[str, str], documents: list[tuple[str, str, int, int]]
) -> None:
    """The handlers take their time, so that several are at work at once, in a task, in a loop, in callbacks."""

    async def run() -> dict[int, set[str]]:
        async with World(brokers=("b1", "b2")) as world:
            found: dict[int, set[str]] = {n: set() for n in range(len(documents))}
            async with (
                tidings.connect(world.url("b1"), name="admin") as admin,
                tidings.connect(world.url("b1"), name="worker") as worker,
                tidings.connect(world.url("b2"), name="of-s") as of_s,
                tidings.connect(world.url("b1"), name="of-t") as of_t,
                tidings.connect(world.url("b2"), name="of-plain") as of_plain,
            ):
                await make(admin, modes)
                members = dict(zip(SCOPES, (of_s, of_t, of_plain), strict=True))
                for scope, member in members.items():
                    await member.subscribe("type = 'answer'", callback=lambda one, at=scope: found[one["n"]].add(at))
                loops = [asyncio.create_task(handle(worker, how)) for how in HANDLERS]
                await world.rest()
                for n, (scope, how, takes, pause) in enumerate(documents):
                    await members[scope].publish(type="document", n=n, how=how, takes=takes)
                    await asyncio.sleep(pause / 1_000)
                await world.rest()
                for loop in loops:
                    loop.cancel()
            return found

    found = asyncio.run(run())
    assert found == {n: expected(scope, modes) for n, (scope, *_) in enumerate(documents)}


THREADS = 3


def test_threads_that_handle_several_at_once_react_each_to_its_own() -> None:
    """Each thread has a document in hand when the first one is let go on, and they go on in any order."""
    modes = {"s": "default", "t": "origin_only"}
    with serving(Options(name="b", port=0)) as address:
        with sync.connect(address, name="worker") as worker, sync.connect(address, name="of-s") as of_s:
            with sync.connect(address, name="of-t") as of_t, sync.connect(address, name="of-plain") as of_plain:
                members = dict(zip(SCOPES, (of_s, of_t, of_plain), strict=True))
                asyncio.run(_prepared(address, modes))
                _react_in_threads(worker, members, modes)


async def _prepared(address: str, modes: dict[str, str]) -> None:
    async with tidings.connect(address, name="admin") as admin:
        await make(admin, modes)


def _react_in_threads(worker: sync.Client, members: dict[str, sync.Client], modes: dict[str, str]) -> None:
    queues = [worker.subscribe(f"type = 'document' AND thread = {at}") for at in range(THREADS)]
    heard: dict[str, list[Any]] = {scope: [] for scope in members}
    for scope, member in members.items():
        member.subscribe("type = 'answer'", callback=lambda one, at=scope: heard[at].append(one["n"]))
    in_hand, gates, done = threading.Semaphore(0), dict[int, threading.Event](), threading.Semaphore(0)

    def work(documents: sync.Subscription) -> None:
        for document in documents:
            in_hand.release()
            gates[document["n"]].wait(30)  # type: ignore[index]
            worker.publish(type="answer", n=document["n"])
            done.release()

    threads = [threading.Thread(target=work, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    numbers = iter(range(10_000))

    @settings(max_examples=15, deadline=None, database=None, phases=[Phase.generate])
    @given(st.lists(st.sampled_from(SCOPES), min_size=THREADS, max_size=THREADS), st.permutations(range(THREADS)))
    def react(causes: list[str], order: list[int]) -> None:
        sent = [next(numbers) for _ in causes]
        gates.update({n: threading.Event() for n in sent})
        for at, (n, scope) in enumerate(zip(sent, causes, strict=True)):
            members[scope].publish(type="document", n=n, thread=at)
        for _ in causes:
            assert in_hand.acquire(timeout=30)
        for at in order:
            gates[sent[at]].set()
            assert done.acquire(timeout=30)
        end = next(numbers)
        worker.publish(type="answer", n=end)  # of its own account: everybody gets it, behind all the others
        until = time.monotonic() + 30
        while not all(end in got for got in heard.values()):
            assert time.monotonic() < until, heard
            time.sleep(0.002)
        for scope, got in heard.items():
            assert got == [*(sent[at] for at in order if scope in expected(causes[at], modes)), end]
            got.clear()

    try:
        react()
    finally:
        for queue in queues:
            queue.unsubscribe()
        for thread in threads:
            thread.join(30)
