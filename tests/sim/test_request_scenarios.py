"""Random runs with requests: links and connections are cut, brokers crash, and each reply goes where it belongs.

By definition, from docs/promises.md: a reply reaches the client whose request it answers, and no other, at most once.
Whoever replied is told what became of it, unless nobody can know. And every request ends in time.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import NamedTuple

import pytest
from promised import holds
from soaking import spread_seeds

import tidings
from tidings.sim import StandingFaults, World

HOLDS = holds("replied-once", "requests")
BROKERS = ("berlin", "paris", "rome")
REFUSED = (tidings.RequestEnded, tidings.NotAllowed)
"""Errors after which a reply has reached nobody."""
SLACK = 0.001


class _Reply(NamedTuple):
    """What answers which request, and which of the answers of one client it is."""

    n: int
    by: str
    copy: int


class _Run:
    """What clients did in one run, and what came to them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"requests {seed}")
        self.asked: dict[int, str] = {}
        self.got: dict[str, list[_Reply]] = {}
        self.arrived: list[_Reply] = []
        self.refused: list[_Reply] = []
        self.late: list[float] = []
        """By how many seconds requests took longer than they may."""

    async def ask(self, client: tidings.Client) -> None:
        loop = asyncio.get_running_loop()
        got = self.got.setdefault(client.name, [])
        for _ in range(12):
            n, timeout = len(self.asked), self.rng.choice((0.2, 1.0, 4.0))
            self.asked[n], begun = client.name, loop.time()
            try:
                if self.rng.random() < 0.5:
                    got.append(_reply(await client.request(type="question", n=n, timeout=timeout)))
                else:
                    async for reply in client.request(type="question", n=n, timeout=timeout):
                        got.append(_reply(reply))
                        if self.rng.random() < 0.2:
                            break
            except (tidings.NoReply, tidings.NoResponder, tidings.RequestEnded):
                pass
            self.late.append(loop.time() - begun - timeout)
            await asyncio.sleep(self.rng.random())

    async def answer(self, client: tidings.Client) -> None:
        async for request in client.subscribe("type = 'question'"):
            for copy in range(self.rng.randint(0, 3)):
                await asyncio.sleep(self.rng.choice((0, 0, 0.3)))
                reply = _Reply(request["n"], client.name, copy)  # type: ignore[arg-type]
                try:
                    await request.reply(reply._asdict())
                except REFUSED:
                    self.refused.append(reply)
                except tidings.TopologyError:
                    continue  # nobody can know
                else:
                    self.arrived.append(reply)

    async def trouble(self, world: World, clients: list[str]) -> None:
        for _ in range(6):
            await asyncio.sleep(3 * self.rng.random())
            what = self.rng.randrange(4)
            if what == 0:
                broker = self.rng.choice(BROKERS)
                world.crash(broker)
                await asyncio.sleep(self.rng.random())
                world.restart(broker)
            elif what == 1:
                one, two = self.rng.choice((("berlin", "paris"), ("paris", "rome")))
                world.cut(one, two)
                await asyncio.sleep(4 * self.rng.random())
                world.heal(one, two)
            else:
                client = self.rng.choice(clients)
                at = client.partition("-")[2]
                world.cut(client, at)
                await asyncio.sleep(self.rng.choice((0.5, 40)))
                world.heal(client, at)

    def broken(self) -> list[str]:
        """What was not as promised."""
        all_got = [(client, reply) for client, got in self.got.items() for reply in got]
        strays = [(who, reply) for who, reply in all_got if self.asked[reply.n] != who]
        found = [f"{reply} of {self.asked[reply.n]} came to {who}" for who, reply in strays]
        counts = Counter(reply for _, reply in all_got)
        found += [f"{reply} came {count} times" for reply, count in counts.items() if count > 1]
        found += [f"{reply} was refused, and came" for reply in self.refused if counts[reply]]
        return found + [f"a request took {late:.3f} s too long" for late in self.late if late > SLACK]


def _reply(notification: tidings.Notification) -> _Reply:
    return _Reply(notification["n"], notification["by"], notification["copy"])  # type: ignore[arg-type]


def run(seed: int, *, faults: bool = True) -> _Run:
    """One run; fails if it was not as promised."""
    found = _Run(seed)
    clients = [f"{who}-{at}" for who, at in (("ann", "berlin"), ("ben", "paris"), ("cleo", "rome"), ("dan", "berlin"))]

    async def main() -> None:
        async with World(seed, brokers=BROKERS) as world:
            opened = [await tidings.connect(world.url(name.partition("-")[2]), name=name, wait=120) for name in clients]
            answering = [asyncio.create_task(found.answer(client)) for client in opened[2:]]
            await world.rest()
            asking = [asyncio.create_task(found.ask(client)) for client in opened[:2]]
            if faults:
                await found.trouble(world, clients)
            await asyncio.gather(*asking)
            for task in answering:
                task.cancel()
            for client in opened:
                await client.close()

    asyncio.run(main())
    assert HOLDS
    assert not found.broken(), "\n".join((f"seed {seed}", *found.broken()))
    return found


@pytest.mark.filterwarnings(f"ignore::{StandingFaults.__module__}.{StandingFaults.__qualname__}")
@pytest.mark.parametrize("seed", range(4))
def test_each_reply_goes_to_its_requester_once_and_whoever_replied_knows(seed: int) -> None:
    assert run(seed).arrived


@pytest.mark.filterwarnings(f"ignore::{StandingFaults.__module__}.{StandingFaults.__qualname__}")
def test_a_reply_may_have_arrived_though_the_broker_has_forgotten_who_sent_it() -> None:
    """It was told to have been refused."""
    run(1093)


def test_without_a_fault_what_was_answered_in_time_has_come() -> None:
    found = run(7, faults=False)
    assert len(found.arrived) > 10
    came = {reply for got in found.got.values() for reply in got}
    assert {reply.n for reply in found.arrived} == {reply.n for reply in came}


def test_the_judge_notices_what_goes_astray_comes_twice_or_was_refused() -> None:
    found = run(1)
    who, reply = next((who, got[0]) for who, got in found.got.items() if got)
    other = next(name for name in found.got if name != who)
    found.got[other].append(reply)
    found.refused.append(reply)
    found.late.append(2.0)
    assert found.broken() == [
        f"{reply} of {who} came to {other}",
        f"{reply} came 2 times",
        f"{reply} was refused, and came",
        "a request took 2.000 s too long",
    ]


@pytest.mark.soak
@pytest.mark.parametrize("part", range(2))
def test_seeds_that_nobody_has_tried(part: int) -> None:
    for seed in spread_seeds(part):
        run(seed)
