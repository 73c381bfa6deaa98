"""A attribute_decoder at some attributes sees what decoding the whole body shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from strategies import NAMES, filters, notifications

from tidings.model import Filter, Notification
from tidings.wire import attribute_decoder, attribute_decoder_of_many, body_test, encode_body


@given(notifications(wild=True), st.lists(st.sampled_from([*NAMES, "a\nb"]), unique=True))
def test_it_sees_the_values_that_are_there(notification: Notification, names: list[str]) -> None:
    seen = attribute_decoder(names)(encode_body(notification))
    assert seen == [notification.get(name) for name in names]
    assert [type(value) for value in seen] == [type(notification.get(name)) for name in names]


@given(
    st.lists(notifications(wild=True), min_size=1, max_size=4),
    st.lists(st.sampled_from([*NAMES, "a\nb"]), min_size=1, unique=True),
)
def test_many_at_once_show_the_same(some: list[Notification], names: list[str]) -> None:
    columns = attribute_decoder_of_many(names)([encode_body(one) for one in some])
    assert columns == [[one.get(name) for one in some] for name in names]
    assert [[*map(type, column)] for column in columns] == [[type(one.get(name)) for one in some] for name in names]


@given(notifications(), st.lists(filters(), max_size=5))
def test_a_filter_on_a_body_decides_as_on_the_notification(notification: Notification, some: list[Filter]) -> None:
    body = encode_body(notification)
    for filter in some:
        assert body_test(filter)(body) == filter.matches(notification)
