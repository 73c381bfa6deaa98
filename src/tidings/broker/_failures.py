"""Failures: what becomes of an error in the code of a feature, wherever the broker calls it.

Theory of operation
-------------------
The broker calls a feature at many places: advice, messages, timers, riders, waves, clients inside the broker. An error
there has left the feature, and perhaps the turn, half done. One rule holds at all of them:

    the feature is `fail_stop`   `FeatureError`, which nobody refuses or answers: the broker stops
    it is not                    the failure is counted and logged, and the broker goes on as if it had not called

What a feature *hears* may be at fault itself. If a feature raises a `TidingsError`, or cannot decode the bytes, its
sender is: a client is refused, and a neighbour disconnected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import msgspec

from tidings.model import FeatureError, TidingsError

if TYPE_CHECKING:
    from ._joinpoints import Feature
    from .overlay import WaveKind

log = logging.getLogger("tidings.broker")

MAX_BODY = 4_000_000
"""The most bytes of one message, question or answer of a feature: less than the largest part that peers accept."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoding raises for bytes that are not what they should be."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Failures:
    """How often each feature of one broker has failed, and what follows from it."""

    def __init__(self) -> None:
        self.by_feature: dict[str, int] = {}
        self._stopping: FeatureError | None = None

    def failed(self, feature: Feature, place: str, error: Exception) -> None:
        """Count a failure. Raises `FeatureError` if that stops the broker; otherwise the caller goes on."""
        if error is self._stopping:
            raise error  # of another feature, which this one has called by what it did
        count = self.by_feature[feature.name] = self.by_feature.get(feature.name, 0) + 1
        if not feature.fail_stop:
            if count & (count - 1) == 0:  # the first, the second, the fourth: one that fails always fills no disk
                log.error("feature '%s' failed %s, %d times by now", feature.name, place, count, exc_info=error)
            return
        if isinstance(error, FeatureError):
            self._stopping = error
            raise error
        self._stopping = FeatureError(f"feature '{feature.name}' failed {place}: {error!r}")
        raise self._stopping from error

    @overload
    def guarded(
        self, feature: Feature, place: str, function: Callable[_P, _T], instead: _T
    ) -> Callable[_P, _T]: ...  # pragma: no cover

    @overload
    def guarded(
        self, feature: Feature, place: str, function: Callable[_P, None]
    ) -> Callable[_P, None]: ...  # pragma: no cover

    def guarded(self, feature: Feature, place: str, function: Callable[..., Any], instead: Any = None) -> Any:
        """A function of a feature as the broker calls it; `instead` is its result where it fails and nothing stops."""

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                self.failed(feature, place, error)
                return instead

        return call

    def hear(self, feature: Feature, place: str, function: Callable[..., None], *arguments: Any) -> None:
        """Let a feature hear something. Raises `TidingsError` if its sender is at fault."""
        try:
            function(*arguments)
        except Exception as error:
            if not _is_of_the_sender(error):
                self.failed(feature, place, error)
            elif isinstance(error, TidingsError):
                raise
            else:
                raise TidingsError(f"feature '{feature.name}' cannot read what it was sent: {error}") from error


class Answering:
    """A kind of wave as the broker uses it: the feature that answers may fail."""

    def __init__(self, kind: WaveKind, feature: Feature, failures: Failures) -> None:
        self._kind = kind
        self._feature = feature
        self._failures = failures

    def visit(self, body: bytes, answer: Callable[[bytes | None], None]) -> None:
        """Ask the feature; if it fails, or cannot make sense of the question, this broker gives no answer."""
        feature = self._feature

        def answered(given: bytes | None) -> None:
            answer(None if given is None else checked(feature.name, "an answer to a wave", given))

        try:
            self._kind.visit(body, answered)
        except Exception as error:
            if not _is_of_the_sender(error):
                self._failures.failed(feature, "at a wave", error)
            answer(None)

    def combine(self, answers: list[bytes]) -> bytes:
        """One answer for several. What makes no sense came from a neighbour, and raises what the feature raises."""
        combined = self._kind.combine(answers)
        try:
            _typed(self._feature.name, "an answer to a wave", combined)
        except FeatureError as error:
            self._failures.failed(self._feature, "at a wave", error)
            raise TidingsError(str(error)) from error
        if len(combined) > MAX_BODY:  # a large network is no failure
            raise TidingsError(f"the answers to a wave come to {len(combined):,} bytes; at most {MAX_BODY:,} are told")
        return combined


def _is_of_the_sender(error: Exception) -> bool:
    """Whether an error says that what was sent is wrong, and not the feature that has heard it."""
    return isinstance(error, (TidingsError, *_UNREADABLE)) and not isinstance(error, FeatureError)


def checked(feature: str, thing: str, body: bytes, most: int = MAX_BODY) -> bytes:
    """What a feature of this name sends, if it can be sent; else `FeatureError`."""
    _typed(feature, thing, body)
    if len(body) > most:
        raise FeatureError(
            f"feature '{feature}' gives {len(body):,} bytes as {thing}, which is too large; give at most {most:,}"
        )
    return body


def _typed(feature: str, thing: str, body: object) -> None:
    """Raise `FeatureError` if what a feature of this name sends is not bytes."""
    if not isinstance(body, bytes):
        raise FeatureError(
            f"feature '{feature}' gives {type(body).__name__} as {thing}, which must be bytes; encode it"
        )
