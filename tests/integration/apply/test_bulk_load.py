"""Hazards: LOAD DATA turns errors into warnings, skips duplicates, and reads some literals differently than INSERT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.syncer.execution import apply, load_data, target_connections
from dm_worker.syncer.execution.apply import BucketResult, apply_bucket
from dm_worker.syncer.execution.compaction import INSERTED, UPDATED
from dm_worker.syncer.execution.row_statements import StatementForm
from dm_worker.syncer.execution.target_connections import WriterPool, loads
from pkg.errors import DMError
from pkg.mysql.driver import ServerAnswer
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

pytestmark = pytest.mark.target_with("LOAD DATA")


@pytest.fixture(autouse=True)
def _server_without_bulk_executions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_connections, "takes_bulk", lambda variables: False)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each load of the test proved to be exact."""
    seen: list[bool] = []
    exact: Callable[[ServerAnswer, int], bool] = load_data.exact

    def spy(answer: ServerAnswer, count: int) -> bool:
        seen.append(exact(answer, count))
        return seen[-1]

    monkeypatch.setattr(load_data, "exact", spy)
    return seen


def _write(server: SQLServer, rows: list[tuple[int, bytes, bytes]], form: StatementForm | None = None) -> BucketResult:
    plans = {1: plan_of(server, "t")}
    next_batch(server)
    return apply_bucket(spec_of(server, form), TOKEN, 0, content_of(plans, states_of(rows), form), plans)


def _check_every_type(server: SQLServer, loaded: list[bool]) -> None:
    prepare(server, f"CREATE TABLE d.t (id INT PRIMARY KEY, {COLUMNS})")
    rows = [(n, VALUES[n % 4]) for n in range(COUNT)]
    for state, shift in ((INSERTED, 0), (UPDATED, 1)):
        rows = [(n, VALUES[(n + shift) % 4]) for n in range(COUNT)]
        result = _write(server, [(state, b"%d" % n, b"(%d,%b)" % (n, values)) for n, values in rows])
        assert result.statements == 1
        assert loaded.pop()
        check_written(server, rows)


def test_loaded_rows_are_those_that_an_insert_writes(target: MariaDBServer, loaded: list[bool]) -> None:
    _check_every_type(target, loaded)


@pytest.mark.parametrize(("mode", "expected"), [(1, []), (2, [True])])
def test_loads_that_would_wait_for_each_other_are_inserts(
    mode: int, expected: list[bool], loaded: list[bool], new_mariadb: Callable[..., MariaDBServer]
) -> None:
    # In mode 1 a load into such a table keeps all others out until it ends, though the rows bring their ids.
    server = new_mariadb(binlog=False, extra=[f"--innodb-autoinc-lock-mode={mode}"])
    prepare(server, "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    _write(server, [(INSERTED, b"%d" % n, b"(%d,1)" % n) for n in range(1, COUNT + 1)])
    assert loaded == expected
    assert server.execute("SELECT COUNT(*), SUM(v) FROM d.t") == [(COUNT, COUNT)]


@pytest.fixture(scope="module")
def mysql_target() -> Iterator[MySQLServer]:
    server = MySQLServer(binlog=False)
    try:
        server.start()
        yield server
    finally:
        server.cleanup()


def test_loaded_rows_are_those_that_an_insert_writes_on_mysql(mysql_target: MySQLServer, loaded: list[bool]) -> None:
    _check_every_type(mysql_target, loaded)


@pytest.mark.parametrize(
    ("definition", "bad", "number"),
    [
        ("(id INT PRIMARY KEY, v INT UNIQUE)", b"7", 1062),
        (
            "(id INT, v INT, PRIMARY KEY (id, v)) PARTITION BY RANGE (v) (PARTITION p VALUES LESS THAN (3000))",
            b"4000",
            1526,
        ),
    ],
)
def test_rows_that_mysql_skips_without_a_warning_are_an_error(
    mysql_target: MySQLServer, loaded: list[bool], definition: str, bad: bytes, number: int
) -> None:
    prepare(mysql_target, f"CREATE TABLE d.t {definition}")
    plans = {1: plan_of(mysql_target, "t")}
    values = {n: b"%d" % n for n in range(COUNT)} | {1777: bad}
    rows = [(INSERTED, b"%d" % n, b"(%d,%b)" % (n, value)) for n, value in values.items()]
    with pytest.raises(DMError, match=f"Error {number} "):
        apply_bucket(spec_of(mysql_target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert loaded == [False]
    assert mysql_target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]
    assert marker(mysql_target) == 0


@pytest.mark.parametrize("torn", [b"1,'a'),(2,'b')", b"(1,'a')(2,'b')", b"(1,'a';(2,'b')"])
def test_rows_that_are_skipped_for_their_shape_are_noticed(target: MariaDBServer, torn: bytes) -> None:
    # Only the number of records shows it: the server neither warns nor counts what is not between "(" and ")".
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, s VARCHAR(20))")
    text = load_data.statement(plan_of(target, "t"), replace=False)
    with WriterPool().writer(spec_of(target).address) as writer:
        answer = load_data.load(writer.conn, text, [torn])
        assert answer.warnings == 0
        assert not load_data.exact(answer, 2)
        writer.conn.rollback()
        assert load_data.exact(load_data.load(writer.conn, text, [b"(1,'a')", b"(2,'b')"]), 2)
        writer.conn.close()


@pytest.mark.parametrize(
    ("column", "bad", "number"),
    [
        ("v SMALLINT", b"99999", 1264),
        ("v SMALLINT UNSIGNED", b"-1", 1264),
        ("v INT UNIQUE", b"3", 1062),
        ("v INT CHECK (v < 10000)", b"10000", 4025),
    ],
)
def test_what_a_load_would_alter_or_skip_is_an_error(
    target: MariaDBServer, loaded: list[bool], column: str, bad: bytes, number: int
) -> None:
    prepare(
        target,
        f"CREATE TABLE d.t (id INT PRIMARY KEY, {column})",
        f"CREATE TABLE d.up (id INT PRIMARY KEY, v INT{' UNIQUE' if 'UNIQUE' in column else ''})",
        "INSERT INTO d.t VALUES (-1, 3)",
    )
    plans = {1: plan_of(target, "t", source="up")}
    values = {n: b"%d" % n for n in range(100, COUNT)} | {1777: bad}
    rows = [(INSERTED, b"%d" % n, b"(%d,%b)" % (n, value)) for n, value in values.items()]
    with pytest.raises(DMError, match=rf"the row \(1777\) of `up`.`up`.*Error {number} "):
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert loaded == [False]
    assert target.execute("SELECT COUNT(*) FROM d.t WHERE id BETWEEN 100 AND 1776") == [(0,)]
    assert marker(target) == 0
    # From now on this table's rows are inserted.
    with pytest.raises(DMError):
        apply_bucket(spec_of(target), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert loaded == [False]


def test_rows_that_only_load_with_a_note_are_inserted(target: MariaDBServer, loaded: list[bool]) -> None:
    # A fraction that the target cuts is a note for INSERT as well.
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v DECIMAL(4,1))")
    rows = [(INSERTED, b"%d" % n, b"(%d,1.26)" % n) for n in range(COUNT)]
    assert _write(target, rows).statements == 3
    assert loaded == [False]
    assert target.execute("SELECT COUNT(*), MIN(v), MAX(v) FROM d.t")[0][0] == COUNT


def test_triggers_see_an_upsert_and_safe_mode_a_replacement(target: MariaDBServer, loaded: list[bool]) -> None:
    prepare(
        target,
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d.log (what CHAR(3), id INT)",
        "CREATE TRIGGER d.u AFTER UPDATE ON d.t FOR EACH ROW INSERT INTO d.log VALUES ('upd', NEW.id)",
        "CREATE TRIGGER d.r AFTER DELETE ON d.t FOR EACH ROW INSERT INTO d.log VALUES ('del', OLD.id)",
    )
    _write(target, [(INSERTED, b"%d" % n, b"(%d,0)" % n) for n in range(COUNT)])
    assert loaded == [True]
    _write(target, [(UPDATED, b"%d" % n, b"(%d,1)" % n) for n in range(COUNT)])
    assert loaded == [True]
    assert target.execute("SELECT what, COUNT(*) FROM d.log GROUP BY what") == [("upd", COUNT)]
    _write(target, [(UPDATED, b"%d" % n, b"(%d,2)" % n) for n in range(COUNT)], StatementForm(safe=True))
    assert loaded == [True, True]
    assert target.execute("SELECT what, COUNT(*) FROM d.log GROUP BY what ORDER BY what") == [
        ("del", COUNT),
        ("upd", COUNT),
    ]


@pytest.mark.parametrize(("grant", "seen"), [("", False), (", TRIGGER", True)])
def test_who_may_not_see_triggers_does_not_replace_rows(
    target: MariaDBServer, loaded: list[bool], grant: str, seen: bool
) -> None:
    prepare(
        target,
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "CREATE OR REPLACE USER writer@'%'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE{grant} ON d.* TO writer@'%'",
        "GRANT ALL ON meta.* TO writer@'%'",
    )
    plans = {1: plan_of(target, "t")}
    spec = spec_of(target)
    spec = replace(spec, config=replace(spec.config, user="writer"))
    rows = [(UPDATED, b"%d" % n, b"(%d,0)" % n) for n in range(COUNT)]
    apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert loaded == [True] * seen
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(COUNT,)]


def test_one_row_per_statement_is_never_loaded(target: MariaDBServer, loaded: list[bool]) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    form = StatementForm(multiple=False)
    rows = [(INSERTED, b"%d" % n, b"(%d,0)" % n) for n in range(load_data.LEAST_ROWS)]
    assert _write(target, rows, form).statements == load_data.LEAST_ROWS
    assert loaded == []


def test_server_without_local_infile_gets_inserts(target: MariaDBServer, loaded: list[bool]) -> None:
    prepare(target, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    plans = {1: plan_of(target, "t")}
    rows = [(INSERTED, b"%d" % n, b"(%d,0)" % n) for n in range(COUNT)]
    target.execute("SET GLOBAL local_infile = OFF")
    try:
        spec = spec_of(target, group_concat_max_len="4444")  # its connections are new
        assert apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(rows)), plans).statements == 3
    finally:
        target.execute("SET GLOBAL local_infile = ON")
    assert loaded == []


def test_server_that_asks_for_a_file_gets_none(target: MariaDBServer) -> None:
    # Only a load that we began is answered, and with our rows.
    conn = apply._POOL
    with conn.writer(spec_of(target, group_concat_max_len="4445").address) as writer, writer.conn.cursor() as cursor:
        prepare(target, "CREATE TABLE d.t (v TEXT)")
        with pytest.raises(RuntimeError, match="LOAD_LOCAL"):
            cursor.execute("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE d.t")
        writer.conn.close()
    assert target.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"local_infile": "ON", "log_bin": "OFF", "binlog_format": "STATEMENT", "version": "10.11.6-MariaDB"}, True),
        ({"local_infile": "ON", "log_bin": "ON", "binlog_format": "ROW", "version": "8.0.36"}, True),
        ({"local_infile": "OFF", "log_bin": "OFF", "version": "8.0.36"}, False),
        ({"local_infile": "ON", "log_bin": "ON", "binlog_format": "MIXED", "version": "10.11.6-MariaDB"}, False),
        ({"local_infile": "ON", "log_bin": "OFF", "wsrep_on": "ON", "version": "10.11.6-MariaDB"}, False),
        ({"local_infile": "ON", "log_bin": "OFF", "version": "8.0.11-TiDB-v7.5.0"}, False),
    ],
)
def test_servers_that_would_commit_a_load_in_pieces_get_none(variables: dict[str, str], expected: bool) -> None:
    assert loads(variables) is expected
