"""The allowed keys of source and task files, in the order in which files are written. Pure data.

One tree serves both directions: reading refuses keys that are not in it, writing follows its order.
"""

from __future__ import annotations

from collections.abc import Mapping

from pkg.config.effects.source_keys import SOURCE_KEYS
from pkg.config.effects.task_keys import TASK_KEYS
from pkg.settings.keys import shape_of, updatable_fields
from pkg.settings.shape import Shape

SOURCE: Mapping[str, Shape] = shape_of(SOURCE_KEYS)
TASK: Mapping[str, Shape] = shape_of(TASK_KEYS)
#: The fields of a subtask that may change without invalidating its replication state.
UPDATABLE = frozenset(updatable_fields((*SOURCE_KEYS, *TASK_KEYS)))
