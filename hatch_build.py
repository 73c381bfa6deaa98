"""Compile the engine when the package is installed; where that fails, the package is pure Python and says so."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _building(root: str) -> ModuleType:
    """The module that knows how, of a package that is not installed yet."""
    path = Path(root, "src", "tidings", "_native", "build.py")
    spec = importlib.util.spec_from_file_location("_tidings_native_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel is made, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the engine, and name the wheel after the machine that it was built for."""
        building = _building(self.root)
        try:
            engine = building.in_place()
            if version == "editable":
                if building.is_pure():
                    engine.unlink(missing_ok=True)
                if not building.is_fresh(engine):
                    building.build(engine)
                return
            if not building.is_fresh(engine) or building.is_pure():
                self._folder = tempfile.TemporaryDirectory()
                engine = Path(self._folder.name, building.NAME)
                building.build(engine)
        except Exception as why:  # whatever it is, an installation does not fail for it
            self.app.display_warning(f"Tidings is installed without its compiled engine, as pure Python: {why}")
            return
        build_data["force_include"][str(engine)] = f"tidings/_native/{building.NAME}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
