"""Text from elsewhere for a terminal or a log: nothing in it moves the cursor, changes colours or begins a new line.

Names, reasons and addresses come from clients, brokers and neighbours, and stand in what this library logs. Whoever
embeds it has a logging set-up of its own, which writes them as they are. So they are made harmless where they enter a
record: by a filter on each logger of this library.
"""

from __future__ import annotations

import logging
import textwrap


def printable(text: str) -> str:
    """The text, with escapes in the place of what cannot be printed: what arrives is not trusted.

    >>> printable("alice\\n\\x1b[2J")
    'alice\\\\n\\\\x1b[2J'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """As `printable`, for text that consists of lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


class _Guard(logging.Filter):
    """Lets every record pass, with its arguments and its traceback made printable."""

    _formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(map(_harmless, record.args))
        if record.exc_info and not record.exc_text:
            lines = printable_lines(self._formatter.formatException(record.exc_info))
            record.exc_text = textwrap.indent(lines, "    ", lambda line: True)  # no line of it looks like a record
        return True


_GUARD = _Guard()


def guard_log(name: str) -> None:
    """Make harmless what is logged to the logger of this name, whoever writes it down."""
    logging.getLogger(name).addFilter(_GUARD)


def is_guarded(logger: logging.Logger) -> bool:
    """Whether what is logged to a logger is made harmless."""
    return _GUARD in logger.filters


def _harmless(value: object) -> object:
    return value if isinstance(value, (int, float)) else printable(str(value))
