"""What the journal of a broker says about the lives of subscriptions. No Spark is needed for it."""

from __future__ import annotations

from typing import Any

from tidings.spark._chronicle import Chronicle
from tidings.store import JournalKind, JournalRecord
from tidings.store._subscription_lives import Window


class Nobody:
    """Nothing was sent."""

    def add(self, *what: object) -> None: ...

    def stray(self, *what: object) -> None: ...


def windows(*records: tuple[JournalKind, dict[str, Any]]) -> list[Window]:
    """What the first subscription was owed of origin `a`."""
    chronicle = Chronicle(Nobody())
    chronicle.read("b", (JournalRecord(kind, at, "reader", what) for at, (kind, what) in enumerate(records, start=1)))
    return chronicle.lives[0].windows.get("a", [])


def subscribed(filter: str = "n > 1", number: int = 1, after: str | None = "{}") -> tuple[JournalKind, dict[str, Any]]:
    return JournalKind.SUBSCRIBE, {"id": "s", "scope": "", "filter": filter, "number": number, "after": after}


def settled(seq: int, number: int = 1) -> tuple[JournalKind, dict[str, Any]]:
    return JournalKind.SETTLED, {"id": "s", "number": number, "marks": f'{{"a": [1, {seq}]}}'}


def acknowledged(seq: int) -> tuple[JournalKind, dict[str, Any]]:
    return JournalKind.ACKNOWLEDGE, {"origin": "a", "epoch": 1, "seq": seq}


UNSUBSCRIBED = (JournalKind.UNSUBSCRIBE, {"id": "s", "scope": "", "number": 1, "ended": True})


def test_a_subscription_is_owed_what_lies_between_its_settling_and_the_last_acknowledgement() -> None:
    (window,) = windows(subscribed(), settled(3), acknowledged(5), acknowledged(9))
    assert (window.after, window.upto, window.sure) == ((1, 3), (1, 9), (1, 5))


def test_what_its_client_acknowledges_later_concerns_an_ended_subscription_no_more() -> None:
    records = (subscribed(), settled(3), acknowledged(5), acknowledged(9), UNSUBSCRIBED)
    late = (acknowledged(12), acknowledged(20), settled(21), acknowledged(30))
    assert windows(*records, *late) == windows(*records)
    assert windows(*records)[0].upto == (1, 9)
