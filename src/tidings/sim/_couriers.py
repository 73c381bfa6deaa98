"""Couriers: how long it takes to tell a broker that a client of its own is hosted elsewhere.

A courier leaves with the claim of a new host, for each broker that has the client as well. It is no message: it has no
length, nobody reads it, and it delays nothing. On each link it goes behind everything that waits there, with the worst
latency that the weather allows, and it is lost where a message would be lost: with its link, or at a broker that has
another tree than the one it left on. Then it leaves again, from whoever is the host by then and has had the time to say
so: on this tree, too.

When it arrives and its broker still has the client, the trace says so (COURIER), and the checker knows that this broker
was told, if anybody was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidings.mobility import Hosts

from ._details import Attached
from ._pipes import Pipe
from ._trace import Op

if TYPE_CHECKING:
    from ._network import Network

REPEATED = 5_000_000
"""Microseconds after which a host has told again what was lost: it waits for an answer, for its waves, and repeats."""
PATIENCE = 120
"""How often a courier leaves, and finds no way; whenever a link comes up, it tries again."""


class _Stale(NamedTuple):
    """An attachment that a newer one has taken the place of."""

    client: str
    broker: str
    epoch: int


class Couriers:
    """Those that are under way in one network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._away: set[_Stale] = set()
        """For whom one is under way, or waits."""
        self._changed_at = -REPEATED
        """When a link came up or was lost last."""

    def hosted(self, client: str, broker: str) -> None:
        """A broker has let a client in, and tells others so in the same turn."""
        self._network.scheduler.after(0, lambda: self._begin(client, broker))

    def link_up(self) -> None:
        """A link is there: who could not be told before is told soon."""
        self._changed_at = self._network.scheduler.now
        for client in {name for hosts in self._hosts().values() for name in _names(hosts)}:
            self._begin(client, None)

    def link_down(self) -> None:
        """A link is lost: brokers change to another tree."""
        self._changed_at = self._network.scheduler.now

    @property
    def _is_changing(self) -> bool:
        """Whether a claim may meet an unfinished handshake, be lost there, and be told again.

        It may be faster than its courier, which finds everything ready behind it.
        """
        return self._changed_at + REPEATED > self._network.scheduler.now

    def _begin(self, client: str, broker: str | None) -> None:
        """Send one to each broker that has an older attachment: at once from the broker that has just let it in."""
        newest = self._newest(client)
        for name, hosts in self._hosts().items():
            stale = _Stale(client, name, hosts.epoch_of(client))
            if stale.epoch and name != newest and stale not in self._away:
                self._away.add(stale)
                if broker is not None and broker == newest and not self._is_changing:
                    self._set_out(stale, broker, PATIENCE)
                else:
                    self._again(stale, PATIENCE)

    def _hosts(self) -> dict[str, Hosts]:
        found = {name: broker.features.get("hosts") for name, broker in self._network.brokers.items()}
        return {name: hosts for name, hosts in found.items() if isinstance(hosts, Hosts)}

    def _newest(self, client: str) -> str:
        """The broker whose attachment of a client is the newest; "": nobody has it."""
        epochs = {name: hosts.epoch_of(client) for name, hosts in self._hosts().items()}
        return max((name for name, epoch in epochs.items() if epoch), key=lambda name: (epochs[name], name), default="")

    def _stands(self, stale: _Stale) -> bool:
        """Whether an attachment is still there, and is not the newest."""
        hosts = self._hosts().get(stale.broker)
        there = hosts is not None and hosts.epoch_of(stale.client) == stale.epoch
        if there and self._newest(stale.client) != stale.broker:
            return True
        self._away.discard(stale)
        return False

    def _again(self, stale: _Stale, patience: int) -> None:
        """It was lost, or there was no way."""
        if patience:
            self._network.scheduler.after(REPEATED, lambda: self._leave(stale, patience - 1))
        else:
            self._away.discard(stale)

    def _leave(self, stale: _Stale, patience: int) -> None:
        if not self._stands(stale):
            return
        newest = self._newest(stale.client)
        attached = self._hosts()[newest].attached(stale.client)
        just_come = attached is not None and attached.at + REPEATED > self._network.runtime(newest).now()
        if just_come or self._is_changing:
            self._again(stale, patience)  # its host has more to do than to tell this one, or repeats what is lost
        else:
            self._set_out(stale, newest, patience)

    def _set_out(self, stale: _Stale, host: str, patience: int) -> None:
        self._pass_on(stale, host, self._network.brokers[host].adjacency.tree.epoch, patience)

    def _pass_on(self, stale: _Stale, here: str, tree: int, patience: int) -> None:
        """It is at a broker, on its way over a tree."""
        if not self._stands(stale):
            return
        adjacency = self._network.brokers[here].adjacency
        if adjacency.tree.epoch != tree:
            self._again(stale, patience)
            return
        if here == stale.broker:
            self._away.discard(stale)
            epoch = self._hosts()[self._newest(stale.client)].epoch_of(stale.client)
            self._network.trace.add(Op.COURIER, stale.client, detail=Attached(here, epoch))
            return
        link = adjacency.hop_towards(stale.broker)
        pipe = self._network.runtime(here).pipes.get(link) if link is not None else None
        if link is None or not isinstance(pipe, Pipe) or not self._is_heard(here, link.name, tree):
            self._again(stale, patience)
            return
        there = link.name

        def arrive() -> None:
            alive = here in self._network.brokers and self._network.runtime(here).pipes.get(link) is pipe
            if alive and not pipe.silent and self._is_heard(here, there, tree):
                self._pass_on(stale, there, tree, patience)
            elif self._stands(stale):
                self._again(stale, patience)

        self._network.scheduler.at(pipe.latest(), arrive)

    def _is_heard(self, here: str, there: str, tree: int) -> bool:
        """Whether a neighbour takes what is sent on a tree: one that does now and later has done so in between."""
        broker = self._network.brokers.get(there)
        back = broker.adjacency.neighbours.get(here) if broker is not None else None
        return broker is not None and back is not None and broker.adjacency.accepts(back, tree)


def _names(hosts: Hosts) -> list[str]:
    return [one.client for one in hosts.hosted()]
