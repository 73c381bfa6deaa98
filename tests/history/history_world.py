"""Envelopes and links for tests of what brokers remember."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidings.broker import Link, LinkKind, RoutingOptions
from tidings.history.caching import CachingStrategy
from tidings.history.caching._requests import decode
from tidings.model import ROOT_ROUTE, Bound, Filter, Identity, Notification
from tidings.sim import Network, SimClient, Weather
from tidings.wire import Envelope, Extension, Frame, Past, encode_body

EAST, WEST = Link("east", LinkKind.BROKER), Link("west", LinkKind.BROKER)
FEED = Link("feed", LinkKind.CLIENT)


def envelope(seq: int, origin: str = "o", *, at: int | None = None, **attributes: object) -> Envelope:
    """The publication number `seq` of an origin, published at that time."""
    identity = Identity(origin, 1, seq, "feed", seq, seq if at is None else at)
    body: Mapping[str, object] = {"n": seq, **attributes}
    return Envelope(identity, (ROOT_ROUTE,), encode_body(Notification(body)))


def f(text: str) -> Filter:
    return Filter.parse(text)


def numbers(envelopes: list[Envelope]) -> list[int]:
    return [one.identity.seq for one in envelopes]


# --- networks -----------------------------------------------------------------------------------------


class Reader:
    """A subscription into the past, and what it has got: (origin, number), and how many of it came from the past."""

    def __init__(
        self,
        client: SimClient,
        filter: Filter | str,
        bound: Bound | Past | None,
        *,
        timeout: int | None = None,
        receive_own: bool = True,
    ) -> None:
        self.got: list[tuple[str, int]] = []
        self.values: list[object] = []
        self.times: list[int] = []
        self.past = 0
        local = client._local

        def take(notification: Notification) -> None:
            assert local.delivering is not None
            self.got.append((local.delivering.origin, local.delivering.seq))
            self.values.append(notification.get("n"))
            self.times.append(client._network.scheduler.now)
            self.past += local.delivering_past

        self._local = local
        self.id = local.subscribe(
            filter,
            take,
            past=Past(bound, timeout=timeout) if isinstance(bound, Bound) else bound,
            receive_own=receive_own,
        )

    def unsubscribe(self) -> None:
        self._local.unsubscribe(self.id)


def network_of(
    make: Callable[[str], CachingStrategy],
    links: Iterable[Sequence[str]],
    *,
    seed: int = 1,
    routing: RoutingOptions | None = None,
    weather: Weather | None = None,
) -> Network:
    """A settled tree of brokers with one strategy each."""
    pairs = [tuple(link) for link in links]
    network = Network(
        seed, routing=routing or RoutingOptions("simple"), features=lambda name: [make(name)], weather=weather
    )
    network.add_brokers(dict.fromkeys(name for pair in pairs for name in pair), links=pairs)
    network.run()
    return network


REFERENCE = [("er1", "er3"), ("er2", "er3"), ("er4", "er3")]
"""The tree of the documents' examples: three border brokers around an inner one."""


def strategy_at(network: Network, broker: str) -> CachingStrategy:
    feature = network.brokers[broker].features["history"]
    assert isinstance(feature, CachingStrategy)
    return feature


class Messages:
    """What brokers say to one another about the past, and how often: by sender, receiver and type."""

    def __init__(self, network: Network) -> None:
        self.all: list[tuple[str, str, object]] = []
        network.tap = self._tap

    def _tap(self, name: str, link: Link, frame: Frame) -> None:
        if not link.is_broker:
            return
        if isinstance(frame.message, Extension) and frame.message.feature == "history":
            self.all.append((name, link.name, decode(frame.message.body)))
        elif "history" in (frame.hop.attachments or {}):
            self.all.append((name, link.name, ("bounded", decode(frame.hop.attachments["history"]))))  # type: ignore[index]

    def of(self, kind: object) -> list[tuple[str, str]]:
        if kind == "bounded":
            return [(one, two) for one, two, message in self.all if isinstance(message, tuple)]
        return [(one, two) for one, two, message in self.all if isinstance(message, kind)]  # type: ignore[arg-type]


def prices(client: SimClient) -> list[object]:
    return [notification["price"] for notification in client.received]
