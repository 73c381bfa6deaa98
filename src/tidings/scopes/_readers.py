"""Readers: who sees what passes a filter, and what one client sees. Complete lists, each entry with its witness.

Theory of operation
-------------------
What one client publishes reaches all others by one flow through the graph (see `_flow`). What anybody publishes reaches
them by one flow, too, which starts at all clients at once, but for one thing: it does not tell what a reader published
itself. So the clients are numbered, and for each digit of their numbers, in base two, one flow starts at those that
have it and one at those that have not: whoever differs from a reader differs in some digit. A client needs none of this
if another one publishes on the same terms, as what it shows itself is shown by the other one, too. So only those that
publish like nobody else are numbered. Clients with equal memberships are one class in all this (see `_classes`).

A publication that one reader sees is tried for the next one, if their filters speak of the same attributes.

An entry is listed if a witness was found, or if neither a witness was found nor a proof that there is none; then it
is uncertain, and says so.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from tidings.model import EVERYTHING, Filter, Notification, ScopeError

from ._attributes import NO_ATTRIBUTES, AnyAttributes, Attributes
from ._classes import ClientClass, client_classes, publishing_terms
from ._exposure import Exposure
from ._flow import Effort, Flow, OutOfEffort
from ._forms import Reduced, reduced
from ._graph import Graph, is_client
from ._sights import sample

MAX_RECENT = 8
"""How many publications that others see are tried for the next reader."""
READ_EFFORT = 20_000_000
"""The most edges that are crossed for one list; a graph would have to be far beyond its limits to need them."""


class Reading(msgspec.Struct, frozen=True):
    """Somebody who sees something. "@" stands for all clients that nobody ever made a member of anything."""

    reader: str
    source: str
    """Whose publications; "": anybody's."""
    filter: str
    """What of all that is published there: by all ways together, with the mappings on them."""
    witness: AnyAttributes = NO_ATTRIBUTES
    """A publication that is seen."""
    seen: tuple[AnyAttributes, ...] = ()
    """In which forms it is."""
    readers: tuple[str, ...] = ()
    """The clients that this is true of, if it is of several: all have the same memberships."""
    sources: tuple[str, ...] = ()
    certain: bool = True
    """Otherwise no publication was found that is seen, and no proof that there is none."""


def who_sees(graph: Graph, filter: Filter = EVERYTHING, source: str | None = None) -> list[Reading]:
    """The clients that see publications which pass a filter: those of one client, or of anybody but themselves.

    Whether they subscribe to them is their own business.

    >>> from tidings.scopes import OPEN, CreateScope, Interface, Join, apply
    >>> changes = (CreateScope("S", OPEN), Join("@a", "S"), Join("@b", "S", selective=Interface.parse(input="n > 3")))
    >>> [(one.reader, one.filter) for one in who_sees(apply(Graph(), changes), Filter.parse("n < 9"), "@a")]
    [('@b', 'n > 3 AND n < 9')]
    """
    if source is not None:
        _check_client(source)
    classes = list(client_classes(graph))
    with _bounded():
        flow = Flow(graph, Effort(READ_EFFORT))
        found = _of_anybody(flow, classes, filter) if source is None else _of_one(flow, classes, source, filter)
    seen = _Seen()
    entries = ((one, seen.entry(found[one.one])) for one in classes if one.one in found)
    return [
        msgspec.structs.replace(entry, source=source or "", **_named("reader", [m for m in one.members if m != source]))
        for one, entry in entries
        if entry is not None
    ]


def what_sees(graph: Graph, reader: str, filter: Filter = EVERYTHING) -> list[Reading]:
    """What one client, or scope, sees of publications that pass a filter: whose, and which of them."""
    if not is_client(reader):
        graph.scope(reader)
    seen = _Seen()
    found: list[Reading] = []
    with _bounded():
        flow = Flow(graph, Effort(READ_EFFORT))
        toward = flow.above([reader])
        for one in client_classes(graph):
            for source in _but(one, reader):
                exposure = flow.exposures(source, [reader], toward, filter).get(reader)
                entry = None if exposure is None else seen.entry(exposure)
                if entry is not None:
                    others = [member for member in one.members if member != reader]
                    found.append(msgspec.structs.replace(entry, reader=reader, **_named("source", others)))
    return found


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    try:
        yield
    except OutOfEffort:
        raise ScopeError(
            "the ways through this graph are too many to follow; ask about one client, or use fewer mappings"
        ) from None


def _check_client(node: str) -> None:
    if not is_client(node):
        raise ScopeError(f"'{node}' is no client; write '@' and the client's name, as only clients publish")


def _but(one: ClientClass, other: str) -> list[str]:
    """A client of a class that is not a given one; none, if it is the only one."""
    return [node for node in (one.one, one.other) if node is not None and node != other][:1]


def _named(what: str, members: list[str]) -> dict[str, object]:
    return {what: members[0], f"{what}s": tuple(members) if len(members) > 1 else ()}


def _of_one(flow: Flow, classes: list[ClientClass], source: str, published: Filter) -> dict[str, Exposure]:
    """What each class sees of what one client publishes."""
    targets = {target: one.one for one in classes for target in _but(one, source)}
    found = flow.exposures(source, targets, published=published)
    return {targets[target]: exposure for target, exposure in found.items()}


def _of_anybody(flow: Flow, classes: list[ClientClass], published: Filter) -> dict[str, Exposure]:
    """What each class sees of what others publish, itself included where there are several of it."""
    alike: dict[object, list[ClientClass]] = {}
    for one in classes:
        alike.setdefault(publishing_terms(flow.graph, one.one), []).append(one)
    several = [one.one for some in alike.values() if len(some) > 1 or some[0].other is not None for one in some]
    alone = [some[0].one for some in alike.values() if len(some) == 1 and some[0].other is None]
    shared = [some[0].one for some in alike.values() if len(some) > 1 or some[0].other is not None]
    joint = flow.joint_exposures([*shared, *alone], several, published)
    parts: dict[str, list[Exposure]] = {node: [] for node in alone}
    digits = max(len(alone) - 1, 0).bit_length()
    for digit in range(digits):
        for value in (0, 1):
            readers = [node for number, node in enumerate(alone) if number >> digit & 1 == value]
            others = [node for number, node in enumerate(alone) if number >> digit & 1 != value]
            for node, exposure in flow.joint_exposures([*shared, *others], readers, published).items():
                parts[node].append(exposure)
    if not digits and alone:
        parts = {node: [one] for node, one in flow.joint_exposures(shared, alone, published).items()}
    return joint | {node: flow.united(some) for node, some in parts.items() if some}


_Witness: TypeAlias = tuple[Notification, Attributes]


class _Seen:
    """What exposures show; many are equal, so it is remembered, and many show the same publication."""

    def __init__(self) -> None:
        self._known: dict[Exposure, Reading | None] = {}
        self._witnesses: dict[frozenset[str], deque[_Witness]] = {}
        """By the attributes that filters speak of, the last publications that were seen."""

    def entry(self, exposure: Exposure) -> Reading | None:
        """What is seen, whoever sees it; None if nothing is."""
        if exposure not in self._known:
            self._known[exposure] = self._entry(exposure)
        return self._known[exposure]

    def _entry(self, exposure: Exposure) -> Reading | None:
        strands = [one for one in map(reduced, exposure.strands) if not one.nothing]
        if not strands and exposure.whole:
            return None
        text = " or ".join(dict.fromkeys(map(_text, strands)))
        if not all(strand.is_known for strand in exposure.strands):
            return Reading("", "", text, certain=False)
        names = frozenset(name for one in strands for part in one.filter.conjunctions for name in part.by_name)
        recent = self._witnesses.setdefault(names, deque(maxlen=MAX_RECENT))
        example = next((one for one in recent if exposure.shown(one[0])), None)
        if example is None:
            made = sample((one.filter for one in strands), strands, lambda made: bool(exposure.shown(made)))
            if made is None:
                return Reading("", "", text, certain=False)
            example = made, Attributes(made.attributes)
            recent.appendleft(example)
        witness, told = example
        forms = exposure.shown(witness)
        seen = tuple(told if form is witness else Attributes(form.attributes) for form in dict.fromkeys(forms))
        return Reading("", "", text, told, seen)


def _text(one: Reduced) -> str:
    mapped = ", ".join(repr(step) for mapping in one.strand.mappings for step in mapping.steps)
    return f"{one.filter}{f', mapped by {mapped}' if mapped else ''}"


def readers_named(readings: Iterable[Reading]) -> set[str]:
    """All clients of a list."""
    return {name for one in readings for name in one.readers or (one.reader,)}
