"""Random networks with a caching strategy at every broker, and what must hold of what their clients get.

A run is a seed. *Settled*: the network comes to rest before and after each subscription and its end. *Racing*: it does
not. `ending` says whether subscriptions end before the run does.
What brokers send to clients is judged, not what the clients' local brokers make of it: they drop second copies.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from history.history_world import Messages, Reader, network_of, strategy_at

from tidings.broker import FROM_PAST, Link, RoutingOptions
from tidings.history import Align, CacheLimits, StrategyOptions
from tidings.history.caching import (
    BasicReplay,
    CachingStrategy,
    FullReplay,
    JunctionReplay,
    LargestReplay,
    MergedReplay,
    MergingCaching,
    SequenceReplay,
)
from tidings.history.caching._requests import Request
from tidings.model import Filter, last
from tidings.sim import Network, Weather
from tidings.wire import Deliver, Ending, Frame, Quality

ONE_FILTER = ["n >= 0"]
FOUR_FILTERS = ["n >= 0", "k > 1", "k < 3", "k = 2"]
BY_IDENTITY: list[type[CachingStrategy]] = [MergingCaching, SequenceReplay, FullReplay]
"""Those that promise no second copy and no wrong order, whatever happens."""
ALL = [*BY_IDENTITY, BasicReplay, LargestReplay, MergedReplay, JunctionReplay]
COUNTING = {"align": Align.COUNT}
LATENCY = 1_000
"""Microseconds that everything takes over a link where the weather is steady."""
STEADY = Weather((LATENCY, LATENCY))
LINE = ["ab", "bc", "cd"]
SIZES = {"a": 1, "b": 2, "c": 4, "d": 3}
"""What brokers of the line remember of a filter."""


@dataclass
class Run:
    """What happened in one run."""

    network: Network
    messages: Messages
    readers: list[tuple[str, Reader, Filter, int | None]] = field(default_factory=list)
    """Broker, subscription, filter and bound of those that are subscribed to the end."""
    sent: dict[tuple[str, str], list[tuple[str, int, bool]]] = field(default_factory=dict)
    """What brokers sent to each subscription: origin, number, whether it is from the past."""
    published: dict[str, list[tuple[int, dict[str, int]]]] = field(default_factory=dict)

    def matching(self, origin: str, filter: Filter) -> list[int]:
        return [number for number, attributes in self.published[origin] if filter.matches(attributes)]


def random_tree(rng: random.Random, count: int) -> list[str]:
    names = "abcdefg"[:count]
    return [names[at] + names[rng.randrange(at)] for at in range(1, count)]


def random_run(
    seed: int,
    make: Callable[[StrategyOptions], CachingStrategy],
    *,
    filters: list[str],
    racing: bool,
    routing: str = "identity",
    faults: bool = False,
    ending: bool = True,
    through_wire: bool = False,
    options: dict[str, object] | None = None,
    each: tuple[int, int] = (1, 5),
    most: int = 7,
) -> Run:
    rng = random.Random(seed)
    count = rng.randint(2, 7)
    names = "abcdefg"[:count]
    sizes = {name: rng.randint(*each) for name in names}

    def strategy(name: str) -> CachingStrategy:
        limits = CacheLimits(max_global=50 * sizes[name] + 1, max_filters=50, max_per_filter=sizes[name])
        return make(StrategyOptions(limits=limits, **(options or {})))  # type: ignore[arg-type]

    weather = Weather((100, 3_000), through_wire=through_wire)
    network = Network(seed, routing=RoutingOptions(routing), features=lambda name: [strategy(name)], weather=weather)
    links = random_tree(rng, count)
    network.add_brokers(names, links=links)
    network.run()
    run = Run(network, Messages(network), published={name: [] for name in names})
    watch(run)
    for name in names:
        network.add_client(f"feed-{name}", name)
    network.run()
    cut: str | None = None
    for step in range(rng.randint(15, 40)):
        choice = rng.random()
        if choice < 0.55:
            publish(run, rng, rng.choice(names))
        elif choice < 0.85:
            broker, text, bound = rng.choice(names), rng.choice(filters), rng.randint(1, most)
            if not racing:
                network.run()
            client = network.add_client(f"reader-{step}", broker)
            past = last(bound) if rng.random() < 0.8 else None
            reader = Reader(client, text, past)
            run.readers.append((broker, reader, Filter.parse(text), bound if past else None))
            if not racing:
                network.run()
        elif choice < 0.93 and run.readers and ending:
            _, reader, _, _ = run.readers.pop(rng.randrange(len(run.readers)))
            if not racing:
                network.run()
            reader.unsubscribe()
            if not racing:
                network.run()
        elif faults and cut is None:
            cut = rng.choice(links)
            network.cut(*cut)
        elif faults and cut is not None:
            network.heal(*cut)
            cut = None
        if racing:
            network.run(seconds=rng.choice((0, 0, 0.0005, 0.002)))
    if cut is not None:
        network.heal(*cut)
    network.run()
    for name in names:  # whatever is subscribed now gets this
        publish(run, rng, name)
    network.run()
    return run


def publish(run: Run, rng: random.Random, broker: str) -> None:
    attributes = {"n": len(run.published[broker]), "k": rng.randint(1, 3)}
    run.published[broker].append((len(run.published[broker]) + 1, attributes))
    run.network.clients[f"feed-{broker}"].publish(attributes, quality=Quality.ACCEPTED)


def watch(run: Run) -> None:
    """Note what brokers send to clients, beside what they say to one another."""
    messages = run.network.tap
    assert messages is not None

    def tap(name: str, link: Link, frame: Frame) -> None:
        messages(name, link, frame)
        if isinstance(frame.message, Deliver):
            identity, route = frame.message.envelope.identity, frame.message.envelope.routes[0]
            for id in frame.message.subscriptions:
                got = run.sent.setdefault((link.name, id), [])
                got.append((identity.origin, identity.seq, FROM_PAST in route.tags))

    run.network.tap = tap


# --- what must hold -----------------------------------------------------------------------------------


def faults_of(run: Run, *, at_clients: bool = False) -> dict[str, int]:
    """How many subscriptions got something twice, or in the wrong order, or with a hole in it."""
    found = {"duplicate": 0, "order": 0, "gap": 0}
    by_id = {(reader._local.name, reader.id): filter for _, reader, filter, _ in run.readers}
    judged = run.sent
    if at_clients:
        judged = {(one._local.name, one.id): [(*got, False) for got in one.got] for _, one, _, _ in run.readers}
    for key, sent in judged.items():
        found["duplicate"] += len({one[:2] for one in sent}) < len(sent)
        of_origin: dict[str, list[int]] = {}
        for origin, number, _ in sent:
            of_origin.setdefault(origin, []).append(number)
        found["order"] += any(numbers != sorted(numbers) for numbers in of_origin.values())
        if key in by_id:
            wanted = {origin: run.matching(origin, by_id[key]) for origin in of_origin}
            found["gap"] += any(
                set(wanted[origin][wanted[origin].index(min(numbers)) :]) != set(numbers)
                for origin, numbers in of_origin.items()
            )
    return found


def check_safety(run: Run) -> None:
    """S1, S4, S5, S9 and S13: what every strategy promises."""
    bounds = {(reader._local.name, reader.id): (filter, bound) for _, reader, filter, bound in run.readers}
    for key, sent in run.sent.items():
        from_past = [is_past for _, _, is_past in sent]
        assert from_past == sorted(from_past, reverse=True), f"{key}: past before new"
        for origin, number, _ in sent:
            assert number <= len(run.published[origin]), f"{key}: nobody published that"
        if key in bounds:
            filter, bound = bounds[key]
            assert all(number in run.matching(origin, filter) for origin, number, _ in sent), f"{key}: it must match"
            old = sum(from_past)
            assert old <= (bound or 0), f"{key}: {old} from the past, {bound} were asked for"
    for request_id, ways in requests(run).items():
        assert len(ways) == len(set(ways)), f"{request_id}: nobody is asked twice: {ways}"


def requests(run: Run) -> dict[object, list[tuple[str, str]]]:
    """Who asked whom, for each request."""
    found: dict[object, list[tuple[str, str]]] = {}
    for sender, receiver, message in run.messages.all:
        request = message[1] if isinstance(message, tuple) else message
        if isinstance(request, Request):
            found.setdefault(request.id, []).append((sender, receiver))
    return found


def check_liveness(run: Run, *, timers: bool = False) -> None:
    """L1, L2 and L3: every hold ends, by answers, and then everything comes."""
    for name, broker in run.network.brokers.items():
        assert not broker.holds.all
        assert timers or strategy_at(run.network, name).endings[Ending.TIMER] == 0
    for _, reader, filter, _ in run.readers:
        got = set(reader.got)
        for origin in run.published:
            newest = run.matching(origin, filter)
            last_one = len(run.published[origin])
            assert newest[-1:] != [last_one] or (origin, last_one) in got, f"{reader.id} lacks {origin} {last_one}"


def check_nothing_is_left(run: Run) -> None:
    """L7: when nobody is subscribed, nothing is remembered."""
    for _, reader, _, _ in run.readers:
        reader.unsubscribe()
    run.network.run()
    for name in run.network.brokers:
        strategy = strategy_at(run.network, name)
        assert (len(strategy.cache), strategy.cache.cells, strategy.cache.bytes) == (0, 0, 0), f"{name} keeps something"
        assert not strategy._asked
        assert not getattr(strategy, "_gatherings", {})
        assert not getattr(strategy, "_back", {})
        assert not len(getattr(strategy, "_commitments", ()))


# --- a line of brokers, and one that is silent --------------------------------------------------------


def sized(each: int, **options: object) -> StrategyOptions:
    limits = CacheLimits(max_global=20 * each + 1, max_filters=20, max_per_filter=each)
    return StrategyOptions(limits=limits, **options)  # type: ignore[arg-type]


def filled_line(make: type[CachingStrategy], sizes: dict[str, int], count: int = 6) -> Network:
    """A line of brokers with one strategy, and memories of these sizes."""
    return fed_line(lambda name: make(sized(sizes[name])), count)


def fed_line(make: Callable[[str], CachingStrategy], count: int = 6) -> Network:
    """A line of brokers; the feed is at the last one, and a reader at the first has seen everything."""
    network = network_of(make, LINE, weather=STEADY, routing=RoutingOptions("identity"))
    feed = network.add_client("feed", "d")
    Reader(network.add_client("early", "a"), "n > 0", None)
    network.run()
    for n in range(1, count + 1):
        feed.publish(n=n)
        network.run()
    return network


class Silent(MergingCaching):
    """A broker that never answers."""

    def asked(self, *arguments: object) -> None:
        """Nothing."""
