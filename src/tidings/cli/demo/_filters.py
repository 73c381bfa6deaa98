"""The first scene: what a filter lets through, beside what it stops, and where it stops it."""

from __future__ import annotations

import asyncio
from collections import deque

import tidings
from tidings.model import Notification

from ._brokers import PATIENCE, Network
from ._stage import GOOD, GREY, NAME, Stage

WANTED = "type = 'quote' AND price > 100"
PUBLISHED = (
    {"type": "quote", "symbol": "SAP", "price": 182.4},
    {"type": "quote", "symbol": "ABC", "price": 12.5},
    {"type": "quote", "symbol": "IBM", "price": 241.1},
    {"type": "trade", "symbol": "IBM", "price": 241.1},
    {"type": "quote", "symbol": "XYZ", "price": 99.9},
    {"type": "quote", "symbol": "XYZ", "price": 100.2},
    {"type": "news", "symbol": "SAP", "text": "up again"},
    {"type": "quote", "symbol": "SAP", "price": 183.0},
)
"""The last one passes: when it has arrived, everything before it has arrived, or never will."""


async def filters(stage: Stage, net: Network, where: str) -> bool:
    """Publish at one end, listen at the other."""
    stage.headline("A filter decides what you hear", where)
    stage.say("A subscriber at ", ("rome", NAME), " types")
    stage.gap()
    await stage.command(f'tidings sub "{WANTED}"')
    stage.gap()
    stage.say("and hears, of everything that is published at ", ("berlin", NAME), ", only that:")
    stage.gap()
    async with (
        tidings.connect(net.berlin.url, name="feed") as feed,
        tidings.connect(net.paris.url, name="watch") as watch,
        tidings.connect(net.rome.url, name="reader") as reader,
    ):
        heard = await reader.subscribe(WANTED)
        before = await _arrived(watch)
        stage.line((f"{'published at berlin':32}", GREY), ("heard at rome", GREY))
        fates = _Fates(stage)
        for attributes in PUBLISHED:
            await (await feed.publish(attributes))
            fates.published(Notification(attributes))
            await stage.pause(0.7)
            while heard.waiting:
                fates.heard(await anext(heard))
        async with asyncio.timeout(PATIENCE):
            while fates.open:
                fates.heard(await anext(heard))
        carried = await _arrived(watch) - before
    stage.gap()
    stage.say(
        f"{len(PUBLISHED)} published, ",
        (f"{fates.passed} heard", GOOD),
        f". The rest never left berlin: its link to paris carried {carried}.",
    )
    return carried == fates.passed


async def _arrived(client: tidings.Client) -> int:
    """How many notifications have come over the links of a broker."""
    return (await client.status()).counters.messages_in.get("Notify", 0)


class _Fates:
    """What became of each publication. One publisher's notifications keep their order, so a later one proves it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.open: deque[Notification] = deque()
        self.passed = 0

    def published(self, notification: Notification) -> None:
        """Something is on its way, or stopped."""
        self.open.append(notification)

    def heard(self, notification: Notification) -> None:
        """Something has arrived, so everything before it was stopped."""
        signs = self._stage.signs
        while (earlier := self.open.popleft()) != notification:
            self._stage.line((f"{_shown(earlier)}{signs.stopped}", GREY))
        self._stage.line(f"{_shown(notification)}", (signs.arrow, GOOD), "     ", (_shown(notification), GOOD))
        self.passed += 1


def _shown(notification: Notification) -> str:
    price = notification.get("price")
    rest = f"{price:6.2f}" if isinstance(price, float) else f"{notification['text']!s}"
    return f"{notification['type']!s:6} {notification['symbol']!s:4} {rest:12}"
