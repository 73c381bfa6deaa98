"""Notifications and gaps as lines for people; `_json_lines` has those for programs."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from tidings.model import Notification, Scalar, Value
from tidings.wire import Gap

from ._printable import printable

MAX_WIDTH = 24
"""Columns are aligned up to this many characters; what is longer pushes the rest to the right."""


def gap_as_text(gap: Gap) -> Text:
    """A line that cannot be overlooked."""
    last = "an unknown number" if gap.last is None else str(gap.last)
    return Text(f"--- lost: numbers {gap.first} to {last} from broker {printable(gap.origin)} ---", style="bold red")


class Lines:
    """Makes aligned lines: each attribute gets as much room as its widest value so far."""

    def __init__(self) -> None:
        self._widths: dict[str, int] = {}

    def line(self, notification: Notification, at: datetime, *, dated: bool = False, mark: str = "") -> Text:
        """One notification, behind a time, or a day and a time; the mark comes first, if there is one."""
        time = at.strftime("%Y-%m-%d %H:%M:%S.%f" if dated else "%H:%M:%S.%f")[:-3]
        text = Text(f"{mark}  {time}" if mark else time, style="dim", no_wrap=True)
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
