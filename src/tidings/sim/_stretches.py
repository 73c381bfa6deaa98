"""Whether a subscription that begins anew at each place hands over nothing that it has handed over at another.

In the trace each stretch is a subscription of its own, "s1", "s1@1", "s1@2", so everything else is judged as of any
subscription. An application that ends a subscription and uses its id again may get again what came before.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._details import Notified
from ._observer import Violation
from ._trace import Op, Record

ONCE = "at-most-once"


class Stretches:
    """Follows the subscriptions that begin anew at each place."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], dict[object, str]] = {}
        """For each subscription of an application, what it has got, and in which stretch."""
        self._positions: dict[tuple[str, str], set[tuple[str, int, int]]] = {}
        """The same, as origins, epochs and numbers."""
        self._active: set[tuple[str, str]] = set()
        self._begun: set[tuple[str, str]] = set()

    def had(self, record: Record) -> frozenset[tuple[str, int, int]]:
        """What a subscription that begins with this record has got at other places."""
        whole = (record.component, record.subscription.partition("@")[0])
        return frozenset(self._positions.get(whole, ())) if "@" in record.subscription else frozenset()

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what was handed over at two places."""
        if record.op not in (Op.SUB, Op.UNSUB, Op.NOTIFY):
            return
        stretch = (record.component, record.subscription)
        whole = (record.component, record.subscription.partition("@")[0])
        if record.op is Op.SUB:
            if stretch in self._begun and stretch not in self._active:
                self._seen.pop(whole, None)  # the application uses the id again
                self._positions.pop(whole, None)
            self._active.add(stretch)
            self._begun.add(stretch)
        elif record.op is Op.UNSUB:
            self._active.discard(stretch)
        else:
            assert isinstance(record.detail, Notified)
            self._positions.setdefault(whole, set()).add(record.detail[:3])
            seen = self._seen.setdefault(whole, {})
            event = (record.publisher, record.publication, record.notification)
            before = seen.setdefault(event, record.subscription)
            if before != record.subscription:
                yield Violation(ONCE, record, f"this was delivered at another place, as '{before}'")
