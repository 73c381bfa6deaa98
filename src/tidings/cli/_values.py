"""`name=value` on the command line: the form of a value tells its type.

price=182.4            a float                 urgent=true        a boolean
count=7                an integer              tags=[a,b,"c,d"]   a list of these
symbol=SAP             a text                  code='"7"'         a text, whatever it looks like
at=2026-07-01T12:00Z   a time, with its zone   zip=01067          a text: no number starts with 0
venue='{"city":"Rome"}'  venue.city, a text    raw='{"$bytes":"AP8="}'  bytes, as in `_json_lines`

What looks like JSON means what JSON means. null, nan and inf are no values, and are refused: a text of that form stands
in double quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime

from tidings.model import Notification, ValueRefused, read_json

from ._errors import UsageError
from ._json_lines import typed

MAX_DIGITS = 400
"""The most characters of a number, as in filters."""
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?([Zz]|[+-]\d\d:\d\d)")
_NO_NUMBER = re.compile(r"[+-]?(nan|NaN|NAN|inf|Inf|INF|infinity|Infinity)")
_ITEM = re.compile(r'\s*("(?:\\.|[^"\\])*"|[^,"]*)\s*(,|$)')


def notification_of(words: Iterable[str]) -> Notification:
    """The notification that some words of the form name=value make.

    >>> notification_of(["symbol=SAP", "price=182.4", "tags=[a,b]"])
    Notification(symbol='SAP', price=182.4, tags=('a', 'b'))
    """
    attributes: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"'{word}' is not of the form name=value, like price=182.4")
        if name in attributes:
            raise UsageError(f"'{name}' is given twice; write a list as {name}=[a,b]")
        try:
            attributes[name] = value_of(value)
        except (UsageError, ValueRefused) as error:
            raise UsageError(f"{name}: {error}") from None
    return Notification.from_document(attributes)


def value_of(text: str) -> object:
    """The value that a text stands for; nested ones are those of JSON."""
    if text.startswith("{") and text.endswith("}"):
        return _of_json(read_json(text), text)
    if text.startswith("[") and text.endswith("]"):
        try:
            content = read_json(text)
        except ValueRefused:
            return _list(text[1:-1])
        return _of_json(content, text)
    return _scalar(text)


def _of_json(content: object, text: str) -> object:
    if content == {}:
        raise UsageError("{} holds no attribute; leave it out")
    if _holds_null(content):
        raise UsageError(f"null in {text} is not a value; leave it out")
    return typed(content, "value")


def _holds_null(content: object) -> bool:
    if isinstance(content, dict):
        return any(map(_holds_null, content.values()))
    return any(map(_holds_null, content)) if isinstance(content, list) else content is None


def _scalar(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    if text == "null":
        raise UsageError(f"null is not a value; leave the attribute out, or write {_quoted(text)} for the text")
    if _NO_NUMBER.fullmatch(text):
        raise UsageError(
            f"{text} compares with nothing; leave the attribute out, or write {_quoted(text)} for the text"
        )
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_DIGITS:
            remedy = "write it as a float, like 1e20, or as a text: '\"...\"'"
            raise UsageError(f"{text[:20]}... is a number of {len(text):,} digits, too many; {remedy}")
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _TIME.fullmatch(text):
        return datetime.fromisoformat(text.upper())
    if len(text) >= 2 and text.startswith('"') and text.endswith('"'):
        try:
            return json.loads(text)
        except ValueError:
            raise UsageError(f'{text} is not a text in double quotes; write \\" for a quote inside') from None
    return text


def _quoted(text: str) -> str:
    return f"'\"{text}\"'"


def _list(inside: str) -> list[object]:
    items: list[object] = []
    at = 0
    while at < len(inside):
        match = _ITEM.match(inside, at)
        if match is None:
            raise UsageError(f"[{inside}] is not a list; write [a,b], and quotes around what has a comma inside")
        items.append(_scalar(match[1].strip()))
        at = match.end()
    return items
