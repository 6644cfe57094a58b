"""What a target holds when a filter leaves out changes of some rows: each statement's changes, seen at the upstream.

The filter's expression is asked of the upstream's own SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pymysql.connections import Connection

from deploy.local.mysql import SQLServer
from tests.fuzz import oracle

Row = tuple[Any, ...]
Rows = Mapping[Any, Row]


class FilteredRows:
    """The rows of one table, by their ``id``, as its target should have them.

    ``way``: which changes are left out if ``expression`` is true for the row (before it, after it): those of the
    parameter "row filter". ``safe``: updates write rows that are not there. ``reading``: how the table is read.
    """

    def __init__(
        self,
        server: SQLServer,
        table: oracle.Table,
        way: str,
        expression: str,
        *,
        safe: bool,
        reading: oracle.Reading,
    ) -> None:
        self._conn: Connection[Any] = server.connect(
            init_command=f"{oracle.SESSION}, tx_isolation = 'READ-UNCOMMITTED'"
            if server.flavor == "mariadb"
            else f"{oracle.SESSION}, transaction_isolation = 'READ-UNCOMMITTED'"
        )
        self._table = table
        self._way = way
        self._expression = expression
        self._safe = safe
        self._reading = reading
        self._columns: tuple[tuple[str, str], ...] = ()
        self._seen, self._true = self._look()
        self._target = dict(self._seen)

    def close(self) -> None:
        self._conn.close()

    def changed(self) -> None:
        """To be called after each statement."""
        before, was_true = self._seen, self._true
        after, is_true = self._seen, self._true = self._look()
        self._target = after_changes(self._target, before, after, self._left_out(was_true, is_true), safe=self._safe)

    def content(self) -> oracle.Content:
        return oracle.Content(self._columns, Counter(self._target.values()))

    def _left_out(self, was_true: frozenset[Any], is_true: frozenset[Any]) -> Mapping[str, frozenset[Any]]:
        match self._way:
            case "insert":
                return {"insert": is_true}
            case "update old":
                return {"update": was_true}
            case "update new":
                return {"update": is_true}
        return {"delete": was_true}

    def _look(self) -> tuple[Rows, frozenset[Any]]:
        """The rows, and the ids of those for which the expression is true."""
        content = oracle.content(self._conn, self._table, reading=self._reading)
        assert content is not None, self._table
        self._columns = content.columns
        at = [name for name, _ in content.columns].index("id")
        schema, name = self._table
        with self._conn.cursor() as cursor:
            cursor.execute(f"SELECT CAST(`id` AS CHAR) FROM `{schema}`.`{name}` WHERE {self._expression}")
            return {row[at]: row for row in content.rows}, frozenset(one for (one,) in cursor.fetchall())


def after_changes(
    target: Rows, before: Rows, after: Rows, left_out: Mapping[str, frozenset[Any]], *, safe: bool
) -> dict[Any, Row]:
    """The target's rows after a statement that made ``before`` to ``after``, and of whose changes (by kind) those of
    some rows are left out."""
    nothing: frozenset[Any] = frozenset()
    found = dict(target)
    for number in before.keys() - after.keys() - left_out.get("delete", nothing):
        found.pop(number, None)
    for number in after.keys() - before.keys() - left_out.get("insert", nothing):
        found[number] = after[number]
    for number in (after.keys() & before.keys()) - left_out.get("update", nothing):
        if before[number] != after[number] and (safe or number in found):
            found[number] = after[number]
    return found
