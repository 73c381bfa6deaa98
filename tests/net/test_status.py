"""What a running broker says about itself: over the wire, and over HTTP."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from net.world import brokers, options, running, until, url
from prometheus_client.parser import text_string_to_metric_families

import tidings
from tidings.broker import Role, RoutingOptions
from tidings.history import CacheLimits, HistoryOptions, StrategyOptions
from tidings.net import Access, AccessEntry, Server, StartError, serve
from tidings.net._health import Health
from tidings.net._status import Reporter
from tidings.store import StoreStatistics
from tidings.wire import decode_status, encode_status


async def fetch(port: int | None, path: str, request: bytes | None = None) -> tuple[int, str]:
    """The status code and the body of a page."""
    assert port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request if request is not None else f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]), body


@running
async def test_an_administrator_sees_links_tables_and_counters() -> None:
    async with brokers("abc", ["ab", "bc"]) as servers, tidings.connect(url(servers["a"]), name="alice") as client:
        await client.subscribe("price > 100")
        await (await client.publish(price=101))
        status = await client.status()
        assert (status.name, status.role, status.brokers, status.clients) == ("a", "border", 1, 1)
        assert (status.subscriptions, status.advertisements) == (1, 0)
        assert status.epoch == servers["a"].host.epoch
        assert {(peer.name, peer.kind) for peer in status.peers} == {("alice", "client"), ("b", "broker")}
        neighbour = next(peer for peer in status.peers if peer.kind == "broker")
        assert neighbour.told == ("price > 100",)
        assert neighbour.told_subscriptions == 1
        assert status.counters.messages_in["Publish"] == 1
        assert status.counters.messages_out["Deliver"] == 1
        assert status.tree.hops == {"b": "b", "c": "b"}
        assert status.tree.edges == (("a", "b"), ("b", "c"))
        assert status.store is None


@running
async def test_links_in_reserve_are_told_apart_from_the_tree() -> None:
    async with brokers("abc", ["ab", "bc", "ac"]) as servers, tidings.connect(url(servers["c"])) as client:
        tree = (await client.status()).tree
        assert set(tree.edges) | set(tree.spare) == {("a", "b"), ("a", "c"), ("b", "c")}
        assert len(tree.edges) == 2


@running
async def test_the_settings_that_hold_can_be_read() -> None:
    chosen = RoutingOptions("simple", advertisements=True)
    async with (
        serve(options("b", routing=chosen, limits={"heartbeat": 7.0})) as server,
        tidings.connect(url(server)) as client,
    ):
        status = await client.status()
        assert status.routing["algorithm"] == "simple"
        assert status.routing["advertisements"] is True
        assert status.limits["heartbeat"] == 7.0


@running
async def test_only_those_who_may_administer_are_answered() -> None:
    access = Access({"op": AccessEntry("operator", administer=True), "app": AccessEntry("application")})
    async with serve(options("b", access=access)) as server:
        async with tidings.connect(url(server), token="op") as client:
            assert (await client.status()).name == "b"
        async with tidings.connect(url(server), token="app") as client:
            with pytest.raises(tidings.TidingsError, match="'application' may not see the status"):
                await client.status()
            await (await client.publish(n=1))  # and goes on


@running
async def test_the_store_is_part_of_the_status(tmp_path: Path) -> None:
    async with serve(options("b", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        await (await client.publish(n=1, quality="stored"))
        store = (await client.status()).store
        assert store is not None
        assert store["synced"] >= 1
        assert store.keys() == set(StoreStatistics.__struct_fields__)


@running
async def test_a_status_of_a_later_version_can_be_read() -> None:
    async with serve(options("b")) as server, tidings.connect(url(server)) as client:
        status = await client.status()
    later = {**msgspec.to_builtins(status), "weather": "fine"}
    assert decode_status(json.dumps(later).encode()) == status
    assert decode_status(encode_status(status)) == status
    with pytest.raises(tidings.TidingsError, match="not the status"):
        decode_status(b"{}")


def metrics(text: str) -> dict[tuple[str, str], float]:
    """The value of each sample, by name and labels."""
    return {
        (sample.name, ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@running
async def test_scopes_are_counted_one_by_one_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net._metrics.MAX_SCOPE_LABELS", 3)
    async with serve(options("b", metrics_port=0)) as server, tidings.connect(url(server), name="c") as client:
        await client.admin.create_scope("secret", hidden=True)
        for scope in ("s1", "s2", "s3"):
            await client.admin.create_scope(scope)
        for scope in ("secret", "s1", "s2", "s3"):
            await client.admin.join("@c", scope)
        await (await client.publish(n=1))
        found = metrics((await fetch(server.metrics_port, "/metrics"))[1])
        labels = {label for name, label in found if name == "tidings_scope_lookups_total"}
        assert len(labels) <= 3 + 1
        assert {"scope=(root)", "scope=(others)"} <= labels
        assert "scope=secret" not in labels
        assert sum(found["tidings_scope_lookups_total", label] for label in labels) == 4


@running
async def test_groups_are_metrics_one_by_one_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.net._group_metrics.MAX_GROUP_LABELS", 2)
    async with serve(options("b", metrics_port=0)) as server, tidings.connect(url(server), name="c") as client:
        acks = tidings.Acks(max_deliveries=2, max_in_flight=1)
        jobs = await client.subscribe("n > 0", group="billing", ack=acks)
        for group in ("one", "two", "three"):
            await client.subscribe("n > 0", group=group)
        await client.publish_many([{"n": 1}, {"n": 2}, {"n": 3}])
        await (await jobs.next()).nack()
        await (again := await jobs.next()).nack()  # and it is a dead letter
        await jobs.next()
        found = metrics((await fetch(server.metrics_port, "/metrics"))[1])
        billing = "acknowledged=true,group=billing,owner="
        counts = {
            name: found[f"tidings_group_{name}", billing]
            for name in ("members", "waiting", "held", "taken_total", "redelivered_total", "dead_letters_total")
        }
        assert again.deliveries == 2
        assert counts == {
            "members": 1,
            "waiting": 1,
            "held": 1,
            "taken_total": 3,
            "redelivered_total": 1,
            "dead_letters_total": 1,
        }
        assert found["tidings_group_handled_total", billing] == 1  # the dead letter
        assert 0 < found["tidings_group_oldest_seconds", billing] < 60
        assert found["tidings_groups", ""] == 4
        labels = {label for name, label in found if name == "tidings_group_members"}
        assert labels == {billing, "acknowledged=false,group=one,owner=", "acknowledged=,group=(others),owner="}
        assert found["tidings_group_members", "acknowledged=,group=(others),owner="] == 2


@running
async def test_prometheus_can_scrape(tmp_path: Path) -> None:
    async with (
        serve(options("b", data=tmp_path, metrics_port=0)) as server,
        tidings.connect(url(server)) as client,
    ):
        await client.subscribe("TRUE")
        await (await client.publish(n=1, quality="stored"))
        code, body = await fetch(server.metrics_port, "/metrics")
        assert code == 200
        found = metrics(body)
        assert found["tidings_clients", ""] == 1
        assert found["tidings_subscriptions", ""] == 1
        assert found["tidings_messages_total", "direction=in,type=Publish"] == 1
        assert found["tidings_connected_peers", "kind=client,peer="] == 1
        assert found["tidings_store_synced_total", ""] >= 1
        await (await client.publish(n=2))
        _, body = await fetch(server.metrics_port, "/metrics")
        assert metrics(body)["tidings_messages_total", "direction=in,type=Publish"] == 2


@pytest.mark.req("VIS-211")
@running
async def test_tables_and_messages_between_brokers_are_metrics() -> None:
    async with brokers("ab", ["ab"], metrics_port=0) as servers, tidings.connect(url(servers["a"])) as client:
        for text in ("n > 0", "n > 5", "m > 0"):
            await client.subscribe(text)
        async with tidings.connect(url(servers["b"])) as other:
            for n in range(1, 5):
                await (await other.publish(n=n))
            await until(lambda: servers["a"].host.broker.statistics.messages_in["Notify"] == 4)
        near, far = [metrics((await fetch(servers[name].metrics_port, "/metrics"))[1]) for name in "ab"]
        assert near["tidings_subscriptions", ""] == 3
        assert near["tidings_told_subscriptions", "peer=b"] == far["tidings_subscriptions", ""] == 2
        for kind, count in (("Subscribe", 2), ("Notify", 4)):
            out, back = ("a", "b") if kind == "Subscribe" else ("b", "a")
            pages = {"a": near, "b": far}
            assert pages[out]["tidings_messages_total", f"direction=out,type={kind}"] == count
            came = pages[back]["tidings_messages_total", f"direction=in,type={kind}"]
            assert came == count


@running
async def test_ready_means_connected_to_every_neighbour() -> None:
    async with serve(options("a")) as first:
        port = first.port
    async with serve(options("b", neighbours=(f"tidings://127.0.0.1:{port}",), metrics_port=0)) as server:
        await until(lambda: server.diallers[0].problem)
        code, body = await fetch(server.metrics_port, "/ready")
        assert code == 503
        assert json.loads(body)["reasons"][0].startswith(f"the neighbour tidings://127.0.0.1:{port} is not connected")
        assert (await fetch(server.metrics_port, "/health"))[0] == 200
    async with brokers("ab", ["ab"], metrics_port=0) as servers:
        await until(lambda: servers["b"].diallers[0].connected)
        assert await fetch(servers["b"].metrics_port, "/ready") == (200, '{"ready":true,"reasons":[]}\n')


@running
async def test_a_broker_that_failed_is_not_healthy() -> None:
    async with serve(options("b", metrics_port=0)) as server:
        server.host.on_failure(RuntimeError("broken"))
        code, body = await fetch(server.metrics_port, "/health")
        assert code == 503
        assert "failed" in json.loads(body)["reasons"][0]
        assert server.failed is not None
        assert server.failed.exception() is not None


class _Disk(Reporter):
    """A store that counts what the test says."""

    def __init__(self) -> None:
        self.counted: dict[str, int] | None = {"failed": 0, "synced": 0}

    def store(self) -> dict[str, int] | None:
        return self.counted


@running
async def test_a_disk_that_refuses_is_not_healthy_until_it_takes_again() -> None:
    async with serve(options("b")) as server:
        disk = _Disk()
        health = Health(server, disk)
        assert not health.complaints()
        disk.counted = {"failed": 1, "synced": 0}
        assert "is it full?" in health.complaints()[0]
        assert health.complaints()
        disk.counted = {"failed": 1, "synced": 1}
        assert not health.complaints()


@running
async def test_other_requests_are_answered_politely() -> None:
    async with serve(options("b", metrics_port=0)) as server:
        port = server.metrics_port
        assert (await fetch(port, "/"))[0] == 404
        assert (await fetch(port, "", b"POST /metrics HTTP/1.1\r\n\r\n"))[0] == 405
        assert (await fetch(port, "", b"hello\r\n\r\n"))[0] == 400
        assert (await fetch(port, "", b"x" * 20_000 + b"\r\n\r\n"))[0] == 431
        assert await fetch(port, "", b"HEAD /health HTTP/1.1\r\n\r\n") == (200, "")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)  # says nothing while the server stops
        del reader
    writer.close()


@running
async def test_a_port_in_use_is_told_and_nothing_is_left_open(tmp_path: Path) -> None:
    async with serve(options("a", metrics_port=0)) as server:
        for wanted in ({"port": server.port}, {"port": 0, "metrics_port": server.metrics_port}):
            with pytest.raises(StartError, match="Address already in use; choose another port"):
                await Server(replace(options("b", data=tmp_path), **wanted)).start()
    async with serve(options("b", data=tmp_path)):
        pass  # the store was given back


@running
async def test_an_inner_broker_tells_clients_where_to_go() -> None:
    async with serve(options("b", role=Role.INNER)) as server:
        with pytest.raises(tidings.ConnectionFailed, match="clients use a border broker"):
            await tidings.connect(url(server)).__aenter__()


@pytest.mark.req("HIS-057")
@running
async def test_what_a_cache_keeps_is_measured_and_a_full_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    limits = CacheLimits(max_global=3, max_filters=1, max_per_filter=2)
    caching = {"history": HistoryOptions(strategy="merging"), "caching": StrategyOptions(limits=limits)}
    async with serve(options("b", metrics_port=0, **caching)) as server, tidings.connect(url(server)) as client:
        await client.subscribe("price > 0")
        with caplog.at_level("WARNING", logger="tidings.net"):
            await client.subscribe("price > 1")
        assert "the cache is full with 1 filters; 'price > 1' is delivered but not remembered" in caplog.text
        await client.publish_many({"price": price} for price in (1, 2, 3))
        late = client.subscribe("price > 0", past=tidings.last(2))
        assert [(await anext(late))["price"] for _ in range(2)] == [2, 3]
        found = metrics((await fetch(server.metrics_port, "/metrics"))[1])
    history = {name.removeprefix("tidings_history_"): value for (name, _), value in found.items() if "history" in name}
    assert {name: history[name] for name in ("asked_total", "delivered_total", "waiting")} == {
        "asked_total": 1,
        "delivered_total": 2,
        "waiting": 0,
    }
    assert (history["cache_filters"], history["cache_notifications"], history["cache_rejected_total"]) == (1, 2, 1)
    assert 0 < history["cache_bytes"] < 100
