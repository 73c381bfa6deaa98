"""Mappings: what notifications become at a border, and that no filter loses one on its way through it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scopes.mapping_world import FEW, SAP, check_soundness, mappings, promises, questions, scalarised, steps
from strategies import SOAK_SLOWLY, filters, notifications

from tidings.model import (
    EVERYTHING,
    NOTHING,
    Conjunction,
    Filter,
    Kind,
    Location,
    MappingError,
    Notification,
    ValueRefused,
)
from tidings.scopes.mappings._mapping import AnyStep, EdgeMapping, Mapping, decode, edge_mapping, encode, mapping
from tidings.scopes.steps import (
    Add,
    Annotate,
    Convert,
    Copy,
    Drop,
    Form,
    How,
    MappingFailed,
    Named,
    Only,
    Pack,
    Rename,
    Represent,
    Unpack,
    register_mapping,
)

KINDS_OF_STEPS = sorted(steps())


some_notifications = notifications(names=FEW) | notifications(names=FEW, kinds=(Kind.NUMBER,))


# What holds for every mapping.


@pytest.mark.req("VIS-508")
@pytest.mark.parametrize("kind", KINDS_OF_STEPS)
@settings(max_examples=30)
@given(st.data())
def test_no_question_loses_a_notification_at_a_step(kind: str, data: st.DataObject) -> None:
    """Everything that can be asked about what goes out, and said about what comes in, one by one."""
    step, notification = data.draw(steps()[kind]), data.draw(some_notifications)
    if kind == "Only":  # one that passes
        passed = [one for one in questions(notification) if one.passes(notification.get(one.name))]
        step = Only(Filter([Conjunction(data.draw(st.lists(st.sampled_from(passed), min_size=1, max_size=4)))]))
    result = Mapping((step,)).apply(notification)
    if result is None:
        return
    for asked in questions(result):
        if asked.passes(result.get(asked.name)):
            assert step.wanted(Filter([Conjunction([asked])])).matches(notification), asked
    each = list(scalarised(notification))
    for said in questions(notification):
        filter = Filter([Conjunction([said])])
        if filter.matches(notification):
            assert step.offered(filter).matches(result), said
        if all(map(filter.matches, each)):
            assert promises(step.offered(filter), result), said


@pytest.mark.req("VIS-508")
@pytest.mark.parametrize("kind", KINDS_OF_STEPS)
@settings(max_examples=30)
@given(st.data())
def test_no_filter_loses_a_notification_at_a_step(kind: str, data: st.DataObject) -> None:
    wild = data.draw(st.booleans())
    one, filter = Mapping((data.draw(steps(wild=wild)[kind]),)), data.draw(filters(names=FEW, wild=wild))
    check_soundness(one, filter, data.draw(notifications(names=FEW, wild=wild)))


@pytest.mark.req("VIS-508")
@given(
    st.one_of(steps()["Pack"], st.builds(Represent, st.just("a"), st.sampled_from(How))),
    st.one_of(list(steps().values())),
    filters(names=FEW),
    some_notifications,
)
def test_no_filter_loses_a_notification_on_its_way_through_another_representation(
    first: AnyStep, then: AnyStep, filter: Filter, notification: Notification
) -> None:
    inverse = first.inverse()
    check_soundness(Mapping((first, inverse, then)), filter, notification)  # type: ignore[arg-type]
    check_soundness(Mapping((first, then, inverse)), filter, notification)  # type: ignore[arg-type]


@pytest.mark.req("VIS-508")
@settings(max_examples=300)
@given(mappings(), filters(names=FEW), some_notifications)
def test_no_filter_loses_a_notification_at_a_mapping(one: Mapping, filter: Filter, notification: Notification) -> None:
    check_soundness(one, filter, notification)


@pytest.mark.soak
@SOAK_SLOWLY
@given(
    st.booleans().flatmap(
        lambda wild: st.tuples(mappings(wild=wild), filters(names=FEW, wild=wild), notifications(names=FEW, wild=wild))
    )
)
def test_no_filter_loses_a_notification_at_a_mapping_for_long(drawn: tuple[Mapping, Filter, Notification]) -> None:
    check_soundness(*drawn)


@given(mappings(wild=True), notifications(names=FEW, wild=True))
def test_what_comes_out_is_a_notification_and_what_went_in_is_unchanged(
    one: Mapping, notification: Notification
) -> None:
    before = dict(notification)
    result = one.apply(notification)
    assert dict(notification) == before
    assert result is None or Notification(dict(result)) == result


@given(mappings(), mappings(), some_notifications)
def test_steps_are_applied_in_their_order(first: Mapping, second: Mapping, notification: Notification) -> None:
    between = first.apply(notification)
    expected = None if between is None else second.apply(between)
    assert Mapping(first.steps + second.steps).apply(notification) == expected


@given(mappings(wild=True))
def test_a_mapping_travels(one: Mapping) -> None:
    again = decode(encode(one), Mapping)
    assert str(again) == str(decode(encode(again), Mapping))
    assert [type(step) for step in again.steps] == [type(step) for step in one.steps]


@given(mappings(wild=True), notifications(names=FEW, wild=True))
def test_a_mapping_that_has_travelled_means_the_same(one: Mapping, notification: Notification) -> None:
    assert decode(encode(one), Mapping).apply(notification) == one.apply(notification)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_mapping_are_refused(data: bytes) -> None:
    with pytest.raises(MappingError, match="not a"):
        decode(b"\x81\xa5steps" + data + b"\xc1", Mapping)


@given(mappings(), some_notifications)
def test_an_inverse_takes_back_what_the_mapping_did(one: Mapping, notification: Notification) -> None:
    inverse = one.inverse()
    assume(inverse is not None and not any(isinstance(step, Convert) for step in one.steps))
    # Where there was no document, Unpack did nothing, but its inverse packs: with steps before it, that is no way back.
    assume(len(one.steps) == 1 or not any(isinstance(step, Unpack) for step in one.steps))
    there = one.apply(notification)
    assert inverse is not None
    if there is not None:
        back = inverse.apply(there)
        again = None if back is None else one.apply(back)
        # A document of XML has no room for every text, and no document for more than 1,048,576 characters.
        assert again == there or (again is None and any(isinstance(step, Unpack) for step in one.steps))


@pytest.mark.parametrize(
    ("some", "irreversible"),
    [
        ((Copy("a", "b"), Rename("b", "a")), 1),
        ((Copy("a", "b"), Rename("c", "a")), 1),
        ((Copy("a", "b"), Copy("c", "a")), 1),
        ((Copy("a", "b"), Add("a", 0)), 1),
        ((Copy("a", "b"), Convert("c", 2, to="a")), 1),
        ((Copy("a", "b"), Rename("a", "c"), Add("c", 0)), 2),
        ((Copy("a", "b"), Pack("d", Form.JSON, ("b",)), Add("d", 0)), 2),
        ((Copy("a", "b"), Named("swap a and b")), 1),
        ((Copy("a", "b"), Rename("a", "c"), Add("a", 0)), None),
        ((Copy("a", "b"), Add("b", 0)), None),
        ((Copy("a", "b"), Convert("a", 2)), None),
        ((Rename("a", "c"), Rename("b", "a"), Rename("c", "b")), None),
    ],
)
def test_what_was_copied_must_not_be_overwritten_if_the_mapping_is_to_be_taken_back(
    some: tuple[AnyStep, ...], irreversible: int | None
) -> None:
    one = Mapping(some)
    assert one.irreversible == (None if irreversible is None else some[irreversible])
    assert (one.inverse() is None) == (irreversible is not None)


def test_a_mapping_cannot_be_changed() -> None:
    one = mapping(Add("a", 1))
    with pytest.raises(AttributeError):
        one.steps = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        one.steps[0].name = "b"  # type: ignore[misc, union-attr]
    with pytest.raises(AttributeError):
        one.steps[0].constant.value = 2  # type: ignore[union-attr]
    assert one == mapping(Add("a", 1))
    assert hash(one) == hash(mapping(Add("a", 1)))
    assert one != mapping(Add("a", True))


@pytest.mark.req("VIS-501")
@given(filters(), notifications())
def test_a_filter_is_a_mapping(filter: Filter, notification: Notification) -> None:
    assert mapping(filter).apply(notification) is filter(notification)
    assert Mapping.IDENTITY.apply(notification) is notification
    assert Mapping.BLOCK.apply(notification) is None
    assert Mapping.IDENTITY.wanted(filter) == filter == Mapping.IDENTITY.offered(filter)
    assert Mapping.BLOCK.wanted(filter) == NOTHING == Mapping.BLOCK.offered(filter)


@settings(max_examples=5)
@given(notifications(), filters())
def test_a_filter_too_large_for_a_mapping_is_weakened_not_lost(notification: Notification, filter: Filter) -> None:
    wide = Filter.parse(" OR ".join(f"a = {n} AND b = {-n}" for n in range(-3, 120)))
    other = Filter.parse(" OR ".join(f'"c.d" = {n}' for n in range(100)))
    long_name = "n" * 250
    for one in (
        mapping(Only(other)),
        mapping(Rename(long_name, "a")),
        mapping(Drop(tuple(f"x{n}" for n in range(99)))),
    ):
        for asked in (wide, Filter((*wide.conjunctions, *filter.conjunctions))):
            check_soundness(one, asked, notification)
            assert Filter.parse(str(one.wanted(asked))).conjunctions
            assert Filter.parse(str(one.offered(asked))).conjunctions


# Functions of one's own.


def test_a_function_that_is_not_registered_is_refused() -> None:
    one = decode(encode(mapping(Named("nobody's"))), Mapping)
    assert one.unknown == ("nobody's",)
    for use in (lambda: one.apply(SAP), lambda: one.wanted(EVERYTHING), one.inverse, lambda: edge_mapping(one, one)):
        with pytest.raises(MappingError, match=r"no mapping 'nobody's' is registered.*register_mapping"):
            use()


def test_a_function_that_fails_blocks_and_says_why() -> None:
    one = mapping(Named("break"))
    assert one.apply(Notification()) is None
    assert one.apply(Notification(a=1)) is None
    with pytest.raises(MappingFailed, match="the mapping 'break' failed: ZeroDivisionError"):
        one.run(Notification())


@pytest.mark.req("VIS-508")
def test_a_function_brings_its_filter_mappings_and_its_inverse() -> None:
    one = mapping(Named("swap a and b"))
    assert one.apply(Notification(a=1, c=2)) == Notification(b=1, c=2)
    assert one.inverse() == one
    assert str(one.wanted(Filter.parse("a = 1"))) == "b = 1"
    assert mapping(Named("count")).wanted(Filter.parse("a = 1")) == EVERYTHING
    assert mapping(Named("count")).wanted(NOTHING) == NOTHING
    register_mapping("bad filters", dict, wanted=lambda _: 1 / 0, offered=lambda _: None)  # type: ignore[arg-type, return-value]
    assert mapping(Named("bad filters")).wanted(Filter.parse("a = 1")) == EVERYTHING
    assert mapping(Named("bad filters")).offered(Filter.parse("a = 1")) == EVERYTHING
    with pytest.raises(MappingError, match="registered already"):
        register_mapping("count", dict)


# What is refused.


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (lambda: Rename("a", "a"), "to itself"),
        (lambda: Rename("", "a"), "is not a name"),
        (lambda: Drop("abc"), "one text"),  # type: ignore[arg-type]
        (lambda: Convert("a", 0), "factor 0"),
        (lambda: Convert("a", float("nan")), "not a number"),
        (lambda: Convert("a", True), "not a number"),
        (lambda: Annotate("a", [1]), "is a list"),
        (lambda: Add("a", {"b": 1}), "not one value"),
        (lambda: Only(Filter.parse("a WITHIN myloc")), "myloc"),
        (lambda: Mapping((Add("a", 1),) * 65), "65 steps"),
        (lambda: Represent("a", How.TEXT_TO_BYTES, "idna"), "encoding 'idna'"),
        (lambda: Represent("a", "number"), "not known"),  # type: ignore[arg-type]
        (lambda: Pack("a", "json"), "not known"),  # type: ignore[arg-type]
        (lambda: Pack("a", Form.JSON, "b"), "list of names"),  # type: ignore[arg-type]
        (lambda: register_mapping("", dict), "cannot name"),
        (edge_mapping, "neither direction"),
        (
            lambda: edge_mapping(mapping(Rename("b", "c"), Drop(("a",)))),
            r"Drop\(names=\('a',\)\).*inward=Mapping.BLOCK",
        ),
        (lambda: edge_mapping(inward=mapping(EVERYTHING)), r"Only.*outward=Mapping.BLOCK"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_refused(step: object, problem: str) -> None:
    with pytest.raises(MappingError, match=problem):
        step()  # type: ignore[operator]


def test_a_value_that_no_notification_holds_is_refused() -> None:
    with pytest.raises(ValueRefused):
        Add("a", float("nan"))


@pytest.mark.parametrize(
    "value", [True, 1, 1.0, "it's", b"\x00\xff", datetime(2026, 1, 1, tzinfo=UTC), Location("/p/q"), [1, "a"], []]
)
def test_a_constant_of_every_kind_travels_in_msgpack_and_json(value: object) -> None:
    from tidings.scopes.mappings._constant import dec_hook, enc_hook

    one = mapping(Add("a", value))
    assert decode(encode(one), Mapping) == one
    text = msgspec.json.encode(one, enc_hook=enc_hook)
    assert msgspec.json.decode(text, type=Mapping, dec_hook=dec_hook) == one


def test_an_edge_mapping_travels() -> None:
    edge = edge_mapping(mapping(Rename("a", "b"), Filter.parse("b = 1")), Mapping.BLOCK)
    assert decode(encode(edge), EdgeMapping) == edge


@example("steps")
@given(st.text(max_size=5))
def test_a_constant_that_cannot_be_read_is_refused(text: str) -> None:
    data = msgspec.msgpack.encode({"steps": [{"step": "add", "name": "a", "constant": text + " OR x = 1"}]})
    with pytest.raises(MappingError):
        decode(data, Mapping)
