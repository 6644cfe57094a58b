"""The objects that all parts of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dm_worker.syncer.rows.task_rules import TaskRules
from dm_worker.syncer.unit.connections import RunConnections
from pkg.config.model import SubTaskConfig


@dataclass(frozen=True, slots=True)
class RunScope:
    """One run of one subtask: its configuration, its connections, and whether it is to end."""

    cfg: SubTaskConfig
    rules: TaskRules
    connections: RunConnections
    should_stop: Callable[[], bool]
