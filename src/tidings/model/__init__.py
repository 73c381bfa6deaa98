"""Values, notifications, filters and their algebra, the filter language: what everything else speaks of."""

from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._errors import (
    AlreadyPublished,
    FeatureError,
    FilterError,
    FilterSyntaxError,
    FilterTooLarge,
    NotAdvertised,
    TidingsError,
    TopologyError,
    UnsupportedFilter,
    ValueRefused,
)
from ._filter import EVERYTHING, NOTHING, Filter, Matches
from ._headers import ROOT_ROUTE, ROOT_SCOPE, EventKey, Identity, Route, RouteState
from ._location import Location
from ._notification import Notification
from ._values import Kind, Scalar, Value, kind_of

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "ROOT_ROUTE",
    "ROOT_SCOPE",
    "AlreadyPublished",
    "Conjunction",
    "Constraint",
    "EventKey",
    "FeatureError",
    "Filter",
    "FilterError",
    "FilterSyntaxError",
    "FilterTooLarge",
    "Identity",
    "Kind",
    "Location",
    "Matches",
    "Negated",
    "NotAdvertised",
    "Notification",
    "Route",
    "RouteState",
    "Scalar",
    "TidingsError",
    "TopologyError",
    "UnsupportedFilter",
    "Value",
    "ValueRefused",
    "kind_of",
]
