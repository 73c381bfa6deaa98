"""The feature that parts of it belong to, and the unit of its times."""

from __future__ import annotations

from typing import Protocol

from tidings.broker import Context

SECOND = 1_000_000
"""Microseconds."""


class Woven(Protocol):
    """The feature that this is a part of."""

    @property
    def context(self) -> Context: ...
