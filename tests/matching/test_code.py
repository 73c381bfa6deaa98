"""Generated code holds operators and numbers, never anything that a user wrote."""

from __future__ import annotations

import random
import re

import pytest

from tidings.matching import Index, _code, _shape
from tidings.model import Conjunction, Filter, Kind, Location, Negated, Notification
from tidings.model.operators import Contains, Equal, Exists, IsNull, Member, Prefix, Range, Suffix, Within, like

EVIL = '__import__(\'os\').abort() or x\n    """ # n0'
WORDS = set(
    re.findall(
        r"\w+",
        "def check return False True if not and or is in type float int str bytes bool datetime Location None"
        " get parts startswith endswith a r",
    )
)


def test_no_text_of_a_user_gets_into_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    source = _code.source

    def spy(terms: tuple[_code.Term, ...]) -> str:
        text = source(terms)
        written.append(text)
        return text

    monkeypatch.setattr(_code, "source", spy)
    monkeypatch.setattr(_shape, "PATIENCE", 1)
    _code._compiled.cache_clear()
    constraints = [
        Equal(EVIL, EVIL),
        Equal(EVIL + "b", True),
        Equal(EVIL + "n", 12345.5),
        Member(EVIL, (EVIL, "b")),
        Range(EVIL, EVIL, None),
        Range("n" + EVIL, 12345, 54321, low_open=True),
        Prefix(EVIL, EVIL),
        Suffix(EVIL, EVIL),
        Contains(EVIL, EVIL),
        like(EVIL, f"{EVIL}%x_"),
        Within("w" + EVIL, Location((EVIL.replace("/", ""),))),
        Exists(EVIL),
        IsNull(EVIL + "null"),
    ]
    rng = random.Random(3)
    index: Index[object] = Index()
    for key in range(400):
        some = rng.sample(constraints, rng.randint(1, 4))
        index.add(Filter([Conjunction(Negated(c) if rng.random() < 0.3 else c for c in some)]), (EVIL, key))
    event = Notification(
        {EVIL: EVIL, EVIL + "b": True, EVIL + "n": 12345.5, "n" + EVIL: 20000, "w" + EVIL: Location("/a")}
    )
    for _ in range(40):
        index.match(event)
    assert len(written) > 50
    for text in written:
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        assert {name for name in names if not re.fullmatch(r"[nv]\d+", name)} <= WORDS
        assert not re.search(r"['\"#\\;]", text)
        assert max(map(int, re.findall(r"\d+", text)), default=0) < 20  # positions only


def test_a_check_tells_true_from_one() -> None:
    number = _code.function((_code.Term(0, "eq", False, Kind.NUMBER, (1,)),), ("x",))
    boolean = _code.function((_code.Term(0, "eq", False, Kind.BOOLEAN, (1,)),), ("x",))
    member = _code.function((_code.Term(0, "in", False, Kind.NUMBER, (1,)),), ("x",))
    unequal = _code.function((_code.Term(0, "eq", True, Kind.NUMBER, (1,)),), ("x",))
    assert [number((None, 1), {"x": value}) for value in (1, 1.0, True, "1")] == [True, True, False, False]
    assert [boolean((None, True), {"x": value}) for value in (1, 1.0, True)] == [False, False, True]
    assert [member((None, frozenset({1})), {"x": value}) for value in (1, True)] == [True, False]
    assert [unequal((None, 2), {"x": value}) for value in (1, True, "1", 2)] == [True, False, False, False]


def test_conjunctions_of_one_pattern_share_their_code() -> None:
    terms = (_code.Term(0, "ge", False, None, (1,)),)
    one, two = _code.function(terms, ("x",)), _code.function(terms, ("y",))
    assert one.__code__ is two.__code__  # type: ignore[attr-defined]
    assert one((None, 3), {"x": 4, "y": 2})
    assert not two((None, 3), {"x": 4, "y": 2})
