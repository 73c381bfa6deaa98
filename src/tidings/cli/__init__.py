"""The `tidings` command."""

from typing import TYPE_CHECKING

from ._main import main

if TYPE_CHECKING:
    from ._app import app

__all__ = ["app", "main"]

if not TYPE_CHECKING:

    def __getattr__(name):
        if name != "app":
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        from ._app import app  # noqa: PLC0415 - `main` decides when to load it

        return app
