"""The allowed keys of source, task and comparison files, in the order in which files are written. Pure data.

One tree serves both directions: reading refuses keys that are not in it, writing follows its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from pkg.config.effects.diff_keys import DIFF_KEYS
from pkg.config.effects.source_keys import SOURCE_KEYS
from pkg.config.effects.task_keys import TASK_KEYS
from pkg.config.model import SubTaskConfig
from pkg.settings.keys import shape_of, updatable_fields
from pkg.settings.shape import Shape

SOURCE: Mapping[str, Shape] = shape_of(SOURCE_KEYS)
TASK: Mapping[str, Shape] = shape_of(TASK_KEYS)
DIFF: Mapping[str, Shape] = shape_of(DIFF_KEYS)
#: The fields of a subtask that may change without invalidating its replication state.
UPDATABLE = frozenset(updatable_fields((*SOURCE_KEYS, *TASK_KEYS)))


def fixed_changes(old: SubTaskConfig, new: SubTaskConfig) -> list[str]:
    """The keys that differ although they must not change, spelled as in the task file."""
    return [
        field.name.rstrip("_").replace("_", "-")
        for field in fields(SubTaskConfig)
        if field.name not in UPDATABLE and getattr(old, field.name) != getattr(new, field.name)
    ]
