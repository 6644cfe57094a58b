"""The upstream of one subtask for the checks: its tables, the migrated ones, and their targets."""

from __future__ import annotations

import functools

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.rules.source_rules import SourceRules
from pkg.config.model import SubTaskConfig
from pkg.config.rule_names import InstanceNames
from pkg.mysql.introspect import list_all_tables, list_other_objects
from pkg.mysql.names import TableId
from pkg.mysql.schema import TableInfo


class InspectedUpstream(InspectedServer):
    """The upstream of one subtask, with the tables that the subtask migrates."""

    def __init__(self, subtask: SubTaskConfig, names: InstanceNames) -> None:
        super().__init__(subtask.from_, "upstream")
        self.subtask = subtask
        self.rules = SourceRules(subtask, names)
        #: Ghost tables that the task has followed up to its checkpoint.
        self.followed_ghosts: frozenset[TableId] = frozenset()

    @functools.cached_property
    def everything(self) -> dict[str, list[str]]:
        """All schemas with all of their base tables, migrated or not."""
        return list_all_tables(self.conn)

    @functools.cached_property
    def schemas(self) -> dict[str, list[str]]:
        """The migrated schemas with all of their base tables, migrated or not."""
        return {s: tables for s, tables in self.everything.items() if self.rules.allow_list.allows(s)}

    @functools.cached_property
    def tables(self) -> list[TableId]:
        """The migrated tables."""
        return [(s, t) for s, tables in self.schemas.items() for t in tables if self.rules.allow_list.allows(s, t)]

    @functools.cached_property
    def others(self) -> list[tuple[str, str, str]]:
        """Migrated objects that are not base tables, with their kind."""
        return [each for each in list_other_objects(self.conn) if self.rules.allow_list.allows(each[0], each[1])]

    @functools.cached_property
    def routed(self) -> dict[TableId, TableId]:
        """Migrated table → its table in the target. Raises 40080 when two routes claim one table."""
        return {table: self.rules.router.route(*table) for table in self.tables}

    @functools.cached_property
    def structures(self) -> dict[TableId, TableInfo]:
        found = self.table_infos(self.tables)
        return {table: found[table] for table in self.tables if table in found}

    def starts_now(self, target: InspectedServer) -> bool:
        """Whether the task starts with the current structures.

        A stream that starts in the past may contain a DDL that a table seems to lack: then no finding is certain.
        """
        subtask = self.subtask
        now = subtask.meta is None and subtask.task_mode in ("full", "all", "dump", "incremental")
        return now and not target.has_progress(subtask)
