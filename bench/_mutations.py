"""Mutations: small changes to the code, each of which a test should notice.

A mutation replaces one piece of a module's text, so that everything before it keeps its place. These are drawn:

    negate      the condition of an `if`, a `while`, a conditional expression or a comprehension
    compare     `<` for `<=`, `==` for `!=`, `in` for `not in`, `is` for `is not`, and the other way round
    connect     `and` for `or`, and the other way round
    constant    a number that is one larger, `True` for `False`, and the other way round
    arithmetic  `+` for `-`, and the other way round
    drop        a call whose result nobody uses, or a change of an attribute or of an item, is left out
    leave       a function that returns nothing returns at once
    forget      a function returns None instead of what it found
    jump        `break` for `continue`, and the other way round

Left alone are texts, types, what is at the top level of a module (limits are tuned, not proven), assertions, log lines
and calls that are awaited.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_QUIET = {"debug", "info", "warning", "error", "exception", "log"}
"""What log lines are called by."""


class Mutation(NamedTuple):
    """One change of one module."""

    path: str
    """The module, from the root of the project."""
    line: int
    kind: str
    start: int
    """Where the replaced piece begins in the text of the module, and where it ends."""
    end: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The module with this change."""
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.kind}: {_short(self.old)} -> {_short(self.new)}"


def draw(root: Path, packages: list[str], seed: int, count: int) -> list[Mutation]:
    """So many mutations of these folders: the same code and seed give the same ones, a larger count more of them."""
    modules = sorted(path for package in packages for path in (root / package).rglob("*.py"))
    found = [mutation for module in modules for mutation in mutations(root, module)]
    random.Random(seed).shuffle(found)
    return found[:count]


def mutations(root: Path, module: Path) -> Iterator[Mutation]:
    """All mutations of one module, in a fixed order."""
    text = module.read_text(encoding="utf-8")
    places = _Places(text)
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, _Function)):
        for kind, node, new in _of_function(function):
            start, end = places.span(node)
            yield Mutation(str(module.relative_to(root)), node.lineno, kind, start, end, text[start:end], new)


class _Places:
    """Where nodes are in a text; the parser counts bytes."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._begins = [0]
        for line in self._lines:
            self._begins.append(self._begins[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        return self._begins[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


_Change: TypeAlias = tuple[str, ast.expr | ast.stmt, str]


def _of_function(function: _Function) -> Iterator[_Change]:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if len(body) > 1 and _returns_nothing(function) and not isinstance(body[0], _Function):
        yield "leave", body[0], "return"
    for node in _own_nodes(body):
        yield from _of_statement(node)
        yield from _of_expression(node)


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """What a function consists of, but for the functions in it, types, texts, assertions, and what it raises."""
    open: list[ast.AST] = [*body]
    while open:
        node = open.pop(0)
        if isinstance(node, (*_Function.__args__, ast.ClassDef, ast.Assert, ast.Raise, ast.JoinedStr, ast.Import)):
            continue
        if _is_log_line(node):
            continue
        yield node
        skipped = {id(node.annotation)} if isinstance(node, ast.AnnAssign) else set()
        open[:0] = [child for child in ast.iter_child_nodes(node) if id(child) not in skipped]


def _of_statement(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Expr(value=ast.Call()):
            yield "drop", node, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign() | ast.Delete():
            if not any(isinstance(part, ast.Await) for part in ast.walk(node)):
                yield "drop", node, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "forget", node, "return None"
        case ast.Break():
            yield "jump", node, "continue"
        case ast.Continue():
            yield "jump", node, "break"


def _of_expression(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Constant | ast.NamedExpr):
                yield "negate", test, f"(not ({ast.unparse(test)}))"
        case ast.comprehension(ifs=[test, *_]):
            yield "negate", test, f"(not ({ast.unparse(test)}))"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            other = ast.Compare(left, [_COMPARISONS[type(operator)]()], [right])
            yield "compare", node, f"({ast.unparse(other)})"
        case ast.BoolOp(op=connective, values=values):
            opposite = ast.And() if isinstance(connective, ast.Or) else ast.Or()
            yield "connect", node, f"({ast.unparse(ast.BoolOp(opposite, values))})"
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() as value):
            yield "constant", node, str(value + 1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right) if not _has_text(node):
            changed = ast.Sub() if isinstance(sign, ast.Add) else ast.Add()
            yield "arithmetic", node, f"({ast.unparse(ast.BinOp(left, changed, right))})"


def _returns_nothing(function: _Function) -> bool:
    return isinstance(function.returns, ast.Constant) and function.returns.value is None


def _is_log_line(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name))):
            return name in _QUIET and "log" in owner.lower()
    return False


def _has_text(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str | bytes) for one in ast.walk(node))


def _short(text: str, most: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
