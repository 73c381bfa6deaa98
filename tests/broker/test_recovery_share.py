"""What a client says it has seen is bounded: it cannot keep others from going on where they were."""

from __future__ import annotations

import pytest

from tidings.broker import Broker, Link, LinkKind, _recovery
from tidings.model import EVERYTHING
from tidings.sim import Network
from tidings.wire import AnyMessage, Frame, Refused, Subscribe


def attached(broker: Broker, name: str) -> Link:
    link = Link(name, LinkKind.CLIENT)
    broker.attach(link)
    return link


def subscribe(broker: Broker, link: Link, id: str, *origins: str) -> None:
    after = dict.fromkeys(origins, (1, 1))
    broker.receive(link, Frame(Subscribe(id, EVERYTHING, number=1, after=after)))


def many(prefix: str, count: int) -> list[str]:
    return [f"{prefix} {n}" for n in range(count)]


def test_positions_of_made_up_origins_are_bounded_and_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recovery, "MAX_SUSPENSIONS", 2_000)
    broker = Network().add_broker("b")
    refused: list[tuple[str, str]] = []

    def heard(link: Link, message: AnyMessage) -> None:
        if isinstance(message, Refused):
            refused.append((link.name, message.reason))

    monkeypatch.setattr(broker, "send", heard)
    for name in ("m1", "m2", "m3"):
        flooder = attached(broker, name)
        subscribe(broker, flooder, "s0", *many(name, _recovery.MAX_CLIENT_SUSPENSIONS))
        subscribe(broker, flooder, "s1", "one more")
    assert [name for name, _ in refused] == ["m1", "m2", "m3"], "each beyond its bound, the third beyond the share"
    assert "1,001 positions for client 'm1'" in refused[0][1]
    assert "1,000 positions for client 'm3', of 3,000 for all" in refused[2][1]
    honest = attached(broker, "honest")
    subscribe(broker, honest, "s", *many("berlin", 50))
    assert len(refused) == 3
    assert broker.registrations.subscriptions(honest)
