"""A publisher in a closed loop: it publishes again when it has been answered, as fast as the brokers allow.

An open-loop publisher publishes by the clock, and a broker that is too slow gets a queue. A closed loop has at most
`window` publications under way, so it finds out how much a network carries: see `Service`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.wire import Quality

from ._client import SimClient
from ._scheduler import Scheduler


class ClosedLoop:
    """Publishes `count` notifications, each once an earlier one has been answered."""

    def __init__(
        self,
        scheduler: Scheduler,
        client: SimClient,
        notification: Callable[[int], Mapping[str, object]],
        *,
        count: int,
        window: int = 1,
        think: int = 0,
        quality: Quality = Quality.ACCEPTED,
    ) -> None:
        """`notification` makes the n-th one; between an answer and the next publication are `think` microseconds."""
        self._scheduler = scheduler
        self._client = client
        self._make = notification
        self._left = count
        self._think = think
        self._quality = quality
        self._under_way: dict[int, int] = {}
        self._made = 0
        self.latencies: list[int] = []
        """Microseconds from each publication to its answer, in the order of the answers."""
        self.begun = self.ended = scheduler.now
        """When it began, and when the last answer came, in microseconds."""
        client.on_answer.append(self._answered)
        for _ in range(min(window, count)):
            self._publish()

    @property
    def done(self) -> bool:
        """Whether everything is published and answered."""
        return not self._left and not self._under_way

    def _publish(self) -> None:
        if self._left:
            self._left -= 1
            number = self._client.publish(self._make(self._made), quality=self._quality)
            self._made += 1
            self._under_way[number] = self._scheduler.now

    def _answered(self, number: int) -> None:
        begun = self._under_way.pop(number, None)
        if begun is not None:
            self.ended = self._scheduler.now
            self.latencies.append(self.ended - begun)
            self._scheduler.after(self._think, self._publish)
