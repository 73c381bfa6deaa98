"""Policies that raise, choose strangers or take long, at the deciding point of a scope: each is denied and reported."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import pytest

from tidings.broker import Choice
from tidings.model import Identity, Notification
from tidings.scopes import Graph, Policy, PolicyContext, PolicyKind, PolicyUse, Wait, register_policy
from tidings.scopes.policies import _running
from tidings.scopes.policies._policy import MAX_STATE
from tidings.scopes.policies._running import Running

USE = PolicyUse("troubled", {"point": ""})
WHOSE = "internal policy 'troubled' of 's'"
IDENTITY = Identity("b", 1, 1, "p", 1, 0)


class Troubled(Policy):
    """Does what it is told to do by the class, whenever it is asked anything."""

    chosen: Any = ()
    state: bytes = b""

    def select(self, notification: Notification, eligible: Collection[str], context: PolicyContext) -> Any:
        if isinstance(self.chosen, Exception):
            raise self.chosen
        return self.chosen

    def remember(self) -> bytes:
        if isinstance(self.chosen, Exception):
            raise self.chosen
        return self.state

    def recall(self, state: bytes) -> None:
        raise ValueError(f"nobody knows {state!r}")

    def shutdown(self) -> None:
        raise OSError("the file is gone")


@pytest.fixture
def troubled(caplog: pytest.LogCaptureFixture) -> Running:
    caplog.set_level(logging.WARNING, logger="tidings.scopes")
    register_policy("troubled", Troubled)
    return Running(USE, PolicyKind.INTERNAL, "s")


def asked(running: Running, chosen: object) -> Choice:
    Troubled.chosen = chosen
    return running.chosen(
        Notification(n=1), ("@a", "@b"), Graph(), IDENTITY, ("s",), load=lambda client: (0, 0), waited=False
    )


@pytest.mark.req("VIS-607", "ARC-212")
@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (ValueError("no such desk"), "it raised ValueError: no such desk"),
        (KeyError("@a"), "it raised KeyError: '@a'"),
        (ValueError("x" * 500), f"it raised ValueError: {'x' * 200}"),
        (["@a", "@stranger"], "it chose ['@a', '@stranger'], and could only choose of 2 candidates"),
        ([["@a"]], "it raised TypeError: unhashable type: 'list'"),
        (None, "it raised TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_it_denies_counts_and_says_why(
    troubled: Running, caplog: pytest.LogCaptureFixture, chosen: object, why: str
) -> None:
    before = _running.counted().failed
    assert asked(troubled, chosen) == Choice(())
    assert _running.counted().failed == before + 1
    assert [one.message for one in caplog.records] == [f"{WHOSE} denies, because {why}"]


def test_one_that_is_not_registered_denies(caplog: pytest.LogCaptureFixture) -> None:
    running = Running(PolicyUse("unheard-of", {"point": ""}), PolicyKind.DELIVERY, "")
    assert asked(running, ("@a",)) == Choice(())
    assert [one.message for one in caplog.records] == [
        "delivery policy 'unheard-of' of the root scope denies, because no policy 'unheard-of' is registered here; "
        "call register_policy first"
    ]


@pytest.mark.parametrize("chosen", [("@a",), Wait()])
def test_one_that_takes_long_is_reported_and_its_answer_counts(
    troubled: Running, caplog: pytest.LogCaptureFixture, chosen: object
) -> None:
    times = iter((0.0, 0.75, 0.75))
    troubled.clock = lambda: next(times)
    before = _running.counted().slow
    answer = asked(troubled, chosen)
    assert answer == (Choice((), waits=True) if isinstance(chosen, Wait) else Choice(("@a",)))
    assert _running.counted().slow == before + 1
    assert [one.message for one in caplog.records] == [
        f"{WHOSE} took 750 ms, more than 50 ms; everybody waits for it meanwhile"
    ]


def test_a_state_that_cannot_be_handed_over_or_taken_up_is_reported(
    troubled: Running, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []

    def after(what: object) -> None:
        said.extend(one.message for one in caplog.records)
        caplog.clear()
        troubled._logged = 0.0  # as if a minute had passed

    Troubled.chosen = RuntimeError("not now")
    after(troubled.remember())
    Troubled.chosen, Troubled.state = (), bytes(MAX_STATE + 1)
    assert troubled.remember() == b""
    after(None)
    Troubled.state = b"fine"
    assert troubled.remember() == b"fine"
    troubled.shutdown()
    after(None)
    troubled.restart((b"what",))
    after(None)
    assert said == [
        f"{WHOSE} raised RuntimeError when it was to remember: not now",
        f"{WHOSE} remembers 262,145 bytes, more than 262,144; the next deciding point begins as at first",
        f"{WHOSE} raised OSError when it was shut down: the file is gone",
        f"{WHOSE} cannot go on with what another broker remembered: ValueError: nobody knows b'what'",
    ]
