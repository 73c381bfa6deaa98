"""`client.aggregates`: how many would hear this, now and whenever it changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from client.transports import brokers, on_both, on_sockets, options, serve, url, way_to
from net import world as sockets
from net.test_status import fetch, metrics
from serving import serving

import tidings
from tidings import sync
from tidings.aggregation import AggregationOptions, Exported
from tidings.client import AggregateValue, AggregateWatch, ReceiverCount
from tidings.net import Access, AccessEntry, Options

TOKEN = "a-token-for-the-tests"


async def complete(watch: AggregateWatch, value: int | None = None) -> AggregateValue:
    """The next complete result, with this value."""
    async with asyncio.timeout(20):
        async for result in watch:
            if result.complete and value in (None, result.value):
                return result
    raise AssertionError("the watch has ended")


@pytest.mark.req("AGG-052")
@on_both
async def test_a_watch_tells_a_value_now_and_whenever_it_changes() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"])) as one, tidings.connect(url(servers["b"])) as two:
            async with one.aggregates.watch("subscriber_count", filter="type = 'quote'") as watch:
                result = await complete(watch, 0)
                assert (result.error, result.version) == (0, "1")
                subscription = await two.subscribe("type = 'quote' AND price > 100")
                await complete(watch, 1)
                subscription.unsubscribe()
                await complete(watch, 0)
            assert [item async for item in watch] == []


@on_both
async def test_a_value_can_be_had_once() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"])) as one, tidings.connect(url(servers["b"])) as two:
            await two.subscribe("price > 100")
            await two.subscribe(tidings.attr.price > 200)
            assert (await one.aggregates.get("subscriber_count")).value == 1
            assert (await one.aggregates.get("subscription_count", filter=tidings.attr.price > 50)).value == 2
            assert (await one.aggregates.get("subscription_count", filter="price < 150")).value == 1


@pytest.mark.req("AGG-140")
@on_both
async def test_a_publisher_learns_how_many_would_hear_it() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        await client.subscribe("type = 'quote' AND price > 100")
        assert await client.aggregates.potential_receivers(type="quote", price=150) == 1
        assert await client.aggregates.potential_receivers({"type": "quote"}, price=50) == 0
        assert await client.aggregates.potential_receivers("type = 'quote'") == 1
        assert await client.aggregates.potential_receivers("type = 'trade'") == 0


@pytest.mark.req("AGG-061", "AGG-071")
@on_both
async def test_the_bound_of_a_watch_can_be_changed() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        for _ in range(3):
            await client.subscribe("n > 1")
        async with client.aggregates.watch("subscription_count", max_error=10) as watch:
            first = await anext(watch)
            assert abs(first.value - 3) <= first.error <= 10
            watch.set_max_error(0)
            assert (await complete(watch, 3)).error == 0
            assert watch.max_error == 0


@on_both
async def test_a_watch_survives_a_connection_that_is_cut() -> None:
    async with serve(options()) as server, way_to(server) as way:
        async with tidings.connect(way.url) as client, tidings.connect(url(server)) as other:
            async with client.aggregates.watch("subscriber_count") as watch:
                await complete(watch, 0)
                way.cut()
                async with asyncio.timeout(20):
                    outdated = await anext(watch)
                assert not outdated.complete
                await complete(watch, 0)
                await other.subscribe("n > 1")
                await complete(watch, 1)


@on_both
async def test_a_watch_goes_on_at_another_broker() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with way_to(servers["a"]) as way:
            both = [way.url, url(servers["b"])]
            async with tidings.connect(both) as client, tidings.connect(url(servers["b"])) as other:
                await other.subscribe("n > 1")
                async with client.aggregates.watch("subscriber_count") as watch:
                    await complete(watch, 1)
                    way.closed = True
                    way.cut()
                    await complete(watch, 1)
                    assert client.statistics().broker == "b"
                    await other.subscribe("n > 2")
                    await client.subscribe("n > 2")
                    await complete(watch, 2)


@on_both
async def test_what_is_watched_at_a_broker_can_be_seen() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"])) as one, tidings.connect(url(servers["b"])) as two:
            async with one.aggregates.watch("subscriber_count", filter="n > 1", max_error=2) as watch:
                await complete(watch)
                assert [offer.name for offer in await two.aggregates.list()] == [
                    "subscriber_count",
                    "subscription_count",
                    "publisher_count",
                    "broker_count",
                    "publication_rate",
                    "subscription_rate",
                    "load",
                    "active_publishers",
                    "distribution",
                ]
                (mine,) = (await one.aggregates.status()).watched
                assert (mine.aggregate, mine.key, mine.requests, mine.bound) == ("subscriber_count", "n > 1", 1, 2)
                (theirs,) = (await two.aggregates.status()).watched
                assert (theirs.requests, theirs.bound, theirs.neighbours) == (0, None, 1)


@on_both
async def test_what_cannot_be_watched_is_refused_before_anything_is_sent() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        for bad in (-1, float("nan"), "5", True):
            with pytest.raises(tidings.ArgumentRefused, match="max_error"):
                client.aggregates.watch("subscriber_count", max_error=bad)  # type: ignore[arg-type]
        with pytest.raises(tidings.FilterError):
            client.aggregates.watch("subscriber_count", filter="price >")
        with pytest.raises(tidings.FilterError, match="myloc"):
            client.aggregates.watch("subscriber_count", filter="place WITHIN myloc")
        with pytest.raises(tidings.FilterError, match="a class of its own"):
            client.aggregates.watch("subscriber_count", filter=Everything())  # type: ignore[arg-type]
        with pytest.raises(tidings.ArgumentRefused, match="a filter and a probe"):
            client.aggregates.watch("subscriber_count", filter="TRUE", probe={"n": 1})
        with pytest.raises(tidings.ArgumentRefused, match="probe=5"):
            client.aggregates.watch("subscriber_count", probe=5)  # type: ignore[arg-type]
        with pytest.raises(tidings.ArgumentRefused, match="give a filter, or attributes"):
            await client.aggregates.potential_receivers("n > 1", n=3)
        with pytest.raises(tidings.AggregateError, match="no aggregate is called 'reach'; choose one of"):
            await client.aggregates.get("reach")
        assert (await client.aggregates.get("subscriber_count")).value == 0


class Everything:
    def matches(self, notification: object) -> bool:
        return True


@on_both
async def test_a_value_that_is_not_complete_in_time_is_an_error() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        with pytest.raises(tidings.AggregateError, match="not every broker has answered in 0 seconds, nothing"):
            await client.aggregates.get("subscriber_count", timeout=0)


@on_both
async def test_a_watch_of_a_client_that_closes_ends_with_it() -> None:
    async with serve(options()) as server:
        async with tidings.connect(url(server)) as client:
            watch = client.aggregates.watch("subscriber_count")
            await complete(watch, 0)
        with pytest.raises(tidings.ClientNotOpen):
            await anext(watch)
        with pytest.raises(tidings.ClientNotOpen):
            client.aggregates.watch("subscriber_count")


@on_sockets
async def test_whoever_may_not_administer_is_not_told_about_others() -> None:
    counter = AccessEntry("counter", count=("root",))
    access = Access(
        {TOKEN: AccessEntry("someone"), TOKEN * 2: AccessEntry("boss", administer=True), TOKEN * 3: counter}
    )
    async with sockets.serve(Options(name="closed", port=0, access=access)) as server:
        async with tidings.connect(url(server), token=TOKEN) as client:
            with pytest.raises(tidings.AccessDenied, match="'someone' may not count"):
                await client.aggregates.get("subscriber_count")
            with pytest.raises(tidings.AccessDenied, match="'someone' may not see what is counted"):
                await client.aggregates.status()
        async with tidings.connect(url(server), token=TOKEN * 2) as client:
            assert (await client.aggregates.get("subscriber_count")).value == 0
            await client.subscribe("TRUE")
            assert await client.aggregates.potential_receivers() == 1
            async with tidings.connect(url(server), token=TOKEN * 3) as guest:  # may count, but not so few
                value = await guest.aggregates.get("subscriber_count")
                assert (value.value, value.withheld, value.complete) == (None, True, True)
                assert await guest.aggregates.potential_receivers() is None
                assert await guest.aggregates.potential_receivers("type = 'none' AND FALSE") == 0
                with pytest.raises(tidings.AccessDenied, match="'counter' may not count in scope 'moon'"):
                    await guest.aggregates.get("subscriber_count", scope="moon")


@on_sockets
async def test_a_broker_without_aggregation_answers_nothing_and_the_client_says_so() -> None:
    async with sockets.serve(Options(name="plain", port=0, aggregation=AggregationOptions(enabled=False))) as server:
        async with tidings.connect(url(server)) as client:
            with pytest.raises(tidings.AggregateError, match="without aggregation"):
                await client.aggregates.status(timeout=0.05)


def test_a_blocking_client_watches_too() -> None:
    with serving(Options(name="b", port=0)) as address, sync.connect(address) as client:
        subscription = client.subscribe("n > 1")
        assert client.aggregates.get("subscriber_count").value == 1
        assert client.aggregates.potential_receivers(n=2) == 1
        assert "subscriber_count" in [offer.name for offer in client.aggregates.list()]
        with client.aggregates.watch("subscriber_count", max_error=0) as watch:
            assert next(watch).value == 1
            assert watch.receive(timeout=0.01) is None
            subscription.unsubscribe()
            assert next(watch).value == 0
            assert watch.last is not None
            watch.set_max_error(3)
            assert watch.max_error == 3
            (seen,) = client.aggregates.status().watched
            assert seen.aggregate == "subscriber_count"
        assert list(watch) == []


@on_both
async def test_a_question_has_a_value_for_each_window_by_group() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        async with client.aggregates.watch("count(), max(n) BY kind WINDOW 200ms WHERE n > 1") as watch:
            await complete(watch)
            for number in range(6):
                await client.publish(n=number, kind="ab"[number % 2])
            seen: dict[object, int] = {}
            async with asyncio.timeout(20):
                while sum(seen.values()) < 4:
                    result = await complete(watch)
                    assert result.window is not None
                    assert (result.window[1] - result.window[0]).total_seconds() == 0.2
                    for group, (count, _) in result.value.items():
                        seen[group] = seen.get(group, 0) + count
            assert seen == {("a",): 2, ("b",): 2}
        assert (await client.aggregates.get("rate() WINDOW 100ms")).value == 0


@on_both
async def test_a_question_that_cannot_be_is_refused_before_anything_is_sent() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        with pytest.raises(tidings.ExpressionError, match="column"):
            client.aggregates.watch("p95(load WINDOW 60s")
        with pytest.raises(tidings.ArgumentRefused, match="its own filter"):
            client.aggregates.watch("count() WINDOW 60s", filter="n > 1")
        with pytest.raises(tidings.ArgumentRefused, match="is exact"):
            client.aggregates.watch("count() WINDOW 60s", max_error=1)


@on_sockets
async def test_metrics_say_what_is_watched_and_told() -> None:
    async with sockets.serve(Options(name="b", port=0, metrics_port=0)) as server:
        async with tidings.connect(url(server)) as client, client.aggregates.watch("subscriber_count") as watch:
            await complete(watch)
            found = metrics((await fetch(server.metrics_port, "/metrics"))[1])
            assert found["tidings_aggregation_keys", ""] == found["tidings_aggregation_watches", ""] == 1
            assert found["tidings_aggregation_results_total", ""] == 1


@pytest.mark.req("AGG-145")
@on_both
async def test_supplied_aggregates_are_asked_for_by_name() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        publishing = asyncio.ensure_future(_publish_for_ever(client))
        try:
            spread = await client.aggregates.get(
                "distribution", filter="type = 'load'", window="1s", of="load", edges=(50, 90)
            )
            assert spread.value[1] > 0
            assert spread.value[0] == spread.value[2] == 0
            assert (await client.aggregates.get("active_publishers", window="1s")).value == 1
        finally:
            publishing.cancel()
        assert (await client.aggregates.get("broker_count")).value == 1
        with pytest.raises(tidings.TidingsError, match="choose one of publication_rate"):
            client.aggregates.watch("subscriber_count", window="1s")


async def _publish_for_ever(client: tidings.Client) -> None:
    while True:
        await client.publish(type="load", load=60)
        await asyncio.sleep(0.1)


@on_sockets
async def test_metrics_show_what_the_configuration_exports() -> None:
    export = (
        "subscriber_count type = 'quote'",
        "broker_count",
        "count(), max(load) BY rack WINDOW 300ms",
        "publisher_count",
    )
    aggregation = AggregationOptions(export=export, export_keys=4)
    async with sockets.serve(Options(name="b", port=0, metrics_port=0, aggregation=aggregation)) as server:
        async with tidings.connect(url(server)) as client:
            await client.subscribe("type = 'quote'")

            async def samples() -> dict[tuple[str, str], float]:
                await client.publish(rack="r1", load=7)
                await client.publish(rack="r2", load=9)
                status, text = await fetch(server.metrics_port, "/metrics")
                assert status == 200
                return metrics(text)

            label = "aggregate=max(load),key=r1"
            async with asyncio.timeout(20):
                while ("tidings_aggregate", label) not in (shown := await samples()):
                    await asyncio.sleep(0.05)
            assert shown["tidings_aggregate", label] == 7
            assert shown["tidings_aggregate", "aggregate=subscriber_count,key=type = 'quote'"] == 1
            assert shown["tidings_aggregate_complete", "aggregate=broker_count,key="] == 1
            assert shown["tidings_aggregate_error", "aggregate=broker_count,key="] == 0
            # Two groups with two measures each, two counts, and one that is refused here: four of seven are shown.
            assert shown["tidings_aggregate_left_out", ""] == 3


def test_what_is_exported_is_checked_when_the_configuration_is_read() -> None:
    for text, problem in (
        ("subscriber_cuont", "no aggregate is called"),
        ("distribution", "needs to know of what"),
        ("count()", "no window"),
        ("subscriber_count type =", "a value is missing"),
    ):
        with pytest.raises(tidings.TidingsError, match=problem):
            Exported.parse(text)


@pytest.mark.req("AGG-142")
@on_both
async def test_a_publisher_is_told_how_many_got_it() -> None:
    async with brokers("ab", ["ab"]) as servers:
        async with tidings.connect(url(servers["a"])) as one, tidings.connect(url(servers["b"])) as two:
            assert (await one.publish(type="quote", count_receivers=True)).receivers == ReceiverCount(0, 0, True)
            await two.subscribe("type = 'quote'")
            await one.subscribe("type = 'quote'")
            receipt = await one.publish(type="quote", count_receivers=True)
            assert receipt.receivers == ReceiverCount(2, 0, complete=True)
            assert (await receipt) is not None
            assert (await one.publish(type="quote")).receivers is None


@on_both
async def test_counting_receivers_of_what_cannot_be_published_is_refused_before() -> None:
    async with serve(options()) as server, tidings.connect(url(server)) as client:
        with pytest.raises(tidings.ArgumentRefused, match="fire"):
            await client.publish(type="t", quality="fire", count_receivers=True)
        with pytest.raises(tidings.ArgumentRefused, match="count_within"):
            await client.publish(type="t", count_receivers=True, count_within=-1)
        with pytest.raises(tidings.ArgumentRefused, match="count_receivers"):
            await client.publish(type="t", count_receivers=7)  # type: ignore[arg-type]
        with pytest.raises(tidings.ScopeError, match="no scope 'nowhere'"):
            await client.publish(type="t", count_receivers="nowhere")
        with pytest.raises(tidings.ValueRefused):
            await client.publish(type=object(), count_receivers=True)
        assert client.statistics().published == 0


@pytest.mark.req("AGG-142")
@on_sockets
async def test_who_may_not_count_publishes_nothing_and_who_may_is_not_told_small_numbers() -> None:
    counter = AccessEntry("counter", count=("root",))
    access = Access(
        {TOKEN: AccessEntry("someone"), TOKEN * 2: AccessEntry("boss", administer=True), TOKEN * 3: counter}
    )
    async with sockets.serve(Options(name="closed", port=0, access=access)) as server:
        async with (
            tidings.connect(url(server), token=TOKEN) as client,
            tidings.connect(url(server), token=TOKEN * 2) as boss,
            tidings.connect(url(server), token=TOKEN * 3) as guest,
        ):
            got = await boss.subscribe("TRUE")
            with pytest.raises(tidings.AccessDenied, match="'someone' may not count"):
                await client.publish(n=1, count_receivers=True)
            receipt = await guest.publish(n=2, count_receivers=True)
            assert receipt.receivers == ReceiverCount(None, None, complete=True, withheld=True)
            async for notification in got:
                assert notification["n"] == 2
                break


def test_a_blocking_client_is_told_how_many_got_it() -> None:
    with serving(Options(port=0)) as address, sync.connect(address) as client, client.subscribe("TRUE"):
        receipt = client.publish(n=1, count_receivers=True)
        assert receipt is not None
        assert receipt.receivers == ReceiverCount(1, 0, complete=True)


@on_sockets
async def test_a_broker_with_a_store_leaves_the_secret_of_pseudonyms_in_a_file(tmp_path: Path) -> None:
    async with sockets.serve(Options(name="kept", port=0, data=tmp_path)) as server:
        async with tidings.connect(url(server)) as client:
            assert not (tmp_path / "pseudonyms.key").exists()
            async with client.aggregates.watch("publishers() WINDOW 200ms") as watch:
                async for _ in watch:
                    await client.publish(n=1)
                    if (tmp_path / "pseudonyms.key").exists():
                        break
            assert len(bytes.fromhex((tmp_path / "pseudonyms.key").read_text())) == 32


@pytest.mark.req("AGG-147")
@on_sockets
async def test_only_administrators_learn_names_and_only_where_that_is_allowed() -> None:
    counter = AccessEntry("counter", count=("root",))
    access = Access({TOKEN: counter, TOKEN * 2: AccessEntry("boss", administer=True)})
    naming = AggregationOptions(identity=True)
    async with sockets.serve(Options(name="closed", port=0, access=access, aggregation=naming)) as server:
        async with (
            tidings.connect(url(server), token=TOKEN) as guest,
            tidings.connect(url(server), token=TOKEN * 2) as boss,
        ):
            await guest.subscribe("n > 1")
            found = await boss.aggregates.who(n=2)
            assert (found.names, found.left_out, found.complete) == ((guest.name,), 0, True)
            assert (await boss.aggregates.who("n < 1")).names == ()
            with pytest.raises(tidings.AccessDenied, match="'counter' may not measure what clients do"):
                await guest.aggregates.who()
            with pytest.raises(tidings.ArgumentRefused, match="and attributes"):
                await boss.aggregates.who("n < 1", n=2)
    async with sockets.serve(Options(name="shut", port=0)) as server, tidings.connect(url(server)) as client:
        with pytest.raises(tidings.AggregateError, match="'shut' tells nobody's name; set identity = true"):
            await client.aggregates.who()
