"""Jobs of an acknowledged group in the hands of a program without an event loop."""

from __future__ import annotations

from tidings import client as asynchronous

from ._thread import LoopThread


class Job(asynchronous.Job):
    """A notification that this member has to handle, as `Client.subscribe` with `ack=True` gives it."""

    __slots__ = ("_thread", "_twin")

    _thread: LoopThread
    _twin: asynchronous.Job

    @classmethod
    def of_twin(cls, thread: LoopThread, twin: asynchronous.Job) -> Job:
        """Return the same job for a thread without an event loop."""
        self = cls.__new__(cls)
        self._attributes, self.identity, self._from_past = twin.attributes, twin.identity, twin.from_past
        self.key, self.deliveries = twin.key, twin.deliveries
        self._thread, self._twin = thread, twin
        return self

    def ack(self) -> None:  # type: ignore[override]
        """Say that the job is done, and wait until the broker knows; `AckRefused` if that does not count."""
        self._thread.call(self._acked())

    def nack(self, delay: float = 0.0) -> None:  # type: ignore[override]
        """Give the job back: a member gets it again, `delay` seconds from now at the earliest."""
        self._thread.call(self._nacked(delay))

    async def _acked(self) -> None:
        await self._twin.ack()

    async def _nacked(self, delay: float) -> None:
        await self._twin.nack(delay)
