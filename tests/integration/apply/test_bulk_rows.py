"""Hazards: a bulk execution stores another value than the statement, or hides which row is at fault."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer
from dm_worker.syncer.execution import bulk_choice, bulk_execution
from dm_worker.syncer.execution.apply import apply_bucket
from dm_worker.syncer.execution.compaction import INSERTED, UPDATED
from dm_worker.syncer.execution.merge import RowGroup
from dm_worker.syncer.execution.row_statements import RowStatement, StatementForm
from dm_worker.syncer.rows.table_plan import TablePlan
from pkg.errors import DMError
from pkg.mysql.bulk import PreparedStatement
from tests.integration.apply.support import (
    COLUMNS,
    COUNT,
    TOKEN,
    VALUES,
    check_written,
    content_of,
    marker,
    next_batch,
    plan_of,
    prepare,
    spec_of,
    states_of,
)

pytestmark = pytest.mark.target_with("bulk execution")


@pytest.fixture
def bulks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each statement that went as a bulk execution."""
    seen: list[int] = []
    in_bulk = bulk_execution.in_bulk

    def spy(
        plan: TablePlan, sql: RowStatement, group: RowGroup, statement: PreparedStatement, most: int
    ) -> RowStatement:
        made = in_bulk(plan, sql, group, statement, most)
        if made.bulk is not None:
            seen.append(group.count)
        return made

    monkeypatch.setattr(bulk_execution, "in_bulk", spy)
    return seen


@pytest.mark.parametrize("safe", [False, True])
def test_rows_are_those_that_a_statement_writes(target: MariaDBServer, bulks: list[int], safe: bool) -> None:
    prepare(target, f"CREATE TABLE d.t (id INT PRIMARY KEY, {COLUMNS})")
    target.execute("SET GLOBAL local_infile = OFF")
    try:
        for state, shift in ((INSERTED, 0), (UPDATED, 1), (UPDATED, 2)):
            rows = [(n, VALUES[(n + shift) % 4]) for n in range(COUNT)]
            states = states_of([(state, b"%d" % n, b"(%d,%b)" % (n, values)) for n, values in rows])
            plans = {1: plan_of(target, "t")}
            next_batch(target)
            form = StatementForm(safe=safe)
            spec = spec_of(target, form, group_concat_max_len="4446")  # its connections are new
            assert apply_bucket(spec, TOKEN, 0, content_of(plans, states, form), plans).statements == len(bulks)
            assert sum(bulks) == COUNT
            bulks.clear()
            check_written(target, rows)
    finally:
        target.execute("SET GLOBAL local_infile = ON")


def test_updates_go_in_bulk_also_where_rows_could_be_loaded(target: MariaDBServer, bulks: list[int]) -> None:
    prepare(
        target,
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT, own INT DEFAULT 5)",
        "CREATE TABLE d.up (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO d.t SELECT seq, 0, seq FROM meta.seq_0_to_{COUNT - 1}",
    )
    plans = {1: plan_of(target, "t", source="up")}
    rows = [(UPDATED, b"%d" % n, b"(%d,1)" % n) for n in range(COUNT)]
    apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert sum(bulks) == COUNT
    # The target's own column keeps its values.
    assert target.execute("SELECT COUNT(*) FROM d.t WHERE v = 1 AND own = id") == [(COUNT,)]


@pytest.mark.parametrize(("column", "bad", "number"), [("v SMALLINT", b"99999", 1264), ("v INT UNIQUE", b"3", 1062)])
def test_row_at_fault_is_named_and_none_is_written(
    target: MariaDBServer, bulks: list[int], column: str, bad: bytes, number: int
) -> None:
    prepare(
        target,
        f"CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, {column})",
        f"CREATE TABLE d.up (id INT PRIMARY KEY, v INT{' UNIQUE' if 'UNIQUE' in column else ''})",
        "INSERT INTO d.t VALUES (-1, 3)",
    )
    plans = {1: plan_of(target, "t", source="up")}
    values = {n: b"%d" % n for n in range(100, COUNT)} | {1777: bad}
    rows = [(INSERTED, b"%d" % n, b"(%d,%b)" % (n, value)) for n, value in values.items()]
    with pytest.raises(DMError, match=rf"the row \(1777\) of `up`.`up`.*Error {number} "):
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert sum(bulks) > 0
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(1,)]
    assert marker(target) == 0


def test_literals_that_a_parameter_would_change_stay_literals(target: MariaDBServer, bulks: list[int]) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('1', '2', '0'), y YEAR)")
    plans = {1: plan_of(target, "t")}
    rows = [(INSERTED, b"%d" % n, b"(%d,3,0)" % n) for n in range(500)]
    apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert bulks == []
    assert target.execute("SELECT DISTINCT e, y FROM d.t") == [("0", 0)]


def test_engine_without_transactions_gets_statements(target: MariaDBServer, bulks: list[int]) -> None:
    # A bulk execution leaves the rows before one that is refused.
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT) ENGINE=MyISAM")
    plans = {1: plan_of(target, "t")}
    rows = [(UPDATED, b"%d" % n, b"(%d,3)" % n) for n in range(500)]
    apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert bulks == []


def test_more_tables_than_a_connection_keeps_statements_of(
    target: MariaDBServer, bulks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dm_worker.syncer.execution.target_connections.MOST_PREPARED", 2)
    monkeypatch.setattr(bulk_choice, "MOST_PREPARED", 2)
    tables = [f"t{i}" for i in range(5)]
    prepare(target, *[f"CREATE TABLE d.{name} (id INT PRIMARY KEY, v INT)" for name in tables])
    for turn in range(2):
        for first in (0, 2):
            plans = {i: plan_of(target, tables[i], number=i) for i in range(first, first + 3)}
            content = content_of(plans, {})
            for i in plans:
                rows = [(UPDATED, b"%d" % n, b"(%d,%d)" % (n, turn)) for n in range(200)]
                content.groups += content_of(plans, states_of(rows, i)).groups
            next_batch(target)
            apply_bucket(spec_of(target), TOKEN, 0, content, plans)
    assert bulks == [200] * 8
    for name in tables:
        assert target.execute(f"SELECT COUNT(*), SUM(v) FROM d.{name}") == [(200, 200)]


def test_mysql_gets_statements(mysql_upstream: MySQLServer, bulks: list[int]) -> None:
    prepare(mysql_upstream, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    plans = {1: plan_of(mysql_upstream, "t")}
    rows = [(UPDATED, b"%d" % n, b"(%d,3)" % n) for n in range(500)]
    apply_bucket(spec_of(mysql_upstream), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert bulks == []
