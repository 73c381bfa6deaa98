"""What is measured at one broker: the questions, the windows that close, and what lingers."""

from __future__ import annotations

from collections.abc import Callable

from tidings.broker import Timer
from tidings.matching import Matcher, make_index
from tidings.model import Identity, Matches, Notification

from ._code import CodeMeasuring
from ._subject import Subject
from ._windows import Known, Measuring, Windows, is_question
from .definitions import touches

QUESTION_VERSION = "2"
"""The version of the language of questions, and of what its partials look like."""
LINGER = 10_000_000
"""Microseconds for which something is still measured after the last ask has ended: a new tree takes less."""


class Measurements:
    """The questions of one broker."""

    def __init__(
        self,
        broker: str,
        now: Callable[[], int],
        call_later: Callable[[int, Callable[[], None]], Timer],
        changed: Callable[[Subject, Known], None],
        forgotten: Callable[[], None],
        *,
        carries: Callable[[str], bool],
        pseudonym: Callable[[str, str], str],
        code: Callable[[Subject, Callable[[], None]], CodeMeasuring] | None = None,
    ) -> None:
        """`changed` hears of windows that have closed; `forgotten`, that something is no longer measured; `carries`:
        whether this broker is one of those that contribute to a scope; `pseudonym`: by which an aggregate knows a
        client; `code` measures what is deployed as code, and calls when it knows more."""
        self._broker = broker
        self._now = now
        self._call_later = call_later
        self._changed = changed
        self._forgotten = forgotten
        self._carries = carries
        self._pseudonym = pseudonym
        self._code = code
        self._measuring: dict[Subject, Measuring | CodeMeasuring] = {}
        self._indexes: dict[str, Matcher[Subject]] = {}
        """Those about publications, by scope."""
        self._subscribing: dict[Subject, Measuring] = {}
        """Those about subscriptions."""
        self._timers: dict[Subject, Timer] = {}
        self._lingering: dict[Subject, Timer] = {}
        self._late = 0

    def __bool__(self) -> bool:
        return bool(self._measuring)

    @property
    def late(self) -> int:
        """Notifications that belonged to a pane that had closed."""
        return self._late + sum(one.late for one in self._measuring.values())

    def form(self, subject: Subject, brokers: Callable[[], int]) -> Windows:
        """How what is measured for a question travels; it is measured as soon as it begins."""
        if (timer := self._lingering.pop(subject, None)) is not None:
            timer.cancel()
        measuring = self._measuring.get(subject)
        if measuring is None:
            measuring = self._measuring[subject] = self._made(subject)
            if isinstance(measuring, Measuring) and measuring.of_subscriptions:
                self._subscribing[subject] = measuring
            else:
                self._indexes.setdefault(subject.scope, make_index()).add(measuring.where, subject)
        return measuring.form(brokers)

    def _made(self, subject: Subject) -> Measuring | CodeMeasuring:
        if is_question(subject.aggregate):
            return Measuring(subject.aggregate, self._broker, self._now() // 1_000)
        assert self._code is not None
        return self._code(subject, lambda: self._again(subject))

    def _again(self, subject: Subject) -> None:
        """More is known of windows that have closed."""
        if subject in self._timers:
            self._close(subject)

    def stop(self, subject: Subject) -> None:
        """Code does not run here any more."""
        measuring = self._measuring.get(subject)
        if isinstance(measuring, CodeMeasuring):
            measuring.stop()
            self._again(subject)

    def begin(self, subject: Subject) -> None:
        """The step is advised: from now on nothing is missed."""
        if subject not in self._timers:
            self._measuring[subject].begin(self._now() // 1_000)
        self._close(subject)

    def renamed(self) -> None:
        """Clients have other pseudonyms from now on: what was measured by the old ones is dropped."""
        for subject, measuring in list(self._measuring.items()):
            if isinstance(measuring, Measuring) and measuring.of_people:
                measuring.restart(self._now() // 1_000)
                self._again(subject)

    def _close(self, subject: Subject) -> None:
        """Windows may have closed: tell so, and wait for the next."""
        if (timer := self._timers.pop(subject, None)) is not None:
            timer.cancel()
        now = self._now()
        measuring = self._measuring[subject]
        known = measuring.close(now // 1_000)
        self._timers[subject] = self._call_later(
            max(measuring.next_at * 1_000 - now, 1_000), lambda: self._close(subject)
        )
        self._changed(subject, known if self._carries(subject.scope) else {})

    @property
    def scopes(self) -> list[str]:
        """In which something is measured."""
        return list(self._indexes)

    @property
    def index(self) -> Matcher[Subject] | None:
        """What says whether a publication concerns a question; None: there are questions about several scopes."""
        return next(iter(self._indexes.values())) if len(self._indexes) == 1 else None

    @property
    def subscribing(self) -> list[Subject]:
        """The questions about subscriptions."""
        return list(self._subscribing)

    def begun(self, subject: Subject, filter: Matches) -> None:
        """A client has subscribed that is seen in the scope of a question, in these terms."""
        measuring = self._subscribing[subject]
        if touches(measuring.where, filter):
            measuring.begun(self._now() // 1_000)

    def published(self, scope: str, notification: Notification, identity: Identity, publisher: str) -> None:
        """A client of this broker has published something that is visible in a scope in this form."""
        index = self._indexes.get(scope)
        if index is not None and (concerned := index.match(notification)):
            now = self._now() // 1_000
            for subject in concerned:
                measuring = self._measuring[subject]
                peer = self._pseudonym(subject.aggregate, publisher) if measuring.of_people else ""
                measuring.take(notification, identity, now, peer)

    def linger(self, subject: Subject) -> None:
        """Nobody asks any more; measure on for a while, in case somebody asks again."""
        if subject in self._timers:
            self._lingering[subject] = self._call_later(LINGER, lambda: self._forget(subject))
        else:  # it was never begun
            self._forget(subject)

    def _forget(self, subject: Subject) -> None:
        self._lingering.pop(subject, None)
        if (timer := self._timers.pop(subject, None)) is not None:
            timer.cancel()
        self._late += self._measuring.pop(subject).late
        if self._subscribing.pop(subject, None) is None:
            index = self._indexes[subject.scope]
            index.remove(subject)
            if not len(index):
                del self._indexes[subject.scope]
        self._forgotten()
