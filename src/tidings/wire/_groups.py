"""What a client says to its broker about groups, in extensions of the feature `groups`.

Notifications, gaps, refusals and `Settled` come to a member as they come to any subscription, under the id of `Join`.
"""

from __future__ import annotations

import msgspec

from ._errors import UNREADABLE, WireError, brief

GROUPS = "groups"
"""The feature, and how a welcome says that a broker has it."""
CHOOSING = "choosing"
"""The feature for scopes whose members are chosen at a deciding point."""


class Join(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """Be a member of a group, and get a share of what passes its filter."""

    id: str
    """Names the subscription on this link, as in `Subscribe`."""
    group: str
    """A name, for a group of the client's identity; "scope/name" for one of a scope."""
    filter: str
    number: int = 0
    """`Settled` repeats it."""


class Leave(msgspec.Struct, frozen=True, array_like=True, tag="leave"):
    """Be a member no longer."""

    id: str


_read = msgspec.msgpack.Decoder(Join | Leave).decode


def read_membership(body: bytes) -> Join | Leave:
    """What was said, or `WireError`."""
    try:
        said: Join | Leave = _read(body)
    except UNREADABLE as error:
        raise WireError(f"not about a group: {brief(error)}") from None
    return said
