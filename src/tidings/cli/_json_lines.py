"""One notification as one line of JSON, and back: what `sub --json` prints, `pub -` publishes unchanged.

    {"symbol":"SAP","price":182.4,"at":{"$time":"2026-07-01T10:00:00Z"},"$event":{"origin":"berlin",...}}

Attributes are members of the object. JSON has no bytes, times and locations, so each of these is an object with one
member, which names the type. `$event` says where the notification comes from. A broker stamps that, so `pub -` ignores
it. A loss is a line of its own, `{"$gap":{...}}`. An attribute called `$event` or `$gap` gets one more `$`.
docs/operations.md is the contract.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from tidings.model import Identity, Location, Notification, Scalar, Value, ValueRefused, read_json
from tidings.wire import Gap

from ._printable import printable_json
from ._times import as_iso

EVENT = "$event"
GAP = "$gap"
_RESERVED = re.compile(r"\$+(event|gap)")
_ESCAPED = re.compile(r"\$\$+(event|gap)")


def as_line(notification: Notification, identity: Identity, **more: Any) -> str:
    """One line for a notification; `more` is told of the event beside its identity."""
    members = {_member(name): _written(value) for name, value in notification.items()}
    event = {
        "origin": identity.origin,
        "epoch": identity.epoch,
        "seq": identity.seq,
        "publisher": identity.publisher,
        "published_at": as_iso(identity.published_at),
        **more,
    }
    return printable_json(msgspec.json.encode({**members, EVENT: event}).decode())


def plain_line(notification: Notification) -> str:
    """One line for a notification that is no event."""
    members = {_member(name): _written(value) for name, value in notification.items()}
    return printable_json(msgspec.json.encode(members).decode())


def gap_as_line(gap: Gap) -> str:
    """One line for a loss, which no notification looks like."""
    inside = {"origin": gap.origin, "epoch": gap.epoch, "first": gap.first, "last": gap.last}
    return printable_json(msgspec.json.encode({GAP: inside}).decode())


def read_line(line: bytes | str) -> Notification | None:
    """The notification of a line; None if the line tells of a loss. `ValueRefused` if it is neither.

    >>> read_line('{"n": 1, "code": {"$bytes": "AP8="}, "$event": {"origin": "b", "epoch": 1, "seq": 2}}')
    Notification(n=1, code=b'\\x00\\xff')
    """
    content = read_json(line)
    if not isinstance(content, dict):
        raise ValueRefused(f'{_shown(content)} has no names; write a JSON object, like {{"price": 182.4}}')
    if GAP in content:
        _check_reserved(GAP, content[GAP], {"origin", "epoch", "first", "last"})
        return None
    if EVENT in content:
        _check_reserved(EVENT, content.pop(EVENT), {"origin", "epoch", "seq"})
    return Notification.from_document({_name(member): typed(value, member) for member, value in content.items()})


def typed(value: Any, place: str) -> Any:
    """A decoded JSON value with bytes, times and locations in the place of the objects that stand for them."""
    if isinstance(value, list):
        return [typed(item, place) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, inside),) = value.items()
        if name in _TYPES:
            return _of_type(name, inside, place)
    return {name: typed(inside, f"{place}.{name}") for name, inside in value.items()}


def _check_reserved(member: str, inside: Any, needed: set[str]) -> None:
    if not isinstance(inside, dict) or not needed <= inside.keys():
        raise ValueRefused(
            f"{_shown(inside)} is not what `tidings sub --json` prints as '{member}'; leave it out, or write "
            f"'${member}' for an attribute of that name"
        )


def _member(name: str) -> str:
    return f"${name}" if _RESERVED.fullmatch(name) else name


def _name(member: str) -> str:
    return member[1:] if _ESCAPED.fullmatch(member) else member


def _written(value: Value) -> Any:
    return [_written_scalar(item) for item in value] if isinstance(value, tuple) else _written_scalar(value)


def _written_scalar(value: Scalar) -> Any:
    match value:
        case bytes():
            return {"$bytes": base64.b64encode(value).decode()}
        case datetime():
            return {"$time": value.isoformat().replace("+00:00", "Z")}
        case Location():
            return {"$location": str(value)}
        case _:
            return value


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment


_TYPES: dict[str, tuple[Callable[[str], Scalar], str]] = {
    "$bytes": (_bytes, "base64, like AP8="),
    "$time": (_time, "ISO 8601 with a zone, like 2026-07-01T10:00:00Z"),
    "$location": (Location, "a path, like /berlin/campus"),
}


def _of_type(name: str, inside: Any, place: str) -> Scalar:
    read, form = _TYPES[name]
    try:
        if isinstance(inside, str):
            return read(inside)
    except (ValueError, binascii.Error, ValueRefused):
        pass
    raise ValueRefused(f"attribute '{place}': {_shown(inside)} is not a value of {name}; write {form}")


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."
