"""What a simulated application watches, and what it has been told."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.aggregation.messages import FEATURE, Declined, Result, Tune, Unwatch, Watch, decode, encode
from tidings.model import ROOT_SCOPE, Filter
from tidings.wire import encode_body

__all__ = ["FEATURE", "SimWatch", "read_result"]


class SimWatch:
    """One watch of a simulated application."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        id: str,
        aggregate: str,
        filter: str,
        *,
        max_error: float,
        probe: Mapping[str, object] | None,
        scope: str = ROOT_SCOPE,
        away: bool = False,
    ) -> None:
        self._send = send
        self.id = id
        self.aggregate = aggregate
        self.filter = Filter.parse(filter or "TRUE") if probe is None else None
        self._key = filter
        self.probe = probe
        self.max_error = max_error
        self.scope = scope
        self.away = away
        self.results: list[Result] = []
        """What it was told, in order, by all its brokers."""
        self.declined: Declined | None = None

    def announce(self) -> None:
        """Tell a broker what is watched; what another one told before counts no more."""
        self.declined = None
        self.results = [result for result in self.results if not result.complete]
        probe = encode_body(self.probe) if self.probe is not None else b""
        self._send(encode(Watch(self.id, self.aggregate, self._key, probe, self.max_error, self.scope, self.away)))

    def tune(self, max_error: float) -> None:
        """Ask for another bound."""
        self.max_error = max_error
        self._send(encode(Tune(self.id, max_error)))

    def end(self) -> None:
        """Watch no longer."""
        self._send(encode(Unwatch(self.id)))

    def heard(self, message: Result | Declined) -> None:
        """Note what a broker says."""
        if isinstance(message, Declined):
            self.declined = message
        else:
            self.results.append(message)

    @property
    def last(self) -> Result | None:
        """The newest result of this broker."""
        return self.results[-1] if self.results else None


def read_result(body: bytes) -> Result | Declined | None:
    """What a broker says about a watch, if it does."""
    message = decode(body)
    return message if isinstance(message, Result | Declined) else None
