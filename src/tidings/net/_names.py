"""Names: which identity may use which name. This is the one place that decides it.

Nearly everything that a broker remembers of somebody is kept under a name: numbers of publications, durable
subscriptions, sessions, memberships and administrators of scopes. And what other brokers and subscribers see of a
publisher is its name and its number, nothing else. So where identities are configured a name belongs to one of them.
A client of the identity `alice` is called `alice`, `alice/...`, or by one of the patterns in `names` of its entry. A
neighbour is called by its identity's name or one of these patterns. Two identities must not share a name: a broker
whose entries allow that does not start.

What a name means must be the same in the whole network, and no single broker can see whether it is: so neighbours
compare a digest of all names and warn. Entries of brokers are left out of it. Each broker has those of its neighbours,
and a neighbour is trusted anyway.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidings.broker import LinkKind

from ._access import Access, AccessEntry
from ._patterns import ANY, common_name, fixed_start

log = logging.getLogger("tidings.net")

MAX_NAME = 256
"""The most characters of the name of a client or broker."""
GIVEN_BYTES = 12
"""The random bytes in a name that a broker gives: no two clients ever get the same."""
MAX_IDENTITY_NAME = MAX_NAME - 2 * GIVEN_BYTES - 1
"""The most characters of an identity's name: a name below it that a broker gives must not be too long."""
INNER_NAME = "/~"
"""What the names of clients contain that stand for others inside of brokers: copies, members of groups."""
OPEN = "open"
"""The digest of a broker without identities, where everybody may use every name."""


class Clash(NamedTuple):
    """What is wrong with the names of an identity, or of two."""

    identities: tuple[str, ...]
    problem: str
    remedy: str


def clashes(identities: Iterable[AccessEntry]) -> Iterator[Clash]:
    """Everything that is wrong with the names of these identities."""
    owned = sorted((fixed_start(pattern), pattern, one.name) for one in identities for pattern in one.patterns)
    for name in dict.fromkeys(name for _, _, name in owned):
        if not name or ANY in name:
            yield Clash((name,), f"'{name}' cannot be the name of an identity", f"write some text without {ANY}")
        elif len(name) > MAX_IDENTITY_NAME:
            problem = f"the name of an identity has {len(name)} characters"
            yield Clash((name,), problem, f"write at most {MAX_IDENTITY_NAME}: the names of its clients begin with it")
    told = set()
    for at, (start, pattern, name) in enumerate(owned):
        for later in range(at + 1, len(owned)):
            other_start, other_pattern, other = owned[later]
            if not other_start.startswith(start):
                break  # they are sorted by how they start: none of those that follow overlaps
            pair = (min(name, other), max(name, other))
            if other == name or pair in told or (common := common_name(pattern, other_pattern)) is None:
                continue
            told.add(pair)
            yield Clash(
                pair,
                f"'{pair[0]}' and '{pair[1]}' may both be called '{common or 'anything'}': the names "
                f"'{pattern}' of '{name}' and '{other_pattern}' of '{other}' overlap",
                "narrow the `names` of one of them; a name belongs to one identity",
            )


class Names:
    """Whose each name is at one broker."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.digest = _digest(access)
        self._warned: dict[str, str] = {}
        """The digests of neighbours that differ, as the log has been told."""

    def given_to(self, identity: AccessEntry) -> str:
        """A new name for a client that has none."""
        prefix = "client-" if self._access.open else f"{identity.name}/"
        return prefix + secrets.token_hex(GIVEN_BYTES)

    def objection_to(self, name: str, kind: LinkKind, identity: AccessEntry) -> str:
        """Why this identity may not be called so; "": it may."""
        if not 0 < len(name) <= MAX_NAME:
            return f"the name has {len(name)} characters; choose one of 1 to {MAX_NAME}"
        if INNER_NAME in name:
            return f"{name[:80]!r} contains '{INNER_NAME}', which is for clients inside of brokers; choose another name"
        if self._access.open or identity.may_be_called(name, broker=kind is LinkKind.BROKER):
            return ""
        patterns = (identity.name, *identity.names) if kind is LinkKind.BROKER else identity.patterns
        usable = ", ".join(f"'{pattern}'" for pattern in patterns)
        return (
            f"{name[:80]!r} does not belong to '{identity.name}', the identity of this {kind.value}; "
            f"choose one of {usable} ({ANY} stands for any text)" + (", or none" if kind is LinkKind.CLIENT else "")
        )

    def is_owned(self, name: str) -> bool:
        """Whether some identity may use a name for its clients."""
        known = self._access.identities  # none of them: the broker is open, or identifies others by a rule of its own
        return not known or any(one.may_be_called(name) for one in known)

    def compare(self, neighbour: str, digest: str) -> None:
        """A neighbour tells its digest; "": it is of a version that has none."""
        if digest in ("", self.digest):
            self._warned.pop(neighbour, None)
        elif self._warned.get(neighbour) != digest:
            self._warned[neighbour] = digest
            log.warning(
                "broker %s assigns names to identities differently: one name may belong to different identities here "
                "and there; compare what `tidings config names FILE` prints for both brokers",
                neighbour,
            )


def owners(access: Access) -> list[tuple[str, str]]:
    """Each pattern of clients' names, with the identity that it belongs to: what all brokers should agree on."""
    return sorted((pattern, one.name) for one in access.identities if not one.broker for pattern in one.patterns)


def _digest(access: Access) -> str:
    if access.open:
        return OPEN
    return hashlib.blake2b(repr(owners(access)).encode(), digest_size=16, person=b"tidings-names").hexdigest()
