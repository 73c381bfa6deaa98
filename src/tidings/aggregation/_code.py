"""Code of tenants in the engine: measured in windows like questions, but computed by a worker, later.

Theory of operation
-------------------
A worker keeps nothing, and answers in a later turn. So a partial of code is a *bag*: encoded partials that are yet to
be combined. Bags are joined without the worker, which is all that a broker on the way needs; wherever a worker has
combined a bag, the one partial takes its place, for combining does not care about order and grouping. What the worker
has computed is remembered for a while (`Computed`). A value is presented when the worker has presented it; until then
it is incomplete.

What clients publish is collected for a few milliseconds, and lifted in one batch. A window is told as measured by this
broker only if every batch with a part in it was answered: what was given up, or came from code that had to be stopped,
leaves this broker out, and the value incomplete. What other brokers have measured is passed on all the same, also by a
broker that cannot run the code.

Nothing that a worker says is trusted: panes must be those of the batch, partials no larger than the manifest says.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tidings.broker import Timer
from tidings.model import Filter, Identity, Notification, PartialRefused
from tidings.wire import encode_body

from ._forms import Read, tellable
from ._windows import LATEST, MAX_BYTES, MAX_GROUPS, Known, Measured, Shown, Windows
from .definitions import JP, Aggregate, group_key
from .deploying import Manifest
from .workers import MAX_KEY, Answer, Combine, Combined, Job, Lift, Lifted, Present, Presented, Row, told

BATCH_ROWS = 64
"""How many publications are lifted in one batch, at most."""
BATCH_WITHIN = 5_000
"""Microseconds for which publications are collected for a batch."""
MAX_OPEN_ROWS = 8_192
"""The most publications that wait for a worker; more leave this broker out of their windows."""
MAX_HELD_BYTES = 16 * 1_048_576
"""The most bytes of partials that one broker keeps of one version."""
MAX_BAG = 256
"""The most partials of one group that travel uncombined."""
COMPACT_AT = 16
"""At how many partials of one pane they are combined here."""
REMEMBERED = 2_000
"""How many results of a worker are remembered."""

Bag = tuple[bytes, ...]
Submit = Callable[[Sequence[Job], Callable[[Sequence[Answer] | str], None]], None]
"""Gives jobs to the worker; in a later turn, the answers, or why there are none."""

_read_bag = msgspec.msgpack.Decoder(list[bytes]).decode


class Bags(Aggregate[Bag]):
    """What stands for a definition whose code is elsewhere: partials are bags."""

    def __init__(self, manifest: Manifest) -> None:
        self.name = manifest.name
        self.version = manifest.version
        self.window = manifest.sliding()
        self.by = ("key",) if manifest.grouped else ()
        self._most = manifest.max_bytes

    def zero(self) -> Bag:
        return ()

    def combine(self, a: Bag, b: Bag) -> Bag:
        return tuple(sorted((*a, *b)))

    def encode(self, partial: Bag) -> bytes:
        return msgspec.msgpack.encode(partial)

    def decode(self, data: bytes) -> Bag:
        """A bag, or `PartialRefused`: a neighbour may have made it up."""
        try:
            bag = _read_bag(data)
        except msgspec.MsgspecError as error:
            raise PartialRefused(f"no partials of {self.name}: {error}") from None
        if len(bag) > MAX_BAG:
            raise PartialRefused(f"{self.name}: {len(bag):,} partials of one group; at most {MAX_BAG} are taken")
        for partial in bag:
            if len(partial) > self._most:
                raise PartialRefused(
                    f"{self.name}: a partial of {len(partial):,} bytes; at most {self._most:,} are taken"
                )
        return tuple(sorted(bag))

    def bounded(self, data: bytes) -> bytes:
        """Several partials may travel as one."""
        if len(data) > MAX_BYTES:
            raise PartialRefused(f"{self.name}: partials of {len(data):,} bytes; at most {MAX_BYTES:,} travel")
        return data


class Computed:
    """What a worker has computed of one version, as far as it is remembered."""

    def __init__(self, manifest: Manifest, submit: Submit, later: Callable[[Callable[[], None]], object]) -> None:
        self._most = manifest.max_bytes
        self._submit = submit
        self._later = later
        self._combined: OrderedDict[Bag, bytes | None] = OrderedDict()
        self._presented: OrderedDict[bytes, tuple[Any, float] | None] = OrderedDict()
        self._bags: dict[Bag, None] = {}
        self._partials: dict[bytes, None] = {}
        self._due = False
        self.changed: Callable[[], None] = lambda: None
        """Called when there is something new."""

    def combined(self, bag: Bag) -> bytes | None:
        """One partial for a bag; None: it is not known yet, or never will be."""
        if len(bag) == 1:
            return bag[0]
        if bag not in self._combined:
            self._bags[bag] = None
            self._soon()
            return None
        self._combined.move_to_end(bag)
        return self._combined[bag]

    def presented(self, bag: Bag) -> tuple[Any, float] | None:
        """The value of a bag, and its error; None: it is not known yet, or never will be."""
        partial = self.combined(bag)
        if partial is None:
            return None
        if partial not in self._presented:
            self._partials[partial] = None
            self._soon()
            return None
        self._presented.move_to_end(partial)
        return self._presented[partial]

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._later(self._ask)

    def _ask(self) -> None:
        self._due = False
        bags, self._bags = list(self._bags), {}
        partials, self._partials = list(self._partials), {}
        jobs: list[Job] = []
        if bags:
            jobs.append(Combine([list(bag) for bag in bags]))
        if partials:
            jobs.append(Present(partials))
        if jobs:
            self._submit(jobs, lambda answers: self._answered(bags, partials, answers))

    def _answered(self, bags: list[Bag], partials: list[bytes], answers: Sequence[Answer] | str) -> None:
        said = [] if isinstance(answers, str) else list(answers)
        combined = next((one.partials for one in said if isinstance(one, Combined)), [])
        presented = next((one.values for one in said if isinstance(one, Presented)), [])
        for at, bag in enumerate(bags):
            good = len(combined) == len(bags) and len(combined[at]) <= self._most
            self._combined[bag] = combined[at] if good else None
        for at, partial in enumerate(partials):
            self._presented[partial] = self._value(*presented[at]) if len(presented) == len(partials) else None
        for kept in (self._combined, self._presented):
            while len(kept) > REMEMBERED:
                kept.popitem(last=False)
        self.changed()

    def _value(self, data: bytes, error: float) -> tuple[Any, float] | None:
        """A presented value, if it is one."""
        return told(data, error) if len(data) <= self._most else None


class CodeWindows(Windows):
    """How windows of code travel: a `Form`."""

    def __init__(
        self, bags: Bags, brokers: Callable[[], int], newest: Callable[[], int], computed: Computed | None
    ) -> None:
        super().__init__(bags, brokers, newest)
        self._computed = computed

    def total(self, known: Iterable[Known]) -> Known:
        """As of questions; bags that a worker has combined are one partial."""
        total = super().total(known)
        if self._computed is None:
            return total
        reduced: Known = {}
        for window, one in total.items():
            groups = {name: self._reduced(bag) for name, bag in one.groups.items()}
            reduced[window] = Measured(one.brokers, groups, one.included)
        return reduced

    def _reduced(self, bag: Bag) -> Bag:
        assert self._computed is not None
        one = self._computed.combined(bag)
        return bag if one is None else (one,)

    def read(self, shown: Shown, bound: float) -> Read:
        """What has been presented of the groups."""
        values: dict[str, Any] = {}
        errors = [0.0]
        grouped = bool(getattr(self.definition, "by", ()))
        for group, bag in sorted((shown.groups if grouped or shown.groups else {"": ()}).items()):
            found = self._computed.presented(bag) if self._computed is not None else None
            if found is not None:
                values[group], error = found
                errors.append(error)
        end = self._window.ends_at(shown.window)
        value = values if grouped else values.get("")
        return Read(tellable(value), max(errors), shown.final, (end - self._window.size_ms, end))

    def _final(self, known: Known) -> int | None:
        """A window that cannot be presented yet is not final yet."""
        brokers = self._brokers()
        final = [window for window, one in known.items() if one.brokers == brokers and self._presentable(one)]
        return max(final, default=None)

    def _presentable(self, one: Measured) -> bool:
        grouped = bool(getattr(self.definition, "by", ()))
        bags = list(one.groups.values()) or ([] if grouped else [()])
        if self._computed is None:
            return False
        found = [self._computed.presented(bag) for bag in bags]  # all of them, so that one batch asks for all
        return None not in found


class CodeMeasuring:
    """What the clients of one broker publish, measured by code."""

    def __init__(
        self,
        manifest: Manifest,
        broker: str,
        now_ms: int,
        *,
        submit: Submit | None,
        call_later: Callable[[int, Callable[[], None]], Timer],
        changed: Callable[[], None],
    ) -> None:
        """Without `submit`, this broker cannot run the code, and only passes on what others have measured."""
        self.definition = Bags(manifest)
        self.where = Filter.parse(manifest.where or "TRUE")
        """What is measured at all."""
        self._manifest = manifest
        self._window = manifest.sliding()
        self._broker = broker
        self._submit = submit
        self._call_later = call_later
        self._changed = changed
        self._since = now_ms
        self._rows: list[Row] = []
        self._timer: Timer | None = None
        self._open: dict[int, int] = {}
        """Panes with rows that a worker has not answered for, with how many batches."""
        self._open_rows = 0
        self._held_bytes = 0
        self._lost = -1
        """The newest pane of which something was lost."""
        self._panes: dict[int, dict[str, list[bytes]]] = {}
        self.newest = self._window.closed(now_ms)
        """The window that has closed last."""
        self.late = 0
        """Notifications that belonged to a pane that had closed."""
        self.computed = None if submit is None else Computed(manifest, submit, lambda do: call_later(0, do))
        if self.computed is not None:
            self.computed.changed = changed

    def form(self, brokers: Callable[[], int]) -> CodeWindows:
        """How what is measured travels."""
        return CodeWindows(self.definition, brokers, lambda: self.newest, self.computed)

    def begin(self, now_ms: int) -> None:
        """From now on nothing is missed."""
        self._since = now_ms

    def stop(self) -> None:
        """The code does not run here any more: pass on only what others have measured."""
        self._submit = None
        self._rows.clear()
        self._panes.clear()
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def next_at(self) -> int:
        """When the next window closes, in milliseconds since 1970."""
        return self._window.ends_at(self.newest + 1) + 1_000

    of_people = False
    """Code is not told who has published something, not even by a pseudonym."""

    def take(self, notification: Notification, identity: Identity, now_ms: int, peer: str = "") -> None:
        """Something was published that passes the filter."""
        if self._submit is None:
            return
        published_ms = identity.published_at // 1_000
        pane = self._window.pane(published_ms)
        if pane < self.newest:
            self.late += 1
            return
        if self._open_rows + len(self._rows) >= MAX_OPEN_ROWS:
            self._lost = max(self._lost, pane)
            return
        topic = notification.attributes.get("type")
        told = topic if isinstance(topic, str) else ""
        body = encode_body(notification)
        self._rows.append(Row(published_ms, self._broker, JP.PUBLISHED.value, told, "", True, 0, "", body))
        if len(self._rows) >= BATCH_ROWS:
            self._lift()
        elif self._timer is None:
            self._timer = self._call_later(BATCH_WITHIN, self._lift)

    def _lift(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rows, self._rows = self._rows, []
        if not rows or self._submit is None:
            return
        panes = {self._window.pane(row.ts_ms) for row in rows}
        self._begin(panes)
        self._open_rows += len(rows)

        def done(answers: Sequence[Answer] | str) -> None:
            self._open_rows -= len(rows)
            good = not isinstance(answers, str) and self._lifted(answers, panes)
            self._end(panes, good=good)

        self._submit([Lift(rows)], done)

    def _lifted(self, answers: Sequence[Answer], panes: set[int]) -> bool:
        """Take what a worker says that these publications contribute; False if it is not that."""
        if len(answers) != 1 or not isinstance(answers[0], Lifted):
            return False
        grouped = self._manifest.grouped
        for key, pane, partial in answers[0].partials:
            if pane not in panes or len(partial) > self._manifest.max_bytes or len(key) > MAX_KEY:
                return False
        if self._held_bytes + sum(len(partial) for _, _, partial in answers[0].partials) > MAX_HELD_BYTES:
            return False
        for key, pane, partial in answers[0].partials:
            groups = self._panes.setdefault(pane, {})
            group = group_key([key]) if grouped else ""
            if group not in groups and len(groups) >= MAX_GROUPS:
                return False
            held = groups.setdefault(group, [])
            held.append(partial)
            self._held_bytes += len(partial)
            if len(held) >= COMPACT_AT:
                self._compact(pane, group, groups.pop(group))
        return True

    def _compact(self, pane: int, group: str, bag: list[bytes]) -> None:
        """Combine what has come together in one pane."""
        if self._submit is None:
            return
        self._begin({pane})
        self._held_bytes -= sum(map(len, bag))

        def done(answers: Sequence[Answer] | str) -> None:
            one = answers[0] if not isinstance(answers, str) and len(answers) == 1 else None
            good = isinstance(one, Combined) and len(one.partials) == 1
            if isinstance(one, Combined) and good and pane >= self.newest - LATEST - self._window.panes:
                self._panes.setdefault(pane, {}).setdefault(group, []).append(one.partials[0])
                self._held_bytes += len(one.partials[0])
            self._end({pane}, good=good)

        self._submit([Combine([bag])], done)

    def _begin(self, panes: set[int]) -> None:
        for pane in panes:
            self._open[pane] = self._open.get(pane, 0) + 1

    def _end(self, panes: set[int], *, good: bool) -> None:
        for pane in panes:
            self._open[pane] -= 1
            if not self._open[pane]:
                del self._open[pane]
            if not good:
                self._lost = max(self._lost, pane)
        if min(panes) < self.newest:
            self._changed()  # a window has closed without them

    def close(self, now_ms: int) -> Known:
        """The latest windows that have closed, as this broker knows them."""
        if self._rows and self._window.closed(now_ms) > self.newest:
            self._lift()
        self.newest = max(self.newest, self._window.closed(now_ms))
        oldest = self.newest - LATEST - self._window.panes
        for pane in [pane for pane in self._panes if pane < oldest]:
            self._held_bytes -= sum(len(one) for bag in self._panes.pop(pane).values() for one in bag)
        return {window: self._closed(window) for window in range(self.newest - LATEST + 1, self.newest + 1)}

    def _closed(self, window: int) -> Measured:
        covered = self._window.covers(window)
        waiting = any(pane in self._open for pane in covered) or covered.start <= self._lost
        missed = self._window.ends_at(window) - self._window.size_ms < self._since
        if self._submit is None or waiting or missed:
            return Measured(0, {})
        groups: dict[str, Bag] = {}
        for pane in covered:
            for group, held in self._panes.get(pane, {}).items():
                groups[group] = tuple(sorted((*groups.get(group, ()), *held)))
        if len(groups) > MAX_GROUPS:
            return Measured(0, {})
        return Measured(1, groups, None)  # what a worker was given is not noted
