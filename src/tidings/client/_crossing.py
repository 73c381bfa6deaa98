"""A crossing: a client goes to another of its brokers while its connection to the old one still works.

Theory of operation
-------------------
A broker that is about to stop asks its clients to go elsewhere. It does not say where: a client goes to one of the
addresses that its application has given it, in their order, and to no other. The next broker is entered before the
old one is left:

1. *Reach.* A connection to the next address is opened, TLS included. Nothing is said there yet, so if it cannot be
   opened, nothing has changed.
2. *Hand over.* What the application publishes waits from now on, until the old broker has all that was published
   before, for `HAND_OVER` at most. So nothing is on its way to a broker that no longer listens to this client.
3. *Enter.* The client says hello. Its next broker claims it from the old one, which lets it go: that may be heard
   before the welcome, and is no reason to give up. With the welcome the link changes over, in one step: from then on
   nothing is taken from the old connection, and everything is announced at the new one, with positions.

With `overlap`, what the old connection still brings is taken, too, until its broker ends it: that goes on delivering
for half a second after it has given the client away. Both send in order, and whatever has come is not taken again.
Where the two brokers have different places it is not done: a filter with `myloc` means something else at each.

If a step fails, the old connection goes on as if nothing had happened, and the next address is tried. If the old one
is lost meanwhile, the link reconnects as it always does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from tidings.wire import EVACUATION, Extension, Frame, GoElsewhere, Stays, WireError, pack, read_evacuation

from ._address import Address, ConnectionFailed
from ._connection import Connection

if TYPE_CHECKING:
    from ._uplink import Uplink

log = logging.getLogger("tidings.client")

HAND_OVER = 1.0
"""Seconds for which the old broker may take to acknowledge what it was sent."""


class Crossing:
    """Takes a client to another of its brokers, once for each time that it is asked to go."""

    def __init__(self, link: Uplink) -> None:
        self._link = link
        self._task: asyncio.Task[None] | None = None
        self.greeted: Connection | None = None
        """The connection that was still there when the client said hello elsewhere: it may end for that reason."""

    def heard(self, body: bytes) -> None:
        """The broker asks."""
        try:
            said = read_evacuation(body)
        except WireError:
            return  # of another version
        if isinstance(said, GoElsewhere) and self._task is None:
            number = said.number
            self._task = asyncio.create_task(self._answer(number), name=f"tidings crossing of {self._link.name}")
            self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the client '%s' could not leave its broker", self._link.name, exc_info=error)

    async def to(self, address: Address) -> bool:
        """Go to another broker because the application wants it; False: the client is where it was."""
        old = self._link.traffic.connection
        return old is not None and not old.gone.done() and await self._crossed(old, address, evacuated=False)

    async def over(self) -> None:
        """Wait until no crossing is under way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def stop(self) -> None:
        """Give up a crossing that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _answer(self, number: int) -> None:
        link, tried = self._link, 0
        broker = link.broker
        for address in link.elsewhere():
            old = link.traffic.connection
            if old is None or old.gone.done():
                return  # the link looks for another one itself
            tried += 1
            if await self._crossed(old, address):
                if link.broker != broker:
                    log.info("the client '%s' has gone from broker '%s' to '%s'", link.name, broker, link.broker)
                    return
            elif link.traffic.connection is not old:
                return
        log.info("the client '%s' stays at broker '%s', which is about to stop", link.name, link.broker)
        link.traffic.send(Frame(Extension(EVACUATION, pack(Stays(number, tried)))))

    async def _crossed(self, old: Connection, address: Address, *, evacuated: bool = True) -> bool:
        """Whether the client is let in there."""
        link = self._link
        connection = Connection(link, address)
        try:
            await connection.reach(link.tls)
            link.traffic.hold()
            await self._hand_over(old)
            if link.traffic.connection is not old or old.gone.done():
                return False
            self.greeted = old
            await connection.enter(link.hello(fresh=True, evacuated=evacuated))
        except ConnectionFailed as error:
            log.info("%s: %s", address, error)
            return False
        finally:
            if connection is not link.traffic.connection:
                connection.give_up()
            link.traffic.release()
        return True

    async def _hand_over(self, old: Connection) -> None:
        """Wait until the old broker has everything."""
        self._link.traffic.flush()
        try:
            async with asyncio.timeout(HAND_OVER):
                await self._link.traffic.handed_over(old)
        except TimeoutError:
            log.info("broker '%s' does not acknowledge what it was sent", self._link.broker)
