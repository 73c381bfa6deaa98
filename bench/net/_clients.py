"""Applications, as processes: `python -m bench.net._clients NAME PORT SECONDS`.

One process with a client that publishes and a client that subscribes; both windows and batches are those of the
generator. Prints the rate and the CPU time of this process for each notification, from the attributes in the hands of
the publishing application to the attributes in the hands of the receiving one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import nats
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

import tidings
from tidings.wire import Quality

from ._bench import BATCH, WINDOW
from ._dialect import quote
from ._load import STALLED, Stalled

WARM_UP = 0.3
"""Seconds before measuring."""
ATTRIBUTES = dict(quote().attributes)
BODY = quote().body


class Meter:
    """Counts what arrives; slows the publisher down; measures."""

    def __init__(self, seconds: float) -> None:
        self.got = 0
        self.sent = 0
        self._seconds = seconds
        self._first: tuple[float, float, int] | None = None
        self._begun = time.perf_counter()
        self._room: asyncio.Future[None] | None = None
        self.done = False
        self.result = {"rate": 0.0, "cpu": 0.0}

    def arrived(self) -> None:
        """One more notification."""
        self.got += 1
        room = self._room
        if room is not None and self.sent - self.got <= WINDOW - BATCH:
            self._room = None
            room.set_result(None)

    def look(self) -> None:
        """Look at the clocks, between two batches."""
        now = time.perf_counter()
        if self._first is None:
            if now - self._begun >= WARM_UP:
                self._first = now, time.process_time(), self.got
        elif now - self._first[0] >= self._seconds:
            began, cpu, got = self._first
            count = self.got - got
            self.result = {"rate": count / (now - began), "cpu": (time.process_time() - cpu) / count * 1e6}
            self.done = True

    async def publish(self, one: Callable[[], Awaitable[object]]) -> None:
        """Publish until enough has been measured."""
        loop = asyncio.get_running_loop()
        while not self.done:
            for _ in range(BATCH):
                await one()
            self.sent += BATCH
            if self.sent - self.got > WINDOW - BATCH:
                self._room = loop.create_future()
                try:
                    async with asyncio.timeout(STALLED):
                        await self._room
                except TimeoutError:
                    raise Stalled(f"{self.got:,} of {self.sent:,} had arrived, then none for {STALLED:.0f} s") from None
            self.look()


async def tidings_client(port: int, meter: Meter, *, quality: str, iterate: bool) -> None:
    """Ours."""
    url, level = f"tidings://127.0.0.1:{port}", Quality[quality]

    def callback(notification: Any) -> None:
        if notification["price"] > 0:
            meter.arrived()

    async def consume(subscription: Any) -> None:
        async for notification in subscription:
            if notification["price"] > 0:
                meter.arrived()

    async with tidings.connect(url) as publisher, tidings.connect(url) as subscriber:
        if iterate:
            subscription = await subscriber.subscribe("type = 'quote' AND price > 100")
            consumer = asyncio.create_task(consume(subscription))
        else:
            await subscriber.subscribe("type = 'quote' AND price > 100", callback=callback)
        await meter.publish(lambda: publisher.publish(ATTRIBUTES, quality=level))
        if iterate:
            consumer.cancel()


async def nats_client(port: int, meter: Meter, *, encoded: bool, iterate: bool) -> None:
    """nats-py; `encoded`: the application makes attributes into bytes and back, as it would have to."""

    async def callback(message: Any) -> None:
        if (json.loads(message.data)["price"] > 0) if encoded else message.data:
            meter.arrived()

    async def consume(subscription: Any) -> None:
        async for message in subscription.messages:
            if (json.loads(message.data)["price"] > 0) if encoded else message.data:
                meter.arrived()

    publisher = await nats.connect(f"nats://127.0.0.1:{port}")
    subscriber = await nats.connect(f"nats://127.0.0.1:{port}")
    if iterate:
        consumer = asyncio.create_task(consume(await subscriber.subscribe("quote")))
    else:
        await subscriber.subscribe("quote", cb=callback)
    await subscriber.flush()
    if encoded:
        await meter.publish(lambda: publisher.publish("quote", json.dumps(ATTRIBUTES).encode()))
    else:
        await meter.publish(lambda: publisher.publish("quote", BODY))
    if iterate:
        consumer.cancel()
    await publisher.close()
    await subscriber.close()


def paho_client(port: int, meter: Meter) -> None:
    """paho-mqtt, quality of service 0, with the threads that it brings."""
    room, ready = threading.Condition(), threading.Event()
    publisher, subscriber = Client(CallbackAPIVersion.VERSION2), Client(CallbackAPIVersion.VERSION2)

    def arrived(client: Any, data: Any, message: Any) -> None:
        meter.got += 1
        if meter.sent - meter.got == WINDOW - BATCH:
            with room:
                room.notify()

    subscriber.on_message = arrived
    subscriber.on_subscribe = lambda *_: ready.set()
    for client in (publisher, subscriber):
        client.connect("127.0.0.1", port)
        client.loop_start()
    subscriber.subscribe("quote")
    ready.wait(10)
    while not meter.done:
        for _ in range(BATCH):
            publisher.publish("quote", BODY)
        meter.sent += BATCH
        with room:
            while meter.sent - meter.got > WINDOW - BATCH:
                room.wait(0.01)
        meter.look()
    for client in (publisher, subscriber):
        client.disconnect()
        client.loop_stop()


def zenoh_client(port: int, meter: Meter) -> None:
    """zenoh, two peers in this process without a server between them; the application packs and unpacks attributes."""
    import zenoh  # noqa: PLC0415 - it starts threads, and the others are measured without them

    pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode
    room = threading.Condition()
    where = f"tcp/127.0.0.1:{port}"

    def peer(listen: list[str], connect: list[str]) -> Any:
        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("listen/endpoints", json.dumps(listen))
        config.insert_json5("connect/endpoints", json.dumps(connect))
        return zenoh.open(config)

    def arrived(sample: Any) -> None:
        if unpack(sample.payload.to_bytes())["price"] > 0:
            meter.got += 1
        if meter.sent - meter.got == WINDOW - BATCH:
            with room:
                room.notify()

    with peer([where], []) as sender, peer([], [where]) as receiver:
        receiver.declare_subscriber("quote", arrived)
        publisher = sender.declare_publisher("quote")
        time.sleep(0.5)  # until the peers know of each other
        while not meter.done:
            for _ in range(BATCH):
                publisher.put(pack(ATTRIBUTES))
            meter.sent += BATCH
            waited = time.monotonic()
            with room:
                while meter.sent - meter.got > WINDOW - BATCH:
                    room.wait(0.01)
                    if time.monotonic() - waited > STALLED:
                        raise Stalled(f"{meter.got:,} of {meter.sent:,} had arrived, then none for {STALLED:.0f} s")
            meter.look()


CLIENTS: dict[str, Callable[[int, Meter], Awaitable[None] | None]] = {
    "tidings, fire, callback": lambda port, meter: tidings_client(port, meter, quality="FIRE", iterate=False),
    "tidings, fire, async for": lambda port, meter: tidings_client(port, meter, quality="FIRE", iterate=True),
    "tidings, accepted, callback": lambda port, meter: tidings_client(port, meter, quality="ACCEPTED", iterate=False),
    "nats-py callback": lambda port, meter: nats_client(port, meter, encoded=False, iterate=False),
    "nats-py async for": lambda port, meter: nats_client(port, meter, encoded=False, iterate=True),
    "nats-py callback, json": lambda port, meter: nats_client(port, meter, encoded=True, iterate=False),
    "paho-mqtt callback": paho_client,
    "zenoh callback, msgpack": zenoh_client,
}
"""What can be measured. Of nats-py and paho-mqtt the application gets bytes, unless the name says otherwise."""


def main() -> None:
    """Run one application."""
    name, port, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    meter = Meter(seconds)
    work = CLIENTS[name](port, meter)
    if work is not None:
        asyncio.run(_run(work))
    print(msgspec.json.encode(meter.result).decode())


async def _run(work: Awaitable[None]) -> None:
    await work


if __name__ == "__main__":
    main()
