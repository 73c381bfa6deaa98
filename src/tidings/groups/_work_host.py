"""What a broker gives to the acknowledged groups that it decides for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tidings.broker import InnerClient, Timer
from tidings.model import Notification
from tidings.wire import Envelope, Frame

from ._handled import HandledFacts
from ._work_messages import WorkSaid


class Host(Protocol):
    """The broker of a point, as far as an acknowledged group needs it."""

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

    def say(self, broker: str, said: WorkSaid) -> None:
        """Tell a broker something; this one hears it in the same turn."""
        ...

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open a client inside this broker that stands for a member."""
        ...

    def sees_since(self, principal: str, scopes: tuple[str, ...]) -> int | None:
        """The oldest version by which, and by all later ones, a client is a member of these scopes; None: it is not."""
        ...

    def judges(self, envelope: Envelope) -> bool:
        """Whether the version under which a notification was published is known here."""
        ...

    def saw(self, envelope: Envelope, client: str) -> tuple[str, ...]:
        """The scopes that a client was a plain member of when a notification was published."""
        ...

    def handled(self, key: str) -> HandledFacts:
        """What is known here to be handled."""
        ...

    def bury(self, letter: Notification, buried: Callable[[bool], None]) -> None:
        """Publish a dead letter; `buried` is called when it is published, or with False if it cannot be."""
        ...
