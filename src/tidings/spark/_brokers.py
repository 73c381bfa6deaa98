"""The log of a broker, for drivers and workers of Spark: connected when needed, waited for when it is down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from tidings import sync
from tidings.client import ConnectionFailed, NotAdmitted
from tidings.model import NOWHERE, Position, TidingsError
from tidings.wire import Measured

from ._errors import SourceError
from ._options import Options

RETRY = 0.5
"""Seconds between two attempts to reach a broker."""
PART_ROWS = 50_000
"""The most rows of a log that one task reads."""


def connected(options: Options, url: str, *, name: str | None = None, own_numbers: bool = False) -> sync.Client:
    """A client of a broker; one that is down is waited for, for as long as the options say."""
    deadline = time.monotonic() + options.patience
    while True:
        try:
            return sync.connect(
                url,
                name=name,
                token=options.token,
                tls=options.tls,
                own_numbers=own_numbers,
                insecure=options.insecure,
            )
        except NotAdmitted as error:
            if not error.retry or time.monotonic() >= deadline:
                remedy = '; .option("clientName", "...") sets it' if error.code == "name" else ""
                raise SourceError(f"the broker at {url} refuses Spark: {error}{remedy}") from None
        except ConnectionFailed as error:
            if time.monotonic() >= deadline:
                waited = f"{options.patience:g} seconds"
                raise SourceError(f"the broker at {url} could not be reached for {waited}: {error}") from None
        time.sleep(RETRY)


def abandon(client: sync.Client) -> None:
    """Close a client whose broker may be gone."""
    with contextlib.suppress(TidingsError):
        client.close()


class Brokers:
    """The brokers of a source, as its driver sees them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._clients: dict[str, sync.Client] = {}

    def measured(self) -> Iterator[tuple[str, Measured]]:
        """Each broker's address, and what its log holds."""
        for url in self._options.brokers:
            yield url, self.measure(url)

    def measure(self, url: str, after: Position = NOWHERE, *, rows: int = 0, size: int = 0) -> Measured:
        """What the log of one broker holds."""
        if url not in self._clients:
            self._clients[url] = connected(self._options, url)
        try:
            return self._clients[url].measure_log(after, rows=rows, size=size, timeout=self._options.patience)
        except ConnectionFailed as error:
            abandon(self._clients.pop(url))
            raise SourceError(f"the broker at {url} is gone: {error} Start it, then start the query again") from None

    def parts(self, url: str, after: Position, upto: Position) -> Iterator[tuple[Position, Position]]:
        """A stretch of a log, cut so that several tasks can share it."""
        while after < upto:
            reached = min(self.measure(url, after, rows=PART_ROWS).reached, upto)
            if reached <= after:
                reached = upto
            yield after, reached
            after = reached

    def close(self) -> None:
        """Say goodbye."""
        while self._clients:
            abandon(self._clients.popitem()[1])

    def __getstate__(self) -> Options:
        return self._options  # connections stay where they are

    def __setstate__(self, options: Options) -> None:
        self.__init__(options)  # type: ignore[misc]
