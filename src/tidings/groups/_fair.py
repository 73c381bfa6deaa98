"""Who has to make room: of what is kept for groups, the oldest of the owner that has most of it goes first."""

from __future__ import annotations

from collections.abc import Callable

from ._names import GroupName


class FairShare:
    """Keys of groups in the order in which they came, by whose they are.

    >>> share = FairShare(2)
    >>> for name in ("one", "two", "three"):
    ...     share.add(GroupName("ann" if name == "one" else "eve", "", name).key)
    >>> GroupName.of_key(share.excess(lambda key: False))
    GroupName(owner='eve', scope='', name='two')
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[str, None]] = {}
        self._count = 0

    def add(self, key: str) -> None:
        """Something is kept for a group."""
        keys = self._of.setdefault(_owner(key), {})
        self._count += key not in keys
        keys[key] = None

    def discard(self, key: str) -> None:
        """Nothing is kept for a group any more."""
        owner = _owner(key)
        keys = self._of.get(owner, {})
        if key in keys:
            del keys[key]
            self._count -= 1
            if not keys:
                del self._of[owner]

    def excess(self, needed: Callable[[str], bool]) -> str | None:
        """The key that has to go, unless it is needed; None: there is room, or everything is needed."""
        if self._count <= self._most:
            return None
        by_count = sorted(self._of.values(), key=len, reverse=True)
        return next((key for keys in by_count for key in keys if not needed(key)), None)


def _owner(key: str) -> str:
    """Whose a group is: an identity, or a scope."""
    try:
        name = GroupName.of_key(key)
    except ValueError:
        return ""
    return f"/{name.scope}" if name.scope else name.owner
