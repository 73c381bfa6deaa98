"""Who asks for no quality gets the best that the broker has; trouble with that is told once."""

from __future__ import annotations

import pytest

from tidings.broker._statistics import Statistics
from tidings.broker.forwarding._remembering import MAX_FALLEN, Remembering
from tidings.sim import Network, Op, check
from tidings.sim._disk import SimDisk
from tidings.sim._scheduler import Scheduler
from tidings.wire import Quality


class Ear:
    """A broker's memory on a disk of its own, and what it says."""

    def __init__(self) -> None:
        self.disk = SimDisk(Scheduler(), 1_000)
        self.statistics = Statistics()
        self.remembering = Remembering(self.disk, self.statistics, {})
        self.said: list[str] = []
        self.remembering.told = self.said.append

    def publish(self, seq: int) -> Quality:
        return self.remembering.choose("p", seq, seq)


def test_an_episode_is_told_once_and_ends_with_something_published_after_it() -> None:
    ear = Ear()
    assert ear.publish(1) is Quality.STORED
    ear.disk.full = True
    assert [ear.publish(seq) for seq in (2, 3, 4)] == [Quality.ACCEPTED] * 3
    assert len(ear.said) == 1
    ear.disk.full = False
    assert ear.publish(5) is Quality.STORED
    ear.remembering.synced(1, all_of_it=False)  # what had been taken before says nothing about now
    assert ear.remembering.trouble
    ear.remembering.synced(5, all_of_it=False)
    assert not ear.remembering.trouble
    assert ear.said == ["the queue of writes for its disk is full", ""]
    assert ear.statistics.unstored == 3


def test_an_episode_ends_when_nothing_waits_for_the_disk_any_more() -> None:
    ear = Ear()
    ear.publish(1)
    ear.disk.full = True
    ear.publish(2)
    ear.remembering.synced(1, all_of_it=True)
    assert not ear.remembering.trouble
    assert len(ear.said) == 2


def test_a_queue_that_is_full_again_and_again_is_one_episode() -> None:
    ear = Ear()
    taken = []
    for seq in range(1, 101):
        ear.disk.full = seq % 3 != 0
        if ear.publish(seq) is Quality.STORED:
            taken.append(seq)
        if len(taken) > 5:
            ear.remembering.synced(taken.pop(0), all_of_it=False)
    assert len(ear.said) == 1


def test_what_fell_is_known_when_it_comes_again_and_in_doubt_the_less_is_said() -> None:
    ear = Ear()
    assert ear.remembering.reached("p", 1) is Quality.STORED
    ear.disk.full = True
    for seq in range(1, MAX_FALLEN + 1):
        ear.publish(seq)
    assert {ear.remembering.reached("p", seq) for seq in range(1, MAX_FALLEN + 1)} == {Quality.ACCEPTED}
    assert ear.remembering.reached("p", MAX_FALLEN + 1) is Quality.STORED
    ear.publish(MAX_FALLEN + 1)  # now the first is forgotten
    assert ear.remembering.reached("p", 1) is Quality.ACCEPTED


def test_of_an_earlier_epoch_only_the_last_stored_number_is_sure() -> None:
    network = Network(1)
    network.add_broker("a")
    alice = network.add_client("alice", "a")
    network.run()
    for quality in (Quality.DEFAULT, Quality.ACCEPTED, Quality.DEFAULT):
        alice.publish(n=1, quality=quality)
    network.run()
    network.crash("a")
    network.restart("a")
    remembering = network.brokers["a"].remembering
    found = [remembering.reached("alice", seq) for seq in (1, 2, 3, 4)]
    assert found == [Quality.ACCEPTED, Quality.ACCEPTED, Quality.STORED, Quality.STORED]


@pytest.mark.parametrize("full", [False, True])
def test_what_the_receipt_says_is_what_a_crash_leaves(full: bool) -> None:
    network = Network(1)
    network.add_brokers("ab", links=["ab"])
    alice = network.add_client("alice", "a")
    network.add_client("bob", "b").subscribe("TRUE")
    network.run()
    network.cut("a", "b")
    if full:
        network.fill("a")
    number = alice.publish(n=1)
    network.run(1)
    assert alice.reached[number] is (Quality.ACCEPTED if full else Quality.STORED)
    network.crash("a")
    network.restart("a")
    network.heal("a", "b")
    network.run()
    assert [n["n"] for n in network.clients["bob"].received] == ([] if full else [1])
    assert check(network.trace) == []


def test_the_checker_holds_the_default_to_what_its_receipt_said() -> None:
    network = Network(1)
    network.add_brokers("ab", links=["ab"])
    alice = network.add_client("alice", "a")
    network.add_client("bob", "b").subscribe("TRUE")
    network.run()
    network.cut("a", "b")
    network.fill("a")
    alice.publish(n=1)
    network.run(1)
    network.crash("a")
    network.restart("a")
    network.heal("a", "b")
    network.run()
    told = [
        record._replace(detail=(*record.detail[:3], Quality.STORED)) if record.op is Op.ACK else record
        for record in network.trace.records
    ]
    assert [violation.guarantee for violation in check(told)] == ["delivery of stored"]


def test_the_checker_notices_an_acknowledgement_of_another_quality_than_was_asked_for() -> None:
    network = Network(1)
    network.add_broker("a")
    network.add_client("alice", "a").publish(n=1, quality=Quality.STORED)
    network.run()
    told = [
        record._replace(detail=(*record.detail[:3], Quality.ACCEPTED)) if record.op is Op.ACK else record
        for record in network.trace.records
    ]
    assert [violation.guarantee for violation in check(told)] == ["answered"]
