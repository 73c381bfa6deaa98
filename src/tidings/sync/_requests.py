"""Requests in the hands of a program without an event loop."""

from __future__ import annotations

from collections.abc import Mapping

from tidings import client as asynchronous

from ._thread import LoopThread


class Request(asynchronous.Request):
    """A notification that asks for a reply."""

    __slots__ = ("_thread",)

    _thread: LoopThread

    @classmethod
    def of_twin(cls, thread: LoopThread, twin: asynchronous.Request) -> Request:
        """Return the same request for a thread without an event loop."""
        self = cls.__new__(cls)
        self._attributes, self._answer = twin.attributes, twin._answer
        self._thread = thread
        return self

    def reply(  # type: ignore[override]
        self, notification: Mapping[str, object] | None = None, /, **attributes: object
    ) -> None:
        """Reply, and wait until the reply is on its way; the errors are those of `tidings.Request.reply`."""
        self._thread.call(super().reply(notification, **attributes))
