"""The audit: who changed or tried to change what, when, and whose publications became visible to whom by it."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

import msgspec

from ._changes import AnyChange, DestroyScope, Impose, Join, Leave, SetInterface, SetMapping, SetSelective
from ._exposure import Filters, Sights, exposure
from ._graph import Graph, is_client
from ._interface import Interface, both

MAX_SIGHTS = 50
"""The most gained or lost sights that one entry lists."""
MAX_EDGES = 50
"""The most edges whose sights are worked out for one change."""
MAX_TEXT = 500
"""The most characters of one change, filter or reason in an entry."""


class Sight(msgspec.Struct, frozen=True, array_like=True):
    """What is published in `source` and passes `filter` can be seen in `target`; a client is written "@name"."""

    source: str
    target: str
    filter: str

    def __str__(self) -> str:
        what = "" if self.filter == "TRUE" else f" ({self.filter})"
        return f"{self.source or 'root'} -> {self.target or 'root'}{what}"


class AuditEntry(msgspec.Struct, frozen=True):
    """One change of the graph, or one that was refused. It never holds credentials."""

    at: int
    """Microseconds since 1970 UTC, by the clock of the authority."""
    who: str
    """The client that asked; "" if it was a broker."""
    changes: tuple[str, ...]
    version: int = 0
    """The version that it made; 0: none, it was refused."""
    error: str = ""
    reason: str = ""
    gained: tuple[Sight, ...] = ()
    """What became visible by it, or changed its filter."""
    lost: tuple[Sight, ...] = ()
    """What is visible no longer."""
    more: bool = False
    """Whether more became visible or ceased to be than is listed."""


def described(change: AnyChange) -> str:
    """A change as one line: its name, and what it says. Credentials are only counted.

    >>> described(Join("@alice", "market", selective=Interface.parse(output="type = 'order'")))
    "Join member=@alice scope=market selective=[output: type = 'order']"
    """
    words = [type(change).__name__]
    for field in msgspec.structs.fields(change):
        value = getattr(change, field.name)
        if value == field.default or value in ((), {}, None):
            continue
        words.append(f"{field.name}={f'({len(value)})' if field.name == 'admission' else _text(value)}")
    return _short(" ".join(words))


def _text(value: object) -> str:
    match value:
        case Interface():
            sides = (f"{name}: {side}" for name in ("input", "output") if str(side := getattr(value, name)) != "TRUE")
            return f"[{', '.join(sides)}]"
        case enum.IntEnum():
            return value.name.lower()
        case enum.Enum():
            return str(value.value)
        case tuple():
            return ",".join(map(str, value))
        case str():
            return value or "root"
    return repr(value)


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def compared(before: Graph, after: Graph, changes: Iterable[AnyChange]) -> tuple[list[Sight], list[Sight], bool]:
    """What became visible, what is visible no longer, and whether there is more of it than that."""
    changes = list(changes)
    early, cut_early = _sights(before, _edges(before, after, changes))
    late, cut_late = _sights(after, _edges(before, after, changes))
    gained = [pair for pair, filters in late.items() if early.get(pair) != filters]
    lost = [pair for pair in early if pair not in late]
    more = cut_early or cut_late or len(gained) > MAX_SIGHTS or len(lost) > MAX_SIGHTS
    return (
        [Sight(*pair, _joined(late[pair])) for pair in gained[:MAX_SIGHTS]],
        [Sight(*pair, _joined(early[pair])) for pair in lost[:MAX_SIGHTS]],
        more,
    )


def _joined(filters: Filters) -> str:
    return _short(str(both(*filters)[0]))


def _sights(graph: Graph, edges: list[tuple[str, str]]) -> tuple[Sights, bool]:
    found: Sights = {}
    cut = len(edges) > MAX_EDGES
    for member, scope in edges[:MAX_EDGES]:
        seen, complete = exposure(graph, member, scope)
        cut = cut or not complete
        found = {**seen, **found}
    return found, cut


def _edges(before: Graph, after: Graph, changes: Iterable[AnyChange]) -> list[tuple[str, str]]:
    """The edges that may let something else pass, as they are in either graph."""
    found: dict[tuple[str, str], None] = {}
    for change in changes:
        for graph in (before, after):
            found.update(dict.fromkeys(_touched(graph, change)))
    return list(found)


def _touched(graph: Graph, change: AnyChange) -> Iterator[tuple[str, str]]:
    match change:
        case Join() | Leave() if is_client(change.member):
            yield change.member, change.scope
            yield change.member, ""  # a client that is a member of nothing is in the root scope
        case Join() | Leave() | SetSelective() | SetMapping():
            yield change.member, change.scope
        case SetInterface():
            yield from ((change.scope, above) for above in graph.superscopes(change.scope))
        case Impose(member=str(member)):
            yield member, change.scope
        case Impose():
            yield from ((member, change.scope) for member in graph.members(change.scope))
        case DestroyScope():
            yield from ((change.id, above) for above in graph.superscopes(change.id))
            yield from ((member, change.id) for member in graph.members(change.id))
