"""Decoding parts of a body: a few attributes, and the others are skipped, which is several times as fast."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec

from tidings.model import Filter, Value

from ._body import decode_body, ext_hook

_AWKWARD = re.compile(r'["\\\x00-\x1f]')
"""What the decoder does not take in the name of a field."""


def attribute_decoder(names: Iterable[str]) -> Callable[[bytes], list[Value | None]]:
    """A function from a body to the values of these attributes, None for those that are missing.

    >>> from tidings.wire import encode_body
    >>> attribute_decoder(["price", "volume"])(encode_body({"symbol": "SAP", "price": 182.4}))
    [182.4, None]
    """
    wanted = list(names)
    decode = _decoder(wanted)
    if decode is None:
        return lambda body: list(map(decode_body(body).attributes.get, wanted))
    fields = [f"f{at}" for at in range(len(wanted))]

    def look(body: bytes) -> list[Value | None]:
        seen = decode(body)
        values = [getattr(seen, field) for field in fields]
        for at, value in enumerate(values):
            if type(value) is list:
                values[at] = tuple(value)
        return values

    return look


def attribute_decoder_of_many(names: Iterable[str]) -> Callable[[Iterable[bytes]], list[list[Value | None]]]:
    """As `attribute_decoder`, from many bodies to one list of values for each attribute: faster than one by one.

    >>> from tidings.wire import encode_body
    >>> attribute_decoder_of_many(["price", "tags"])([encode_body({"price": 1.5}), encode_body({"tags": ["a"]})])
    [[1.5, None], [None, ('a',)]]
    """
    wanted = list(names)
    decode = _decoder(wanted)
    if decode is None or not wanted:
        look = attribute_decoder(wanted)
        return lambda bodies: [list(column) for column in zip(*map(look, bodies), strict=True)]
    getters = [attrgetter(f"f{at}") for at in range(len(wanted))]

    def look_at_many(bodies: Iterable[bytes]) -> list[list[Value | None]]:
        seen = list(map(decode, bodies))
        columns = [list(map(get, seen)) for get in getters]
        return [_with_tuples(column) if list in set(map(type, column)) else column for column in columns]

    return look_at_many


def _with_tuples(column: list[Any]) -> list[Any]:
    return [tuple(value) if type(value) is list else value for value in column]


def body_test(filter: Filter) -> Callable[[bytes], bool]:
    """A function that tells whether the notification in a body passes, as `filter.matches` does.

    >>> from tidings.wire import encode_body
    >>> body_test(Filter.parse("price > 100"))(encode_body({"symbol": "SAP", "price": 182.4}))
    True
    """
    names = list(dict.fromkeys(one.name for conjunction in filter.conjunctions for one in conjunction))
    if any(not len(conjunction) for conjunction in filter.conjunctions):
        return lambda body: True
    look = attribute_decoder(names)
    place = {name: at for at, name in enumerate(names)}
    tests = [[(place[one.name], one.passes) for one in conjunction] for conjunction in filter.conjunctions]

    def passes(body: bytes) -> bool:
        values = look(body)
        for test in tests:
            for at, constraint_passes in test:
                if not constraint_passes(values[at]):
                    break
            else:
                return True
        return False

    return passes


def _decoder(names: list[str]) -> Callable[[bytes], Any] | None:
    if any(map(_AWKWARD.search, names)):
        return None
    fields = [(f"f{at}", Any, None) for at in range(len(names))]
    renamed = {f"f{at}": name for at, name in enumerate(names)}
    seen = msgspec.defstruct("Glance", fields, rename=renamed, gc=False)
    return msgspec.msgpack.Decoder(seen, ext_hook=ext_hook).decode
