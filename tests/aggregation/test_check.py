"""What breaks a law is found within two seconds, and shown with as little as possible around it."""

from __future__ import annotations

from typing import Any

import pytest
from aggregation.catalogue_world import CATALOGUE, FREQUENT

from tidings.aggregation.definitions import Aggregate, RunOnce
from tidings.aggregation.laws import check, fingerprint
from tidings.model import LawBroken

NEVER = "no generator draws this"


class Good(Aggregate[int]):
    name = "acme.good"

    def zero(self) -> int:
        return 0

    def lift(self, record: Any) -> int | None:
        return record.attrs.get("x") if type(record.attrs.get("x")) is int else None

    def combine(self, a: int, b: int) -> int:
        return a + b


class MeanOfMeans(Good):
    def combine(self, a: int, b: int) -> int:
        return b if a == 0 else a if b == 0 else (a + b) // 2


class Subtracts(Good):
    def combine(self, a: int, b: int) -> int:
        return a - b


class WrongZero(Good):
    def zero(self) -> int:
        return 1


class Floats(Good):
    def lift(self, record: Any) -> Any:
        return record.attrs.get("x") if type(record.attrs.get("x")) is float else None


class WrongInverse(Good):
    def invert(self, partial: int) -> int:
        return partial


class ForgetfulCodec(Good):
    def encode(self, partial: int) -> bytes:
        return super().encode(partial % 1_000)


class OneWay(Good):
    def distance(self, a: int, b: int) -> float:
        return max(0, a - b)


class Squares(Good):
    def distance(self, a: int, b: int) -> float:
        return (a - b) ** 2


class Changes(Aggregate[Any]):
    name = "acme.changes"

    def zero(self) -> Any:
        return [0]

    def lift(self, record: Any) -> Any:
        return [1]

    def combine(self, a: Any, b: Any) -> Any:
        a[0] += b[0]
        return a


class Divides(Good):
    def lift(self, record: Any) -> int:
        x = record.attrs.get("x")
        return 10 // x if type(x) is int else 0


class Grows(Aggregate[Any]):
    name = "acme.grows"

    def zero(self) -> Any:
        return []

    def lift(self, record: Any) -> Any:
        return [record.ts_ms]

    def combine(self, a: Any, b: Any) -> Any:
        return sorted(a + b)


class Picky(Good):
    def lift(self, record: Any) -> int | None:
        return 1 if record.attrs.get("x") == NEVER else None


class Constants(Good):
    """It takes records of one text only, which is learnt from its code; and it is wrong."""

    def lift(self, record: Any) -> int | None:
        if record.attrs.get("kind") != "zebra":
            return None
        return record.attrs.get("n") if type(record.attrs.get("n")) is int else None

    def combine(self, a: int, b: int) -> int:
        return 2 * a + b


class BadKey(Good):
    def key(self, record: Any) -> Any:
        return 5


BROKEN = [
    (MeanOfMeans, "grouping does not matter"),
    (Subtracts, "order does not matter"),
    (WrongZero, "zero adds nothing"),
    (Floats, "thousandths"),
    (WrongInverse, "the inverse takes away"),
    (ForgetfulCodec, "encoding loses nothing"),
    (OneWay, "the distance is"),
    (Squares, "a detour is not shorter"),
    (Changes, "combine does not change what it is given"),
    (Divides, "lift"),
    (Grows, "at most 4,096 travel"),
    (Picky, "laws cannot be tested; give the class examples"),
    (Constants, "breaks a law"),
    (BadKey, "a key is a text"),
]


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=lambda one: getattr(one, "__name__", ""))
def test_a_definition_that_breaks_a_law_is_refused(broken: type[Aggregate[Any]], said: str) -> None:
    with pytest.raises(LawBroken, match=said):
        check(broken())


def test_the_counter_example_is_the_smallest() -> None:
    with pytest.raises(LawBroken) as caught:
        check(Subtracts())
    assert str(caught.value) == (
        "acme.good 1 breaks a law: order does not matter: combine(a, b) = combine(b, a)\n"
        "  1 is not -1\n"
        "  a = nothing\n"
        "  b = Record(x=1)\n"
        "  c = nothing"
    )
    with pytest.raises(LawBroken) as caught:
        check(Divides())
    assert "a = Record(x=0)\n  b = nothing\n  c = nothing" in str(caught.value)


@pytest.mark.parametrize(
    "aggregate",
    [Good(), FREQUENT, *(one for name, one in CATALOGUE.items() if name != "union")],
    ids=lambda one: one.name,
)
def test_a_definition_that_obeys_the_laws_passes(aggregate: Aggregate[Any]) -> None:
    clock = iter(range(10**9))
    found = check(aggregate, clock=lambda: next(clock) / 60)
    assert found.rounds > 20
    assert found.lifted > 0
    assert 0 < found.bytes <= aggregate.max_bytes


def test_a_definition_gives_examples_where_nothing_else_helps() -> None:
    class Helped(Picky):
        examples = ({"x": NEVER},)

    assert check(Helped()).lifted > 0


def test_a_check_ends_with_its_time() -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.05
        return now

    check(Good(), clock=clock)
    assert now < 3


def test_what_runs_once_has_no_laws_but_must_have_a_value() -> None:
    class Fine(RunOnce):
        name = "acme.once"

        def run(self, broker: str) -> Any:
            return [1, broker]

    class Wrong(Fine):
        def run(self, broker: str) -> Any:
            return 1.5

    assert check(Fine()).bytes == 8
    with pytest.raises(LawBroken, match="run raised"):
        check(Wrong())


def test_a_fingerprint_tells_definitions_apart_and_repeats() -> None:
    assert fingerprint(Good()) == fingerprint(Good())
    assert fingerprint(Good()) != fingerprint(MeanOfMeans())
    assert fingerprint(Good()) != fingerprint(Good(), seed=1)
