"""The workload of the documents' experiments, and what they measure. Nothing here runs in a broker.

`walk` says where a client is when; `Workload` has the parameters of Table 4.1; `BUILDING` is the graph of its six
brokers; `measured` works out throughput, loss, duplication, delay and hand-off latency from what was recorded.
"""

from ._building import BUILDING, BUILDING_EDGES
from ._measures import Arrival, Measures, Member, Publication, Receipt, measured
from ._table import SELECTORS, TABLE_4_1, WIDTH, Workload
from ._walks import Pattern, State, Stay, walk

__all__ = [
    "BUILDING",
    "BUILDING_EDGES",
    "SELECTORS",
    "TABLE_4_1",
    "WIDTH",
    "Arrival",
    "Measures",
    "Member",
    "Pattern",
    "Publication",
    "Receipt",
    "State",
    "Stay",
    "Workload",
    "measured",
    "walk",
]
