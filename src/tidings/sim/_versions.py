"""What must be true of deployed versions, seen from outside: by everything that brokers send, and what they keep.

    U1  every value that a client is told is of one version
    U2  as long as nothing fails and nothing is ended, a watch that was served is served by some complete version
    U3  at most two versions of a name are measured at a broker
    U4  nothing is asked or told about a version on a link after its end has passed there
    U5  at rest, nothing is measured of a version that has ended

Besides, a broker asks for nothing, and passes nothing on, that it does not have; and at rest, brokers that reach each
other know the same statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tidings.aggregation import Aggregation, Deployments
from tidings.aggregation import messages as values
from tidings.aggregation._named import place_in
from tidings.aggregation.deploying import SIDE_BY_SIDE, Act, Place
from tidings.aggregation.deploying.messages import FEATURE, Spread, decode
from tidings.broker import Link
from tidings.wire import Extension, Frame

from ._deploying_plan import NAME, unit
from ._network import Network
from ._promises import Promises
from ._watch import SimWatch

DEPLOYED_VERSION = "deployed-version"
"""The guarantee of docs/promises.md."""


class Versions:
    """Looks at everything that brokers send in one run."""

    def __init__(self, network: Network, *, calm: bool) -> None:
        """`calm`: whether nothing fails in this run, and nobody ends anything."""
        self._network = network
        self._calm = calm
        self._ended: dict[tuple[str, str], set[Place]] = {}
        """The versions whose end has passed a link, by the names of its ends."""
        self._asks: dict[tuple[str, str, int], Place] = {}
        """What the numbers of asks mean: of whom asked, of who asks."""
        self._served: set[SimWatch] = set()
        """What has had a complete value."""
        self.told: Counter[tuple[SimWatch, str]] = Counter()
        """The complete values that each watch was told, by version."""
        self.broken: list[str] = []
        network.tap = self._look

    def _look(self, broker: str, link: Link, frame: Frame) -> None:
        message = frame.message
        if link.is_client:
            if isinstance(message, Extension) and message.feature == values.FEATURE:
                self._told(link.name, values.decode(message.body))
            return
        carried = [(frame.hop.attachments or {}).get(values.FEATURE, b"")]
        if isinstance(message, Extension) and message.feature == FEATURE:
            self._spread(broker, link.name, decode(message.body))
        elif isinstance(message, Extension) and message.feature == values.FEATURE:
            carried.append(message.body)
        for body in filter(None, carried):
            self._said(broker, link.name, values.decode(body))
        measured = _measured(self._network, broker)
        if len(measured) > SIDE_BY_SIDE:
            self.broken.append(f"U3: {broker} measures {sorted(measured)}")

    def _spread(self, broker: str, other: str, said: Any) -> None:
        if isinstance(said, Spread):
            manifest = said.statement.manifest
            place = Place(manifest.name, manifest.version)
            if place not in _deployments(self._network, broker).registry:
                self.broken.append(f"{broker} passes on {place} before it has it")
            if manifest.act is not Act.INSTALL:
                self._ended.setdefault((broker, other), set()).add(place)

    def _said(self, broker: str, other: str, said: Any) -> None:
        over = self._ended.get((broker, other), set())
        if isinstance(said, values.Ask) and said.aggregate == NAME:
            place = Place(said.aggregate, said.version.partition("@")[0])
            self._asks[other, broker, said.number] = place
            if place in over:
                self.broken.append(f"U4: {broker} asks {other} for {place}")
            if place not in _deployments(self._network, broker).registry:
                self.broken.append(f"{broker} asks for {place}, which it does not have")
        elif isinstance(said, values.Told):
            for update in said.updates:
                if (place := self._asks.get((broker, other, update[0]), Place("", ""))) in over:
                    self.broken.append(f"U4: {broker} tells {other} of {place}")

    def _told(self, client: str, said: Any) -> None:
        """A client is told something about what it watches."""
        watch = self._network.clients[client].watches.get(getattr(said, "id", ""))
        if not isinstance(said, values.Result) or watch is None or watch.aggregate != NAME:
            return
        if not said.complete:
            if self._calm and watch in self._served:
                self.broken.append(f"U2: {client} is served by no complete version any more")
            return
        self._served.add(watch)
        self.told[watch, said.version] += 1
        assert said.window is not None
        most, least = self._published(*said.window)
        count, rest = divmod(said.value, unit(said.version))
        if rest or count > most or (self._calm and count < least):
            self.broken.append(
                f"U1: {client} is told {said.value:,} of version {said.version}, {count:,} publications and {rest:,} "
                f"more; there were {least:,} to {most:,} in that window"
            )

    def _published(self, start: int, end: int) -> tuple[int, int]:
        """How many publications there were in a window at most, and how many are known."""
        known = sum(
            start <= one.identity.published_at // 1_000 < end
            for broker in self._network.brokers.values()
            for one in broker.publications.recent
        )
        return known if self._calm else len(self._network.trace.records), known


def broken_versions(network: Network, versions: Versions, promises: Promises | None = None) -> list[str]:
    """Return everything that contradicts the promise about deployed versions, once a network has come to rest."""
    if promises is not None and not promises.holds(DEPLOYED_VERSION, "aggregation"):
        return []
    found = [*versions.broken, *_at_rest(network)]
    return [f"{DEPLOYED_VERSION}: {text}" for text in found]


def _at_rest(network: Network) -> Iterator[str]:
    for name, broker in network.brokers.items():
        registry = _deployments(network, name).registry
        for place in _measured(network, name):
            if registry.is_over(place):
                yield f"U5: {name} still measures {place}"
        for other in broker.adjacency.tree.hops:
            if registry.marks() != _deployments(network, other).registry.marks():
                yield f"{name} and {other} know different statements"
        for feature in ("deployments", "aggregation"):
            if failures := broker.failures.by_feature.get(feature):
                yield f"{name}: {failures} failures of {feature}"


def _measured(network: Network, broker: str) -> set[Place]:
    if (there := network.brokers.get(broker)) is None:
        return set()
    feature = there.features["aggregation"]
    assert isinstance(feature, Aggregation)
    return {place_in(one) for one in feature.engine.states if one.aggregate == NAME}


def _deployments(network: Network, broker: str) -> Deployments:
    feature = network.brokers[broker].features["deployments"]
    assert isinstance(feature, Deployments)
    return feature
