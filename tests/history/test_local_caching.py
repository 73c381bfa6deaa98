"""Local broker caching: the past that an application has seen itself."""

from __future__ import annotations

import pytest

from tidings.broker import RoutingOptions
from tidings.history.caching import RememberingLocalBroker
from tidings.model import Notification, last, since
from tidings.sim import Network, SimClient
from tidings.wire import Extension, Past, Subscribe


def remembering(network: Network, name: str, broker: str) -> RememberingLocalBroker:
    """A client whose local broker remembers."""
    client = SimClient(network, name)
    network.clients[name] = client
    local = RememberingLocalBroker(name, client._send, client, now=lambda: network.scheduler.now)
    client._local = local
    client.attach(broker)
    return local


def flooding() -> Network:
    network = Network(1, routing=RoutingOptions("flooding"))
    network.add_brokers(["er1", "er2", "er3"], links=[("er1", "er3"), ("er2", "er3")])
    network.run()
    return network


class Part:
    """A part of an application, with a subscription of its own."""

    def __init__(self, local: RememberingLocalBroker, filter: str, past: Past | None = None, **more: bool) -> None:
        self.values: list[object] = []
        self.past = 0
        self._local = local
        self.id = local.subscribe(filter, self._take, past=past, **more)  # type: ignore[arg-type]

    def _take(self, notification: Notification) -> None:
        self.values.append(notification["n"])
        self.past += self._local.delivering_past


@pytest.mark.req("HIS-060")
def test_vector_1_only_the_local_broker_that_has_seen_it_helps() -> None:
    network = flooding()
    lb1, lb2 = remembering(network, "lb1", "er1"), remembering(network, "lb2", "er1")
    x5 = network.add_client("x5", "er2")
    x1 = Part(lb1, "kind = 'f'")
    Part(lb2, "kind = 'g'")
    network.run()
    x5.publish(kind="f", n=1)
    network.run()
    assert x1.values == [1]
    assert (lb1.cache.cells, lb2.cache.cells) == (1, 0)
    second, elsewhere = Part(lb1, "kind = 'f'", Past(last(1))), Part(lb2, "kind = 'f'", Past(last(1)))
    assert (second.values, second.past) == ([1], 1), "at once"
    network.run()
    assert elsewhere.values == []
    x5.publish(kind="f", n=2)
    network.run()
    assert (x1.values, second.values, elsewhere.values) == ([1, 2], [1, 2], [2])


@pytest.mark.req("HIS-060")
def test_nothing_is_said_to_anybody() -> None:
    network = flooding()
    local = remembering(network, "lb", "er1")
    frames: list[object] = []
    network.tap = lambda name, link, frame: frames.append(frame.message)
    sent: list[object] = []
    local._send = lambda frame: sent.append(frame.message)  # type: ignore[method-assign, assignment]
    Part(local, "n > 0", Past(last(5)))
    (subscription,) = sent
    assert isinstance(subscription, Subscribe)
    assert subscription.past is None, "the border broker does not know that it reaches back"
    assert not any(isinstance(message, Extension) for message in frames)


@pytest.mark.req("HIS-060")
@pytest.mark.parametrize("seed", range(20))
def test_there_is_no_hole_between_what_is_remembered_and_what_is_new(seed: int) -> None:
    """Notifications are under way when the second part subscribes; the border broker sent them for the first only."""
    network = Network(seed, routing=RoutingOptions("simple"))
    network.add_brokers(["er1", "er2"], links=[("er1", "er2")])
    network.run()
    local, feed = remembering(network, "lb", "er1"), network.add_client("feed", "er2")
    first = Part(local, "n > 0")
    network.run()
    for n in range(1, 40):
        feed.publish(n=n)
        network.run(seconds=0.0005)
        if n == 15 + seed % 5:
            second = Part(local, "n > 0", Past(last(3)))
    network.run()
    assert first.values == list(range(1, 40))
    begin = second.values[0]
    assert isinstance(begin, int)
    assert second.values == list(range(begin, 40))
    assert second.past <= 3
    assert local.duplicates == 0


def test_bounds_and_ends() -> None:
    network = flooding()
    local, feed = remembering(network, "lb", "er1"), network.add_client("feed", "er2")
    first = Part(local, "n > 0")
    network.run()
    for n in (1, 2):
        feed.publish(n=n)
    network.run(seconds=60)
    feed.publish(n=3)
    network.run()
    local.publish({"n": 4})
    network.run()
    assert Part(local, "n > 0 AND n < 9", Past(since("30s"))).values == [3, 4]
    assert Part(local, "n > 1", Past(last(2)), receive_own=False).values == [3]
    assert Part(local, "m > 1", Past(last(2))).values == []
    for id in local.subscriptions:
        local.unsubscribe(id)
    assert (len(local.cache), local.cache.cells) == (0, 0)
    assert first.values == [1, 2, 3, 4]
