"""Outlets: every state that a client's subscription can be in at its border broker, and what leads from one to another.

Theory of operation
-------------------
It is not *one* state. A subscription delivers from the turn that places it, long before it has settled; it goes back to
settling on every new tree, and delivers meanwhile; some origins owe it something, and others do not. So there are three
tables. A subscription is in one state of the first, in one of the second, and, for each origin, in one of the third.

    announcing    how far the network knows it: `_registrations` places it, `_settling` tells its client
    delivering    whether it gets what comes: `_holds`
    debt          what an origin owes it: `_recovery`, `_debts`, `_resuming`, `_fetching`

Whatever is kept back, by a hold or for a debt, is in a `Backlog`.

The states of the first table follow from the books and from the tree, so nobody sets them: `announcing` says which one
it is. The simulator looks at every subscription after every turn (`tidings.sim.Census`), and finds no state, and no way
from one to another, that is not here. docs/architecture.md shows these tables; a test compares them.

Always: what is held is owed nothing, and an origin owes a subscription one thing at a time.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from tidings.broker.interest import Registration

from ._host import Host


class Announcing(enum.Enum):
    """How far a subscription is known in the network."""

    PLACING = "placing"
    """Its broker does not carry every scope of its client."""
    SETTLING = "settling"
    """Some broker on the current tree may not know it yet, or the marks of the tree are not known."""
    SETTLED = "settled"
    """Everybody who must know it does, and whatever is lost from now on can be noticed."""


class Delivering(enum.Enum):
    """Whether notifications may go to the client."""

    OPEN = "open"
    HELD = "held"
    """Its past comes first, or what its client missed."""


class Debt(enum.Enum):
    """What one origin owes a subscription."""

    WAITING = "waiting"
    """The origin has not been asked for it."""
    ASKED = "asked"


class Row(NamedTuple):
    """One way from a state to another; None: there is no such subscription, or nothing is owed."""

    before: enum.Enum | None
    event: str
    after: enum.Enum | None
    action: str = ""


_PLACING, _SETTLING, _SETTLED = Announcing
_OPEN, _HELD = Delivering
_WAITING, _ASKED = Debt

ANNOUNCING = (
    Row(None, "`Subscribe`, and not every scope of the client is carried", _PLACING),
    Row(None, "`Subscribe`", _SETTLING, "announce it; in the place of another, what both want is not interrupted"),
    Row(_PLACING, "all scopes of the client are carried", _SETTLING, "announce it where it was not"),
    Row(_SETTLING, "every entry has settled, and the marks of the tree are known", _SETTLED, "tell, unless it is held"),
    Row(_SETTLING, "a scope is not carried any more", _PLACING, "if it was told: every origin owes it what follows"),
    Row(_SETTLED, "a scope is not carried any more", _PLACING, "every origin owes it what follows"),
    Row(_SETTLED, "new tree; other scopes; an advertisement that it must reach", _SETTLING, "its client hears nothing"),
    Row(_SETTLED, "the same `Subscribe` again", _SETTLED, "tell again"),
    Row(_PLACING, "`Unsubscribe`, or its client has gone", None, "its entries, debts and hold end"),
    Row(_SETTLING, "`Unsubscribe`, or its client has gone", None, "its entries, debts and hold end"),
    Row(_SETTLED, "`Unsubscribe`, or its client has gone", None, "its entries, debts and hold end"),
)
DELIVERING = (
    Row(None, "`Subscribe`", _OPEN),
    Row(None, "`Subscribe` into the past, or of a client whose last broker is asked", _HELD, "a feature looks for it"),
    Row(
        _OPEN,
        "a notification",
        _OPEN,
        "deliver, or keep it with the debt of its origin; at the limit, forget the oldest",
    ),
    Row(_HELD, "a notification", _HELD, "keep; at the limit, forget the oldest and note its origin"),
    Row(_HELD, "new tree", _HELD, "forget what was kept; its holder asks again"),
    Row(_HELD, "released", _OPEN, "tell that it has settled, the past, what was kept; noted origins owe what follows"),
    Row(_OPEN, "`Unsubscribe`, or its client has gone", None),
    Row(_HELD, "`Unsubscribe`, or its client has gone", None, "its holder hears so"),
)
DEBT = (
    Row(None, "new tree; resume from a position; a scope is lost; a hold had no room", _WAITING, "since a position"),
    Row(_WAITING, "resume: right behind its filter; else: settled, and there is room at the client", _ASKED),
    Row(_WAITING, "the marks of this tree find the origin where it was, and it knew the filter", None),
    Row(_ASKED, "answered, and there is more", _WAITING, "hand over what has come; since there"),
    Row(_ASKED, "answered", None, "hand over what has come and was kept, in order; a `Gap` for what is lost"),
    Row(_ASKED, "no answer; new tree", _WAITING, "ask again, later each time"),
    Row(_WAITING, "a minute without the origin, or without a scope", None, "a `Gap` without an end"),
    Row(_WAITING, "the subscription has ended", None),
    Row(_ASKED, "the subscription has ended", None),
)
TABLES = {"announcing": ANNOUNCING, "delivering": DELIVERING, "debt of one origin": DEBT}


def announcing(broker: Host, outlet: Registration) -> Announcing:
    """How far a subscription is known."""
    if not outlet.placed:
        return Announcing.PLACING
    return Announcing.SETTLED if broker.settling.is_settled(outlet) else Announcing.SETTLING


def delivering(broker: Host, outlet: Registration) -> Delivering:
    """Whether notifications may go to its client."""
    return Delivering.HELD if outlet in broker.holds else Delivering.OPEN


def debts(broker: Host, outlet: Registration) -> dict[str, Debt]:
    """What it is owed, by origin."""
    return {origin: Debt.ASKED if asked else Debt.WAITING for origin, asked in broker.recovery.debts(outlet)}
