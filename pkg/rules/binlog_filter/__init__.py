"""The binlog event filter: which row changes and statements a task migrates, skips, or stops at."""

from pkg.rules.binlog_filter.classify import event_types
from pkg.rules.binlog_filter.events import DELETE, EVENT_TYPES, GROUPS, INSERT, UPDATE
from pkg.rules.binlog_filter.filter import (
    DO,
    BinlogEventFilter,
    FilterDecision,
    RowDecisions,
    find_contradiction,
    rule_problem,
)

__all__ = [
    "DELETE",
    "DO",
    "EVENT_TYPES",
    "GROUPS",
    "INSERT",
    "UPDATE",
    "BinlogEventFilter",
    "FilterDecision",
    "RowDecisions",
    "event_types",
    "find_contradiction",
    "rule_problem",
]
