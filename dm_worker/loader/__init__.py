"""The load unit: SQL files into the target, each file's progress stored with its rows."""

from dm_worker.loader.unit import LoadUnit

__all__ = ["LoadUnit"]
