"""The `tidings` command: its parts, and what they have in common.

A command is loaded when it is run. For those who want to know its words only, `tidings --help` and a shell that
completes them, a stand-in has them from a note (see `_completion`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from tidings import __version__
from tidings._native import describe

from ._completion import Words, note, noted, stand_in, without_values
from ._help import Commands, Group
from ._main import dying_quietly

COMMANDS = {
    "serve": "_serve",
    "pub": "_pub",
    "sub": "_sub",
    "request": "_request",
    "browse": "_browse",
    "top": "_top",
    "status": "_status",
    "topology": "_status",
    "scope": "_scope",
    "aggregate": "_aggregate",
    "group": "_group",
    "mobility": "_mobility",
    "neighbours": "_neighbours",
    "history": "_history",
    "replay": "_replay",
    "archive": "_archive",
    "audit": "_audit",
    "warm": "_warm",
    "config": "_config_commands",
    "demo": "demo",
}
"""For each command the module that has it, under the same name."""


class _Later(TyperCommand):
    """Stands in for a command that is not loaded yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def load(self) -> Any:
        """The command itself."""
        with dying_quietly():
            found = getattr(importlib.import_module(f"{__package__}.{COMMANDS[self._name]}"), self._name)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = self._name
            return group
        alone = Commands(add_completion=False)
        alone.command(self._name)(found)
        return typer.main.get_command(alone)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Whoever runs the command gets to know the command itself; a shell that completes it, its words."""
        completing = more.get("resilient_parsing")
        command = stand_in(self._name, _words()[self._name]) if completing else self.load()
        return command.make_context(*arguments, **more)


def _words() -> Mapping[str, Words]:
    """The words of all commands. The first time, all of them are loaded for it."""
    return noted() or note({name: _Later(name).load() for name in COMMANDS})


class _Group(Group):
    """Has all commands, and runs one so that errors are readable."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name in COMMANDS:
            self.add_command(_Later(name))

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names; whoever asks for them also wants to know what they are for."""
        for name, words in _words().items():
            self.commands[name].help = words["help"]
        return super().list_commands(ctx)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        if more.get("resilient_parsing"):
            without_values(self)
        try:
            return super().make_context(*arguments, **more)
        except typer.Exit:
            raise
        except Exception:
            with dying_quietly():
                from ._errors import readable  # noqa: PLC0415

            with readable(debug=False):
                raise

    def invoke(self, ctx: Any) -> Any:
        with dying_quietly():
            from ._errors import readable  # noqa: PLC0415 - knows all errors, so it loads everything
            from ._logs import guard_warnings  # noqa: PLC0415

        guard_warnings()
        words = (*getattr(ctx, "_protected_args", ()), *ctx.args)[:2]
        with readable(debug=bool(ctx.params.get("debug")), words=words):
            return super().invoke(ctx)


app = Commands(
    cls=_Group,
    pretty_exceptions_enable=False,
    help="Content-based publish/subscribe: say what you want to hear, and hear it.",
    epilog="Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 no broker reached, 4 not admitted, "
    "5 the broker cannot run, 6 wrong configuration, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tidings {__version__} ({describe()})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True, help="Show where an error came from.")] = False,
) -> None:
    """Content-based publish/subscribe: say what you want to hear, and hear it."""
