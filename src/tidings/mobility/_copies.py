"""What brokers say to one another about copies of clients; and what a copy is a copy of."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.model import Duplicates, Matches, Position
from tidings.wire import Envelope, unpacker

MAX_STANDING = 1_000
"""The most copies in one `Standing` or `Announced`."""


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A subscription of a client."""

    id: str
    filter: Matches
    receive_own: bool = True
    duplicates: Duplicates = Duplicates.DEFAULT
    meta: dict[str, str] = {}


class Offered(msgspec.Struct, frozen=True, array_like=True):
    """An advertisement of a client."""

    id: str
    filter: Matches


class Whose(msgspec.Struct, frozen=True, array_like=True):
    """A client, under one epoch. Everything that brokers say about copies is about one."""

    name: str
    owner: str
    """Its identity: a name means nothing without it."""
    epoch: int
    """Under which the sender hosts it, or has hosted it last."""


class Propagate(msgspec.Struct, frozen=True, array_like=True, tag="propagate"):
    """Keep a copy of these subscriptions and advertisements."""

    whose: Whose
    version: int
    """Grows with each change of them."""
    wanted: tuple[Wanted, ...]
    offered: tuple[Offered, ...] = ()
    located: tuple[Wanted, ...] = ()
    """Those that speak of `myloc`: to be listened to at once, if the receiver has a place."""


class Activate(msgspec.Struct, frozen=True, array_like=True, tag="activate"):
    """The client is away: let its copy listen, from these positions on."""

    whose: Whose
    version: int
    positions: dict[str, Position]


class Warm(msgspec.Struct, frozen=True, array_like=True, tag="warm"):
    """The client is connected: let its copy listen all the same, from these positions on, and keep what came lately."""

    whose: Whose
    version: int
    positions: dict[str, Position]


class Missing(msgspec.Struct, frozen=True, array_like=True, tag="missing"):
    """There is no copy of this version here: say everything again."""

    whose: Whose


class Deactivate(msgspec.Struct, frozen=True, array_like=True, tag="deactivate"):
    """The client is back: let its copy rest."""

    whose: Whose


class Delete(msgspec.Struct, frozen=True, array_like=True, tag="delete"):
    """Delete the copy."""

    whose: Whose
    ended: bool = False
    """Whether the client has ended its subscriptions; else it has moved, or was away for too long."""


class Standing(msgspec.Struct, frozen=True, array_like=True, tag="standing"):
    """After a new tree: these copies are wanted, each with its version, and whether it listens."""

    copies: tuple[tuple[Whose, int, bool], ...]
    warm: tuple[int, ...] = ()
    """Which of them listen although their client is connected, by their places in `copies`."""


class Announced(msgspec.Struct, frozen=True, array_like=True, tag="announced"):
    """After a restart: these copies of the receiver's clients are here, with version and whether they listen."""

    copies: tuple[tuple[Whose, int, bool], ...]


class Sought(msgspec.Struct, frozen=True, array_like=True):
    """A subscription of a client, and what it is owed."""

    wanted: Wanted
    owed: dict[str, Position]
    """By origin, the position behind which."""


class Seek(msgspec.Struct, frozen=True, array_like=True, tag="seek"):
    """The client has come to `asker`, which has no copy: give what it is owed to that broker."""

    whose: Whose
    asker: str
    number: int
    """The answer repeats it."""
    sought: tuple[Sought, ...]


class Lent(msgspec.Struct, frozen=True, array_like=True, tag="lent"):
    """All that some origins owe, in the order in which it came."""

    number: int
    held: tuple[tuple[Envelope, tuple[str, ...]], ...]
    """Each with the subscriptions that want it."""
    paid: dict[str, tuple[str, ...]]
    """By subscription, these origins."""


Said: TypeAlias = Propagate | Activate | Warm | Missing | Deactivate | Delete | Standing | Announced | Seek | Lent


class Saying(msgspec.Struct, frozen=True, array_like=True):
    """One message between brokers."""

    said: Said


read_saying = unpacker(Saying)
read_record = unpacker(Propagate)


def portions(several: list[tuple[Whose, int, bool]]) -> list[tuple[tuple[Whose, int, bool], ...]]:
    """As many as go into one message each."""
    return [tuple(several[at : at + MAX_STANDING]) for at in range(0, len(several), MAX_STANDING)]
