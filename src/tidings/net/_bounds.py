"""The bound of a broker's disk: how much its store and its archive may hold, if nobody says.

Everything that is published is stored where there is a store, so a store without a bound fills its disk. By default
the store and the archive may have `DEFAULT_BYTES` together, and at most a part of what is free on their disk; what they
have themselves counts as free, so that the bound does not shrink because it is used.

What a store or an archive held before the default applied to it is not forgotten because of it: if that is more, they
keep their size, and a little more. How large they were is noted in the store when the default first applies.
"""

from __future__ import annotations

import enum
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidings.store import Store, archive_bytes, limit_for, store_bytes

if TYPE_CHECKING:
    from ._options import Options

DEFAULT_BYTES = 1_000_000_000
"""What the store and the archive of a broker may have together, if nobody says."""
FREE_PART = 10
"""At most this part of what is free on their disk."""
STORE_PART = 4
"""With an archive, this part is the store's, and the rest is the archive's: what is archived stands in both."""
MIN_BYTES = 1_000_000
"""The least bound, however full the disk is."""
TABLE = "retention"
"""The table of the small state in which stands what there was before there was a bound."""


class Bound(enum.Enum):
    """A bound that is not a number."""

    DEFAULT = "default"
    UNLIMITED = "unlimited"


class Held(NamedTuple):
    """What there was before there was a bound, in bytes."""

    store: int = 0
    archive: int = 0


class Bounds(NamedTuple):
    """The most bytes on disk; None: no limit."""

    store: int | None
    archive: int | None
    """Of this broker's own files. None also if there is no archive."""
    by_default: bool
    """Whether nobody chose them."""


_NOTHING = Held()


def bounds_of(options: Options, held: Held = _NOTHING) -> Bounds:
    """The bounds that hold for a broker that starts now."""
    store, archive = options.store.retain_bytes, options.archive
    kept = Bound.UNLIMITED if archive is None else archive.retain_bytes
    shared = store is Bound.DEFAULT and kept is Bound.DEFAULT
    if store is not Bound.DEFAULT and kept is Bound.DEFAULT:
        kept = Bound.UNLIMITED  # who gives the store a size of its own has an archive for what does not fit
    total = _default(options) if store is Bound.DEFAULT else 0
    of_store = total // STORE_PART if shared else total
    return Bounds(
        _number(store, max(of_store, held.store)),
        None if archive is None else _number(kept, max(total - of_store, held.archive)),
        store is Bound.DEFAULT or (archive is not None and kept is Bound.DEFAULT),
    )


def held_before(store: Store, options: Options) -> Held:
    """What there was before the default applied; noted now, if it did not apply when the broker last started."""
    usual, archive = bounds_of(options), options.archive
    held = {}
    known = {key: msgspec.msgpack.decode(value, type=int) for key, value in store.items(TABLE).items()}
    if options.store.retain_bytes is Bound.DEFAULT:
        held["store"] = _noted(known.get("store"), store_bytes(store.path), usual.store)
    if archive is not None and archive.retain_bytes is Bound.DEFAULT:
        held["archive"] = _noted(
            known.get("archive"), archive_bytes(Path(archive.directory), options.name), usual.archive
        )
    for key in known.keys() - held.keys():
        store.delete(TABLE, key)
    for key, size in held.items():
        if known.get(key) != size:
            store.put(TABLE, key, msgspec.msgpack.encode(size))
    return Held(**held)


def _noted(before: int | None, size: int, bound: int | None) -> int:
    if before is not None:
        return before
    return limit_for(size + size // 8) if bound is not None and size > bound else 0


def _number(bound: int | Bound, default: int) -> int | None:
    if bound is Bound.UNLIMITED:
        return None
    return default if isinstance(bound, Bound) else bound


def _default(options: Options) -> int:
    room = []
    own = 0
    if options.data is not None:
        own += store_bytes(Path(options.data) / "store.sqlite")
        room.append(_free(Path(options.data)))
    if options.archive is not None:
        own += archive_bytes(Path(options.archive.directory), options.name)
        room.append(_free(Path(options.archive.directory)))
    free = min(room, default=DEFAULT_BYTES * FREE_PART) + own
    return max(MIN_BYTES, min(DEFAULT_BYTES, free // FREE_PART))


def _free(directory: Path) -> int:
    """What is free on the disk of a directory, which need not be there yet."""
    for path in (directory.absolute(), *directory.absolute().parents):
        if path.exists():
            return shutil.disk_usage(path).free
    return 0
