"""The scope language: who sees what, written down. docs/scope-language.md is the contract."""

from tidings.scopes._difference import difference

from ._asking import asks
from ._compiling import Checked, Compiled, check_script, compile_script
from ._composing import Composition, combined, composed
from ._coupling import OpenPoint
from ._definitions import check_definition, definition_of, may_mean, mentions
from ._export import export, export_files
from ._extensions import Carrying, Extensions
from ._mistakes import Mistake, ScriptError, Source
from ._parser import parse
from ._performing import Firing, growing, instance_of, needed, performed
from ._printing import print_script, print_statement
from ._rules import Binding, ReadRule, check_written, creates, deploys_of, read_rule, update_of
from ._tokens import MAX_NESTING, MAX_TEXT
from ._world import Asked, World

__all__ = [
    "MAX_NESTING",
    "MAX_TEXT",
    "Asked",
    "Binding",
    "Carrying",
    "Checked",
    "Compiled",
    "Composition",
    "Extensions",
    "Firing",
    "Mistake",
    "OpenPoint",
    "ReadRule",
    "ScriptError",
    "Source",
    "World",
    "asks",
    "check_definition",
    "check_script",
    "check_written",
    "combined",
    "compile_script",
    "composed",
    "creates",
    "definition_of",
    "deploys_of",
    "difference",
    "export",
    "export_files",
    "growing",
    "instance_of",
    "may_mean",
    "mentions",
    "needed",
    "parse",
    "performed",
    "print_script",
    "print_statement",
    "read_rule",
    "update_of",
]
