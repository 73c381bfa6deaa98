"""Joinpoints: the only way into the broker for everything that is not its core.

Theory of operation
-------------------
A *joinpoint* is a named step of the broker. Its default behaviour is a method of the broker. A *feature* may
put *advice* around it: a function that gets `proceed` and the arguments of the step, may look at them, call
`proceed(...)` (the rest of the advice, then the default), and return a result.

Weaving happens once, when the broker is built: a joinpoint that nobody advises *is* the method, so a broker
without features does what the plain broker does, at the same price. Handling one message is one turn; advice
runs inside it, synchronously.

Rules, all enforced here:
- The default runs exactly once per step, or not at all if a privileged feature suppresses it. A second `proceed`
  raises.
- Only a *privileged* feature may change arguments, result or suppress the default. Others observe: what they
  pass on and return is replaced by the real thing, and the default runs even if they never proceed.
- A result of the wrong type is a failure of the feature.
- A failure stops the broker if the feature is `fail_stop` (those that keep promises, like history); otherwise the
  advice is skipped, counted, and the step goes on as if it were not there.
- Features are ordered by (priority, name), the first outermost. Independent features must not rely on it: tests
  shuffle them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tidings.model import FeatureError

if TYPE_CHECKING:
    from ._broker import Broker
    from ._context import Context
    from ._links import Link
    from ._waves import WaveKind

Step: TypeAlias = Callable[..., Any]
Advice: TypeAlias = Callable[..., Any]
"""Called as `advice(proceed, *arguments of the joinpoint)`."""


class Joinpoint(enum.Enum):
    """The steps that can be advised. The value of each is the type that its result must have."""

    SUBSCRIBE = ("subscribe", type(None))
    """(registration): a client subscribes. What reaches into the past is refused unless a feature takes it."""
    AD_ADD = ("ad_add", dict)
    """(scope, entry): an advertisement came. Result: per link, what to announce and withdraw."""
    SUB_ADD = ("sub_add", dict)
    """(scope, entry): a subscription came. Result: per link, what to announce and withdraw."""
    AD_DEL = ("ad_del", dict)
    """(scope, entry): an advertisement has ended. Result as above."""
    SUB_DEL = ("sub_del", dict)
    """(scope, entry): a subscription has ended. Result as above."""
    PUB_MATCH = ("pub_match", dict)
    """(route, envelope, source): a notification came. Result: the links it goes to, each with its
    matching subscriptions (brokers: none)."""
    PUB_SEND = ("pub_send", type(None))
    """(route, envelope, source, targets): it is sent."""
    SUB_SEND = ("sub_send", type(None))
    """(scope, announcement, source, targets): a subscription is announced to neighbours."""
    UNSUB_SEND = ("unsub_send", type(None))
    """(scope, id, source, targets): an announced subscription is withdrawn."""
    AD_SEND = ("ad_send", type(None))
    """(scope, announcement, source, targets): an advertisement is announced to neighbours."""
    UNAD_SEND = ("unad_send", type(None))
    """(scope, id, source, targets): an announced advertisement is withdrawn."""
    ATTACH = ("attach", type(None))
    """(link): a client has come."""
    DETACH = ("detach", type(None))
    """(link): a client has gone; its subscriptions and advertisements end."""
    DELIVER = ("deliver", type(None))
    """(route, envelope, link, subscriptions): a notification is handed to a client."""
    ACK = ("ack", type(None))
    """(link, event key): a client has handled everything up to this event."""
    CROSS = ("cross", type(None))
    """(route, envelope, scope): a notification crosses into another scope."""
    LINK = ("link", type(None))
    """(link, up): the link to a neighbour broker has come up or gone down."""
    TREE = ("tree", type(None))
    """(old, new): this broker adopts a new tree."""
    GRAPH = ("graph", type(None))
    """(old, new): the scope graph has a new version."""

    def __init__(self, label: str, result: type) -> None:
        self.label = label
        self.result = result


class Feature:
    """A set of advice with its own messages, timers, waves and state. Derive from it, override what you need."""

    name: str
    """Names the feature in messages, attachments and statistics."""
    priority: int = 0
    """Smaller is further outside."""
    privileged: bool = False
    """May change what the broker does, not only observe it."""
    fail_stop: bool = True
    """A failure stops the broker; False: a failure is counted and the advice is skipped."""

    context: Context
    """The broker, as far as features may see and use it. Set when the broker is built."""

    def start(self, broker: Broker) -> None:
        """The broker is built. What this feature keeps on disk can be read now."""

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """The advice, by joinpoint. Asked once, when the broker is built."""
        return {}

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The waves that this feature starts and answers, by kind. Asked once."""
        return {}

    def neighbour_ready(self, link: Link) -> None:
        """A tree neighbour is ready; what is sent to it now comes before everything that the broker tells it."""

    def on_message(self, link: Link, body: bytes) -> None:
        """A message of this feature has come from a neighbour or client."""


class Failures:
    """How often the advice of each feature has failed."""

    def __init__(self) -> None:
        self.by_feature: dict[str, int] = {}

    def count(self, feature: Feature) -> None:
        self.by_feature[feature.name] = self.by_feature.get(feature.name, 0) + 1


def ordered(features: Iterable[Feature]) -> list[Feature]:
    """The features in weaving order; their names must differ."""
    chosen = sorted(features, key=lambda feature: (feature.priority, feature.name))
    names = [feature.name for feature in chosen]
    for name in names:
        if names.count(name) > 1:
            raise FeatureError(f"two features are named '{name}'; rename one of them")
    return chosen


def weave(joinpoint: Joinpoint, default: Step, features: list[Feature], failures: Failures) -> Step:
    """The step with all advice around it; the default itself if there is none."""
    step = default
    for feature in reversed(features):
        advice = feature.advice().get(joinpoint)
        if advice is not None:
            step = _around(joinpoint, step, feature, advice, failures)
    return step


def _around(joinpoint: Joinpoint, inner: Step, feature: Feature, advice: Advice, failures: Failures) -> Step:
    def advised(*arguments: Any) -> Any:
        results: list[Any] = []
        inner_errors: list[Exception] = []

        def proceed(*changed: Any) -> Any:
            if results or inner_errors:
                raise FeatureError(f"feature '{feature.name}' proceeded twice at {joinpoint.name}")
            given = changed if changed and feature.privileged else arguments
            try:
                results.append(inner(*given))
            except Exception as error:
                inner_errors.append(error)
                raise
            return results[0]

        try:
            result = advice(proceed, *arguments)
            if feature.privileged and not isinstance(result, joinpoint.result):
                raise FeatureError(
                    f"feature '{feature.name}' returned {type(result).__name__} at {joinpoint.name}, "
                    f"which needs {joinpoint.result.__name__}"
                )
        except Exception as error:
            if inner_errors:
                raise inner_errors[0] from None  # the step itself refused: not the feature's failure
            failures.count(feature)
            if feature.fail_stop:
                if isinstance(error, FeatureError):
                    raise
                raise FeatureError(f"feature '{feature.name}' failed at {joinpoint.name}: {error!r}") from error
            return results[0] if results else inner(*arguments)
        if inner_errors:
            raise inner_errors[0]
        if feature.privileged:
            return result
        return results[0] if results else inner(*arguments)

    return advised
