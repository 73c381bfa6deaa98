"""Versions of code side by side in a network with faults: U1 to U5 hold on every run.

U1 every value is of one version; U2 while nothing fails, some complete version serves a watch; U3 at most two versions
of a name are asked for at a broker; U4 nothing is asked or told about a version on a link after its end has passed
there; U5 in the end nothing is left of it.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from aggregation.deploying_world import KEYS, SOURCE, World, workers

from tidings.aggregation import AggregationOptions
from tidings.aggregation import messages as values
from tidings.aggregation._named import place_in
from tidings.aggregation.deploying import Act, Phase, Place, Signed
from tidings.aggregation.deploying.messages import Deploy, Spread, Surveyed, decode
from tidings.broker import Link
from tidings.wire import Extension, Frame

NAME = "acme.readings"


def version(number: int) -> str:
    """Version n gives n * 1,000 for each publication, so no value fits two versions."""
    return (
        SOURCE.replace('"1.0.0"', f'"{number}.0.0"')
        .replace("return 1 if", f"return {number * 1_000} if")
        .replace('def key(self, record): return ""', "grouped = False")
    )


def statement(here: World, number: int, **changed: Any) -> Signed:
    words = {"version": f"{number}.0.0", "grouped": False, **changed}
    return here.python(version(number), **words)


class Checked:
    """Looks at everything that brokers send to each other."""

    def __init__(self, here: World) -> None:
        self.here = here
        self.ended: dict[tuple[str, str], set[Place]] = {}
        self.asks: dict[tuple[str, str, int], Place] = {}
        self.broken: list[str] = []
        note = here.network.tap

        def tap(broker: str, link: Link, frame: Frame) -> None:
            if note is not None:
                note(broker, link, frame)
            if link.is_broker:
                self._look(broker, link.name, frame)

        here.network.tap = tap

    def _look(self, broker: str, other: str, frame: Frame) -> None:
        message = frame.message
        carried = [(frame.hop.attachments or {}).get("aggregation", b"")]
        if isinstance(message, Extension) and message.feature == "deployments":
            said = decode(message.body)
            if isinstance(said, Spread):
                manifest = said.statement.manifest
                place = Place(manifest.name, manifest.version)
                if place not in self.here.deployments(broker).registry:
                    self.broken.append(f"{broker} passes on {place} before it has it")
                if manifest.act is not Act.INSTALL:
                    self.ended.setdefault((broker, other), set()).add(place)
        elif isinstance(message, Extension) and message.feature == "aggregation":
            carried.append(message.body)
        for body in filter(None, carried):
            self._values(broker, other, values.decode(body))
        for name in self.here.network.brokers:
            places = {place_in(one) for one in self.here.aggregation(name).engine.states if one.aggregate == NAME}
            if len(places) > 2:
                self.broken.append(f"U3: {name} has {sorted(places)}")

    def _values(self, broker: str, other: str, said: Any) -> None:
        over = self.ended.get((broker, other), set())
        if isinstance(said, values.Ask) and said.aggregate == NAME:
            place = Place(said.aggregate, said.version.partition("@")[0])
            self.asks[other, broker, said.number] = place
            if place in over:
                self.broken.append(f"U4: {broker} asks {other} for {place}")
            if place not in self.here.deployments(broker).registry:
                self.broken.append(f"D1: {broker} asks for {place}")
        elif isinstance(said, values.Told):
            for update in said.updates:
                place = self.asks.get((broker, other, update[0]), Place("", ""))
                if place in over:
                    self.broken.append(f"U4: {broker} tells {other} of {place}")


def run(seed: int) -> None:
    rng = random.Random(seed)
    faults = seed % 3 == 2
    here = World("abcd", rng.choice((["ab", "bc", "cd"], ["ab", "ac", "ad"], ["ab", "bc", "bd"])), workers=workers)
    checked = Checked(here)
    network = here.network
    statements = [statement(here, 1)]
    here.deploy(statements[0], f"c{rng.choice('abcd')}")
    watches = [network.clients[f"c{name}"].watch(NAME) for name in rng.sample("abcd", 2)]
    links = [link for link in ("ab", "ac", "ad", "bc", "cd", "bd") if frozenset(link) in map(frozenset, network.links)]
    for _ in range(rng.randint(8, 14)):
        for _ in range(rng.randrange(4)):
            network.clients[f"c{rng.choice('abcd')}"].publish(type="x")
        draw, client = rng.random(), f"c{rng.choice('abcd')}"
        running = here.deployments(client[1]).registry.versions(NAME)
        if draw < 0.25 and len(running) == 1:
            replaces = running[0].version
            statements.append(statement(here, len(statements) + 1, replaces=replaces))
            here.say(client, Deploy(f"u{len(statements)}", statements[-1]))
        elif draw < 0.4 and len(running) == 2:
            chosen = rng.choice(running).version
            gone = next(one for one in statements if one.manifest.version == chosen)
            act = rng.choice((Act.REMOVE, Act.QUARANTINE))
            here.say(client, Deploy(f"e{rng.random()}", here.end(gone, act, KEYS.private), True))
        elif draw < 0.55 and faults:
            link = rng.choice(links)
            network.cut(*link)
            network.run(rng.choice((0.01, 1, 4)))
            network.heal(*link)
        elif draw < 0.62 and faults:
            name = rng.choice("bcd")
            network.crash(name)
            network.run(rng.choice((0.1, 3)))
            network.restart(name)
        network.run(rng.choice((0.001, 0.02, 0.7, 2.5)))
    network.run(12)
    assert not checked.broken, (seed, checked.broken[:3])
    for watch in watches:
        numbers = [(result.version, result.value) for result in watch.results if result.complete]
        for told, value in numbers:
            unit = int(told.partition(".")[0]) * 1_000
            assert value % unit == 0, (seed, told, value)
            assert value // unit < 60, (seed, told, value)
        if not faults and watch.declined is None:
            first = next(at for at, result in enumerate(watch.results) if result.complete)
            switched = {result.version for result in watch.results}
            ends = sum(
                one.act is not Act.INSTALL.value for _, one in here.audited if one.outcome in ("removed", "quarantined")
            )
            if not ends:  # U2: an upgrade costs nobody a value
                assert all(result.complete for result in watch.results[first:]), (seed, switched)
    phases = {tuple(here.deployments(name).registry.marks()) for name in "abcd"}
    assert len(phases) == 1, seed  # all brokers know the same
    for place in list(here.deployments("a").registry.places):
        if here.deployments("a").registry.judge(place).phase is Phase.INSTALLED:
            given = next(one for one in statements if one.manifest.version == place.version)
            answer = here.deploy(here.end(given, Act.REMOVE, KEYS.private), force=True)
            assert isinstance(answer, Surveyed), (seed, answer)
    network.run(15)
    for client in network.clients.values():
        for id in list(client.watches):
            client.unwatch(id)
    network.run(15)
    assert not checked.broken, (seed, checked.broken[:3])
    for name in "abcd":
        assert here.aggregation(name).kept() == [], seed  # U5


@pytest.mark.req("AGG-103", "AGG-104", "AGG-160", "AGG-185")
@pytest.mark.parametrize("seed", [0, 1, 2, 5, 47])
def test_versions_side_by_side_are_never_mixed_lost_or_left(seed: int) -> None:
    run(seed)


def test_all_watches_let_go_of_a_version_before_any_asks_for_a_third() -> None:
    here = World("ab", ["ab"], workers=workers)
    checked = Checked(here)
    here.deploy(statement(here, 1))
    watches = [here.network.clients["ca"].watch(NAME, id=f"w{number}") for number in range(3)]
    here.network.run(4)
    for client, number in (("ca", 2), ("cb", 3)):  # at once, so that neither broker has heard of the other's
        here.say(client, Deploy(f"u{number}", statement(here, number, replaces="1.0.0")))
    here.network.run(8)
    assert checked.broken == []
    assert [watch.last.version for watch in watches if watch.last] == ["3.0.0"] * 3


def test_a_version_serves_on_while_two_upgrades_of_it_meet() -> None:
    here = World("ab", ["ab"], workers=workers)
    here.deploy(statement(here, 1))
    watch = here.network.clients["ca"].watch(NAME)
    here.network.run(4)
    before = len(watch.results)
    assert watch.last is not None
    assert watch.last.complete
    for client, number in (("ca", 2), ("cb", 3)):
        here.say(client, Deploy(f"u{number}", statement(here, number, replaces="1.0.0")))
    here.network.run(8)
    assert all(result.complete for result in watch.results[before:])
    assert [result.version for result in watch.results[before:]][-1] == "3.0.0"
    assert {result.version for result in watch.results[before:]} == {"1.0.0", "3.0.0"}
    running = [place.version for place in here.deployments("a").registry.versions(NAME)]
    assert running == ["3.0.0", "1.0.0"]


def test_code_is_passed_on_by_a_broker_that_cannot_run_it_and_values_are_incomplete() -> None:
    here = World("abc", ["ab", "bc"], workers=workers, options={"b": AggregationOptions(network="net")})
    here.deploy(statement(here, 1), "ca")
    assert here.phases(NAME) == "iri"
    watch = here.network.clients["ca"].watch(NAME)
    here.network.run(3)
    for _ in range(4):
        here.network.clients["cc"].publish(type="x")
        here.network.clients["ca"].publish(type="x")
        here.network.run(1)
    assert watch.last is not None
    assert not watch.last.complete
    assert max(result.value or 0 for result in watch.results) == 2_000  # of both others, past the one between
    refused = here.network.clients["cb"].watch(NAME)
    here.network.run(1)
    assert refused.declined is not None
    assert "'acme' is not a signer here" in refused.declined.reason


def test_a_neighbour_that_makes_up_partials_of_code_is_refused_and_counted() -> None:
    here = World("ab", ["ab"], workers=workers)
    here.deploy(statement(here, 1), "ca")
    watch = here.network.clients["ca"].watch(NAME)
    here.network.run(4)
    feature = here.aggregation("a")
    (link,) = here.network.brokers["a"].adjacency.open_links
    (state,) = feature.engine.states.values()
    number, form = state.sides[link].number, state.form
    bags = form.definition  # type: ignore[attr-defined]
    window = max(state.local)

    def made_up(bag: object) -> bytes:
        return msgspec.msgpack.encode([(window, 1, [("", msgspec.msgpack.encode(bag))])])

    before = feature.counters["partials_refused"]
    hostile = [b"", b"\xff" * 9, made_up("no bag"), made_up([b"x" * 9_000]), made_up([b"1"] * 300), b"\x91" * 40_000]
    for body in hostile:
        feature.on_message(link, values.encode(values.Told([values.Update(number, True, body)])))
    assert feature.counters["partials_refused"] == before + len(hostile)
    garbage = values.Told([values.Update(number, True, made_up([b"not json"]))])
    feature.on_message(link, values.encode(garbage))  # only the code can tell
    here.network.run(6)
    assert watch.last is not None
    assert watch.last.complete  # the next windows are told as if nothing had been
    assert bags.name == NAME
