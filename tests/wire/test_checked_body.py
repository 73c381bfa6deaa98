"""A body from a client is checked; whichever way that takes, the outcome is what `Notification` says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.model import Location, Notification, ValueRefused
from tidings.wire import MAX_BODY, checked_body, encode_body

NAMES = st.one_of(st.sampled_from(["", "a", "b", "a.b", "n" * 256, "n" * 257]), st.text(max_size=5))
PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["<long>", "<too long>", 2**63 - 1, 2**63, float("inf")]),
)
LONG = {"<long>": "x" * 1_048_500, "<too long>": "x" * 1_048_577}
"""Hypothesis would print the texts themselves."""
OTHERS = st.one_of(
    st.binary(max_size=5), st.none(), st.lists(PLAIN, max_size=3), st.dictionaries(NAMES, PLAIN, max_size=2)
)


def outcome(make: Any) -> Any:
    try:
        notification = make()
    except ValueRefused as error:
        return type(error)
    return {name: (type(value), value) for name, value in notification.attributes.items()}


@given(st.dictionaries(NAMES, st.one_of(PLAIN, PLAIN, OTHERS), max_size=6))
@example({"a": "<long>", "n" * 256: {}})
def test_what_is_refused_and_what_is_kept_does_not_depend_on_the_way(attributes: dict[str, Any]) -> None:
    attributes = lengthened(attributes)
    body = msgspec.msgpack.encode(attributes)
    # A body that came is judged as it came, although nothing of an empty map is kept.
    expected = ValueRefused if len(body) > MAX_BODY else outcome(lambda: sendable(attributes))
    assert outcome(lambda: checked_body(body)) == expected


def sendable(attributes: dict[str, Any]) -> Notification:
    notification = Notification(attributes)
    encode_body(notification)  # refuses what is too large as a whole
    return notification


def lengthened(value: Any) -> Any:
    match value:
        case dict():
            return {name: lengthened(one) for name, one in value.items()}
        case list():
            return [lengthened(one) for one in value]
        case str():
            return LONG.get(value, value)
    return value


@pytest.mark.parametrize("count", [256, 257])
def test_the_number_of_attributes_is_bounded(count: int) -> None:
    attributes = {f"a{number}": number for number in range(count)}
    body = msgspec.msgpack.encode(attributes)
    for _ in range(2):  # the second time, all names are known
        assert outcome(lambda: checked_body(body)) == outcome(lambda: Notification(attributes))


def test_names_that_are_too_many_to_be_remembered_are_checked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.model._names.MAX_KNOWN_NAMES", 0)
    for _ in range(2):
        assert checked_body(msgspec.msgpack.encode({"fresh": 1})) == Notification(fresh=1)
        with pytest.raises(ValueRefused):
            checked_body(msgspec.msgpack.encode({"": 1}))


def test_times_and_places_arrive_as_they_were_sent() -> None:
    sent = Notification(at=datetime(2026, 11, 16, tzinfo=UTC), where=Location("de/berlin"), tags=["a", "b"], raw=b"x")
    got = checked_body(encode_body(sent))
    assert got == sent
    assert got["at"].tzinfo is UTC
