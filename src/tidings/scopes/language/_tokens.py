"""From the text of a script to its tokens, statement by statement.

Theory of operation
-------------------
One regular expression recognises every token, wrong ones too. A second pass looks at the neighbours of a token where
the parser, which sees one token ahead, could not tell what begins (see `grammar.lark`). A third finds the
statements: each begins with DEFINE, DEPLOY or an ALTER that is not the action of a rule. So a mistake in one statement
does not hide those in the next.

Comments belong to the token that follows them, or if they stand behind one on its line, to that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ._mistakes import Misfit

MAX_TEXT = 1_000_000
"""The most characters of one script."""
MAX_NESTING = 64
"""The most brackets inside each other, NOTs counted."""

BLANK = "\n"
"""An empty line among comments, or behind them."""
KEYWORDS = frozenset(
    {
        "DEFINE",
        "SCOPE",
        "AS",
        "DEPLOY",
        "ALTER",
        "DEFINITION",
        "INSTANCE",
        "ADD",
        "DEL",
        "SUPERSCOPE",
        "SUPERSCOPES",
        "MEMBER",
        "MEMBERS",
        "FROM",
        "ALL",
        "TOP",
        "ASC",
        "DESC",
        "WHERE",
        "INTERFACES",
        "INPUT",
        "OUTPUT",
        "ROLES",
        "SET",
        "MAP",
        "INWARD",
        "OUTWARD",
        "POLICY",
        "PUBLISH",
        "DELIVERY",
        "INTERNAL",
        "TRAVERSE",
        "DO",
        "UPDATE",
        "ON",
        "IF",
        "CREATE",
        "NOW",
        "INCLUDE",
        "COMPONENT",
        "OR",
        "AND",
        "NOT",
        "IS",
        "ROLE",
        "HAS",
        "LIKE",
        "MATCHES",
        "TRUE",
        "FALSE",
        "BROKERSCOPE",
        "INTEGRATED_ROUTING",
        "COLLAPSED",
        "SCOPE_ADDRESS",
    }
)
"""Words that name nothing else. A scope of such a name is written in quotes."""

_STRING = r"""(?: "(?:[^"]|"")*+" | '(?:[^']|'')*+' )"""
_NAME = r"[^\W\d]\w*+(?:-\w++)*+"
_PART = r"\w++(?:-\w++)*+"
_TOKEN = re.compile(
    rf"""
      (?P<SPACE> \s++ )
    | (?P<COMMENT> --[^\n]*+ )
    | (?P<TIME> TIMESTAMP \s*+ {_STRING} )
    | (?P<PLACE> LOCATION \s*+ {_STRING} )
    | (?P<BYTES> X{_STRING} )
    | (?P<PATH> {_NAME}(?:/{_PART})++ )
    | (?P<NAME> {_NAME} )
    | (?P<CLIENT> @{_PART}(?:[./]{_PART})*+ )
    | (?P<TOPIC> (?:/(?:\*\*|\*|{_PART}))++ )
    | (?P<NUMBER> -?[0-9]++(?:\.[0-9]++(?:[eE][+-]?[0-9]++)?+|[eE][+-]?[0-9]++)(?!\w) )
    | (?P<INTEGER> -?[0-9]++(?!\w) )
    | (?P<STRING> "(?:[^"]|"")*+" )
    | (?P<TEXT> '(?:[^']|'')*+' )
    | (?P<DOTS> \.\. )
    | (?P<COMPARISON> <> | != | <= | >= | < | > )
    | (?P<EQ> =(?![=<>~]) )
    | (?P<LPAR> \( ) | (?P<RPAR> \) )
    | (?P<LBRACE> \{{ ) | (?P<RBRACE> \}} )
    | (?P<LBRACKET> \[ ) | (?P<RBRACKET> \] )
    | (?P<COMMA> , ) | (?P<COLON> : ) | (?P<DOT> \. ) | (?P<SEMICOLON> ; ) | (?P<STAR> \* )
    | (?P<STRAY> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING = frozenset({"LPAR", "LBRACE", "LBRACKET"})
_CLOSING = {"RPAR": "LPAR", "RBRACE": "LBRACE", "RBRACKET": "LBRACKET"}
_SELECTING = frozenset({"LABEL", "SUPERSCOPE", "SUPERSCOPES", "MEMBER", "ALL", "TOP", "LBRACKET", "FROM"})
"""What a selection begins with."""
_ENDS_WHERE = frozenset({"COLON", "SUPERSCOPE", "SUPERSCOPES", "MEMBER", "ALL", "TOP", "FROM", "INTERFACES", "ROLES"})
_COMPARES = frozenset({"EQ", "COMPARISON", "LIKE", "MATCHES"})
_REFERS = frozenset({"FROM", "COMMA", "DOT"}) | _COMPARES
"""What a name follows that is no label, though a colon follows it."""


class Token:
    """A word of a script."""

    __slots__ = ("at", "comments", "end", "note", "text", "type")

    def __init__(self, type: str, text: str, at: int) -> None:
        self.type = type
        self.text = text
        self.at = at
        self.end = at + len(text)
        self.comments: list[str] = []
        """The comments before it, each on a line of its own."""
        self.note = ""
        """The comment behind it, on the same line."""

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"


def tokens(text: str) -> list[Token]:
    """The tokens of a script, the last of type "" for the comments at its end. Raises `Misfit`."""
    if len(text) > MAX_TEXT:
        raise Misfit(
            f"the text has {len(text):,} characters, at most {MAX_TEXT:,} are read",
            0,
            "Divide it into several files.",
        )
    found = _scanned(text)
    _check_nesting(found)
    _classify(found)
    return found


def statements(found: list[Token]) -> Iterator[list[Token]]:
    """The tokens of one statement after the other, without semicolons and the last token."""
    statement: list[Token] = []
    depth = 0
    before = ""
    for token in found:
        kind = token.type
        begins = kind in {"DEFINE", "DEPLOY"} or (
            kind == "ALTER" and before not in {"DO", "ACTION_COMMA"} and depth == 0
        )
        if (begins or kind in {"", "SEMICOLON"}) and statement:
            yield statement
            statement, depth = [], 0
        if kind not in {"", "SEMICOLON"}:
            statement.append(token)
            depth = depth + 1 if kind in _OPENING else max(0, depth - 1) if kind in _CLOSING else depth
        before = kind


def _scanned(text: str) -> list[Token]:
    found: list[Token] = []
    comments: list[str] = []
    new_line = True
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        written = match.group()
        if kind == "SPACE":
            new_line = new_line or "\n" in written
            if comments and written.count("\n") > 1:
                comments.append(BLANK)
            continue
        if kind == "COMMENT":
            comment = written[2:].strip()
            if new_line or not found or comments:
                comments.append(comment)
            else:
                found[-1].note = comment
            continue
        if kind == "NAME" and written in KEYWORDS:
            kind = written
        elif kind == "STRAY":
            raise _stray(text, match.start())
        token = Token(kind, written, match.start())
        if comments:
            token.comments, comments = comments, []
        found.append(token)
        new_line = False
    end = Token("", "", len(text.rstrip()))
    end.comments = comments[:-1] if comments[-1:] == [BLANK] else comments
    found.append(end)
    _pass_on_comments(found)
    return found


def _pass_on_comments(found: list[Token]) -> None:
    """Comments of a semicolon, which is no part of a statement, belong to its neighbours."""
    for index, token in enumerate(found[:-1]):
        if token.type == "SEMICOLON":
            following = found[index + 1]
            if token.note and index and not found[index - 1].note and found[index - 1].type != "SEMICOLON":
                found[index - 1].note, token.note = token.note, ""
            following.comments = [*token.comments, *([token.note] if token.note else []), *following.comments]


def _check_nesting(found: list[Token]) -> None:
    open: list[Token] = []
    negated = 0
    for token in found:
        if token.type in {"DEFINE", "DEPLOY"}:
            open.clear()
        elif token.type in _OPENING:
            open.append(token)
        elif token.type in _CLOSING and open:
            open.pop()
        negated = negated + 1 if token.type == "NOT" else 0
        if len(open) > MAX_NESTING or negated > MAX_NESTING:
            raise Misfit(f"more than {MAX_NESTING} brackets are open here", token.at, "Nest less deeply.")


def _classify(found: list[Token]) -> None:
    """Give the tokens their types that only their neighbours tell."""
    depth = 0  # brackets that are open, without those around an action
    kinds: list[bool] = []
    restricting = False
    before = ""
    for index, token in enumerate(found):
        kind = token.type
        after = found[index + 1].type if index + 1 < len(found) else ""
        if kind in _OPENING:
            around_action = kind == "LPAR" and before in {"DO", "ACTION_COMMA"}
            kinds.append(around_action)
            depth += not around_action
        elif kind in _CLOSING and kinds:
            depth -= not kinds.pop()
        elif kind in {"DEFINE", "DEPLOY", "SEMICOLON"}:
            depth, kinds, restricting = 0, [], False
        elif kind == "COMMA" and depth == 0 and after in {"ALTER", "CREATE", "LPAR"}:
            token.type = "ACTION_COMMA"
        elif kind == "NAME" and after == "COLON" and depth == 0 and before not in _REFERS:
            block = index + 2 < len(found) and found[index + 2].type == "LBRACE"
            token.type = "BLOCK_LABEL" if block else "LABEL"
            restricting = False
        elif kind == "STRING" and after in _COMPARES:
            token.type = "QUOTED"
        elif kind == "INTERFACES" and depth == 0 and restricting and _is_legacy(found, index):
            token.type = "LEGACY"
        if depth == 0:
            restricting = kind == "WHERE" or (restricting and kind not in _ENDS_WHERE)
        before = token.type


def _is_legacy(found: list[Token], index: int) -> bool:
    """Whether another selection follows this list of interfaces."""
    while index + 1 < len(found) and found[index + 1].type in {"INPUT", "OUTPUT"}:
        index += 2
        open = 0
        while index < len(found):
            open += (found[index].type in _OPENING) - (found[index].type in _CLOSING)
            index += 1
            if open <= 0:
                break
        if index >= len(found) or found[index].type != "COMMA":
            break
    if index + 1 >= len(found):
        return False
    next, after = found[index], found[index + 1]
    if next.type == "NAME" and after.type == "COLON":  # a label that has not been classified yet
        return found[min(index + 2, len(found) - 1)].type != "LBRACE"
    return next.type in _SELECTING


_WRONG = {
    "==": "Write = to compare.",
    "=<": "Write <= for 'less or equal'.",
    "=>": "Write >= for 'greater or equal'.",
    "=~": "Write LIKE with % and _ as wildcards, or MATCHES with a regular expression.",
    "&&": "Write AND.",
    "||": "Write OR.",
    "//": "A comment begins with --.",
    "/*": "A comment begins with --, on every line.",
}
_STRAY = {
    '"': 'Close the string with ", and double a " inside it.',
    "'": "Close the string with ', and double a ' inside it: 'it''s'.",
    "#": "A comment begins with --.",
    "@": "Write the name of a client behind it: @sensor1.",
    "!": "Write NOT, or <> for 'unequal'.",
    **dict.fromkeys("‘’´`“”„«»", 'Use straight quotes: "text".'),
}


def _stray(text: str, at: int) -> Misfit:
    written = text[at]
    for wrong, remedy in _WRONG.items():
        if text.startswith(wrong, at):
            return Misfit(f"{wrong} has no meaning here", at, remedy)
    if written in "\"'":
        return Misfit("this quote is never closed", at, _STRAY[written])
    if written.isdigit() and not written.isascii():
        return Misfit(f"{written} is no digit of the language", at, "Write numbers with the digits 0 to 9.")
    if written.isdigit() or written == "-":
        return Misfit("this is neither a number nor a name", at, "A name begins with a letter; quote any other.")
    shown = written if written.isprintable() else f"the character {ord(written):#x}"
    return Misfit(f"{shown} has no meaning here", at, _STRAY.get(written, "Put names with such characters in quotes."))
