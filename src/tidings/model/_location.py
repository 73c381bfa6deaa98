"""Where something is: a path from the widest place to the narrowest."""

from __future__ import annotations

from ._errors import ValueRefused
from ._text import encodable

MAX_DEPTH = 32
"""The most levels that a location may have."""
MAX_PATH = 1_024
"""The most characters that the levels of a location may have together."""


class Location:
    """A place, written as a path: ``Location("/berlin/campus/building-3")``.

    >>> Location("/berlin/campus/building-3").within(Location("/berlin"))
    True
    """

    __slots__ = ("parts",)

    parts: tuple[str, ...]

    def __init__(self, path: str | tuple[str, ...]) -> None:
        if not isinstance(path, (str, tuple)):
            raise ValueRefused(f"{path!r:.60} is not a location; write it like '/berlin/campus'")
        parts = tuple(path.strip("/").split("/")) if isinstance(path, str) else path
        if parts == ("",):
            parts = ()
        if not all(type(part) is str and part and "/" not in part for part in parts):
            raise ValueRefused(f"{path!r:.60} is not a location; write it like '/berlin/campus', no empty parts")
        if len(parts) > MAX_DEPTH:
            raise ValueRefused(f"a location of {len(parts):,} levels is too deep; use at most {MAX_DEPTH}")
        if (length := sum(map(len, parts))) > MAX_PATH:
            raise ValueRefused(f"a location of {length:,} characters is too long; use at most {MAX_PATH:,}")
        if not all(map(encodable, parts)):
            raise ValueRefused(f"{path!r:.60} is not Unicode text (a lone surrogate); rename the place")
        object.__setattr__(self, "parts", parts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a location cannot be changed")

    def within(self, place: Location) -> bool:
        """Return whether this place is `place` or lies somewhere inside it."""
        return self.parts[: len(place.parts)] == place.parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __reduce__(self) -> tuple[type[Location], tuple[tuple[str, ...]]]:
        return Location, (self.parts,)  # copying and unpickling would set `parts`, which is not allowed

    def __str__(self) -> str:
        return "/" + "/".join(self.parts)

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"
