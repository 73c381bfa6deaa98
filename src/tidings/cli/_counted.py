"""Numbers with what they count."""

from __future__ import annotations


def counted(number: int, thing: str) -> str:
    """A number and its noun.

    >>> counted(1, "client"), counted(2_000, "client")
    ('1 client', '2,000 clients')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
