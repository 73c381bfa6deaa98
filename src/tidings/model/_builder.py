"""Filters written in Python: `(attr.symbol == "SAP") & (attr.price > 20)`.

The builder makes the same objects as the language, with the same checks, and needs no quoting: prefer
it wherever a constant comes from a variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._errors import FilterError, ValueRefused
from ._filter import Filter
from ._limits import checked
from ._location import MAX_DEPTH, Location
from ._names import checked_name
from ._values import MAX_LIST, Scalar, checked_scalar
from .operators import Contains, Equal, Exists, IsNull, Member, MyLoc, Prefix, Range, Suffix, Within, like


class Attribute:
    """An attribute of notifications. Comparing it with a value makes a `Filter`.

    >>> Attribute("price") > 20
    Filter.parse('price > 20')
    """

    __slots__ = ("_name",)
    __hash__ = None  # type: ignore[assignment]  # == gives a filter, so an attribute cannot be a key

    def __init__(self, name: str) -> None:
        self._name = checked_name(name)

    def __getattr__(self, part: str) -> Attribute:
        if part.startswith("__"):  # Python asking for a protocol, not a user for an attribute
            raise AttributeError(part)
        return Attribute(f"{self._name}.{part}")

    def __getitem__(self, part: str) -> Attribute:
        return Attribute(f"{self._name}.{checked_name(part)}")

    def __eq__(self, value: object) -> Filter:  # type: ignore[override]
        return _filter(Equal(self._name, self._checked(value)))

    def __ne__(self, value: object) -> Filter:  # type: ignore[override]
        return _filter(Negated(Equal(self._name, self._checked(value))))

    def __lt__(self, value: object) -> Filter:
        return _filter(Range(self._name, high=self._checked(value), high_open=True))

    def __le__(self, value: object) -> Filter:
        return _filter(Range(self._name, high=self._checked(value)))

    def __gt__(self, value: object) -> Filter:
        return _filter(Range(self._name, low=self._checked(value), low_open=True))

    def __ge__(self, value: object) -> Filter:
        return _filter(Range(self._name, low=self._checked(value)))

    def between(self, low: object, high: object) -> Filter:
        """Pass values of at least `low` and at most `high`."""
        return _filter(Range(self._name, self._checked(low), self._checked(high)))

    def isin(self, values: Iterable[object]) -> Filter:
        """Pass these values, which are all of one kind."""
        if isinstance(values, (str, bytes)):
            raise FilterError(
                f"'{self._name}': isin got one text; give a list of values, or use .contains for a part of a text"
            )
        operands = tuple(self._checked(value) for value in values)
        if len(operands) > MAX_LIST:
            raise FilterError(f"'{self._name}': isin got {len(operands):,} values; use at most {MAX_LIST:,}")
        return _filter(Member(self._name, operands))

    def like(self, pattern: str, escape: str | None = None) -> Filter:
        """Pass text that fits this pattern: `%` stands for any text, `_` for one character."""
        return _filter(like(self._name, self._text(pattern), None if escape is None else self._text(escape)))

    def startswith(self, text: str) -> Filter:
        """Pass text that starts with this text."""
        return _filter(Prefix(self._name, self._text(text)))

    def endswith(self, text: str) -> Filter:
        """Pass text that ends with this text."""
        return _filter(Suffix(self._name, text) if self._text(text) else Prefix(self._name, ""))

    def contains(self, text: str) -> Filter:
        """Pass text that contains this text. (For a list that contains an element, use `==`.)"""
        return _filter(Contains(self._name, text) if self._text(text) else Prefix(self._name, ""))

    def exists(self) -> Filter:
        """Pass any value at all."""
        return _filter(Exists(self._name))

    def is_null(self) -> Filter:
        """Pass notifications without this attribute."""
        return _filter(IsNull(self._name))

    def within(self, place: Location | str | MyLoc | MyLocMarker) -> Filter:
        """Pass locations at or below this one, or around the client: `within(myloc)`, `within(myloc(2))`."""
        if isinstance(place, MyLocMarker):
            place = place(0)
        if not isinstance(place, (Location, MyLoc)):
            try:
                place = Location(place)
            except ValueRefused as error:
                raise FilterError(f"'{self._name}': {error}") from None
        return _filter(Within(self._name, place))

    def _checked(self, value: object) -> Scalar:
        if value is None:
            raise FilterError(f"'{self._name}' compared with None; use .is_null() or .exists()")
        if isinstance(value, Attribute):
            raise FilterError(f"'{self._name}' compared with '{value._name}'; compare an attribute with a constant")
        if isinstance(value, (list, tuple, set, frozenset)):
            raise FilterError(f"'{self._name}' compared with several values; use .isin(...)")
        return checked_scalar(value, f"'{self._name}'")

    def _text(self, value: object) -> str:
        checked = self._checked(value)
        if not isinstance(checked, str):
            raise FilterError(f"'{self._name}': {value!r:.60} is not text; a pattern is a string")
        return checked

    def __bool__(self) -> NoReturn:
        raise FilterError(f"'{self._name}' alone is not a condition; write attr.{self._name} == True")

    def _misjoined(self, _other: object = None) -> NoReturn:
        raise FilterError(
            f"'{self._name}' is joined with &, | or ~ before it is compared; put each comparison in parentheses: "
            "(attr.a > 1) & (attr.b < 2)"
        )

    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _misjoined

    def __repr__(self) -> str:
        return f"attr[{self._name!r}]"


class Attributes:
    """Attributes by name: `attr.price`, `attr.venue.city`, `attr["name with spaces"]`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__"):
            raise AttributeError(name)
        return Attribute(name)

    def __getitem__(self, name: str) -> Attribute:
        return Attribute(name)

    def __repr__(self) -> str:
        return "attr"


class MyLocMarker:
    """`myloc` is where the client is, `myloc(2)` the area two levels above."""

    __slots__ = ()

    def __call__(self, levels_up: int) -> MyLoc:
        """Return the area this many levels above the client."""
        if type(levels_up) is not int or not 0 <= levels_up <= MAX_DEPTH:
            raise FilterError(f"myloc({levels_up!r}) is not an area; go up 0 to {MAX_DEPTH} levels")
        return MyLoc(levels_up)

    def __repr__(self) -> str:
        return "myloc"


attr = Attributes()
"""Every attribute, by name."""
myloc = MyLocMarker()
"""Where the client is, filled in by its broker."""


def _filter(constraint: Constraint) -> Filter:
    return Filter(checked([Conjunction([constraint])]))
