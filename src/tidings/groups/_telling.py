"""What a deciding point tells the brokers of the members of an acknowledged group: what is handled."""

from __future__ import annotations

from tidings.broker import Timer
from tidings.model import EventKey

from ._handled import HandledFacts
from ._limits import TELL_AFTER, TELL_MANY
from ._roster import Roster
from ._work_host import Host
from ._work_messages import Facts


class Telling:
    """Tells what is new soon, and many news at once."""

    def __init__(self, host: Host, key: str, roster: Roster) -> None:
        self._host = host
        self._key = key
        self._roster = roster
        self._timer: Timer | None = None
        self._untold = 0

    @property
    def facts(self) -> HandledFacts:
        """What is handled, as far as this broker knows."""
        return self._host.handled(self._key)

    def handled(self, event: EventKey) -> None:
        """Note that an event is handled, and tell it soon."""
        self.facts.note(event)
        self._untold += 1
        if self._untold >= TELL_MANY:
            self.now()
        else:
            self.soon()

    def soon(self) -> None:
        """Tell what is new, if anything is, in a moment."""
        if self._timer is None and self.facts.has_news and self._roster.present:
            self._timer = self._host.call_later(TELL_AFTER, self._due)

    def _due(self) -> None:
        self._timer = None
        self.now()

    def now(self) -> None:
        """Tell what is new."""
        self._untold = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.facts.has_news:
            news = self.facts.take_news()
            for broker in list(self._roster.present):
                self._host.say(broker, Facts(self._key, news, self.facts.told_lost()))

    def everything(self, broker: str) -> None:
        """Tell one broker all that is known."""
        self._host.say(broker, Facts(self._key, self.facts.told(), self.facts.told_lost()))
