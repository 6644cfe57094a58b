"""Dry run of a task's rules: reads the upstreams' tables, explains what the rules do with each, changes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pymysql

from dm_master.rules.inspected_upstream import InspectedUpstream
from dm_master.rules.rule_usage import RuleSummary, RuleUse, known_uses, summary, usage_of
from dm_master.rules.source_rules import Explanation
from dm_master.task_setup.task_split import split_task
from pkg.config.model import SourceConfig, SubTaskConfig, TaskConfig
from pkg.config.rule_names import InstanceNames, RuleName, subtask_rule_names
from pkg.mysql.connection import classify
from pkg.mysql.names import TableId

_MOST_SOURCES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class RuleDryRun:
    """Every table of the task's sources."""

    explanations: tuple[Explanation, ...]
    summary: RuleSummary


@dataclass(frozen=True, slots=True)
class _ExplainedSource:
    explanations: list[Explanation]
    uses: Mapping[RuleName, RuleUse]


def show_rules(task: TaskConfig, sources: Mapping[str, SourceConfig], only: Sequence[str]) -> RuleDryRun:
    """``only`` selects some of the task's sources. Tables are in the order of the file's sources, then by name.

    Raises 20031 for a source that does not exist, 26002 for an upstream that can't be reached.
    """
    subtasks = split_task(task, sources, only)
    names = subtask_rule_names(task, sources)
    with ThreadPoolExecutor(min(len(subtasks), _MOST_SOURCES_AT_ONCE), "show-rules") as pool:
        found = list(pool.map(lambda one: _explain(one, names[one.source_id]), subtasks))
    explanations = tuple(each for source in found for each in source.explanations)
    uses = known_uses((source.uses for source in found), names, [subtask.source_id for subtask in subtasks])
    targets = [explained.target for explained in explanations if explained.target is not None]
    left_out = sum(bool(explained.reason) for explained in explanations)
    return RuleDryRun(explanations, summary(targets, left_out, uses))


def _explain(subtask: SubTaskConfig, names: InstanceNames) -> _ExplainedSource:
    with contextlib.closing(InspectedUpstream(subtask, names)) as upstream:
        try:
            everything = upstream.everything
            mapped: list[TableId] = [table for table in upstream.tables if upstream.rules.mapper.rules_for(*table)]
            structures = upstream.table_infos(mapped)
        except (pymysql.Error, OSError) as exc:
            raise classify(exc, scope="upstream") from exc
    explanations = []
    for schema, tables in everything.items():
        for table in tables:
            info = structures.get((schema, table))
            explanations.append(upstream.rules.explain(schema, table, None if info is None else info.columns))
    return _ExplainedSource(explanations, usage_of(upstream.rules, everything))
