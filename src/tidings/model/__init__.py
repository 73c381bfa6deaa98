"""Values, notifications, filters and their algebra, the filter language: what everything else speaks of."""

from ._bound import MAX_COUNT, Bound, Reach, duration, last, since
from ._builder import attr, myloc
from ._conjunction import Conjunction
from ._constraint import Constraint, Negated
from ._effort import Effort
from ._encodings import on_subject, read_json
from ._errors import (
    AlreadyPublished,
    AmbiguousName,
    BoundError,
    FeatureError,
    FilterError,
    FilterSyntaxError,
    FilterTooLarge,
    MappingError,
    NotAdvertised,
    ScopeError,
    TidingsError,
    TopologyError,
    UnknownName,
    UnsupportedFilter,
    ValueRefused,
)
from ._filter import EVERYTHING, NOTHING, Filter, Matches
from ._headers import ROOT_ROUTE, ROOT_SCOPE, Duplicates, EventKey, Identity, Route, RouteState
from ._json_problems import json_problem
from ._limits import MAX_CONJUNCTIONS, MAX_CONSTRAINTS, MAX_FILTER_TEXT
from ._location import Location
from ._models import channel, of_type, rectangle, subject, template
from ._names import MAX_NAME, known_names, learn
from ._notification import MAX_ATTRIBUTES, Notification, has_plain_kinds
from ._operator_words import register_operator
from ._printable import guard_log, is_guarded, printable, printable_lines
from ._values import MAX_TEXT, Kind, Scalar, Value, kind_of

__all__ = [
    "EVERYTHING",
    "MAX_ATTRIBUTES",
    "MAX_CONJUNCTIONS",
    "MAX_CONSTRAINTS",
    "MAX_COUNT",
    "MAX_FILTER_TEXT",
    "MAX_NAME",
    "MAX_TEXT",
    "NOTHING",
    "ROOT_ROUTE",
    "ROOT_SCOPE",
    "AlreadyPublished",
    "AmbiguousName",
    "Bound",
    "BoundError",
    "Conjunction",
    "Constraint",
    "Duplicates",
    "Effort",
    "EventKey",
    "FeatureError",
    "Filter",
    "FilterError",
    "FilterSyntaxError",
    "FilterTooLarge",
    "Identity",
    "Kind",
    "Location",
    "MappingError",
    "Matches",
    "Negated",
    "NotAdvertised",
    "Notification",
    "Reach",
    "Route",
    "RouteState",
    "Scalar",
    "ScopeError",
    "TidingsError",
    "TopologyError",
    "UnknownName",
    "UnsupportedFilter",
    "Value",
    "ValueRefused",
    "attr",
    "channel",
    "duration",
    "guard_log",
    "has_plain_kinds",
    "is_guarded",
    "json_problem",
    "kind_of",
    "known_names",
    "last",
    "learn",
    "myloc",
    "of_type",
    "on_subject",
    "printable",
    "printable_lines",
    "read_json",
    "rectangle",
    "register_operator",
    "since",
    "subject",
    "template",
]
