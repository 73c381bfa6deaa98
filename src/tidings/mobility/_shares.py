"""Shares: how much of something limited each identity has, and who has most of it."""

from __future__ import annotations

from itertools import islice

COMPARED = 16
"""The most identities that are compared; of more, each with at least half as much as any other, one is as good."""


class Shares:
    """Keeps identities sorted by the length of what they have in bits, so that the largest is found at once.

    >>> shares = Shares()
    >>> shares.count("alice", 300)
    >>> shares.count("mallory", 5_000)
    >>> shares.largest()
    'mallory'
    """

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}
        self._by_length: dict[int, dict[str, None]] = {}

    def count(self, owner: str, change: int) -> None:
        """An identity has so much more, or less."""
        before = self._bytes.pop(owner, 0)
        after = before + change
        if before:
            same = self._by_length[before.bit_length()]
            del same[owner]
            if not same:
                del self._by_length[before.bit_length()]
        if after:
            self._bytes[owner] = after
            self._by_length.setdefault(after.bit_length(), {})[owner] = None

    def largest(self) -> str:
        """One that has most, or nearly so; somebody has something."""
        most = self._by_length[max(self._by_length)]
        return max(islice(most, COMPARED), key=self._bytes.__getitem__)
