"""What a client may ask for: refused at the border, before it reaches a table, a neighbour or a disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeGuard

from tidings.model import ROOT_SCOPE, Filter, FilterError, FilterTooLarge, Location, Matches, Position, TidingsError
from tidings.wire import CLIENT_COST, MAX_POSITIONS, Advertise, Publish, Subscribe, UnreadableFilter

from ._causes import check_cause, check_session_id

MAX_NUMBER = 2**63 - 1
"""The largest number of anything: what disks and other languages can hold."""
MAX_ID = 256
"""The most characters of an id, and of the name of an origin."""
MAX_ENTRIES = 100_000
"""The most subscriptions, and the most advertisements, of one client."""
MAX_META = 16_384
"""The most characters of what an application adds to a subscription."""
MAX_TIMEOUT = 3_600_000_000
"""The most microseconds that a subscription may wait for the past."""
MAX_COST = CLIENT_COST
"""The most that a filter costs that a broker makes or takes from a client."""
TURN_STEPS = 4_000
"""How many steps all comparisons of filters in one turn may take together (about 2 ms); see `Effort`."""


def check_publication(message: Publish) -> None:
    """Raise `TidingsError` for numbers that cannot be."""
    if not 0 < message.seq <= MAX_NUMBER:
        raise TidingsError(f"{message.seq} is not the number of a publication; they count from 1")
    if message.ttl is not None and not 0 <= message.ttl <= MAX_NUMBER:
        raise TidingsError(f"{message.ttl} is not a time to live; give microseconds")
    if message.cause:
        check_cause(message.cause)
    if message.opens is not None:
        check_session_id(message.opens.id)


def check_readable(filter: Matches) -> None:
    """Raise the `TidingsError` of a filter that could not be read.

    A neighbour's filter may cost more than one of a client: brokers of another version have other limits.
    """
    if isinstance(filter, UnreadableFilter):
        raise filter.error


def check_filter(filter: Matches) -> None:
    """Raise the `TidingsError` of a filter that could not be read, or that is too much work for a broker."""
    check_readable(filter)
    if isinstance(filter, Filter) and (cost := filter.cost) > MAX_COST:
        raise FilterTooLarge(
            f"the filter costs {cost:,}, counting its comparisons, its wildcards and every fourth value of an IN; a "
            f"broker takes at most {MAX_COST:,}: use IN for many values of one attribute, fewer wildcards, or several "
            "subscriptions"
        )


def check_place(filter: Matches) -> None:
    """Raise `FilterError` for a filter that speaks of `myloc` where there is nobody who is somewhere."""
    if is_located(filter):
        raise FilterError(
            f"'{filter}' uses myloc, which only the filter of a subscription may; name the place, as in "
            "WITHIN LOCATION '/berlin', or fill it in with filter.resolve(Location('/berlin'))"
        )


def is_located(filter: Matches) -> TypeGuard[Filter]:
    """Whether a filter speaks of `myloc`."""
    return isinstance(filter, Filter) and filter.has_marker


def resolved(filter: Matches, place: Location | None, broker: str) -> Matches:
    """A filter as it is at a place; `FilterError` if it speaks of `myloc` and the broker has no place."""
    if not is_located(filter):
        return filter
    if place is None:
        raise FilterError(
            f"'{filter}' uses myloc, but broker '{broker}' has no place; set `place` under [mobility] there, or name "
            "the place, as in WITHIN LOCATION '/berlin'"
        )
    return filter.resolve(place)


def check_request(message: Subscribe | Advertise, held: Collection[str], now: int) -> None:
    """Raise `TidingsError` for what asks for too much; `held` are the ids that the client has of its kind so far."""
    if len(held) >= MAX_ENTRIES and message.id not in held:
        raise TidingsError(
            f"a client may have at most {MAX_ENTRIES:,} subscriptions and as many advertisements; "
            "end some, or use wider filters"
        )
    if len(message.id) > MAX_ID:
        raise TidingsError(f"an id of {len(message.id):,} characters; at most {MAX_ID} are allowed")
    if message.scope != ROOT_SCOPE:
        raise TidingsError("a client does not choose its scopes, administrators do; leave the scopes out")
    if isinstance(message, Subscribe):
        if message.meta and sum(len(key) + len(value) for key, value in message.meta.items()) > MAX_META:
            raise TidingsError(f"the `meta` of a subscription may have at most {MAX_META:,} characters")
        if message.after:
            check_progress(message.after)
        if message.past is not None:
            message.past.bound.check(now)
            if message.past.timeout is not None and not 0 <= message.past.timeout <= MAX_TIMEOUT:
                raise TidingsError(
                    f"a subscription cannot wait {message.past.timeout / 1_000_000:g} seconds for its past; "
                    f"give at most {MAX_TIMEOUT // 1_000_000:,}"
                )


def check_progress(after: Mapping[str, Position]) -> None:
    """Raise `TidingsError` for positions in origins that are too many or cannot be."""
    if len(after) > MAX_POSITIONS or any(len(origin) > MAX_ID for origin in after):
        raise TidingsError(
            f"give positions of at most {MAX_POSITIONS:,} origins, with names of at most {MAX_ID} characters"
        )
    check_positions(after.values())


def check_positions(positions: Iterable[tuple[int, int]]) -> None:
    """Raise `TidingsError` for a position (epoch, number) that cannot be."""
    for epoch, number in positions:
        if not (0 <= epoch <= MAX_NUMBER and 0 <= number < MAX_NUMBER):
            raise TidingsError(f"({epoch}, {number}) is not a position: an epoch and a number, neither negative")
