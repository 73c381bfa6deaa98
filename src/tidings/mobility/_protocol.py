"""The protocol of copies: brokers that are ready before a client arrives.

Theory of operation
-------------------
A *copy* is a record of what a client subscribes to and advertises, at a broker where the client may turn up next. The
broker that hosts the client, or has hosted it last, is the copy's *controller*: it sends copies to its neighbours in
the neighbour graph, and keeps them up to date. A *passive* copy is the record alone. It attracts no traffic. If its
client is a member of scopes, somebody stands for it who wants nothing: so its broker carries these scopes beforehand.

When the controller notices that the client is away, it lets its own *home copy* adopt what the client subscribes to,
and activates the others. An *active* copy is a client inside its broker (`Context.open_client`) that stands for the
real one. It subscribes from the positions that the client has acknowledged, so that the proven recovery of the core
fetches what lies between them and now; what comes goes into the buffer of its broker.

When the client arrives, it says in each `Subscribe` how far it has come itself; that alone counts. In the turn of that
message the copy hands over what it holds behind these positions, and the client adopts the copy's subscription: no
filter is withdrawn or announced. An origin of which the copy may lack something behind them is a debt, as after a new
tree, and what the copy holds of it fills what the origin may have lost. That is the case if the origin

    owes the copy something still, or has told it a gap        the copy is not ready
    was asked from a later position, or not at all             the client has missed more than its broker knew
    had sent more to the subscription before it was adopted    what was on its way to the client may be lost
    was overwritten in the buffer behind the client's position
    is further in what the client has seen than here           what comes would come again

*Epochs* (`_hosts`) order everything: each message is of the epoch under which its sender hosts the client, or did last.
A broker that hosts the client itself, or knows a copy or tombstone of a newer epoch, ignores it. A *tombstone* is left
where a copy was deleted or a client has moved on: a message of an older epoch that comes late must not bring it back.

When a client moves, its new broker says with its claim (`_hosts`) where it wants copies. The old one leaves those that
are there already, puts them to rest, and answers which of them are up to date and of what: if the client subscribes to
the same at its new broker, nothing is sent to them. Whatever is left belongs to the new broker from its claim on,
whether the answer reaches it or not.

A *warm* copy listens although its client is connected: at the likeliest neighbours, if the configuration says so. A
client that arrives before it was missed finds everything ready there. It begins from the positions that its client's
subscriptions have reached, and holds what came lately, for longer than it takes to notice that a client is gone; what
is older counts as overwritten. When the client is away it is activated as the others are, and keeps everything from
then on. A broker takes no more of them than it has room for: the others rest.

Nothing rests on one message arriving: on every new tree each controller says which copies it wants (`Standing`), a
broker that lacks one says so (`Missing`), and a copy that nobody speaks for expires. Records are on disk: a broker that
restarts has its copies again, those that listened listen from the same positions, and it announces them to their
controllers (`Announced`), which answer for each what is to become of it.

Two tables hold every state there is: that of a copy at a broker, and that of a client at its controller. What no row
allows is ignored and counted.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Copied(enum.Enum):
    """What a broker holds of a client for another broker."""

    NOTHING = "nothing"
    PASSIVE = "passive"
    """The record."""
    WARM = "warm"
    """The record, and a client inside the broker that listens and keeps what came lately."""
    ACTIVE = "active"
    """The record, and a client inside the broker that listens and keeps everything."""


class Hosting(enum.Enum):
    """What a client is to the broker that hosts it, or has hosted it last."""

    NOBODY = "nobody"
    HERE = "here"
    AWAY = "away"
    """Its connection is lost or silent; the home copy listens."""


class Heard(enum.Enum):
    """What may happen to a copy."""

    PROPAGATE = "propagate"
    RENEW = "propagate, of a newer epoch"
    """The client is connected to the sender."""
    WARM = "warm"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    DELETE = "delete"
    """The client has moved, or was away for too long: obeyed if it comes from the controller."""
    END = "end"
    """The client has ended its subscriptions: obeyed always."""
    ARRIVES = "the client arrives"
    EXPIRES = "nobody speaks for it"


class Noticed(enum.Enum):
    """What may happen to a client."""

    ARRIVES = "it arrives"
    CHANGES = "it subscribes or unsubscribes"
    LEAVES = "it is away"
    RETURNS = "its session goes on"
    EXPIRES = "its session ends while it is away"
    MOVES = "another broker hosts it"
    ENDS = "it says goodbye, or is sent away"
    TIMES_OUT = "it was away for too long"


class Do(enum.Enum):
    """What a broker does then."""

    STORE = "store the record"
    RENEW = "close what listens, release what it holds, store the record"
    LISTEN = "open a client that listens from the positions given"
    LISTEN_LATELY = "open a client that listens from the positions given, and keep what came lately"
    KEEP_LATELY = "keep only what came lately"
    KEEP_ALL = "keep everything from now on"
    REST = "close it, and release what it holds"
    ASK = "say that the record is missing"
    DROP = "delete the record, release what it holds, leave a tombstone"
    HAND_OVER = "hand over what it holds, subscription by subscription"
    TELL = "propagate to the neighbours, and let the likeliest listen"
    BUFFER = "let the home copy adopt the subscriptions, activate the others"
    GIVE_BACK = "hand over what the home copy holds, let the client adopt, deactivate the others, but for warm ones"
    RETRACT = "delete the copies elsewhere, close the home copy"
    LEAVE = "leave the copies that its new broker wants, delete the others; close the home copy"


class Row(NamedTuple):
    """One way from a state to another."""

    before: enum.Enum
    event: enum.Enum
    after: enum.Enum
    action: Do | None = None


_NOTHING, _PASSIVE, _WARM, _ACTIVE = Copied
_NOBODY, _HERE, _AWAY = Hosting

COPIED = (
    Row(_NOTHING, Heard.PROPAGATE, _PASSIVE, Do.STORE),
    Row(_NOTHING, Heard.WARM, _NOTHING, Do.ASK),
    Row(_NOTHING, Heard.ACTIVATE, _NOTHING, Do.ASK),
    Row(_NOTHING, Heard.DEACTIVATE, _NOTHING),
    Row(_NOTHING, Heard.DELETE, _NOTHING),
    Row(_NOTHING, Heard.END, _NOTHING, Do.DROP),
    Row(_NOTHING, Heard.ARRIVES, _NOTHING),
    Row(_PASSIVE, Heard.PROPAGATE, _PASSIVE, Do.STORE),
    Row(_PASSIVE, Heard.RENEW, _PASSIVE, Do.STORE),
    Row(_PASSIVE, Heard.WARM, _WARM, Do.LISTEN_LATELY),
    Row(_PASSIVE, Heard.ACTIVATE, _ACTIVE, Do.LISTEN),
    Row(_PASSIVE, Heard.DEACTIVATE, _PASSIVE),
    Row(_PASSIVE, Heard.DELETE, _NOTHING, Do.DROP),
    Row(_PASSIVE, Heard.END, _NOTHING, Do.DROP),
    Row(_PASSIVE, Heard.ARRIVES, _NOTHING, Do.DROP),
    Row(_PASSIVE, Heard.EXPIRES, _NOTHING, Do.DROP),
    Row(_WARM, Heard.PROPAGATE, _PASSIVE, Do.RENEW),
    Row(_WARM, Heard.RENEW, _PASSIVE, Do.RENEW),
    Row(_WARM, Heard.WARM, _WARM, Do.LISTEN_LATELY),
    Row(_WARM, Heard.ACTIVATE, _ACTIVE, Do.KEEP_ALL),
    Row(_WARM, Heard.DEACTIVATE, _PASSIVE, Do.REST),
    Row(_WARM, Heard.DELETE, _NOTHING, Do.DROP),
    Row(_WARM, Heard.END, _NOTHING, Do.DROP),
    Row(_WARM, Heard.ARRIVES, _NOTHING, Do.HAND_OVER),
    Row(_WARM, Heard.EXPIRES, _NOTHING, Do.DROP),
    Row(_ACTIVE, Heard.PROPAGATE, _ACTIVE, Do.STORE),
    Row(_ACTIVE, Heard.RENEW, _PASSIVE, Do.RENEW),
    Row(_ACTIVE, Heard.WARM, _WARM, Do.KEEP_LATELY),
    Row(_ACTIVE, Heard.ACTIVATE, _ACTIVE, Do.LISTEN),
    Row(_ACTIVE, Heard.DEACTIVATE, _PASSIVE, Do.REST),
    Row(_ACTIVE, Heard.DELETE, _NOTHING, Do.DROP),
    Row(_ACTIVE, Heard.END, _NOTHING, Do.DROP),
    Row(_ACTIVE, Heard.ARRIVES, _NOTHING, Do.HAND_OVER),
    Row(_ACTIVE, Heard.EXPIRES, _NOTHING, Do.DROP),
)
HOSTING = (
    Row(_NOBODY, Noticed.ARRIVES, _HERE, Do.TELL),
    Row(_HERE, Noticed.ARRIVES, _HERE, Do.TELL),
    Row(_HERE, Noticed.CHANGES, _HERE, Do.TELL),
    Row(_HERE, Noticed.LEAVES, _AWAY, Do.BUFFER),
    Row(_HERE, Noticed.MOVES, _NOBODY, Do.LEAVE),
    Row(_HERE, Noticed.ENDS, _NOBODY, Do.RETRACT),
    Row(_AWAY, Noticed.RETURNS, _HERE, Do.GIVE_BACK),
    Row(_AWAY, Noticed.ARRIVES, _HERE, Do.HAND_OVER),
    Row(_AWAY, Noticed.EXPIRES, _AWAY),
    Row(_AWAY, Noticed.MOVES, _NOBODY, Do.LEAVE),
    Row(_AWAY, Noticed.ENDS, _NOBODY, Do.RETRACT),
    Row(_AWAY, Noticed.TIMES_OUT, _NOBODY, Do.RETRACT),
)
TABLES: dict[str, tuple[Row, ...]] = {"a copy": COPIED, "a client": HOSTING}

_COPIED = {(row.before, row.event): row for row in COPIED}
_HOSTING = {(row.before, row.event): row for row in HOSTING}
_OF_THE_CONTROLLER = (Heard.DEACTIVATE, Heard.DELETE)


def of_copy(state: Copied, event: Heard, *, by_controller: bool) -> Row | None:
    """What happens to a copy; None: nothing, the message is not for this state or not from its controller."""
    if state in (Copied.WARM, Copied.ACTIVE) and event in _OF_THE_CONTROLLER and not by_controller:
        return None
    return _COPIED.get((state, event))


def of_client(state: Hosting, event: Noticed) -> Row | None:
    """What happens to a client; None: nothing."""
    return _HOSTING.get((state, event))
