"""The compiled parts, and the choice between them and the pure Python code that does the same work.

``DM_KERNEL=python`` asks for the pure Python code; ``DM_KERNEL=native`` makes a missing compiled part an error.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path
from types import ModuleType

from pkg.native.sources import digest

CHOICE = os.environ.get("DM_KERNEL", "")


def load(name: str) -> ModuleType | None:
    """The compiled module ``_<name>``, None when the pure Python code is to be used.

    Raises ImportError when ``DM_KERNEL=native`` asks for a part that was not built, RuntimeError for a part that was
    built from other sources than those beside it, ValueError for another choice.
    """
    if CHOICE not in ("", "python", "native"):
        raise ValueError(f"DM_KERNEL={CHOICE} is neither python nor native")
    if CHOICE == "python":
        return None
    try:
        module = importlib.import_module(f"{__name__}._{name}")
    except ImportError:
        if CHOICE == "native":
            raise
        return None
    _check_sources(name, module)
    return module


def _check_sources(name: str, module: ModuleType) -> None:
    """Old compiled code with new Python code would do something between the two. Where only the compiled part is, as on
    an executor, there is nothing to compare. Raises RuntimeError."""
    wanted = digest(Path(__file__).parent, name)
    if wanted and getattr(module, "SOURCES", "") != wanted:
        raise RuntimeError(
            f"{module.__file__} was not built from the C sources beside it: build it anew by `make kernel` or `make "
            "setup`, or do without the compiled parts by DM_KERNEL=python."
        )


def in_use() -> str:
    """What this process works with, for the log: ``native (rows, …)`` or ``python``."""
    found = sorted(module.name[1:] for module in pkgutil.iter_modules(__path__) if module.name.startswith("_"))
    loaded = [name for name in found if load(name) is not None]
    return f"native ({', '.join(loaded)})" if loaded else "python"
