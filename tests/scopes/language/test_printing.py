"""Parse, print, parse: the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from scopes.language.trees import scripts
from soaking import SOAK_SECONDS, soak_seeds

from tidings.scopes.language import ScriptError, parse, print_script
from tidings.scopes.language._tables import built, grammar, tables
from tidings.scopes.language._tokens import KEYWORDS
from tidings.scopes.language.syntax import Script


@pytest.mark.req("VIS-901")
@settings(max_examples=200)
@given(scripts)
def test_a_tree_that_is_printed_and_parsed_is_the_same_tree(script: Script) -> None:
    text = print_script(script)
    assert parse(text) == script, text
    assert print_script(parse(text)) == text


def test_the_tables_in_the_package_are_those_of_the_grammar() -> None:
    assert tables() == built(), "run python -m tidings.scopes.language._tables"


def test_every_keyword_is_a_word_of_the_grammar_and_every_other_way_round() -> None:
    declared = {word for line in grammar().splitlines() if line.startswith("%declare") for word in line.split()[1:]}
    assert declared >= KEYWORDS
    assert all(word in grammar().split("%declare")[0] for word in KEYWORDS)


# --- fuzzing --------------------------------------------------------------------------------------------

_SEEDS = (
    "DEFINE SCOPE temp AS m: ALL FROM MEMBERS(world), A, B WHERE has-temp-sensor = 1 s: SUPERSCOPE ALL FROM S1",
    "DEPLOY temp AS x [1..2] FROM * : { INTERFACES OUTPUT(Temp), INPUT('price > 5') } INTEGRATED_ROUTING(a = \"b\")",
    'ALTER SCOPE INSTANCE x ADD TOP(load, 3 ASC) FROM @c1, "odd" ROLES boss SET a.b = -1.5e3, "c" = [TRUE, X\'00\']',
    "DEFINE SCOPE a AS UPDATE ON pub(n: OUTPUT(/a/**)) IF n.x <> 1 DO (ALTER SCOPE self ADD FROM trigger), CREATE NOW",
    'DEPLOY AS y MAP OUTWARD { Convert("a", 2), n.x = n.y } POLICY INTERNAL DELIVERY one.of (k = 1) COLLAPSED -- end\n',
)
_PIECES = (
    *sorted(KEYWORDS),
    *"(){}[],:;.*=<>'\"@/-\n ",
    "..",
    "<>",
    "--",
    "a",
    "@c",
    "1",
    "-1.5",
    "'x'",
    '"y"',
    "/a/*",
)


def fuzzed(dice: random.Random) -> str:
    """A text that is nearly right."""
    text = " ".join(dice.choice(_SEEDS) for _ in range(dice.randrange(1, 3)))
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(text) + 1)
        match dice.randrange(3):
            case 0:
                text = text[:at] + text[at + dice.randrange(1, 9) :]
            case 1:
                text = text[:at] + dice.choice(_PIECES) + text[at:]
            case _:
                text = text[:at] + f" {dice.choice(_PIECES)} " + text[at:]
    return text


def survives(seed: int) -> None:
    """A text is read, and what is printed of it reads the same; or it is refused, at a place that is in it."""
    text = fuzzed(random.Random(seed))
    try:
        script = parse(text, "fuzz")
    except ScriptError as error:
        for mistake in error.mistakes:
            assert mistake.problem, (seed, text)
            assert 1 <= mistake.line <= text.count("\n") + 1, (seed, text)
            assert 1 <= mistake.column <= len(mistake.text) + 1, (seed, text)
        return
    again = print_script(script)
    assert parse(again) == script, (seed, text)


def test_a_short_fuzzing_crashes_nothing() -> None:
    for seed in range(4_000):
        survives(seed)


@pytest.mark.soak
def test_fuzzing_crashes_nothing() -> None:
    for seed in soak_seeds(SOAK_SECONDS / 6):
        survives(seed)
