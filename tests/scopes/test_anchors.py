"""What a broker does to keep track of the scopes of its clients."""

from __future__ import annotations

import pytest

from tidings.scopes import CreateScope, Join, Scopes, client_node
from tidings.sim import Network


@pytest.mark.parametrize("scoped", [False, True], ids=["flat", "scoped"])
def test_a_client_that_comes_or_goes_costs_the_same_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, scoped: bool
) -> None:
    network = Network(1, features=lambda name: [Scopes("a")])
    network.add_brokers("a")
    for number in range(50):
        network.add_client(f"c{number}", "a").subscribe(f"n = {number}")
    network.run()
    if scoped:
        network.change("a", (CreateScope("s"), Join(client_node("c1"), "s")))
        network.run()
    asked: list[str] = []
    view = type(network.brokers["a"].scoping.newest)
    before = view.memberships

    def memberships(self: object, client: str) -> object:
        asked.append(client)
        return before(self, client)

    monkeypatch.setattr(view, "memberships", memberships)
    late = network.add_client("late", "a")
    late.subscribe("n > 0")
    network.run()
    late.detach()
    network.run()
    assert set(asked) <= {"late"}
    assert asked
