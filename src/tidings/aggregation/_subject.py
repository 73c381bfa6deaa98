"""Subjects: what is asked about, the same at every broker."""

from __future__ import annotations

from typing import NamedTuple

from tidings.model import ROOT_SCOPE


class Subject(NamedTuple):
    """One aggregate for one key in one scope. Whoever asks for the same subject shares what is known of it."""

    aggregate: str
    version: str
    key: str
    """A filter, as text; "": the key is a probe, or everything."""
    probe: bytes = b""
    """The encoded body of a notification."""
    scope: str = ROOT_SCOPE
    away: bool = False
    """Whether clients count that are away: without a connection, but expected back."""
