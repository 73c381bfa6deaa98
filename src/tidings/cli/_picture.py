"""The scope graph as a picture: an SVG with superscopes above their members. The same graph is always the same text.

The layout is layered. A node lies below all its superscopes; an edge that skips layers gets a bend in each of them, so
no line runs through a box; the order in a layer follows the neighbours in the layers beside it. Clients that are
members of the same scopes share one box. Letters are counted, not measured: the font has one width.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from rich.cells import cell_len, set_cell_size

from tidings.scopes import Graph, Membership, Placement, is_client

from ._printable import printable

LETTER, LINE = 7.8, 16.0
"""The width of a letter and the height of a line, in pixels, at a font size of 12."""
PADDING, GAP, RISE = 10.0, 22.0, 56.0
"""Inside a box, between two boxes, between two layers."""
MAX_LETTERS = 44
"""What is longer is cut; the title, shown under the mouse, has all of it."""
MAX_NAMES = 6
"""Clients that one box names; more are counted."""
SWEEPS = 7
"""How often the layers are improved; an odd number, so that the order ends downwards, as one reads it."""

Edges = dict[tuple[str, str], Membership]


@dataclass(slots=True)
class _Box:
    """A node of the picture: a scope, some clients, or the bend of an edge, which has no lines."""

    key: str
    lines: list[str] = field(default_factory=list)
    style: str = "bend"
    title: str = ""
    layer: int = 0
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max((cell_len(line) for line in self.lines), default=0) * LETTER + 2 * PADDING if self.lines else 8.0

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 12.0 if self.lines else 0.0

    @property
    def centre(self) -> float:
        return self.x + self.width / 2


def picture(graph: Graph) -> str:
    """The graph as SVG."""
    boxes, edges = _boxes(graph)
    _assign_layers(boxes, edges)
    chains = _bend(boxes, edges)
    layers = _ordered(boxes, chains)
    _place(layers, chains)
    return _drawn(boxes, layers, edges, chains)


# --- what is in it --------------------------------------------------------------------------------------


def _boxes(graph: Graph) -> tuple[dict[str, _Box], Edges]:
    boxes: dict[str, _Box] = {}
    edges: Edges = {}
    for id in sorted(graph.scopes):
        if id or graph.members(id):
            boxes[id] = _scope_box(graph, id)
    crowds: dict[tuple[object, ...], list[str]] = {}
    for node in sorted(graph.nodes()):
        if is_client(node):
            plain = tuple((scope, _marks(edge)) for scope, edge in sorted(graph.superscopes(node).items()))
            crowds.setdefault(plain, []).append(node)
        else:
            edges.update({(node, scope): edge for scope, edge in sorted(graph.superscopes(node).items())})
    for names in crowds.values():
        key = names[0]
        shown = [_short(name) for name in names[:MAX_NAMES]]
        more = [f"and {len(names) - MAX_NAMES} more"] if len(names) > MAX_NAMES else []
        boxes[key] = _Box(key, shown + more, "client", "\n".join(names))
        edges.update({(key, scope): edge for scope, edge in sorted(graph.superscopes(key).items())})
    return boxes, edges


def _scope_box(graph: Graph, id: str) -> _Box:
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
    return _Box(id, lines, "abstract" if scope.abstract else "scope", "\n".join(title))


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


# --- where it lies --------------------------------------------------------------------------------------


def _assign_layers(boxes: dict[str, _Box], edges: Edges) -> None:
    """Each box below all its superscopes; the graph has no cycles, so this ends."""
    moved = True
    while moved:
        moved = False
        for member, scope in edges:
            if boxes[member].layer <= boxes[scope].layer:
                boxes[member].layer = boxes[scope].layer + 1
                moved = True


def _bend(boxes: dict[str, _Box], edges: Edges) -> dict[tuple[str, str], list[str]]:
    """The way of each edge from member to scope, with a bend in each layer that it skips."""
    chains = {}
    for member, scope in edges:
        chain = [member]
        for layer in range(boxes[member].layer - 1, boxes[scope].layer, -1):
            key = f"{member}\n{scope}\n{layer}"
            boxes[key] = _Box(key, layer=layer)
            chain.append(key)
        chains[member, scope] = [*chain, scope]
    return chains


def _neighbours(chains: dict[tuple[str, str], list[str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for chain in chains.values():
        for lower, upper in itertools.pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def _ordered(boxes: dict[str, _Box], chains: dict[tuple[str, str], list[str]]) -> list[list[_Box]]:
    """The layers, each ordered by where its neighbours are, downwards and upwards in turn."""
    layers: list[list[_Box]] = [[] for _ in range(max((box.layer for box in boxes.values()), default=-1) + 1)]
    for box in boxes.values():
        layers[box.layer].append(box)
    above, below = _neighbours(chains)
    for sweep in range(SWEEPS):
        beside = above if sweep % 2 == 0 else below
        rank = {box.key: number for layer in layers for number, box in enumerate(layer)}
        for layer in layers if beside is above else reversed(layers):
            wanted = {
                box.key: sum(rank[key] for key in beside[box.key]) / len(beside[box.key])
                if beside.get(box.key)
                else float(rank[box.key])
                for box in layer
            }
            layer.sort(key=lambda box: wanted[box.key])
            rank.update({box.key: number for number, box in enumerate(layer)})
    return layers


def _place(layers: list[list[_Box]], chains: dict[tuple[str, str], list[str]]) -> None:
    """Heights by layer; then every box as near to its neighbours as the others in its layer allow."""
    above, below = _neighbours(chains)
    top = 0.0
    for layer in layers:
        for box in layer:
            box.y = top
        top += max(box.height for box in layer) + RISE
        _spread(layer, {})
    known = {box.key: box for layer in layers for box in layer}
    for sweep in range(SWEEPS):
        beside = above if sweep % 2 == 0 else below
        for layer in layers if beside is above else reversed(layers):
            wanted = {}
            for box in layer:
                if others := beside.get(box.key):
                    wanted[box.key] = sum(known[key].centre for key in others) / len(others) - box.width / 2
            _spread(layer, wanted)
    left = min((box.x for box in known.values()), default=0.0)
    for box in known.values():
        box.x -= left


def _spread(layer: list[_Box], wanted: dict[str, float]) -> None:
    """Put the boxes where they want to be, in their order and without touching each other."""
    goals = [wanted.get(box.key, box.x) for box in layer]
    edge = float("-inf")
    for box, goal in zip(layer, goals, strict=True):
        box.x = max(goal, edge)
        edge = box.x + box.width + GAP
    shift = sum(goal - box.x for box, goal in zip(layer, goals, strict=True)) / len(layer)
    for box in layer:
        box.x += shift


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


def _drawn(
    boxes: dict[str, _Box], layers: list[list[_Box]], edges: Edges, chains: dict[tuple[str, str], list[str]]
) -> str:
    margin = 12.0
    width = max((box.x + box.width for box in boxes.values()), default=0.0) + 2 * margin
    height = max((box.y + box.height for box in boxes.values()), default=0.0) + 2 * margin
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-margin:.0f} {-margin:.0f} {width:.0f} {height:.0f}">',
        f"<style>{_STYLE}</style>",
        f'<rect x="{-margin:.0f}" y="{-margin:.0f}" width="{width:.0f}" height="{height:.0f}" '
        'style="fill: #ffffff; stroke: none"/>',
    ]
    rows = [max((box.height for box in layer), default=0.0) for layer in layers]
    for (member, scope), chain in chains.items():
        out.append(_line([boxes[key] for key in chain], _marks(edges[member, scope]), rows))
    out += [_box(box) for layer in layers for box in layer if box.lines]
    return "\n".join([*out, "</svg>", ""])


def _line(chain: list[_Box], marks: str, rows: list[float]) -> str:
    """From the top of the member to the bottom of the scope; what changes notifications has a colour and a dot."""
    start, end = chain[0], chain[-1]
    points = [(start.centre, start.y)]
    for bend in chain[1:-1]:
        points += [(bend.centre, bend.y + rows[bend.layer]), (bend.centre, bend.y)]
    points.append((end.centre, end.y + end.height))
    way = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    if not marks:
        return f'<g><path d="{way}"/></g>'
    x, y = (points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<g class="changed"><title>{_safe(marks)}</title><path d="{way}"/>{dot}</g>'


def _box(box: _Box) -> str:
    radius = 12 if box.style == "client" else 4
    lines = [
        f'<text x="{box.x + PADDING:.1f}" y="{box.y + 18 + number * LINE:.1f}" '
        f'class="{"fine" if number else box.style}">{_safe(line)}</text>'
        for number, line in enumerate(box.lines)
    ]
    return (
        f'<g class="{box.style}"><title>{_safe(box.title)}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{radius}"/>'
        + "".join(lines)
        + "</g>"
    )


def _safe(text: str) -> str:
    """Names come from anywhere: nothing in them is markup, and nothing in them is a control character."""
    return escape("\n".join(map(printable, text.split("\n"))))
