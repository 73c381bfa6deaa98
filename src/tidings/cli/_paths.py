"""Where things are kept on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path


def default_data(name: str) -> Path:
    """Where a broker keeps its store if nobody says where."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    folder = re.sub(r"[^\w.-]", "_", name).lstrip(".") or "_"  # a name is no path
    return Path(base).expanduser() / "tidings" / folder
