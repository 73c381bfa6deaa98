"""Random steps and mappings over the names and values of `strategies`, and how advertisements read lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from strategies import KINDS, ORDERED, filters, scalars, values

from tidings.model import Constraint, Filter, Location, Negated, Notification, Scalar, kind_of
from tidings.model.operators import Equal, Exists, IsNull, Member, Range, Within, like
from tidings.scopes.mappings._mapping import AnyStep, Mapping, mapping
from tidings.scopes.steps import (
    Add,
    Annotate,
    Compute,
    Convert,
    Copy,
    Drop,
    Form,
    How,
    Keep,
    Named,
    Only,
    Pack,
    Rename,
    Represent,
    Unpack,
    register_mapping,
)

FEW = ("a", "b", "in")
"""So few names that every step meets every notification."""
names = st.sampled_from(FEW)
SAP = Notification(type="quote", symbol="SAP", price=182.4, at=datetime(2026, 1, 1, tzinfo=UTC), tags=["a", "<b>\r\n&"])
pairs = st.lists(names, min_size=2, max_size=2, unique=True)
some_names = st.lists(names, min_size=1, max_size=3).map(tuple)


def factors(*, wild: bool) -> SearchStrategy[int | float]:
    few = st.sampled_from([1, -1, 2, -3, 0.5, 1.1, -0.01, 100])
    if not wild:
        return few
    every = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    return (few | every).filter(lambda number: number != 0)


def converts(*, wild: bool = False) -> SearchStrategy[Convert]:
    offsets = st.sampled_from([0, 0, 1, -2, 0.5, 32]) | (factors(wild=True) if wild else st.nothing())
    return st.builds(Convert, names, factors(wild=wild), offsets, st.none() | names, st.booleans())


_OPERANDS = ("a", "b", '"in"', "2", "0.5", "0")


def expressions() -> SearchStrategy[str]:
    """Arithmetic over the names, at least one of them."""
    parts = st.recursive(
        st.sampled_from(_OPERANDS),
        lambda inner: (
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(" ".join).map("({})".format) | inner.map("-{}".format)
        ),
        max_leaves=4,
    )
    return st.tuples(st.sampled_from(_OPERANDS[:3]), st.sampled_from("+-*/"), parts).map(" ".join) | st.sampled_from(
        _OPERANDS[:3]
    )


def _swapped(notification: Notification) -> dict[str, object]:
    other = {"a": "b", "b": "a"}
    return {other.get(name, name): value for name, value in notification.items()}


_SWAP = Mapping((Rename("a", "\0"), Rename("b", "a"), Rename("\0", "b")))
register_mapping("swap a and b", _swapped, wanted=_SWAP.wanted, offered=_SWAP.offered, inverse="swap a and b")
register_mapping("count", lambda notification: {"a": len(notification)})
register_mapping("break", lambda notification: {"a": 1 // len(notification), "b": object()})


def steps(*, wild: bool = False) -> dict[str, SearchStrategy[AnyStep]]:
    """A strategy for each kind of step."""
    return {
        "Rename": pairs.map(lambda pair: Rename(*pair)),
        "Copy": pairs.map(lambda pair: Copy(*pair)),
        "Drop": some_names.map(Drop),
        "Keep": some_names.map(Keep),
        "Add": st.builds(Add, names, values(KINDS, wild=wild)),
        "Annotate": st.builds(Annotate, names, scalars(KINDS, wild=wild)),
        "Only": filters(names=FEW, wild=wild).map(Only),
        "Convert": converts(wild=wild),
        "Compute": st.builds(Compute, names, expressions()),
        "Represent": st.builds(Represent, names, st.sampled_from(How), st.sampled_from(["utf-8", "cp500", "ascii"])),
        "Pack": st.builds(Pack, names, st.sampled_from(Form), some_names | st.just(())),
        "Unpack": st.builds(Unpack, names, st.sampled_from(Form)),
        "Named": st.sampled_from(["swap a and b", "count", "break"]).map(Named),
    }


def mappings(*, wild: bool = False, max_size: int = 4) -> SearchStrategy[Mapping]:
    every = st.one_of(list(steps(wild=wild).values()))
    return st.lists(every, max_size=max_size).map(lambda some: Mapping(tuple(some)))


_SCALARS: tuple[Scalar, ...] = (
    *(True, False, 0, 1, -2, 2.5, -0.5, "", "1", "ab", "1.0", b"", b"a", b"\xf1"),
    *(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC), Location("/p"), Location("/q/p")),
)


def questions(notification: Notification) -> list[Constraint]:
    """Constraints of every sort on every name, among them what can be asked about just these values."""
    known = [item for value in notification.values() for item in (value if isinstance(value, tuple) else (value,))]
    asked: list[Constraint] = []
    for name in FEW:
        asked += [IsNull(name), Exists(name), like(name, "%b"), Negated(like(name, "a_")), Range(name, b"a")]
        asked += [Within(name, Location("/p")), Negated(Within(name, Location("/p")))]
        for scalar in (*_SCALARS, *known):
            equal = Equal(name, scalar)
            asked += [equal, Negated(equal)]
            if kind_of(scalar) in ORDERED:
                asked += [Range(name, scalar), Range(name, high=scalar), Range(name, scalar, scalar)]
                asked += [Range(name, scalar, low_open=True), Range(name, high=scalar, high_open=True)]
        for kind in KINDS:
            alike = tuple(scalar for scalar in (*_SCALARS, *known) if kind_of(scalar) is kind)
            asked += [Member(name, alike[:2]), Negated(Member(name, alike[-2:]))]
    return asked


def scalarised(notification: Notification) -> Iterator[Notification]:
    """The notification with one element in place of each list, in every way."""
    choices = [
        [(name, item) for item in value] if isinstance(value, tuple) and value else [(name, value)]
        for name, value in notification.items()
    ]
    return (Notification(dict(chosen)) for chosen in itertools.product(*choices))


def promises(advertisement: Filter, notification: Notification) -> bool:
    """Whether the advertisement allows this to be published (see `tidings.model._overlap`)."""
    return all(map(advertisement.matches, scalarised(notification)))


def check_soundness(one: Mapping, filter: Filter, notification: Notification) -> None:
    """The two promises of a mapping to routing, and the second one as advertisements read it."""
    result = one.apply(notification)
    if result is None:
        return
    if filter.matches(result):
        assert one.wanted(filter).matches(notification)
    if filter.matches(notification):
        assert one.offered(filter).matches(result)
    if promises(filter, notification):
        assert promises(one.offered(filter), result)


def wanted(step: object, text: str) -> str:
    """What a step asks for, where somebody behind it asks for this."""
    return str(mapping(step).wanted(Filter.parse(text)).canonical())  # type: ignore[arg-type]


def offered(step: object, text: str) -> str:
    """What a step announces, where somebody before it announces this."""
    return str(mapping(step).offered(Filter.parse(text)).canonical())  # type: ignore[arg-type]
