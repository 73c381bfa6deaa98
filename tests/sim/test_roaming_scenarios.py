"""Random runs in which everybody roams from broker to broker without a word; and links with a weather of their own.

`make replay SEED=w...` shows one of them; `ws`, `hw` and `hws` have scopes and a past besides. With `v` clients walk
along paths, so that brokers are often ready before they arrive, or fetch what these missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from soaking import long, spread_seeds

from tidings.broker import Advice, Feature, Joinpoint, Link
from tidings.mobility import Outcome, Roaming
from tidings.sim import Network, Op, Promises, Scenario, Weather

PROMISES = Promises.load()
CHUNK = 3
LETTERS = ("w", "ws", "hw", "hws", "wm", "wr")
WALKS = ("v", "vs", "hv", "hvs", "vm")


def run(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()


@pytest.mark.parametrize("letters", LETTERS)
def test_whoever_roams_sees_one_stream(letters: str) -> None:
    for seed in range(CHUNK):
        run(f"{letters}{seed}")


@pytest.mark.parametrize("letters", WALKS)
def test_whoever_walks_sees_one_stream(letters: str) -> None:
    for seed in (1, 4):
        run(f"{letters}{seed}")


@pytest.mark.parametrize("name", ["v41000004", "v41000010"])  # copies are ready; what was missed is fetched
def test_brokers_are_often_ready_for_those_who_walk(name: str) -> None:
    result = Scenario.named(name).run(PROMISES)
    assert not result.violations, result.report()
    roaming = [broker.features["roaming"] for broker in result.network.brokers.values()]
    assert sum(one.handing.outcomes[Outcome.HIT] for one in roaming if isinstance(one, Roaming)) >= 8


@pytest.mark.parametrize("name", ["v7", "vs7", "hvs7", "w7", "ws7", "wm7", "hw7", "hws7", "wr7"])
def test_a_name_leads_back_to_its_run(name: str) -> None:
    assert Scenario.named(name).name == name


ONCE_BROKEN = (
    "hws9510010",  # an edge was forgotten just before copies were said again, and the copy there stayed for ever
    "v9200014",  # a filter was changed while its subscription waited for a transfer, and was owed nothing
    "hv9200014",
    "wm9200023",  # the judge took a claim for told whose neighbour had not been ready when it left
    "bhw81001123",  # the judge took a claim for told that had met an unfinished handshake, and was repeated too late
    "v84000485",  # a copy that listened again from the disk, at a broker that nobody reached, stayed for ever
    "hw84000193",  # the same of a claim from a broker that had just come back: its courier came later
    "hw7700026",  # a broker to which a client came back did not tell the one where it was meanwhile
    long("vm62000020"),  # one form of a publication reached a client, and others came before its home copy listened
    "hv72000016",  # an origin owed something to one subscription, and the home copy of another trusted its mark
    "hv7000002",  # what was fetched for a subscription was wanted by an older one of the same name
    "v12000000",  # an origin had paid a client that was gone while it owed others something: a copy took it for its own
    "hw740011",  # what came before its subscription was settled was taken for that of another one
    "hws951023",  # a client moved on before its host could tell those who had been cut off
    "ws800007",  # what waited of a client that was away was judged without what it had advertised
)


@pytest.mark.parametrize("name", ONCE_BROKEN)
def test_what_was_broken_once_stays_mended(name: str) -> None:
    run(name)


def test_a_client_that_forgets_how_far_it_has_come_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.broker._local_subscription.LocalSubscription.after", {})
    violations = [text for seed in range(0, 12, 2) for text in Scenario.named(f"w{seed}").run(PROMISES).violations]
    assert any(text.startswith("delivery of stored: it never reached") for text in violations)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_journeys(part: int) -> None:
    for seed in spread_seeds(part):
        run(f"{LETTERS[seed % len(LETTERS)]}{seed}")


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_walks(part: int) -> None:
    for seed in spread_seeds(part):
        run(f"{WALKS[seed % len(WALKS)]}{seed}")


# --- the means ---------------------------------------------------------------------------------------


class Presence(Feature):
    """Notes who comes, is away, is back and goes."""

    name = "presence"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def advice(self) -> Mapping[Joinpoint, Advice]:
        steps = (Joinpoint.ATTACH, Joinpoint.AWAY, Joinpoint.BACK, Joinpoint.DETACH)
        return {step: self._note(step.label) for step in steps}

    def _note(self, label: str) -> Advice:
        def advice(proceed: Callable[..., Any], link: Link) -> None:
            self.seen.append((label, link.name))
            proceed()

        return advice


def world(**weather: Weather) -> tuple[Network, Presence]:
    network = Network(features=lambda name: [Presence()], **weather)
    network.add_brokers("ab", links=["ab"])
    network.run()
    feature = network.brokers["a"].features["presence"]
    assert isinstance(feature, Presence)
    return network, feature


def test_who_vanishes_is_missed_later_and_may_be_elsewhere_by_then() -> None:
    network, presence = world()
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    alice.subscribe("n EXISTS")
    network.run()
    bob.publish(n=1)
    network.run()
    alice.vanish(noticed=3, kept=4)
    bob.publish(n=2)
    network.run(1)
    alice.attach("b")
    assert network.brokers["a"].client("alice") is not None  # the same name at two brokers
    assert network.brokers["b"].client("alice") is not None
    network.run(1)
    assert [one["n"] for one in alice.received] == [1, 2]
    assert presence.seen == [("attach", "alice")]
    network.run(1.5)
    assert presence.seen == [("attach", "alice"), ("away", "alice")]
    network.run()
    assert presence.seen == [("attach", "alice"), ("away", "alice"), ("detach", "alice")]
    assert network.trace.records[-1].op is Op.QUIESCE


def test_who_comes_back_to_the_broker_that_has_not_missed_it_begins_a_new_session() -> None:
    network, presence = world()
    alice = network.add_client("alice", "a")
    alice.subscribe("n EXISTS")
    network.run()
    alice.vanish(noticed=60, kept=60)
    network.run(1)
    alice.attach("a")
    network.run()
    assert presence.seen == [("attach", "alice"), ("detach", "alice"), ("attach", "alice")]
    alice.publish(n=1)
    network.run()
    assert len(alice.received) == 1


def test_links_may_have_a_weather_of_their_own() -> None:
    slow, fast = Weather(latency=(40_000, 40_000)), Weather(latency=(1_000, 1_000))
    network, _ = world(weather=fast, client_weather=Weather(latency=(5_000, 5_000)))
    alice, bob = network.add_client("alice", "a"), network.add_client("bob", "b")
    bob.subscribe("n EXISTS")
    network.run()

    def takes() -> int:
        begin = network.scheduler.now
        alice.publish(n=1)
        while not bob.received:
            network.run(0.001)
        bob.received.clear()
        return (network.scheduler.now - begin) // 1_000

    assert takes() == 11  # to the broker, to the other one, and from there to the reader
    network.set_weather("a", "b", slow)
    assert takes() == 50
    network.cut("a", "b")
    network.heal("a", "b")
    network.run()
    assert takes() == 50
