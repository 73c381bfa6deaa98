"""`client.groups` of a blocking client."""

from __future__ import annotations

from tidings import client as asynchronous

from ._thread import LoopThread, waiting_for


class Groups:
    """The groups of a network: `tidings.client.Groups`, but blocking."""

    def __init__(self, thread: LoopThread, twin: asynchronous.Groups) -> None:
        self._thread = thread
        self._twin = twin

    list = waiting_for(asynchronous.Groups.list)
    show = waiting_for(asynchronous.Groups.show)
    reset = waiting_for(asynchronous.Groups.reset)
