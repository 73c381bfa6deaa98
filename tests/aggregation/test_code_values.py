"""What a worker says that is not what it should be: code may write its answers by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec
import pytest

from tidings.aggregation._code import MAX_HELD_BYTES, CodeMeasuring, Computed, Submit
from tidings.aggregation._forms import tellable
from tidings.aggregation.deploying import Manifest
from tidings.aggregation.workers import Answer, Combined, Job, Lifted, Presented
from tidings.broker import Timer
from tidings.model import Identity, Notification

MANIFEST = Manifest(
    network="n",
    name="a.b",
    version="1",
    digest="0" * 64,
    entry="A",
    valid_until=9,
    window=(1_000, 1_000),
    max_bytes=65_536,
)


def answering(*said: Answer) -> Submit:
    def submit(jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]) -> None:
        done(said)

    return submit


@pytest.mark.parametrize(
    "value",
    [
        json.dumps("\ud800"),
        json.dumps({"\ud800": 1}),
        "1e999",
        "NaN",
        "[" * 40 + "]" * 40,
        "[" * 900 + "]" * 900,
        "[" * 30_000 + "]" * 30_000,
        "9" * 5_000,
        "{",
        "\xff",
    ],
)
def test_a_value_that_cannot_be_told_is_none(value: str) -> None:
    computed = Computed(MANIFEST, answering(Presented([(value.encode("latin-1"), 0.0)])), lambda do: do())
    computed.presented((b"1",))
    assert computed.presented((b"1",)) is None


def test_a_value_that_can_be_told_is_told() -> None:
    value = {"a": [1, 2.5, None, True, "ü", {"b": [10**30]}]}
    computed = Computed(MANIFEST, answering(Presented([(json.dumps(value).encode(), 0.5)])), lambda do: do())
    computed.presented((b"1",))
    found = computed.presented((b"1",))
    assert found == (value, 0.5)
    assert msgspec.msgpack.encode(tellable(found[0]))


def test_the_bytes_that_code_makes_a_broker_keep_are_bounded() -> None:
    large = b"x" * 60_000
    answers = [Lifted([(f"k{at}", 5, large) for at in range(100)], 1)]
    kept = []

    def submit(jobs: Sequence[Job], done: Callable[[Sequence[Answer] | str], None]) -> None:
        done([Combined([large])] if len(answers[0].partials) == 0 else answers)

    def call_later(delay: int, action: Callable[[], None]) -> Timer:
        kept.append(action)

        class Never:
            def cancel(self) -> None: ...

        return Never()

    measuring = CodeMeasuring(MANIFEST, "b", 0, submit=submit, call_later=call_later, changed=lambda: None)
    for number in range(64 * 5):
        measuring.take(Notification(n=number), Identity("b", 1, number, "p", 1, 5_500_000), 5_500)
    held = sum(len(one) for groups in measuring._panes.values() for bag in groups.values() for one in bag)
    assert 0 < held == measuring._held_bytes <= MAX_HELD_BYTES
    assert measuring.close(7_100)[6].brokers == 0
    measuring.close(20_000)
    assert measuring._held_bytes == 0
