"""Notifications and gaps as lines, for eyes and for scripts."""

from __future__ import annotations

import json
from datetime import datetime

import msgspec
from rich.text import Text

from tidings.model import Location, Notification, Scalar, Value
from tidings.wire import Gap

from ._printable import printable, printable_json

MAX_WIDTH = 24
"""Columns are aligned up to this many characters; what is longer pushes the rest to the right."""


def _enc_hook(value: object) -> str:
    if isinstance(value, Location):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} is not a value")


def as_json(notification: Notification) -> str:
    """One line of JSON; times are in ISO 8601, bytes in base64."""
    return printable_json(msgspec.json.encode(notification.attributes, enc_hook=_enc_hook).decode())


def gap_as_json(gap: Gap) -> str:
    """One line of JSON that no notification looks like."""
    inside = {"origin": gap.origin, "epoch": gap.epoch, "first": gap.first, "last": gap.last}
    return json.dumps({"$gap": inside})


def gap_as_text(gap: Gap) -> Text:
    """A line that cannot be overlooked."""
    last = "an unknown end" if gap.last is None else str(gap.last)
    return Text(f"--- lost: numbers {gap.first} to {last} of broker {printable(gap.origin)} ---", style="bold red")


class Lines:
    """Makes aligned lines: each attribute gets as much room as its widest value so far."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def line(self, notification: Notification, at: datetime, *, dated: bool = False) -> Text:
        """One notification, behind a time, or a day and a time."""
        text = Text(at.strftime("%Y-%m-%d %H:%M:%S.%f" if dated else "%H:%M:%S.%f")[:-3], style="dim", no_wrap=True)
        for name, value in notification.items():
            shown = _shown(value)
            width = max(self._widths.get(name, 0), min(len(shown), MAX_WIDTH))
            self._widths[name] = width
            text.append("  ")
            text.append(f"{printable(name)}=", style="not dim cyan")
            text.append(shown, style="not dim bold")
            text.append(" " * (width - len(shown)))
        text.rstrip()
        return text


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(_scalar, value))}]"
    return _scalar(value)


def _scalar(value: Scalar) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return printable(str(value))
