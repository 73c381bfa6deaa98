"""Groups at one broker, and a scope that chooses: ten who share against one plain subscriber.

Besides: plain subscribers beside a hundred groups.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

from bench import Report
from bench._runtime import Idle
from tidings.broker import Broker, Link, LinkKind
from tidings.groups import Choosing, Groups
from tidings.model import Filter, Notification
from tidings.scopes import OPEN, Answer, CreateScope, PolicyKind, PolicyUse, Scopes, SetPolicy
from tidings.scopes import Join as JoinScope
from tidings.wire import (
    GROUPS,
    Deliver,
    Extension,
    Frame,
    Join,
    Publish,
    Quality,
    Subscribe,
    Written,
    encode_body,
    pack,
)

COUNT = 4_000
REPEATS = 15
GROUPS_BESIDE = 100
TARGET = 0.45
"""Of the processor time of the broker alone. On sockets, where both pay for theirs, the difference is smaller."""
CHOSEN = 0.2
"""For a scope that gives each publication to one of ten members, beside one that leaves the lane as well."""
TURN = 64
"""Publications that one read brings: what is put off until its turn has ended is done after so many."""


class _Inside(Idle):
    """Clients inside the broker hear what is sent to them, and what is put off is done in between."""

    def __init__(self) -> None:
        self._inner: dict[Link, Callable[[Frame], None]] = {}
        self._soon: list[Callable[[], None]] = []
        self.delivered = 0

    def send(self, link: Link, frame: Frame) -> None:
        """Count what clients get."""
        if link in self._inner:
            self._inner[link](frame)
        elif type(frame.message) is Deliver:
            self.delivered += 1

    def send_all(self, links: Iterable[Link], frame: Frame) -> None:
        """One after the other."""
        for link in links:
            self.send(link, frame)

    def send_written(self, links: Iterable[Link], written: Written) -> None:
        """As if it had not been written yet."""
        for frame in written.frames():
            self.send_all(links, frame)

    def open_local(self, link: Link, receive: Callable[[Frame], None]) -> None:
        """Somebody lives here."""
        self._inner[link] = receive

    def call_later(self, delay: int, action: Callable[[], None]) -> Idle:
        """What has no delay is done when the turn has ended; the rest never."""
        if not delay:
            self._soon.append(action)
        return self

    def end_turn(self) -> None:
        """Do what was put off."""
        while self._soon:
            soon, self._soon = self._soon, []
            for action in soon:
                action()


def _client(broker: Broker, name: str) -> Link:
    link = Link(name, LinkKind.CLIENT)
    broker.attach(link)
    return link


def _built(*, members: int = 0, plain: int = 0, beside: int = 0, grouped: bool = True) -> tuple[Broker, _Inside]:
    """A broker with a group or plain subscribers of what is published, and a hundred filters that nothing passes."""
    runtime = _Inside()
    broker = Broker("a", runtime, features=[Groups()])
    for n in range(plain):
        broker.receive(_client(broker, f"p{n}"), Frame(Subscribe("s", Filter.parse("kind = 1"))))
    for n in range(members):
        join = Join("s", "work", "kind = 1", 1)
        broker.receive(_client(broker, f"m{n}"), Frame(Extension(GROUPS, pack(join))))
    for n in range(beside):
        link, filter = _client(broker, f"b{n}"), f"kind = {100 + n}"
        joins = Extension(GROUPS, pack(Join("s", f"g{n}", filter, 1)))
        broker.receive(link, Frame(joins if grouped else Subscribe("s", Filter.parse(filter))))
    runtime.end_turn()
    return broker, runtime


def _scoped(members: int, policy: PolicyUse | None = None) -> tuple[Broker, _Inside]:
    """A broker with a scope whose members want what is published in it."""
    runtime, service = _Inside(), Scopes("a")
    broker = Broker("a", runtime, features=[service, Choosing()])
    names = [f"m{n}" for n in range(members)]
    joins = (JoinScope(f"@{name}", "s") for name in ("publisher", *names))
    answers: list[Answer] = []
    service.ask(
        (CreateScope("s", OPEN), *joins, SetPolicy("s", PolicyKind.INTERNAL, policy)),
        answers.append,
        administrator=True,
    )
    runtime.end_turn()
    assert [answer.error for answer in answers] == [""]
    for name in names:
        broker.receive(_client(broker, name), Frame(Subscribe("s", Filter.parse("kind = 1"))))
    runtime.end_turn()
    return broker, runtime


def _publishing(broker: Broker, runtime: _Inside, expected: int) -> Callable[[], float]:
    """Measures the processor time of one publication, in microseconds, whenever it is called."""
    link, body, sent = _client(broker, "publisher"), encode_body(Notification(kind=1, price=5, symbol="SAP")), [0]

    def once() -> float:
        frames = [Frame(Publish(sent[0] + n, body, Quality.ACCEPTED)) for n in range(1, COUNT + 1)]
        sent[0] += COUNT
        runtime.delivered = 0
        gc.collect()
        gc.disable()
        start = time.process_time()
        for at in range(0, COUNT, TURN):
            for frame in frames[at : at + TURN]:
                broker.receive(link, frame)
            runtime.end_turn()
        elapsed = time.process_time() - start
        gc.enable()
        if runtime.delivered != expected * COUNT:
            raise SystemExit(f"{runtime.delivered} notifications were delivered, and {expected * COUNT} expected")
        return elapsed / COUNT * 1e6

    return once


def _in_turn(*measures: Callable[[], float]) -> list[float]:
    rounds = [[measure() for measure in measures] for _ in range(REPEATS)]
    return [min(column) for column in zip(*rounds, strict=True)]  # the least disturbed round of each


def run(report: Report) -> None:
    """Measure both."""
    one, group = _in_turn(_publishing(*_built(plain=1), 1), _publishing(*_built(members=10), 1))
    report.figure("a publication, one plain subscriber", one, "µs")
    report.figure("a publication, a group of 10", group, "µs")
    report.ratio("a group of 10 against one plain subscriber", one / group, at_least=TARGET)
    plain, full, chosen = _in_turn(
        _publishing(*_scoped(1), 1),
        _publishing(*_scoped(1, PolicyUse("full")), 1),
        _publishing(*_scoped(10, PolicyUse("one-of-n")), 1),
    )
    report.figure("a publication in a scope, one plain member", plain, "µs")
    report.figure("a publication in a scope with a policy for each candidate, one member", full, "µs")
    report.figure("a publication in a scope, one of ten members in turn", chosen, "µs")
    report.figure("one of ten members in turn against one plain member", plain / chosen, "x")
    report.ratio("one of ten members in turn against one member with a policy", full / chosen, at_least=CHOSEN)
    alone, beside = _in_turn(
        _publishing(*_built(plain=10, beside=GROUPS_BESIDE, grouped=False), 10),
        _publishing(*_built(plain=10, beside=GROUPS_BESIDE), 10),
    )
    report.ratio("10 plain subscribers beside 100 groups, against beside 100 others", alone / beside, at_least=0.98)
