"""Definitions of aggregates: what is counted, and how two results become one.

Nothing here imports a broker or does any I/O, so that live brokers, worker processes and Spark load the same code.
"""

from ._aggregate import Aggregate, Kind, RunOnce, Split
from ._choices import BitAnd, BitOr, BitXor, Intersection, Max, Min, Union
from ._codec import MAX_NESTING, MAX_PARTIAL, Plain, canonical, plain
from ._composite import MAX_PARTS, Composite
from ._counts import Count, Histogram, Mean, Product, Rate, Sum
from ._distinct import Distinct
from ._frequent import Frequent, Summary
from ._measured import BROKER, Attribute, Measured, group_key, group_of, is_group, peer
from ._panes import Panes
from ._quantile import Quantile
from ._record import JP, SECRET_BYTES, Included, Record, pseudonym
from ._supplied import (
    ActivePublishers,
    PublicationRate,
    PublisherCount,
    SubscriberCount,
    SubscriptionCount,
    SubscriptionRate,
)
from ._touching import PAIR_STEPS, Key, touches
from ._windows import LATENESS, Sliding, Tumbling

__all__ = [
    "BROKER",
    "JP",
    "LATENESS",
    "MAX_NESTING",
    "MAX_PARTIAL",
    "MAX_PARTS",
    "PAIR_STEPS",
    "SECRET_BYTES",
    "ActivePublishers",
    "Aggregate",
    "Attribute",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Composite",
    "Count",
    "Distinct",
    "Frequent",
    "Histogram",
    "Included",
    "Intersection",
    "Key",
    "Kind",
    "Max",
    "Mean",
    "Measured",
    "Min",
    "Panes",
    "Plain",
    "Product",
    "PublicationRate",
    "PublisherCount",
    "Quantile",
    "Rate",
    "Record",
    "RunOnce",
    "Sliding",
    "Split",
    "SubscriberCount",
    "SubscriptionCount",
    "SubscriptionRate",
    "Sum",
    "Summary",
    "Tumbling",
    "Union",
    "canonical",
    "group_key",
    "group_of",
    "is_group",
    "peer",
    "plain",
    "pseudonym",
    "touches",
]
