"""The dump unit: one consistent snapshot of an upstream, written as SQL files by a Spark barrier stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dm_worker.dumper.dump_unit import DumpUnit as DumpUnit


def __getattr__(name: str) -> object:
    # Spark's Python workers import modules of this package, and must not load what the unit needs (protobuf, Spark).
    if name == "DumpUnit":
        from dm_worker.dumper.dump_unit import DumpUnit

        return DumpUnit
    raise AttributeError(name)
