"""What a server does for history: the strategy that its options name, and the way to its archive."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tidings.broker import Feature
from tidings.history import PastStore, make_history

from ._options import Options

if TYPE_CHECKING:
    from tidings.store.archive import ArchiveReader

log = logging.getLogger("tidings.net")


def history_features(options: Options) -> Iterator[Feature]:
    """The feature that answers subscriptions into the past, if any; `FeatureError` if it does not suit the routing."""
    history = options.history
    caching = replace(options.caching, timer=int(history.timer * 1_000_000), max_answer=history.max_answer)
    feature = make_history(
        history.strategy,
        options.routing,
        strict=history,
        caching=caching,
        archive=_archive(options),
        warn=log.warning,
    )
    if feature is not None:
        yield feature


def load_archive() -> None:
    """Load what reads archives, which takes half a second: before anybody is there who would have to wait for it."""
    importlib.import_module("tidings.store.archive")


def _archive(options: Options) -> Callable[[], PastStore | None]:
    """Opens the archive of this broker; there may be none, or none yet."""

    def opened() -> ArchiveReader | None:
        if options.archive is None or not options.archive.directory.is_dir():
            return None
        from tidings.store.archive import ArchiveReader  # noqa: PLC0415 - an extra

        return ArchiveReader(options.archive.directory, origin=options.name)

    return opened
