"""How the filter language writes the name of an attribute."""

from __future__ import annotations

import re

KEYWORDS = frozenset(
    (
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "ESCAPE",
        "BETWEEN",
        "IS",
        "NULL",
        "EXISTS",
        "WITHIN",
        "TRUE",
        "FALSE",
        "MYLOC",
    )
)
"""Words that a name must be quoted to be. (TIMESTAMP, LOCATION and X are words only before a quote.)"""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")


def quoted(name: str) -> str:
    """The name as it stands in a filter text: plain where it can be, in double quotes elsewhere."""
    if _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
