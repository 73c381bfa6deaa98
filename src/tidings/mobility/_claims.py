"""What brokers say to one another about who hosts a client."""

from __future__ import annotations

import msgspec

from tidings.wire import unpacker

MAX_CLAIMS = 500
"""The most claims in one message."""
MAX_UNREACHED = 64
"""The most brokers that a ruling names as out of reach; with more of them, nothing that is ceded counts as sure."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A broker hosts a client, or is about to, and tells or asks whoever may host it, too."""

    name: str
    owner: str
    """The identity of the client: a name means nothing without it."""
    broker: str
    """The broker that claims."""
    at: int
    """When the client came to it, in microseconds since 1970 UTC."""
    epoch: int = 0
    """Under which epoch it hosts the client; 0: it asks before it lets the client in."""
    before: int = 0
    """The epoch that the client has shown; 0: none."""
    forced: bool = False
    """Whether the client is to be taken over from whoever has it."""
    fencing: bool = False
    """Whether the two brokers were cut off from each other when the client came: the newer epoch wins."""
    neighbours: tuple[str, ...] = ()
    """Where this broker wants copies of the client: whoever has one need not delete it."""
    warm: tuple[str, ...] = ()
    """Which of these are to go on listening, if they do."""
    overlap: bool = False
    """Whether the client still takes what the broker sends that it leaves."""


class Copies(msgspec.Struct, frozen=True, array_like=True):
    """Where copies of a client are that its old broker has left to the new one."""

    brokers: tuple[str, ...]
    version: int
    digest: bytes
    """Of what the client subscribes to and advertises: if it does the same at its new broker, they stay as they are."""


class Claims(msgspec.Struct, frozen=True, array_like=True, tag="claims"):
    """Several at once."""

    claims: tuple[Claim, ...]
    number: int = 0
    """Of a message to one broker: answers repeat it."""


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A broker does not give a client away."""

    name: str
    broker: str
    epoch: int
    since: int
    """When the client came to it, in microseconds since 1970 UTC."""
    stranger: bool = False
    """Whether it belongs to another identity there."""


class Ruling(msgspec.Struct, frozen=True, array_like=True, tag="ruling"):
    """What some brokers say to claims."""

    held: tuple[Held, ...] = ()
    ceded: dict[str, int] = {}
    """Clients that they hosted and let go, with the epochs under which they had them."""
    number: int = 0
    unsure: tuple[str, ...] = ()
    """Those of `ceded` whose claim was still open: the new host has to tell everybody."""
    unreached: tuple[str, ...] = ()
    """Brokers that the old host cannot reach, and that may have been told nothing."""
    away: dict[str, int] = {}
    """For how many microseconds those of `ceded` had been away."""
    edges: dict[str, tuple[bool, int]] = {}
    """Of those: whether their old broker knows the edge that they have used, and when each made its last new one."""
    copies: dict[str, Copies] = {}
    """Of those: the copies that the new broker may go on with."""


read_claims = unpacker(Claims)
read_ruling = unpacker(Ruling)
_read = msgspec.msgpack.Decoder(Claims | Ruling).decode


def read(body: bytes) -> Claims | Ruling:
    """What one broker says to another."""
    said: Claims | Ruling = _read(body)
    return said


def combined(rulings: list[Ruling]) -> Ruling:
    """One ruling for several: of a client, what the newest host says."""
    held: dict[str, Held] = {}
    ceded: dict[str, int] = {}
    for ruling in rulings:
        for one in ruling.held:
            if one.name not in held or (one.epoch, one.broker) > (held[one.name].epoch, held[one.name].broker):
                held[one.name] = one
        for name, epoch in ruling.ceded.items():
            ceded[name] = max(epoch, ceded.get(name, 0))
    return Ruling(
        tuple(held[name] for name in sorted(held)),
        dict(sorted(ceded.items())),
        unsure=tuple(sorted({name for ruling in rulings for name in ruling.unsure})),
        away={name: away for ruling in rulings for name, away in ruling.away.items()},
        edges={name: edge for ruling in rulings for name, edge in ruling.edges.items()},
        copies={name: copies for ruling in rulings for name, copies in ruling.copies.items()},
    )
