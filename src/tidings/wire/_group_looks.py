"""What clients ask about groups, and are told, in extensions of the feature `group-looks`."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from ._errors import UNREADABLE, WireError, brief

GROUP_LOOKS = "group-looks"
"""The feature, and how a welcome says that a broker has it."""


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group."""

    client: str
    broker: str
    connected: bool
    """Whether it is there to be given something; False: its connection is lost, and it may come back."""
    holds: int = 0
    """Jobs that it has been given and has not acknowledged."""
    max_in_flight: int = 0
    """How many it holds at most; 0: the group is a plain one."""


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A group as its deciding broker sees it. What is counted is counted since that broker decides."""

    name: str
    """With the scope that it belongs to, if it does."""
    owner: str
    """The identity that it belongs to; "": a scope, or everybody where there are no identities."""
    acknowledged: bool
    filter: str
    decided_by: str
    """A broker."""
    members: int
    waiting: int
    """How much has come and is in the hands of no member."""
    held: int = 0
    """Jobs in the hands of members; of a plain group, what is under way to them."""
    oldest: int = 0
    """When the oldest of both was published, in microseconds since 1970 UTC; 0: unknown, or nothing waits."""
    behind: bool = False
    """Whether there is more: the group asks for it when it has room."""
    taken: int = 0
    """How much has come."""
    handled: int = 0
    redelivered: int = 0
    """How many jobs were given to a member another time."""
    dead_letters: int = 0
    losses: int = 0
    """How often members were told a `Gap` that is one of the whole group."""
    ack_within: int = 0
    """Microseconds."""
    max_deliveries: int = 0
    """0: for ever."""
    by: str = ""
    listed: tuple[MemberStatus, ...] = ()
    """Of one group that is shown: its members."""


class ListGroups(msgspec.Struct, frozen=True, array_like=True, tag="list"):
    """Which groups are there, as far as the client may see them?"""

    id: str


class ShowGroup(msgspec.Struct, frozen=True, array_like=True, tag="show"):
    """How is this group?"""

    id: str
    group: str
    """A name, for a group of the client's identity; "scope/name" for one of a scope."""
    owner: str | None = None
    """An administrator says whose group it means; None: the asker's own."""


class ResetGroup(msgspec.Struct, frozen=True, array_like=True, tag="reset"):
    """Drop what waits: go on with what is published from now on."""

    id: str
    group: str
    owner: str | None = None


class GroupsShown(msgspec.Struct, frozen=True, array_like=True, tag="shown"):
    """The answer."""

    id: str
    groups: tuple[GroupStatus, ...]
    left_out: int = 0
    """How many groups, or members of one, are there besides."""
    dropped: int = 0
    """After a reset: how many jobs were dropped that had come."""


class GroupDeclined(msgspec.Struct, frozen=True, array_like=True, tag="declined"):
    """Why there is no answer."""

    id: str
    error: str
    """The class of the error."""
    reason: str


GroupQuestion: TypeAlias = ListGroups | ShowGroup | ResetGroup
GroupAnswer: TypeAlias = GroupsShown | GroupDeclined

_question = msgspec.msgpack.Decoder(GroupQuestion).decode
_answer = msgspec.msgpack.Decoder(GroupAnswer).decode


def read_group_question(body: bytes) -> GroupQuestion:
    """What a client asked, or `WireError`."""
    try:
        asked: GroupQuestion = _question(body)
    except UNREADABLE as error:
        raise WireError(f"no question about groups: {brief(error)}") from None
    return asked


def read_group_answer(body: bytes) -> GroupAnswer:
    """What a client is told, or `WireError`."""
    try:
        told: GroupAnswer = _answer(body)
    except UNREADABLE as error:
        raise WireError(f"no answer about groups: {brief(error)}") from None
    return told
