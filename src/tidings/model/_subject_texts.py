"""What to say of a subject of NATS or MQTT that stands where a filter belongs: `quotes.>`, `sensors/+/temp`."""

from __future__ import annotations

import re

from ._errors import TidingsError
from ._models import subject
from ._tokens import Misfit, shortened

_LEVEL = r"(?:[\w$-]+|[*+#>])"
_SUBJECT = re.compile(rf"/?{_LEVEL}(?:\.{_LEVEL})+|/?{_LEVEL}(?:/{_LEVEL})+/?|/[\w$-]+/?|[*+#>]")
_ONE, _REST = frozenset("*+"), frozenset("#>")
_NUMBER = re.compile(r"[\d.]+")


def subject_misfit(text: str) -> Misfit | None:
    """The hint for a text that looks like a subject; None if it does not, or may be meant as something else."""
    text = text.strip()
    if len(text) > 256 or not _SUBJECT.fullmatch(text):
        return None
    levels = [level for level in re.split(r"[./]", text) if level]
    if "/" not in text and not (_ONE | _REST).intersection(levels):
        return None  # a dotted name
    if any(map(_NUMBER.fullmatch, levels)):
        return None  # a calculation, more likely
    if len(levels) == 1 and levels[0] in _ONE | _REST:
        return Misfit(f"{text} is not a filter", 0, "Write TRUE to receive everything.")
    problem = f"{shortened(text)} looks like a subject, and a filter compares attributes"
    example = f"Write type = '{next((one for one in levels if one not in _ONE | _REST), 'quote')}'"
    pattern = "/" + "/".join("*" if one in _ONE else "**" if one in _REST else one for one in levels)
    try:
        selected = f", or if it is published on subjects, {subject(pattern)}"
    except TidingsError:  # wildcards where Tidings has none
        selected = ""
    return Misfit(problem, 0, f"{example}{selected}.")
