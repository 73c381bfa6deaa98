"""Other filter models as content filters: channels, subjects, types, tuple templates, rectangles.

None of them is known to any broker. Each is an ordinary filter on reserved attributes (`_encodings`),
so it is routed, covered, merged and archived like any other, and joins with content by `&`.
"""

from __future__ import annotations

from types import EllipsisType

from ._builder import Attribute, attr
from ._encodings import CHANNEL, SUBJECT, TYPE, subject_levels
from ._errors import FilterError, ValueRefused
from ._filter import EVERYTHING, Filter


def channel(name: str) -> Filter:
    """Everything in this channel.

    >>> channel("alerts")
    Filter.parse("channel = 'alerts'")
    """
    return attr[CHANNEL] == name


def subject(pattern: str) -> Filter:
    """Everything on the subjects of this pattern: `*` is exactly one level, a last `**` the whole subtree.

    `/Exchange/**` selects `/Exchange` itself and all that lies below, at any depth.

    >>> subject("/Exchange/*/Tech")
    Filter.parse("subject.1 = 'Exchange' AND subject.2 EXISTS AND subject.3 = 'Tech' AND subject.4 IS NULL")
    >>> subject("/Exchange/**").covers(subject("/Exchange/*/Tech"))
    True
    """
    levels = subject_levels(pattern)
    whole = levels[-1] == "**"
    if whole:
        levels = levels[:-1]
    if any("*" in level and level != "*" for level in levels):
        raise ValueRefused(f"{pattern!r}: a wildcard is a whole level; use * for one, ** at the end for all")
    selected = EVERYTHING
    for at, level in enumerate(levels, 1):
        selected &= _level(at).exists() if level == "*" else _level(at) == level
    if not whole:
        return selected & _level(len(levels) + 1).is_null()
    return selected if levels else _level(1).exists()


def of_type(kind: type | str) -> Filter:
    """Every object of this class or of a class derived from it.

    >>> of_type("Quote") & (attr.price > 20)
    Filter.parse("price > 20 AND type = 'Quote'")
    """
    return attr[TYPE] == (kind if isinstance(kind, str) else kind.__name__)


def template(*fields: object) -> Filter:
    """Every tuple of this length with these fields; `...` stands for any.

    >>> print(template("quote", ..., 20))
    "1" = 'quote' AND "2" EXISTS AND "3" = 20 AND "4" IS NULL
    """
    selected = attr[str(len(fields) + 1)].is_null()
    for at, field in enumerate(fields, 1):
        position = attr[str(at)]
        selected &= position.exists() if isinstance(field, EllipsisType) else position == field
    return selected


def rectangle(name: str, x1: float, y1: float, x2: float, y2: float) -> Filter:
    """Every point, the attributes `name.x` and `name.y`, that lies in the rectangle.

    >>> rectangle("position", 0, 0, 10, 5).matches({"position": {"x": 3, "y": 4.5}})
    True
    """
    if x1 > x2 or y1 > y2:
        raise FilterError(f"the rectangle on '{name}' is empty; give the lower corner first")
    return attr[name].x.between(x1, x2) & attr[name].y.between(y1, y2)


def _level(at: int) -> Attribute:
    return attr[f"{SUBJECT}.{at}"]
