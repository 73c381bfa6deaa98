"""From a LIKE pattern to the simplest constraint that means the same."""

from __future__ import annotations

from tidings.model._constraint import Constraint
from tidings.model._errors import FilterError

from .contains import Contains
from .equal import Equal
from .like import ANY, ONE, Like, Tokens, Wild
from .prefix import Prefix
from .suffix import Suffix


def like(name: str, pattern: str, escape: str | None = None) -> Constraint:
    """The constraint for `name LIKE pattern [ESCAPE escape]`.

    >>> like("symbol", "SA%")
    Prefix("symbol LIKE 'SA%'")
    """
    return from_tokens(name, _tokens(name, pattern, escape))


def from_tokens(name: str, tokens: Tokens) -> Constraint:
    """The simplest constraint for these tokens."""
    match _joined(tokens):
        case ():
            return Equal(name, "")
        case (str() as text,):
            return Equal(name, text)
        case (Wild.ANY,):
            return Prefix(name, "")
        case (str() as text, Wild.ANY):
            return Prefix(name, text)
        case (Wild.ANY, str() as text):
            return Suffix(name, text)
        case (Wild.ANY, str() as text, Wild.ANY):
            return Contains(name, text)
        case joined:
            return Like(name, joined)


def _joined(tokens: Tokens) -> Tokens:
    """The tokens as a pattern's text would give them: literals in one piece, wildcards in one order."""
    joined: list[str | Wild] = []
    for token in tokens:
        if isinstance(token, Wild):
            _wild(joined, token)
        elif token:
            _append(joined, token)
    return tuple(joined)


def _tokens(name: str, pattern: str, escape: str | None) -> Tokens:
    if escape is not None and len(escape) != 1:
        raise FilterError(f"'{name}': ESCAPE {escape!r} must be one character")
    tokens: list[str | Wild] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise FilterError(f"'{name}': the pattern {pattern!r} ends in its escape character")
            _append(tokens, literal)
        elif character == "%":
            _wild(tokens, ANY)
        elif character == "_":
            _wild(tokens, ONE)
        else:
            _append(tokens, character)
    return tuple(tokens)


def _append(tokens: list[str | Wild], character: str) -> None:
    if tokens and isinstance(tokens[-1], str):
        tokens[-1] += character
    else:
        tokens.append(character)


def _wild(tokens: list[str | Wild], wild: Wild) -> None:
    """Add a wildcard; runs of wildcards are kept in one order: `_` before a single `%`."""
    if tokens and tokens[-1] is ANY:
        if wild is ONE:
            tokens.insert(len(tokens) - 1, ONE)
    else:
        tokens.append(wild)
