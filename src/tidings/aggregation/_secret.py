"""The secret of the network, under which clients have pseudonyms.

Theory of operation
-------------------
Questions that tell clients apart see them by pseudonyms: digests under a secret, so that nobody who does not have it
can try out names. It must be the same at all brokers that answer one question, or a client that roams would be two.

A broker draws a secret when the first such question reaches it, and keeps it on disk. Neighbours compare theirs before
one asks the other such a question, on the same FIFO link. The older secret wins, so whatever the order in which brokers
come together, all have one in the end, and a broker that is new takes that of the network.

    ask       before the first ask about clients on a link: tell the secret
    heard     an older one: take it, tell it on, and measure anew. A younger one: tell the own

What was measured under another secret is dropped before anything that a neighbour measured under the new one can
arrive: no value mixes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidings.broker import Link, Log
from tidings.model import TidingsError
from tidings.wire import UNREADABLE, pack, unpacker

from .definitions import SECRET_BYTES, pseudonym

_TABLE, _KEY = "aggregation-secret", "secret"


class Drawn(NamedTuple):
    """A secret, and when it was drawn, in microseconds since 1970; the smaller one wins."""

    since: int
    value: bytes


_read: Callable[[bytes], Drawn] = unpacker(Drawn)


class Surroundings(Protocol):
    """What a secret needs of the broker."""

    @property
    def name(self) -> str:
        """The broker's name."""
        ...

    @property
    def epoch(self) -> int:
        """The broker's incarnation."""
        ...

    @property
    def log(self) -> Log | None:
        """The disk, if there is one."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...


class Secret:
    """The secret, as one broker knows it."""

    def __init__(self, around: Surroundings, draw: Callable[[], bytes] | None = None) -> None:
        """Without `draw`, it is worked out from the name and the incarnation of the broker: for simulated brokers, in
        which nothing is drawn."""
        self._around = around
        self._draw = draw
        self.tell: Callable[[Link, Drawn], None] = lambda link, drawn: None
        """Sends it to a neighbour."""
        self.changed: Callable[[], None] = lambda: None
        """Called when that of a neighbour holds from now on."""
        self._drawn: Drawn | None = None
        self._compared: dict[Link, None] = {}
        """The neighbours that have been told it."""
        self.known: Callable[[bytes], None] = lambda value: None
        """Called with the secret whenever there is another one."""

    def pseudonym(self, aggregate: str, client: str) -> str:
        """By which an aggregate knows a client."""
        return pseudonym(self._own().value, aggregate, client)

    def ask(self, link: Link) -> None:
        """Something about clients is about to be asked on a link."""
        if link not in self._compared:
            self._compared[link] = None
            self.tell(link, self._own())

    def heard(self, link: Link, said: Drawn) -> None:
        """A neighbour has told its secret; `TidingsError` if that is none."""
        if said.since < 0 or len(said.value) != SECRET_BYTES:
            raise TidingsError(f"a secret of {len(said.value):,} bytes; it has {SECRET_BYTES}")
        own = self._own()
        if said < own:
            self._hold(said)
            for other in self._compared:
                if other is not link:
                    self.tell(other, said)
            self._compared[link] = None
            self.changed()
        elif said > own:
            self._compared[link] = None
            self.tell(link, own)

    def forget(self, link: Link | None = None) -> None:
        """A neighbour has started anew; None: all have."""
        if link is None:
            self._compared.clear()
        else:
            self._compared.pop(link, None)

    def _own(self) -> Drawn:
        if self._drawn is None:
            self._hold(self._kept() or Drawn(self._around.now(), self._fresh()))
        assert self._drawn is not None
        return self._drawn

    def _kept(self) -> Drawn | None:
        data = self._around.log.items(_TABLE).get(_KEY) if self._around.log is not None else None
        try:
            return _read(data) if data is not None else None
        except UNREADABLE:
            return None  # of another version, or damaged: neighbours may know it

    def _fresh(self) -> bytes:
        if self._draw is not None:
            return self._draw()
        return hashlib.blake2b(f"{self._around.name} {self._around.epoch}".encode(), digest_size=SECRET_BYTES).digest()

    def _hold(self, drawn: Drawn) -> None:
        self._drawn = drawn
        self.known(drawn.value)
        if self._around.log is not None:
            try:
                self._around.log.put(_TABLE, _KEY, pack(drawn))
            except TidingsError:
                return  # a full disk: after a restart, neighbours tell it
