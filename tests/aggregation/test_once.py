"""Code that runs once on each broker: it is installed like any other, and what it computes is told by broker."""

from __future__ import annotations

from typing import Any

import pytest
from aggregation.deploying_world import KEYS, World, workers

from tidings.aggregation._once import RunsOnce
from tidings.aggregation.deploying import Act, From, Registry, Signed
from tidings.aggregation.deploying.messages import Declined, Surveyed
from tidings.aggregation.workers import Combined, Failed, Lifted

ONCE = """
from tidings.aggregation.definitions import RunOnce

class Sum(RunOnce):
    name, version = "acme.sum", "1.0.0"
    def run(self, broker):
        return [broker, sum(range(1_000))]
"""
GAUGE = """
from tidings.aggregation.definitions import Aggregate

class Sum(Aggregate):
    name, version = "acme.sum", "1.0.0"
    def zero(self): return 0
    def lift(self, record): return 1
    def combine(self, a, b): return a + b
"""


def world(**more: Any) -> World:
    return World("abcd", ["ab", "bc", "bd"], workers=workers, **more)


def once(here: World, source: str = ONCE, **changed: Any) -> Signed:
    words: dict[str, Any] = {"name": "acme.sum", "entry": "Sum", "window": None, "where": ""}
    given: Signed = here.python(source, **{**words, **changed})
    return given


def computed(here: World) -> dict[str, str]:
    """What was computed, by broker."""
    return {name: one.value for name in "abcd" for one in here.deployments(name).known("acme.sum")}


EVERYWHERE = {name: f'["{name}", 499500]' for name in "abcd"}


@pytest.mark.req("AGG-106")
def test_code_runs_once_on_each_broker_when_it_is_installed() -> None:
    here = world()
    here.network.cut("b", "d")
    here.network.run(5)
    given = once(here)
    answer = here.deploy(given)
    assert isinstance(answer, Surveyed)
    assert computed(here) == {name: value for name, value in EVERYWHERE.items() if name != "d"}
    here.network.heal("b", "d")
    here.network.run(20)
    assert computed(here) == EVERYWHERE
    here.network.crash("c")
    here.network.run(1)
    here.network.restart("c")
    here.network.run(20)
    assert computed(here) == EVERYWHERE
    here.deploy(here.end(given, Act.REMOVE, KEYS.private))
    assert set(computed(here).values()) == {""}


@pytest.mark.req("AGG-106")
def test_it_runs_no_second_time_and_there_is_nothing_to_watch() -> None:
    here = world()
    given = once(here)
    here.deploy(given)
    ran: list[str] = []
    for name in "abcd":
        runs = here.deployments(name)._once
        assert runs is not None
        runs._workers = type("Never", (), {"submit": lambda self, *words: ran.append("again")})()
    assert isinstance(here.deploy(given), Surveyed)
    assert ran == []
    watch = here.network.clients["cd"].watch("acme.sum")
    here.network.run(1)
    assert watch.declined is not None
    assert "acme.sum 1.0.0 runs once on each broker, and has no value that changes" in watch.declined.reason


def test_code_without_a_window_that_is_not_run_once_is_refused() -> None:
    here = world()
    assert "has no window, and brokers run Python over windows" in here.refusal(once(here, GAUGE))
    answer = here.deploy(once(here, ONCE, window=(1_000, 1_000)))
    assert isinstance(answer, Declined)
    assert "the code is acme.sum 1.0.0 with the window None" in answer.reason
    assert [len(here.deployments(name).registry) for name in "abcd"] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("it ended with code 1", "it ended with code 1"),
        ([Failed("KeyError: 'no'")], "KeyError: 'no'"),
        ([Combined([b"1.5"])], "is not a partial"),
        ([Combined([b'"' + b"x" * 5_000 + b'"'])], "its worker gave no value, or one that is too large"),
        ([Combined([b"1", b"2"])], "its worker gave no value"),
        ([Lifted([], 0)], "its worker gave no value"),
        ([], "its worker gave no value"),
    ],
)
def test_what_fails_has_a_reason_and_is_not_tried_again(answers: Any, said: str) -> None:
    here = World("a", [])
    given = once(here)
    registry = Registry(lambda given: None)
    registry.take(given, From.NEIGHBOUR)
    (place,) = registry.places
    asked: list[Any] = []

    class Failing:
        def submit(self, place: Any, code: Any, jobs: Any, done: Any) -> None:
            asked.append(code)
            done(answers)

        def forget(self, place: Any) -> None: ...

    runs = RunsOnce("a", registry, Failing(), lambda delay, action: action())  # type: ignore[arg-type, return-value]
    runs.look(place)
    runs.look(place)
    value, reason = runs.result(place)
    assert value == ""
    assert said in reason
    assert len(asked) == 1
