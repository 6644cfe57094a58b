"""Groups the upstream tables by the target table into which they merge, by the task's rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dm_worker.syncer.rows.task_rules import TaskRules
from pkg.mysql.names import TableId
from pkg.rules.online_tables import TableKind


@dataclass(frozen=True, slots=True)
class SourceName:
    """An upstream table; ``connection`` is the index of the session that reads it."""

    connection: int
    schema: str
    table: str


def merged_tables(
    rules: Sequence[TaskRules], tables: Sequence[Iterable[TableId]]
) -> Mapping[TableId, tuple[SourceName, ...]]:
    """The target's tables, in their order, each with the upstream tables that give it rows.

    ``rules`` and ``tables``: those of each session, by its index. Tables of online DDL tools give none. Raises 40080.
    """
    found: dict[TableId, list[SourceName]] = {}
    for connection, (own, names) in enumerate(zip(rules, tables, strict=True)):
        for schema, table in sorted(names):
            if own.allows(schema, table) and own.online.kind(table) is TableKind.REAL:
                found.setdefault(own.route(schema, table), []).append(SourceName(connection, schema, table))
    return {target: tuple(found[target]) for target in sorted(found)}
