"""A simulated network in which things are deployed: statements as clients make them, and what brokers think."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.aggregation import Aggregation, AggregationOptions, Audited, Deployments, Workers
from tidings.aggregation.deploying import (
    EVERY,
    QUESTION,
    Act,
    Manifest,
    Place,
    Signed,
    Signer,
    Tier,
    digest_of,
    keygen,
    signed,
)
from tidings.aggregation.deploying.messages import FEATURE, AnyMessage, Declined, Deploy, Surveyed, decode, encode
from tidings.broker import Feature, Link
from tidings.sim import Network
from tidings.sim._code_workers import SimWorkers
from tidings.wire import Extension, Frame

KEYS, OTHERS, OPERATOR = keygen(), keygen(), keygen()
COUNT = "count() WINDOW 1s WHERE type = 'x'"
SOURCE = """
from tidings.aggregation.definitions import Aggregate, Tumbling

class Readings(Aggregate):
    name, version = "acme.readings", "1.0.0"
    window = Tumbling("1s")
    where = "type = 'x'"
    def key(self, record): return ""
    def zero(self): return 0
    def lift(self, record): return 1 if record.attrs.get("type") == "x" else None
    def combine(self, a, b): return a + b
"""
OPTIONS = AggregationOptions(
    network="net",
    signer=(
        Signer("acme", (KEYS.public,)),
        Signer("other", (OTHERS.public,)),
        Signer("operator", (OPERATOR.public,), Tier.ADVICE),
    ),
    deployments_per_second=1_000,
)


class World:
    """A network with deployments; `options` by broker, where they differ."""

    def __init__(
        self,
        brokers: str,
        links: list[str],
        *,
        options: dict[str, AggregationOptions] | None = None,
        workers: Any = None,
        **more: Any,
    ) -> None:
        self._options = options or {}
        self._workers = workers
        self.audited: list[tuple[str, Audited]] = []
        self.network = Network(seed=1, features=self._features, **more)
        self.network.add_brokers(brokers, links=links)
        self.network.run()
        for name in brokers:
            self.network.add_client(f"c{name}", name)
        self.network.run()
        self.issued = 0
        self._count = 0
        self.answers: dict[str, Surveyed | Declined] = {}
        self.network.tap = self._note

    def _features(self, name: str) -> list[Feature]:
        options = self._options.get(name, OPTIONS)
        workers: Workers | None = self._workers(self, name) if self._workers is not None else None
        deployments = Deployments(options, workers)
        deployments.on_audit = lambda audited: self.audited.append((name, audited))
        return [deployments, Aggregation(options, deployments)]

    def _note(self, broker: str, link: Link, frame: Frame) -> None:
        message = frame.message
        if link.is_client and isinstance(message, Extension) and message.feature == FEATURE:
            said = decode(message.body)
            if isinstance(said, Surveyed | Declined):
                self.answers[said.id] = said

    def deployments(self, broker: str) -> Deployments:
        feature = self.network.brokers[broker].features["deployments"]
        assert isinstance(feature, Deployments)
        return feature

    def aggregation(self, broker: str) -> Aggregation:
        feature = self.network.brokers[broker].features["aggregation"]
        assert isinstance(feature, Aggregation)
        return feature

    def manifest(self, **changed: Any) -> Manifest:
        """A statement about a question, unless something else is said."""
        self.issued += 1
        words: dict[str, Any] = {
            "network": "net",
            "name": "acme.n",
            "version": "1.0.0",
            "digest": digest_of(changed.pop("source", COUNT), changed.get("entry", QUESTION)),
            "entry": QUESTION,
            "tier": Tier.EXPRESSION,
            "valid_until": self.network.scheduler.now // 1_000_000 + 3_600,
            "issued_at": self.issued,
        }
        return Manifest(**{**words, **changed})

    def question(self, text: str = COUNT, **changed: Any) -> Signed:
        return Signed(self.manifest(source=text, **changed), "acme", b"", text)

    def python(self, source: str = SOURCE, key: str = KEYS.private, signer: str = "acme", **changed: Any) -> Signed:
        words: dict[str, Any] = {
            "name": "acme.readings",
            "entry": "Readings",
            "tier": Tier.PYTHON,
            "window": (1_000, 1_000),
            "where": "type = 'x'",
        }
        return signed(self.manifest(source=source, **{**words, **changed}), key, signer, source)

    def end(self, given: Signed, act: Act = Act.REMOVE, key: str = "", **changed: Any) -> Signed:
        """A statement that ends another, signed if there is a key."""
        self.issued += 1
        changed = {"act": act, "issued_at": self.issued, "replaces": "", **changed}
        manifest = msgspec.structs.replace(given.manifest, **changed)
        return signed(manifest, key, given.signer) if key else Signed(manifest, given.signer, b"")

    def everything(self, key: str = OPERATOR.private, signer: str = "operator") -> Signed:
        manifest = self.manifest(act=Act.QUARANTINE, name=EVERY, version="", digest="", entry="", tier=Tier.ADVICE)
        return signed(manifest, key, signer)

    def say(self, client: str, message: AnyMessage) -> None:
        self.network.clients[client]._send(Frame(Extension(FEATURE, encode(message))))

    def deploy(self, given: Signed, client: str = "ca", *, force: bool = False) -> Surveyed | Declined | None:
        """Make a statement, and let everything come to rest."""
        self._count += 1
        id = f"d{self._count}"
        self.say(client, Deploy(id, given, force))
        self.network.run(10)
        return self.answers.get(id)

    def neighbour_says(self, neighbour: str, broker: str, body: bytes) -> None:
        """Let a broker hear something, as if a neighbour had sent it."""
        self.deployments(broker).on_message(self.network.brokers[broker].adjacency.neighbours[neighbour], body)
        self.network.run(5)

    def refusal(self, given: Signed, client: str = "ca") -> str:
        """Why a statement is refused."""
        answer = self.deploy(given, client)
        assert isinstance(answer, Declined), answer
        return answer.reason

    def phases(self, name: str = "acme.n", version: str = "1.0.0") -> str:
        """The phase of a name and version at each broker, by its first letter; - where it was never heard of."""
        place = Place(name, version)
        found = [self.deployments(broker).registry for broker in sorted(self.network.brokers)]
        return "".join(one.judge(place).phase[0] if place in one else "-" for one in found)


def workers(world: World, broker: str) -> SimWorkers:
    """What stands for worker processes."""
    return SimWorkers(lambda: world.network, broker)
