"""The scope graph as a picture: an SVG with superscopes above their members. The same graph is always the same text.

Clients that are members of the same scopes share one box. With a graph of before, it is a picture of the difference:
what is new, what goes and what becomes another has a colour, the legend says which, and the title of each, shown under
the mouse, says what it was. `_layers` knows where everything lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias
from xml.sax.saxutils import escape

import msgspec
from rich.cells import cell_len, set_cell_size

from tidings.scopes import Graph, Membership, Placement, is_client

from ._layers import LINE, PADDING, RISE, Box, Chains, laid_out
from ._printable import printable

LEGEND_WIDTH = 180.0
"""In pixels."""
MAX_LETTERS = 44
"""What is longer is cut; the title, shown under the mouse, has all of it."""
MAX_BOXES = 60
"""Beyond these, a picture of a difference leaves out what stays as it is."""
MAX_WIDTH = 6_000.0
"""In pixels. A wider picture is shown smaller, and whoever wants to read it looks closer."""
MAX_NAMES = 6
"""Clients that one box names; more are counted."""


GAINED, LOST, ALTERED = "gained", "lost", "altered"
_LEGEND = {GAINED: "new", LOST: "goes", ALTERED: "becomes another"}
_REVISED = {"revised": 0, "labels": {}}
"""What of a scope may differ and is nothing to look at."""


class _Line(NamedTuple):
    """An edge of the picture."""

    marks: str
    """What it does to notifications, for its title; "" if nothing."""
    state: str = ""


_Lines: TypeAlias = dict[tuple[str, str], _Line]


def picture(graph: Graph, before: Graph | None = None) -> str:
    """The graph as SVG; with one of before, how it differs from that."""
    boxes, lines = _contents(graph, before)
    left_out = _leave_out(boxes, lines) if before is not None else 0
    standing = [edge for edge, line in lines.items() if line.state != LOST]
    layers, chains = laid_out(boxes, standing, [edge for edge in lines if lines[edge].state == LOST])
    legend = {} if before is None else dict(_LEGEND)
    if left_out:
        legend["same"] = f"{left_out:,} that stay as they are, left out"
    return _drawn(boxes, layers, lines, chains, legend)


def _leave_out(boxes: dict[str, Box], lines: _Lines) -> int:
    """Of a large difference, leave out what stays as it is and is not next to what does not; how many boxes."""
    if len(boxes) <= MAX_BOXES:
        return 0
    kept = {box.key for box in boxes.values() if box.state}
    kept |= {node for edge, line in lines.items() if line.state for node in edge}
    kept |= {scope for member, scope in lines if member in kept}
    gone = [key for key in boxes if key not in kept]
    for key in gone:
        del boxes[key]
    for edge in [edge for edge in lines if edge[0] not in kept or edge[1] not in kept]:
        del lines[edge]
    return len(gone)


# --- what is in it --------------------------------------------------------------------------------------


def _contents(graph: Graph, before: Graph | None) -> tuple[dict[str, Box], _Lines]:
    graphs = [graph] if before is None else [graph, before]
    boxes: dict[str, Box] = {}
    lines: _Lines = {}
    for id in sorted({id for one in graphs for id in one.scopes}):
        if id or any(one.members(id) for one in graphs):
            boxes[id] = _scope_box(graph if id in graph.scopes else graphs[-1], id)
            if before is not None:
                _compare_scope(boxes[id], graph, before)
    crowds: dict[tuple[tuple[str, _Line], ...], list[str]] = {}
    for node in sorted({node for one in graphs for node in one.nodes()}):
        found = _edges(node, graph, before)
        if is_client(node):
            crowds.setdefault(tuple(found.items()), []).append(node)
        else:
            lines.update({(node, scope): line for scope, line in found.items()})
    for terms, names in crowds.items():
        key = names[0]
        shown = [_short(name) for name in names[:MAX_NAMES]]
        more = [f"and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
        boxes[key] = Box(key, shown + more, "client", "\n".join(names))
        lines.update({(key, scope): line for scope, line in terms})
    return boxes, lines


def _edges(node: str, graph: Graph, before: Graph | None) -> dict[str, _Line]:
    """The edges from a node to its scopes."""
    late = {scope: _marks(edge) for scope, edge in sorted(graph.superscopes(node).items())}
    if before is None:
        return {scope: _Line(marks) for scope, marks in late.items()}
    early = {scope: _marks(edge) for scope, edge in sorted(before.superscopes(node).items())}
    found: dict[str, _Line] = {}
    for scope in sorted(late | early):
        if scope not in late:
            found[scope] = _Line(early[scope], LOST)
        elif scope not in early:
            found[scope] = _Line(late[scope], GAINED)
        elif late[scope] == early[scope]:
            found[scope] = _Line(late[scope])
        else:
            found[scope] = _Line(f"{late[scope] or 'open'}\nwas\n{early[scope] or 'open'}", ALTERED)
    return found


def _compare_scope(box: Box, graph: Graph, before: Graph) -> None:
    """Say of a scope what becomes of it."""
    late, early = graph.scopes.get(box.key), before.scopes.get(box.key)
    if late is None:
        box.state = LOST
    elif early is None:
        box.state = GAINED
    elif msgspec.structs.replace(late, **_REVISED) != msgspec.structs.replace(early, **_REVISED):
        box.state = ALTERED
        box.title += f"\nwas\n{_scope_box(before, box.key).title}"


def _scope_box(graph: Graph, id: str) -> Box:
    scope = graph.scopes[id]
    lines = [_short(id or "root")]
    title = [id or "root"]
    marks = [word for word in ("abstract", "hidden", "confidential") if getattr(scope, word)]
    if marks:
        lines.append(f"[{', '.join(marks)}]")
    for side in ("input", "output"):
        text = str(getattr(scope.interface, side))
        title.append(f"{side}: {text}")
        if id and not scope.abstract and text != "FALSE":
            lines.append(_short(f"{'in ' if side == 'input' else 'out'} {text}"))
    return Box(id, lines, "abstract" if scope.abstract else "scope", "\n".join(title))


def _short(text: str) -> str:
    text = printable(text)
    return text if cell_len(text) <= MAX_LETTERS else set_cell_size(text, MAX_LETTERS - 1) + "…"


def _marks(edge: Membership) -> str:
    """What an edge does to notifications, for its title; "" if nothing."""
    words = []
    for name, interface in (("selective", edge.selective), ("imposed", edge.imposed)):
        if not interface.is_open:
            words += [f"{name} in {interface.input}", f"{name} out {interface.output}"]
    if edge.mapping is not None:
        words += [f"outward {edge.mapping.outward.steps}", f"inward {edge.mapping.inward.steps}"]
    if edge.placement is not Placement.ONCE:
        words.append(f"crosses {edge.placement.value} {edge.gateway}".rstrip())
    return "\n".join(words)


# --- the text -------------------------------------------------------------------------------------------

_STYLE = """
  text { font: 12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2933; }
  text.scope, text.abstract { font-weight: bold; }
  .scope .fine, .abstract .fine { fill: #52606d; }
  rect { fill: #e6f0fa; stroke: #2b6cb0; }
  .abstract rect { fill: #ffffff; stroke-dasharray: 4 3; }
  .client rect { fill: #e9f7ef; stroke: #2f855a; }
  path { fill: none; stroke: #52606d; stroke-width: 1.3; }
  .changed path { stroke: #c05621; stroke-width: 2; }
  .changed circle { fill: #c05621; }
"""
_DIFFERENCE = """
  .gained path, .gained rect { stroke: #2f855a; stroke-width: 3; }
  .lost path, .lost rect { stroke: #c53030; stroke-width: 2; stroke-dasharray: 6 4; }
  .altered path, .altered rect { stroke: #b7791f; stroke-width: 3; }
"""


def _drawn(
    boxes: dict[str, Box], layers: list[list[Box]], lines: _Lines, chains: Chains, legend: Mapping[str, str]
) -> str:
    margin = 12.0
    bottom = max((box.y + box.height for box in boxes.values()), default=0.0)
    explained = _explained(legend, bottom + RISE / 2)
    width = max((box.x + box.width for box in boxes.values()), default=0.0) + 2 * margin
    height = bottom + 2 * margin
    if explained:
        width, height = max(width, LEGEND_WIDTH + 2 * margin), height + RISE / 2 + len(explained) * LINE
    scale = min(1.0, MAX_WIDTH / width)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * scale:.0f}" height="{height * scale:.0f}" '
        f'viewBox="{-margin:.0f} {-margin:.0f} {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}{_DIFFERENCE if legend else ''}</style>",
        f'<rect x="{-margin:.0f}" y="{-margin:.0f}" width="{width:.0f}" height="{height:.0f}" '
        'style="fill: #ffffff; stroke: none"/>',
    ]
    rows = [max((box.height for box in layer), default=0.0) for layer in layers]
    for edge, chain in chains.items():
        out.append(_line([boxes[key] for key in chain], lines[edge], rows))
    out += [_box(box) for layer in layers for box in layer if box.lines]
    return "\n".join([*out, *explained, "</svg>", ""])


def _explained(legend: Mapping[str, str], top: float) -> list[str]:
    """What the colours mean, below everything else."""
    found = []
    for number, (state, words) in enumerate(legend.items()):
        y = top + number * LINE
        found.append(
            f'<g class="{state}"><path d="M0 {y:.1f} L40 {y:.1f}"/>'
            f'<text x="50" y="{y + 4:.1f}" class="fine">{words}</text></g>'
        )
    return found


def _line(chain: list[Box], line: _Line, rows: list[float]) -> str:
    """From the top of the member to the bottom of the scope; what changes notifications has a colour and a dot."""
    start, end = chain[0], chain[-1]
    points = [(start.centre, start.y)]
    for bend in chain[1:-1]:
        points += [(bend.centre, bend.y + rows[bend.layer]), (bend.centre, bend.y)]
    points.append((end.centre, end.y + end.height))
    way = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if not line.marks:
        return f'<g{_classes(line.state)}><path d="{way}"/></g>'
    x, y = (points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<g{_classes("changed", line.state)}><title>{_safe(line.marks)}</title><path d="{way}"/>{dot}</g>'


def _classes(*names: str) -> str:
    found = " ".join(filter(None, names))
    return f' class="{found}"' if found else ""


def _box(box: Box) -> str:
    radius = 12 if box.style == "client" else 4
    lines = [
        f'<text x="{box.x + PADDING:.1f}" y="{box.y + 18 + number * LINE:.1f}" '
        f'class="{"fine" if number else box.style}">{_safe(line)}</text>'
        for number, line in enumerate(box.lines)
    ]
    return (
        f"<g{_classes(box.style, box.state)}><title>{_safe(box.title)}</title>"
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius}"/>'
        + "".join(lines)
        + "</g>"
    )


def _safe(text: str) -> str:
    """Names come from anywhere: nothing in them is markup, and nothing in them is a control character."""
    return escape("\n".join(map(printable, text.split("\n"))))
