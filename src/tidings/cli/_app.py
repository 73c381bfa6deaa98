"""The `tidings` command: its parts, and what they have in common.

A command is loaded when it is run, or when a shell completes its options. Until then a stand-in has its name and the
line that `tidings --help` shows of it.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tidings import __version__

from ._completion import note, noted, stand_in, without_values
from ._main import dying_quietly

COMMANDS = {
    "serve": ("_serve", "Run a broker. Ctrl-C or SIGTERM stops it in order; a second one at once."),
    "pub": ("_pub", "Publish a notification, and print the key of the event."),
    "sub": (
        "_sub",
        "Subscribe, and print each notification as it comes, with the time at which it was published. Ctrl-C ends it.",
    ),
    "browse": (
        "_browse",
        "Show what is advertised, as far as you may subscribe to it. The network must use advertisements.",
    ),
    "top": (
        "_top",
        "Watch a broker live: rates, links, tables, queues. Ctrl-C ends it. Needs the right to administer.",
    ),
    "status": (
        "_status",
        "Show how one broker is: its links, tables, queues and store. Needs the right to administer.",
    ),
    "topology": (
        "_status",
        "Show the tree of brokers, as seen from one of them, and the links that wait in reserve.",
    ),
    "scope": (
        "_scope",
        "Scopes: who sees what. Clients are written @name; a scope inside another one outer/inner.",
    ),
    "history": ("_history", "Look at what a store or an archive on this machine holds."),
    "replay": ("_replay", "Publish again what a store or an archive on this machine holds, oldest first."),
    "archive": ("_archive", "Look after an archive on this machine, and ask it."),
    "audit": (
        "_audit",
        "Find what was lost, doubled, out of order, or seen by whom it should not. Exit code 1 if there is anything.",
    ),
    "warm": (
        "_warm",
        "Let Spark start in half the time on this machine, by keeping the classes that Java loads for it.",
    ),
    "config": ("_config_commands", "Look at a configuration file."),
    "demo": ("demo", "See it work: three brokers, a filter, a latecomer, a scope, and a broker that is killed."),
}
"""For each command the module that has it, under the same name, and what it is for: the beginning of its own help."""


class _Later(TyperCommand):
    """Stands in for a command that is not loaded yet."""

    def __init__(self, name: str, module: str, help: str) -> None:
        super().__init__(name, help=help)
        self._module = module

    def load(self) -> Any:
        """The command itself."""
        with dying_quietly():
            found = getattr(importlib.import_module(f"{__package__}.{self._module}"), self.name or "")
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        return typer.main.get_command(alone)

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Whoever runs the command gets to know the command itself; a shell that completes it, its words."""
        command = self._words() if more.get("resilient_parsing") else self.load()
        return command.make_context(*arguments, **more)

    def _words(self) -> Any:
        words = noted()
        if words is None or self.name not in words:
            note({name: _Later(name, module, help).load() for name, (module, help) in COMMANDS.items()})
            return self.load()
        return stand_in(self.name, words[self.name])


class _Group(TyperGroup):
    """Has all commands, and runs one so that errors are readable."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, (module, help) in COMMANDS.items():
            self.add_command(_Later(name, module, help))

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        if more.get("resilient_parsing"):
            without_values(self)
        return super().make_context(*arguments, **more)

    def invoke(self, ctx: Any) -> Any:
        with dying_quietly():
            from ._errors import readable  # noqa: PLC0415 - knows all errors, so it loads everything
            from ._logs import guard_warnings  # noqa: PLC0415

        guard_warnings()
        with readable(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Content-based publish/subscribe: say what you want to hear, and hear it.",
    epilog="Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 no broker reached, 4 not let in, "
    "5 the broker cannot run, 6 wrong configuration, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tidings {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version, and end.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True, help="Show where an error came from.")] = False,
) -> None:
    """Content-based publish/subscribe: say what you want to hear, and hear it."""
