"""Missing: nothing happens. Every kind of step, where the attribute that it works on is not there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopes.mapping_world import FEW, check_soundness, promises, questions, scalarised, steps
from strategies import filters, notifications

from tidings.model import Conjunction, Filter, Notification
from tidings.scopes.mappings._expression import parsed
from tidings.scopes.mappings._mapping import AnyStep, Mapping, edge_mapping, mapping
from tidings.scopes.steps import Compute, Convert, Rename, Represent, Unpack

NEEDY = {"Convert": Convert, "Compute": Compute, "Represent": Represent, "Rename": Rename, "Unpack": Unpack}
"""The steps that work on an attribute which may be missing; the others take away, add, or decide."""


def sources(step: AnyStep) -> tuple[str, ...]:
    """The attributes without any of which the step has nothing to work on."""
    match step:
        case Convert() | Represent() | Unpack():
            return (step.name,)
        case Rename():
            return (step.old,)
        case Compute():
            return parsed(step.expression).names
    raise AssertionError(step)


def target(step: AnyStep) -> str:
    """The attribute that the step would give."""
    match step:
        case Convert():
            return step.target
        case Rename():
            return step.new
        case Compute() | Represent() | Unpack():
            return step.name
    raise AssertionError(step)


def needy_steps(kind: str) -> st.SearchStrategy[AnyStep]:
    """Steps of a kind, and their inverses."""
    each = steps()[kind]
    back = each.map(lambda step: step.inverse())
    return st.one_of(each, back.filter(lambda step: type(step) is NEEDY[kind]))  # type: ignore[arg-type]


def test_the_kinds_of_steps_are_told_apart() -> None:
    assert set(NEEDY) | {"Copy", "Drop", "Keep", "Add", "Annotate", "Only", "Pack", "Named"} == set(steps())


@pytest.mark.parametrize("kind", sorted(NEEDY))
@settings(max_examples=50)
@given(st.data())
def test_a_missing_source_leaves_everything_as_it_is(kind: str, data: st.DataObject) -> None:
    step, others = data.draw(needy_steps(kind)), dict(data.draw(notifications(names=FEW)))
    others.setdefault(target(step), data.draw(st.sampled_from([5, "x", (1, 2)])))
    missing = data.draw(st.sampled_from(sources(step)))
    others.pop(missing, None)
    before = Notification(others)
    after = mapping(step).run(before)
    assert after is not None
    if kind == "Rename":  # whose new name belongs to it alone, as docs/mappings.md says
        assert dict(after) == {name: value for name, value in before.items() if name != target(step)}
        return
    assert after == before
    each = list(scalarised(before))
    for asked in questions(before):
        filter = Filter([Conjunction([asked])])
        if filter.matches(after):
            assert step.wanted(filter).matches(before), asked
        if filter.matches(before):
            assert step.offered(filter).matches(after), asked
        if all(map(filter.matches, each)):
            assert promises(step.offered(filter), after), asked
    drawn = data.draw(filters(names=FEW))
    check_soundness(mapping(step), drawn, before)


@settings(max_examples=200)
@given(steps()["Convert"], notifications(names=FEW))
def test_where_nothing_is_converted_a_filter_passes_what_it_passed_before(
    step: Convert, notification: Notification
) -> None:
    """Exactly: the reading of what is converted must not let in what is not."""
    before = Notification({name: value for name, value in notification.items() if name != step.source})
    for asked in questions(before):
        filter = Filter([Conjunction([asked])])
        assert step.wanted(filter).matches(before) == filter.matches(before), asked


@given(steps()["Convert"], filters(names=FEW), filters(names=FEW), notifications(names=FEW))
def test_a_subscription_and_an_advertisement_overlap_where_a_notification_crosses(
    step: Convert, asked: Filter, said: Filter, notification: Notification
) -> None:
    one = mapping(step)
    result = one.apply(notification)
    if result is not None and promises(said, notification) and asked.matches(result):
        assert one.wanted(asked).overlaps(said)
        assert asked.overlaps(one.offered(said))


def test_a_conversion_without_its_source_leaves_the_target() -> None:
    to_euro = mapping(Convert("usd", 0.5, to="eur"))
    assert to_euro.apply(Notification(symbol="SAP", eur=100)) == Notification(symbol="SAP", eur=100)
    assert to_euro.apply(Notification(eur="unknown")) == Notification(eur="unknown")
    assert to_euro.apply(Notification(usd=120, eur=1)) == Notification(eur=60.0), "a source takes its place"
    edge = edge_mapping(outward=to_euro)
    assert edge.inward.apply(Notification(usd=7)) == Notification(usd=7)
    several = Mapping((*to_euro.steps, Convert("gbp", 1.25, to="eur")))
    assert several.apply(Notification(usd=120)) == Notification(eur=60.0)
    assert several.apply(Notification(gbp=100)) == Notification(eur=125.0)
