"""How much the authority takes at once: it carries traffic meanwhile."""

from __future__ import annotations

import pytest
from scopes.network_world import Watched

from tidings.broker import Link
from tidings.model import ScopeError
from tidings.scopes import (
    Answer,
    Ask,
    CreateScope,
    Define,
    Impose,
    Interface,
    Redefine,
    decode,
    encode,
)
from tidings.scopes._applying import MAX_CHANGES, MAX_DEFINED, MAX_DEFINED_TEXT, MAX_DEFINITION, check_size
from tidings.scopes._messages import decode_question
from tidings.scopes.mappings import _constant as constant
from tidings.scopes.service import _authority as authority
from tidings.wire import Extension, Frame

LONG = "x" * MAX_DEFINITION


def world() -> Watched:
    return Watched("ab", ["ab"], {"x": "a"})


def definition(name: str, size: int = 0) -> Define:
    """One that is printed as the language prints it, with about as many characters."""
    roles = ", ".join(f"role{number:05}" for number in range(size // 11))
    return Define(name, f"DEFINE SCOPE {name} AS\n    ROLES {roles};" if roles else f"DEFINE SCOPE {name} AS;")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((Define("d", LONG + "x"),), "the definition 'd' has 8,193 characters, at most 8,192 are allowed; divide it"),
        ((Redefine("d", LONG + "x"),), "the definition 'd' has 8,193 characters"),
        ((Define("d", LONG),) * 33, "33 definitions of 270,336 characters at once, at most 1,000 of 262,144"),
        ((Define("d", ""),) * 1_001, "1,001 definitions of 0 characters at once"),
        ((CreateScope("s"),) * 10_001, "10,001 changes at once, at most 10,000 are allowed; make them in parts"),
    ],
)
def test_what_is_too_large_is_refused_before_anything_of_it_is_read(
    changes: tuple[Define], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(authority, "check_definition", lambda name, text: read.append(name))
    answer = world().change(*changes)
    assert (answer.error, answer.reason[: len(reason)]) == ("ScopeError", reason)
    assert not read


def test_what_is_just_small_enough_is_not_too_large() -> None:
    check_size((Define("d", LONG),) * (MAX_DEFINED_TEXT // MAX_DEFINITION))
    check_size((Define("d", ""),) * MAX_DEFINED)
    check_size((CreateScope("s"),) * MAX_CHANGES)


def test_definitions_are_read_for_nobody_who_may_not_make_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(authority, "check_definition", lambda name, text: read.append(name))
    watched = world()
    answers: list[object] = []
    watched.scopes("a").ask((definition("d"),), answers.append, who="x")
    watched.network.run()
    (answer,) = answers
    assert getattr(answer, "error", "") == "NotAllowed"
    assert not read


def test_other_turns_come_between_large_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = world()
    read: list[str] = []
    real = authority.check_definition
    monkeypatch.setattr(authority, "check_definition", lambda name, text: (read.append(name), real(name, text)))
    answers: list[object] = []
    some = tuple(definition(f"d{number}", 5_000) for number in range(5))
    watched.scopes("a").ask(some, answers.append, administrator=True)
    assert len(read) == 1, "the others are read in turns of their own"
    watched.network.run()
    assert len(read) == 5
    assert set(watched.scopes("b").graph.definitions) == {"d0", "d1", "d2", "d3", "d4"}


def limits(*filters: str) -> Ask:
    changes = (Impose("s", Interface.parse(output=filter), f"@{at}") for at, filter in enumerate(filters))
    return Ask("r", tuple(changes))


def test_different_filters_of_a_client_are_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant, "MAX_READ", 100)
    same, different = limits(*["price > 1"] * 50), limits(*(f"price > {number}" for number in range(50)))
    assert decode_question(encode(same)) == same, "what is the same is read once"
    assert decode(encode(different)) == different
    with pytest.raises(ScopeError, match="more than 100 characters; make it in parts"):
        decode_question(encode(different))


def test_a_client_is_told_that_its_change_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant, "MAX_READ", 100)
    watched = world()
    broker = watched.network.brokers["a"]
    link = broker.client("x")
    assert link is not None
    answers: list[Answer] = []

    def tap(name: str, to: Link, frame: Frame) -> None:
        if to is link and isinstance(frame.message, Extension):
            answer = decode(frame.message.body)
            assert isinstance(answer, Answer)
            answers.append(answer)

    watched.network.tap = tap
    broker.receive(link, Frame(Extension("scopes", encode(limits(*(f"price > {number}" for number in range(50)))))))
    watched.network.run()
    assert [(one.request, one.error) for one in answers] == [("r", "ScopeError")]
