"""Hazard: a write in the upstream after a cutover is not seen, or something harmless raises the alarm."""

from __future__ import annotations

import json
import struct

import pytest

from dm_worker.cutover.late_writes import LateWrite, LateWrites
from pkg.binlog import constants as c
from pkg.binlog.events import Event, event_from_bytes
from pkg.binlog.position import Position
from pkg.mysql.schema import Column
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.planning.support import Log

_COLUMNS = (Column("id", "int", "int(11)"), Column("number", "int", "int(11)"))
_TYPES = bytes([c.TYPE_LONG, c.TYPE_LONG])


def _finder(columns: tuple[Column, ...] | None = _COLUMNS) -> LateWrites:
    """A task that migrates table s.t, and the schema app."""

    def takes(schema: str, table: str) -> bool:
        return (schema, table) == ("s", "t") or schema == "app"

    return LateWrites(Position("bin.000001", 4), takes, lambda *_: columns, "mysql")


def _row(*values: int) -> bytes:
    return b"\0" + struct.pack(f"<{len(values)}i", *values)


def _found(finder: LateWrites, *events: Event) -> list[LateWrite]:
    return list(finder.find(events))


def _rows(kind: int, *images: bytes) -> Event:
    return event_from_bytes(binlog_bytes.rows(kind, 2, b"".join(images)))


def test_each_row_is_listed_with_its_values() -> None:
    table_map = binlog_bytes.table_map(_TYPES, b"", nullable=3)
    inserted = _found(_finder(), table_map, _rows(c.WRITE_ROWS_EVENT, _row(1, 2), _row(3, 4)))
    assert [(one.kind, one.table, one.before, one.after) for one in inserted] == [
        ("insert", "`s`.`t`", None, {"id": "1", "number": "2"}),
        ("insert", "`s`.`t`", None, {"id": "3", "number": "4"}),
    ]
    ((updated),) = _found(_finder(), table_map, _rows(c.UPDATE_ROWS_EVENT, _row(1, 2), _row(1, 5)))
    assert (updated.before, updated.after) == ({"id": "1", "number": "2"}, {"id": "1", "number": "5"})
    ((deleted),) = _found(_finder(), table_map, _rows(c.DELETE_ROWS_EVENT, _row(1, 5)))
    line = json.loads(deleted.to_line())
    assert (line["kind"], line["before"], "after" in line) == ("delete", {"id": "1", "number": "5"}, False)


@pytest.mark.parametrize("columns", [None, _COLUMNS[:1]])
def test_rows_that_cannot_be_read_count(columns: tuple[Column, ...] | None) -> None:
    table_map = binlog_bytes.table_map(_TYPES, b"", nullable=3)
    (one,) = _found(_finder(columns), table_map, _rows(c.WRITE_ROWS_EVENT, _row(1, 2)))
    assert one.note
    assert one.after is None


def test_rows_of_other_tables_do_not_count() -> None:
    table_map = binlog_bytes.table_map(_TYPES, b"", nullable=3, table=b"other")
    assert not _found(_finder(), table_map, _rows(c.WRITE_ROWS_EVENT, _row(1, 2)))


@pytest.mark.parametrize(
    ("sql", "schema", "table"),
    [
        (b"ALTER TABLE s.t ADD x INT", b"d", "`s`.`t`"),
        (b"TRUNCATE TABLE t", b"s", "`s`.`t`"),
        (b"DROP DATABASE app", b"d", "app"),
        (b"DROP TABLE d.x, app.y", b"d", "`app`.`y`"),
        (b"INSERT INTO t VALUES (1)", b"s", "a table, with the default schema 's'"),
        (b"ALTER TABLE t ANYTHING NEW", b"s", "not understood, with the default schema 's'"),
    ],
)
def test_statements_count(sql: bytes, schema: bytes, table: str) -> None:
    log = Log()
    log.query(sql, schema)
    (one,) = _found(_finder(), *log.events)
    assert (one.kind, one.table, one.statement) == ("statement", table, sql.decode())


@pytest.mark.parametrize(
    "sql", [b"BEGIN", b"COMMIT", b"SAVEPOINT a", b"FLUSH TABLES", b"CREATE USER u", b"ALTER TABLE d.x ADD y INT"]
)
def test_what_touches_no_table_of_the_task_does_not_count(sql: bytes) -> None:
    log = Log()
    log.query(sql, b"d")
    assert not _found(_finder(), *log.events)


def test_a_write_has_its_position_and_gtid() -> None:
    log = Log()
    log.mysql_gtid(7)
    begin = log.offset
    log.query(b"TRUNCATE TABLE s.t")
    end = log.offset
    log.rotate("bin.000002")
    log.query(b"TRUNCATE TABLE s.t")
    finder = _finder()
    first, second = _found(finder, *log.events)
    assert first.position == Position("bin.000001", begin)
    assert first.gtid.endswith(":7")
    assert second.position == Position("bin.000002", 4)
    assert end > begin
    assert finder.position == Position("bin.000002", log.offset)
