"""What is under way from a point to members at other brokers, until their brokers confirm it.

For each broker, what is assigned to members there is numbered, and is *open* until it is confirmed. What becomes of it:

    before   event                                                    after
    -        it is assigned to a member at another broker             OPEN
    OPEN     its broker confirms that it was handed over              -
    OPEN     its broker gives it back: the member has gone            -, it waits to be assigned again, or is owed
    OPEN     another point gathers                                    -, see `_succession`

What may go to nobody else, because its policy is not asked twice, is *owed* to its client until it has arrived. And an
event may have several forms, while facts are about events: if one form is open, points tell which others are decided.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import NamedTuple

from tidings.broker import Facts, Term
from tidings.model import EventKey
from tidings.wire import Envelope

from ._copies import Copy
from ._limits import MAX_RECENT
from ._messages import Confirm, Due, Open
from ._roster import Place


class Assigned(NamedTuple):
    """Something that was assigned to a member at another broker."""

    copy: Copy
    term: Term
    place: Place
    epoch: int
    """Of that broker."""
    envelope: Envelope
    only: str = ""
    """The client that gets it, if nobody else may."""


class _Stream:
    """What was assigned to members at one broker, under one term, and not confirmed."""

    def __init__(self) -> None:
        self.number = 0
        self.open: deque[int] = deque()


class UnderWay:
    """What one point has assigned under its term."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], Assigned] = {}
        """By broker and number."""
        self._streams: dict[str, _Stream] = {}
        self._by_client: Counter[str] = Counter()
        self._changed = True
        """Whether something has been confirmed, or nothing was open, since this was asked last."""

    def __len__(self) -> int:
        return len(self._open)

    def to(self, client: str) -> int:
        """How much is open for a member."""
        return self._by_client[client]

    def add(self, assigned: Assigned) -> int:
        """Something is assigned; its number."""
        broker = assigned.place.broker
        stream = self._streams.setdefault(broker, _Stream())
        stream.number += 1
        stream.open.append(stream.number)
        self._open[broker, stream.number] = assigned
        self._by_client[assigned.place.member.client] += 1
        return stream.number

    def confirmed(self, broker: str, confirm: Confirm) -> list[Assigned] | None:
        """A broker has handed over what was assigned to it, but for this; None: nothing was assigned to it."""
        stream = self._streams.get(broker)
        if stream is None:
            return None
        back, returned = set(confirm.back), list[Assigned]()
        while stream.open and stream.open[0] <= confirm.upto:
            number = stream.open.popleft()
            assigned = self._open.pop((broker, number))
            client = assigned.place.member.client
            self._by_client[client] -= 1
            if not self._by_client[client]:
                del self._by_client[client]
            if number in back:
                returned.append(assigned)
        self._changed = True
        return returned

    def envelope(self, one: Open) -> Envelope | None:
        """What a point says is open, if this broker has assigned it."""
        assigned = self._open.get((one.broker, one.number))
        return assigned.envelope if assigned is not None and assigned.term == one.term else None

    def told(self) -> tuple[Open, ...]:
        """As points tell it to one another."""
        return tuple(
            Open(one.copy.event, one.term, broker, one.epoch, number, one.only, one.copy.version)
            for (broker, number), one in self._open.items()
        )

    def overdue(self) -> bool:
        """Whether something is open, and nothing has been confirmed since this was asked last."""
        changed, self._changed = self._changed, False
        return bool(self._open) and not changed

    def clear(self) -> None:
        """A new term begins: what was open is settled."""
        self._open.clear()
        self._streams.clear()
        self._by_client.clear()


class Owed:
    """Which forms of an event were decided, and for whom of those that has not arrived."""

    def __init__(self) -> None:
        self._forms: OrderedDict[EventKey, dict[int, set[str]]] = OrderedDict()
        """By event and form, who is still to get it."""

    def settle(self, copy: Copy) -> None:
        """One of several forms is decided: whatever becomes of the others, it is not decided again."""
        self._clients(copy)

    def add(self, copy: Copy, client: str) -> None:
        """Let a client get what was decided for it."""
        self._clients(copy).add(client)

    def reopen(self, copy: Copy) -> None:
        """It has reached nobody, and is to be decided again."""
        if (forms := self._forms.get(copy.event)) is not None:
            forms.pop(copy.version, None)

    def take(self, copy: Copy) -> frozenset[str] | None:
        """Who is still to get this form, now that it is here; None: it was not decided."""
        clients = self._forms.get(copy.event, _NONE).get(copy.version)
        if clients is None:
            return None
        taken = frozenset(clients)
        clients.clear()
        return taken

    def told(self, facts: Facts, open: Iterable[Open]) -> tuple[Due, ...]:
        """As points tell it to one another: what is owed, and all decided forms of events that may come once more."""
        under_way = {one.event for one in open}
        return tuple(
            Due(event, version, tuple(sorted(clients)))
            for event, forms in self._forms.items()
            if event not in facts or event in under_way or any(forms.values())
            for version, clients in forms.items()
        )

    def clear(self) -> None:
        """Forget all."""
        self._forms.clear()

    def _clients(self, copy: Copy) -> set[str]:
        clients = self._forms.setdefault(copy.event, {}).setdefault(copy.version, set())
        if len(self._forms) > MAX_RECENT:
            self._forms.popitem(last=False)
        return clients


_NONE: dict[int, set[str]] = {}
