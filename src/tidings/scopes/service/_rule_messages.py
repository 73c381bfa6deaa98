"""What brokers say to the authority about rules, and what it answers."""

from __future__ import annotations

import enum
from typing import TypeAlias

import msgspec

from tidings.wire import pack, unpacker

PREFIX = "rule "
"""With which the ids of all that rules ask for begin. Clients are asked for under names of their brokers."""


class Outcome(enum.Enum):
    """What has become of an event that a rule waited for."""

    DONE = "done"
    """It was carried out, or all was as it asks already."""
    REFUSED = "refused"
    """Nothing was changed, and nothing will be."""
    LATER = "later"
    """It cannot be said yet; to be asked again."""


class Fire(msgspec.Struct, frozen=True, array_like=True, tag="fire"):
    """To the authority: an event has happened that a rule waits for, and its condition holds."""

    id: str
    """Made of the rule and the event: however often it is asked for, it is carried out once."""
    scope: str
    """The scope that has the rule."""
    rule: str
    """The key of the rule."""
    event: str
    """The event; of a rule in `grows`, the one that created its scope."""
    trigger: str
    body: bytes = b""
    """The attributes of the notification that the actions use, encoded as a notification; empty: there are none."""
    grows: str = ""
    """The text of a rule of the scope that the rule creates, if that is meant."""
    depth: int = 1
    """How many rules have led to it, this one included."""


class Fired(msgspec.Struct, frozen=True, array_like=True, tag="fired"):
    """From the authority: what has become of it."""

    id: str
    outcome: Outcome
    reason: str = ""


Said: TypeAlias = Fire | Fired


class Saying(msgspec.Struct, frozen=True, array_like=True):
    """One message between brokers."""

    said: Said


read_saying = unpacker(Saying)
read_fire = unpacker(Fire)
read_fired = unpacker(Fired)


def saying(said: Said) -> bytes:
    """A message as it travels."""
    return pack(Saying(said))


def id_of(scope: str, rule: str, event: str, grows: str = "") -> str:
    """Under which a rule asks for what an event makes it do."""
    return f"{PREFIX}{scope!r} {rule}{grows and ' ' + grows} {event}"
