"""Every error that Tidings raises on purpose, as one tree.

    TidingsError
    ├── ValueRefused       a value that no notification and no filter may hold
    ├── FilterError        a filter that cannot be built
    │   ├── FilterSyntaxError   its text cannot be parsed; points at the column
    │   └── FilterTooLarge      it costs more than the limits allow
    ├── BoundError         a bound into the past that cannot be
    ├── UnsupportedFilter  a filter class that lacks what the routing algorithm needs
    ├── NotAdvertised      a publication that no active advertisement of its publisher announces
    ├── AlreadyPublished   a publication whose identity was used before
    ├── TopologyError      a link that must not exist, or a broker that cannot be reached
    ├── FeatureError       a feature that breaks the rules of weaving
    └── ScopeError         a scope, an interface or a mapping that cannot be
        ├── MappingError        a mapping that cannot be built, read or turned round
        ├── UnknownName         a name that no scope has, where it is used
        └── AmbiguousName       a name that several scopes have, equally near to where it is used

An error names the value, the place where it came in and the remedy.
"""


class TidingsError(Exception):
    """The root of the tree: catch this to catch everything that Tidings refuses."""


class ValueRefused(TidingsError, ValueError):
    """A value that no notification and no filter may hold."""


class FilterError(TidingsError, ValueError):
    """A filter that cannot be built."""


class FilterSyntaxError(FilterError):
    """A filter text that cannot be parsed; `column` counts from 1."""

    def __init__(self, problem: str, text: str, column: int, remedy: str = "") -> None:
        self.problem = problem
        self.text = text
        self.column = column
        self.remedy = remedy
        super().__init__(problem, text, column, remedy)

    def __str__(self) -> str:
        shown, at = _window(self.text, self.column)
        remedy = f"\n{self.remedy}" if self.remedy else ""
        return f"{self.problem} at column {self.column}\n  {shown}\n  {' ' * at}^{remedy}"


class FilterTooLarge(FilterError):
    """A filter that costs more than the limits allow."""


class BoundError(TidingsError, ValueError):
    """A bound into the past that cannot be."""


class UnsupportedFilter(TidingsError, TypeError):
    """A filter class that lacks what the routing algorithm needs."""


class NotAdvertised(TidingsError):
    """A publication that no active advertisement of its publisher announces."""


class AlreadyPublished(TidingsError):
    """A publication whose identity was used before."""


class TopologyError(TidingsError):
    """A link that must not exist, or a broker that cannot be reached."""


class FeatureError(TidingsError):
    """A feature that breaks the rules of weaving."""


class ScopeError(TidingsError):
    """A scope, an interface or a mapping that cannot be."""


class MappingError(ScopeError, ValueError):
    """A mapping that cannot be built, read or turned round."""


class UnknownName(ScopeError, LookupError):
    """A name that no scope has, where it is used."""


class AmbiguousName(ScopeError, LookupError):
    """A name that several scopes have, equally near to where it is used."""


def _window(text: str, column: int, width: int = 72) -> tuple[str, int]:
    """The part of a long text around a column, on one line, and where the column is in it."""
    at = column - 1
    start = max(0, min(at - width // 2, len(text) - width))
    shown = text[start : start + width].replace("\n", " ").replace("\t", " ")
    return shown, at - start
