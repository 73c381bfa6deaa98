"""A client of which there are copies elsewhere, as the broker sees it that hosts it, or has hosted it last."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from tidings.broker import Link, Timer
from tidings.model import Position
from tidings.wire import pack

from ._claims import Copies
from ._copies import Offered, Propagate, Wanted, Whose
from ._copy import Copy
from ._protocol import Hosting


@dataclass(slots=True, eq=False)
class Controlled:
    """A client that is hosted here, or was last."""

    whose: Whose
    link: Link | None
    state: Hosting = Hosting.HERE
    home: Copy | None = None
    """What listens while it is away."""
    told: set[str] = field(default_factory=set)
    """The brokers that have a copy of it."""
    current: set[str] = field(default_factory=set)
    """Those of them that have it as it is, under this epoch."""
    version: int = 0
    wanted: tuple[Wanted, ...] = ()
    offered: tuple[Offered, ...] = ()
    located: tuple[Wanted, ...] = ()
    """What it wants where it is."""
    since: int = 0
    """When it came."""
    warm: set[str] = field(default_factory=set)
    """The brokers whose copies were told to listen while it is connected."""
    virtual: set[str] = field(default_factory=set)
    """The brokers that were told of these."""
    acknowledged: dict[str, Position] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    """From where on its copies listen."""
    timeout: Timer | None = None
    waking: Timer | None = None
    """While it is away, runs until its copies are told to listen."""
    warming: Timer | None = None
    """Runs until more copies are to listen while it is connected."""
    attempts: int = 0
    """How often it was too early for that."""
    telling: bool = False
    expecting: bool = False
    """Whether its old broker may say yet which copies it leaves."""
    inherits: Copies | None = None
    """These, until it is known what the client subscribes to here."""

    @property
    def listened_for(self) -> bool:
        """Whether its copies are to listen."""
        return self.state is Hosting.AWAY and self.waking is None

    @property
    def digest(self) -> bytes:
        """Of what there are copies of, in whichever order it was announced."""
        wanted = tuple(sorted(self.wanted, key=lambda one: one.id))
        offered = tuple(sorted(self.offered, key=lambda one: one.id))
        return hashlib.blake2b(pack(Propagate(Whose("", "", 0), 0, wanted, offered)), digest_size=16).digest()
