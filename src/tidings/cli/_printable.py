"""Text from elsewhere for a terminal or a log: nothing in it moves the cursor, changes colours or begins a new line."""

from __future__ import annotations

import json

from tidings.model import printable, printable_lines

__all__ = ["printable", "printable_json", "printable_lines"]


def printable_json(document: str) -> str:
    """The same JSON, with escapes in the place of what cannot be printed."""
    if document.isprintable():
        return document
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in document)
