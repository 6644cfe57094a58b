"""``<task>_syncer_ddl``: the statements in progress at the target, one row each.

All changes are parts of :class:`MetaStore`'s transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from pymysql.connections import Connection

from pkg.binlog.position import Position
from pkg.mysql.introspect import BoundStatement, query

#: The index of the first statement that executes a DDL of merged shards; the next ones are smaller.
SETTLING = -1000
#: Statements that an operator gives in place of such a DDL have numbers below this one.
GIVEN_SETTLING = -(1 << 22)
#: Prefix of the state of a statement that is executed part by part; the part's number follows. Versions that executed
#: the parts in the order of the text wrote "at".
_AT_TURN, _AT_PART = "turn ", "at "
#: Columns that the table's first version did not have.
LATE_COLUMNS = {"shown": "LONGTEXT CHARACTER SET utf8mb4"}


@dataclass(frozen=True, slots=True)
class ShownTables:
    """The target's output for a statement's tables or schemas, in the statement's order.

    ``definitions``: SHOW CREATE of each without its AUTO_INCREMENT, '' for a missing one. ``ids``: for each the numbers
    that the server gave the files of it or its partitions, which move with the rows; empty where unknown.
    """

    definitions: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...] = ()

    @property
    def digest(self) -> str:
        """A fingerprint of the texts."""
        digest = blake2b(digest_size=16)
        for text in self.definitions:
            digest.update(text.encode() + b"\0")
        return digest.hexdigest()

    def to_json(self) -> str:
        return json.dumps({"texts": self.definitions, "ids": self.ids}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> ShownTables:
        data = json.loads(text)
        return cls(tuple(data["texts"]), tuple(tuple(ids) for ids in data["ids"]))


@dataclass(frozen=True, slots=True)
class DDLRecord:
    """A statement in progress at the target. ``fingerprint``: of its tables before, empty if it certainly did not run.

    ``position`` is the statement's name. A statement that executes a DDL of merged shards has an ``index`` up to
    :data:`SETTLING`, and the name of the decision that it follows as its place. An ALTER TABLE that is executed part by
    part is at ``part`` (from 0 on), and the fingerprint is that part's; None when it is executed as a whole.
    ``before``: the content of the fingerprint, None in records of earlier versions. ``in_text_order``: an earlier
    version numbered the parts in the order of the text.
    """

    position: Position
    index: int
    statement: str
    fingerprint: str
    done: bool = False
    part: int | None = None
    before: ShownTables | None = None
    in_text_order: bool = False


class DDLTable:
    """The table of one task, and its rows of one source."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self._source = source

    def creation(self, charset: str) -> str:
        """The statement that creates the table where it is missing."""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name} (id VARCHAR(32) NOT NULL, binlog_name VARCHAR(128) NOT NULL,"
            " binlog_pos BIGINT UNSIGNED NOT NULL, ddl_index INT NOT NULL,"
            " statement LONGTEXT CHARACTER SET utf8mb4 NOT NULL,"
            " fingerprint VARCHAR(64) NOT NULL, state VARCHAR(8) NOT NULL,"
            f" {', '.join(f'{name} {kind}' for name, kind in LATE_COLUMNS.items())},"
            " update_time TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,"
            f" PRIMARY KEY (id, binlog_name, binlog_pos, ddl_index)){charset}"
        )

    def read(self, conn: Connection[Any], position: Position, index: int | None) -> list[DDLRecord]:
        """The records of all parts of a statement, by their numbers; or of one part."""
        one = "" if index is None else " AND ddl_index = %s"
        sql = (
            f"SELECT ddl_index, statement, fingerprint, state, shown FROM {self.name}"
            f" WHERE id = %s AND binlog_name = %s AND binlog_pos = %s{one} ORDER BY ddl_index"
        )
        which = (self._source, position.name, position.pos, *([] if index is None else [index]))
        return [
            DDLRecord(
                position,
                int(number),
                str(statement),
                str(fingerprint),
                state == "done",
                _part_of(str(state)),
                None if shown is None else ShownTables.from_json(shown),
                str(state).startswith(_AT_PART),
            )
            for number, statement, fingerprint, state, shown in query(conn, sql, which)
        ]

    def written(self, record: DDLRecord) -> Iterator[BoundStatement]:
        """The statements that store a record."""
        position = (self._source, record.position.name, record.position.pos)
        at = _AT_PART if record.in_text_order else _AT_TURN
        state = "done" if record.done else "intent" if record.part is None else f"{at}{record.part}"
        if not record.done:
            # Older statements are before the checkpoint, but each of the two kinds may have one in progress.
            kind = "<=" if record.index <= SETTLING else ">"
            other = f"ddl_index {kind} {SETTLING} AND NOT (binlog_name = %s AND binlog_pos = %s)"
            yield f"DELETE FROM {self.name} WHERE id = %s AND {other}", position
        sql = (
            f"REPLACE INTO {self.name} (id, binlog_name, binlog_pos, ddl_index, statement, fingerprint, state, shown)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
        )
        under_way = record.before is not None and record.fingerprint and not record.done
        shown = record.before.to_json() if record.before is not None and under_way else None
        yield sql, (*position, record.index, record.statement, record.fingerprint, state, shown)


def _part_of(state: str) -> int | None:
    return int(state.partition(" ")[2]) if state.startswith((_AT_TURN, _AT_PART)) else None
