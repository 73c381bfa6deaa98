"""The connections of real clients in a world: who is connected where, and what goes wrong on the way.

A client dials a host; here a host is a simulated broker. Every connection is a cable with a client at one end and a
door of the broker at the other. The faults of clients happen here: a client may be cut off from a broker, or vanish,
and a broker that dies or vanishes takes its connections with it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

from tidings.broker import LocalBroker
from tidings.wire import Frame

from ._cable import Cable
from ._door import Door, Doors
from ._guest import Guest
from ._network import Network
from ._processes import current
from ._reality import refusal
from ._witness import Witness

_PORT = 7311
_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


class Connections:
    """All clients of a world, and their connections."""

    def __init__(self, network: Network, broke: Callable[[Exception], None]) -> None:
        self._network = network
        self._broke = broke
        self._doors: dict[str, Doors] = {}
        self._hosts: dict[str, str] = {}
        self._cables: dict[Door, tuple[str, Cable]] = {}
        self._witnesses: list[Witness] = []
        self._lives: dict[str, int] = {}
        self._given = 0
        self._cut: set[tuple[str, str]] = set()
        self._vanished: set[str] = set()
        self.frames = 0
        """Frames that clients and brokers have exchanged, and sessions that have begun: it grows while something goes
        on."""

    # --- brokers --------------------------------------------------------------------------------------

    def add(self, broker: str) -> None:
        """Give a broker a host."""
        host = broker.lower()
        if not _HOST.fullmatch(host) or f"{host}.sim" in self._hosts:
            host = f"broker-{len(self._hosts) + 1}"
        self._hosts[f"{host}.sim"] = broker

    def open(self, broker: str) -> None:
        """Let clients in: the broker has started."""
        self._doors[broker] = Doors(
            self._network,
            broker,
            count=self._count,
            new_name=self._new_name,
            is_cut_off=lambda client, broker: (client, broker) in self._cut,
            left=self._left,
            broke=self._broke,
        )

    def crash(self, broker: str) -> None:
        """The broker is dead, and its connections with it."""
        self._doors.pop(broker).crash()
        for _, cable in self._of(broker):
            cable.reset()

    def url(self, broker: str) -> str:
        """The address of a broker."""
        host = next(host for host, name in self._hosts.items() if name == broker)
        return f"tidings://{host}:{_PORT}"

    # --- clients --------------------------------------------------------------------------------------

    @property
    def clients(self) -> list[str]:
        """The names of all clients so far."""
        return list(self._lives)

    def guests(self, broker: str) -> list[Guest]:
        """The clients that a living broker has let in."""
        return self._doors[broker].guests

    async def dial(self, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Connect a client to a broker, if it is there."""
        broker = self._hosts.get(host)
        if broker is None or port != _PORT:
            brokers = ", ".join(self.url(name) for name in self._hosts.values())
            raise refusal(f"a connection to {host}:{port}", f"the brokers of this world are {brokers}")
        weather = self._network.client_weather or self._network.weather
        low, high = weather.latency
        await asyncio.sleep(2 * self._network.random.randint(low, high) / 1_000_000)
        process = current.get()
        if broker in self._vanished or (process is not None and not process.alive):
            await asyncio.get_running_loop().create_future()  # for ever: whoever dials has a timeout
        if broker not in self._doors:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol, door = factory(), Door(self._doors[broker])
        cable = Cable(self._network.scheduler, self._network.random, weather, protocol, door)
        for other, (_, old) in list(self._cables.items()):
            if not old.is_open:
                del self._cables[other]
        self._cables[door] = (broker, cable)
        if process is not None:
            process.cables.append(cable)
        door.on_greeting = lambda: self._greeted(door)
        cable.on_end = lambda end: self._hung_up(door) if end is cable.ends[0] else None
        door.connection_made(cable.ends[1])
        protocol.connection_made(cable.ends[0])
        return cable.ends[0], protocol

    def watch(self, local: LocalBroker) -> Callable[[Frame], None]:
        """A client opens: write down what it does."""
        witness = Witness(local, self._network.trace, self._guest_of, self._life_of)
        self._witnesses.append(witness)
        if (process := current.get()) is not None:
            process.witnesses.append(witness)
        return witness.receive

    def _guest_of(self, witness: Witness) -> tuple[Guest, str, int]:
        """The guest that a client has become with the welcome that it has just got."""
        for one in self._witnesses:
            if one is not witness and one.name == witness.name:
                one.left()  # an earlier process of the same name
        for broker, doors in self._doors.items():
            guest = doors.known(witness.name)
            if guest is not None and guest.door is not None and not guest.announced:
                guest.announced = True
                return guest, broker, doors.epoch
        raise AssertionError(f"{witness.name} announces itself to no broker")

    def _life_of(self, client: str) -> int:
        self._lives[client] = self._lives.get(client, 0) + 1
        return self._lives[client]

    def _left(self, guest: Guest, said_goodbye: bool) -> None:
        if guest.parting in self._cables and self._cables[guest.parting][1].is_open:
            return  # what was sent before still reaches the client
        for witness in list(self._witnesses):
            if witness.guest is guest:
                if said_goodbye:
                    witness.left()
                    self._witnesses.remove(witness)
                else:
                    witness.lost()

    def _hung_up(self, door: Door) -> None:
        """A client has no connection any more: if it was sent away, it knows it now."""
        for witness in self._witnesses:
            if witness.guest is not None and witness.guest.parting is door:
                witness.lost()

    def _new_name(self) -> str:
        self._given += 1
        return f"client-{self._given}"

    def _count(self, frames: int) -> None:
        self.frames += frames

    @property
    def at_rest(self) -> bool:
        """Whether no client has anything under way."""
        return all(guest.at_rest for doors in self._doors.values() for guest in doors.guests if guest.door is not None)

    @property
    def under_way(self) -> int:
        """How many writes are under way on cables."""
        return sum(cable.under_way for _, cable in self._cables.values())

    # --- what goes wrong ------------------------------------------------------------------------------

    def _of(self, name: str) -> Iterator[tuple[Door, Cable]]:
        """The connections of a broker or client."""
        for door, (broker, cable) in list(self._cables.items()):
            if name in (broker, door.client):
                yield door, cable

    def reset(self, name: str) -> None:
        """Break the connections that a broker or client has now."""
        for _, cable in self._of(name):
            cable.reset()

    def cut(self, client: str, broker: str) -> None:
        """Break the connection between a client and a broker, and let none come to be."""
        self._cut.add((client, broker))
        for door, cable in self._of(client):
            if self._cables[door][0] == broker:
                cable.reset()

    def heal(self, client: str, broker: str) -> None:
        """Let a client reach a broker again."""
        self._cut.discard((client, broker))

    def vanish(self, name: str, *, gone: bool = True) -> None:
        """Let a broker or client fall silent, or speak again."""
        (self._vanished.add if gone else self._vanished.discard)(name)
        for door, cable in self._of(name):
            cable.silence(silent=not {self._cables[door][0], door.client}.isdisjoint(self._vanished))

    def _greeted(self, door: Door) -> None:
        """A client says who it is: it may have vanished."""
        if door.client in self._vanished:
            self._cables[door][1].silence()
