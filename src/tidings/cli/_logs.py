"""The log of a server: lines for eyes, or one JSON object per line for machines.

Names come from clients and neighbours, and may hold newlines or what a terminal obeys. This library makes them harmless
in its own records (see `model._printable`); here, every record that becomes a line is.
"""

from __future__ import annotations

import json
import logging
import sys
import textwrap
from datetime import UTC, datetime
from typing import Any

from ._printable import printable, printable_json, printable_lines


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "broker": self._broker,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(entry, ensure_ascii=False))


class LineFormatter(logging.Formatter):
    """One line per record, and below it the lines of an exception, which look like no record: they are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The record as one line, whatever names stand in it."""
        return printable(super().formatMessage(record))

    def formatException(self, error: Any) -> str:
        """The traceback."""
        return textwrap.indent(printable_lines(super().formatException(error)), "    ", lambda line: True)


def guard_warnings() -> None:
    """Let what commands log without a log of their own appear on stderr as one line each, too."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LineFormatter())


def set_up_logs(broker: str, level: str, *, as_json: bool) -> None:
    """Send the log to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(broker) if as_json else LineFormatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    )
    root = logging.getLogger("tidings")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
