"""Strategies are features: chosen by name, traced, added, without a change to the broker or to one another."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from history.history_world import REFERENCE, Reader, envelope, network_of, strategy_at

import tidings
from tidings.broker import Advice, Feature, Joinpoint, RoutingOptions
from tidings.history import STRATEGIES, ReplayVariant, StrategyOptions, Strict, make_history
from tidings.history.caching import (
    BorderBrokerCaching,
    CachingStrategy,
    FullReplay,
    Item,
    MergingCaching,
    Question,
    SequenceReplay,
    Tracing,
)
from tidings.history.caching._access import Access
from tidings.model import FeatureError, last
from tidings.scopes import CreateScope, Join, Scopes
from tidings.sim import Network
from tidings.wire import Ending, Envelope


def scripted(features: Callable[[str], list[Feature]]) -> list[object]:
    """A small network that does everything; all frames that its brokers send."""
    frames: list[object] = []
    network = Network(5, routing=RoutingOptions("identity", advertisements=True), features=features)
    network.tap = lambda name, link, frame: frames.append((name, link.name, frame))
    network.add_brokers("abc", links=["ab", "bc"])
    network.run()
    feed, reader = network.add_client("feed", "c"), network.add_client("reader", "a")
    feed.advertise("n > 0")
    id = reader.subscribe("n > 0")
    network.run()
    feed.publish(n=1)
    network.run()
    reader.unsubscribe(id)
    network.run()
    return frames


@pytest.mark.req("HIS-130")
@pytest.mark.parametrize("package", ["broker", "matching", "wire", "model"])
def test_what_routes_knows_nothing_of_what_remembers(package: str) -> None:
    """The import table says so, and `make check` keeps it; here it is read from the source."""
    root = Path(tidings.__file__).parent
    for module in (root / package).rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any("history" in name for name in names), module


@pytest.mark.req("HIS-136")
def test_tracing_tells_of_every_step_and_changes_nothing() -> None:
    steps: list[str] = []
    assert scripted(lambda name: [Tracing(steps.append)]) == scripted(lambda name: [])
    told = {step.split("(")[0].split()[1] for step in steps}
    assert {"SUBSCRIBE", "SUB_ADD", "SUB_SEND", "PUB_MATCH", "PUB_SEND", "DELIVER", "SUB_DEL", "UNSUB_SEND"} <= told
    assert "a SUBSCRIBE(Registration('reader', 's1', 'n > 0'))" in steps
    assert any(step.startswith("c PUB_MATCH -> {b: []") for step in steps)


@pytest.mark.req("HIS-131")
def test_a_strategy_can_look_in_wherever_the_documents_do() -> None:
    """The eleven interception points: four to get hold of the broker, seven for what it does."""
    reached: set[str] = set()

    class Everywhere(Feature):
        name = "everywhere"

        def start(self) -> None:
            reached.add("1 engine created")

        def advice(self) -> Mapping[Joinpoint, Advice]:
            return {
                Joinpoint.SUBSCRIBE: self.note("5 subscription of a client"),
                Joinpoint.SUB_DEL: self.note("6 unsubscription"),
                Joinpoint.PUB_MATCH: self.note("7 each event", "9 destinations"),
                Joinpoint.SUB_SEND: self.note("8 forwarding of a subscription"),
                Joinpoint.UNSUB_SEND: self.note("8 forwarding of an unsubscription"),
                Joinpoint.SUB_ADD: self.entry,
                Joinpoint.AD_ADD: self.tables,
            }

        def note(self, *what: str) -> Advice:
            def noted(proceed: Callable[..., Any], *arguments: Any) -> Any:
                reached.update(what)
                return proceed()

            return noted

        def entry(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
            result = proceed()
            reached.add("11 entry of a neighbour" if entry.link.is_broker else "10 entry of a client")
            if entry in self.context.subscriptions:
                reached.add("2 subscriptions")
            return result

        def tables(self, proceed: Callable[..., Any], scope: str, entry: Any) -> Any:
            result = proceed()
            if entry in self.context.advertisements:
                reached.add("3 advertisements")
            if self.context.neighbours:
                reached.add("4 neighbours")
            return result

    scripted(lambda name: [Everywhere()])
    assert {what.split()[0] for what in reached} == {str(number) for number in range(1, 12)}


class Central(CachingStrategy):
    """Asks a store somewhere else, which answers later."""

    kind = "merging"
    requirements = frozenset()
    kept: tuple[Envelope, ...] = ()

    def opened(self, access: Access, changes: object) -> None:
        def found() -> None:
            question = Question(filter=access.filter, limit=access.limit, since=access.since)
            matching = [one for one in self.kept if access.filter.matches(one.notification) and question.wants(one)]
            access.old = [Item(one, None) for one in matching[-access.limit :]]
            access.finish(Ending.ANSWERED)

        self.context.call_later(5_000, found)


@pytest.mark.req("HIS-056", "HIS-135")
def test_a_strategy_of_ones_own_takes_the_past_from_elsewhere() -> None:
    network = network_of(lambda name: Central() if name == "er1" else MergingCaching(), REFERENCE)
    central = strategy_at(network, "er1")
    assert isinstance(central, Central)
    central.kept = tuple(envelope(n, "elsewhere") for n in range(1, 6))
    reader = Reader(network.add_client("reader", "er1"), "n > 2", last(2))
    network.run()
    assert (reader.values, reader.past) == ([4, 5], 2)
    network.add_client("feed", "er4").publish(n=6)
    network.run()
    assert reader.values == [4, 5, 6]


@pytest.mark.req("HIS-135")
def test_neighbours_with_different_strategies_get_along() -> None:
    """Who does not know anything answers with nothing, so nobody waits for it."""
    make = {"er1": MergingCaching, "er2": BorderBrokerCaching, "er3": FullReplay, "er4": SequenceReplay}
    network = network_of(lambda name: make[name](), REFERENCE)
    feed = network.add_client("feed", "er4")
    Reader(network.add_client("early", "er3"), "n > 0", None)
    network.run()
    feed.publish(n=1)
    network.run()
    begin = network.scheduler.now
    readers = [Reader(network.add_client(f"at-{name}", name), "n > 0", last(3)) for name in make]
    network.run(seconds=0.5)
    assert not any(broker.holds.all for broker in network.brokers.values())
    assert network.scheduler.now - begin == 500_000
    feed.publish(n=2)
    network.run()
    assert all(reader.values[-1] == 2 for reader in readers)
    assert all(reader.values in ([1, 2], [2]) for reader in readers)


def test_strategies_are_chosen_by_name() -> None:
    made = {name: make_history(name, RoutingOptions("simple")) for name in STRATEGIES}
    assert {name: type(feature) for name, feature in made.items()} == {
        "strict": Strict,
        "off": type(None),
        "local": type(None),
        "border": BorderBrokerCaching,
        "merging": MergingCaching,
        "replay": FullReplay,
    }
    options = StrategyOptions(replay_variant=ReplayVariant.SEQUENCE)
    assert type(make_history("replay", RoutingOptions("covering"), caching=options)) is SequenceReplay
    with pytest.raises(FeatureError, match="no history strategy is called 'best'; choose one of strict, off, local"):
        make_history("best", RoutingOptions())
    with pytest.raises(FeatureError, match=r"'border' .* does not work with routing 'covering'"):
        make_history("border", RoutingOptions("covering"))


@pytest.mark.parametrize("make", [MergingCaching, FullReplay])
def test_where_there_are_scopes_caches_give_no_past(make: type[CachingStrategy]) -> None:
    """What they hold has not been judged by the graph: nothing leaks, and what is new comes as always."""
    network = Network(3, routing=RoutingOptions("covering"), features=lambda name: [Scopes("a"), make()])
    network.add_brokers("ab", links=["ab"])
    network.run()
    feed, early, late = (network.add_client(name, broker) for name, broker in (("f", "b"), ("e", "a"), ("l", "a")))
    Reader(early, "n > 0", None)
    network.run()
    feed.publish(n=1)
    network.run()
    assert strategy_at(network, "a").cache.cells == 1
    before = Reader(late, "n > 0", last(1))
    network.run()
    assert before.values == [1], "so far there are none"
    answers = network.change("a", (CreateScope("s"), Join("@f", "s")))
    network.run()
    assert [answer.error for answer in answers] == [""]
    after = Reader(late, "n > 0", last(1))
    network.run()
    assert after.values == []
    assert not network.brokers["a"].holds.all
    early.publish(n=2)
    network.run()
    assert after.values == [2]
    assert strategy_at(network, "a").cache.cells == 1, "nothing is remembered any more"
