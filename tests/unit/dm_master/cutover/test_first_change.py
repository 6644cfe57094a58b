"""Hazard: a certificate's table is called unchanged until later than it was written."""

from __future__ import annotations

from dm_master.cutover.first_change import FirstChanges
from pkg.binlog import constants as c
from pkg.binlog.events import event_from_bytes
from pkg.binlog.position import Position
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.planning.support import Log

_T, _OTHER = ("s", "t"), ("s", "other")


def _finder() -> FirstChanges:
    return FirstChanges([_T, _OTHER], Position("bin.000001", 4), "mysql")


def test_the_first_event_of_each_table_counts() -> None:
    finder = _finder()
    rows = event_from_bytes(binlog_bytes.rows(c.WRITE_ROWS_EVENT, 1, b"\0\1\0\0\0"))
    table_map = binlog_bytes.table_map(bytes([c.TYPE_LONG]), b"")
    finder.read([table_map._replace(timestamp=100), rows._replace(timestamp=101), rows._replace(timestamp=200)])
    assert {table: change.timestamp for table, change in finder.found.items()} == {_T: 101}
    assert not finder.is_complete


def test_a_ddl_of_the_table_counts_and_one_of_others_does_not() -> None:
    log = Log()
    log.query(b"ALTER TABLE other ADD x INT", b"d")
    log.rotate("bin.000002")
    log.query(b"BEGIN", b"s")
    place = log.offset
    log.query(b"ALTER TABLE other ADD x INT", b"s")
    log.query(b"DROP TABLE s.t", b"d")
    finder = _finder()
    finder.read(log.events)
    assert finder.is_complete
    assert finder.found[_OTHER].position == Position("bin.000002", place)
    assert str(finder.found[_OTHER]).startswith("1970-01-01 00:01:40 UTC, (bin.000002, ")
