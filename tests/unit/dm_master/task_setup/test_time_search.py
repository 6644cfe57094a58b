"""Hazard: a task that starts by time loses a transaction, or begins inside one."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from dm_master.task_setup.time_search import TimeSearch
from pkg.binlog import constants as c
from pkg.binlog.position import Location, Position
from tests.harness import binlog_bytes
from tests.unit.dm_worker.syncer.planning.support import Log
from tests.unit.dm_worker.syncer.planning.test_cut_points import FILE, History, histories


def found_in(log: Log, moment: int, flavor: str) -> Location | None:
    search = TimeSearch(FILE, moment, flavor)
    for event, end in zip(log.events, log.ends, strict=True):
        place = search.take(event)
        if place is not None:
            return place
        assert search.read_to == Position(log.file, end)
    return None


@given(histories(), st.integers(1, 51))
@settings(deadline=None)
def test_the_place_is_where_the_first_transaction_begins_that_has_an_event_which_is_not_older(
    log: History, moment: int
) -> None:
    found = found_in(log, moment, log.flavor)
    begins = sorted({4, *(one.end for one in log.known)})
    at = next((end for event, end in zip(log.events, log.ends, strict=True) if event.timestamp >= moment), None)
    if at is None:
        assert found is None
        return
    assert found is not None
    count = log.after(at - 1)
    assert found.position.pos >= begins[-1 if count >= len(begins) else count]
    assert found.position.pos < at
    assert log.after(found.position.pos) == count
    assert found.gtid_set == log.gtid_set(count)
    # It is no place inside a transaction: the next one begins there, or an event of none.
    here = next(event for event, end in zip(log.events, log.ends, strict=True) if end > found.position.pos)
    assert here.type in (c.GTID_EVENT, c.MARIADB_GTID_EVENT, c.STOP_EVENT)


def test_the_head_of_a_file_tells_what_was_executed_before_it() -> None:
    log = History(flavor="mariadb")
    log.now = 50
    log.add(c.FORMAT_DESCRIPTION_EVENT, bytes(90))
    log.add(c.MARIADB_GTID_LIST_EVENT, b"\1\0\0\0" + bytes(4) + b"\7\0\0\0" + b"\5" + bytes(7))
    head = log.offset
    log.write(["rows"], itertools.count())
    # All of it is late enough, also the file's head.
    assert found_in(log, 1, "mariadb") == Location(Position(FILE, head), "0-7-5")


def test_transactions_without_gtid_savepoints_and_xa_are_not_entered() -> None:
    log = Log()
    log.transaction([1], timestamp=100)
    begins = []
    for statements in ((b"BEGIN", b"SAVEPOINT a", b"COMMIT"), (b"XA START X'61',X'',1", b"XA END X'61',X'',1")):
        begins.append(log.offset)
        for statement in statements[:-1]:
            log.query(statement)
        log.table_map(b"t")
        log.add(c.WRITE_ROWS_EVENT_V1, bytes(12), timestamp=100 + 100 * len(begins))
        log.query(statements[-1])
        if statements[0].startswith(b"XA"):
            log.add(c.XA_PREPARE_EVENT, bytes(14))
    begins.append(log.offset)
    log.add(c.QUERY_EVENT, log.events[1].data[19:], timestamp=400)
    for number, begin in enumerate(begins):
        assert found_in(log, 200 + 100 * number, "mysql") == Location(Position(FILE, begin))


def test_a_rotate_leads_to_the_next_file() -> None:
    log = History()
    log.now = 10
    log.write(["rows"], itertools.count())
    search = TimeSearch(FILE, 20, "mysql")
    for event in log.events:
        assert search.take(event) is None
    assert search.take(binlog_bytes.event(c.ROTATE_EVENT, (4).to_bytes(8, "little") + b"bin.000002")) is None
    assert search.read_to == Position("bin.000002", 4)
