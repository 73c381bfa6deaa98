"""A step of a mapping: what every step can say about notifications and about filters.

Theory of operation
-------------------
A step takes the attributes of one notification and gives those of at most one. Two rules hold for all steps:

- where the attribute that a step works on is *missing*, the step changes nothing about it;
- where the attribute is there and the step is *undefined* on it (a conversion of a text, a division by
  zero), the notification cannot be mapped and is blocked: a wrong price is worse than none.

A step translates filters in both directions, so that routing works across it. Here `m` is the step:

    wanted(F)    m(n) passes F                =>  n passes wanted(F)         for subscriptions
    offered(F)   n passes F, m(n) is not None =>  m(n) passes offered(F)     for advertisements

Both may pass more than needed, never less. An advertisement speaks of lists element by element (see
`tidings.model._overlap`), and `offered` is right in that reading, too: if F promises n, offered(F) promises m(n).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidings.model import Filter, MappingError, Notification, TidingsError, Value, ValueRefused

Attributes: TypeAlias = dict[str, Value]


class MappingFailed(TidingsError):
    """A notification on which a step is undefined, or a function that failed; the notification is blocked."""


class Step(msgspec.Struct, frozen=True, tag_field="step", tag=str.lower, forbid_unknown_fields=True):
    """One step of a mapping."""

    def run(self, attributes: Attributes) -> Attributes | None:
        """The attributes after this step, None if it blocks them, or `MappingFailed`. The argument stays as it is."""
        raise NotImplementedError

    def wanted(self, filter: Filter) -> Filter:
        """What must come in, so that what goes out passes the filter."""
        raise NotImplementedError

    def offered(self, filter: Filter) -> Filter:
        """What may go out, where what comes in passes the filter."""
        raise NotImplementedError

    def inverse(self) -> Step | None:
        """The step that takes this one back, if there is one."""
        return None


def checked_names(step: Step, *names: str) -> None:
    """Refuse names that no attribute can have."""
    for name in names:
        try:
            Notification({name: True})
        except ValueRefused as error:
            raise MappingError(f"{type(step).__name__}: {error}") from None
