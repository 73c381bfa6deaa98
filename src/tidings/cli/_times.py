"""Durations, instants and sizes as people write them: `5m`, `2026-11-16T03:00Z`, `10GB`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tidings import model
from tidings.model import BoundError

_BYTES = {"B": 1, **{f"{letter}B": 1000**at for at, letter in enumerate("kMGT", 1)}}
_BYTES |= {f"{letter}iB": 1024**at for at, letter in enumerate("KMGT", 1)} | {"KB": 1000}
_PART = re.compile(r"\d+(?:\.\d+)?(?:ms|[smhdw])")
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKMGT]?i?B)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MAX_SIZE = 10**18
"""The most bytes that a size stands for."""
DURATION = "write a duration like 90s, 5m, 2h, 1h30m or 7d"
INSTANT = "write an instant like 2026-11-16T03:00Z (UTC if no zone is given), or a duration before now like 5m"
SIZE = "write a size like 500MB, 10GB or 4GiB"


def duration(text: str) -> float:
    """Seconds, from one or several numbers with units; `ValueError` says what would be right.

    >>> duration("5m"), duration("1h30m"), duration("250ms")
    (300.0, 5400.0, 0.25)
    """
    try:
        return model.duration(text) / 1_000_000
    except BoundError:
        raise ValueError(f"'{text}' is not a duration; {DURATION}") from None


def instant(text: str, now: datetime) -> int:
    """Microseconds since 1970 UTC, from an ISO-8601 instant, or a duration before now.

    >>> instant("1970-01-01T00:01Z", _EPOCH), instant("1m", _EPOCH)
    (60000000, -60000000)
    """
    try:
        if _PART.match(text):
            found = now - timedelta(seconds=duration(text))
        else:
            if not re.match(r"\d{4}-", text):  # Python would take a number for a date without dashes
                raise ValueError(text)
            found = datetime.fromisoformat(text.upper())
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        return (found - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is not an instant; {INSTANT}") from None


def size(text: str) -> int:
    """Bytes.

    >>> size("10GB"), size("4 KiB")
    (10000000000, 4096)
    """
    found = _SIZE.fullmatch(text)
    if found is None or found[2] not in _BYTES:
        raise ValueError(f"'{text}' is not a size; {SIZE}")
    count = float(found[1]) * _BYTES[found[2]]
    if count > MAX_SIZE:
        raise ValueError(f"'{text[:40]}' is larger than any disk; {SIZE}")
    return int(count)


def as_instant(microseconds: int | None) -> str:
    """An instant as people read it, in UTC."""
    if microseconds is None:
        return "-"
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(sep=" ", timespec="milliseconds")[:-6]


def as_iso(microseconds: int | None) -> str | None:
    """An instant as programs read it."""
    if microseconds is None:
        return None
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
