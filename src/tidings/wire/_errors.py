"""What is wrong with bytes that came from elsewhere."""

from __future__ import annotations

import msgspec

from tidings.model import WireError

__all__ = ["UNREADABLE", "WireError"]

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What a decoder raises for bytes that are not what they should be."""
