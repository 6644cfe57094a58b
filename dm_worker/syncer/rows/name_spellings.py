"""Tables of the task that are one table in a target that ignores case in names. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dm_worker.syncer.rows.conflict_sets import lower_case
from pkg import errors
from pkg.errors import Code, DMError
from pkg.mysql.names import TableId, qualified

_ROUTE = (
    "Stop the task. Give one of them another name at the target: add a route for it (schema-pattern, table-pattern, "
    "target-schema, target-table), and set case-sensitive: true in the task, because patterns match both names "
    "otherwise. Or leave it out with block-allow-list."
)


class SpellingsInUse:
    """The targets' names as rows use them. ``is_there``: whether an upstream table is known to exist still."""

    def __init__(self, is_there: Callable[[TableId], bool]) -> None:
        self._is_there = is_there
        #: By a name in lower case: the name in its own spelling, and the upstream's table.
        self._known: dict[TableId, tuple[TableId, TableId]] = {}

    def use(self, target: TableId, upstream: TableId) -> None:
        """The rows of ``upstream`` go to ``target``. Raises 36004 if another table's rows also go there."""
        key = lower_case(target)
        other, owner = self._known.get(key, (target, upstream))
        if other != target and owner != upstream and self._is_there(owner):
            raise errors.new(
                Code.SyncUnitNotSupportedDML,
                f"the target ignores case in names: {qualified(*target)}, where rows of {qualified(*upstream)} go, and "
                f"{qualified(*other)}, where rows of {qualified(*owner)} go, are one table there",
                scope="downstream",
                workaround=f"{_ROUTE} Compare the target table with the upstream, because it may hold rows of both. "
                "Then start the task.",
            )
        self._known[key] = (target, upstream)


def namesake(
    target: TableId, others: Iterable[TableId], route: Callable[[str, str], TableId]
) -> tuple[TableId, TableId] | None:
    """The first of the upstream's tables ``others`` that has its rows in a table whose name differs from ``target`` in
    case alone; with that name."""
    folded = lower_case(target)
    routed = ((other, route(*other)) for other in others)
    return next(((one, name) for one, name in routed if name != target and lower_case(name) == folded), None)


def refused_statement(sql: str, upstream: TableId, target: TableId, other: TableId, name: TableId) -> DMError:
    """36004 for a statement on ``upstream`` that would change the table of ``other`` at the target."""
    return errors.new(
        Code.SyncUnitNotSupportedDML,
        f"the target ignores case in names: {qualified(*target)}, the target table of {qualified(*upstream)}, and "
        f"{qualified(*name)}, that of {qualified(*other)}, are one table there; the statement was not executed: "
        f"{sql[:500]}",
        scope="downstream",
        workaround=f"{_ROUTE} Then start the task.",
    )
