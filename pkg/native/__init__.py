"""The compiled parts, and the choice between them and the equivalent pure Python code.

``DM_KERNEL=python`` selects the pure Python code; ``DM_KERNEL=native`` makes a missing compiled part an error.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType

from pkg.native.sources import digest

CHOICE = os.environ.get("DM_KERNEL", "")
#: Each is compiled from ``<name>.c``.
PARTS = ("compare", "dump", "relay", "rows", "scan", "sqlscan")
#: Part → the reason why it could not be loaded.
_REASONS: dict[str, str] = {}
_SWITCHED_OFF = "DM_KERNEL=python"


def load(name: str) -> ModuleType | None:
    """The compiled module ``_<name>``, None to use the pure Python code.

    Raises ImportError when ``DM_KERNEL=native`` requires a part that was not built, RuntimeError for a part that was
    built from other sources than those next to it, ValueError for another choice.
    """
    if CHOICE not in ("", "python", "native"):
        raise ValueError(f"DM_KERNEL={CHOICE} is neither python nor native")
    if CHOICE == "python":
        return None
    try:
        module = importlib.import_module(f"{__name__}._{name}")
    except ImportError as exc:
        if CHOICE == "native":
            raise
        _REASONS[name] = f"{type(exc).__name__}: {exc}"
        return None
    _check_sources(name, module)
    return module


def _check_sources(name: str, module: ModuleType) -> None:
    """Raises RuntimeError for a part from other sources: old compiled code does not match new Python code. Where only
    the compiled part is installed, as on an executor, there is nothing to compare."""
    wanted = digest(Path(__file__).parent, name)
    if wanted and getattr(module, "SOURCES", "") != wanted:
        raise RuntimeError(
            f"{module.__file__} was not built from the C sources beside it: build it again with `make kernel` or "
            "`make setup`, or run without the compiled parts with DM_KERNEL=python."
        )


def missing() -> dict[str, str]:
    """The parts that this process runs without, each with the reason. Raises what :func:`load` raises."""
    if CHOICE == "python":
        return dict.fromkeys(PARTS, _SWITCHED_OFF)
    return {name: _REASONS[name] for name in PARTS if load(name) is None}


def in_use() -> str:
    """The parts in use, for the log: ``native (rows, …)`` or ``python``."""
    without = missing()
    loaded = [name for name in PARTS if name not in without]
    return f"native ({', '.join(loaded)})" if loaded else "python"


def trouble() -> str:
    """A warning for the operator: compiled code is missing that was not switched off. '' when all is well."""
    reasons = {} if CHOICE == "python" else missing()
    if not reasons:
        return ""
    return (
        f"the compiled code of {', '.join(reasons)} is not in use, and the Python code in its place is many times "
        f"slower: {'; '.join(dict.fromkeys(reasons.values()))}. Set {_SWITCHED_OFF} for the worker to accept this."
    )
