"""The quick look at what is published: what the engine calls plain is plain, and bodies are the same without it."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings import _native
from tidings.model import MAX_ATTRIBUTES, ValueRefused, has_plain_kinds, known_names
from tidings.wire import _body, encode_body

compiled = pytest.mark.skipif(_native.engine is None, reason=f"pure Python: {_native.WHY_PURE}")
NAMES = ("a", "ö", "a.b", "", "x" * 257, "\ud800", 7)


class Text(str):
    __slots__ = ()


INTEGERS = [0, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 10**40]
FLOATS = [1.5, -0.0, float("nan"), float("inf")]
TEXTS = ["", "ö", "\ud800", Text("t")]
VALUES = st.sampled_from([*INTEGERS, *FLOATS, *TEXTS, True, None, b"", (1,), [1], {}])


def body(content: dict[Any, Any]) -> bytes | str:
    try:
        return encode_body(content)
    except ValueRefused as error:
        return str(error)


@compiled
@given(st.dictionaries(st.sampled_from([*NAMES, Text("a")]), VALUES, max_size=4))
@example({f"n{n}": n for n in range(MAX_ATTRIBUTES + 1)})
@example({f"n{n}": n for n in range(MAX_ATTRIBUTES)})
def test_a_body_is_what_it_is_without_the_engine(content: dict[Any, Any]) -> None:
    assert _native.engine is not None
    if _native.engine.plain_kinds(content, known_names):
        assert has_plain_kinds(content)
    with patch.object(_body, "_plain_kinds", None):
        expected = body(content)
    assert body(content) == expected


@compiled
def test_most_of_what_is_published_passes_at_once() -> None:
    assert _native.engine is not None
    content = {"symbol": "SAP", "price": 182.4, "volume": 300, "halted": False}
    assert not _native.engine.plain_kinds(content, set()), "nobody has looked at the names"
    assert _native.engine.plain_kinds(content, set(content))
    with pytest.raises(TypeError, match="a dict and a set"):
        _native.engine.plain_kinds(content, content)  # type: ignore[arg-type]
