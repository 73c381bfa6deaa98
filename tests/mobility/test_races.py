"""What brokers say of one copy, in every order: the races of the documents, and those that epochs close."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, OwnRoom, Roaming, Scheme
from tidings.mobility._copies import (
    Activate,
    Deactivate,
    Delete,
    Missing,
    Propagate,
    Saying,
    Standing,
    Wanted,
    Whose,
    read_saying,
)
from tidings.mobility._keeping import Keeping
from tidings.mobility._protocol import COPIED, HOSTING, Copied, Heard, Hosting, Noticed, of_client, of_copy
from tidings.model import Filter, Position
from tidings.sim import Network, Weather
from tidings.wire import Routed, pack

OPTIONS = MobilityOptions(Scheme.PROACTIVE, roamers=("all",), t_timeout=20, dummy_self_expiry=40)
OLD, NEW, UNSUBSCRIBED = 100, 200, True
"""Two epochs of the phone: at broker `j`, then at broker `k`."""


def world() -> tuple[Network, Keeping]:
    """Two brokers that host the phone, and the neighbour `i` of both that holds its copy."""
    warned: list[str] = []

    def features(name: str) -> list[Any]:
        hosts = Hosts()
        neighbourhood = Neighbourhood(hosts, OPTIONS.graph, [Edge("i", "j", 1.0, 0, 0, pinned=True)])
        return [hosts, neighbourhood, Roaming(OPTIONS, hosts, neighbourhood, warn=warned.append)]

    network = Network(1, features=features, weather=Weather(latency=(1_000, 1_000)))
    network.add_brokers("ijk", links=["ij", "ik"])
    network.run()
    feature = network.brokers["i"].features["roaming"]
    assert isinstance(feature, Roaming)
    network.warned = warned  # type: ignore[attr-defined]
    return network, feature.keeping


def whose(epoch: int, owner: str = "phone") -> Whose:
    return Whose("phone", owner, epoch)


def propagate(epoch: int, version: int = 1) -> Propagate:
    return Propagate(whose(epoch), version, (Wanted("s1", Filter.parse("n >= 0")),))


def activate(epoch: int, version: int = 1) -> Activate:
    return Activate(whose(epoch), version, {"j": Position(1, 0)})


def said(network: Network) -> list[object]:
    """What `i` says to other brokers from now on."""
    heard: list[object] = []

    def tap(name: str, link: Any, frame: Any) -> None:
        if name == "i" and isinstance(frame.message, Routed) and frame.message.feature == "roaming":
            heard.append(read_saying(frame.message.body).said)

    network.tap = tap
    return heard


def state(keeping: Keeping) -> Copied:
    copy = keeping.copies.get("phone")
    return copy.state if copy is not None else Copied.NOTHING


@pytest.mark.req("MOB-046")
@pytest.mark.req("MOB-043")
@pytest.mark.req("MOB-044")
def test_r1_a_late_deactivation_of_the_old_broker_changes_nothing() -> None:
    for order in itertools.permutations([("j", Deactivate(whose(OLD))), ("k", activate(NEW))]):
        _, keeping = world()
        keeping.hear("j", propagate(OLD))
        keeping.hear("j", activate(OLD))
        keeping.hear("k", propagate(NEW))
        for source, one in order:
            keeping.hear(source, one)
        assert state(keeping) is Copied.ACTIVE
        assert keeping.copies["phone"].controller == "k"


@pytest.mark.req("MOB-046")
@pytest.mark.req("MOB-044")
def test_r2_a_late_deletion_by_the_old_broker_changes_nothing() -> None:
    _, keeping = world()
    keeping.hear("j", propagate(OLD))
    keeping.hear("j", activate(OLD))
    keeping.hear("k", activate(NEW))  # it knows that there is a copy
    keeping.hear("j", Delete(whose(OLD)))
    assert state(keeping) is Copied.ACTIVE
    assert keeping.copies["phone"].controller == "k"


@pytest.mark.req("MOB-046")
@pytest.mark.req("MOB-031")
def test_r2_prime_an_activation_after_the_deletion_is_answered_by_a_question_for_the_record() -> None:
    network, keeping = world()
    keeping.hear("j", propagate(OLD))
    keeping.hear("j", Delete(whose(OLD)))
    heard = said(network)
    keeping.hear("k", activate(NEW))
    assert state(keeping) is Copied.NOTHING
    assert heard == [Missing(whose(NEW))]
    keeping.hear("k", propagate(NEW))
    keeping.hear("k", activate(NEW))
    assert state(keeping) is Copied.ACTIVE


@pytest.mark.req("MOB-046")
@pytest.mark.req("MOB-045")
def test_r3_who_unsubscribes_is_forgotten_whoever_controls_the_copy() -> None:
    for last in ([], [("j", Deactivate(whose(OLD)))]):
        _, keeping = world()
        keeping.hear("j", propagate(OLD))
        keeping.hear("j", activate(OLD))
        keeping.hear("k", Delete(whose(NEW), ended=True))
        assert state(keeping) is Copied.NOTHING
        for source, one in last:
            keeping.hear(source, one)
        assert state(keeping) is Copied.NOTHING
    _, keeping = world()
    keeping.hear("k", propagate(NEW))
    keeping.hear("k", activate(NEW))
    keeping.hear("j", Delete(whose(NEW), ended=True))  # of the same epoch, from another broker than its controller
    assert state(keeping) is Copied.NOTHING


@pytest.mark.req("MOB-046")
@pytest.mark.req("MOB-045")
def test_r4_a_timeout_at_a_broker_that_was_never_told_changes_nothing() -> None:
    _, keeping = world()
    keeping.hear("j", propagate(OLD))
    keeping.hear("j", activate(OLD))
    keeping.hear("k", propagate(NEW))
    keeping.hear("k", activate(NEW))
    keeping.hear("j", Delete(whose(OLD)))
    assert state(keeping) is Copied.ACTIVE


@pytest.mark.req("MOB-043")
@pytest.mark.req("MOB-044")
def test_an_active_copy_obeys_its_controller_and_a_passive_one_has_none() -> None:
    _, keeping = world()
    keeping.hear("j", propagate(OLD))
    keeping.hear("j", activate(OLD))
    for event in (Deactivate(whose(OLD)), Delete(whose(OLD))):
        keeping.hear("k", event)
        assert state(keeping) is Copied.ACTIVE
    keeping.hear("j", Deactivate(whose(OLD)))
    assert state(keeping) is Copied.PASSIVE
    keeping.hear("k", Delete(whose(OLD)))
    assert state(keeping) is Copied.NOTHING


@pytest.mark.req("MOB-049")
def test_what_is_said_late_of_an_epoch_that_has_passed_revives_nothing() -> None:
    late = [("j", propagate(OLD)), ("j", activate(OLD)), ("j", Standing(((whose(OLD), 1, True),)))]
    for some in itertools.permutations(late):
        network, keeping = world()
        keeping.hear("k", propagate(NEW))
        keeping.hear("k", Delete(whose(NEW), ended=True))
        heard = said(network)
        for source, one in some:
            if isinstance(one, Standing):
                keeping.standing(source, one)
            else:
                keeping.hear(source, one)
        keeping.hear("k", propagate(NEW))  # its own propagation, overtaken by the end
        assert state(keeping) is Copied.NOTHING
        assert heard == []
        network.run()
        assert not keeping.tombstones  # they do not stay for ever


@pytest.mark.req("MOB-049")
def test_a_broker_that_hosts_the_client_keeps_no_copy_of_an_older_epoch() -> None:
    network, keeping = world()
    network.add_client("phone", "i")
    network.run(1)
    epoch = network.clients["phone"].hosted[0]
    keeping.hear("j", propagate(epoch - 1))
    keeping.hear("j", activate(epoch - 1))
    assert state(keeping) is Copied.NOTHING


def test_a_propagation_of_a_newer_epoch_puts_a_copy_to_rest() -> None:
    _, keeping = world()
    keeping.hear("j", propagate(OLD))
    keeping.hear("j", activate(OLD))
    keeping.hear("k", propagate(NEW))
    assert state(keeping) is Copied.PASSIVE
    assert keeping.copies["phone"].whose == whose(NEW)


def test_a_stranger_changes_nothing_and_is_named_in_the_log() -> None:
    network, keeping = world()
    keeping.hear("j", propagate(OLD))
    keeping.hear("k", Propagate(whose(NEW, owner="mallory"), 1, ()))
    keeping.hear("k", Delete(whose(NEW, owner="mallory"), ended=True))
    assert keeping.copies["phone"].whose == whose(OLD)
    [first, second] = network.warned  # type: ignore[attr-defined]
    assert "'mallory'" in first
    assert "belongs to 'phone'" in second


def test_clients_cannot_speak_of_copies_and_nonsense_is_counted() -> None:
    network, keeping = world()
    broker = network.brokers["i"]
    feature = broker.features["roaming"]
    before = broker.statistics.refused
    feature.on_routed("j", b"\xc1")
    feature.on_routed("j", pack(Saying(propagate(OLD)))[:-3])
    assert broker.statistics.refused == before + 2
    assert Routed not in broker._client_handlers
    assert not keeping.copies


def test_records_are_bounded_for_each_identity() -> None:
    _, keeping = world()
    keeping.room = OwnRoom(per_identity=4_000)
    for n in range(10):
        keeping.hear("j", Propagate(Whose(f"phone{n}", "alice", OLD), 1, (Wanted("s1", Filter.parse("n >= 0")),)))
    assert 0 < len(keeping.copies) < 10
    assert keeping.refused == 10 - len(keeping.copies)
    keeping.hear("j", Propagate(Whose("other", "bob", OLD), 1, ()))
    assert "other" in keeping.copies
    grown = tuple(Wanted(f"s{n}", Filter.parse(f"n >= {n}")) for n in range(100))
    refused = keeping.refused
    keeping.hear("j", Propagate(Whose("phone0", "alice", OLD), 2, grown))
    assert "phone0" not in keeping.copies  # as it was it would lack something
    assert keeping.refused == refused + 1
    for name in list(keeping.copies):
        keeping.hear("j", Delete(Whose(name, keeping.copies[name].whose.owner, OLD)))
    assert keeping.room.total == 0


@pytest.mark.req("MOB-055")
def test_the_tables_are_deterministic_and_complete() -> None:
    for rows, states, events in ((COPIED, Copied, Heard), (HOSTING, Hosting, Noticed)):
        assert len({(row.before, row.event) for row in rows}) == len(rows)
        assert {row.before for row in rows} | {row.after for row in rows} == set(states)
        assert {row.event for row in rows} == set(events)
    impossible = {(state, event) for state in Hosting for event in Noticed} - {
        (row.before, row.event) for row in HOSTING
    }
    assert all(of_client(state, event) is None for state, event in impossible)
    assert (Hosting.NOBODY, Noticed.LEAVES) in impossible
    assert of_copy(Copied.ACTIVE, Heard.DELETE, by_controller=False) is None
    assert of_copy(Copied.ACTIVE, Heard.END, by_controller=False) is not None
