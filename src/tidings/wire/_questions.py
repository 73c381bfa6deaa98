"""What a client asks its border broker, and what that answers.

Each question has an id of the client's choice. It is answered once: by the answer that belongs to it, or by `Refused`,
with the same id. Asking twice does no harm: what a lost session has left open is asked again in the next.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.model import EVERYTHING, NOWHERE, Matches, Position

from ._envelope import Envelope
from ._messages import Message, Positions

# --- durable subscriptions ----------------------------------------------------------------------------


class Recall(Message, frozen=True):
    """A client asks what is kept under a name of its own. Answered by `Recalled`."""

    id: str
    name: str


class Recalled(Message, frozen=True):
    """What is kept: the filter as text, and the positions after which the subscription goes on."""

    id: str
    found: bool
    filter: str = ""
    positions: dict[str, Position] = msgspec.field(default_factory=dict)
    """If nothing is found and some are missing: how far each origin has come."""
    missing: tuple[str, ...] = ()
    """Brokers that cannot be reached and may keep something newer; ask again."""


class Keep(Message, frozen=True):
    """The application has handled everything up to these positions: keep them, and the filter, under a name.

    Answered by `Kept`.
    """

    id: str
    name: str
    filter: str
    positions: Positions


class Forget(Message, frozen=True):
    """Nobody will come back for what is kept under this name. Answered by `Kept`."""

    id: str
    name: str


class Kept(Message, frozen=True):
    """What was to be kept, or to be forgotten, is so on disk, synced."""

    id: str


# --- the log of a broker ------------------------------------------------------------------------------


class Measure(Message, frozen=True):
    """A client asks how far a broker's log reaches. Answered by `Measured`."""

    id: str
    after: Position = NOWHERE
    """A position in the log: an epoch, and a number in it."""
    rows: int = 0
    """With this: how far does one get from there with at most so many publications? 0: any number."""
    size: int = 0
    """The same for bytes on disk."""


class Measured(Message, frozen=True):
    """What the log holds, on disk and synced."""

    id: str
    origin: str
    """The broker whose log it is, and where everything in it came in."""
    forgotten: Position
    """Everything up to this position has been forgotten."""
    reached: Position
    """How far one gets with what was asked for; from there one has to ask again."""
    end: Position
    """The last publication that is held."""


class Read(Message, frozen=True):
    """A client asks for what a broker's log holds between two positions. Answered by `Page`."""

    id: str
    after: Position
    upto: Position
    filter: Matches


class Page(Message, frozen=True):
    """As much of it as one answer may hold."""

    id: str
    envelopes: tuple[Envelope, ...]
    reached: Position
    """Everything that passes up to this position is in this page or those before; the rest must be asked for."""
    lost: tuple[tuple[int, int, int], ...] = ()
    """Ranges (epoch, first, last) that were in the log and cannot be read any more."""


# --- advertisements, for those who look -----------------------------------------------------------------


class Browse(Message, frozen=True):
    """A client asks what is advertised. Answered by `Offers`."""

    id: str
    filter: Matches = EVERYTHING
    """Only what may bring something that passes this."""


class Offers(Message, frozen=True):
    """What is advertised anywhere, as far as the client may subscribe to it; by whom is nobody's business."""

    id: str
    filters: tuple[Matches, ...]
    left_out: int = 0
    """How many more there are that do not fit, or cannot be shown."""


# --- administration -----------------------------------------------------------------------------------


class StatusRequest(Message, frozen=True):
    """An administrator asks a broker about itself. Answered by `StatusReply`."""

    id: str


class StatusReply(Message, frozen=True):
    """What the broker says about itself: JSON, see `tidings.wire.Status`."""

    id: str
    body: bytes


class MobilityRequest(Message, frozen=True):
    """An administrator asks about clients that roam, or changes something. Answered by `MobilityReply`."""

    id: str
    action: str = "look"
    """"look", "import", "forget"; "evacuate", and "evacuation" to ask how far that is."""
    client: str = ""
    """Tell of this client only; "": of all."""
    old: str = ""
    """Evacuate this broker, or forget its edges,"""
    new: str = ""
    """or only the one between the two."""
    file: bytes = b""
    """Import this graph, which is JSON,"""
    place: str = ""
    """from a file of this name."""


class MobilityReply(Message, frozen=True):
    """The answer: JSON, a `tidings.wire.MobilityStatus` once all brokers were asked, or an `EvacuationStatus`."""

    id: str
    body: bytes


Question: TypeAlias = MobilityRequest | StatusRequest | Recall | Keep | Forget | Measure | Read | Browse
Answer: TypeAlias = MobilityReply | StatusReply | Recalled | Kept | Measured | Page | Offers
