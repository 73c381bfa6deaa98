"""Whether a client's name is attached at one broker of the network, judged from what brokers say they host.

A client may be at its new broker before the old one has noticed; then two have it for a while. That while is over when
what is under way has arrived, faults that bear on it included.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._details import Attached, Broken
from ._faults import Faults
from ._observer import Observer, Violation
from ._trace import Op, Record

ONE_HOST = "one-host"


class OneHost:
    """Follows who hosts whom."""

    def __init__(self, observer: Observer, faults: Faults) -> None:
        self._observer = observer
        self._faults = faults
        self._hosts: dict[str, dict[str, Record]] = {}
        """For each client, the brokers that host it, each with the record that says so."""
        self._several: dict[str, Record] = {}
        """The clients with several hosts, and since when."""

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by its time."""
        for client, since in list(self._several.items()):
            if record.time > self._faults.arrived_by(since.time, (), record):
                del self._several[client]
                brokers = " and ".join(sorted(self._hosts[client]))
                yield Violation(ONE_HOST, since, f"brokers {brokers} have this client, and none lets it go")
        if record.op is Op.HOSTED:
            assert isinstance(record.detail, Attached)
            self._hosts.setdefault(record.component, {})[record.detail.broker] = record
            self._look(record.component, record)
        elif record.op is Op.RELEASED:
            assert isinstance(record.detail, Attached)
            hosts = self._hosts.get(record.component, {})
            if record.detail.broker in hosts and _epoch(hosts[record.detail.broker]) == record.detail.epoch:
                del hosts[record.detail.broker]
            self._look(record.component, record)
        elif record.op is Op.FAULT and isinstance(record.detail, Broken) and record.detail.kind == "crash":
            for client, hosts in self._hosts.items():
                if hosts.pop(record.detail.where, None) is not None:
                    self._look(client, record)
        elif record.op is Op.QUIESCE:
            yield from self._judge(record)

    def _look(self, client: str, record: Record) -> None:
        if len(self._hosts.get(client, ())) < 2:
            self._several.pop(client, None)
        else:
            self._several.setdefault(client, record)

    def _judge(self, record: Record) -> Iterator[Violation]:
        """Nothing is under way: whoever is at a broker is hosted there."""
        for client, hosts in self._hosts.items():
            broker = self._observer.client(client).broker
            if broker is not None and broker not in hosts:
                yield Violation(ONE_HOST, record, f"{client} is at broker {broker}, which let it go for nobody newer")


def _epoch(record: Record) -> int:
    assert isinstance(record.detail, Attached)
    return record.detail.epoch
