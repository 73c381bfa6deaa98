"""A neighbour graph as a file: what brokers export and import, what mining writes, what people edit.

JSON, one object:

    {"directed": false,
     "edges": [{"old": "home", "new": "office", "weight": 12.5, "last_used": "2026-03-01T08:00:00Z"}]}

`weight` is 1 unless it says otherwise. `brokers`, a list of names, is optional; with it, an edge to a broker that is
not in the list is a mistake. Of what mining adds, brokers use `dwell`; `support` and `confidence` they do not.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from tidings.model import TidingsError

from ._neighbour_graph import Edge, GraphOptions

MAX_EDGES = 100_000
"""The most edges in one file."""
MAX_NAMED = 5
"""The most brokers that one error names."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EdgeLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One edge of a file."""

    old: str
    new: str
    weight: float = 1.0
    last_used: datetime | None = None
    pinned: bool = False
    support: int = 0
    """How many hand-offs it was mined from."""
    confidence: float = 0.0
    """The share of the hand-offs from `old` that lead to `new`."""
    dwell: float = 0.0
    """Seconds that clients stay at `old` before they go to `new`: the median."""


class GraphFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """All of it."""

    edges: tuple[EdgeLine, ...]
    directed: bool = False
    brokers: tuple[str, ...] = ()


def read_graph(
    text: str | bytes, place: str, known: Collection[str] | None = None, *, most: int = MAX_EDGES
) -> GraphFile:
    """The graph in a file, checked; `place` says where it stands, `known` which brokers there are.

    Raises `TidingsError` that names the value, the place and the remedy.
    """
    try:
        graph = msgspec.json.decode(text, type=GraphFile)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TidingsError(f'{place}: {error}; give {{"edges": [{{"old": "a", "new": "b", "weight": 1}}]}}') from None
    if len(graph.edges) > most:
        raise TidingsError(f"{place}: {len(graph.edges):,} edges are too many; give at most {most:,}")
    seen: set[tuple[str, str]] = set()
    for number, edge in enumerate(graph.edges, 1):
        at = f"{place}: edge {number}"
        _check(edge, at)
        pair = (edge.old, edge.new) if graph.directed else (min(edge.old, edge.new), max(edge.old, edge.new))
        if pair in seen:
            raise TidingsError(f"{at}: '{edge.old}' to '{edge.new}' is there twice; remove one of them")
        seen.add(pair)
    brokers = {name for edge in graph.edges for name in (edge.old, edge.new)}
    if graph.brokers:
        _name_unknown(brokers - set(graph.brokers), place, "add them to `brokers`, or remove their edges")
    if known is not None:
        _name_unknown(brokers - set(known), place, "start and link them first, or remove their edges")
    return graph


def _check(edge: EdgeLine, at: str) -> None:
    if not edge.old or not edge.new:
        raise TidingsError(f"{at}: a broker has no name; give the names of two brokers as `old` and `new`")
    if edge.old == edge.new:
        raise TidingsError(f"{at}: it leads from '{edge.old}' to itself; give two different brokers, or remove it")
    if not math.isfinite(edge.weight) or edge.weight < 0:
        raise TidingsError(f"{at}: weight {edge.weight} of '{edge.old}' to '{edge.new}'; give 0 or more")
    if not math.isfinite(edge.dwell) or edge.dwell < 0:
        raise TidingsError(f"{at}: dwell {edge.dwell} of '{edge.old}' to '{edge.new}'; give 0 seconds or more")
    if edge.last_used is not None and edge.last_used.tzinfo is None:
        raise TidingsError(
            f"{at}: last_used {edge.last_used.isoformat()} has no time zone; write {edge.last_used.isoformat()}Z"
        )


def _name_unknown(unknown: set[str], place: str, remedy: str) -> None:
    if unknown:
        names = ", ".join(f"'{name}'" for name in sorted(unknown)[:MAX_NAMED])
        more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
        raise TidingsError(f"{place}: there is no broker {names}{more}; {remedy}")


def edges_of(graph: GraphFile, options: GraphOptions, place: str, at: int, *, pinned: bool = False) -> list[Edge]:
    """The edges of a file, for a graph with these options; `pinned` makes all of them so.

    An undirected file gives both directions to a directed graph; the weights of both add up the other way round.
    Raises `TidingsError` if a broker has more neighbours than `max_degree`.
    """
    edges: dict[tuple[str, str], Edge] = {}
    for line in graph.edges:
        used = at if line.last_used is None else min(_microseconds(line.last_used), at)
        edge = Edge(line.old, line.new, line.weight, used, used, pinned or line.pinned, line.dwell)
        pairs = [(line.old, line.new)]
        if options.directed and not graph.directed:
            pairs.append((line.new, line.old))
        elif not options.directed:
            pairs = [(min(line.old, line.new), max(line.old, line.new))]
        for pair in pairs:
            edges[pair] = _together(edges.get(pair), edge, pair)
    _check_degrees(edges.values(), options, place)
    return list(edges.values())


def _together(one: Edge | None, other: Edge, pair: tuple[str, str]) -> Edge:
    if one is None:
        return msgspec.structs.replace(other, old=pair[0], new=pair[1])
    return msgspec.structs.replace(
        one,
        weight=one.weight + other.weight,
        created_at=min(one.created_at, other.created_at),
        last_used=max(one.last_used, other.last_used),
        pinned=one.pinned or other.pinned,
        dwell=one.dwell or other.dwell,
    )


def _check_degrees(edges: Iterable[Edge], options: GraphOptions, place: str) -> None:
    degrees: dict[str, int] = {}
    for edge in edges:
        for end in (edge.old,) if options.directed else (edge.old, edge.new):
            degrees[end] = degrees.get(end, 0) + 1
    for broker, degree in degrees.items():
        if options.max_degree and degree > options.max_degree:
            raise TidingsError(
                f"{place}: broker '{broker}' has {degree} neighbours, more than max_degree, {options.max_degree}; "
                "remove the edges of least weight, or raise `max_degree` in [mobility]"
            )


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def graph_file(edges: Iterable[Edge], *, directed: bool) -> GraphFile:
    """What a graph looks like in a file."""
    lines = (
        EdgeLine(
            edge.old,
            edge.new,
            edge.weight,
            _EPOCH + timedelta(microseconds=edge.last_used),
            edge.pinned,
            dwell=edge.dwell,
        )
        for edge in sorted(edges, key=lambda edge: (edge.old, edge.new))
    )
    return GraphFile(tuple(lines), directed)


def as_json(graph: GraphFile) -> str:
    """The text of a file."""
    return msgspec.json.format(msgspec.json.encode(graph), indent=2).decode() + "\n"


def as_dot(graph: GraphFile) -> str:
    """The same for Graphviz."""
    word, arrow = ("digraph", "->") if graph.directed else ("graph", "--")
    lines = [f"{word} neighbours {{"]
    for edge in graph.edges:
        style = ", style=bold" if edge.pinned else ""
        lines.append(f'  {_quoted(edge.old)} {arrow} {_quoted(edge.new)} [label="{edge.weight:.3g}"{style}];')
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
