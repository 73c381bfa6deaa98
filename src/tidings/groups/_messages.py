"""What brokers say to one another about groups."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.broker import Term
from tidings.model import ROOT_SCOPE, EventKey, Position
from tidings.wire import Envelope, Gap, Work, unpacker

Numbers: TypeAlias = tuple[int, ...]


class Terms(msgspec.Struct, frozen=True, array_like=True):
    """What all members of a group have in common. Those that come later must want the same."""

    filter: str
    sees: tuple[str, ...] = ()
    """The scopes that each member is a member of, the root scope included."""
    work: Work | None = None
    """How an acknowledged group works; None: the group is a plain one."""


def conflict(asked: Terms, known: Terms) -> str:
    """Why a member cannot be among the others."""
    if asked.filter != known.filter:
        return (
            f"the filter of the group is {known.filter!r}, and this is {asked.filter!r}; subscribe with the filter of "
            "the group, or choose another group"
        )
    if asked.work != known.work:
        return (
            f"the group works with {_how(known.work)}, and this is {_how(asked.work)}; subscribe as the other members "
            "do, or choose another group"
        )
    return (
        f"its members are in the scopes {_listed(known.sees)}, and this client is in {_listed(asked.sees)}; all "
        "members of a group must see the same"
    )


def _how(work: Work | None) -> str:
    if work is None:
        return "no acknowledgements"
    by = f", by='{work.by}'" if work.by else ""
    return f"within={work.ack_within / 1_000_000:g}, max_deliveries={work.max_deliveries or None}{by}"


def _listed(scopes: tuple[str, ...]) -> str:
    return ", ".join(f"'{scope}'" if scope != ROOT_SCOPE else "(root)" for scope in scopes) or "(none)"


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A subscription of a client that has joined."""

    client: str
    id: str
    ready: bool = True
    """Whether it is there to be given something; one whose connection is lost is out of turn."""
    filters: tuple[str, ...] = ()
    """What a member of a scope subscribes to; () for a member of a group, whose terms say it."""
    was_told: bool = False
    """Whether a member of a scope was told before that it has settled."""
    most: int = 0
    """How many jobs a member of an acknowledged group holds at once."""


class Present(msgspec.Struct, frozen=True, array_like=True, tag="present"):
    """To the point: these members are attached to the sender, and no others."""

    key: str
    terms: Terms
    members: tuple[Member, ...]
    since: int
    """When the first of them joined, in microseconds since 1970 UTC: whose terms count if two begin at once."""
    version: int = 0
    """Grows with each change; `Begun` repeats the last one that has arrived."""
    epoch: int = 0
    """Of the sender."""


class Begun(msgspec.Struct, frozen=True, array_like=True, tag="begun"):
    """From the point: it decides under this term."""

    key: str
    term: Term
    version: int
    """Of the last `Present` that it has from the receiver; -1: of none."""
    settled: bool = False
    """Whether everything that is published from now on reaches the group."""


class Assign(msgspec.Struct, frozen=True, array_like=True, tag="assign"):
    """From the point: hand this to one member."""

    key: str
    term: Term
    number: int
    """Of what the point has assigned to members at the receiver, under this term."""
    client: str
    id: str
    envelope: Envelope


class Confirm(msgspec.Struct, frozen=True, array_like=True, tag="confirm"):
    """To the point: everything up to this number has been handed over, but for these, whose members have gone."""

    key: str
    term: Term
    upto: int
    back: Numbers = ()


class Lost(msgspec.Struct, frozen=True, array_like=True, tag="lost"):
    """From the point: the group has lost this; tell its members."""

    key: str
    gap: Gap


class Refuse(msgspec.Struct, frozen=True, array_like=True, tag="refuse"):
    """From the point: these members want something else than the others."""

    key: str
    members: tuple[Member, ...]
    reason: str


Said: TypeAlias = Present | Begun | Assign | Confirm | Lost | Refuse


class Saying(msgspec.Struct, frozen=True, array_like=True):
    """One message between brokers."""

    said: Said


class Open(msgspec.Struct, frozen=True, array_like=True):
    """What was assigned and not confirmed."""

    event: EventKey
    term: Term
    broker: str
    epoch: int
    """Of that broker."""
    number: int
    client: str = ""
    """Who is to get it, and nobody else, because it was not to be decided again; "": any member."""
    version: int = 0
    """Of the form."""


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """What no member of a scope got while certain brokers were in reach."""

    reach: tuple[str, ...]
    """These brokers."""
    first: dict[str, Position]
    """The first position of each origin that no member got."""


class Due(msgspec.Struct, frozen=True, array_like=True):
    """One form of an event that is in no facts, and was decided all the same."""

    event: EventKey
    version: int
    clients: tuple[str, ...]
    """For whom, of those whom it has not reached."""


class Decided(msgspec.Struct, frozen=True, array_like=True):
    """What a point knows, or has known."""

    term: Term
    lineage: tuple[Term, ...]
    terms: Terms
    facts: dict[str, dict[int, list[tuple[int, int]]]]
    open: tuple[Open, ...]
    ended: bool = False
    """Whether there was no member any more: nothing is owed, but what was decided stays so."""
    anew: bool = False
    """Whether it was to begin with what is published from then on, and has not settled yet."""
    ghosts: list[tuple[Term, int]] = []
    """Terms whose decisions are lost, each with when that was noticed, in microseconds since 1970 UTC."""
    reach: list[str] = []
    """With ghosts: the brokers that were there when it was to begin with what is published from then on."""
    askers: list[tuple[str, int]] = []
    """Brokers that may have gone on with this, each with its epoch."""
    states: dict[str, bytes] = {}
    """What policies of a scope remember, by kind and policy: versions may have different ones."""
    unmet: list[Stretch] = []
    """What no member of a scope got: brokers that were out of reach are still to be told."""
    owed: tuple[Due, ...] = ()
    """What was decided of events that are open for other reasons."""


class Taken(msgspec.Struct, frozen=True, array_like=True):
    """What a broker has handed over of what was assigned to it under one term."""

    upto: int
    back: Numbers = ()


class Known(msgspec.Struct, frozen=True, array_like=True):
    """The answer of one broker to a point that gathers."""

    epoch: int
    present: Present | None = None
    heard: Term | None = None
    taken: list[tuple[Term, Taken]] = []
    decided: Decided | None = None


read_saying = unpacker(Saying)
read_known = unpacker(Known)
