"""What the compiled engine promises beside what every engine does: bodies in all forms, and nothing left behind."""

from __future__ import annotations

import gc
import os
import random
import struct
import subprocess
import sys
import weakref
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from bench._naive_index import NaiveIndex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matching_world import random_filter, random_notification
from soaking import SOAK_SECONDS, soak_seeds

from tidings import _native
from tidings._native import build
from tidings.matching import CompiledIndex, Index, make_index
from tidings.matching._atom import atom_of
from tidings.model import (
    EVERYTHING,
    Conjunction,
    Constraint,
    Filter,
    Location,
    Notification,
    ValueRefused,
)
from tidings.model.operators import Equal, Exists, IsNull, Range, Within, like
from tidings.wire import checked_body, encode_body

compiled = pytest.mark.skipif(_native.engine is None, reason=f"pure Python: {_native.WHY_PURE}")


def one(*constraints: Constraint) -> Filter:
    return Filter([Conjunction(constraints)])


def index_of(*filters: Filter) -> CompiledIndex[int]:
    index: CompiledIndex[int] = CompiledIndex()
    for key, filter in enumerate(filters):
        index.add(filter, key)
    return index


def found(index: CompiledIndex[int], body: bytes) -> list[int] | None:
    assert index.match_body is not None
    keys = index.match_body(body)
    return None if keys is None else sorted(keys)


def packed(*pairs: tuple[bytes, bytes]) -> bytes:
    """A map of short names to values that are encoded already."""
    return bytes([0x80 | len(pairs)]) + b"".join([bytes([0xA0 | len(name)]) + name + value for name, value in pairs])


def test_brokers_use_the_compiled_engine_where_there_is_one() -> None:
    assert type(make_index()) is (Index if _native.engine is None else CompiledIndex)


@pytest.mark.parametrize("pure", ["1", "0"])
def test_the_environment_chooses_pure_python(pure: str) -> None:
    code = "from tidings import _native; from tidings.matching import make_index; print(type(make_index()).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TIDINGS_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = "Index" if pure == "1" or not build.in_place().exists() else "CompiledIndex"
    assert done.stdout.split() == [expected]


# --- bodies in all their forms ------------------------------------------------------------------------------------


def integer_forms(value: int) -> list[bytes]:
    """Every form in which msgpack can write an integer."""
    forms = [bytes([value & 0xFF])] if -32 <= value < 128 else []
    for tag, layout in zip(range(0xCC, 0xD4), (">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), strict=True):
        try:
            forms.append(bytes([tag]) + struct.pack(layout, value))
        except struct.error:
            continue
    return forms


EDGES = [
    0,
    1,
    -1,
    31,
    -32,
    -33,
    127,
    128,
    255,
    256,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 1,
    -(2**63),
]


@compiled
@pytest.mark.parametrize("value", EDGES)
def test_an_integer_is_the_same_number_in_every_form(value: int) -> None:
    index = index_of(one(Equal("x", value)), one(Range("x", value, value)), one(Range("x", value, low_open=True)))
    for form in integer_forms(value):
        assert found(index, packed((b"x", form))) == [0, 1]
    if value + 1 < 2**63:
        assert found(index, encode_body({"x": value + 1})) == [2]


@compiled
def test_a_number_beyond_64_bits_and_one_that_does_not_compare_are_left_to_python() -> None:
    index = index_of(EVERYTHING)
    assert found(index, packed((b"x", b"\xcf" + struct.pack(">Q", 2**63)))) is None
    for odd in (float("nan"), float("inf"), -float("inf")):
        assert found(index, packed((b"x", b"\xcb" + struct.pack(">d", odd)))) is None
        assert found(index, packed((b"x", b"\xca" + struct.pack(">f", odd)))) is None
    assert found(index, packed((b"x", b"\xca" + struct.pack(">f", 1.5)))) == [0]


@compiled
def test_floats_and_integers_compare_exactly() -> None:
    index = index_of(
        one(Equal("x", 2**53 + 1)),
        one(Range("x", float(2**53), None, low_open=True)),
        one(Equal("x", float(2**63))),
        one(Range("x", None, float(2**63), high_open=True)),
        one(Equal("x", -0.0)),
        one(Range("x", 0.0, 5e-324, low_open=True)),
    )
    assert found(index, encode_body({"x": 2**53 + 1})) == [0, 1, 3]
    assert found(index, encode_body({"x": float(2**53)})) == [3]
    assert found(index, encode_body({"x": 2**63 - 1})) == [1, 3]
    assert found(index, encode_body({"x": float(2**63)})) == [1, 2]
    assert found(index, encode_body({"x": 0})) == found(index, encode_body({"x": -0.0})) == [3, 4]
    assert found(index, encode_body({"x": 5e-324})) == [3, 5]


MOMENTS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 30, 15, 250_000, UTC),
    datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC),
    datetime(2514, 5, 30, 1, 53, 4, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
]


def time_forms(moment: datetime) -> list[bytes]:
    """Every form in which msgpack can write a time."""
    seconds, rest = divmod(moment - datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    nanoseconds = rest.microseconds * 1_000
    forms = [struct.pack(">BBBIq", 0xC7, 12, 0xFF, nanoseconds, seconds)]
    if 0 <= seconds < 2**34:
        forms.append(struct.pack(">BBQ", 0xD7, 0xFF, nanoseconds << 34 | seconds))
    if 0 <= seconds < 2**32 and not nanoseconds:
        forms.append(struct.pack(">BBI", 0xD6, 0xFF, seconds))
    return forms


@compiled
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_time_is_the_same_moment_in_every_form(moment: datetime) -> None:
    index = index_of(
        one(Equal("t", moment)), one(Range("t", moment, moment)), one(Range("t", None, moment, high_open=True))
    )
    for form in time_forms(moment):
        body = packed((b"t", form))
        assert checked_body(body)["t"] == moment
        assert found(index, body) == [0, 1]
    assert sorted(index.match(Notification(t=moment))) == [0, 1]


@compiled
def test_a_time_that_python_has_not_is_left_to_python() -> None:
    index = index_of(EVERYTHING)
    for seconds in (-62_135_596_801, 253_402_300_800, 2**63 - 1, -(2**63)):
        assert found(index, packed((b"t", struct.pack(">BBBIq", 0xC7, 12, 0xFF, 0, seconds)))) is None
    assert found(index, packed((b"t", struct.pack(">BBBIq", 0xC7, 12, 0xFF, 10**9, 0)))) is None
    assert found(index, packed((b"t", struct.pack(">BBBIq", 0xC7, 12, 0xFF, 1, 0)))) is None  # finer than Python's


@compiled
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x80\x80",
        packed((b"x", b"\x01"), (b"x", b"\x02")),
        packed((b"other", b"\x01"), (b"other", b"\x02")),
        packed((b"", b"\x01")),
        packed((b"x", b"\xc0")),
        packed((b"x", b"\x81\xa1y\x01")),
        packed((b"x", b"\x91\x91\x01")),
        packed((b"x", b"\x91\xc0")),
        packed((b"x", b"\xa3\xed\xa0\x80")),
        packed((b"\xff", b"\x01")),
        packed((b"x", b"\xc1")),
        packed((b"x", b"\xd4\x02a")),
        packed((b"x", b"\xc7\x03\x01a//")) + b"\x00",
        packed((b"x", b"\xc7\x04\x01a//b")),
        packed((b"x", b"\xc7\x02\x01\xff\xfe")),
        packed((b"x", b"\xdc\x04\x01" + b"\x01" * 1025)),
        b"\xde\x01\x01" + b"".join([b"\xa3%03d\x01" % n for n in range(257)]),
        packed((b"x", b"\xdb\xff\xff\xff\xff")),
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_what_is_odd_is_left_to_python_whole(body: bytes) -> None:
    assert found(index_of(EVERYTHING, one(IsNull("x"))), body) is None


@compiled
def test_a_range_on_a_list_asks_each_bound_for_some_element() -> None:
    index = index_of(one(Range("x", 1, 1.5)), one(Equal("x", 1)), one(Range("x", 1, 1)), one(Range("x", 5, 2)))
    assert found(index, encode_body({"x": [3, 0]})) == [0, 2]
    assert found(index, encode_body({"x": [3, 1]})) == [0, 1, 2]
    assert found(index, encode_body({"x": [2, 5]})) == [3]
    assert found(index, encode_body({"x": []})) == []


@compiled
def test_a_location_is_compared_by_its_parts() -> None:
    index = index_of(
        one(Within("p", Location("/x"))),
        one(Equal("p", Location("/x/y"))),
        one(Within("p", Location("/"))),
        one(Exists("p")),
    )
    assert found(index, encode_body({"p": Location("/x/y")})) == [0, 1, 2, 3]
    assert found(index, packed((b"p", b"\xc7\x05\x01//x/y"))) == [0, 1, 2, 3]
    assert found(index, encode_body({"p": Location("/xy")})) == [2, 3]
    assert found(index, encode_body({"p": Location("/")})) == [2, 3]


@compiled
@given(st.text("ab\u00e4\u20ac\U0001f600%_", max_size=7), st.text("ab\u00e4\u20ac\U0001f600", max_size=9))
@settings(max_examples=200)
def test_a_pattern_fits_what_it_fits_in_python(pattern: str, text: str) -> None:
    constraint = like("x", pattern)
    index = index_of(one(constraint))
    assert bool(found(index, encode_body({"x": text}))) is constraint.passes(text)


@compiled
@given(
    st.binary(max_size=40),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    st.integers(0, 2**32),
)
@example(b"\x81\xa1a\xc7\x02\x01\xff\xfe", [], 0)
@settings(max_examples=250)
def test_what_the_engine_takes_python_takes_with_the_same_matches(
    noise: bytes, changes: list[tuple[int, int]], seed: int
) -> None:
    rng = random.Random(seed)
    for body in (noise, changed(encode_body(random_notification(rng, lists=0.3)), changes)):
        assert_taken_alike(LOOKERS, body)


def changed(body: bytes, changes: list[tuple[int, int]]) -> bytes:
    mutable = bytearray(body)
    for at, byte in changes:
        mutable[at % len(mutable)] = byte
    return bytes(mutable)


def filters_from(seed: int, many: int = 60) -> list[Filter]:
    """Filters that a body can be asked about, a little more than so many."""
    rng = random.Random(seed)
    drawn = [filter for filter in (random_filter(rng) for _ in range(3 * many)) if type(filter) is Filter]
    return [filter for filter in drawn if all(atom_of(one).op != "ask" for part in filter.conjunctions for one in part)]


class Lookers:
    """The compiled engine and the loop, over the same filters that a body can be asked about."""

    def __init__(self, seed: int) -> None:
        filters = filters_from(seed)
        self.naive: NaiveIndex[int] = NaiveIndex()
        for key, filter in enumerate(filters):
            self.naive.add(filter, key)
        self.index = index_of(*filters) if _native.engine is not None else None


LOOKERS = Lookers(1)


def assert_taken_alike(lookers: Lookers, body: bytes) -> None:
    assert lookers.index is not None
    keys = found(lookers.index, body)
    try:
        notification = checked_body(body)
    except ValueRefused:
        assert keys is None, body
        return
    assert keys is None or keys == sorted(lookers.naive.match(notification)), body


@compiled
def test_what_publishers_send_is_taken() -> None:
    """Handing everything to Python would be right, and slow."""
    rng = random.Random(5)
    for _ in range(300):
        assert_taken_alike(LOOKERS, body := encode_body(random_notification(rng, lists=0.2)))
        assert LOOKERS.index is not None
        assert found(LOOKERS.index, body) is not None


@compiled
@pytest.mark.soak
def test_what_the_engine_takes_python_takes_for_long() -> None:
    for seed in soak_seeds(SOAK_SECONDS / 8):
        rng, lookers = random.Random(seed), Lookers(seed)
        for _ in range(2_000):
            body = encode_body(random_notification(rng, lists=0.3))
            changes = [(rng.randrange(200), rng.randrange(256)) for _ in range(rng.randrange(4))]
            assert_taken_alike(lookers, changed(body, changes))


@compiled
def test_many_ranges_without_a_rare_one_are_sifted_together_and_stay_exact() -> None:
    rng = random.Random(11)
    index: CompiledIndex[int] = CompiledIndex()
    naive: NaiveIndex[int] = NaiveIndex()

    def notification() -> Notification:
        values: dict[str, object] = {name: rng.randrange(100) for name in "abcd" if rng.random() < 0.9}
        if rng.random() < 0.2:
            values["a"] = [rng.randrange(100) for _ in range(rng.randrange(3))]
        return Notification(values)

    def filter() -> Filter:
        low = [rng.randrange(90) for _ in range(3)]
        high = [at + rng.randrange(60) for at in low]
        ranges = [
            Range(name, low[n], high[n], low_open=rng.random() < 0.5) for n, name in enumerate(rng.sample("abcd", 3))
        ]
        return one(*ranges, *([Range("a", rng.randrange(60))] if rng.random() < 0.3 else []))

    for key in range(300):
        drawn = filter()
        index.add(drawn, key)
        naive.add(drawn, key)
    for _ in range(800):
        index.match(notification())
    while index.review(1_000):
        pass
    assert index.statistics()["in_segments"] > 100
    for key in range(0, 300, 2):
        index.remove(key)
        naive.remove(key)
    for _ in range(300):
        event = notification()
        assert found(index, encode_body(event)) == sorted(index.match(event)) == sorted(naive.match(event))
    for key in range(1, 300, 2):
        index.remove(key)
    assert set(index.statistics().values()) == {0}


# --- what only Python can say ---------------------------------------------------------------------------------------


class Asked(Exists):
    """An operator that no engine knows."""

    def passes(self, value: object) -> bool:
        if value == "raise":
            raise RuntimeError("asked too much")
        return value == "yes"


@compiled
def test_own_operators_are_asked_once_everything_else_has_passed() -> None:
    index = index_of(one(Asked("x"), Equal("n", 1)), one(Equal("n", 2)))
    assert found(index, encode_body({"n": 2, "x": "yes"})) == [1]
    assert found(index, encode_body({"n": 1, "x": "yes"})) is None
    assert index.match(Notification(n=1, x="yes")) == [0]
    assert index.match(Notification(n=1, x="no")) == []
    assert index.match(Notification(n=2, x="raise")) == [1]
    with pytest.raises(RuntimeError, match="asked too much"):
        index.match(Notification(n=1, x="raise"))
    assert index.match(Notification(n=1, x="yes")) == [0]


@compiled
def test_nothing_changes_an_index_that_is_being_asked() -> None:
    index: CompiledIndex[int] = CompiledIndex()

    class Meddler:
        def matches(self, notification: Notification) -> bool:
            index.add(EVERYTHING, 7)
            return True

    index.add(Meddler(), 1)
    with pytest.raises(RuntimeError, match="in use"):
        index.match(Notification(a=1))
    index.remove(1)
    index.add(EVERYTHING, 2)
    assert index.match(Notification(a=1)) == [2]


@compiled
def test_operands_and_values_that_have_no_place_in_the_engine_are_compared_by_python() -> None:
    index = index_of(one(Equal("x", "\ud800")), one(Equal("x", 2**70)), one(Exists("x")), one(Equal("x", float("nan"))))
    assert found(index, encode_body({"x": 1})) is None
    assert index.match(Notification.trusted({"x": "\ud800"})) == [0, 2]
    assert sorted(index.match(Notification.trusted({"x": 2**70}))) == [1, 2]
    for key in (0, 1, 3):
        index.remove(key)
    assert found(index, encode_body({"x": 1})) == [2]
    assert index.match(Notification.trusted({"x": float("nan")})) == [2]


# --- nothing is left behind -----------------------------------------------------------------------------------------


class Key:
    """A key that can be watched."""


@compiled
def test_keys_and_filters_go_with_the_index_even_in_a_cycle() -> None:
    index: CompiledIndex[Key] = CompiledIndex()
    key = Key()
    key.index = index  # type: ignore[attr-defined]
    index.add(one(Asked("x"), Equal("n", 1)), key)
    gone = weakref.ref(key)
    del index, key
    gc.collect()
    assert gone() is None


@compiled
def test_what_is_removed_is_forgotten() -> None:
    rng = random.Random(3)
    index: CompiledIndex[int] = CompiledIndex()
    filters = [random_filter(rng) for _ in range(400)]
    for _ in range(3):
        for key, filter in enumerate(filters):
            index.add(filter, key)
        for _ in range(100):
            index.match(random_notification(rng))
        for key in range(len(filters)):
            index.remove(key)
        assert set(index.statistics().values()) == {0}
    assert index.match(random_notification(rng)) == []


def churn(rounds: int) -> int:
    """Add and remove filters, and give the memory of the process in bytes that it took beyond the first tenth."""
    rng = random.Random(1)
    filters = [random_filter(rng) for _ in range(1_000)]
    bodies = [encode_body(random_notification(rng)) for _ in range(100)]
    index: CompiledIndex[int] = CompiledIndex()
    assert index.match_body is not None
    before = 0
    for round in range(rounds):
        for key, filter in enumerate(filters):
            index.add(filter, key)
            index.match_body(bodies[key % 100])
        for key in range(len(filters)):
            index.remove(key)
        if round == rounds // 10:
            before = resident()
    return resident() - before


def resident() -> int:
    """Bytes of memory that this process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@compiled
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_changes_leave_no_memory_behind() -> None:
    assert churn(20) < 2_000_000  # a filter takes about 500 bytes, and 18,000 come and go


@compiled
@pytest.mark.soak
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a_million_changes_leave_no_memory_behind() -> None:
    assert churn(1_000) < 4_000_000


def test_msgspec_writes_the_forms_that_the_engine_reads() -> None:
    """If it ever wrote others, the engine would hand everything to Python, and nobody would notice."""
    assert msgspec.msgpack.encode({"t": MOMENTS[3]})[3:] in time_forms(MOMENTS[3])
    assert msgspec.msgpack.encode({"x": 300})[3:] in integer_forms(300)
