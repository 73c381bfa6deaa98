"""Joinpoints: the only way into the broker for everything that is not its core.

Theory of operation
-------------------
A *joinpoint* is a named step of the broker. Its default behaviour is a method of the broker. A *feature* may
put *advice* around it: a function that gets `proceed` and the arguments of the step, may look at them, call
`proceed(...)` (the rest of the advice, then the default), and return a result.

Weaving happens when the broker is built, and when a feature asks for it (`Context.weave`), then between two turns:
handling one message is one turn, advice runs inside it, synchronously, and sees one weaving from its first step to
its last. A joinpoint that nobody advises *is* the method, so a broker without features does what the plain
broker does, at the same price, and so does one whose features advise nothing any more.

PUBLISHED is different: its advice observes, gets the arguments without `proceed`, and can change nothing.

Rules, all enforced here:
- The default runs exactly once per step, or not at all if a privileged feature suppresses it. A second `proceed`
  raises, and so does one when its step has ended.
- Only a *privileged* feature may change arguments, result or suppress the default. Others observe: what they
  pass on and return is replaced by the real thing, and the default runs even if they never proceed.
- A result of the wrong type is a failure of the feature.
- A failure stops the broker if the feature is `fail_stop` (those that keep promises, like history); otherwise the
  advice is skipped, counted, and the step goes on as if it were not there. The same holds for all else that the broker
  calls (see `_failures`).
- Advice is woven when all features have started: none runs in a feature that has not, and what features do in `start`
  meets no advice.
- Features are ordered by (priority, name), the first outermost. Independent features must not rely on it: tests
  shuffle them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from tidings.model import FeatureError

from ._failures import Failures

if TYPE_CHECKING:
    from tidings.matching import Matcher
    from tidings.wire import Envelope

    from ._context import Context
    from ._links import Link
    from .overlay import WaveKind

_T = TypeVar("_T")

Proceed: TypeAlias = Callable[..., Any]
Advice: TypeAlias = Callable[..., Any]
"""Called as `advice(proceed, *arguments of the joinpoint)`."""


class For:
    """Advice at DELIVER that concerns some clients only: what goes to others passes it by, at no cost."""

    __slots__ = ("advice", "links")

    def __init__(self, links: Set[Link], advice: Advice) -> None:
        """`links` is looked at for each notification, so its owner may change it at any time."""
        self.links = links
        self.advice = advice

    def __call__(self, proceed: Proceed, route: Any, envelope: Any, link: Link, subscriptions: Any) -> Any:
        if link in self.links:
            return self.advice(proceed, route, envelope, link, subscriptions)
        return proceed(route, envelope, link, subscriptions)


class Watch:
    """An observer of PUBLISHED that takes many publications at once: those that came together from one client.

    So it does not stand in the way of the data plane (docs/native.md), which hands over what concerns it. It may be
    given more than that, and is called before any of them is sent; what it sends itself goes before all of them.
    """

    __slots__ = ("concerned", "observer")

    def __init__(
        self,
        observer: Callable[[Sequence[Envelope], Link], None],
        concerned: Callable[[], Matcher[Any] | None] = lambda: None,
    ) -> None:
        """`concerned` is asked whenever publications have come: an index whose filters match all that concerns the
        observer; None: everything may."""
        self.observer = observer
        self.concerned = concerned

    def __call__(self, envelope: Envelope, link: Link) -> None:
        self.observer((envelope,), link)


class Watching:
    """All observers of PUBLISHED, if each of them takes many publications at once."""

    def __init__(self, watches: list[tuple[Feature, Watch]], failures: Failures) -> None:
        self._watches = watches
        self._failures = failures
        self.concerned: Callable[[], Matcher[Any] | None] = lambda: None
        """An index whose filters match all that concerns them; None: everything may."""
        if len(watches) == 1:
            self.concerned = watches[0][1].concerned

    def observe(self, envelopes: Sequence[Envelope], link: Link) -> None:
        """These have come together from a client."""
        for feature, watch in self._watches:
            try:
                watch.observer(envelopes, link)
            except Exception as error:
                self._failures.failed(feature, "as an observer", error)


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
    AWAY = ("away", type(None))
    """(link): the connection of a client is lost, or silent. It may come back; if it does not, DETACH follows."""
    BACK = ("back", type(None))
    """(link): a client that was away is there again, and its session goes on."""
    ADOPT = ("adopt", type(None))
    """(old, new, only): what one client subscribes to and advertises becomes another's, which stands for the same
    principal; only these registrations, or None: all. Nothing is announced or withdrawn."""
    PUBLISHED = ("published", type(None))
    """(envelope, link): a publication of a client of this broker has got its identity. Observed only, without
    `proceed`, once for each publication in the network, before it is sent anywhere. Advice that takes many at once
    says so (`Watch`); any other keeps the data plane from taking publications as bytes."""
    DELIVER = ("deliver", type(None))
    """(route, envelope, link, subscriptions): a notification is handed to a client. A call for each client; advice
    that concerns few of them says so (`For`), and the others stay in groups that get one frame."""
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
    """A failure stops the broker; False: it is counted and logged, and what has failed is skipped."""

    context: Context
    """The broker, as far as features may see and use it. Set when the broker is built."""

    def start(self) -> None:
        """The broker is built, and `context` can be used. What this feature keeps on disk can be read now.

        All features start before any advice is woven: clients that are opened here pass no ATTACH advice.
        """

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """The advice, by joinpoint. Asked once, before `start`; `Context.weave` changes it later."""
        return {}

    def wave_kinds(self) -> Mapping[str, WaveKind]:
        """The waves that this feature starts and answers, by kind. Asked once."""
        return {}

    def neighbour_ready(self, link: Link) -> None:
        """A tree neighbour is ready; what is sent to it now comes before everything that the broker tells it."""

    def on_message(self, link: Link, body: bytes) -> None:
        """A message of this feature has come from a neighbour or client."""

    def on_attached(self, link: Link, data: bytes) -> None:
        """A neighbour's feature has attached this to a message, which is handled next."""

    def on_routed(self, source: str, body: bytes) -> None:
        """A message of this feature has come from a broker, see `Context.send_to`."""


def advice_of(feature: Feature) -> dict[Joinpoint, Advice]:
    """What a feature advises when the broker is built."""
    return checked_advice(feature, feature.advice())


def start(feature: Feature) -> bool:
    """Start a feature; that it has started."""
    feature.start()
    return True


def checked_advice(feature: Feature, advice: Mapping[Joinpoint, _T]) -> dict[Joinpoint, _T]:
    """The advice of a feature, if each of it is at a joinpoint; else `FeatureError`."""
    for joinpoint in advice:
        if not isinstance(joinpoint, Joinpoint):
            raise FeatureError(
                f"feature '{feature.name}' advises {joinpoint!r}, which is no joinpoint; choose one of `Joinpoint`"
            )
    return dict(advice)


def ordered(features: Iterable[Feature]) -> list[Feature]:
    """The features in weaving order; their names must differ."""
    chosen = sorted(features, key=lambda feature: (feature.priority, feature.name))
    names = [feature.name for feature in chosen]
    for name in names:
        if names.count(name) > 1:
            raise FeatureError(f"two features are named '{name}'; rename one of them")
    return chosen


def weave(joinpoint: Joinpoint, default: Proceed, advice: list[tuple[Feature, Advice]], failures: Failures) -> Proceed:
    """The step with all advice around it, the first outermost; the default itself if there is none."""
    step = default
    for feature, one in reversed(advice):
        step = _around(joinpoint, step, feature, one, failures)
    return step


def watching(observers: list[tuple[Feature, Advice]], failures: Failures) -> Watching | None:
    """All observers of a step together; None if there are none, or one of them takes each publication by itself."""
    watches = [(feature, one) for feature, one in observers if isinstance(one, Watch)]
    return Watching(watches, failures) if watches and len(watches) == len(observers) else None


def observe(observers: list[tuple[Feature, Advice]], failures: Failures) -> Proceed | None:
    """One call for all observers of a step; None if there are none."""
    if not observers:
        return None

    def observed(*arguments: Any) -> None:
        for feature, observer in observers:
            try:
                observer(*arguments)
            except Exception as error:
                failures.failed(feature, "as an observer", error)

    if len(observers) == 1:
        ((only, observes),) = observers

        def observed_once(envelope: Any, link: Any) -> None:
            try:
                observes(envelope, link)
            except Exception as error:
                failures.failed(only, "as an observer", error)

        return observed_once
    return observed


class _Refused(NamedTuple):
    """What the rest of a step has come to that has raised."""

    error: Exception


_NOT_YET, _UNDER_WAY, _ENDED = object(), object(), object()
"""What the rest of a step has come to before its end; or that it has ended, and nobody may proceed any more."""


def _around(joinpoint: Joinpoint, inner: Proceed, feature: Feature, advice: Advice, failures: Failures) -> Proceed:
    """A step with one advice around it. This is on the way of every notification: one variable says it all."""
    privileged = feature.privileged

    def advised(*arguments: Any) -> Any:
        done: Any = _NOT_YET

        def proceed(*changed: Any) -> Any:
            nonlocal done
            if done is not _NOT_YET:
                when = "when its step had ended" if done is _ENDED else "twice"
                raise FeatureError(f"feature '{feature.name}' proceeded {when} at {joinpoint.name}")
            done = _UNDER_WAY
            try:
                done = inner(*(changed if changed and privileged else arguments))
            except Exception as error:
                done = _Refused(error)
                raise
            return done

        try:
            result = advice(proceed, *arguments)
            if privileged and not isinstance(result, joinpoint.result):
                raise FeatureError(
                    f"feature '{feature.name}' returned {type(result).__name__} at {joinpoint.name}, "
                    f"which needs {joinpoint.result.__name__}"
                )
        except Exception as error:
            if type(done) is _Refused:
                raise done.error from None  # the step itself refused: not the feature's failure
            early, done = done, _ENDED
            failures.failed(feature, f"at {joinpoint.name}", error)
            return inner(*arguments) if early is _NOT_YET else early
        early, done = done, _ENDED
        if type(early) is _Refused:
            raise early.error
        if privileged:
            return result
        return inner(*arguments) if early is _NOT_YET else early

    return advised
