"""Notifications: flat, checked, immutable; refused as a whole or not at all."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import notifications

from tidings.model import Notification, ValueRefused
from tidings.model._names import MAX_NAME
from tidings.model._notification import MAX_ATTRIBUTES, MAX_NESTING, is_plain


@pytest.mark.req("VIS-104", "VIS-105")
def test_nested_input_becomes_dotted_names() -> None:
    n = Notification({"a": {"b": {"c": 1}, "d": [1, 2]}}, e=2)
    assert dict(n) == {"a.b.c": 1, "a.d": (1, 2), "e": 2}


@pytest.mark.req("VIS-104")
def test_an_absent_attribute_has_no_value() -> None:
    n = Notification(a=1)
    assert "b" not in n
    assert n.get("b") is None
    with pytest.raises(KeyError):
        n["b"]


@pytest.mark.req("VIS-102")
def test_a_notification_cannot_be_changed() -> None:
    source = {"a": [1, 2], "b": {"c": 1}}
    n = Notification(source)
    source["a"].append(3)  # type: ignore[attr-defined]
    source["b"]["c"] = 2  # type: ignore[call-overload]
    source["d"] = 5  # type: ignore[assignment]
    assert dict(n) == {"a": (1, 2), "b.c": 1}
    with pytest.raises(TypeError):
        n["a"] = 5  # type: ignore[index]
    with pytest.raises(TypeError):
        del n["a"]  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        n.a = 5  # type: ignore[attr-defined]
    for change in ("update", "pop", "setdefault", "clear", "popitem"):
        assert not hasattr(n, change)


@given(notifications(wild=True))
def test_equal_attributes_make_equal_notifications(n: Notification) -> None:
    same = Notification(dict(reversed(list(n.items()))))
    assert same == n
    assert hash(same) == hash(n)
    assert copy.deepcopy(n) == n
    assert pickle.loads(pickle.dumps(n)) == n
    assert n != dict(n)


def test_true_and_one_make_different_notifications() -> None:
    assert Notification(a=True) != Notification(a=1)
    assert Notification(a=[0, True]) != Notification(a=[0, 1])
    assert Notification(a=1) == Notification(a=1.0)


def test_a_mapping_is_taken_in_any_form() -> None:
    class Readings(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            return {"inner": 5}

        def __iter__(self) -> Iterator[str]:
            return iter(["outer"])

        def __len__(self) -> int:
            return 1

    assert dict(Notification(Readings())) == {"outer.inner": 5}
    assert dict(Notification()) == {}
    assert dict(Notification(Notification(a=1), b=2)) == {"a": 1, "b": 2}


def _nested(depth: int) -> dict[str, object]:
    return {"n": _nested(depth - 1)} if depth else {"n": 1}


def _endless() -> dict[str, object]:
    loop: dict[str, object] = {}
    loop["loop"] = loop
    return loop


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"a": 1, "b": None}, "attribute 'b': None is not a value; leave the attribute out"),
        ({"a": {"b": None}}, "attribute 'a.b'"),
        ({"a": {"b": 1}, "a.b": 2}, "attribute 'a.b' is given twice; rename one"),
        ({"": 1}, "'' is not a name"),
        ({5: 1}, "5 is not a name"),
        ({"a": {5: 1}}, "5 is not a name"),
        ({"a": {"": 1}}, "'' is not a name"),
        ({"x" * (MAX_NAME + 1): 1}, "at most 256"),
        ({"\ud800": 1}, "Unicode"),
        ({"a": [{"b": 1}]}, "attribute 'a'[0]: dict is not a value"),
        ({f"a{i}": i for i in range(MAX_ATTRIBUTES + 1)}, "more than 256 attributes"),
        (_nested(MAX_NESTING + 1), "nested deeper than 16"),
        (_endless(), "nested deeper than 16"),
    ],
)
def test_what_is_wrong_is_refused_by_name(attributes: dict[str, object], told: str) -> None:
    with pytest.raises(ValueRefused) as raised:
        Notification(attributes)
    assert told in str(raised.value)


def test_the_same_name_twice_is_refused_across_both_ways_of_giving() -> None:
    with pytest.raises(ValueRefused, match="given twice"):
        Notification({"a": 1}, a=2)


def test_the_limits_themselves_are_allowed() -> None:
    assert len(Notification({f"a{i}": i for i in range(MAX_ATTRIBUTES)})) == MAX_ATTRIBUTES
    assert len(Notification(_nested(MAX_NESTING))) == 1
    assert "x" * MAX_NAME in Notification({"x" * MAX_NAME: 1})


class Sighting(Notification):
    """A type of an application."""


@dataclass
class Bird:
    bird: str


@pytest.mark.req("ARC-192")
@pytest.mark.parametrize(
    "made",
    [
        Sighting(bird="wren"),
        Sighting({"bird": "wren"}),
        Sighting.from_object(Bird("wren")),
        Sighting.from_json('{"bird": "wren"}'),
        Sighting.from_tuple(["wren", 2]),
        Sighting.opaque(b"wren", channel="birds"),
        Sighting.decoded({"bird": "wren"}),
        Sighting.decoded({"bird": ["wren"]}),
        Sighting.trusted({"bird": "wren"}),
    ],
    ids=["attributes", "mapping", "object", "document", "tuple", "opaque", "decoded", "decoded list", "trusted"],
)
def test_in_every_data_model_a_subclass_makes_its_own(made: Notification) -> None:
    assert type(made) is Sighting
    assert made
    assert made == Notification(dict(made))


@pytest.mark.req("ARC-192")
def test_a_subclass_is_a_notification_of_its_own_type() -> None:
    class Quote(Notification):
        @property
        def symbol(self) -> str:
            return str(self["symbol"])

    quote = Quote(symbol="SAP", price=5)
    assert quote.symbol == "SAP"
    assert quote == Notification(symbol="SAP", price=5)
    assert isinstance(Quote.from_json('{"symbol": "SAP"}'), Quote)
    assert repr(quote) == "Quote(symbol='SAP', price=5)"


_anything = st.one_of(
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1]),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.none(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
    st.just("x" * 65_537),
)
_any_name = st.one_of(st.text(st.characters()), st.integers(), st.just("x" * 257))


@given(st.dictionaries(_any_name, _anything, max_size=5))
def test_the_quick_look_never_lets_through_what_the_full_check_would_refuse_or_change(
    source: dict[str, object],
) -> None:
    if is_plain(source):
        assert Notification(source) == Notification(MappingProxyType(source))  # a proxy is never looked at quickly
        assert dict(Notification(source)) == source
    else:
        try:
            full = Notification(MappingProxyType(source))
        except ValueRefused:
            with pytest.raises(ValueRefused):
                Notification(source)
        else:
            assert Notification(source) == full


def test_a_notification_of_a_plain_dict_is_a_copy_of_it() -> None:
    source = {"a": 1}
    n = Notification(source)
    source["a"] = 2
    assert n["a"] == 1
