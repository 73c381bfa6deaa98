"""Dead letters: what a group has given up, as notifications that anybody may subscribe to.

A dead letter is published by the broker that decides for the group, in no scope. It has the attributes

    type            "dead-letter"
    group           the name of the group, as its members write it
    deliveries      how often the job was given to a member
    origin          of the job: the broker, its epoch, and the number, as in "berlin/1/17"
    job.NAME        each attribute NAME of the job

so a filter for the jobs themselves does not find it, and `type = 'dead-letter' AND group = 'billing'` does. A group
whose filter accepts its own dead letters does not get them: they would go round for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from tidings.broker import Guard, InnerClient, Timer
from tidings.model import AccessDenied, Filter, Notification, TidingsError
from tidings.wire import Advertise, Frame, Publish, PublishAck, Refused, encode_body

from ._jobs import Job
from ._names import GroupName

DEAD_LETTER = "dead-letter"
FILTER = Filter.parse(f"type = '{DEAD_LETTER}'")
_PREFIX = "job."


def dead_letter(key: str, job: Job) -> Notification:
    """What is published for a job."""
    assert job.envelope is not None
    attributes = {f"{_PREFIX}{name}": value for name, value in job.envelope.notification.items()}
    return Notification(
        {
            "type": DEAD_LETTER,
            "group": str(GroupName.of_key(key)),
            "deliveries": job.deliveries,
            "origin": str(job.key),
            **attributes,
        }
    )


def is_dead_letter_of(key: str, notification: Notification) -> bool:
    """Whether a group gave this up itself."""
    is_one = notification.get("type") == DEAD_LETTER and "deliveries" in notification
    return is_one and notification.get("group") == str(GroupName.of_key(key))


def check_letters(guard: Guard, name: GroupName, max_deliveries: int) -> None:
    """Raise `AccessDenied` unless a client may publish the dead letters that its group would have published for it."""
    try:
        guard.check_advertise(Filter.parse(f"type = '{DEAD_LETTER}' AND group = {_quoted(str(name))}"))
    except TidingsError:
        raise AccessDenied(
            f"max_deliveries={max_deliveries}: '{guard.name}' may not publish the dead letters of group '{name}'; add "
            f"`type = '{DEAD_LETTER}'` to its `publish`, or give None, as in ack=tidings.Acks(max_deliveries=None) or "
            "--no-dead-letters"
        ) from None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class Host(Protocol):
    """The broker, as far as dead letters need it."""

    @property
    def advertises(self) -> bool:
        """Whether what is published must be advertised."""
        ...

    def call_later(self, delay: int, action: Callable[[], None]) -> Timer:
        """Call `action` in a turn of its own."""
        ...

    def open_publisher(self, receive: Callable[[Frame], None]) -> InnerClient:
        """Open a client inside this broker that publishes dead letters."""
        ...


class Undertaker:
    """Publishes the dead letters of one broker, by a client inside it that is there as long as it is needed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._inner: InnerClient | None = None
        self._last = 0
        self._waiting: dict[int, Callable[[bool], None]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def bury(self, letter: Notification, buried: Callable[[bool], None]) -> None:
        """Publish a dead letter; `buried` is called when the broker has taken it, or with False if it does not."""
        if (inner := self._inner) is None:
            inner = self._inner = self._host.open_publisher(self._receive)
            self._last = max(self._last, inner.published)
            if self._host.advertises:
                inner.send(Frame(Advertise("dead-letters", FILTER)))
        self._last += 1
        self._waiting[self._last] = buried
        inner.send(Frame(Publish(self._last, encode_body(letter))))

    def _receive(self, frame: Frame) -> None:
        message = frame.message
        if isinstance(message, PublishAck):
            self._answered(range(message.seq - message.count + 1, message.seq + 1), taken=True)
        elif isinstance(message, Refused) and message.publication:
            self._answered((message.publication,), taken=False)

    def _answered(self, numbers: Iterable[int], *, taken: bool) -> None:
        answered = [one for one in (self._waiting.pop(number, None) for number in numbers) if one is not None]
        self._host.call_later(0, lambda: self._tell(answered, taken=taken))

    def _tell(self, answered: list[Callable[[bool], None]], *, taken: bool) -> None:
        for one in answered:
            one(taken)
        if not self._waiting and self._inner is not None:
            self._inner.close()
            self._inner = None
