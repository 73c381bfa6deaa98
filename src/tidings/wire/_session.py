"""A session: numbered DATA parts that survive the connection they were sent on.

Theory of operation
-------------------
Each side numbers the DATA parts it sends and keeps them until the other side acknowledges them. The receiver
acknowledges every `ACK_EVERY` parts, and when it has nothing else to do. When the connection is cut, both sides keep
the session; whoever opened the connection opens another and says the number of the last part that arrived; the other
side says the same in its welcome; both send again what the other is missing. Nothing is lost and nothing comes twice.

The window of unacknowledged parts is bounded, by number and bytes. `full` tells that nothing more should be sent until
an acknowledgement comes; whoever produces the parts has to stop for that long.
"""

from __future__ import annotations

from collections import deque

from ._errors import WireError
from ._framing import without

ACK_EVERY = 256
"""How many parts arrive before they are acknowledged at the latest."""
MAX_WINDOW_PARTS = 65_536
"""The most parts that wait for acknowledgement."""
MAX_WINDOW_BYTES = 16_777_216
"""The most bytes that wait for acknowledgement."""


class Session:
    """One side of a session."""

    __slots__ = ("_acknowledged", "_bytes", "_max_bytes", "_max_parts", "_sent", "_window", "id", "received", "told")

    def __init__(self, id: str, *, max_parts: int = MAX_WINDOW_PARTS, max_bytes: int = MAX_WINDOW_BYTES) -> None:
        self.id = id
        self._max_parts = max_parts
        self._max_bytes = max_bytes
        self._window: deque[tuple[int, int, bytes]] = deque()
        """What was sent together: the number of its last part, how many parts, their bytes."""
        self._bytes = 0
        self._sent = 0
        self._acknowledged = 0
        self.received = 0
        """The number of the last part that arrived."""
        self.told = 0
        """The number up to which the other side has been told so."""

    @property
    def full(self) -> bool:
        """Whether the window is full."""
        return self._sent - self._acknowledged >= self._max_parts or self._bytes >= self._max_bytes

    @property
    def held(self) -> int:
        """The bytes that wait for acknowledgement."""
        return self._bytes

    @property
    def waiting(self) -> int:
        """How many parts wait for acknowledgement."""
        return self._sent - self._acknowledged

    def sent(self, batch: bytes, parts: int = 1) -> None:
        """Note DATA parts that are being sent, whether the window has room for them or not."""
        self._sent += parts
        self._window.append((self._sent, parts, batch))
        self._bytes += len(batch)

    def offer(self, batch: bytes, parts: int) -> bool:
        """Note several DATA parts that are being sent together, if the window has room for all."""
        if self.waiting + parts > self._max_parts or self._bytes + len(batch) > self._max_bytes:
            return False
        self.sent(batch, parts)
        return True

    def acknowledge(self, number: int) -> None:
        """The other side has everything up to this number."""
        if number > self._sent:
            raise WireError(f"part {number} is acknowledged, but only {self._sent} were sent")
        window = self._window
        while window and window[0][0] <= number:
            self._bytes -= len(window.popleft()[2])
        self._acknowledged = max(number, self._acknowledged)

    def arrived(self, parts: int) -> bool:
        """Note DATA parts that arrived; whether it is time to acknowledge."""
        self.received += parts
        return self.received - self.told >= ACK_EVERY

    def tell(self) -> int | None:
        """The number to acknowledge now; None if the other side knows already."""
        if self.told == self.received:
            return None
        self.told = self.received
        return self.received

    def resume(self, received: int) -> list[bytes]:
        """The other side came back and has everything up to a number: what to send again."""
        if received < self._acknowledged:
            raise WireError(f"part {received} is claimed as the last one, but {self._acknowledged} was acknowledged")
        self.acknowledge(received)
        self.told = self.received
        again = [batch for _, _, batch in self._window]
        if again:
            last, parts, batch = self._window[0]
            again[0] = without(batch, received - (last - parts))
        return again
