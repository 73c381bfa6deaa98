"""The building with six brokers. Its picture is lost; of the graphs that fit what is said, two mirror images, one."""

from __future__ import annotations

BUILDING_EDGES = (
    ("B1", "B2"),
    ("B2", "B3"),
    ("B3", "B4"),
    ("B3", "B5"),
    ("B6", "B1"),
    ("B6", "B2"),
    ("B6", "B3"),
    ("B6", "B4"),
)
"""The paths between the places of the brokers, and by default the links between them, too."""

BUILDING: dict[str, tuple[str, ...]] = {
    broker: tuple(sorted(other for edge in BUILDING_EDGES if broker in edge for other in edge if other != broker))
    for broker in ("B1", "B2", "B3", "B4", "B5", "B6")
}
"""The neighbours of each broker."""
