"""How the command line fails: one clear message on stderr, and an exit code that a script can read.

  0  done
  1  something failed or was refused
  2  the command line is wrong: an option, a filter, a value; of `tidings scope plan`, `diff` and `fmt --check`, that
     something would change: for these a wrong command line is 1
  3  no broker can be reached
  4  the broker does not let this client in, or is not trusted
  5  the broker cannot start, or could not go on
  6  the configuration has errors
  7  nobody subscribes to a request
  8  too few replies have come in time
130  interrupted
"""

from __future__ import annotations

import contextlib
import enum
import os
import sys
from collections.abc import Iterator

import typer

from tidings.client import ConnectionFailed, NotAdmitted
from tidings.model import FilterError, TidingsError, ValueRefused
from tidings.net import StartError
from tidings.scopes import AuthorityUnreachable
from tidings.store import StoreError

from ._config import ConfigurationError
from ._printable import printable_lines
from ._usage import explanation, is_usage_error, shows_help


class ExitCode(enum.IntEnum):
    """What a command returns to the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_ADMITTED = 4
    CANNOT_RUN = 5
    CONFIGURATION = 6
    NO_RESPONDER = 7
    NO_REPLY = 8
    INTERRUPTED = 130


class UsageError(TidingsError):
    """A command line that cannot be understood."""


_CODES: list[tuple[type[Exception], ExitCode]] = [
    (NotAdmitted, ExitCode.NOT_ADMITTED),
    (ConnectionFailed, ExitCode.UNREACHABLE),
    (AuthorityUnreachable, ExitCode.UNREACHABLE),
    (ConfigurationError, ExitCode.CONFIGURATION),
    (StartError, ExitCode.CANNOT_RUN),
    (StoreError, ExitCode.CANNOT_RUN),
    (UsageError, ExitCode.USAGE),
    (FilterError, ExitCode.USAGE),
    (ValueRefused, ExitCode.USAGE),
    (TidingsError, ExitCode.FAILED),
    (OSError, ExitCode.FAILED),
]


_COMPARING = {("scope", "plan"), ("scope", "diff"), ("scope", "fmt")}
"""Commands that return 2 if something would change, so what is wrong with their command line is a failure."""


@contextlib.contextmanager
def readable(*, debug: bool, words: tuple[str, ...] = ()) -> Iterator[None]:
    """Turn what goes wrong inside into a message and an exit code; with `debug` it is shown as it is.

    `words` are the first two of the command line.
    """
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read the output has seen enough; without this Python would complain once more when it ends.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.DONE) from None
    except Exception as error:
        if debug or shows_help(error):
            raise
        code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
        if is_usage_error(error):
            code = ExitCode.USAGE
            complain(explanation(error))
        elif code is None:
            complain(f"unexpected error, {type(error).__name__}: {error}; run `tidings --debug ...` to see where")
        else:
            complain(str(error))
        if code is ExitCode.USAGE and words in _COMPARING:
            code = ExitCode.FAILED
        raise typer.Exit(code or ExitCode.FAILED) from None


def complain(text: str) -> None:
    """Say on stderr what is wrong."""
    typer.echo(f"tidings: {printable_lines(text)}", err=True)
