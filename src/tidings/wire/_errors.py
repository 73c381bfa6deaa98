"""What is wrong with bytes that came from elsewhere.

TidingsError
└── WireError
"""

from __future__ import annotations

import msgspec

from tidings.model import TidingsError

UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""What a decoder raises for bytes that are not what they should be."""


class WireError(TidingsError):
    """Bytes that are not a frame or a notification, or a frame that cannot be made into bytes."""
