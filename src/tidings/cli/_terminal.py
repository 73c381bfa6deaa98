"""The terminal for tables and lines that people read."""

from __future__ import annotations

from rich.console import Console


def terminal(*, soft_wrap: bool = True) -> Console:
    """A console that prints text as it is.

    Rich would take square brackets in a name or in a filter for markup: it would leave them out, colour what follows,
    or fail at a closing tag that it has not seen opened.
    """
    return Console(highlight=False, soft_wrap=soft_wrap, markup=False)
