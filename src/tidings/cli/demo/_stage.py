"""The stage: what the demonstration looks like, line by line, on any terminal and in a pipe.

Nothing moves the cursor, so what is seen is also what a file or a pager gets. Everything that colour says is said by a
sign, too, and every line fits into 80 columns.
"""

from __future__ import annotations

import asyncio
import textwrap
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

WIDTH = 80
INDENT = "  "

TITLE, NAME, COMMAND = "bold", "bold cyan", "cyan"
GOOD, BAD, GREY, PAST = "bold green", "bold red", "grey50", "yellow"

Part = str | tuple[str, str]
"""Text, or text with a style."""


class Signs(NamedTuple):
    """What lines are drawn with."""

    rule: str
    arrow: str
    stopped: str
    link: str
    block: str


DRAWN = Signs("━", "──▶", "──╳", "─────", "█")
PLAIN = Signs("-", "-->", "--x", "-----", "#")
"""For terminals that know no others."""


class Stage:
    """Prints, at the pace of a reader."""

    def __init__(self, console: Console | None = None, *, fast: bool = False) -> None:
        self._console = console or Console(highlight=False)
        self._fast = fast
        try:
            "".join(DRAWN).encode(self._console.encoding)
            self.signs = DRAWN
        except (UnicodeEncodeError, LookupError):
            self.signs = PLAIN

    async def pause(self, seconds: float) -> None:
        """Give the reader time."""
        await asyncio.sleep(0 if self._fast else seconds)

    def line(self, *parts: Part, indent: int = 2) -> None:
        """Print one line, indented so many times."""
        text = Text.assemble(INDENT * indent, *parts)
        text.rstrip()
        self._console.print(text, soft_wrap=True)
        self._console.file.flush()

    def say(self, *parts: Part) -> None:
        """Tell what happens."""
        self.line(*parts, indent=1)

    def wrapped(self, text: str, style: str = "") -> None:
        """Print what may be too long for one line."""
        room, begins = WIDTH - 2 * len(INDENT), " " * (len(text) - len(text.lstrip()))
        for line in textwrap.wrap(text, room, subsequent_indent=f"{begins}    ", break_on_hyphens=False):
            self.line((line, style))

    def gap(self) -> None:
        """An empty line."""
        self.line()

    def headline(self, title: str, where: str = "") -> None:
        """Begin a scene."""
        left = f"{self.signs.rule * 2} {title} "
        right = f" {where} {self.signs.rule * 2}" if where else ""
        rest = self.signs.rule * (WIDTH - len(left) - len(right))
        self.gap()
        self.line((left, TITLE), (rest, GREY), (right, GREY), indent=0)
        self.gap()

    async def command(self, text: str, note: str = "") -> None:
        """Show what somebody types."""
        self.line(("$ ", GREY), (text, COMMAND), (f"   {note}" if note else "", GREY))
        await self.pause(0.8)
