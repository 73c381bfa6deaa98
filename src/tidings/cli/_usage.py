"""What the parser of the command line says of a mistake, in the words of all other errors: the value, the remedy.

The parser's errors are known by the names of their classes: typer brings classes of its own or takes those of click,
depending on its version.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

_EXTRA = re.compile(r"Got unexpected extra argument(?:s|\(s\))? \((?P<words>.*)\)", re.DOTALL)
_COMMAND = re.compile(r"No such command '(?P<word>.*?)'", re.DOTALL)
_VALUE = re.compile(r"Option '(?P<option>.*?)' requires an argument")
_NO_VALUE = re.compile(r"Option '(?P<option>.*?)' does not take a value")


def is_usage_error(error: BaseException) -> bool:
    """Whether the parser refuses the command line, and has something to say about it."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "ClickException" in kinds


def shows_help(error: BaseException) -> bool:
    """Whether it only shows help, because a command was named without anything else."""
    return type(error).__name__ == "NoArgsIsHelpError"


def explanation(error: Any) -> str:
    """What is wrong, and where to look."""
    problem = _problem(error)
    path = error.ctx.command_path if getattr(error, "ctx", None) is not None else ""
    command = " ".join(["tidings", *path.split()[1:]])  # however this program was called
    return f"{problem}{'' if problem.endswith('?') else ';'} `{command} --help` lists what is possible"


def _problem(error: Any) -> str:
    match type(error).__name__:
        case "NoSuchOption":
            return f"there is no option {error.option_name}{_meant(error.option_name, _options(error))}"
        case "MissingParameter":
            return f"{_called(error.param)} is missing"
        case "BadParameter" if error.param is not None:
            return f"{_called(error.param)}: {error.message}"
    told = error.format_message()
    if found := _EXTRA.search(told):
        return f"'{found['words']}' is one word too many; put text with spaces in quotes"
    if found := _COMMAND.search(told):
        commands = list(getattr(error.ctx.command, "commands", ()))
        return f"there is no command {found['word']}{_meant(found['word'], commands)}"
    if found := _VALUE.search(told):
        return f"{found['option']} needs a value"
    if found := _NO_VALUE.search(told):
        return f"{found['option']} takes no value"
    return str(told).rstrip(".")


def _options(error: Any) -> list[str]:
    if getattr(error, "ctx", None) is None:
        return []
    return [word for param in error.ctx.command.get_params(error.ctx) for word in param.opts if word.startswith("--")]


def _meant(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _called(param: Any) -> str:
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return str(max(param.opts, key=len))
