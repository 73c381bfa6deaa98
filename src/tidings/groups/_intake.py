"""The intake of a group: the one subscription that its deciding point has, by a client inside the broker.

The broker sends to an inner client in the middle of a turn. What it sends waits until the turn has ended: a group that
heard it at once could change what the broker is still going through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from tidings.broker import InnerClient, Timer
from tidings.model import Filter, Position
from tidings.wire import AnyMessage, Frame, Past, Subscribe

SUBSCRIPTION = "group"
"""The id of the one subscription of a group."""


class Host(Protocol):
    """The broker, as far as an intake needs it."""

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        ...

    def subscribe(self, key: str, receive: Callable[[Frame], None], principal: str) -> InnerClient:
        """Open a client inside this broker that stands for a member."""
        ...


class Intake:
    """At most one subscription at a time."""

    def __init__(self, host: Host, key: str, hear: Callable[[AnyMessage], None], heard: Callable[[], None]) -> None:
        """`hear` takes what comes; `heard` is called when nothing more waits."""
        self._host = host
        self._key = key
        self._hear = hear
        self._heard = heard
        self._inner: InnerClient | None = None
        self._inbox: list[AnyMessage] = []
        self.principal = ""
        """Whom the subscription stands for."""

    @property
    def is_open(self) -> bool:
        """Whether there is a subscription."""
        return self._inner is not None

    def open(self, principal: str, filter: str, after: Mapping[str, Position], past: Past | None = None) -> None:
        """Subscribe for a member, behind these positions; without any, to what is published, and to a past."""
        self.close()
        self.principal = principal
        self._inner = self._host.subscribe(self._key, self._receive, principal)
        subscribe = Subscribe(SUBSCRIPTION, Filter.parse(filter), after=dict(after), early=bool(after), past=past)
        self._inner.send(Frame(subscribe))

    def send(self, message: AnyMessage) -> None:
        """Say something as the client of the group."""
        assert self._inner is not None
        self._inner.send(Frame(message))

    def close(self) -> None:
        """Want nothing more; what waits to be heard is dropped."""
        if (inner := self._inner) is not None:
            self._inner = None
            self._inbox.clear()
            inner.close()

    def clear(self) -> None:
        """Drop what waits to be heard."""
        self._inbox.clear()

    def _receive(self, frame: Frame) -> None:
        if self._inner is not None:
            if not self._inbox:
                self._host.call_later(0, self._turn)
            self._inbox.append(frame.message)

    def _turn(self) -> None:
        inbox, self._inbox = self._inbox, []
        for message in inbox:
            if self._inner is not None:
                self._hear(message)
        self._heard()
