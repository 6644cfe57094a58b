"""Whether each table of a statement is a separate table at a target that ignores case in names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dm_worker.syncer.ddl.executor import DDLExecutor
from dm_worker.syncer.rows.name_spellings import namesake, refused_statement
from dm_worker.syncer.rows.schema_source import SchemaSource
from dm_worker.syncer.rows.task_rules import TaskRules
from pkg import ddl
from pkg.mysql.names import TableId

#: The upstream's tables, by schema. Raises DMError.
UpstreamTables = Callable[[], Mapping[str, Sequence[str]]]


class OwnNames:
    """Checks statements against the tables that the schema tracker, the upstream and the target know."""

    def __init__(
        self, rules: TaskRules, source: SchemaSource, executor: DDLExecutor, upstream_tables: UpstreamTables
    ) -> None:
        self._rules = rules
        self._source = source
        self._executor = executor
        self._upstream_tables = upstream_tables

    def ensure(self, part: ddl.DDLStatement) -> None:
        """Raises 36004 for a table that is the same as another one at the target, because it ignores case in names.

        Only the upstream may know the other table, and its tables may be newer than the statement. Such a table counts
        if the target has it: otherwise, a new table's name would be free.
        """
        if not self._executor.folds_names:
            return
        known = [(info.schema, info.name) for info in self._source.tracker.tables()]
        for upstream in (name for name in part.tables if name[1]):
            target = self._rules.route(*upstream)
            found = self._namesake(target, part, known)
            if found is None and part.kind == "create table" and self._executor.has_table(target):
                listed = self._upstream_tables().items()
                found = self._namesake(target, part, [(schema, table) for schema, names in listed for table in names])
            if found is not None:
                raise refused_statement(part.sql, upstream, target, *found)

    def _namesake(
        self, target: TableId, part: ddl.DDLStatement, tables: Iterable[TableId]
    ) -> tuple[TableId, TableId] | None:
        others = (name for name in tables if name not in part.tables and self._rules.takes_rows(*name))
        return namesake(target, others, self._rules.route)
