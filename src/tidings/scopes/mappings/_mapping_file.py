"""The mapping of an edge as people write it down: a JSON file with the steps of one direction, or of both."""

from __future__ import annotations

import msgspec

from tidings.model import MappingError, json_problem

from ._constant import dec_hook
from ._mapping import AnyStep, EdgeMapping, Mapping, edge_mapping


class _File(msgspec.Struct, forbid_unknown_fields=True):
    outward: tuple[AnyStep, ...] | None = None
    inward: tuple[AnyStep, ...] | None = None


def read_mapping(data: bytes | str) -> EdgeMapping:
    """The mapping in a JSON text, or `MappingError`; a direction that is left out is the inverse of the other one.

    >>> read_mapping('{"outward": [{"step": "rename", "old": "price", "new": "preis"}]}').inward
    Mapping(steps=(Rename(old='preis', new='price'),))
    """
    try:
        found = msgspec.json.decode(data, type=_File, dec_hook=dec_hook)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = json_problem(data, error)
        raise MappingError(
            f'{problem}; write {{"outward": [{{"step": "rename", "old": "price", "new": "preis"}}]}}, '
            "and the steps of docs/mappings.md in lower case"
        ) from None
    sides = [None if steps is None else Mapping(steps) for steps in (found.outward, found.inward)]
    return edge_mapping(*sides)
