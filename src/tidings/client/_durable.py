"""A durable subscription as its client sees it: where it goes on, and how far the broker knows that it has come.

A task of its own leads it from one step to the next: what the broker keeps is recalled, the subscription begins there,
settles, and is kept; then each progress of the application is kept, one at a time, as fast as the broker's disk allows.

If a broker that may keep a newer record cannot be reached, the subscription waits for it, for a minute; then it goes on
from what was found, or begins with a `Gap` without an end for every origin: what it has missed, nobody knows.

How far the application has come is known exactly. A callback has handled a notification when it returns. Whoever
iterates has handled one when it asks for the next, acknowledges, or closes the client in order. What nobody wanted
counts once everything before it is handled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from tidings.model import Identity, Position, TidingsError
from tidings.wire import Forget, Gap, Keep, Kept, Recall, Recalled

from ._carried import Positions, further
from ._questions import Questions

if TYPE_CHECKING:
    from ._subscription import Subscription

log = logging.getLogger("tidings.client")

KEEP_TIMEOUT = 5.0
"""Seconds to wait, when a client closes, until the broker has kept how far durable subscriptions have come."""
MISSING_SECONDS = 60.0
"""How long to wait for a broker that may know more of a durable subscription than those that can be reached."""
RETRY = 1.0
"""Seconds after which a broker that could not keep a position is asked again."""


class Durable:
    """The durable side of one subscription."""

    def __init__(
        self, questions: Questions, subscription: Subscription[Any], name: str, carried: Positions | None = None
    ) -> None:
        """`carried` is how far an earlier process has come, if this one knows."""
        self._questions = questions
        self.subscription = subscription
        self.name = name
        self._carried = carried
        self._queued: deque[Identity] = deque()
        """Of the notifications that wait for the application."""
        self._in_hand: Identity | None = None
        """Of the one that the application has and may not have handled yet."""
        self._handled: dict[str, Position] = {}
        self._kept: dict[str, Position] | None = None
        """What the broker is known to have on disk."""
        self._filter = ""
        self._begun = False
        self._confirmed = asyncio.Event()
        self._moved = asyncio.Event()
        self._error: TidingsError | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._task = asyncio.create_task(self._run(), name=f"tidings durable subscription {name}")

    # --- what the subscription tells ------------------------------------------------------------------

    def queued(self, identity: Identity) -> None:
        """A notification waits for the application."""
        self._queued.append(identity)

    def asked(self) -> None:
        """The application asks for the next notification: it has handled the one before."""
        identity, self._in_hand = self._in_hand, None
        if identity is not None:
            self._handled[identity.origin] = identity.position
        self._moved.set()

    def taken(self) -> None:
        """The application has taken the next notification."""
        self._in_hand = self._queued.popleft()

    def moved(self) -> None:
        """There may be progress."""
        self._moved.set()

    def settled(self) -> None:
        """The network knows the filter."""
        self._confirmed.set()
        self._moved.set()

    def changes(self) -> None:
        """The filter changes: it has to settle again."""
        self._confirmed.clear()

    def unsubscribed(self) -> None:
        """Nothing more comes; what is waiting may still be taken."""
        self._position()
        self._moved.set()

    def leave(self) -> None:
        """Somebody else takes the name over, and is to go on where this one has come to."""
        if self._kept is not None:
            self._questions.tell(Keep("", self.name, self._filter, self._position()))
        self.end()

    def end(self) -> None:
        """Nothing more is kept."""
        self._task.cancel()
        self._answer(TidingsError(f"durable subscription '{self.name}' has ended; subscribe again"))

    async def keep(self) -> None:
        """Count what the application has taken as handled, and wait until the broker has that on disk."""
        self.asked()
        if self._task.done():
            raise self._error or TidingsError(f"durable subscription '{self.name}' has ended; subscribe again")
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    # --- the task -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            recalled = await self._recalled()
            found = recalled.found or self._carried is not None
            if found:
                self._handled = further(dict(recalled.positions) if recalled.found else {}, self._carried or {})
                self._filter = recalled.filter
            elif recalled.missing:
                for origin, (epoch, _) in recalled.positions.items():
                    self.subscription.missed(Gap(origin, epoch, 1, None, (self.subscription.id,)))
            self._begun = True
            self.subscription.begin(dict(self._handled) if found else None)
            await self._confirmed.wait()
            await self._keep_once()
            while True:
                if self._confirmed.is_set():
                    self.subscription.is_kept()
                await self._moved.wait()
                await self._keep_or_complain()
        except TidingsError as error:
            self._error = error
            self.subscription.refused(error)
            self._answer(error)

    async def _recalled(self) -> Recalled:
        """What is kept, once every broker that may know of it was asked, or was waited for long enough."""
        loop = asyncio.get_running_loop()
        until = loop.time() + MISSING_SECONDS
        told: tuple[str, ...] = ()
        while True:
            recalled = await self._questions.ask(lambda id: Recall(id, self.name))
            assert isinstance(recalled, Recalled)
            if not recalled.missing or self._carried is not None or loop.time() >= until:
                return recalled
            if recalled.missing != told:
                told = recalled.missing
                log.warning(
                    "durable subscription '%s' may be kept at broker %s, which cannot be reached or has lost it; "
                    "waiting for it, %g seconds in all",
                    self.name,
                    ", ".join(f"'{broker}'" for broker in told),
                    MISSING_SECONDS,
                )
            await asyncio.sleep(RETRY)

    async def _keep_or_complain(self) -> None:
        try:
            await self._keep_once()
        except TidingsError as error:
            log.warning("the position of durable subscription '%s' is not kept: %s", self.name, error)
            self._answer(error)
            await asyncio.sleep(RETRY)
            self._moved.set()

    async def _keep_once(self) -> None:
        """Have the broker keep what is news."""
        self._moved.clear()
        waiting, self._waiting = self._waiting, []
        positions, filter = self._position(), str(self.subscription.filter)
        try:
            if positions != self._kept or filter != self._filter:
                answer = await self._questions.ask(lambda id: Keep(id, self.name, filter, positions))
                assert isinstance(answer, Kept)
                self._kept, self._filter = positions, filter
        finally:
            self._waiting = waiting + self._waiting
        for future in waiting:
            self._waiting.remove(future)
            if not future.done():
                future.set_result(None)

    @property
    def position(self) -> Positions | None:
        """How far the application has handled each origin; None: it has not begun."""
        return self._position() if self._begun else None

    def _position(self) -> dict[str, Position]:
        """How far the application has handled each origin."""
        if not self._queued and self._in_hand is None and (seen := self.subscription.position()) is not None:
            self._handled = seen
        return dict(self._handled)

    def _answer(self, error: TidingsError) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_exception(error)


class Durables:
    """The durable subscriptions of one client, by name."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._by_name: dict[str, Durable] = {}
        self.carried: dict[str, Positions] = {}
        """How far those have come that this process has not begun yet."""

    def positions(self) -> dict[str, Positions]:
        """How far the application has come with each, this process or an earlier one."""
        known = {name: one.position for name, one in self._by_name.items()}
        return self.carried | {name: position for name, position in known.items() if position is not None}

    def check(self, name: str) -> None:
        """Raise `TidingsError` if another part of the application uses the name."""
        known = self._by_name.get(name)
        if known is not None and not known.subscription.ended:
            raise TidingsError(
                f"durable subscription '{name}' is in use by this client; unsubscribe it first, or choose another name"
            )

    def add(self, subscription: Subscription[Any], name: str) -> None:
        """One begins. A name is used by one part of the application at a time."""
        known = self._by_name.get(name)
        if known is not None:
            known.leave()
        subscription.durable = self._by_name[name] = Durable(
            self._questions, subscription, name, self.positions().get(name)
        )

    async def forget(self, name: str) -> None:
        """One is to be kept no longer, here or anywhere."""
        known = self._by_name.pop(name, None)
        self.carried.pop(name, None)
        if known is not None:
            known.subscription.unsubscribe()
            known.end()
        await self._questions.ask(lambda id: Forget(id, name))

    def moved(self) -> None:
        """There may be progress."""
        for durable in self._by_name.values():
            durable.moved()

    async def keep(self) -> None:
        """Have the broker keep how far the application has come, if it does so in time."""
        keeping = [asyncio.create_task(durable.keep()) for durable in self._by_name.values()]
        if not keeping:
            return
        done, late = await asyncio.wait(keeping, timeout=KEEP_TIMEOUT)
        for task in late:
            task.cancel()
        problems = [task.exception() for task in done] + [TimeoutError("no answer in time")] * len(late)
        for problem in filter(None, problems):
            log.warning("how far a durable subscription has come was not kept: %s", problem)

    def end(self) -> None:
        """The client ends."""
        for durable in self._by_name.values():
            durable.end()
