"""Other data models as attributes: objects, tuples, JSON documents, subjects, opaque bytes.

Each function gives the attributes of a notification. What selects from them, the filter models, is in
`_models`; the two sides meet in the reserved names below and nowhere else.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ._errors import ValueRefused
from ._json_problems import json_problem
from ._names import checked_name

TYPE = "type"
"""Holds what kind of thing a notification is about: one name, or the list of a class and its superclasses."""
CHANNEL = "channel"
"""Holds the name of the channel."""
SUBJECT = "subject"
"""The levels of a subject are `subject.1`, `subject.2`, ..."""
BODY = "body"
"""Holds the bytes of an opaque notification."""

MAX_NESTING = 16
"""How deep nested input may go."""
MAX_DOCUMENT = 1_048_576
"""The most characters of a JSON document."""
MAX_LEVELS = 32
"""The most levels of a subject."""

_NOT_TYPES = frozenset({"builtins", "abc", "typing", "msgspec", "msgspec._core"})
"""Modules whose classes say nothing about what a notification means."""


def object_attributes(instance: object) -> dict[str, object]:
    """The fields of a dataclass or Struct; unless `type` is one, it holds the names of the class and superclasses."""
    fields = _fields(instance)
    if fields is None or isinstance(instance, Mapping):
        kind = type(instance).__name__
        raise ValueRefused(f"a {kind} has no fields to publish; use a dataclass or a msgspec.Struct")
    attributes = _flattened(fields.items())
    return {TYPE: type_names(type(instance)), **attributes}


def type_names(kind: type) -> list[str]:
    """The names of a class and all its superclasses, the class itself first."""
    return [base.__name__ for base in kind.__mro__ if base.__module__ not in _NOT_TYPES]


def json_attributes(document: str | bytes) -> dict[str, object]:
    """The attributes of a JSON object."""
    if len(document) > MAX_DOCUMENT:
        raise ValueRefused(f"a document of {len(document):,} characters, at most {MAX_DOCUMENT:,} are allowed")
    content = read_json(document)
    if not isinstance(content, dict):
        raise ValueRefused(f"a JSON {type(content).__name__} has no names; publish an object: {{...}}")
    return document_attributes(content)


def read_json(document: str | bytes) -> Any:
    """What a JSON document holds, or `ValueRefused`, which shows the place where it is wrong."""
    try:
        return msgspec.json.decode(document)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueRefused(f"not a JSON document: {json_problem(document, error)}") from None


def document_attributes(content: Mapping[str, object]) -> dict[str, object]:
    """The attributes of a decoded document: dotted names for what is nested, lists for what stands in arrays."""
    return _flattened(content.items())


def tuple_attributes(fields: Sequence[object]) -> dict[str, object]:
    """The fields of a tuple under the names "1", "2", ..."""
    return {str(at): field for at, field in enumerate(fields, 1)}


def opaque_attributes(body: bytes, channel: str | None, subject: str | None) -> dict[str, object]:
    """Bytes, with the channel or the subject that selects them."""
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise ValueRefused(f"attribute '{BODY}': {type(body).__name__} is not bytes; encode it first")
    if channel is None and subject is None:
        raise ValueRefused("nothing could select these bytes; give a channel or a subject")
    attributes: dict[str, object] = {BODY: bytes(body)}
    if channel is not None:
        attributes[CHANNEL] = channel
    return attributes if subject is None else attributes | on_subject(subject)


def on_subject(path: str) -> dict[str, object]:
    """The attributes of a notification on this subject, one for each level.

    >>> on_subject("/Exchange/Europe")
    {'subject.1': 'Exchange', 'subject.2': 'Europe'}
    """
    levels = subject_levels(path)
    if any("*" in level for level in levels):
        raise ValueRefused(f"{path!r} has a wildcard; only a filter's subject may, name the levels here")
    return {f"{SUBJECT}.{at}": level for at, level in enumerate(levels, 1)}


def subject_levels(path: str) -> list[str]:
    """The levels of a subject or of a pattern."""
    levels = path.removeprefix("/").split("/")
    if not path.startswith("/") or not all(levels):
        raise ValueRefused(f"{path!r} is not a subject; write it like '/Exchange/Europe', without empty levels")
    if len(levels) > MAX_LEVELS:
        raise ValueRefused(f"a subject of {len(levels):,} levels is too deep; use at most {MAX_LEVELS}")
    return levels


def _fields(value: object) -> Mapping[str, object] | None:
    """The names and values in a structured value; None if it is not structured."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _flattened(items: Iterable[tuple[str, object]]) -> dict[str, object]:
    """Dotted names for nested fields, lists for whatever stands in lists; what is None is left out."""
    found: dict[str, object] = {}
    for name, value in items:
        _collect(value, checked_name(name), found, depth=1, many=False)
    return found


def _collect(value: object, name: str, found: dict[str, object], *, depth: int, many: bool) -> None:
    if depth > MAX_NESTING:
        raise ValueRefused(f"attribute '{name[:60]}': nested deeper than {MAX_NESTING} levels; flatten it")
    fields = _fields(value)
    if fields is not None:
        for key, field in fields.items():
            checked_name(key, f"attribute '{name[:60]}'")
            _collect(field, f"{name}.{key}", found, depth=depth + 1, many=many)
    elif isinstance(value, (list, tuple)):
        if not value:
            found.setdefault(name, [])
        for item in value:
            _collect(item, name, found, depth=depth + 1, many=True)
    elif value is not None:
        _put(value.value if isinstance(value, enum.Enum) else value, name, found, many)


def _put(value: object, name: str, found: dict[str, object], many: bool) -> None:
    if not many:
        if name in found:
            raise ValueRefused(f"attribute '{name}' is given twice; rename one of them")
        found[name] = value
    elif isinstance(values := found.setdefault(name, []), list):
        values.append(value)
    else:
        raise ValueRefused(f"attribute '{name}' is given twice; rename one of them")
