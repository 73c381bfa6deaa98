"""With advertisements, a publication waits until one that announces it has settled; then it reaches everybody."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

import pytest

from tidings.broker import Link, LinkKind, RoutingOptions, Timer
from tidings.broker.forwarding import _waiting as limits
from tidings.broker.forwarding._waiting import Waiting
from tidings.model import TidingsError
from tidings.net import AccessEntry
from tidings.sim import Network, SimClient, Weather, check
from tidings.wire import Publish, Quality, Unadvertise

ADVERTISED = RoutingOptions(advertisements=True)


def line() -> tuple[Network, SimClient, SimClient]:
    """Brokers a - m - b, a reader at a that has settled, and a writer at b."""
    network = Network(3, routing=ADVERTISED, weather=Weather(latency=(10_000, 10_000)))
    network.add_brokers("amb", links=["am", "mb"])
    reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
    reader.subscribe("n >= 0")
    network.run()
    return network, reader, writer


def numbers(reader: SimClient) -> list[object]:
    return [notification["n"] for notification in reader.received]


@pytest.mark.parametrize("quality", [Quality.FIRE, Quality.ACCEPTED, Quality.STORED])
def test_what_is_published_with_its_advertisement_in_one_breath_arrives(quality: Quality) -> None:
    network, reader, writer = line()
    writer.advertise("n >= 0")
    for n in range(20):
        writer.publish(n=n, quality=quality)
    network.run()
    assert numbers(reader) == list(range(20))
    assert writer.acknowledged_numbers == (set() if quality is Quality.FIRE else set(range(1, 21)))


def test_nothing_is_acknowledged_before_its_advertisement_has_settled() -> None:
    network, _, writer = line()
    writer.advertise("n >= 0", id="a")
    number = writer.publish(n=1)
    while "a" not in writer.settled_ids:
        assert number not in writer.acknowledged_numbers
        network.run(seconds=0.001)
    network.run(seconds=0.1)
    assert number in writer.acknowledged_numbers


def test_an_advertisement_that_has_settled_is_enough_for_what_it_announces() -> None:
    network, _, writer = line()
    writer.advertise("kind = 'old'")
    network.run()
    writer.advertise("kind = 'new'", id="new")
    number = writer.publish(kind="old", n=1)
    network.run(seconds=0.03)
    assert "new" not in writer.settled_ids
    assert number in writer.acknowledged_numbers


def test_what_a_client_advertises_later_is_judged_in_its_order() -> None:
    network, reader, writer = line()
    writer.advertise("n >= 0", id="a")
    writer.publish(n=1)
    writer.unadvertise("a")
    writer.publish(n=2)
    writer.advertise("n >= 3", id="a")
    writer.publish(n=2)
    writer.publish(n=3)
    network.run()
    assert numbers(reader) == [1, 3]
    assert [(one.error, one.reference) for one in writer.refusals] == [("NotAdvertised", "2"), ("NotAdvertised", "3")]
    assert check(network.trace, advertisements=True) == []


def test_what_waits_goes_in_many_turns_so_that_others_are_served_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    network, reader, writer = line()
    writer.advertise("n >= 0")
    for n in range(10 * limits.RELEASE_STEP):
        writer.publish(n=n)
    broker, turns = network.brokers["b"], []
    call_later = broker.call_later

    def counted(delay: int, action: Callable[[], None]) -> Timer:
        turns.append(broker.publications.last)
        return call_later(delay, action)

    monkeypatch.setattr(broker, "call_later", counted)
    network.run()
    assert numbers(reader) == list(range(10 * limits.RELEASE_STEP))
    steps = [two - one for one, two in itertools.pairwise(turns)]
    assert len(turns) >= 9
    assert max(steps) <= limits.RELEASE_STEP


def test_the_burst_of_a_client_that_returns_with_its_restarted_broker_reaches_everybody() -> None:
    for seed in range(20):
        network = Network(seed, routing=ADVERTISED)
        network.add_brokers("amb", links=["am", "mb"])
        reader, writer = network.add_client("reader", "a"), network.add_client("writer", "b")
        reader.subscribe("n >= 0")
        writer.advertise("n >= 0")
        network.run()
        network.crash("b")
        for n in range(10):
            writer.publish(n=n, quality=Quality.STORED)
        network.run(seconds=1)
        network.restart("b")
        network.run()
        assert numbers(reader) == list(range(10)), f"seed {seed}"
        assert check(network.trace, advertisements=True) == []


# --- bounds -------------------------------------------------------------------------------------------


def publication(size: int) -> Publish:
    return Publish(1, b"x" * size, Quality.ACCEPTED)


def fill(waiting: Waiting, client: Link, size: int = 1_000_000) -> int:
    """Let a client's publications wait until one is refused; the bytes that do then."""
    before = waiting.bytes
    with contextlib.suppress(TidingsError):
        while True:
            waiting.add(client, publication(size))
    return waiting.bytes - before


def test_one_identity_leaves_room_for_others_however_many_names_it_has() -> None:
    waiting, mallory, vera = Waiting("b"), AccessEntry("mallory"), AccessEntry("vera")
    for n in range(6):
        fill(waiting, Link(f"mallory/{n}", LinkKind.CLIENT, mallory))
    assert waiting.bytes <= limits.MAX_WAITING_BYTES
    assert waiting.refused == 6
    waiting.add(Link("vera", LinkKind.CLIENT, vera), publication(300_000))
    assert waiting.refused == 6


def test_who_comes_late_finds_room_as_long_as_something_is_left_for_everybody() -> None:
    waiting = Waiting("b")
    shares = [fill(waiting, Link(f"c{n}", LinkKind.CLIENT), 10_000) for n in range(8)]
    assert waiting.bytes <= limits.MAX_ALL_WAITING_BYTES
    assert min(shares) > 200_000
    assert shares == sorted(shares, reverse=True)


def test_what_has_gone_makes_room_for_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING_BYTES", 3 * limits.MESSAGE_OVERHEAD)
    waiting, owner = Waiting("b"), AccessEntry("o")
    one, two = (Link(f"o/{n}", LinkKind.CLIENT, owner) for n in range(2))
    for _ in range(2):
        assert fill(waiting, one, 0) == 3 * limits.MESSAGE_OVERHEAD
        assert fill(waiting, two, 0) == 0
        assert waiting.release(one, lambda link, message: True, 100) == 97
        assert fill(waiting, two, 0) == 3 * limits.MESSAGE_OVERHEAD
        waiting.abandon(two)
        assert waiting.bytes == 0


def test_what_waits_is_bounded_for_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_WAITING_BYTES", 3 * limits.MESSAGE_OVERHEAD + 30)
    waiting, client, other = Waiting("b"), Link("c", LinkKind.CLIENT), Link("d", LinkKind.CLIENT)
    for _ in range(3):
        waiting.add(client, publication(10))
    for more in (publication(0), Unadvertise("a")):
        with pytest.raises(TidingsError, match="3 publications of 'c' wait at broker 'b'"):
            waiting.add(client, more)
    waiting.add(other, publication(10))
    assert len(waiting) == 4


def test_those_who_wait_take_turns_and_what_is_large_counts_for_more() -> None:
    waiting = Waiting("b")
    small, large = Link("small", LinkKind.CLIENT), Link("large", LinkKind.CLIENT)
    for _ in range(10):
        waiting.add(small, publication(0))
        waiting.add(large, publication(3 * limits.LARGE_MESSAGE))
    assert waiting.clients == [small, large]
    assert waiting.release(small, lambda link, message: True, 4) == 0
    assert waiting.clients == [large, small]
    assert waiting.release(large, lambda link, message: True, 4) == 0
    assert len(waiting) == 20 - 4 - 1
    assert waiting.release(small, lambda link, message: True, 10) == 4
    assert waiting.clients == [large]


def test_what_waits_is_bounded_for_all_clients_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ALL_WAITING_BYTES", limits.MESSAGE_OVERHEAD + 300)
    waiting = Waiting("b")
    links = [Link(f"c{n}", LinkKind.CLIENT) for n in range(3)]
    waiting.add(links[0], publication(60))
    with pytest.raises(TidingsError, match="0 bytes of 'c1' and 260 of all clients together"):
        waiting.add(links[1], publication(41))
    assert links[1] not in waiting
    waiting.release(links[0], lambda link, message: True, 100)
    waiting.add(links[1], publication(100))
    waiting.abandon(links[1])
    waiting.add(links[2], publication(100))


def test_beyond_the_bound_a_publication_is_refused_and_the_others_go(monkeypatch: pytest.MonkeyPatch) -> None:
    network, reader, writer = line()
    monkeypatch.setattr(limits, "MAX_WAITING_BYTES", 6 * limits.MESSAGE_OVERHEAD)
    writer.advertise("n >= 0")
    for n in range(8):
        writer.publish(n=n)
    network.run()
    assert numbers(reader) == [0, 1, 2, 3, 4]
    assert [one.reference for one in writer.refusals] == ["6", "7", "8"]
