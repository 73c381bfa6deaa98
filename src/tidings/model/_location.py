"""Where something is: a path from the widest place to the narrowest."""

from __future__ import annotations

from ._errors import ValueRefused

MAX_DEPTH = 32
"""The most levels that a location may have."""


class Location:
    """A place, written as a path: ``Location("/berlin/campus/building-3")``.

    >>> Location("/berlin/campus/building-3").within(Location("/berlin"))
    True
    """

    __slots__ = ("parts",)

    parts: tuple[str, ...]

    def __init__(self, path: str | tuple[str, ...]) -> None:
        parts = tuple(path.strip("/").split("/")) if isinstance(path, str) else tuple(path)
        if parts == ("",):
            parts = ()
        if not all(parts) or any("/" in part for part in parts):
            raise ValueRefused(f"{path!r} is not a location: write it like '/berlin/campus', no empty parts")
        if len(parts) > MAX_DEPTH:
            raise ValueRefused(f"a location of {len(parts)} levels is too deep: at most {MAX_DEPTH}")
        object.__setattr__(self, "parts", parts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a location cannot be changed")

    def within(self, place: Location) -> bool:
        """Whether this place is `place` or lies somewhere inside it."""
        return self.parts[: len(place.parts)] == place.parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __str__(self) -> str:
        return "/" + "/".join(self.parts)

    def __repr__(self) -> str:
        return f"Location({str(self)!r})"
