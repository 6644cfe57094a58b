"""The version that ``-V`` and ``/status`` show."""

from __future__ import annotations

import platform

VERSION = "0.2.0"


def version_text() -> str:
    """Lines in the form of DM's ``-V``."""
    return f"Release Version: v{VERSION}\nPython Version: {platform.python_version()}\n"
