"""Windows: what notifications measured, by windows of time, known hop by hop.

Theory of operation
-------------------
Each broker measures what its own clients publish, where it enters: groups of panes, which go by `published_at`. When
its clock has passed the end of a window by the lateness, that window is *closed* here. What travels is a map from
windows to the number of brokers that have contributed, and their combined partials by group. Maps are combined window
by window, so nobody mixes two windows; a window to which as many brokers have contributed as the tree has is *final*.

A broker that begins to measure has missed what was published before. It contributes to a window only if it has measured
all of it; so after the first ask, and after a broker has joined, values are incomplete for the length of one window. A
short break, such as a new tree, costs nothing: what is measured is kept for a while after the last ask has ended.

A window also says what it *includes*: of each origin, the numbers of the first and the last publication that was
measured in it. So a value names what it is about, and whoever has those publications computes it again. If that would
be too much to travel it is left out, and the value is not.

Only the latest few windows travel. Whatever is too much to travel, or has too many groups, is told as unknown, and is
never cut off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from tidings.model import EVERYTHING, AggregateError, Filter, Identity, Notification, PartialRefused

from ._forms import Read, tellable
from .definitions import JP, Aggregate, Included, Panes, Record, is_group
from .expressions import OF_SUBSCRIPTIONS, PEOPLE, compiled, parse

LATEST = 3
"""How many windows travel: brokers whose clocks differ by less than two slides understand each other."""
MAX_GROUPS = 1_000
"""The most groups of one window."""
MAX_BYTES = 32_000
"""The most bytes of all windows that one broker tells another, encoded."""
MAX_HELD = 10_000
"""The most partials that one broker keeps for a question: one for each group and pane."""

_Written = tuple[int, int, list[tuple[str, bytes]], list[tuple[str, int, int, int]] | None]
_read = msgspec.msgpack.Decoder(list[_Written]).decode


class Measured(NamedTuple):
    """One window, as far as it is known."""

    brokers: int | None
    """How many have contributed; None: it is unknown, because it was too much."""
    groups: dict[str, Any]
    """The partial of each group."""
    included: tuple[Included, ...] | None = ()
    """What was measured; None: it is not known."""


Known = dict[int, Measured]
"""By the number of the window."""


class Shown(NamedTuple):
    """What a client was shown."""

    window: int
    final: bool
    """Whether all brokers of the tree had contributed then."""
    groups: dict[str, Any]
    included: tuple[Included, ...] | None = None


def is_question(name: object) -> bool:
    """Whether this is a question as text, and not the name of an aggregate."""
    return isinstance(name, str) and "(" in name


def is_measured(name: str) -> bool:
    """Whether this is measured over windows: a question, or code that was deployed, whose name has a dot."""
    return "(" in name or "." in name


def question_of(text: str) -> Aggregate[Any]:
    """The definition of a question, or `ExpressionError`."""
    definition = compiled(text)
    if definition.window is None:
        raise AggregateError(f"'{text:.80}' has no window; add one, like WINDOW 60s")
    definition.window.check_live()
    return definition


def where_of(text: str) -> Filter:
    """What a question measures at all."""
    return parse(text).where


def tells_of_people(text: str) -> bool:
    """Whether a question is about clients, and not only about what is published."""
    return any(measure.function in PEOPLE for measure in parse(text).measures)


class Windows:
    """How windows travel: a `Form`."""

    whole_units = True

    def __init__(self, definition: Aggregate[Any], brokers: Callable[[], int], newest: Callable[[], int]) -> None:
        """`brokers`: how many the tree has; `newest`: the window that has closed last here."""
        assert definition.window is not None
        self.definition = definition
        self._window = definition.window
        self._brokers = brokers
        self._newest = newest

    def zero(self) -> Known:
        """No window is known."""
        return {}

    def total(self, known: Iterable[Known]) -> Known:
        """Window by window, group by group; only the latest."""
        combine, newest = self.definition.combine, self._newest()
        total: Known = {}
        for one in known:
            for window, measured in one.items():
                if not newest - LATEST < window <= newest + 1:
                    continue
                before = total.get(window)
                if before is None:
                    total[window] = measured
                elif before.brokers is None or measured.brokers is None:
                    total[window] = Measured(None, {})
                else:
                    groups = dict(before.groups)
                    for group, partial in measured.groups.items():
                        groups[group] = combine(groups[group], partial) if group in groups else partial
                    together = before.brokers + measured.brokers
                    whole = Measured(together, groups, _joined(before.included, measured.included))
                    total[window] = whole if len(groups) <= MAX_GROUPS else Measured(None, {})
        return dict(sorted(total.items()))

    def told(self, total: Known, slack: float) -> Known:
        """What is known."""
        return total

    def is_stale(self, told: Known, total: Known, slack: float, bound: float) -> bool:
        """Neighbours hear of whatever changes."""
        return told != total

    def shown(self, before: Shown | None, total: Known, slack: float) -> Shown:
        """The latest window that is final; else the latest but one. Nobody is shown an earlier window again."""
        final = self._final(total)
        if final is None:
            closed = sorted(total)[-2:]
            window = closed[0] if closed else self._newest()
        else:
            window = final
        if before is not None and before.final and window <= before.window:
            return before
        if window not in total:
            return Shown(window, final is not None, {})
        return Shown(window, final is not None, total[window].groups, total[window].included)

    def is_news(self, shown: Shown, total: Known, slack: float, bound: float) -> bool:
        """A client is shown a window that is final; or one that is not, if the next one has closed meanwhile."""
        new = self.shown(shown, total, slack)
        return new is not shown and (new.final or new.window > shown.window)

    def read(self, shown: Shown, bound: float) -> Read:
        """The value of each group."""
        definition = self.definition
        values: dict[str, Any] = {group: definition.present(one) for group, one in sorted(shown.groups.items())}
        error = max((definition.error(partial) for partial in shown.groups.values()), default=0)
        end = self._window.ends_at(shown.window)
        grouped = bool(getattr(definition, "by", ()))
        value = values if grouped else values.get("", definition.present(definition.zero()))
        included = shown.included if shown.final else None
        return Read(tellable(value), error, shown.final, (end - self._window.size_ms, end), included)

    def _final(self, known: Known) -> int | None:
        brokers = self._brokers()
        return max((window for window, one in known.items() if one.brokers == brokers), default=None)

    def encode(self, told: Known) -> bytes:
        """All windows; without what they include, or as unknown, if that is too much."""
        rows = [self._written(window, one) for window, one in told.items()]
        data = msgspec.msgpack.encode(rows)
        if len(data) > MAX_BYTES:
            data = msgspec.msgpack.encode([(window, brokers, groups, None) for window, brokers, groups, _ in rows])
        if len(data) > MAX_BYTES:
            return msgspec.msgpack.encode([(window, -1, [], []) for window in told])
        return data

    def _written(self, window: int, one: Measured) -> _Written:
        if one.brokers is None:
            return window, -1, [], []
        groups = [(group, self.definition.encode(partial)) for group, partial in one.groups.items()]
        return window, one.brokers, groups, None if one.included is None else list(one.included)

    def decode(self, data: bytes) -> Known:
        """What a neighbour told, or `PartialRefused`."""
        if len(data) > MAX_BYTES:
            raise PartialRefused(f"windows of {len(data):,} bytes; at most {MAX_BYTES:,} are taken")
        try:
            told = _read(data)
        except msgspec.MsgspecError as error:
            raise PartialRefused(f"no windows: {error}") from None
        decode, bounded = self.definition.decode, self.definition.bounded
        size = len(getattr(self.definition, "by", ()))
        known: Known = {}
        for window, brokers, groups, included in told[-LATEST:]:
            if len(groups) > MAX_GROUPS:
                raise PartialRefused(f"{len(groups):,} groups; at most {MAX_GROUPS:,} are taken")
            if strange := [name for name, _ in groups if not is_group(name, size)]:
                raise PartialRefused(f"{strange[0]!r:.60} is no group of {self.definition.name}")
            try:
                partials = {name: decode(bounded(partial)) for name, partial in groups}
            except PartialRefused:
                raise
            except Exception as error:
                raise PartialRefused(f"no partial of {self.definition.name}: {error}") from None
            numbers = None if included is None else tuple(Included(*one) for one in included)
            if any(not 0 <= one.first <= one.last for one in numbers or ()):
                raise PartialRefused(f"a window of {self.definition.name} that includes no numbers of publications")
            known[window] = Measured(brokers if brokers >= 0 else None, partials, numbers)
        return known


def _joined(one: tuple[Included, ...] | None, other: tuple[Included, ...] | None) -> tuple[Included, ...] | None:
    """What two windows include together; brokers differ, so nothing is in both."""
    return None if one is None or other is None else tuple(sorted((*one, *other)))


class Measuring:
    """What the clients of one broker publish, measured for one question."""

    def __init__(self, text: str, broker: str, now_ms: int) -> None:
        definition = self.definition = question_of(text)
        assert definition.window is not None
        asked = parse(text)
        self.where: Filter = asked.where
        """What is measured at all."""
        functions = {measure.function for measure in asked.measures}
        self.of_subscriptions = not functions.isdisjoint(OF_SUBSCRIPTIONS)
        """Whether it measures subscriptions, and not publications."""
        self.of_people = not functions.isdisjoint(PEOPLE)
        """Whether it tells clients apart."""
        self._measure = compiled(dataclasses.replace(asked, where=EVERYTHING))
        """The same of what has passed the filter already."""
        self._broker = broker
        self._window = definition.window
        self._since = now_ms
        self._groups: dict[str, Panes[Any]] = {}
        self._spans: dict[int, list[int]] = {}
        """By pane, the epoch and the numbers of the first and the last publication that was measured."""
        self._closed: Known = {}
        self._overflow = -1
        """The newest window that misses something, because there were too many groups or panes."""
        self._held = 0
        """How many partials are kept."""
        self.newest = self._window.closed(now_ms)
        """The window that has closed last."""
        self.late = 0
        """Notifications that belonged to a pane that had closed."""

    def form(self, brokers: Callable[[], int]) -> Windows:
        """How what is measured travels."""
        return Windows(self.definition, brokers, lambda: self.newest)

    def begin(self, now_ms: int) -> None:
        """From now on nothing is missed."""
        self._since = now_ms

    def restart(self, now_ms: int) -> None:
        """Drop what was measured until now: windows that have begun are not contributed to."""
        self._since = now_ms
        self._groups.clear()
        self._held = 0
        self._spans.clear()
        self._closed = {window: Measured(0, {}) for window in self._closed}

    @property
    def next_at(self) -> int:
        """When the next window closes, in milliseconds since 1970."""
        return self._window.ends_at(self.newest + 1) + 1_000

    def take(self, notification: Notification, identity: Identity, now_ms: int, peer: str = "") -> None:
        """Something was published that passes the filter; `peer` is the pseudonym of whoever did."""
        published_ms = identity.published_at // 1_000
        attributes = notification.attributes
        topic = attributes.get("type")
        record = Record(
            ts_ms=published_ms,
            broker=self._broker,
            jp=JP.PUBLISHED,
            topic=topic if isinstance(topic, str) else "",
            peer=peer,
            attrs=attributes,
        )
        if self._add(record, now_ms):
            pane, seq = self._window.pane(published_ms), identity.seq
            span = self._spans.get(pane)
            if span is None:
                self._spans[pane] = [identity.epoch, seq, seq]
            else:
                span[2] = seq

    def begun(self, now_ms: int) -> None:
        """A client has subscribed to something that may pass the filter."""
        self._add(Record(ts_ms=now_ms, broker=self._broker, jp=JP.SUB_ADD), now_ms)

    def _add(self, record: Record, now_ms: int) -> bool:
        """Take a record; whether it is part of a window."""
        published_ms = record.ts_ms
        lifted = self._measure.lift(record)
        if lifted is None:
            return False
        group = self._measure.key(record)
        panes = self._groups.get(group)
        if panes is None:
            if len(self._groups) >= MAX_GROUPS:
                self._overflow = max(self._overflow, self._window.pane(published_ms) + self._window.panes)
                return False
            panes = self._groups[group] = Panes(self.definition, now_ms)
        if self._held >= MAX_HELD and not panes.holds(published_ms):
            self._overflow = max(self._overflow, self._window.pane(published_ms) + self._window.panes)
            return False
        held = len(panes)
        taken = panes.add(published_ms, lifted)
        self._held += len(panes) - held
        self.late += not taken
        return taken

    def close(self, now_ms: int) -> Known:
        """The latest windows that have closed, as this broker knows them."""
        self.newest = max(self.newest, self._window.closed(now_ms))
        for window in range(self.newest - LATEST + 1, self.newest + 1):
            if window not in self._closed:
                whole = self._window.ends_at(window) - self._window.size_ms >= self._since
                known = None if window <= self._overflow else int(whole)
                self._closed[window] = Measured(known, {}, self._includes(window) if whole else ())
        for group, panes in list(self._groups.items()):
            for window, partial in panes.close(now_ms):
                if window in self._closed and self._closed[window].brokers is not None:
                    self._closed[window].groups[group] = partial
            if panes.empty:
                del self._groups[group]
        self._held = sum(map(len, self._groups.values()))
        self._closed = {window: one for window, one in self._closed.items() if window > self.newest - LATEST}
        oldest = self.newest - LATEST - self._window.panes
        self._spans = {pane: span for pane, span in self._spans.items() if pane >= oldest}
        return dict(self._closed)

    def _includes(self, window: int) -> tuple[Included, ...]:
        """What was measured in a window."""
        spans = [self._spans[pane] for pane in self._window.covers(window) if pane in self._spans]
        return (Included(self._broker, spans[0][0], spans[0][1], spans[-1][2]),) if spans else ()
