"""Hazard: a write in the upstream after a cutover is not seen, or something harmless raises the alarm."""

from __future__ import annotations

import json
import struct

import pytest

from dm_worker.cutover.late_writes import LateWrite, LateWrites
from dm_worker.cutover.opposite_task import OppositeTask
from pkg.binlog import constants as c
from pkg.binlog.events import Event, event_from_bytes
from pkg.binlog.position import Position
from pkg.mysql.schema import Column
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.planning.support import Log

_COLUMNS = (Column("id", "int", "int(11)"), Column("number", "int", "int(11)"))
_TYPES = bytes([c.TYPE_LONG, c.TYPE_LONG])


#: As the batch row of the task of the way back, in two columns.
_BATCH_COLUMNS = (Column("id", "int", "int(11)"), Column("connection", "int", "int(11)"))


def _finder(
    columns: tuple[Column, ...] | None = _COLUMNS,
    opposite: OppositeTask | None = None,
    earlier: tuple[Column, ...] | None = None,
) -> LateWrites:
    """A task that migrates table s.t, and the schema app."""

    def takes(schema: str, table: str) -> bool:
        return (schema, table) == ("s", "t") or schema == "app"

    return LateWrites(Position("bin.000001", 4), takes, lambda *_: columns, lambda *_: earlier, "mysql", opposite)


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


def test_rows_behind_a_statement_are_read_with_the_columns_behind_it() -> None:
    present = [_COLUMNS[:1], _COLUMNS]
    finder = LateWrites(Position("bin.000001", 4), lambda *_: True, lambda *_: present.pop(0), lambda *_: None, "mysql")
    one_column = binlog_bytes.table_map(_TYPES[:1], b"", nullable=1)
    log = Log()
    log.query(b"ALTER TABLE t ADD number INT", b"s")
    table_map = binlog_bytes.table_map(_TYPES, b"", nullable=3)
    found = _found(
        finder,
        one_column,
        event_from_bytes(binlog_bytes.rows(c.WRITE_ROWS_EVENT, 1, _row(1))),
        *log.events,
        table_map,
        _rows(c.WRITE_ROWS_EVENT, _row(1, 2)),
    )
    assert [one.after for one in found] == [{"id": "1"}, None, {"id": "1", "number": "2"}]


def test_rows_from_before_a_statement_are_read_with_the_columns_at_the_cutover() -> None:
    table_map = binlog_bytes.table_map(_TYPES, b"", nullable=3)
    more = (Column("new", "int", "int(11)"), *_COLUMNS)
    for present in (more, None):
        (one,) = _found(_finder(present, earlier=_COLUMNS), table_map, _rows(c.WRITE_ROWS_EVENT, _row(1, 2)))
        assert (one.after, one.note) == ({"id": "1", "number": "2"}, "")


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


class _Back:
    """A log with what the task of the way back, with its meta tables in schema s, and others write."""

    def __init__(self, *batch_columns: Column) -> None:
        columns = batch_columns or _BATCH_COLUMNS
        self.finder = _finder(opposite=OppositeTask("Back", "S", lambda *_: columns))
        self._log = Log()

    def found(self) -> list[LateWrite]:
        return list(self.finder.find(self._log.events))

    def begin(self, number: int) -> _Back:
        self._log.mysql_gtid(number)
        return self

    def rows(self, table: bytes, kind: int, *images: bytes) -> _Back:
        table_map = binlog_bytes.table_map(_TYPES, b"", nullable=3, table=table)
        self._log.events += [table_map, _rows(kind, *images)]
        return self

    def marker(self) -> _Back:
        return self.rows(b"back_syncer_marker", c.UPDATE_ROWS_EVENT, _row(1, 2), _row(1, 3))

    def batch(self, connection: int) -> _Back:
        return self.rows(b"back_syncer_batch", c.UPDATE_ROWS_EVENT, _row(1, 2), _row(1, connection))

    def insert(self) -> _Back:
        return self.rows(b"t", c.WRITE_ROWS_EVENT, _row(1, 2))

    def alter(self, connection: int) -> _Back:
        self._log.query(b"ALTER TABLE s.t ADD x INT", thread_id=connection)
        return self

    def server_starts(self, created: int) -> _Back:
        self._log.events.append(event_from_bytes(binlog_bytes.format_description(checksum=True, created=created)))
        return self


def test_rows_of_the_opposite_task_do_not_count_and_those_after_them_do() -> None:
    assert not _Back().begin(1).marker().insert().insert().found()
    found = _Back().begin(1).marker().insert().begin(2).insert().found()
    assert [(one.kind, one.gtid[-2:]) for one in found] == [("insert", ":2")]
    # The marker of another task, which may have these tables as its target as well.
    other = _Back().begin(1).rows(b"other_syncer_marker", c.UPDATE_ROWS_EVENT, _row(1, 2), _row(1, 3)).insert()
    assert len(other.found()) == 1


def test_statements_of_the_opposite_task_are_those_on_its_connections() -> None:
    assert not _Back().begin(1).batch(70).begin(2).alter(70).found()
    assert len(_Back().begin(1).batch(70).begin(2).alter(71).found()) == 1
    # A statement that ran on while another worker took the task over.
    assert not _Back().begin(1).batch(70).begin(2).batch(75).begin(3).alter(70).alter(75).found()


def test_a_restarted_server_reuses_connection_numbers() -> None:
    assert len(_Back().begin(1).batch(70).server_starts(1_700_000_000).alter(70).found()) == 1
    # As servers send it to each reader.
    assert not _Back().begin(1).batch(70).server_starts(0).alter(70).found()


@pytest.mark.parametrize(
    "columns", [_BATCH_COLUMNS[:1], (Column("id", "int", "int(11)"), Column("connection", "json", "json"))]
)
def test_statements_count_where_the_batch_row_cannot_be_read(columns: tuple[Column, ...]) -> None:
    assert len(_Back(*columns).begin(1).batch(70).alter(70).found()) == 1


def test_a_later_version_has_more_columns_in_the_batch_row() -> None:
    later = (*_BATCH_COLUMNS, Column("later", "int", "int(11)"))
    assert not _Back(*later).begin(1).batch(70).alter(70).found()
