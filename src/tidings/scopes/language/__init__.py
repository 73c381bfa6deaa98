"""The scope language: who sees what, written down. docs/scope-language.md is the contract."""

from tidings.scopes._difference import difference

from ._asking import asks
from ._compiling import Checked, Compiled, check_script, compile_script
from ._composing import Composition, combined, composed
from ._coupling import OpenPoint
from ._definitions import check_definition, definition_of, mentions
from ._export import export, export_files
from ._extensions import Carrying, Extensions
from ._mistakes import Mistake, ScriptError, Source
from ._parser import parse
from ._printing import print_script, print_statement
from ._tokens import MAX_NESTING, MAX_TEXT
from ._world import Asked, World

__all__ = [
    "MAX_NESTING",
    "MAX_TEXT",
    "Asked",
    "Carrying",
    "Checked",
    "Compiled",
    "Composition",
    "Extensions",
    "Mistake",
    "OpenPoint",
    "ScriptError",
    "Source",
    "World",
    "asks",
    "check_definition",
    "check_script",
    "combined",
    "compile_script",
    "composed",
    "definition_of",
    "difference",
    "export",
    "export_files",
    "mentions",
    "parse",
    "print_script",
    "print_statement",
]
