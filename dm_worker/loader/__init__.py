"""The load unit: SQL files into the target, each file's progress stored with its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dm_worker.loader.load_unit import LoadUnit as LoadUnit


def __getattr__(name: str) -> object:
    # Spark's Python workers import modules of this package, and must not load what the unit needs (protobuf, Spark).
    if name == "LoadUnit":
        from dm_worker.loader.load_unit import LoadUnit

        return LoadUnit
    raise AttributeError(name)
