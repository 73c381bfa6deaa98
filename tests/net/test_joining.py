"""A neighbour whose link the tree uses joins the tree, or loses its link."""

from __future__ import annotations

import asyncio
import logging

import pytest
from net.world import Raw, brokers, running, until, well

from tidings.wire import Attach, LinkState, PeerRole, Welcome

LIMITS = {"heartbeat": 1.0, "join_seconds": 0.3}


@running
async def test_a_neighbour_that_tells_of_its_links_and_never_joins_the_tree_loses_its_link(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with brokers("b", limits=LIMITS) as servers:
        adjacency = servers["b"].host.broker.adjacency
        async with await Raw.open(servers["b"]) as raw:
            assert isinstance(await raw.hello("mute", PeerRole.BROKER, epoch=1), Welcome)
            raw.send(LinkState("mute", 1, 1, {"b": 1}))
            await until(lambda: "mute" in adjacency.tree.neighbours)
            told = await raw.rejection()
            assert told.reason == (
                "broker 'mute' told of its links and did not join the tree within 0.3 seconds; "
                "check that it runs a version of Tidings that its neighbours understand"
            )
            assert told.retry
        await until(lambda: not adjacency.tree.neighbours)
        await well(servers["b"])
    assert [told.reason in record.message for record in caplog.records if record.levelno == logging.WARNING] == [True]


@running
async def test_a_neighbour_that_has_joined_or_whose_link_the_tree_does_not_use_stays() -> None:
    async with brokers("b", limits=LIMITS) as servers:
        broker = servers["b"].host.broker
        async with await Raw.open(servers["b"]) as joined, await Raw.open(servers["b"]) as unused:
            assert isinstance(await joined.hello("joined", PeerRole.BROKER, epoch=1), Welcome)
            assert isinstance(await unused.hello("unused", PeerRole.BROKER, epoch=1), Welcome)
            joined.send(LinkState("joined", 1, 1, {"b": 1}))
            await until(lambda: "joined" in broker.adjacency.tree.neighbours)
            epoch, generation = broker.adjacency.tree.epoch, broker.adjacency.generation
            joined.send(Attach(epoch, 1), Attach(epoch, 1, generation))
            links = [peer.link for peer in servers["b"].host.peers]
            await until(lambda: not any(map(broker.awaits, links)))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3 * LIMITS["heartbeat"] / 2):  # three looks
                    await joined.rejection()
            assert all(map(broker.has_link, links))
