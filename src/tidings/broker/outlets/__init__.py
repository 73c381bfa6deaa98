"""Outlets: what may not be handed to a client subscription yet, because something else has to come first.

It is made with a `Host`, the broker and the other rooms as far as they are needed here; others use it by what stands in
this list.
"""

from ._holds import Hold, Holder, Holds
from ._host import Host
from ._outlet import TABLES, Announcing, Debt, Delivering, announcing, debts, delivering
from ._recovery import Recovery

__all__ = [
    "TABLES",
    "Announcing",
    "Debt",
    "Delivering",
    "Hold",
    "Holder",
    "Holds",
    "Host",
    "Recovery",
    "announcing",
    "debts",
    "delivering",
]
