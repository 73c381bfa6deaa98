"""What can be told about a source without running it. It catches mistakes early, and is no wall: `_isolation` has
those. A worker does it itself for what is deployed, so that a broker need not even parse the source.
"""

from __future__ import annotations

import ast

from tidings.model import DeploymentRefused

from ._allowed import ALLOWED

_BASES = ("Aggregate", "RunOnce")


def entry_of(source: str, file: str = "the source", entry: str = "") -> str:
    """The class to use: the one that is named, or the only one that derives from `Aggregate`.

    Raises `DeploymentRefused`, with the line, for a source that cannot be parsed, imports what workers do not have,
    or leaves the choice open.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise DeploymentRefused(f"{file}, line {line}: {error!s:.200}") from None
    for node in ast.walk(tree):
        for name in _imported(node):
            if not any(name == one or name.startswith(f"{one}.") for one in ALLOWED):
                raise DeploymentRefused(
                    f"{file}, line {getattr(node, 'lineno', 1)}: {name} cannot be imported by a worker; it has "
                    f"{', '.join(ALLOWED)}"
                )
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and _derives(node)]
    if entry and entry not in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]:
        raise DeploymentRefused(f"{file} has no class {entry!r:.60}; it has {', '.join(classes) or 'none'}")
    if not entry and len(classes) != 1:
        raise DeploymentRefused(
            f"{file} has {len(classes)} classes that derive from Aggregate{': ' * bool(classes)}{', '.join(classes)}; "
            "name the one to use"
        )
    return entry or classes[0]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "."] if not node.level else ["."]
    return []


def _derives(node: ast.ClassDef) -> bool:
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        name = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
        if name in _BASES:
            return True
    return False
