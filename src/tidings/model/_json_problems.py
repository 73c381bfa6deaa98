"""What is wrong with a JSON document, in plain words and with the value: the decoder's own words show neither."""

from __future__ import annotations

import re
from typing import Any

import msgspec

SHOWN = 40
"""The most characters of a document that an error shows."""
_PLACE = re.compile(r" - at `\$(?P<path>.*)`$")
_BYTE = re.compile(r"\(byte (\d+)\)")
_MISSING = re.compile(r"Object missing required field `(.+?)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`")
_TYPES = re.compile(r"Expected `(?P<wanted>.+?)`, got `(?P<got>.+?)`")
_STEPS = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]")
_KINDS = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false", "null": "null"}
_TOO_DEEP = "it is nested too deeply; flatten it"
_KINDS |= {"array": "a list", "object": "an object"}


def json_problem(document: str | bytes, error: Exception) -> str:
    """What is wrong with a document that the decoder has refused.

    >>> order = msgspec.defstruct("Order", [("n", int)])
    >>> try:
    ...     msgspec.json.decode('{"n": "x"}', type=order)
    ... except msgspec.MsgspecError as error:
    ...     json_problem('{"n": "x"}', error)
    'n: "x" is a text, not a whole number'
    """
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text; save it as UTF-8"
    text = document.encode(errors="replace") if isinstance(document, str) else document
    told = str(error)
    if isinstance(error, msgspec.ValidationError) and "out of range" not in told:
        return _invalid(text, told)
    return _unreadable(text, told) if isinstance(error, msgspec.MsgspecError) else told


def _unreadable(text: bytes, told: str) -> str:
    if text.lstrip()[:1] not in (b"{", b"["):
        return f"it begins with '{_shown(text)}'; write an object, like " + '{"price": 182.4}'
    if found := _BYTE.search(told):
        at = int(found[1])
        return f"'{_shown(text[at:])}' does not fit at byte {at + 1:,}; names and texts stand in double quotes"
    if "truncated" in told:
        return f"it ends too early, after '{_shown(text[-SHOWN:])}'; close all quotes and brackets"
    if "range" in told:
        return "a number is too large for a float; write it as a text, in double quotes"
    return told


def _invalid(text: bytes, told: str) -> str:
    """The document is JSON, and something in it is not what belongs there."""
    found = _PLACE.search(told)
    path = found["path"] if found else ""
    if "..." in path:  # some member of an object: the decoder does not say which
        path = path.partition("[...]")[0]
    place = f"{path.removeprefix('.')}: " if path else ""
    if missing := _MISSING.search(told):
        return f"{place}'{missing[1]}' is missing"
    if unknown := _UNKNOWN.search(told):
        return f"{place}there is no '{unknown[1]}' here"
    try:
        value = _shown(msgspec.json.encode(_at(msgspec.json.decode(text), path)))
        value = f"something in {value}" if "[...]" in told else value
    except msgspec.MsgspecError as error:  # behind the place that the decoder has reached
        return _unreadable(text, str(error))
    except RecursionError:
        return _TOO_DEEP
    if types := _TYPES.search(told):
        wanted = " or ".join(_KINDS.get(kind, kind) for kind in types["wanted"].split(" | "))
        return f"{place}{value} is {_KINDS.get(types['got'], types['got'])}, not {wanted}"
    if told.startswith("Invalid"):
        return f"{place}{value} is not known here"
    return f"{place}{_PLACE.sub('', told)}"  # the words of a hook of our own


def _at(content: Any, path: str) -> Any:
    """The value at a place, or as near to it as there is one."""
    for step in _STEPS.finditer(path):
        try:
            content = content[step["name"] if step["name"] is not None else int(step["index"])]
        except (KeyError, IndexError, TypeError):
            return content
    return content


def _shown(text: bytes) -> str:
    shown = text.decode(errors="replace")
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
