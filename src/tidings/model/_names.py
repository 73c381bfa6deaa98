"""The names of attributes: which there are, and how the filter language writes them."""

from __future__ import annotations

import functools
import re

from ._errors import ValueRefused
from ._text import encodable

MAX_NAME = 256
"""The most characters of an attribute's name."""
MAX_KNOWN_NAMES = 10_000
"""The most names that are remembered as checked; beyond that it is forgotten which they were."""
known_names: set[str] = set()
"""Names that have been checked."""
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


@functools.lru_cache(maxsize=MAX_KNOWN_NAMES)
def quoted(name: str) -> str:
    """The name as it stands in a filter text: plain where it can be, in double quotes elsewhere."""
    if _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def checked_name(name: object, place: str = "an attribute") -> str:
    """The name of an attribute, or `ValueRefused`."""
    if not isinstance(name, str) or not name:
        raise ValueRefused(f"{place}: {name!r} is not a name; use a string that is not empty")
    if len(name) > MAX_NAME:
        raise ValueRefused(f"{place}: a name of {len(name):,} characters, at most {MAX_NAME} are allowed")
    if not encodable(name):
        raise ValueRefused(f"{place}: the name {name!r} is not Unicode text (a lone surrogate); rename it")
    return name


def learn(name: object) -> bool:
    """Whether an attribute may have this name; if so, it is known from now on."""
    if type(name) is not str or not name or len(name) > MAX_NAME or not encodable(name):
        return False
    if len(known_names) >= MAX_KNOWN_NAMES:
        known_names.clear()
    known_names.add(name)
    return True
