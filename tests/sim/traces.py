"""Traces that are written by hand, for those who judge traces."""

from __future__ import annotations

from collections.abc import Callable

from tidings.model import Filter, Notification
from tidings.sim import Op, Record, check
from tidings.wire import Quality

F = Filter.parse("n > 0")
GOOD, OTHER, BAD = Notification(n=1), Notification(n=2), Notification(n=-1)
REACH = frozenset({"a", "b"})


class Writer:
    """Writes a trace: X publishes at broker a, Y listens at broker b."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._waited = 0
        self.add(Op.ATTACH, "X", detail=("a", 1))
        self.add(Op.ATTACH, "Y", detail=("b", 1))

    def add(self, op: Op, component: str = "", **fields: object) -> Writer:
        self.records.append(Record(len(self.records), len(self.records) + self._waited, op, component, **fields))  # type: ignore[arg-type]
        return self

    def sub(self, filter: Filter = F, id: str = "s", receive_own: bool = True) -> Writer:
        return self.add(Op.SUB, "Y", subscription=id, filter=filter, detail=(receive_own,))

    def unsub(self, id: str = "s") -> Writer:
        return self.add(Op.UNSUB, "Y", subscription=id)

    def settled(
        self, id: str = "s", reach: frozenset[str] = REACH, who: str = "Y", advertisement: bool = False
    ) -> Writer:
        return self.add(Op.SETTLED, who, subscription=id, detail=(advertisement, reach))

    def pub(
        self,
        number: int,
        notification: Notification = GOOD,
        quality: Quality = Quality.ACCEPTED,
        ack: bool = True,
        who: str = "X",
        epoch: int = 1,
        reached: Quality | None = None,
    ) -> Writer:
        self.add(Op.PUB, who, publication=number, publisher=who, notification=notification, detail=(quality,))
        if ack and quality is not Quality.FIRE:
            self.add(Op.ACK, who, publication=number, publisher=who, detail=("a", epoch, number, reached))
        return self

    def notify(
        self, number: int, notification: Notification = GOOD, who: str = "X", id: str = "s", epoch: int = 1
    ) -> Writer:
        detail = ("a", epoch, number, 0)
        return self.add(
            Op.NOTIFY, "Y", subscription=id, publication=number, publisher=who, notification=notification, detail=detail
        )

    def join(self, id: str = "g") -> Writer:
        return self.add(Op.JOIN, "Y", subscription=id, filter=F, detail=("g",))

    def joined(self, id: str = "g") -> Writer:
        return self.add(Op.JOINED, "Y", subscription=id, detail=(False, REACH))

    def share(self, number: int, notification: Notification = GOOD, id: str = "g", epoch: int = 1) -> Writer:
        detail = ("a", epoch, number, 0)
        return self.add(
            Op.SHARE, "Y", subscription=id, publication=number, publisher="X", notification=notification, detail=detail
        )

    def gap(self, first: int, last: int | None, epoch: int = 1) -> Writer:
        return self.add(Op.GAP, "Y", subscription="s", detail=("a", epoch, first, last))

    def fault(self, kind: str, where: str) -> Writer:
        return self.add(Op.FAULT, detail=(kind, where))

    def later(self, seconds: int) -> Writer:
        """Let time pass."""
        self._waited += seconds * 1_000_000
        return self

    def quiesce(self) -> Writer:
        return self.add(Op.QUIESCE)

    def then(self, continuation: Callable[[Writer], Writer]) -> Writer:
        return continuation(self)

    @property
    def broken(self) -> list[str]:
        return [violation.guarantee for violation in check(self.records)]


def crashed(writer: Writer) -> Writer:
    """Broker a has died and is back, and so is X."""
    epoch = 2 + sum(record.op is Op.FAULT and record.detail[0] == "restart" for record in writer.records)
    writer.fault("crash", "a").add(Op.LOST, "X").fault("restart", "a")
    return writer.add(Op.ATTACH, "X", detail=("a", epoch))
