"""A copy of a client at a broker: its record and, while it listens, a client inside the broker; see `_protocol`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.broker import InnerClient, Timer
from tidings.model import Position
from tidings.wire import Deliver, Envelope, Frame, Gap, Refused

from ._buffer import Holder, SharedBuffer
from ._copies import Whose
from ._protocol import Copied

SUFFIX = "/~copy"
"""Behind the name of the client, the name of the client inside the broker that stands for it."""
ANCHOR = "/~anchor"
"""Behind the name of the client, the name of the client inside the broker that makes it carry the client's scopes."""


class Copy(Holder):
    """What one broker holds of one client."""

    def __init__(self, whose: Whose, controller: str, buffer: SharedBuffer, refused: Callable[[], None]) -> None:
        """`refused` is called if the broker does not take what the copy subscribes to."""
        super().__init__(whose.owner)
        self.whose = whose
        self.controller = controller
        self.buffer = buffer
        """Where what it gets is held."""
        self._refused = refused
        self.warm = False
        """Whether it listens although its client is connected, and holds only what came lately."""
        self.version = 0
        self.record = b""
        """What the client subscribes to and advertises, encoded."""
        self.subscriptions = 0
        """How many the record has."""
        self.inner: InnerClient | None = None
        self.anchor: InnerClient | None = None
        """Stands for the client, and wants nothing, as long as the copy is here: so its broker carries its scopes."""
        self.since: dict[str, Position] = {}
        """From where on it has everything of each origin that owes it nothing; others may lack something."""
        self.later: dict[str, dict[str, Position]] = {}
        """The same by subscription, where some of them begin later: origins owed something to one and not to another
        when it adopted them."""
        self.forms_missed = False
        """Whether some forms of what follows `since` may have passed before it listened: mappings make several."""
        self.doubted: frozenset[str] = frozenset()
        """The origins of which more may have passed before it listened than `since` says."""
        self.torn: dict[str, Position] = {}
        """By origin, the position before the first gap that it was told."""
        self.expiry: Timer | None = None
        self.handed = False
        """Whether another broker has fetched some of what it held."""
        self.restored = False
        """Whether it comes from the disk, and its controller has not spoken of it since."""

    @property
    def state(self) -> Copied:
        """In which state of the table of copies it is."""
        if self.inner is None:
            return Copied.PASSIVE
        return Copied.WARM if self.warm else Copied.ACTIVE

    def begins(self, id: str) -> Mapping[str, Position]:
        """From where on it has everything for one subscription."""
        return self.later.get(id, self.since)

    def receive(self, frame: Frame) -> None:
        """The broker sends something to whoever listens for the client."""
        message = frame.message
        if self.inner is None:
            return  # it is being closed
        if type(message) is Deliver:
            self.buffer.add(message.envelope, self, message.subscriptions)
        elif isinstance(message, Gap):
            self._note_gap(message)
        elif isinstance(message, Refused):
            self.inner.forget()  # the rest would be refused as well, or be of no use
            self._refused()

    def _note_gap(self, gap: Gap) -> None:
        if self.warm and gap.last is not None:  # its client will be beyond that, if it comes much later
            self.overwrite(gap.origin, Position(gap.epoch, gap.last))
        else:
            before = Position(gap.epoch, gap.first - 1)
            self.torn[gap.origin] = min(before, self.torn.get(gap.origin, before))

    def close(self) -> None:
        """Listen no longer, and release what is held. In a turn."""
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
        if (inner := self.inner) is not None:
            self.inner = None
            inner.close()
        self.buffer.release(self)
        self.overwritten.clear()
        self.torn.clear()
        self.later.clear()

    def weigh_anchor(self) -> None:
        """Its broker need not carry the scopes of its client any more. In a turn."""
        if (anchor := self.anchor) is not None:
            self.anchor = None
            anchor.close()


def before(envelope: Envelope) -> Position:
    """The position before a notification."""
    epoch, seq = envelope.identity.position
    return Position(epoch, seq - 1)
