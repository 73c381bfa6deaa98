"""Acknowledged groups as applications use them."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from client.transports import on_both, on_sockets, options, serve, url

import tidings
from tidings.model import ArgumentRefused
from tidings.net import Access, AccessEntry

TOKEN = "a" * 32


async def publish(address: str, *numbers: int) -> None:
    async with tidings.connect(address) as publisher:
        await publisher.publish_many([{"n": n} for n in numbers])


async def numbers(jobs: tidings.Subscription[tidings.Job], count: int) -> list[int]:
    """Take so many jobs, and acknowledge each."""
    done = []
    async with asyncio.timeout(20):
        for _ in range(count):
            job = await jobs.next()
            await job.ack()
            done.append(job["n"])
    return done  # type: ignore[return-value]


@on_both
async def test_members_share_the_jobs_and_acknowledge_them() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one, tidings.connect(url(server)) as other:
        first = await one.subscribe("n > 0", group="billing", ack=True)
        second = await other.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), *range(1, 11))
        assert sorted([*await numbers(first, 5), *await numbers(second, 5)]) == list(range(1, 11))


@on_both
async def test_what_is_given_back_comes_again_and_says_how_often_it_was_given() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), 1)
        async with asyncio.timeout(20):
            first = await jobs.next()
            await first.nack()
            again = await jobs.next()
        assert (first.deliveries, again.deliveries, again["n"]) == (1, 2, 1)
        await again.ack()


@on_both
async def test_a_delay_keeps_a_job_back_while_others_are_done() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), 1, 2)
        async with asyncio.timeout(20):
            await (await jobs.next()).nack(delay=0.2)
        assert await numbers(jobs, 2) == [2, 1]


@on_both
async def test_a_member_that_leaves_leaves_its_jobs_to_others() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one, tidings.connect(url(server)) as other:
        leaving = await one.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), 1, 2, 3)
        async with asyncio.timeout(20):
            job = await leaving.next()
        leaving.unsubscribe()
        staying = await other.subscribe("n > 0", group="billing", ack=True)
        assert sorted(await numbers(staying, 3)) == [1, 2, 3]
        with pytest.raises(tidings.AckRefused) as caught:
            job.ack()
        assert str(caught.value) == (
            f"job {job.key} went back to group 'billing' when its subscription ended; say what becomes of a job before "
            "that"
        )


@on_both
async def test_a_group_goes_on_where_it_was_when_nobody_was_there() -> None:
    async with serve(options()) as server:
        async with tidings.connect(url(server)) as one:
            jobs = await one.subscribe("n > 0", group="billing", ack=True)
            await publish(url(server), 1)
            assert await numbers(jobs, 1) == [1]
        await publish(url(server), 2, 3)
        async with tidings.connect(url(server)) as other:
            assert await numbers(await other.subscribe("n > 0", group="billing", ack=True), 2) == [2, 3]


@on_sockets
async def test_a_group_goes_on_where_it_was_when_the_broker_has_been_restarted(tmp_path: Path) -> None:
    stored = options(data=tmp_path)
    async with serve(stored) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), 1, 2)
        assert await numbers(jobs, 2) == [1, 2]
        await publish(url(server), 3)
        async with asyncio.timeout(20):
            assert (await jobs.next())["n"] == 3  # and it dies with that
        await asyncio.sleep(1.2)  # positions are on disk within a second
    async with serve(stored) as server, tidings.connect(url(server)) as other:
        jobs = await other.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), 4)
        assert await numbers(jobs, 2) == [3, 4]


@on_both
async def test_a_member_holds_no_more_than_it_wants() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        acks = tidings.Acks(max_in_flight=2)
        jobs = await one.subscribe("n > 0", group="billing", ack=acks)
        await publish(url(server), 1, 2, 3, 4)
        async with asyncio.timeout(20):
            held = [await jobs.next(), await jobs.next()]
        await one.flush()
        assert jobs.waiting == 0
        await held[0].ack()
        async with asyncio.timeout(20):
            assert (await jobs.next())["n"] == 3


@on_both
async def test_what_nobody_acknowledges_becomes_a_dead_letter() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one, tidings.connect(url(server)) as other:
        letters = await other.subscribe("type = 'dead-letter' AND group = 'billing'")
        jobs = await one.subscribe("n > 0", group="billing", ack=tidings.Acks(max_deliveries=2))
        await publish(url(server), 1)
        async with asyncio.timeout(20):
            for _ in range(2):
                await (job := await jobs.next()).nack()
            letter = await letters.next()
        assert dict(letter) == {
            "type": "dead-letter",
            "group": "billing",
            "deliveries": 2,
            "origin": str(job.key),
            "job.n": 1,
        }


@on_both
async def test_jobs_of_one_key_are_handled_one_after_the_other() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one, tidings.connect(url(server)) as other:
        acks = tidings.Acks(by="customer")
        first = await one.subscribe("n > 0", group="billing", ack=acks)
        await other.subscribe("n > 0", group="billing", ack=acks)
        await one.publish_many([{"n": n, "customer": "smith"} for n in (1, 2, 3)])
        seen = []
        async with asyncio.timeout(20):
            for _ in range(3):
                job = await first.next()
                seen.append(job["n"])
                await one.flush()
                assert first.waiting == 0
                await job.ack()
        assert seen == [1, 2, 3]


@on_both
async def test_an_acknowledgement_twice_is_refused() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=True)
        await publish(url(server), 1)
        async with asyncio.timeout(20):
            job = await jobs.next()
        await job.ack()
        with pytest.raises(tidings.AckRefused) as caught:
            job.ack()
        assert str(caught.value) == (
            f"job {job.key} of group 'billing' has been acknowledged already; say once what becomes of a job"
        )


@on_sockets
async def test_a_group_has_one_strength() -> None:
    async with serve(options()) as server, tidings.connect(url(server), name="a") as one:
        await one.subscribe("n > 0", group="billing", ack=True)
        await one.subscribe("n > 0", group="news")
        with pytest.raises(tidings.TidingsError) as plain:
            await one.subscribe("n > 0", group="billing")
        with pytest.raises(tidings.TidingsError) as acknowledged:
            await one.subscribe("n > 0", group="news", ack=True)
        assert str(plain.value).endswith(
            "group 'billing' does not take client 'a': its members acknowledge what they get, and this client would "
            "not; subscribe with `ack=True`, on the command line --ack, or choose another group"
        )
        assert str(acknowledged.value).endswith(
            "group 'news' does not take client 'a': its members do not acknowledge what they get, and this client "
            "would; subscribe without `ack`, or choose another group"
        )


@on_sockets
async def test_all_members_say_the_same_about_the_work() -> None:
    async with serve(options()) as server, tidings.connect(url(server), name="a") as one:
        await one.subscribe("n > 0", group="billing", ack=True)
        with pytest.raises(tidings.TidingsError) as caught:
            await one.subscribe("n > 0", group="billing", ack=tidings.Acks(within=5, by="customer"))
        assert str(caught.value).endswith(
            "group 'billing' does not take client 'a': the group works with within=30, max_deliveries=5, and this "
            "is within=5, max_deliveries=5, by='customer'; subscribe as the other members do, or choose another "
            "group"
        )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"ack": True}, '`ack` needs a group whose jobs are acknowledged; give one, as in group="billing"'),
        ({"ack": 1, "group": "g"}, "ack=1: give True, or tidings.Acks(...)"),
        (
            {"ack": tidings.Acks(max_in_flight=0), "group": "g"},
            "max_in_flight=0; give a whole number from 1 to 1,000",
        ),
        (
            {"ack": tidings.Acks(max_deliveries=0), "group": "g"},
            "max_deliveries=0; give a whole number from 1 to 1,000",
        ),
        ({"ack": tidings.Acks(within=0), "group": "g"}, "`within` of 0 seconds; give one from 0.01 to 86,400"),
        (
            {"ack": True, "group": "g", "durable": "d"},
            "group='g' and durable='d': what a group has handled is not kept; give either of them",
        ),
    ],
)
@on_sockets
async def test_what_cannot_be_is_refused(how: dict[str, object], reason: str) -> None:
    async with serve(options()) as server, tidings.connect(url(server), name="a") as one:
        with pytest.raises(ArgumentRefused) as caught:
            one.subscribe("n > 0", **how)  # type: ignore[call-overload]
        assert str(caught.value) == reason


@on_sockets
async def test_a_refusal_that_nobody_awaits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with serve(options()) as server, tidings.connect(url(server), name="a") as one:
        jobs = await one.subscribe("n > 0", group="billing", ack=tidings.Acks(within=0.05, max_deliveries=1))
        letters = await one.subscribe("type = 'dead-letter'")
        await publish(url(server), 1)
        async with asyncio.timeout(20):
            job = await jobs.next()
            await letters.next()
        reason = (
            f"job {job.key} of group 'billing' was not acknowledged within 0.05 seconds, and goes to another member; "
            "give `within` more time, or do less at once"
        )
        with pytest.raises(tidings.AckRefused) as caught:
            await job.ack()
        assert str(caught.value) == reason
        await publish(url(server), 2)
        with caplog.at_level(logging.WARNING, "tidings.client"):
            async with asyncio.timeout(20):
                late = await jobs.next()
                await letters.next()
                late.ack()
                while not caplog.records:
                    await asyncio.sleep(0.01)
        logged = f"an acknowledgement does not count: {reason}"
        assert [one.getMessage() for one in caplog.records] == [logged.replace(str(job.key), str(late.key))]


@on_sockets
async def test_members_of_a_scope_share_what_is_published_there_and_have_no_dead_letters() -> None:
    async with serve(options()) as server, tidings.connect(url(server), name="ann") as ann:
        await ann.admin.create_scope("market")
        await ann.admin.join("@ann", "market")
        with pytest.raises(tidings.TidingsError) as caught:
            await ann.subscribe("n > 0", group="market/billing", ack=True)
        assert str(caught.value) == (
            "max_deliveries=5: this client is a member of the scope 'market', and a dead letter would show outside of "
            "it what was visible inside; give None, as in ack=tidings.Acks(max_deliveries=None) or --no-dead-letters, "
            "and look at `deliveries` of a job to find one that never succeeds"
        )
        jobs = await ann.subscribe("n > 0", group="market/billing", ack=tidings.Acks(max_deliveries=None))
        await publish(url(server), 1)  # outside of the scope
        await ann.publish(n=2)
        assert await numbers(jobs, 1) == [2]
        with pytest.raises(tidings.TidingsError) as stranger:
            async with tidings.connect(url(server), name="eve") as eve:
                await eve.subscribe("n > 0", group="market/billing", ack=tidings.Acks(max_deliveries=None))
        assert str(stranger.value) == (
            "client 'eve' is no member of scope 'market', so it cannot join the group 'billing' there; ask an "
            "administrator of the scope for a membership, or use a group of your own"
        )


@on_sockets
async def test_who_may_not_publish_dead_letters_has_none_published_by_the_broker() -> None:
    entry = AccessEntry("ann", publish=tidings.Filter.parse("type = 'order'"))
    async with serve(options(access=Access({TOKEN: entry}))) as server:
        async with tidings.connect(url(server), token=TOKEN) as ann:
            with pytest.raises(tidings.AccessDenied) as caught:
                await ann.subscribe("n > 0", group="billing", ack=True)
            assert str(caught.value).endswith(
                "max_deliveries=5: 'ann' may not publish the dead letters of group 'billing'; add "
                "`type = 'dead-letter'` to its `publish`, or give None, as in ack=tidings.Acks(max_deliveries=None) or "
                "--no-dead-letters"
            )
            await ann.subscribe("n > 0", group="billing", ack=tidings.Acks(max_deliveries=None))
