"""What the broker sends to several is written once, and still each link is FIFO."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from net.world import Raw, brokers, running

import tidings
from tidings.wire import Deliver, Publish, PublishAck, Quality, Settled, Subscribe, Welcome, encode_body

EVERYTHING = tidings.Filter.parse("EXISTS(n)")
BODY = encode_body(tidings.Notification(n=1))


Clients = Callable[..., Awaitable[Raw]]


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[Clients]:
    """A broker, and a way to have clients at it, with or without a subscription."""
    async with brokers("b") as servers, contextlib.AsyncExitStack() as stack:

        async def client(name: str, id: str | None = None) -> Raw:
            raw = await stack.enter_async_context(await Raw.open(servers["b"]))
            assert isinstance(await raw.hello(name), Welcome)
            if id is not None:
                raw.send(Subscribe(id, EVERYTHING))
                await raw.expect(Settled)
            return raw

        yield client


def said(message: object) -> tuple[str, int]:
    match message:
        case Deliver(envelope):
            return "deliver", envelope.identity.seq
        case PublishAck():
            return "ack", message.number
    raise AssertionError(message)


@running
async def test_a_publisher_that_subscribes_gets_notifications_and_acknowledgements_in_their_order() -> None:
    async with world() as client:
        others = [await client(f"other{at}", "s1") for at in range(3)]
        publisher = await client("publisher", "s1")
        publisher.send(*(Publish(number, BODY, Quality.ACCEPTED) for number in range(1, 6)))
        got = [said(await publisher.message()) for _ in range(10)]
        assert got == [(what, number) for number in range(1, 6) for what in ("ack", "deliver")]
        for other in others:
            assert [said(await other.message()) for _ in range(5)] == [("deliver", number) for number in range(1, 6)]


@running
async def test_a_subscription_in_the_midst_of_publications_gets_what_follows_it() -> None:
    async with world() as client:
        first, second = await client("first", "s1"), await client("second", "s1")
        publisher = await client("publisher")
        late = Subscribe("late", EVERYTHING)
        publish = [Publish(number, BODY, Quality.FIRE) for number in range(1, 5)]
        publisher.send(publish[0], publish[1], late, publish[2], publish[3])
        assert [said(await first.message())[1] for _ in range(4)] == [1, 2, 3, 4]
        assert [said(await second.message())[1] for _ in range(4)] == [1, 2, 3, 4]
        own = [await publisher.message() for _ in range(3)]
        assert isinstance(own[0], Settled)
        assert [said(message)[1] for message in own[1:]] == [3, 4]


@running
async def test_those_who_get_the_same_under_other_ids_get_their_own() -> None:
    async with world() as client:
        subscribers = {id: await client(f"client {at}", id) for at, id in enumerate("abc")}
        publisher = await client("publisher")
        publisher.send(*(Publish(number, BODY, Quality.FIRE) for number in (1, 2)))
        for id, raw in subscribers.items():
            for number in (1, 2):
                message = await raw.message()
                assert isinstance(message, Deliver)
                assert (message.subscriptions, message.envelope.identity.seq) == ((id,), number)
