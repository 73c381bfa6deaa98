"""Statements of the scope language, as text or as objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidings.model import ArgumentRefused
from tidings.scopes import Mode, StaleGraph

from ._admin_link import ADMIN_TIMEOUT, Changed
from ._admin_looks import AdminLooks
from ._arguments import shown
from ._scripts import work_out

if TYPE_CHECKING:
    from tidings.scopes.language import Extensions
    from tidings.scopes.language.syntax import AlterScope, DefineScope, DeployScope, Statement

MAX_ATTEMPTS = 10
"""How often statements are worked out anew because the graph has changed meanwhile."""


class AdminScripts(AdminLooks):
    """Carries out statements."""

    async def execute(
        self,
        text: str,
        *,
        name: str = "",
        extensions: Extensions | None = None,
        partial: bool = False,
        mode: Mode | str = Mode.RELAXED,
        credentials: Iterable[str] = (),
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Carry out statements of the scope language as one change: all of them, or none.

        Mistakes in the text raise `ScriptError`, which lists all of them; `name` is the file that they are in. DEFINE
        and DEPLOY make something new: they are refused if it is there. `partial` is as in `components`.
        """
        from tidings.scopes.language import Source  # noqa: PLC0415 - who writes no scripts does not pay for it

        for attempt in range(MAX_ATTEMPTS):
            worked_out = await work_out(
                self, [Source(text, name)], extensions=extensions, command=True, partial=partial, timeout=timeout
            )
            before = worked_out.before
            if not worked_out.changes:
                return Changed(before.version, worked_out.warnings)
            try:
                changed = await self.change(
                    *worked_out.changes,
                    mode=mode,
                    credentials=credentials,
                    expected=before.version,
                    timeout=timeout,
                )
            except StaleGraph:
                if attempt + 1 == MAX_ATTEMPTS:
                    raise
                continue
            return Changed(changed.version, (*worked_out.warnings, *changed.warnings), changed.granted)
        raise AssertionError("every attempt returns or raises")

    async def define(self, definition: DefineScope, *, timeout: float = ADMIN_TIMEOUT) -> Changed:
        """Add a definition, from which scopes are deployed; `AlreadyDefined` if there is one of its name."""
        return await self.execute(_printed(definition, "DefineScope"), timeout=timeout)

    async def deploy(
        self,
        deployment: DeployScope,
        *,
        extensions: Extensions | None = None,
        mode: Mode | str = Mode.RELAXED,
        credentials: Iterable[str] = (),
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Make a scope of a definition, with what the deployment says besides."""
        text = _printed(deployment, "DeployScope")
        return await self.execute(text, extensions=extensions, mode=mode, credentials=credentials, timeout=timeout)

    async def alter(
        self,
        alteration: AlterScope,
        *,
        extensions: Extensions | None = None,
        mode: Mode | str = Mode.RELAXED,
        credentials: Iterable[str] = (),
        timeout: float = ADMIN_TIMEOUT,
    ) -> Changed:
        """Change a definition, or a scope that was deployed."""
        text = _printed(alteration, "AlterScope")
        return await self.execute(text, extensions=extensions, mode=mode, credentials=credentials, timeout=timeout)


def _printed(statement: Statement, kind: str) -> str:
    """A statement as text, which is read again: so it is checked as one that somebody wrote."""
    from tidings.scopes.language import print_statement, syntax  # noqa: PLC0415 - who writes no scripts does not pay for it

    if not isinstance(statement, getattr(syntax, kind)):
        raise ArgumentRefused(f"{shown(statement)} is no {kind}; see tidings.scopes.language.syntax")
    try:
        return print_statement(statement)
    except (AttributeError, TypeError) as error:
        raise ArgumentRefused(f"{shown(statement)} cannot be written: {error}") from None
