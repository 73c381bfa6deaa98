"""How help looks: a flag takes no value, and an argument is described by its name, so neither shows a Python type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Command(TyperCommand):
    """A command whose help is in plain words."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, and --help."""
        return _untyped(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help is in plain words."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, and --help."""
        return _untyped(super().get_params(ctx))


class Commands(typer.Typer):
    """A `Typer` whose commands and groups are these."""

    def __init__(self, *, cls: type[TyperGroup] = Group, **settings: Any) -> None:
        super().__init__(cls=cls, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # type: ignore[override]
        """Make a command of a function."""
        return super().command(name, cls=Command, **settings)


def _untyped(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
        elif param.param_type_name == "argument":
            param.display_type_rich = _nothing
    return params


def _nothing(ctx: Any) -> None:
    return None
