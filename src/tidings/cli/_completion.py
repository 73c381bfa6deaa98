"""What `tidings --help` lists and shells complete, without loading the commands that it belongs to.

A shell that completes an option starts the program, asks, and throws it away, at every TAB. So the words of all
commands are noted in a file the first time that they are asked for, as Python notes the code that it has compiled, and
from then on a stand-in with the same words answers. The note is good for the files from which it was made: if one
changes, it is made anew. If it cannot be written, everything works, only slower. Names of scopes and clients are the
broker's to know, see `_known_names`.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import tidings

from ._known_names import NAMED, Names, completer

_enum: Any = enum.Enum
Words = Mapping[str, Any]
"""Of a command its `params`, of a group its `commands`; both have `help`."""


def noted() -> dict[str, Words] | None:
    """The words of all commands, by name; None if they are not noted, or are those of another version."""
    try:
        note = json.loads(_file().read_text(encoding="utf-8"))
        return dict(note["commands"]) if note["of"] == _version() else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def note(commands: Mapping[str, Any]) -> dict[str, Words]:
    """The words of these commands; they are noted for the next time."""
    words = {name: described(command) for name, command in commands.items()}
    file = _file()
    mine = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        mine.write_text(json.dumps({"of": _version(), "commands": words}), encoding="utf-8")
        mine.replace(file)  # whoever reads it meanwhile gets the old one or the new one
    return words


def described(command: Any) -> Words:
    """The words of a command or a group."""
    if (commands := getattr(command, "commands", None)) is not None:
        inside = {name: described(one) for name, one in commands.items()}
        return {"help": command.help, "commands": inside}
    context = typer.Context(command)
    return {"help": command.help, "params": [_param(one, context) for one in command.params if one.name != "help"]}


def stand_in(name: str, words: Words) -> Any:
    """A command, or a group, that has these words and does nothing."""
    app = typer.Typer(add_completion=False)
    if "commands" not in words:
        app.command(name, help=words["help"])(_function(words["params"]))
        return without_values(typer.main.get_command(app))
    app.callback()(_nothing)
    group = typer.main.get_group(app)
    group.name, group.help = name, words["help"]
    without_values(group)
    for one, inside in words["commands"].items():
        group.add_command(stand_in(one, inside))
    return group


def without_values(command: Any) -> Any:
    """The same command, which takes values as they are: to complete words nobody has to check them, and what checks
    them takes longer to load than everything else."""
    params_of = command.get_params

    def get_params(ctx: Any) -> Any:
        params = params_of(ctx)
        for param in params:  # --help is among them
            param.process_value = lambda ctx, value: value
        return params

    command.get_params = get_params
    return command


def _param(param: Any, context: typer.Context) -> Words:
    return {
        "name": param.name,
        "words": param.opts,
        "else": param.secondary_opts,
        "argument": param.param_type_name == "argument",
        "flag": bool(getattr(param, "is_flag", False)),
        "many": bool(param.multiple or param.nargs != 1),
        "hidden": bool(getattr(param, "hidden", False)),
        "help": getattr(param, "help", None),
        "names": named.value if (named := NAMED.get(param.metavar)) is not None else None,
        "choices": [one.value for one in param.shell_complete(context, "") if one.type == "plain"],
    }


def _function(params: list[Words]) -> Any:
    """A function with these parameters, from which typer makes a command."""
    parameters = [
        inspect.Parameter(one["name"], inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(one))
        for one in params
    ]

    def nothing(**given: object) -> None:
        """Stand in for a command."""

    nothing.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    nothing.__annotations__ = {one.name: one.annotation for one in parameters}
    return nothing


def _annotation(param: Words) -> Any:
    kind: Any = bool if param["flag"] else str
    if param["choices"]:
        kind = _enum(param["name"], {word: word for word in param["choices"]})
    kind = list[kind] if param["many"] else kind
    complete = completer(Names(param["names"])) if param["names"] else None
    if param["argument"]:
        return Annotated[kind | None, typer.Argument(help=param["help"], autocompletion=complete)]
    words = list(param["words"])
    if param["else"]:
        words[-1] = f"{words[-1]}/{'/'.join(param['else'])}"
    return Annotated[
        kind | None, typer.Option(*words, help=param["help"], hidden=param["hidden"], autocompletion=complete)
    ]


def _nothing() -> None:
    """Stand in for what a group does before its commands."""


def _file() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tidings" / "completion.json"


def _version() -> str:
    """What the note was made from."""
    here = Path(__file__).parent
    changed = max(path.stat().st_mtime_ns for path in (here, *here.glob("*.py"), *here.glob("*/*.py")))
    return f"{tidings.__version__} with typer {typer.__version__} from {here} of {changed}"
