"""A client that takes many deliveries at once does what one does that reads them one by one.

Both get the same bytes, cut anywhere, and the same happens in their callbacks: subscriptions end, change and come, some
callbacks fail, one is awaited. What the application gets, what is sent, and how far everything has come is the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any, cast

import pytest
from soaking import SOAK_SECONDS, soak_seeds

from tidings import _native
from tidings.broker._repetitions import Repetitions
from tidings.broker.forwarding import DETOUR, FROM_PAST, ONE_OF_SEVERAL
from tidings.client import Client, _traffic
from tidings.client._address import Address
from tidings.client._connection import Connection
from tidings.client._settings import Settings
from tidings.client._state import Trigger
from tidings.client._subscription import Subscription
from tidings.model import Identity, Notification, Position, Route
from tidings.wire import (
    Deliver,
    Envelope,
    Frame,
    Gap,
    Marks,
    Message,
    Part,
    PublishAck,
    Settled,
    Welcome,
    ack,
    encode,
    encode_body,
    encode_words,
    part,
)

compiled = pytest.mark.skipif(_native.engine is None, reason=f"pure Python: {_native.WHY_PURE}")
OWN = "me"
ORIGINS = ("b1", "b2")
PUBLISHERS = ("p", "q", OWN)
IDS = ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8")
DEEDS = ("unsubscribe", "update", "fail", "add", "publish")
TAGS = (("x",), (FROM_PAST,), (DETOUR,), (ONE_OF_SEVERAL,), ("in:session",))
DAY = 86_400.0


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.paused = 0

    def write(self, data: bytes) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int) -> None: ...

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.paused += 1

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Application:
    """A client with subscriptions of all kinds, and what becomes of them."""

    def __init__(self, *, single: bool) -> None:
        self.client = Client(Settings("tidings://nowhere", name=OWN, own_numbers=True))
        self.log: list[Any] = []
        self.taken = 0
        """How many deliveries were taken together with others."""
        self.wire = Wire()
        self._connection = Connection(self.client._link, Address.parse("tidings://nowhere"))
        self._connection.connection_made(cast(asyncio.BaseTransport, self.wire))
        self.client._life.take(Trigger.OPEN)
        self.client._life.take(Trigger.OPENED)
        traffic = self.client._link.traffic
        if single:
            traffic._taker = None
        else:
            traffic.hand_to(traffic.receive, self._take)
        welcome = Welcome(1, "b1", "session", heartbeat=DAY, client=OWN)
        self._connection.data_received(part(Part.WELCOME, encode_words(welcome)))
        self.subscriptions = [
            self._subscribe(),
            self.client.subscribe("TRUE"),
            self._subscribe(awaits=True),
            self._subscribe(with_origin=True),
            self._subscribe(receive_own=False),
            self._subscribe(duplicates="per_path"),
        ]

    def _take(self, data: bytes, at: int) -> tuple[int, int]:
        upto, count = self.client._local.take(data, at)
        self.taken += count
        return upto, count

    def _subscribe(self, *, awaits: bool = False, **how: Any) -> Subscription[Notification]:
        async def later(notification: Notification) -> None:
            await asyncio.sleep(0)
            self._handle(mine[0], notification)

        def now(notification: Notification) -> None:
            self._handle(mine[0], notification)

        mine = [self.client.subscribe("TRUE", callback=later if awaits else now, **how)]
        return mine[0]

    def _handle(self, subscription: Subscription[Any], notification: Notification) -> None:
        self.log.append((subscription.id, str(notification)))
        if notification.get("whom") != subscription.id:
            return
        match notification["do"]:
            case "unsubscribe":
                subscription.unsubscribe()
            case "update" if not subscription.ended:
                subscription.update("n > 20" if notification["n"] % 2 else "n >= 0")  # type: ignore[operator]
            case "add":
                self.subscriptions.append(self._subscribe())
            case "publish":
                self.client._local.publish({"echo": notification["n"]})
            case "fail":
                raise ValueError("a mistake")

    async def give(self, read: bytes) -> None:
        self._connection.data_received(read)
        for _ in range(3):
            await asyncio.sleep(0)

    async def end(self) -> dict[str, Any]:
        """Everything that can be seen of it."""
        for _ in range(200):
            await asyncio.sleep(0)
        client, local = self.client, self.client._local
        seen = {
            "log": self.log,
            "sent": bytes(self.wire.written),
            "queued": [
                [str(getattr(one, "item", one)) for one in subscription._queue] for subscription in self.subscriptions
            ],
            "positions": [local.position(id) for id in IDS],
            "marks": {id: one.after for id, one in local._subscriptions.items()},
            "gaps": [list(one.gaps) for one in self.subscriptions],
            "statistics": client.statistics(),
            "received": client._link.traffic.received,
            "ended": [one.ended for one in self.subscriptions],
        }
        for subscription in self.subscriptions:
            subscription.unsubscribe()
        await client._subscriptions.end_callbacks()
        self._connection.connection_lost(None)
        return seen


def delivered(message: Message | Deliver) -> bytes:
    return part(Part.DATA, encode(Frame(cast(Any, message))))


def stream(rng: random.Random, size: int) -> Iterator[bytes]:
    """Parts, as a broker might send them, and some that none would."""
    for number, id in enumerate(IDS[:6], 1):
        if rng.random() < 0.9:
            yield delivered(Settled(id, number=number))
    seqs, numbers = dict.fromkeys(ORIGINS, 0), dict.fromkeys(PUBLISHERS, 0)
    sent: list[bytes] = []
    gaps: list[bytes] = []
    wild = rng.choice([0.1, 0.3, 1.0])
    """How much of it is anything but plain deliveries."""
    while size > 0:
        origin, publisher = rng.choice(ORIGINS), rng.choice(PUBLISHERS)
        ids = (rng.choice(IDS[:6]),) if rng.random() > 0.3 * wild else tuple(rng.sample(IDS, 2))
        chance = rng.random() * (0.6 + 0.4 * wild)
        size -= 1
        if chance < 0.6:
            tags = rng.choice(TAGS) if rng.random() < 0.2 * wild else ()
            route = Route(path=rng.choice([(), (), ("s",)]), version=5 * (rng.random() < 0.2 * wild), tags=tags)
            for _ in range(rng.randint(1, 12)):
                seqs[origin] += rng.choice([1, 1, 3])
                numbers[publisher] += rng.choice([1, 1, 2])
                content: dict[str, Any] = {"n": numbers[publisher]}
                if rng.random() < 0.05 * wild:
                    content |= {"whom": rng.choice(ids), "do": rng.choice(DEEDS)}
                if rng.random() < 0.1:
                    content["list"] = (1, "a")
                identity = Identity(origin, 1, seqs[origin], publisher, numbers[publisher], 7)
                one = delivered(Deliver(Envelope(identity, (route,), encode_body(content)), ids))
                sent.append(one)
                yield one
        elif chance < 0.7 and sent:
            yield from sent[-rng.randint(1, min(20, len(sent))) :][: rng.randint(1, 20)]
        elif chance < 0.76:
            if rng.random() < 0.5:
                numbers[publisher] = max(0, numbers[publisher] - rng.randint(1, 9))  # sent again elsewhere
            else:
                seqs[origin] = max(0, seqs[origin] - rng.randint(1, 9))  # brought again, though by another number
        elif chance < 0.82:
            yield delivered(Settled(rng.choice(IDS), number=rng.randint(1, 14), marks={origin: Position(1, 1)}))
        elif chance < 0.88:
            yield delivered(Marks({origin: Position(1, rng.randint(0, seqs[origin] + 3))}))
        elif chance < 0.92:
            first = rng.randint(1, seqs[origin] + 5)
            if not gaps or rng.random() < 0.4:
                gaps.append(delivered(Gap(origin, 1, first, rng.choice([None, None, first + 3]), ids)))
            yield rng.choice(gaps)  # some are told again
        elif chance < 0.96:
            yield part(Part.PING)
        else:
            yield rng.choice([ack(0), delivered(PublishAck(1, "b1", 1, 1))])


def cut(rng: random.Random, data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = rng.choice([7, 300, 3_000, 20_000])
        yield data[at : at + size]
        at += size


def plain(*numbers: tuple[int, int], tags: tuple[str, ...] = ()) -> bytes:
    """Deliveries with these numbers of their broker and of their publisher."""
    return b"".join(
        delivered(
            Deliver(
                Envelope(Identity("b1", 1, seq, "p", own, 7), (Route(tags=tags),), encode_body({"n": seq})), ("s1",)
            )
        )
        for seq, own in numbers
    )


SETTLED = delivered(Settled("s1", number=1))
OPEN_END = delivered(Gap("b1", 1, 10, None, ("s1",)))
CASES: dict[str, tuple[list[bytes], list[int], int]] = {
    "all that are new": ([SETTLED, plain((1, 1), (2, 2), (3, 3))], [1, 2, 3], 0),
    "nothing that lies behind": ([SETTLED, plain((5, 5)), plain((4, 6), (6, 7))], [5, 6], 0),
    "nothing of which the publisher's number came": ([SETTLED, plain((5, 5)), plain((6, 5), (7, 6))], [5, 7], 0),
    "what comes late by another way": (
        [SETTLED, plain((1, 1), (2, 2)), plain((50, 50), (51, 51), tags=(DETOUR,)), plain((3, 3), (4, 4))],
        [1, 2, 50, 51, 3, 4],
        0,
    ),
    "a gap again once something has come": (
        [SETTLED, plain((1, 1), (2, 2)), OPEN_END, plain((20, 20), (21, 21)), OPEN_END],
        [1, 2, 20, 21],
        2,
    ),
    "what the filter of before let through": ([plain((1, 1), (2, 2))], [1, 2], 0),
}


@compiled
@pytest.mark.parametrize("what", CASES)
def test_the_application_gets(what: str) -> None:
    async def run() -> None:
        reads, got, gaps = CASES[what]
        for single in (True, False):
            application = Application(single=single)
            for read in reads:
                await application.give(read)
            seen = await application.end()
            assert seen["log"] == [("s1", f"Notification(n={n})") for n in got]
            assert len(seen["gaps"][0]) == gaps

    asyncio.run(run())


async def play(seed: int, size: int) -> int:
    rng = random.Random(seed)
    data = b"".join(stream(rng, size))
    together, single = Application(single=False), Application(single=True)
    for read in cut(rng, data):
        await together.give(read)
        await single.give(read)
    ours, theirs = await together.end(), await single.end()
    for what, value in theirs.items():
        assert ours[what] == value, (seed, what)
    return together.taken


@pytest.fixture(autouse=True)
def _in_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_traffic, "ACK_DELAY", DAY)
    caplog.set_level("CRITICAL")  # the callbacks fail on purpose


@compiled
def test_many_at_once_are_what_they_are_one_by_one() -> None:
    assert sum(asyncio.run(play(seed, 80)) for seed in range(16)) > 1_000


@compiled
@pytest.mark.soak
def test_many_at_once_are_what_they_are_one_by_one_for_long() -> None:
    for seed in soak_seeds(SOAK_SECONDS / 4):
        asyncio.run(play(seed, 60))


def test_noting_many_numbers_is_noting_each() -> None:
    rng = random.Random(3)
    many, each = Repetitions(10), Repetitions(10)
    number, noted = 0, 0
    for _ in range(300):
        source = (rng.choice("ab"), "p", 0)
        number += rng.randint(1, 3)
        numbers = [number := number + rng.randint(1, 2) for _ in range(rng.randint(1, 25))]
        if many.follows(source, numbers[0]):
            many.note(source, numbers)
            noted += len(numbers)
            assert not any(each.known(source, one) for one in numbers)
        else:
            assert [many.known(source, one) for one in numbers] == [each.known(source, one) for one in numbers]
        back = number - rng.randint(0, 40)
        assert many.known(source, back) == each.known(source, back)
        assert (many._younger, many._older, many._count) == (each._younger, each._older, each._count)
    assert noted > 500
