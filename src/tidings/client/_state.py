"""The states of a client, and every change from one to another.

    UNOPENED ──open──▶ OPENING ──opened──▶ OPEN ──close──▶ CLOSING ──closed──▶ CLOSED
        ▲                 │                  │                 ▲
        └────refused──────┘                  └──fail──▶ FAILED ┘ close

A client is opened by `async with`, or by `await`. An attempt that fails leaves it unopened, and may be repeated. An
open client that no broker takes any more has failed, for good: every call raises the reason. Closing waits for what is
under way, so a closing client still works. A client that was never opened is closed at once. A closed one stays closed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from ._address import ClientNotOpen


class State(enum.Enum):
    """What a client is good for."""

    UNOPENED = "unopened"
    OPENING = "opening"
    OPEN = "open"
    FAILED = "failed"
    CLOSING = "closing"
    CLOSED = "closed"


class Trigger(enum.Enum):
    """What happens to a client."""

    OPEN = "open"
    """The application wants to use it."""
    OPENED = "opened"
    """A broker has let it in."""
    REFUSED = "refused"
    """No broker has, or the application has given up waiting."""
    FAIL = "fail"
    """The connection is lost, and no broker will take it back."""
    CLOSE = "close"
    """The application has done with it."""
    CLOSED = "closed"
    """Nothing of it is left."""


TRANSITIONS: dict[tuple[State, Trigger], State] = {
    (State.UNOPENED, Trigger.OPEN): State.OPENING,
    (State.UNOPENED, Trigger.CLOSE): State.CLOSED,
    (State.OPENING, Trigger.OPENED): State.OPEN,
    (State.OPENING, Trigger.REFUSED): State.UNOPENED,
    (State.OPENING, Trigger.CLOSE): State.CLOSED,
    (State.OPEN, Trigger.OPEN): State.OPEN,
    (State.OPEN, Trigger.FAIL): State.FAILED,
    (State.OPEN, Trigger.CLOSE): State.CLOSING,
    (State.FAILED, Trigger.CLOSE): State.CLOSING,
    (State.CLOSING, Trigger.FAIL): State.CLOSING,
    (State.CLOSING, Trigger.CLOSE): State.CLOSING,
    (State.CLOSING, Trigger.CLOSED): State.CLOSED,
    (State.CLOSED, Trigger.CLOSE): State.CLOSED,
    (State.CLOSED, Trigger.REFUSED): State.CLOSED,
}
"""What becomes of a client; a step that is not here cannot be taken."""

WORKING = frozenset({State.OPEN, State.CLOSING})
"""The states in which a client does what it is asked for."""

_REMEDIES = {
    State.UNOPENED: "is not open yet; use it inside `async with client:`, or open it with `await client`",
    State.OPENING: "is not open yet: it waits for its broker; wait until `await client` has returned",
    State.OPEN: "is open already",
    State.FAILED: "has lost its broker for good; connect a new one with tidings.connect(...)",
    State.CLOSING: "is being closed; connect a new one with tidings.connect(...)",
    State.CLOSED: "is closed; connect a new one with tidings.connect(...)",
}
"""What to do with a client that is in the wrong state."""


class Lifecycle:
    """The state of one client."""

    def __init__(self, name: Callable[[], str]) -> None:
        self._name = name
        self.state = State.UNOPENED

    def take(self, step: Trigger) -> State:
        """Change the state, and return the one before; `ClientNotOpen` if this state has no such step."""
        before = self.state
        after = TRANSITIONS.get((before, step))
        if after is None:
            raise self.error()
        self.state = after
        return before

    def check(self) -> None:
        """Raise `ClientNotOpen` unless the client does what it is asked for."""
        if self.state not in WORKING:
            raise self.error()

    def error(self) -> ClientNotOpen:
        """What is wrong with the state of now, and what to do."""
        name = self._name()
        return ClientNotOpen(f"the client{f' {name!r}' if name else ''} {_REMEDIES[self.state]}")
