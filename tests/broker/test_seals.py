"""The tag of a sealed copy comes from other brokers: one that makes no sense is refused, whatever it says."""

from __future__ import annotations

import pytest

from tidings.broker.forwarding._borders import _parsed


def test_a_seal_is_read() -> None:
    assert _parsed("1f:2:AAAA") == (31, 2, b"\0\0\0")


@pytest.mark.parametrize(
    "text",
    [
        *("", "1f:2", "1f:2:AAAA:", ":2:AAAA", "1f::AAAA", f"{'f' * 300}:2:AAAA", "-f:2:AAAA", "1_0:2:AAAA"),
        *(" 1:2:AAAA", "1f:fffff:AAAA", "1f:2:A", "1f:2:*", "1F:2:AAAA"),
    ],
)
def test_a_seal_that_nobody_makes_is_none(text: str) -> None:
    assert _parsed(text) is None
