"""The steps of starting a task, which other packages carry out, and what several commands do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dm_master.cutover.runner import ReadFacts
from dm_master.precheck.result import PrecheckResult
from dm_master.rules.dry_run import RuleDryRun
from dm_master.task_setup.task_end import Moment, TaskEnd, parse_moment
from pkg import errors
from pkg.config.model import Meta, SourceConfig, SubTaskConfig, TaskConfig
from pkg.errors import Code

#: The most errors, and the most warnings, of the precheck that an answer shows.
SHOWN = 10


class RunPrechecks(Protocol):
    def __call__(
        self,
        task: TaskConfig,
        sources: Mapping[str, SourceConfig],
        *,
        err_count: int,
        warn_count: int,
        only: Sequence[str],
        remove_meta: bool = False,
    ) -> PrecheckResult: ...


class StartAt(Protocol):
    def __call__(self, subtask: SubTaskConfig, moment: Moment, *, removes_meta: bool) -> Meta: ...


@dataclass(frozen=True, slots=True)
class TaskSteps:
    """The steps of starting a task that other packages carry out."""

    split: Callable[[TaskConfig, Mapping[str, SourceConfig], Sequence[str]], Sequence[SubTaskConfig]]
    precheck: RunPrechecks
    show_rules: Callable[[TaskConfig, Mapping[str, SourceConfig], Sequence[str]], RuleDryRun]
    complete: Callable[[TaskConfig, SubTaskConfig, TaskEnd | None], SubTaskConfig]
    remove_meta: Callable[[TaskConfig], None]
    reach_target: Callable[[TaskConfig, float], None]
    start_at: StartAt
    read_cutover_facts: ReadFacts
    has_progress: Callable[[SubTaskConfig], bool]


def moment_of(start_time: str) -> Moment | None:
    return parse_moment(start_time, "--start-time") if start_time else None


def started_at(
    steps: TaskSteps, subtasks: Sequence[SubTaskConfig], moment: Moment | None, *, removes_meta: bool
) -> list[SubTaskConfig]:
    """The subtasks with their start by time, if there is one."""
    if moment is None:
        return list(subtasks)
    return [replace(one, meta=steps.start_at(one, moment, removes_meta=removes_meta)) for one in subtasks]


def enabled(subtasks: Sequence[SubTaskConfig], sources: Mapping[str, SourceConfig]) -> list[SubTaskConfig]:
    """The subtasks. Raises 46035 if one of them may not run."""
    disabled = [one.source_id for one in subtasks if not sources[one.source_id].enable]
    if disabled:
        raise errors.new(
            Code.SchedulerSubTaskCfgUpdate,
            f"sources {', '.join(disabled)} are disabled: no task may run on them",
            workaround="`operate-source enable SOURCE` enables one, and starts its stopped tasks.",
        )
    return list(subtasks)
