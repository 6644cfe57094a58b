"""The dump unit: one consistent snapshot of an upstream, written as SQL files by a Spark barrier stage."""

from dm_worker.dumper.unit import DumpUnit

__all__ = ["DumpUnit"]
