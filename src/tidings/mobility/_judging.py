"""Judging: what the host of a client says to a claim of another broker.

The first row that fits:

| the claim                                                      | answer                               |
|----------------------------------------------------------------|--------------------------------------|
| is of another identity                                         | held, and said in the log            |
| shows the epoch of this host, or a newer one                   | ceded                                |
| is forced                                                      | ceded                                |
| is of a host with an older epoch                               | held                                 |
| is of a newer host, while the claim of this one is open        | ceded                                |
| is of a newer host, and fencing                                | ceded                                |
| is any other, and the client is away                           | ceded                                |
| is any other                                                   | held if the client answers a ping    |

A broker that does not host the client says where it has gone, if it has just let it go: the question may have passed
the new host before the client was there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tidings.broker import Context, Link

from ._claims import Claim, Held
from ._departures import Departures
from ._hosted import Hosted
from ._questions import Questions

PING_TIME = 1_000_000
"""Microseconds for which a host waits until the connection of its client answers a ping."""
PING_LOOK = 50_000
"""Microseconds between two looks whether it has."""


class Bench(Protocol):
    """The broker that judges."""

    ping: Callable[[Link], Callable[[], bool | None]]

    @property
    def context(self) -> Context: ...

    def attached(self, name: str) -> Hosted | None:
        """A client that is attached here."""
        ...


class Judging:
    """Judges claims of other brokers."""

    def __init__(self, bench: Bench, questions: Questions, departures: Departures, warn: Callable[[str], None]) -> None:
        self._bench = bench
        self._questions = questions
        self._departures = departures
        self._warn = warn

    def judge(self, claim: Claim, judged: Callable[[Held | None], None]) -> None:
        """Say whether a client is held, now or after a ping; None: it is not."""
        hosted, here = self._bench.attached(claim.name), self._bench.context.name
        if hosted is None or hosted.ended:
            judged(self._absent(claim))
            return
        mine = Held(claim.name, here, hosted.epoch, hosted.at)
        if hosted.owner != claim.owner:
            self._warn(
                f"broker '{claim.broker}' claims client '{claim.name}' for '{claim.owner}', but here it belongs to "
                f"'{hosted.owner}'; compare what `tidings config names FILE` prints for both brokers"
            )
            judged(msgspec.structs.replace(mine, stranger=True))
        elif claim.before >= hosted.epoch or claim.forced:
            judged(None)
        elif claim.epoch and (claim.epoch, claim.broker) < (hosted.epoch, here):
            judged(mine)
        elif claim.fencing or hosted.away or (claim.epoch and not hosted.sure):
            judged(None)
        else:
            self.probe(hosted, lambda alive: judged(mine if alive else None))

    def _absent(self, claim: Claim) -> Held | None:
        """It is not hosted here; but somebody may ask for the same name at the same time, or it has just gone."""
        competes, winner = self._questions.compete(claim)
        if competes or claim.epoch:
            return winner
        return self._departures.known(claim, self._bench.context.now())

    def probe(self, hosted: Hosted, judged: Callable[[bool], None]) -> None:
        """Find out whether a client that is attached is there."""
        context = self._bench.context
        answered = self._bench.ping(hosted.link)
        until = context.now() + PING_TIME

        def look() -> None:
            here = self._bench.attached(hosted.link.name) is hosted and not hosted.away
            alive = answered() if here else False
            if alive is None and context.now() < until:
                context.call_later(PING_LOOK, look)
            else:
                judged(bool(alive))

        context.call_later(0, look)
