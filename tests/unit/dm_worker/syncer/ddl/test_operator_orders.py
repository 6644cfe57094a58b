"""An order hits a neighbour's statement, or a damaged one is guessed at."""

from __future__ import annotations

import pytest

from dm_worker.syncer.ddl.operator_orders import (
    checked,
    in_order,
    listing,
    meeting,
    outdated,
    parse_place,
)
from pkg.binlog import constants as c
from pkg.binlog.position import Position
from pkg.errors import Code, DMError
from pkg.ha.binlog_operator import BinlogOperator
from tests.unit.dm_worker.syncer.ddl.barrier_world import (
    order,
    planned,
)
from tests.unit.dm_worker.syncer.planning.support import Log

# -- which statement an order is for ---------------------------------------------------------------------------------


def log_with_statements() -> Log:
    """Three statements with their GTID events and a transaction around them, then two inside one transaction."""
    log = Log()
    for sql in (b"CREATE TABLE a (id INT)", b"DROP TABLE b", b"DROP TABLE c"):
        log.transaction([1])
        log.add(c.ANONYMOUS_GTID_EVENT, bytes(25))
        log.query(sql)
    log.query(b"BEGIN")
    log.query(b"INSERT INTO a VALUES (1)")
    log.query(b"INSERT INTO a VALUES (2)")
    log.query(b"COMMIT")
    return log


def test_every_position_means_at_most_one_statement() -> None:
    log = log_with_statements()
    statements = planned(log)
    assert len(statements) == 5
    meant = {
        pos: [n for n, one in enumerate(statements) if meeting(one, [order("skip", pos)])]
        for pos in range(4, log.offset + 50)
    }
    assert all(len(found) <= 1 for found in meant.values())
    starts = {event.log_pos - event.size: event for event in log.events}
    for number, statement in enumerate(statements):
        # The event's own start, and where its GTID stands, as SHOW BINLOG EVENTS and the error tell them.
        assert meant[statement.at.pos] == [number]
        assert starts[statement.at.pos] is statement.event
        assert meant[statement.position.pos] != [number], "where it ends the next one begins"
        if number < 3:
            assert statement.first == statement.start.position
            assert meant[statement.first.pos] == [number]


def test_of_two_orders_the_nearest_to_the_event_counts_and_another_file_does_not() -> None:
    statement = planned(log_with_statements())[0]
    near, far = order("skip", statement.at.pos), order("replace", statement.first.pos, "DROP TABLE d.x")
    assert meeting(statement, [far, near]) == near
    assert meeting(statement, [near, far]) == near
    assert meeting(statement, [order("skip", statement.at.pos, file="bin.000002")]) is None


def test_what_a_damaged_order_asked_for_is_not_guessed() -> None:
    statement = planned(log_with_statements())[0]
    damaged = order("damaged", statement.at.pos, "etcd holds ''")
    with pytest.raises(DMError, match="can't be read: etcd holds") as caught:
        meeting(statement, [damaged])
    assert caught.value.kind is Code.HAInvalidItem
    assert meeting(statement, [order("damaged", statement.at.pos, "x", file="bin.000002")]) is None
    assert listing([damaged]) == f'[{{"task":"t","binlogPos":"{damaged.position}","error":"etcd holds \'\'"}}]'


def test_orders_are_listed_by_position_and_go_when_the_checkpoint_is_behind() -> None:
    late, early, other = order("skip", 900), order("inject", 80, "DROP TABLE d.x"), order("skip", 5, file="bin.000002")
    known = [other, late, early]
    assert in_order(known) == [early, late, other]
    assert in_order(known, Position("bin.000001", 900)) == [late, other]
    assert outdated(known, Position("bin.000001", 900)) == [early]
    assert listing([early, late]) == (
        '[{"op":4,"task":"t","binlogPos":"bin.000001:80","sqls":["DROP TABLE d.x"]},'
        '{"op":1,"task":"t","binlogPos":"bin.000001:900"}]'
    )
    assert BinlogOperator.from_json(early.to_json()) == early


@pytest.mark.parametrize("text", ["mysql-bin|000001.000003:3270", "mysql-bin.000003:3270", "(mysql-bin.000003, 3270)"])
def test_positions_are_taken_in_every_form(text: str) -> None:
    assert parse_place(text) == Position("mysql-bin.000003", 3270)


@pytest.mark.parametrize("text", ["mysql-bin.000003", ":4", "x"])
def test_another_string_is_no_position(text: str) -> None:
    with pytest.raises(DMError, match="is not valid") as caught:
        parse_place(text)
    assert caught.value.kind is Code.VerifyHandleErrorArgs


@pytest.mark.parametrize(
    ("text", "problem", "code"),
    [
        ("ALTER TABLE d.t ADD COLUMN", "statement 2 of 2: invalid sql: .*at its end", 11118),
        ("ALTER TABLE t ADD COLUMN", "statement 2 of 2: .*offset 12.* has no schema", 11118),
        ("ALTER TABLE t ADD COLUMN c INT", "statement 2 of 2: .*offset 12.* has no schema", 36024),
        ("ALTER DATABASE COLLATE latin1_bin", "statement 2 of 2: .*no schema is given", 36024),
        ("INSERT INTO d.t VALUES (1)", "statement 2 of 2: only ROW format", 36023),
        ("CREATE VIEW d.v AS SELECT 1", "statement 2 of 2 is not a DDL", 36023),
        ("DROP TABLE d.a; DROP TABLE d.b", "unexpected text", 11118),
    ],
)
def test_a_wrong_statement_is_refused_with_its_position(text: str, problem: str, code: int) -> None:
    with pytest.raises(DMError, match=problem) as caught:
        checked(["DROP TABLE d.x", text])
    assert caught.value.code == code
    assert caught.value.workaround
