"""Scope graphs on simulated networks of production brokers, watched: who crossed what where, and what was sent."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scopes.graph_world import FX_3, node

from tidings.broker import Advice, Feature, Joinpoint, Link, RoutingOptions
from tidings.model import EventKey, Notification, Route
from tidings.scopes import OPEN, Answer, AnyChange, CreateScope, Join, Mode, Scopes, View
from tidings.sim import Network, SimClient
from tidings.sim._invariants import broken_invariants, overgrown
from tidings.wire import Deliver, Envelope, Frame, Notify

FX_3_BROKERS = ("B1", "B2", "B3", "B4", "B5")
FX_3_LINKS = (("B1", "B2"), ("B1", "B5"), ("B2", "B3"), ("B2", "B4"))
FX_3_PLACES = {"c1": "B1", "c2": "B1", "c3": "B3", "c4": "B4", "c6": "B4", "c5": "B5"}


class Crossed(NamedTuple):
    """A copy of an event crossed into another scope at a broker."""

    broker: str
    event: EventKey
    route: Route

    @property
    def edge(self) -> tuple[str, str]:
        """From which scope into which."""
        return self.route.source, self.route.scope


class Watch(Feature):
    """Notes every crossing; it may only look."""

    name = "watch"

    def __init__(self, broker: str, crossed: list[Crossed]) -> None:
        self._broker = broker
        self._crossed = crossed

    def advice(self) -> Mapping[Joinpoint, Advice]:
        return {Joinpoint.CROSS: self._cross}

    def _cross(self, proceed: Callable[..., None], route: Route, envelope: Envelope, scope: str) -> None:
        identity = envelope.identity
        self._crossed.append(Crossed(self._broker, EventKey(identity.origin, identity.epoch, identity.seq), route))
        proceed()


class Watched:
    """A network with scopes, and everything that happened on it. Its first broker is the authority."""

    def __init__(
        self,
        brokers: Iterable[str],
        links: Iterable[Sequence[str]],
        places: Mapping[str, str],
        *,
        routing: RoutingOptions | None = None,
        hook: object = None,
        features: Callable[[str], Iterable[Feature]] = lambda broker: (),
        seed: int = 0,
    ) -> None:
        self.crossed: list[Crossed] = []
        self.notified: list[tuple[str, str, Notify]] = []
        """What brokers sent each other: from, to, what."""
        self.handed: list[tuple[str, str, Deliver]] = []
        """What brokers sent to clients."""
        names = list(brokers)
        self.authority = names[0]
        self.network = Network(
            seed,
            routing=routing,
            features=lambda name: [
                Scopes(self.authority, hook=hook if name == self.authority else None),
                Watch(name, self.crossed),
                *features(name),
            ],
        )
        self.network.tap = self._tap
        self.network.add_brokers(names, links)
        for client, broker in places.items():
            self.network.add_client(client, broker)
        self.network.run()

    def _tap(self, broker: str, link: Link, frame: Frame) -> None:
        if isinstance(frame.message, Notify):
            self.notified.append((broker, link.name, frame.message))
        elif isinstance(frame.message, Deliver):
            self.handed.append((broker, link.name, frame.message))

    def client(self, name: str) -> SimClient:
        return self.network.clients[name]

    def view(self, broker: str) -> View:
        view = self.network.brokers[broker].scoping.active
        assert isinstance(view, View)
        return view

    def scopes(self, broker: str) -> Scopes:
        service = self.network.brokers[broker].features["scopes"]
        assert isinstance(service, Scopes)
        return service

    def change(self, *changes: AnyChange, at: str | None = None, mode: Mode = Mode.RELAXED) -> Answer:
        """Change the graph, and wait until everything has come to rest."""
        answers = self.network.change(at or self.authority, changes, mode)
        self.network.run()
        (answer,) = answers
        return answer

    def make(self, *edges: str, **changed: Join) -> None:
        """Make a graph of open scopes from edges such as "x < S"; `changed` replaces the join of "S_T" """
        answer = self.change(*joins(*edges, **changed))
        assert not answer.error, answer.reason

    def subscribe(self, *clients: str, filter: str = "TRUE") -> None:
        for client in clients or self.network.clients:
            self.client(client).subscribe(filter)
        self.network.run()

    def publish(self, client: str, notification: Notification | None = None, **attributes: Any) -> None:
        """Publish, and wait until it has arrived everywhere."""
        self.forget()
        self.client(client).publish(notification, **attributes)
        self.network.run()

    def forget(self) -> None:
        """Forget what has been watched so far."""
        self.crossed.clear()
        self.notified.clear()
        self.handed.clear()

    def traffic(self) -> list[str]:
        """The links on which notifications went, as "from-to", one for each frame."""
        return sorted(f"{one}-{two}" for one, two, _ in self.notified)

    def got(self, client: str) -> list[Notification]:
        """What a client has received, which it then forgets."""
        received, self.client(client).received = self.client(client).received, []
        return received

    def getters(self) -> set[str]:
        """The clients that have received something, which they then forget."""
        return {name for name in self.network.clients if self.got(name)}


def joins(*edges: str, **changed: Join) -> tuple[AnyChange, ...]:
    """The changes that make a graph of open scopes from edges such as "x < S"; lower-case names are clients."""
    pairs = [tuple(one.split(" < ")) for one in edges]
    scopes = dict.fromkeys(name for pair in pairs for name in pair if name and name != name.lower())
    made: list[AnyChange] = [CreateScope(name, OPEN) for name in scopes]
    made += [changed.get(f"{member}_{scope}") or Join(node(member), scope) for member, scope in pairs]
    return tuple(made)


def fx_3(**options: Any) -> Watched:
    """The example of the documents: five brokers, three scopes, six clients."""
    changed = {name: options.pop(name) for name in list(options) if isinstance(options[name], Join)}
    world = Watched(FX_3_BROKERS, FX_3_LINKS, FX_3_PLACES, **options)
    world.make(*FX_3, **changed)
    return world


def random_links(dice: random.Random, brokers: Sequence[str]) -> list[tuple[str, str]]:
    """A random tree."""
    return [(dice.choice(brokers[:at]), brokers[at]) for at in range(1, len(brokers))]


def at_rest(world: Watched) -> None:
    """Nothing is kept without a reason."""
    assert not broken_invariants(world.network)
    assert not overgrown(world.network)
    for broker in world.network.brokers:
        assert world.scopes(broker).questions._trails == {}
