"""Text from elsewhere for a terminal or a log: nothing in it moves the cursor, changes colours or begins a new line."""

from __future__ import annotations

import json


def printable(text: str) -> str:
    """The text, with escapes in the place of what cannot be printed: what arrives is not trusted.

    >>> printable("alice\\n\\x1b[2J")
    'alice\\\\n\\\\x1b[2J'
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def printable_lines(text: str) -> str:
    """As `printable`, for text that consists of lines."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_json(document: str) -> str:
    """The same JSON, with escapes in the place of what cannot be printed."""
    if document.isprintable():
        return document
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in document)
