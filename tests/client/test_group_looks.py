"""Groups as those see them who may: members, what waits, and what a reset drops."""

from __future__ import annotations

import asyncio

import pytest
from client.transports import brokers, on_both, on_sockets, options, serve, take, url
from net.scopes_world import ALICE, BOB, OPERATOR, access

import tidings


async def settled(client: tidings.Client, group: str, waiting: int, held: int) -> tidings.client.GroupStatus:
    """The group, once so much waits for it and so much is held."""
    async with asyncio.timeout(20):
        while True:
            found = await client.groups.show(group)
            if (found.waiting, found.held) == (waiting, held):
                return found
            await asyncio.sleep(0.02)


@on_both
async def test_a_group_says_who_is_there_what_waits_and_what_is_held() -> None:
    async with (
        serve(options()) as server,
        tidings.connect(url(server), name="one") as one,
        tidings.connect(url(server), name="two") as two,
    ):
        acks = tidings.Acks(max_in_flight=2, max_deliveries=3)
        jobs = await one.subscribe("n > 0", group="billing", ack=acks)
        await one.publish_many([{"n": n} for n in range(1, 6)])
        found = await settled(two, "billing", 3, 2)
        assert (found.name, found.acknowledged, found.filter, found.members) == ("billing", True, "n > 0", 1)
        assert (found.ack_within, found.max_deliveries, found.behind) == (30_000_000, 3, False)
        (member,) = found.listed
        assert (member.client, member.broker, member.connected) == ("one", server.name, True)
        assert (member.holds, member.max_in_flight) == (2, 2)
        assert found.oldest > 0
        await (await jobs.next()).ack()
        await (await jobs.next()).nack()
        found = await settled(two, "billing", 2, 2)
        assert (found.taken, found.handled, found.redelivered, found.dead_letters) == (5, 1, 1, 0)


@on_both
async def test_what_became_a_dead_letter_is_counted() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=tidings.Acks(max_deliveries=1))
        await one.publish(n=1)
        await (await jobs.next()).nack()
        assert (await settled(one, "billing", 0, 0)).dead_letters == 1


@on_both
async def test_a_plain_group_is_listed_beside_an_acknowledged_one() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        await one.subscribe("n > 0", group="zebra")
        await one.subscribe("n > 0", group="billing", ack=True)
        groups, left_out = await one.groups.list()
        assert [(group.name, group.acknowledged, group.members, group.listed) for group in groups] == [
            ("billing", True, 1, ()),
            ("zebra", False, 1, ()),
        ]
        assert left_out == 0
        await one.publish(n=1)
        async with asyncio.timeout(20):
            while (found := await one.groups.show("zebra")).handled != 1:
                await asyncio.sleep(0.02)
        assert [member.connected for member in found.listed] == [True]


@on_both
async def test_groups_are_seen_from_any_broker() -> None:
    async with (
        brokers(["a", "b", "c"], ["ab", "bc"]) as served,
        tidings.connect(url(served["c"]), name="far") as far,
        tidings.connect(url(served["b"])) as near,
    ):
        await far.subscribe("n > 0", group="billing", ack=True)
        found = await near.groups.show("billing")
        assert found.decided_by == "a"
        assert [(member.client, member.broker) for member in found.listed] == [("far", "c")]


@on_both
async def test_a_reset_drops_what_waits_and_lets_members_finish_what_they_hold() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=tidings.Acks(max_in_flight=1))
        await one.publish_many([{"n": n} for n in range(1, 6)])
        held = await jobs.next()
        await settled(one, "billing", 4, 1)
        done = await one.groups.reset("billing")
        assert (done.dropped, done.group.waiting, done.group.held) == (4, 0, 1)
        await held.ack()
        await one.publish(n=6)
        assert (await take(jobs, 1))[0]["n"] == 6
        assert (await one.groups.show("billing")).redelivered == 0


@on_both
async def test_what_is_given_back_after_a_reset_is_given_to_nobody() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=True)
        await one.publish(n=1)
        held = await jobs.next()
        await one.groups.reset("billing")
        await held.nack()
        await settled(one, "billing", 0, 0)
        await one.publish(n=2)
        assert (await take(jobs, 1))[0]["n"] == 2


@on_both
async def test_a_reset_reaches_what_was_published_while_no_member_was_there() -> None:
    async with brokers(["a", "b"], ["ab"]) as served, tidings.connect(url(served["b"])) as shop:
        async with tidings.connect(url(served["b"])) as one:
            jobs = await one.subscribe("n > 0", group="billing", ack=True)
            await shop.publish(n=1)
            await (await jobs.next()).ack()
        await shop.publish_many([{"n": n} for n in (2, 3)])
        await shop.groups.reset("billing")
        async with tidings.connect(url(served["a"])) as other:
            jobs = await other.subscribe("n > 0", group="billing", ack=True)
            await shop.publish(n=4)
            assert (await take(jobs, 1))[0]["n"] == 4


@on_both
async def test_an_unknown_group_and_a_plain_one_have_nothing_to_reset() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        await one.subscribe("n > 0", group="zebra")
        with pytest.raises(tidings.TidingsError, match="'zebra' has no positions to reset"):
            await one.groups.reset("zebra")
        for ask in (one.groups.reset, one.groups.show):
            with pytest.raises(tidings.TidingsError, match="there is no group 'lions' that you may see"):
                await ask("lions")
        with pytest.raises(tidings.TidingsError, match="not the name of a group"):
            await one.groups.show("/lions")


@on_sockets
async def test_a_stranger_sees_no_group_and_resets_none() -> None:
    async with serve(options(access=access())) as server:
        at = url(server)
        async with (
            tidings.connect(at, name="alice", token=ALICE) as alice,
            tidings.connect(at, name="bob", token=BOB) as bob,
            tidings.connect(at, name="root", token=OPERATOR) as root,
        ):
            await alice.subscribe("n > 0", group="billing", ack=True)
            assert [one.name for one in (await alice.groups.list()).groups] == ["billing"]
            assert (await bob.groups.list()).groups == ()
            for ask in (bob.groups.show, bob.groups.reset):
                with pytest.raises(tidings.TidingsError, match="there is no group 'billing' that you may see"):
                    await ask("billing")
                with pytest.raises(tidings.TidingsError, match="there is no group 'billing' that you may see"):
                    await ask("billing", owner="alice")
            assert [(one.owner, one.name) for one in (await root.groups.list()).groups] == [("alice", "billing")]
            assert (await root.groups.show("billing", owner="alice")).members == 1
            assert (await root.groups.reset("billing", owner="alice")).dropped == 0
