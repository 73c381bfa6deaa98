"""A feature that changes nothing and tells of every step of the broker: to find out where a strategy should look in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidings.broker import Advice, Feature, Joinpoint


class Tracing(Feature):
    """Tells of every joinpoint, before the step and after it.

    >>> from tidings.sim import Network
    >>> steps = []
    >>> network = Network(features=lambda broker: [Tracing(steps.append)])
    >>> _ = network.add_broker("a")
    >>> _ = network.add_client("alice", "a").subscribe("price > 100")
    >>> network.run()
    >>> print(*steps, sep="\\n")
    a ATTACH(alice)
    a SUBSCRIBE(Registration('alice', 's1', 'price > 100'))
    a SUB_ADD('', Entry('alice', 's1', 'price > 100'))
    a SUB_ADD -> {}
    """

    name = "tracing"
    fail_stop = False

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` gets one line for each step that begins and each that ends."""
        self._tell = tell
        self._depth = 0

    def advice(self) -> Mapping[Joinpoint, Advice]:
        """Everywhere."""
        return {joinpoint: self._around(joinpoint) for joinpoint in Joinpoint} | {Joinpoint.PUBLISHED: self._published}

    def _published(self, *arguments: Any) -> None:
        self._begins(Joinpoint.PUBLISHED, arguments)

    def _begins(self, joinpoint: Joinpoint, arguments: tuple[Any, ...]) -> None:
        indent = "  " * self._depth
        self._tell(f"{indent}{self.context.name} {joinpoint.name}({', '.join(map(_shown, arguments))})")

    def _around(self, joinpoint: Joinpoint) -> Advice:
        def traced(proceed: Callable[..., Any], *arguments: Any) -> Any:
            indent = "  " * self._depth
            self._begins(joinpoint, arguments)
            self._depth += 1
            try:
                result = proceed()
            finally:
                self._depth -= 1
            if result is not None:
                self._tell(f"{indent}{self.context.name} {joinpoint.name} -> {_shown(result)}")
            return result

        return traced


def _shown(value: object) -> str:
    """A short text; what has a name is shown by it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(key)}: {_shown(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    name = getattr(value, "name", None)
    text = name if isinstance(name, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
