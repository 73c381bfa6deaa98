"""The layout of a picture of the scope graph: superscopes above their members, and no line through a box.

A node lies below all its superscopes; an edge that skips layers gets a bend in each of them; the order in a layer
follows the neighbours in the layers beside it. Letters are counted, not measured: the font has one width.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from rich.cells import cell_len

LETTER, LINE = 7.8, 16.0
"""The width of a letter and the height of a line, in pixels, at a font size of 12."""
PADDING, GAP, RISE = 10.0, 22.0, 56.0
"""Inside a box, between two boxes, between two layers."""
SWEEPS = 7
"""How often the layers are improved; an odd number, so that the order ends downwards, as one reads it."""

Edge: TypeAlias = tuple[str, str]
"""From a member to its scope."""
Chains: TypeAlias = dict[Edge, list[str]]
"""The boxes that an edge passes, bends included, from member to scope."""


@dataclass(slots=True)
class Box:
    """A node of the picture: a scope, some clients, or the bend of an edge, which has no lines."""

    key: str
    lines: list[str] = field(default_factory=list)
    style: str = "bend"
    title: str = ""
    state: str = ""
    """What becomes of it, in a picture of a difference; else ""."""
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


def laid_out(boxes: dict[str, Box], edges: Iterable[Edge], gone: Iterable[Edge] = ()) -> tuple[list[list[Box]], Chains]:
    """Give every box its place; the layers from the top, and the ways of the edges.

    The edges have no cycle. Those that are `gone` may have one with them, and then point downwards.
    """
    standing, more = list(edges), list(gone)
    _assign_layers(boxes, _without_cycles(standing, more))
    chains = _bend(boxes, [*standing, *more])
    layers = _ordered(boxes, chains)
    _place(layers, chains)
    return layers, chains


def _without_cycles(standing: list[Edge], gone: list[Edge]) -> list[Edge]:
    """The standing edges, and those of the others that close no cycle."""
    above: dict[str, list[str]] = {}
    for member, scope in standing:
        above.setdefault(member, []).append(scope)
    kept = [*standing]
    for member, scope in gone:
        seen, stack = {scope}, [scope]
        while stack:
            fresh = [node for node in above.get(stack.pop(), ()) if node not in seen]
            seen.update(fresh)
            stack += fresh
        if member not in seen:
            above.setdefault(member, []).append(scope)
            kept.append((member, scope))
    return kept


def _assign_layers(boxes: dict[str, Box], edges: Iterable[Edge]) -> None:
    """Each box below all its superscopes; the graph has no cycles, so this ends."""
    moved = True
    while moved:
        moved = False
        for member, scope in edges:
            if boxes[member].layer <= boxes[scope].layer:
                boxes[member].layer = boxes[scope].layer + 1
                moved = True


def _bend(boxes: dict[str, Box], edges: Iterable[Edge]) -> Chains:
    """The way of each edge from member to scope, with a bend in each layer that it skips."""
    chains = {}
    for member, scope in edges:
        chain = [member]
        for layer in range(boxes[member].layer - 1, boxes[scope].layer, -1):
            key = f"{member}\n{scope}\n{layer}"
            boxes[key] = Box(key, layer=layer)
            chain.append(key)
        chains[member, scope] = [*chain, scope]
    return chains


def _neighbours(chains: Chains) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for chain in chains.values():
        for lower, upper in itertools.pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def _ordered(boxes: dict[str, Box], chains: Chains) -> list[list[Box]]:
    """The layers, each ordered by where its neighbours are, downwards and upwards in turn."""
    layers: list[list[Box]] = [[] for _ in range(max((box.layer for box in boxes.values()), default=-1) + 1)]
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


def _place(layers: list[list[Box]], chains: Chains) -> None:
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


def _spread(layer: list[Box], wanted: dict[str, float]) -> None:
    """Put the boxes where they want to be, in their order and without touching each other."""
    goals = [wanted.get(box.key, box.x) for box in layer]
    edge = float("-inf")
    for box, goal in zip(layer, goals, strict=True):
        box.x = max(goal, edge)
        edge = box.x + box.width + GAP
    shift = sum(goal - box.x for box, goal in zip(layer, goals, strict=True)) / len(layer)
    for box in layer:
        box.x += shift
