"""The broker of a deciding point, as far as a group needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidings.broker import InnerClient, Timer
from tidings.model import Position
from tidings.wire import Envelope, Frame

from ._messages import Said


class Host(Protocol):
    """See above."""

    @property
    def broker(self) -> str:
        """Its name."""
        ...

    @property
    def epoch(self) -> int:
        """Its incarnation."""
        ...

    def now(self) -> int:
        """Microseconds since 1970 UTC."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        ...

    def say(self, broker: str, said: Said) -> None:
        """Tell a broker something; this one hears it in the same turn."""
        ...

    def hand(self, key: str, client: str, id: str, envelope: Envelope) -> bool:
        """Give a notification to a member at this broker; False: it is not there any more."""
        ...

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open a client inside this broker that stands for a member."""
        ...

    def sees(self, principal: str) -> tuple[str, ...]:
        """The scopes that a client is a member of, by the newest version."""
        ...

    def always_sees(self, principal: str, scopes: tuple[str, ...]) -> bool:
        """Whether a client is a member of these scopes by every version that something may be judged by."""
        ...

    def judges(self, envelope: Envelope) -> bool:
        """Whether the version under which a notification was published is known here."""
        ...

    def saw(self, envelope: Envelope, client: str) -> tuple[str, ...]:
        """The scopes that a client was a plain member of when a notification was published."""
        ...

    def reaches(self, broker: str) -> bool:
        """Whether the tree leads to a broker."""
        ...

    def origins(self) -> Mapping[str, Position]:
        """How far each origin is at least; what follows that is still to come."""
        ...
