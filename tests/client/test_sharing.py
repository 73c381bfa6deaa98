"""Groups as applications use them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import pytest
from client.transports import on_both, on_sockets, options, serve, url

import tidings
from tidings.model import ArgumentRefused, TidingsError
from tidings.net import Access, AccessEntry, Options
from tidings.net import serve as serve_sockets

TOKEN = "a-long-enough-token-"


async def published(address: str, count: int, **more: str) -> None:
    async with tidings.connect(address, **more) as publisher:
        await publisher.publish_many([{"n": n} for n in range(1, count + 1)])


async def heard(received: list[list[int]], count: int) -> None:
    async with asyncio.timeout(10):
        while sum(map(len, received)) < count:
            await asyncio.sleep(0.01)


@on_both
async def test_the_subscribers_of_a_group_share_what_passes_its_filter() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one, tidings.connect(url(server)) as other:
        received: list[list[int]] = [[], []]
        for client, mine in zip((one, other), received, strict=True):
            await client.subscribe("n > 0", group="billing", callback=lambda order, mine=mine: mine.append(order["n"]))
        await published(url(server), 20)
        await heard(received, 20)
        assert Counter(n for mine in received for n in mine) == Counter(range(1, 21))
        assert [len(mine) for mine in received] == [10, 10]


@on_both
async def test_who_unsubscribes_leaves_the_rest_to_the_others() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one, tidings.connect(url(server)) as other:
        leaving = await one.subscribe("n > 0", group="billing")
        staying = await other.subscribe("n > 0", group="billing")
        leaving.unsubscribe()
        await one.flush()
        await published(url(server), 5)
        async with asyncio.timeout(10):
            assert sorted([(await staying.next())["n"] for _ in range(5)]) == [1, 2, 3, 4, 5]


@on_both
async def test_a_second_filter_is_refused_and_the_error_says_which_one_counts() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        await one.subscribe("n > 0", group="billing")
        async with tidings.connect(url(server), name="late") as other:
            with pytest.raises(TidingsError) as caught:
                await other.subscribe("n > 5", group="billing")
    assert str(caught.value) == (
        "group 'billing' does not take client 'late': the filter of the group is 'n > 0', and this is 'n > 5'; "
        "subscribe with the filter of the group, or choose another group"
    )


@on_sockets
async def test_a_group_belongs_to_the_identity_that_made_it() -> None:
    access = Access({TOKEN: AccessEntry("shop"), TOKEN * 2: AccessEntry("rival")})
    async with serve_sockets(Options(name="closed", port=0, access=access)) as server:
        address = f"tidings://127.0.0.1:{server.port}"
        async with tidings.connect(address, token=TOKEN) as own, tidings.connect(address, token=TOKEN * 2) as other:
            received: list[list[int]] = [[], []]
            for client, mine in zip((own, other), received, strict=True):
                await client.subscribe("n > 0", group="billing", callback=lambda one, mine=mine: mine.append(one["n"]))
            await own.publish_many([{"n": n} for n in range(1, 6)])
            await heard(received, 10)
    assert received == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"durable": "d"}, "group='g' and durable='d': what a group has handled is not kept; give either of them"),
        ({"past": 5}, "group='g' and `past`: a group begins with what is published; leave `past` out"),
        (
            {"receive_own": False},
            "group='g' and `receive_own`: who gets something is not known when it is published; leave it out",
        ),
    ],
)
@on_both
async def test_what_one_of_many_cannot_ask_for_is_refused(more: dict[str, object], message: str) -> None:
    async with serve(options()) as server, tidings.connect(url(server), name="me") as client:
        with pytest.raises(ArgumentRefused, match=f"^{re.escape(message)}$"):
            client.subscribe("n > 0", group="g", **more)  # type: ignore[call-overload]


@on_both
async def test_the_filter_of_a_member_cannot_be_changed() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        subscription = await client.subscribe("n > 0", group="billing")
        with pytest.raises(TidingsError, match="shares what group 'billing' gets, and so does its filter; unsubscribe"):
            subscription.update("n > 1")
