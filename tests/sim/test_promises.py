"""docs/promises.md is complete, and each of its cells about delivery is what really happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidings.broker import Feature
from tidings.history import HistoryOptions, Strict
from tidings.model import last
from tidings.sim import Network, Op, Outcome, PromiseError, Promises, Violation, check
from tidings.wire import Ending, Quality

PROMISES = Promises.load()
FAULTS = (
    "none",
    "link cut and healed",
    "new tree",
    "other broker crash",
    "origin crash and restart",
    "origin gone",
    "own broker crash",
    "client moves",
    "memory exceeded",
    "publisher leaves",
)


def test_every_cell_of_the_core_is_there() -> None:
    for quality in (Quality.FIRE, Quality.ACCEPTED, Quality.STORED):  # the default is always one of these in the end
        for fault in FAULTS:
            assert PROMISES.outcome(f"delivery of {quality.name.lower()}", [fault]) in Outcome
    for guarantee in ("matching-only", "at-most-once", "publisher-order", "only-while-subscribed"):
        assert PROMISES.holds(guarantee)


def test_the_weakest_cell_counts() -> None:
    assert PROMISES.outcome("delivery of accepted", ["none"]) is Outcome.DELIVERED
    assert PROMISES.outcome("delivery of accepted", ["none", "origin gone"]) is Outcome.GAP


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("| a | b | core | perhaps |", "'perhaps' is not an outcome"),
        ("| a | b | core | gap |\n| a | b | core | nothing |", "is promised twice"),
    ],
)
def test_a_bad_table_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(PromiseError, match=complaint):
        Promises.read(text)


def test_a_missing_cell_is_an_error() -> None:
    with pytest.raises(PromiseError, match="add a row"):
        PROMISES.outcome("delivery of accepted", ["earthquake"])


# --- one run per cell -----------------------------------------------------------------------------------
#
# a - b - c: a client at a publishes, one at c listens; `spare` is not connected at first.

WAYS = {
    "fire": (Quality.FIRE, False, Quality.FIRE),
    "accepted": (Quality.ACCEPTED, False, Quality.ACCEPTED),
    "stored": (Quality.STORED, False, Quality.STORED),
    "default": (Quality.DEFAULT, False, Quality.STORED),
    "default, the disk is full": (Quality.DEFAULT, True, Quality.ACCEPTED),
}
"""What is asked for, whether the disk of the origin is full, and what is reached."""


def _network(features: Callable[[str], list[Feature]] = lambda broker: []) -> Network:
    network = Network(3, features=features)
    network.add_brokers(["a", "b", "c", "spare"], links=["ab", "bc"])
    network.add_client("alice", "a")
    network.add_client("bob", "c").subscribe("TRUE", id="s")
    network.run()
    return network


def _publish(network: Network, quality: Quality, count: int = 5) -> None:
    """Publish while the network is up; what is published is under way when this returns."""
    for number in range(count):
        network.clients["alice"].publish(n=number, quality=quality)


def _provoke(network: Network, fault: str, quality: Quality) -> None:
    """Let the fault hit publications that their publisher knows to be accepted or stored, and under way."""
    match fault:
        case "none":
            _publish(network, quality)
        case "link cut and healed":
            network.cut("b", "c")
            _publish(network, quality)
            network.run(1)
            network.heal("b", "c")
        case "new tree":
            _publish(network, quality)
            network.run(0.008)
            network.connect("a", "spare")
            network.connect("spare", "c")
        case "other broker crash":
            network.crash("b")
            _publish(network, quality)
            network.run(1)
            network.restart("b")
        case "origin crash and restart":
            network.cut("a", "b")
            _publish(network, quality)
            network.run(1)
            network.crash("a")
            network.heal("a", "b")
            network.run(1)
            network.restart("a")
        case "origin gone":
            network.cut("a", "b")
            _publish(network, quality)
            network.run(1)
            network.crash("a")
        case "own broker crash":
            network.cut("b", "c")
            _publish(network, quality)
            network.run(1)
            network.crash("c")
            network.restart("c")
            network.run(1)
            network.heal("b", "c")
        case "client moves":
            _publish(network, quality)
            network.run(0.008)
            network.clients["bob"].detach()
            network.run(1)
            network.clients["bob"].attach("b")
        case "publisher leaves":
            _publish(network, quality)
            if quality is not Quality.FIRE:
                network.run(0.5)  # what is not acknowledged is not owed
            network.clients["alice"].detach()
            network.run(1)
            network.clients["alice"].attach("a")
        case "memory exceeded":
            network.cut("b", "c")
            _publish(network, quality, 10_005)
            network.run(1)
            network.heal("b", "c")


@pytest.mark.req("VIS-125", "ARC-020", "VIS-214")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("quality", "full", "reached"), WAYS.values(), ids=WAYS)
def test_what_happens_is_what_the_cell_says(quality: Quality, full: bool, reached: Quality, fault: str) -> None:
    network = _network()
    if full:
        network.fill("a")
    _provoke(network, fault, quality)
    network.run()
    assert _violations(network) == []
    delivered = {record.publication for record in network.trace.records if record.op is Op.NOTIFY}
    published = {record.publication for record in network.trace.records if record.op is Op.PUB}
    if quality is not Quality.FIRE:
        assert set(network.clients["alice"].reached.values()) == {reached}
    match PROMISES.outcome(f"delivery of {reached.name.lower()}", [fault]):
        case Outcome.DELIVERED:
            assert delivered == published
            if "crash" not in fault or quality is Quality.STORED:  # else a broker that died may have published more
                assert network.clients["bob"].gaps == []
        case Outcome.GAP:
            assert delivered < published, "a cell that promises less than is kept should promise more"
            assert network.clients["bob"].gaps
        case _:
            assert delivered < published, "a cell that promises nothing should say what is kept"
    network.clients["alice"].publish(n=99)
    network.run()
    if fault != "origin gone":
        assert network.clients["bob"].received[-1]["n"] == 99


def _violations(network: Network) -> list[Violation]:
    return check(network.trace, PROMISES)


@pytest.mark.parametrize("fault", FAULTS[:-1])
def test_what_becomes_of_the_past_is_what_the_cell_says(fault: str) -> None:
    network = _network(lambda broker: [Strict(HistoryOptions(timer=2.0))])
    bob = network.clients["bob"]
    bob.unsubscribe("s")
    _publish(network, Quality.STORED)
    network.run(0.5)
    bob.subscribe("TRUE", id="past", past=last(5))  # the question is under way
    _provoke(network, fault, Quality.STORED)
    network.run()
    assert _violations(network) == []
    report = bob.reports["past"]
    if PROMISES.outcome("past complete", [fault], "history") is Outcome.DELIVERED:
        assert report.ending is Ending.ANSWERED
        assert [n["n"] for n in bob.received[:5]] == [0, 1, 2, 3, 4]
    assert (report.ending is Ending.TIMER) <= (PROMISES.cells["past complete", fault, "history"] == "gap")
