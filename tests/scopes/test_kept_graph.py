"""The scope graph on disk: bounded, whatever happens, and enough to go on from."""

from __future__ import annotations

from pathlib import Path

import pytest
from net.world import options, running, until, url

import tidings
from tidings.broker import Log
from tidings.model import TidingsError
from tidings.net import serve
from tidings.scopes import CreateScope, Graph, Join, Leave, Scopes, Transaction, apply
from tidings.scopes.service._kept_graph import TABLE, KeptGraph
from tidings.scopes.service._versions import Versions
from tidings.sim import Network
from tidings.sim._disk import SimDisk
from tidings.sim._scheduler import Scheduler
from tidings.store import Store

LIMIT = 10


@pytest.fixture(autouse=True)
def few_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.scopes.service._versions.MAX_VERSIONS", LIMIT)


def graph_of(network: Network, broker: str) -> Graph:
    service = network.brokers[broker].features["scopes"]
    assert isinstance(service, Scopes)
    return service.graph


def kept(network: Network, broker: str) -> int:
    log = network.brokers[broker].runtime.log
    assert log is not None
    return len(log.items(TABLE))


def test_a_graph_that_changes_for_ever_takes_no_more_room_and_survives() -> None:
    network = Network(1, features=lambda name: [Scopes("a")])
    network.add_brokers("ab", ["ab"])
    network.run()
    network.change("b", (CreateScope("s"), CreateScope("t")))
    for number in range(5 * LIMIT):
        network.change("b", (Join("@x", "s") if number % 2 == 0 else Leave("@x", "s"),))
        network.run()
        assert all(kept(network, broker) <= LIMIT + 1 for broker in "ab")
    before = graph_of(network, "a")
    assert before.version == 5 * LIMIT + 1
    for broker in "ab":
        network.crash(broker)
        network.run(3)
        network.restart(broker)
        network.run()
        assert graph_of(network, broker) == before


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_a_crash_at_any_time_leaves_a_graph_that_was_decided(after: int) -> None:
    """The disk forgets what it has not synced: the whole graph must be there before the changes in it go."""
    network = Network(2, features=lambda name: [Scopes("a")])
    network.add_broker("a")
    network.run()
    network.change("a", (CreateScope("s"),))
    for number in range(4 * LIMIT):
        network.change("a", (Join("@x", "s") if number % 2 == 0 else Leave("@x", "s"),))
        network.run(0.0005 * (after + 1))
        if number % 41 == after:
            known = graph_of(network, "a")
            network.crash("a")
            network.restart("a")
            again = graph_of(network, "a")
            assert known.version <= again.version <= known.version + 1
            assert again == known or again.version > known.version
    network.run()
    assert kept(network, "a") <= LIMIT + 1


class Refusing(SimDisk):
    """A disk that takes nothing while it is full; it always forgets."""

    refuses = False

    def put(self, table, key, value, synced=None, failed=None) -> None:  # type: ignore[no-untyped-def]
        if self.refuses and value is not None:
            raise TidingsError("full")
        super().put(table, key, value, synced, failed)


def transactions(count: int) -> list[Transaction]:
    changes = [CreateScope("s"), *(Join("@x", "s") if one % 2 else Leave("@x", "s") for one in range(1, count))]
    return [Transaction(number, (change,), "", 0, "") for number, change in enumerate(changes, 1)]


@pytest.mark.parametrize("full", [(6, 6), (11, 11), (12, 14), (3, 20), (11, 30)])
def test_a_disk_that_was_full_for_a_while_leaves_what_can_be_gone_on_from(full: tuple[int, int]) -> None:
    scheduler = Scheduler()
    disk = Refusing(scheduler, 0)
    log: Log = disk
    shelf, versions = KeptGraph(log), Versions()
    for change in transactions(3 * LIMIT):
        disk.refuses = full[0] <= change.version <= full[1]
        versions.add(change)
        shelf.fold(versions)
        shelf.put(change, lambda: None, lambda error: None)
        scheduler.run(scheduler.now + 1_000)
    found = KeptGraph(log).read()
    assert found is not None
    expected = Graph()
    for change in transactions(found.newest):
        expected = apply(expected, change.changes)
    assert found.graph == expected
    assert found.newest in (3 * LIMIT, full[0] - 1)


@running
async def test_the_store_of_a_server_holds_a_bounded_graph(tmp_path: Path) -> None:
    async with serve(options("a", data=tmp_path)) as server, tidings.connect(url(server)) as client:
        await client.admin.create_scope("s")
        for _ in range(2 * LIMIT):
            await client.admin.join("@x", "s")
            await client.admin.leave("@x", "s")
        before = server.host.governance.scopes.graph
        assert isinstance(server.host.log, Store)
        log = server.host.log
        await until(lambda: len(log.items(TABLE)) <= LIMIT + 1)
    async with serve(options("a", data=tmp_path)) as server:
        assert server.host.governance.scopes.graph == before
