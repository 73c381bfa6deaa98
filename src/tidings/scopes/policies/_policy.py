"""A transmission policy: which of those that may get a notification do get it, and when.

Interfaces say what may cross an edge. Then the policy of a component picks from those that are left, its *candidates*:

    publishing   of a client or scope: the superscopes that it publishes in
    delivery     of a scope: the members that get what came from a superscope
    internal     of a scope: the members that get what a member published, or a subscope
    traverse     of a scope: the level below it at which something is delivered

A policy never widens what may be seen: whatever it returns that is no candidate is an error, and an error denies.

Most policies decide *per candidate*: by the notification and one candidate, so they are asked where the candidate is
attached or the edge is crossed, and the answer is the same wherever and whenever they are asked. They are asked again
for what comes late, from an origin or from the past.

A policy that *compares* candidates, or whose answers depend on earlier ones, is asked once for each notification, about
all candidates, at the deciding point of its scope. Nobody else is asked, and nothing is decided again. So it may keep a
state, which the next deciding point is told.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tidings.model import Filter, Identity, Notification, ScopeError
from tidings.scopes._attributes import NO_ATTRIBUTES, AnyAttributes, attributes_of

if TYPE_CHECKING:
    from tidings.scopes._graph import Graph

MAX_POLICY_NAME = 128
"""The most characters of the name of a policy."""
MAX_STATE = 262_144
"""The most bytes of what one deciding point tells the next about a policy."""


class PolicyKind(enum.Enum):
    """What a policy decides."""

    PUBLISHING = "publishing"
    """Into which superscopes a component publishes."""
    DELIVERY = "delivery"
    """Which members get what came from a superscope."""
    INTERNAL = "internal"
    """Which members get what was published inside."""
    TRAVERSE = "traverse"
    """At which level below a scope something is delivered."""


PUBLISHING, DELIVERY, INTERNAL = (
    kind.value for kind in (PolicyKind.PUBLISHING, PolicyKind.DELIVERY, PolicyKind.INTERNAL)
)


class PolicyUse(msgspec.Struct, frozen=True):
    """A policy as a component has it: the name under which it is registered, and what it is told.

    >>> print(PolicyUse("delay", {"seconds": 900}))
    delay(seconds=900)
    """

    name: str
    parameters: AnyAttributes = NO_ATTRIBUTES

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "parameters", attributes_of(self.parameters))

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in sorted(self.parameters.items()))
        return f"{self.name}({given})"


Load: TypeAlias = tuple[int, int]
"""What is under way to a member, and what it was given by this deciding point before."""


class PolicyContext:
    """What a policy may know besides the notification: what filters cannot see."""

    __slots__ = ("_graph", "_load", "component", "identity", "kind", "parameters", "path", "waited", "woken")

    def __init__(
        self,
        kind: PolicyKind,
        component: str,
        parameters: Mapping[str, Any],
        *,
        graph: Graph | None = None,
        identity: Identity | None = None,
        path: tuple[str, ...] = (),
        load: Callable[[str], Load] | None = None,
    ) -> None:
        self.kind = kind
        self.component = component
        """The scope or client that has the policy; a client is written "@name"."""
        self.parameters = parameters
        self.identity = identity
        """Whose publication it is, of when and where; None while the policy is set up."""
        self.path = path
        """The scopes that the notification has come through, the last one is where it is now."""
        self.waited = False
        """Whether the policy has raised `Wait` for it before, here."""
        self.woken = False
        """Whether `wake` has been called."""
        self._graph = graph
        self._load = load

    @property
    def publisher(self) -> str:
        """The client that published it, as a node of the graph; "" while the policy is set up."""
        return "" if self.identity is None else f"@{self.identity.publisher}"

    @property
    def published_at(self) -> int:
        """When it was published, in microseconds since 1970 UTC, by the clock of the publisher's broker."""
        return 0 if self.identity is None else self.identity.published_at

    @property
    def source(self) -> str:
        """The member that brought it into the scope: its publisher, or the scope that it came from."""
        return self.path[-2] if len(self.path) > 1 else self.publisher

    def attributes(self, node: str) -> Mapping[str, Any]:
        """What administrators say about a client or scope; nothing, if the graph does not know it."""
        if self._graph is None or (not node.startswith("@") and node not in self._graph.scopes):
            return NO_ATTRIBUTES
        return self._graph.attributes(node)

    def load(self, node: str) -> Load:
        """What is under way to a candidate, and what it was given before; for a policy that compares."""
        return (0, 0) if self._load is None else self._load(node)

    def wake(self) -> None:
        """Have the policy asked again about everything for which it has raised `Wait`."""
        self.woken = True

    def roles(self, node: str) -> tuple[str, ...]:
        """The roles of a client or scope."""
        if self._graph is None or (not node.startswith("@") and node not in self._graph.scopes):
            return ()
        return self._graph.roles(node)

    def superscopes(self, node: str) -> tuple[str, ...]:
        """The scopes that a client or scope is a member of."""
        return () if self._graph is None else tuple(self._graph.superscopes(node))


class Wait(Exception):
    """Raised by a policy at a deciding point: it cannot decide yet, and says `wake` when it can."""


class Policy:
    """What a policy of your own derives from. One object serves one component, from `init` to `shutdown`.

    It keeps nothing between calls on which an answer depends: several brokers ask it about the same notification, and
    one may ask it twice. If it has the parameter `point`, it is asked at the deciding point of its scope, once, in the
    order in which notifications come there; then it may keep what it likes.
    """

    asks_again = False
    """Whether what has reached nobody of those it chose is decided again, perhaps for others."""

    def init(self, context: PolicyContext) -> None:
        """It has been given to a component. Raises `ScopeError` for parameters that it cannot work with."""

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Collection[str]:
        """Those of the eligible that get the notification: superscopes when publishing, members when delivering."""
        return eligible

    def not_before(self, notification: Notification, context: PolicyContext) -> int:
        """The time before which they do not get it, in microseconds since 1970 UTC; 0: they get it at once."""
        return 0

    def remember(self) -> bytes:
        """What the next deciding point has to know, at most `MAX_STATE` bytes."""
        return b""

    def recall(self, state: bytes) -> None:
        """Go on with what another deciding point remembered. After a cut there may be several: the latest first."""

    def shutdown(self) -> None:
        """No component has it any longer."""


# --- parameters, as policies of the catalogue read them ---------------------------------------------------


def only(context: PolicyContext, *names: str) -> None:
    """Raise `ScopeError` for a parameter that a policy does not have."""
    for name in context.parameters:
        if name not in names:
            known = ", ".join(names) or "none"
            raise ScopeError(f"it has no parameter '{name:.60}'; its parameters are: {known}")


def number(context: PolicyContext, name: str, *, least: float, most: float) -> float:
    """A parameter that is a number."""
    value = context.parameters.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ScopeError(f"{name} is {value!r:.60}; give a number from {least:,g} to {most:,g}")
    return value


def text(context: PolicyContext, name: str, default: str | None = None) -> str:
    """A parameter that is a text."""
    value = context.parameters.get(name, default)
    if not isinstance(value, str) or not (value or default == ""):
        raise ScopeError(f"{name} is {value!r:.60}; give a text")
    return value


def texts(context: PolicyContext, name: str) -> tuple[str, ...]:
    """A parameter that is a text or a list of texts; () if it is not given."""
    value = context.parameters.get(name, ())
    found = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(one, str) and one for one in found):
        raise ScopeError(f"{name} is {value!r:.60}; give a text, or a list of texts")
    return found


def filter_in(context: PolicyContext, name: str) -> Filter | None:
    """A parameter that is a filter, written in the filter language; None if it is not given."""
    if name not in context.parameters:
        return None
    return Filter.parse(text(context, name))
