"""A notification that tells where it comes from, for those who ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidings.model import Identity, Notification

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Traced(Notification):
    """A notification with its origin, as subscriptions with `with_origin=True` yield it."""

    __slots__ = ("_from_past", "identity")

    _from_past: bool
    identity: Identity
    """The identity of the publication: its broker, its number there, and its publisher."""

    @classmethod
    def of(cls, notification: Notification, identity: Identity, from_past: bool) -> Traced:
        """Return the same notification with its origin."""
        self = cls.__new__(cls)
        self._attributes = notification.attributes
        self.identity = identity
        self._from_past = from_past
        return self

    @property
    def from_past(self) -> bool:
        """Whether it was published before the subscription began, and came from the past."""
        return self._from_past

    @property
    def published_at(self) -> datetime:
        """The time at which its broker took it."""
        return _EPOCH + timedelta(microseconds=self.identity.published_at)

    def __repr__(self) -> str:
        when = self.published_at.isoformat().replace("+00:00", "Z")
        origin = self.identity.origin
        return f"Traced({self._attributes!r}, from_past={self._from_past}, published_at={when}, origin={origin!r})"
