"""Cells of docs/promises.md for tests on real sockets: each test takes from its cell what has to happen."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tidings.sim import Outcome, Promises

PROMISES = Promises.load()
READ: set[tuple[str, str, str]] = set()
"""The cells that tests have asked for."""


def outcome(guarantee: str, fault: str, feature: str) -> Outcome:
    """What a cell promises."""
    READ.add((guarantee, fault, feature))
    return PROMISES.outcome(guarantee, [fault], feature)


def holds(guarantee: str, feature: str) -> bool:
    """Whether a guarantee holds whatever happens."""
    READ.add((guarantee, "any", feature))
    return PROMISES.holds(guarantee, feature)


def each_quality(fault: str, feature: str) -> pytest.MarkDecorator:
    """Run a test for each `quality`, with the `promised` outcome of its delivery."""
    qualities = ("fire", "accepted", "stored")
    cells = [(quality, outcome(f"delivery of {quality}", fault, feature)) for quality in qualities]
    return pytest.mark.parametrize(("quality", "promised"), cells, ids=qualities)


def happened(published: Iterable[int], delivered: Iterable[int], in_gaps: Iterable[int] = ()) -> Outcome:
    """What became of these publications, as a cell would say it."""
    missing = {*published} - {*delivered}
    if not missing:
        return Outcome.DELIVERED
    return Outcome.GAP if missing <= {*in_gaps} else Outcome.NOTHING
