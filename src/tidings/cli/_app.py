"""The `tidings` command: its parts, and what they have in common."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tidings import __version__

from ._archive import archive
from ._audit import audit
from ._browse import browse
from ._config_commands import config
from ._demo import demo
from ._errors import readable
from ._help import Commands, Group
from ._history import history
from ._logs import guard_warnings
from ._pub import pub
from ._replay import replay
from ._scope import scope
from ._serve import serve
from ._status import status, topology
from ._sub import sub
from ._top import top
from ._warm import warm


class _Group(Group):
    """Runs a command so that errors are readable."""

    def make_context(self, *args: Any, **settings: Any) -> Any:
        with readable(debug=False):
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with readable(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


app = Commands(
    cls=_Group,
    pretty_exceptions_enable=False,
    help="Content-based publish/subscribe: say what you want to hear, and hear it.",
    epilog="Exit codes: 0 done, 1 failed or refused, 2 wrong usage, 3 no broker reached, 4 not admitted, "
    "5 the broker cannot run, 6 wrong configuration, 130 interrupted.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(pub)
app.command()(sub)
app.command()(browse)
app.command()(top)
app.command()(status)
app.command()(topology)
app.add_typer(scope, name="scope")
app.add_typer(history, name="history")
app.command()(replay)
app.add_typer(archive, name="archive")
app.command()(audit)
app.command()(warm)
app.add_typer(config, name="config")
app.command()(demo)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tidings {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", hidden=True, help="Show where an error came from.")] = False,
) -> None:
    """Content-based publish/subscribe: say what you want to hear, and hear it."""


def main() -> None:
    """Run the command line."""
    guard_warnings()
    app(prog_name="tidings")
