"""A scheme of one's own: a home broker, which listens for clients wherever they are. All others fetch from there."""

from __future__ import annotations

from typing import Any

import pytest
from mobility.roamers import numbers, walker

from tidings.broker import Joinpoint, Link
from tidings.mobility import Hosts, MobilityOptions, Neighbourhood, Roaming, Scheme
from tidings.mobility._admission import Admitted
from tidings.mobility._claims import Claim, Copies
from tidings.mobility._copies import Whose
from tidings.mobility._transfers import Transfers, read_transfer
from tidings.sim import Network, Weather, check

OPTIONS = MobilityOptions(Scheme.PROACTIVE, roamers=("all",))


class HomeBroker(Roaming):
    """Copies go to one broker for all clients; a client that arrives anywhere else fetches from there."""

    def __init__(self, home: str, hosts: Hosts, neighbourhood: Neighbourhood) -> None:
        super().__init__(OPTIONS, hosts, neighbourhood, locate=lambda client: [home])
        self._home = home
        self._fetching = Transfers(self, self.homes, self.handing)
        self.controlling.lends = None  # nobody else is asked

    def start(self) -> None:
        """What the home broker holds of clients that were there itself is fetched in the same way."""
        super().start()
        if self.context.name == self._home:
            self.controlling.left_behind = self._fetching.left_behind

    def advice(self) -> Any:
        """Hear of subscriptions, too: those of clients that have come are held until the home broker has answered."""

        def on_subscribe(proceed: Any, registration: Any) -> None:
            proceed(registration)
            self._fetching.subscribed(registration)

        return {**super().advice(), Joinpoint.SUBSCRIBE: on_subscribe}

    def arrived(self, link: Link, admitted: Admitted) -> Any:
        """A client has come: what it has missed is at the home broker."""
        wanted = super().arrived(link, admitted)
        if self.context.name != self._home and admitted.shown:
            self._fetching.arrived(link, Whose(link.name, link.owner, admitted.epoch), self._home)
        return wanted

    def claimed(self, claim: Claim) -> Copies | None:
        """Another broker has the client: the home broker is left alone."""
        return self.controlling.moved(Whose(claim.name, claim.owner, claim.epoch), self._home)

    def inherited(self, name: str, copies: Copies | None) -> None:
        """Nobody leaves anything: the record is renewed once what it holds was fetched."""

    def on_routed(self, source: str, body: bytes) -> None:
        """Two languages: that of copies, and that of transfers."""
        try:
            said = read_transfer(body).said
        except ValueError:
            super().on_routed(source, body)
        else:
            self._fetching.hear(source, said, self._hand_out)

    def _hand_out(self, whose: Whose, broker: str) -> None:
        if (copy := self.keeping.give_away(whose)) is not None:
            self._fetching.left_behind(whose, copy)


@pytest.mark.req("MOB-118")
@pytest.mark.parametrize("home", "abc")
def test_a_scheme_that_nobody_thought_of_is_a_page(home: str) -> None:
    world = Network(1, features=lambda name: features(home), weather=Weather(latency=(5_000, 5_000)))
    world.add_brokers("abco", links=["ab", "bc", "co"])
    world.run()
    phone, feed = walker(world)
    hits = 0
    for n, broker in enumerate("bcab"):
        phone.vanish(noticed=0.3, kept=60)
        world.run(2)
        feed.publish(n=n)
        world.run(2)
        asked: list[str] = []
        world.tap = lambda name, link, frame, asked=asked: asked.append(type(frame.message).__name__)
        phone.attach(broker)
        world.run(3)
        hits += not {"Fetch", "Wave"} & set(asked)  # no origin was asked: the home broker had it
    world.run()
    assert numbers(phone) == [0, 1, 2, 3]
    assert hits == 4
    assert not check(world.trace)


def features(home: str) -> list[Any]:
    hosts = Hosts()
    neighbourhood = Neighbourhood(hosts)
    return [hosts, neighbourhood, HomeBroker(home, hosts, neighbourhood)]
