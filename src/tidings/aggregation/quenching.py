"""What a client that publishes nothing in vain, and its broker, say to each other; and what the client knows.

`_quenching` has the theory of operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from tidings.matching import Matcher, make_index
from tidings.model import EVERYTHING, Filter, FilterError, Notification, TidingsError
from tidings.wire import UNREADABLE, brief, encode_body, pack, unpacker

FEATURE = "quench"
"""The name of the feature in messages."""
LEASE = 5.0
"""Seconds for which a client may leave out what nobody wants, from when it asked."""
RENEWAL = LEASE / 3
"""Seconds after which a client that goes on asks again."""


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    pass


# --- what a client says -------------------------------------------------------------------------------


class Ask(_Message, frozen=True):
    """May I leave out what nobody wants? `Grant` or `Denied` follows."""

    number: int


class Heard(_Message, frozen=True):
    """I know what you told me by this number, and everything before it."""

    serial: int


class End(_Message, frozen=True):
    """I publish everything again."""


# --- what a broker says -------------------------------------------------------------------------------


class Wanted(_Message, frozen=True):
    """This is wanted, too, and that no longer. The first one begins anew. `Heard` follows."""

    serial: int
    more: list[str]
    """Filters."""
    less: list[str]


class Grant(_Message, frozen=True):
    """You may, for `LEASE` from when you asked."""

    number: int
    quiet: bool
    """Whether you may; else nobody can in this network, as it is now."""
    stores: bool
    """Whether the broker has a store, for all that is not of quality `fire`."""


class Denied(_Message, frozen=True):
    """You may not."""

    error: str
    reason: str


AnyMessage: TypeAlias = Ask | Heard | End | Wanted | Grant | Denied
_read: Callable[[bytes], AnyMessage] = unpacker(AnyMessage)  # type: ignore[arg-type]


def encode(message: AnyMessage) -> bytes:
    """A message as bytes."""
    return pack(message)


def decode(body: bytes) -> AnyMessage:
    """The message in these bytes, or `TidingsError`."""
    try:
        return _read(body)
    except UNREADABLE as error:
        raise TidingsError(f"not a message about what is wanted: {brief(error)}") from None


class Interest:
    """What a client knows of what is wanted. Times are seconds of any clock that never goes back."""

    def __init__(self, send: Callable[[AnyMessage], None]) -> None:
        self._send = send
        self._number = 0
        self._asked: dict[int, float] = {}
        """When the client asked, by number; what was asked before the connection was lost counts no longer."""
        self._until = self._renew_at = float("-inf")
        self._texts: set[str] = set()
        self._forget()

    def hears(self, content: Notification | Mapping[str, object], now: float) -> bool:
        """Whether somebody may want this; yes, if it is not known that nobody does."""
        if now >= self._renew_at:
            self.ask(now)
        if now >= self._until:
            return True
        body = encode_body(content)  # checks it, too
        found = self._match_body(body) if self._match_body is not None else None
        if found is None:
            found = self._index.match(content if isinstance(content, Notification) else Notification(content))
        return bool(found)

    def ask(self, now: float) -> None:
        """Ask to leave something out."""
        self._number += 1
        self._asked[self._number] = now
        self._renew_at = now + RENEWAL
        self._send(Ask(self._number))

    def told(self, message: Wanted) -> None:
        """The broker says what is wanted."""
        if message.serial == 1:
            self._forget()
        for text in message.more:
            if text not in self._texts:
                self._texts.add(text)
                self._index.add(_filter(text), text)
        for text in message.less:
            if text in self._texts:
                self._texts.remove(text)
                self._index.remove(text)
        self._send(Heard(message.serial))

    def granted(self, message: Grant) -> None:
        """The broker lets this client leave something out."""
        asked = self._asked.get(message.number)
        for number in [number for number in self._asked if number <= message.number]:
            del self._asked[number]
        if asked is not None and message.quiet:
            self._until = max(self._until, asked + LEASE)

    def end(self) -> None:
        """Leave nothing out any more, and say so."""
        if self._number:
            self.lost()
            self._send(End())

    def lost(self) -> None:
        """The connection is lost: what the broker says now is not heard."""
        self._asked.clear()
        self._until = self._renew_at = float("-inf")

    def renewed(self) -> None:
        """The session is new, and its broker knows nothing of this client."""
        self.lost()
        self._forget()

    def _forget(self) -> None:
        self._texts.clear()
        self._index: Matcher[str] = make_index()
        self._match_body = self._index.match_body


def _filter(text: str) -> Filter:
    try:
        return Filter.parse(text)
    except FilterError:
        return EVERYTHING  # of a broker that knows more operators
