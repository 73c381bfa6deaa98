"""What a broker knows of a name and version, and what two brokers know together after they were cut off from each
other.

What was removed stays known, or a broker that was away brings it back; what is in quarantine stays so. Two brokers
that know different things about one name and version agree by the *join* of what they know, which does not depend
on the order in which they meet: the later of installed, removed, quarantined wins, and two digests are a conflict,
which is quarantine for both.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

MAX_DIGESTS = 8
"""The most digests of one name and version that are remembered; more are a conflict anyway."""


class Stage(enum.IntEnum):
    """How far a definition has come; it never goes back."""

    INSTALLED = 0
    REMOVED = 1
    QUARANTINED = 2


class Standing(msgspec.Struct, frozen=True):
    """What is known of one name and version."""

    stage: Stage
    digests: tuple[str, ...]
    """Sorted. More than one is a conflict."""

    @property
    def runs(self) -> bool:
        """Whether it may be run."""
        return self.stage is Stage.INSTALLED and len(self.digests) == 1

    @property
    def conflict(self) -> bool:
        """Whether one name and version has two sources."""
        return len(self.digests) > 1


def standing(digest: str, stage: Stage = Stage.INSTALLED) -> Standing:
    """What is known after one statement."""
    return Standing(stage, (digest,))


def joined(known: Iterable[Standing]) -> Standing:
    """What all of these say together; there is at least one.

    >>> joined([standing("a"), standing("a", Stage.REMOVED)]).runs
    False
    >>> joined([standing("a"), standing("b")]).stage
    <Stage.QUARANTINED: 2>
    """
    found = list(known)
    digests = tuple(sorted({digest for one in found for digest in one.digests})[:MAX_DIGESTS])
    stage = Stage.QUARANTINED if len(digests) > 1 else max(one.stage for one in found)
    return Standing(stage, digests)
