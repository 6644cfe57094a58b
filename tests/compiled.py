"""The compiled parts for tests that are about them.

They are built wherever tests run, so a missing one is an error: a broken build must not pass by skipping what it broke.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from pkg import native


def required(name: str) -> Any:
    """The compiled module ``_<name>``; skips the test, or the whole module, when ``DM_KERNEL=python`` asks for it.

    Raises ImportError when it was not built, RuntimeError when from other sources.
    """
    if native.CHOICE == "python":
        pytest.skip("DM_KERNEL=python switches the compiled code off", allow_module_level=True)
    # Importing what could not be loaded tells why.
    return native.load(name) or importlib.import_module(f"{native.__name__}._{name}")


def kernels() -> list[Any]:
    """None for the Python code, and the compiled row kernel unless it is switched off. Raises ImportError as above."""
    return [None] if native.CHOICE == "python" else [None, required("rows")]
