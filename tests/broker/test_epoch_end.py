"""After a crash it is known where an epoch ended, unless it numbered what was not stored; only then there is a gap."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest
from store_world import Loop, envelope, numbers

from tidings.broker import Log, RoutingOptions
from tidings.broker.forwarding._publications import Publications
from tidings.model import TidingsError
from tidings.sim import Network, Op, SimClient, check
from tidings.sim._disk import SimDisk
from tidings.sim._scheduler import Scheduler
from tidings.store import Store
from tidings.wire import Quality


def crashed(*qualities: Quality) -> tuple[Network, SimClient]:
    """A reader at a, and what was published at b before it was killed and came back."""
    network = Network(5)
    network.add_brokers("ab", links=["ab"])
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
    reader.subscribe("TRUE")
    network.run()
    for n, quality in enumerate(qualities):
        writer.publish(n=n, quality=quality)
    network.run()
    network.crash("b")
    network.run(seconds=1)
    network.restart("b")
    network.run()
    assert check(network.trace) == []
    return network, reader


def test_nothing_was_published_so_nothing_is_lost() -> None:
    _, reader = crashed()
    assert reader.gaps == []


def test_everything_was_stored_so_nothing_is_lost() -> None:
    _, reader = crashed(Quality.STORED, Quality.STORED)
    assert reader.gaps == []
    assert len(reader.received) == 2


@pytest.mark.parametrize("quality", [Quality.ACCEPTED, Quality.FIRE])
def test_a_number_was_given_to_what_was_not_stored_so_a_gap_is_told_once(quality: Quality) -> None:
    network, reader = crashed(Quality.STORED, quality)
    assert [(gap.origin, gap.epoch, gap.first, gap.last) for gap in reader.gaps] == [("b", 1, 3, None)]
    reader.detach()
    reader.attach("b")
    network.run()
    assert len(reader.gaps) == 1


def test_an_origin_that_was_gone_tells_nothing_twice_and_what_it_lost_in_its_place() -> None:
    network = Network(5)
    network.add_brokers("ab", links=["ab"])
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
    reader.subscribe("TRUE")
    network.run()
    network.cut("a", "b")
    for n in range(1, 6):
        writer.publish(n=n, quality=Quality.STORED if n % 2 == 0 else Quality.ACCEPTED)
    network.run(seconds=70)
    network.crash("b")
    network.restart("b", clients_within=0)
    network.heal("a", "b")
    network.run()
    told = [record for record in network.trace.records if record.op in (Op.GAP, Op.NOTIFY)]
    assert [(record.op, *record.detail[1:4]) for record in told] == [
        (Op.GAP, 1, 1, None),  # nobody could be asked
        (Op.NOTIFY, 1, 2, 0),  # that 1 is lost is no news
        (Op.GAP, 1, 3, 3),
        (Op.NOTIFY, 1, 4, 0),
        (Op.GAP, 1, 5, None),
    ]
    assert check(network.trace) == []


def test_the_checker_finds_a_gap_of_an_epoch_in_which_everything_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    network, reader = crashed(Quality.ACCEPTED)
    writer = network.clients["writer"]
    writer.detach()
    writer.attach("b")
    writer.publish(n=1, quality=Quality.STORED)
    network.run()
    monkeypatch.setattr(SimDisk, "ended", lambda disk, epoch: None)
    network.crash("b")
    network.run(seconds=1)
    network.restart("b", clients_within=0)
    network.run()
    assert [(gap.epoch, gap.first, gap.last) for gap in reader.gaps] == [(1, 2, None), (2, 2, None)]
    assert ["in epoch 2 was to be stored" in violation.reason for violation in check(network.trace)] == [True]


def test_what_is_not_stored_waits_until_the_disk_has_noted_that_it_leaves() -> None:
    network = Network(5)
    network.add_broker("a")
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "a")
    reader.subscribe("TRUE")
    network.run()
    for n in range(3):
        writer.publish(n=n, quality=Quality.FIRE)
    disk = network.brokers["a"].runtime.log
    assert disk is not None
    before = 0
    while not disk.items("unlogged"):
        before = len(reader.received)
        network.run(seconds=0.0005)
    assert before == 0
    network.crash("a")  # before the note is synced: nothing can have left
    network.restart("a", clients_within=0)
    network.run()
    assert reader.gaps == []
    assert reader.received == []


@pytest.mark.parametrize("simulated", [True, False])
def test_a_log_that_is_full_takes_the_note_and_nothing_else(simulated: bool, tmp_path: Path) -> None:
    loop, scheduler, done = Loop(), Scheduler(), []
    log: Log
    if simulated:
        log = disk = SimDisk(scheduler, 1)
        disk.full = True
    else:
        log = loop.open(tmp_path, queue_count=0)
    for refused in (
        lambda: log.keep(envelope(getattr(log, "epoch", 1), 1), lambda *_: None),
        lambda: log.put("table", "key", b""),
        lambda: log.delete("table", "key"),
    ):
        with pytest.raises(TidingsError):
            refused()
    log.note_unlogged(lambda: done.append(True), lambda error: done.append(False))
    assert done == []
    if isinstance(log, Store):
        loop.turn()
        log.close()
    else:
        scheduler.drain(scheduler.now + 1_000)
    assert done == [True]


def test_an_advertisement_that_waited_behind_it_settles_in_the_same_turn() -> None:
    network = Network(5, routing=RoutingOptions(advertisements=True))
    network.add_broker("a")
    writer = network.add_client("writer", "a")
    writer.advertise("n >= 0")
    network.run()
    number = writer.publish(n=1, quality=Quality.ACCEPTED)
    writer.advertise("m >= 0", id="later")
    while number not in writer.acknowledged_numbers:
        assert "later" not in writer.settled_ids
        network.run(seconds=0.0005)
    network.run(seconds=0.02)  # on its way; nothing else happens at the broker
    assert "later" in writer.settled_ids


# --- the store ----------------------------------------------------------------------------------------


def left_open(store: Store) -> None:
    """End as a crash does: nothing is said about the end of the epoch."""
    store.close()


def test_an_epoch_that_numbered_only_what_it_stored_ended_with_the_last_number(tmp_path: Path) -> None:
    loop = Loop()
    epochs = []
    for seqs in ((1, 2, 3), (), (1,)):
        store = loop.open(tmp_path)
        loop.append_all(store, *seqs)
        epochs.append(store.epoch)
        left_open(store)
    with loop.open(tmp_path) as store:
        assert [store.ended(epoch) for epoch in epochs] == [3, 0, 1]
        assert store.ended(store.epoch) is None


def test_an_epoch_that_numbered_something_else_has_no_end(tmp_path: Path) -> None:
    loop = Loop()
    store = loop.open(tmp_path)
    loop.append_all(store, 1)
    done: list[bool] = []
    store.note_unlogged(lambda: done.append(True))
    while not done:
        loop.turn()
    loop.append_all(store, 5)
    epoch = store.epoch
    left_open(store)
    with loop.open(tmp_path) as store:
        assert store.ended(epoch) is None
        assert numbers(store, epoch) == [1, 5]


def test_what_was_forgotten_counts_for_the_end(tmp_path: Path) -> None:
    loop = Loop()
    store = loop.open(tmp_path)
    loop.append_all(store, 1, 2, 3)
    store.retain(older_than=10_000_000, synced=lambda: loop.synced.append(0))
    while 0 not in loop.synced:
        loop.turn()
    assert numbers(store) == []
    epoch = store.epoch
    left_open(store)
    with loop.open(tmp_path) as store:
        assert store.ended(epoch) == 3


def test_an_epoch_of_a_store_from_before_has_no_end(tmp_path: Path) -> None:
    loop = Loop()
    store = loop.open(tmp_path)
    loop.append_all(store, 1)
    store.delete("complete", str(store.epoch))  # a version that did not know of it left nothing
    epoch = store.epoch
    left_open(store)
    with loop.open(tmp_path) as store:
        assert store.ended(epoch) is None


def test_a_store_that_is_closed_in_a_hurry_ends_as_in_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.store._queue.COMMIT_COUNT", 10)
    loop = Loop()
    store = loop.open(tmp_path)
    epoch = store.epoch
    with contextlib.closing(sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")  # no commit gets through
        for seq in range(1, 101):
            loop.append(store, seq)
        timer = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        timer.start()
        given_up = store.close(last_seq=100, patience=0.05)
        timer.join()
    while not loop.posted.empty():
        loop.turn()
    assert 0 < given_up < 100
    with loop.open(tmp_path) as store:
        assert numbers(store, epoch) == loop.synced == list(range(1, 101 - given_up))
        assert store.ended(epoch) == 100 - given_up, "the others were never acknowledged"


def test_a_number_that_is_missing_on_disk_was_refused_and_is_judged_anew_after_a_crash() -> None:
    """Its refusal was lost in the crash, and a later number is on disk: it must not be acknowledged as stored."""
    network = Network(seed=1, routing=RoutingOptions("covering", advertisements=True))
    network.add_broker("a")
    alice = network.add_client("alice", "a")
    alice.advertise("n < 10")
    network.run()
    refused = alice.publish(n=99, quality=Quality.STORED)
    stored = alice.publish(n=1, quality=Quality.STORED)
    network.run()
    disk = network.brokers["a"].runtime.log
    assert disk is not None
    assert disk.publishers()["alice"] == [0, stored]
    publications = Publications(2, disk)
    assert publications.is_known("alice", stored)
    assert not publications.is_known("alice", refused)
    publications.numbers.use("alice", refused, "alice")
    assert publications.is_known("alice", refused), "it is published once"
    assert publications.latest("alice") == stored
