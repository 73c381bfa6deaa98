"""What to say about a token that does not fit where it stands.

Each function here knows one way to go wrong; the first that recognises it speaks. Otherwise what would have fitted is
listed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from ._mistakes import Misfit
from ._tables import END
from ._tokens import KEYWORDS, Token

_SHOWN = {
    "LPAR": "(",
    "RPAR": ")",
    "LBRACE": "{",
    "RBRACE": "}",
    "LBRACKET": "[",
    "RBRACKET": "]",
    "COMMA": ",",
    "COLON": ":",
    "DOT": ".",
    "DOTS": "..",
    "STAR": "*",
    "EQ": "=",
    "NAME": "a name",
    "PATH": "a name",
    "CLIENT": "a client like @sensor1",
    "STRING": "a string",
    "TEXT": "a string",
    "INTEGER": "a number",
    "NUMBER": "a number",
    "COMPARISON": "a comparison",
    "TOPIC": "a topic like /a/*",
    "LABEL": "a label",
    "BLOCK_LABEL": "a label",
    END: "the end of the statement",
}
_UNSAID = frozenset(
    {"ACTION_COMMA", "LEGACY", "QUOTED", "TIME", "PLACE", "BYTES", "TRUE", "FALSE", "SUPERSCOPES", "PATH", "TEXT"}
)
"""What would fit and nobody looks for."""
_ARCHITECTURES = frozenset({"BROKERSCOPE", "INTEGRATED_ROUTING", "COLLAPSED", "SCOPE_ADDRESS"})
_SELECTING = frozenset({"ALL", "TOP", "FROM", "SUPERSCOPE", "SUPERSCOPES", "MEMBER", "LABEL", "LBRACKET"})
MAX_REPEATED = 60
"""The most characters of a text that a remedy repeats in the way it should be written."""
_FILTER_WORDS = frozenset({"BETWEEN", "EXISTS", "IN", "WITHIN"})
"""What filters have and the conditions of this language have not."""
_FEATURES = frozenset({"INTERFACES", "ROLES", "SET", "MAP", "POLICY", "DO", "UPDATE", "BLOCK_LABEL", "MEMBERS"})


class _Place:
    def __init__(self, read: Sequence[Token], token: Token, expected: AbstractSet[str]) -> None:
        self.read = read
        self.token = token
        self.expected = expected

    def before(self, steps: int = 1) -> str:
        return self.read[-steps].type if len(self.read) >= steps else ""

    def says(self, problem: str, remedy: str, token: Token | None = None) -> Misfit:
        return Misfit(problem, (token or self.token).at, remedy)


def unexpected(read: Sequence[Token], token: Token, expected: AbstractSet[str]) -> Misfit:
    """Why this token does not fit after those that were read, and what would."""
    place = _Place(read, token, expected)
    for recognise in _MISTAKES:
        if misfit := recognise(place):
            return misfit
    what = "the statement ends too early" if token.type == END else f"{token.text:.40} does not fit here"
    return place.says(what, f"Expected {_listed(expected)}.")


def _no_statement(place: _Place) -> Misfit | None:
    if place.read:
        return None
    meant = difflib.get_close_matches(place.token.text.upper(), ["DEFINE", "DEPLOY", "ALTER"], n=1)
    remedy = f"Keywords are upper case: write {meant[0]}." if meant else "It begins with DEFINE, DEPLOY or ALTER."
    return place.says(f"no statement begins with {place.token.text:.40}", remedy)


def _lower_case(place: _Place) -> Misfit | None:
    """`Define Scope x as`."""
    for token in (place.token, *place.read[-1:]):
        word = token.text.upper()
        if token.type == "NAME" and word in KEYWORDS and token.text != word:
            fits = word in place.expected if token is place.token else True
            if fits:
                return place.says(f"{token.text} is a name here", f"Keywords are upper case: write {word}.", token)
    return None


def _no_architecture(place: _Place) -> Misfit | None:
    if place.token.type == END and _ARCHITECTURES & place.expected and place.read[0].type == "DEPLOY":
        return place.says("no architecture is named", "Write INTEGRATED_ROUTING at the end of the DEPLOY.")
    return None


def _no_condition(place: _Place) -> Misfit | None:
    if place.before() in {"WHERE", "IF", "AND", "OR", "NOT"}:
        return place.says(
            f"a condition is missing after {place.before()}", 'Write one like city = "Berlin" or IS ROLE(boss).'
        )
    return None


def _no_value(place: _Place) -> Misfit | None:
    """`IF n.price > DO ...`."""
    if place.before() in {"EQ", "COMPARISON"} and place.token.type in {"DO", "AND", "OR", END, *_ARCHITECTURES}:
        return place.says(
            f"a value is missing after {place.read[-1].text}", "Write a number, a text in quotes, or an attribute."
        )
    return None


def _too_late(place: _Place) -> Misfit | None:
    """A selection behind a feature."""
    if place.token.type in _SELECTING and not _SELECTING & place.expected and _FEATURES & place.expected:
        return place.says(
            "a selection stands behind a feature", "Write all selections first, then INTERFACES, SET and the others."
        )
    return None


def _reserved(place: _Place) -> Misfit | None:
    """A keyword where a name belongs."""
    word = place.token.text
    if place.token.type in KEYWORDS and "NAME" in place.expected and "STRING" in place.expected:
        return place.says(f"{word} is a keyword", f'Write a thing of that name in quotes: "{word}".')
    return None


def _one_interface(place: _Place) -> Misfit | None:
    """`INTERFACES SIDE(x)`."""
    if {"INPUT", "OUTPUT"} <= place.expected and place.before() in {"INTERFACES", "LEGACY"}:
        return place.says(
            f"{place.token.text or 'the end'} is no direction",
            "Write INPUT(...) for what members may receive, or OUTPUT(...) for what they may publish.",
        )
    return None


def _filter(place: _Place) -> Misfit | None:
    """`INPUT("price > 5")`, `OUTPUT(price BETWEEN 1 AND 5)`: a filter of which the language does not know the words."""
    opened = next((at for at in range(len(place.read) - 1, 0, -1) if place.read[at].type == "LPAR"), 0)
    if place.read[opened - 1].type not in {"INPUT", "OUTPUT"} or "RPAR" not in place.expected:
        return None
    written = place.token.text
    if place.token.type == "STRING" and opened == len(place.read) - 1:
        meant = written[1:-1].replace("'", "''") if len(written) <= MAX_REPEATED else "..."
        remedy = f"Write a filter in single quotes, '{meant}', and a type without any."
        return place.says(f"{written:.40} is a text", remedy)
    if written in _FILTER_WORDS:
        return place.says(
            f"{written} is a word of filters", "Put a filter with it in single quotes: 'price BETWEEN 1 AND 5'."
        )
    return None


def _client_name(place: _Place) -> Misfit | None:
    if place.token.type == "CLIENT" and "NAME" in place.expected:
        return place.says(f"{place.token.text} is a client", "Write a name without @ here.")
    return None


def _quoted_client(place: _Place) -> Misfit | None:
    """`@alice@example.com`: what stands close behind a client is taken for a part of its name."""
    written, at = place.token.text, place.token.at
    for token in reversed(place.read):
        if token.end != at:
            return None
        written, at = token.text + written, token.at
        if token.type == "CLIENT":
            remedy = f'Put the name of a client with such characters in quotes: "{written:.60}".'
            return place.says(f"{place.token.text:.40} does not fit behind {token.text:.40}", remedy)
    return None


def _misspelt(place: _Place) -> Misfit | None:
    if place.token.type in {"NAME", "LABEL"}:
        words = sorted(word for word in place.expected if word in KEYWORDS)
        meant = difflib.get_close_matches(place.token.text.upper(), words, n=1, cutoff=0.8)
        if meant:
            return place.says(f"{place.token.text} does not fit here", f"Did you mean {meant[0]}?")
    return None


_Recognise: TypeAlias = Callable[[_Place], Misfit | None]
_MISTAKES: tuple[_Recognise, ...] = (
    _no_statement,
    _lower_case,
    _no_architecture,
    _no_condition,
    _no_value,
    _too_late,
    _one_interface,
    _filter,
    _quoted_client,
    _misspelt,
    _reserved,
    _client_name,
)


def _listed(expected: AbstractSet[str]) -> str:
    words = sorted(dict.fromkeys(_SHOWN.get(one, one) for one in expected - _UNSAID or expected))
    if set(words) >= _ARCHITECTURES:
        words = [word for word in words if word not in _ARCHITECTURES] + ["an architecture"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
