"""Names of groups: whose a group is follows from its name and from who says it."""

from __future__ import annotations

import msgspec

from tidings.model import ROOT_SCOPE, ArgumentRefused, TidingsError

from ._limits import MAX_GROUP_NAME


class GroupName(msgspec.Struct, frozen=True, array_like=True):
    """What a group is called in the network."""

    owner: str
    """The identity that it belongs to; "": a scope, or everybody where there are no identities."""
    scope: str
    """The scope that it belongs to; "": none."""
    name: str

    @property
    def key(self) -> str:
        """As text."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def of_key(cls, key: str) -> GroupName:
        """The name that a key is of; `ValueError` if it is none."""
        return msgspec.json.decode(key, type=cls)

    def __str__(self) -> str:
        return f"{self.scope}/{self.name}" if self.scope else self.name


def check_group(text: str) -> None:
    """Raise `ArgumentRefused` for what is no name of a group.

    >>> check_group("billing")
    >>> check_group("market/engines")
    """
    if not 0 < len(text) <= MAX_GROUP_NAME:
        raise ArgumentRefused(
            f"'{text[:80]}' has {len(text):,} characters; the name of a group has 1 to {MAX_GROUP_NAME}"
        )
    scope, slash, name = text.rpartition("/")
    if not name or (slash and not scope) or not text.isprintable():
        raise ArgumentRefused(
            f"{text[:80]!r} is not the name of a group; write a name, as in 'billing', or a scope and a name, as in "
            "'market/billing'"
        )


def named(text: str, owner: str, sees: tuple[str, ...], client: str) -> GroupName:
    """The group that a client means; `TidingsError` if it may not join it."""
    check_group(text)
    scope, _, name = text.rpartition("/")
    if scope and (scope == ROOT_SCOPE or scope not in sees):
        raise TidingsError(
            f"client '{client}' is no member of scope '{scope[:80]}', so it cannot join the group '{name}' there; ask "
            "an administrator of the scope for a membership, or use a group of your own"
        )
    return GroupName("" if scope else owner, scope, name)
