"""Links that carry bytes: a run is the same whether brokers read it with their data plane or frame by frame."""

from __future__ import annotations

import pytest
from soaking import SOAK_SECONDS, long, soak_seeds

from tidings import _native
from tidings.broker import Link
from tidings.model import ArgumentRefused
from tidings.sim import Network, Promises, Scenario, Service, Weather
from tidings.wire import Frame

LETTERS = ("", "h", "s", "w", "r", "a", "g", "hw", "cs", "v", "m", "d")
BYTES = ("", "h", "s", "w", "r")
PROMISES = Promises.load()
Sent = tuple[int, str, str, Frame]
compiled = pytest.mark.skipif(_native.engine is None, reason=f"there is no compiled engine: {_native.WHY_PURE}")


def played(name: str, *, planes: bool) -> tuple[list[Sent], Network]:
    """Everything that brokers sent in a run, from whom to whom and when."""
    network = Scenario.named(name).build()
    network.planes = planes
    sent: list[Sent] = []

    def note(broker: str, link: Link, frame: Frame) -> None:
        sent.append((network.scheduler.now, broker, link.name, frame))

    network.tap = note
    network.run()
    return sent, network


def fed(network: Network) -> int:
    return sum(lane.fed for broker in network.brokers.values() for lane in broker.delivery.lanes.all().values())


def same(name: str) -> int:
    """Compare both; how many publications the plane has taken."""
    sent, network = played(name, planes=True)
    reference, plain = played(name, planes=False)
    assert fed(plain) == 0
    for at, (one, other) in enumerate(zip(sent, reference, strict=False)):
        assert one == other, f"{name}: frame {at} differs"
    assert len(sent) == len(reference), name
    return fed(network)


@compiled
def test_whoever_reads_sends_the_same_frames_at_the_same_time() -> None:
    assert sum(same(f"b{seed}") for seed in range(1, 7)) > 300


@compiled
@pytest.mark.parametrize("letters", LETTERS[1:])
def test_features_see_no_difference(letters: str) -> None:
    same(f"b{letters}{len(letters)}")
    same(f"b{letters}6")


@compiled
@pytest.mark.parametrize("name", ["bg12", "bg13", "bv13"])
def test_a_client_inside_the_broker_gets_each_notification_in_its_turn(name: str) -> None:
    same(name)


@pytest.mark.parametrize(
    "name", [*(f"b{one}{seed}" for one in BYTES for seed in (3, 4)), *(long(f"b{one}102") for one in BYTES)]
)
def test_promises_hold_where_links_carry_bytes(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()
    assert result.scenario.name == name


def test_work_that_takes_time_is_refused_beside_bursts() -> None:
    with pytest.raises(ArgumentRefused, match="leave one of them out"):
        Weather(bursts=True, service=Service({"Publish": 30}))


@pytest.mark.soak
def test_soak_bursts() -> None:
    for seed in soak_seeds(SOAK_SECONDS * 0.3, 2_000_001):
        name = f"b{LETTERS[seed % len(LETTERS)]}{seed}"
        if _native.engine is not None:
            same(name)
        result = Scenario.named(name).run(PROMISES)
        assert not result.violations, result.report()
