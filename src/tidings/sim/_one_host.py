"""Whether a client's name is attached at one broker of the network, judged from what brokers say they host.

A client may be at its new broker before the old one has noticed; then two have it for a while. That while is over, for
each older attachment by itself, when a message from the newer host has come to its broker: the trace says when that is
(see `_couriers`), with everything that waits on slow links, and with what was lost and had to be said again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ._details import Attached, Broken
from ._faults import Faults
from ._observer import Observer, Violation
from ._trace import Op, Record

ONE_HOST = "one-host"
LET_GO = 1_000_000
"""Microseconds within which a broker that has been told lets a client go: it may ping the connection first."""


class OneHost:
    """Follows who hosts whom."""

    def __init__(self, observer: Observer, faults: Faults) -> None:
        self._observer = observer
        self._faults = faults
        self._hosts: dict[str, dict[str, Record]] = {}
        """For each client, the brokers that host it, each with the record that says so."""
        self._told: dict[tuple[str, str], Record] = {}
        """For each client and each broker that could have heard that somebody else hosts it, when that was."""

    def note(self, record: Record) -> Iterator[Violation]:
        """Take a record; what is wrong by its time."""
        for (client, broker), told in list(self._told.items()):
            if record.time > told.time + LET_GO:
                del self._told[client, broker]
                yield self._kept(client, broker, self._hosts[client][broker])
        if record.op is Op.HOSTED:
            assert isinstance(record.detail, Attached)
            self._hosts.setdefault(record.component, {})[record.detail.broker] = record
            self._told.pop((record.component, record.detail.broker), None)
        elif record.op is Op.RELEASED:
            assert isinstance(record.detail, Attached)
            hosts = self._hosts.get(record.component, {})
            if record.detail.broker in hosts and _epoch(hosts[record.detail.broker]) == record.detail.epoch:
                self._forget(record.component, record.detail.broker)
        elif record.op is Op.COURIER:
            assert isinstance(record.detail, Attached)
            host = self._hosts.get(record.component, {}).get(record.detail.broker)
            if host is not None and _epoch(host) <= record.detail.epoch:
                self._told.setdefault((record.component, record.detail.broker), record)
        elif record.op is Op.FAULT and isinstance(record.detail, Broken) and record.detail.kind == "crash":
            for client in list(self._hosts):
                self._forget(client, record.detail.where)
        elif record.op is Op.QUIESCE:
            yield from self._judge(record)

    def _forget(self, client: str, broker: str) -> None:
        self._hosts[client].pop(broker, None)
        self._told.pop((client, broker), None)

    def _kept(self, client: str, broker: str, since: Record) -> Violation:
        newer = " and ".join(one for one, host in sorted(self._hosts[client].items()) if _rank(host) > _rank(since))
        reason = f"broker {broker} keeps {client}, though it could have heard that it is at {newer or 'another one'}"
        return Violation(ONE_HOST, since, reason)

    def _judge(self, record: Record) -> Iterator[Violation]:
        """Nothing is under way: whoever is at a broker is hosted there, and nowhere else within reach."""
        for client, hosts in self._hosts.items():
            broker = self._observer.client(client).broker
            if broker is not None and broker not in hosts:
                yield Violation(ONE_HOST, record, f"{client} is at broker {broker}, which let it go for nobody newer")
            newest = max(hosts, key=lambda one: _rank(hosts[one]), default="")
            for other, since in sorted(hosts.items()):
                if other != newest and self._faults.reachability.together(newest, other):
                    yield self._kept(client, other, since)


def _epoch(record: Record) -> int:
    assert isinstance(record.detail, Attached)
    return record.detail.epoch


def _rank(record: Record) -> tuple[int, str]:
    assert isinstance(record.detail, Attached)
    return record.detail.epoch, record.detail.broker
