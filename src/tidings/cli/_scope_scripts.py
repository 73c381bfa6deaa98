"""`tidings scope check|fmt|diff|export`: files of the scope language, and the graph as one."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import tidings
from tidings.client import ADMIN_TIMEOUT, work_out
from tidings.scopes.language import ScriptError, check_script, export, export_files, parse, print_script

from ._connection import AsJson, entering
from ._counted import counted
from ._errors import ExitCode, complain
from ._printable import printable_json, printable_lines
from ._progress import Progress
from ._script_files import STDIN, Files, read_sources, write_text

Prune = Annotated[bool, typer.Option("--prune", help="Also remove what is in the graph and in no file.")]
Partial = Annotated[
    bool, typer.Option("--partial", help="Go on if some brokers do not say which clients are connected to them.")
]
DIFFERENT = 2
"""What `plan`, `diff` and `fmt --check` return if something would change."""


def check(files: Files, as_json: AsJson = False) -> None:
    """Check files for mistakes, as far as that is possible without a broker."""
    sources = read_sources(files)
    with mistakes_told(as_json):
        checked = check_script(sources)
    if as_json:
        print(json.dumps({"mistakes": [], "statements": checked.statements, "warnings": checked.warnings}))
        return
    for warning in checked.warnings:
        complain(f"warning: {warning}")
    print(f"no mistakes in {counted(checked.statements, 'statement')}")


@contextlib.contextmanager
def mistakes_told(as_json: bool) -> Iterator[None]:
    """Print mistakes in files as JSON, where that is asked for."""
    try:
        yield
    except ScriptError as error:
        if not as_json:
            raise
        print(printable_json(json.dumps({"mistakes": _mistakes(error)})))
        raise typer.Exit(ExitCode.FAILED) from None


def _mistakes(error: ScriptError) -> list[dict[str, object]]:
    """Mistakes as plain words."""
    return [
        {
            "file": one.file,
            "line": one.line,
            "column": one.column,
            "error": one.kind.__name__,
            "problem": one.problem,
            "remedy": one.remedy,
        }
        for one in error.mistakes
    ]


def fmt(
    files: Files,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 2 if a file would change.")] = False,
) -> None:
    """Write files in the one way in which the language is printed. Comments stay."""
    changed = []
    for file, source in zip(files, read_sources(files), strict=True):
        text = print_script(parse(source.text, source.name))
        if str(file) == STDIN and not check:
            print(text, end="")
        elif text != source.text:
            changed.append(source.name)
            if not check:
                write_text(file, text)
    for name in changed:
        print(f"{name} {'would be' if check else 'was'} changed")
    if check and changed:
        raise typer.Exit(DIFFERENT)


@entering
def diff(
    client: tidings.Client,
    files: Files,
    prune: Prune = False,
    partial: Partial = False,
) -> None:
    """Compare files with the running graph, as lines of the language. Exit with 2 if they differ."""
    sources = read_sources(files)

    async def run() -> tuple[str, str]:
        async with client, Progress() as progress:
            found = await work_out(
                client.admin, sources, prune=prune, partial=partial, timeout=ADMIN_TIMEOUT, on_step=progress.now
            )
            return export(found.before), export(found.compiled.graph)

    before, after = asyncio.run(run())
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "the running graph", "with the files"
    )
    text = "".join(lines)
    if text:
        print(printable_lines(text), end="")
        raise typer.Exit(DIFFERENT)


@entering
def export_(
    client: tidings.Client,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file.")] = None,
) -> None:
    """Write the running graph as a file of the scope language that gives the same graph.

    If that is longer than a file may be, it becomes several, which are to be applied together.
    """

    async def run() -> list[str]:
        async with client:
            return export_files(await client.admin.graph())

    texts = asyncio.run(run())
    if out is None:
        print(printable_lines("\n".join(texts)), end="")
        if len(texts) > 1:
            complain(f"warning: this is longer than one file may be; --out FILE writes {len(texts)} files")
        return
    for number, text in enumerate(texts, 1):
        file = out if number == 1 else out.with_name(f"{out.stem}-{number}{out.suffix}")
        write_text(file, text)
        if len(texts) > 1:
            print(f"{file} was written")
