"""Hazards: an error that TiDB shows at the COMMIT alone names no row; a limit of TiDB blames the wrong thing; a
statement of somebody else between two of a batch's loses or doubles rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deploy.local.tidb import TiDBServer
from dm_master.task_setup.task_split import TARGET_DEFAULTS
from dm_worker.syncer.execution import apply
from dm_worker.syncer.execution.apply import apply_bucket
from dm_worker.syncer.execution.compaction import DELETED, INSERTED, UPDATED
from dm_worker.syncer.execution.row_statements import RowStatement
from dm_worker.syncer.execution.target_connections import TargetSpec, WriterPool
from pkg.errors import DMError
from tests.integration.apply.support import TOKEN, content_of, marker, plan_of, prepare, spec_of, states_of


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_POOL", WriterPool())


def _spec(tidb: TiDBServer, **session: str) -> TargetSpec:
    """With what a task's session has."""
    return replace(spec_of(tidb), session=(*TARGET_DEFAULTS.items(), *session.items()))


@pytest.mark.parametrize("mode", ["optimistic", "pessimistic"])
def test_a_key_that_is_there_already_is_named_with_its_row(tidb: TiDBServer, mode: str) -> None:
    prepare(tidb, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT UNIQUE)", "INSERT INTO d.t VALUES (5, 5), (9000, 900)")
    plans = {1: plan_of(tidb, "t")}
    rows = [(DELETED, b"5", b"")] + [(INSERTED, b"%d" % i, b"(%d,%d)" % (i, i - 1000)) for i in range(1005, 2200)]
    with pytest.raises(DMError, match=r"the row \(1900\) of `up`.`t`.*1062.*'900'") as caught:
        apply_bucket(spec_of(tidb, tidb_txn_mode=mode), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert "Remove that row" in caught.value.workaround
    assert tidb.execute("SELECT * FROM d.t ORDER BY id") == [(5, 5), (9000, 900)]
    assert marker(tidb) == 0


def test_a_writer_looks_for_keys_late_again_after_it_looked_early(tidb: TiDBServer) -> None:
    prepare(tidb, "CREATE TABLE d.t (id INT PRIMARY KEY)")
    with apply._POOL.writer(_spec(tidb).address) as writer:
        assert writer.checks_late
        for _ in range(2):
            with writer.checking_in_place():
                assert _in_place(writer.conn) == 1
            assert _in_place(writer.conn) == 0


def _in_place(conn: object) -> int:
    with conn.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("SELECT @@tidb_constraint_check_in_place")
        return int(cursor.fetchone()[0])


def test_a_row_beyond_the_limit_of_an_entry_is_named(tidb: TiDBServer) -> None:
    prepare(tidb, "CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)")
    plans = {1: plan_of(tidb, "t")}
    values = {i: b"'%b'" % (b"x" * (7 << 20 if i == 7 else 10)) for i in range(20)}
    rows = [(INSERTED, b"%d" % i, b"(%d,%b)" % (i, value)) for i, value in values.items()]
    with pytest.raises(DMError, match=r"the row \(7\) of `up`.`t`.*8025") as caught:
        apply_bucket(_spec(tidb), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert "tidb_txn_entry_size_limit" in caught.value.workaround
    assert tidb.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


def test_a_transaction_that_needs_too_much_memory_names_the_setting_and_no_row(tidb: TiDBServer) -> None:
    prepare(tidb, "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(9000))")
    plans = {1: plan_of(tidb, "t")}
    rows = [(INSERTED, b"%d" % i, b"(%d,'%b')" % (i, b"x" * 8000)) for i in range(2000)]
    spec = _spec(tidb, tidb_mem_quota_query=str(4 << 20))
    with pytest.raises(DMError, match="8175") as caught:
        apply_bucket(spec, TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert "the row" not in caught.value.message
    assert "tidb_mem_quota_query" in caught.value.workaround
    assert not caught.value.retryable
    assert tidb.execute("SELECT COUNT(*) FROM d.t") == [(0,)]


@pytest.mark.parametrize(
    "form",
    [
        "CREATE TABLE d.t (id BIGINT PRIMARY KEY AUTO_RANDOM(5), v INT UNIQUE)",
        "CREATE TABLE d.t (id BIGINT, v INT UNIQUE, PRIMARY KEY (id) NONCLUSTERED) SHARD_ROW_ID_BITS=4",
        "CREATE TABLE d.t (id BIGINT PRIMARY KEY /*T![clustered_index] CLUSTERED */, v INT UNIQUE)",
    ],
)
def test_tables_in_forms_of_tidb_take_the_rows_as_they_are(tidb: TiDBServer, form: str) -> None:
    prepare(tidb, form, "CREATE TABLE d.up (id BIGINT PRIMARY KEY, v INT UNIQUE)")
    plans = {1: plan_of(tidb, "t", source="up")}
    large = 1 << 60
    rows = [(INSERTED, b"%d" % i, b"(%d,%d)" % (i, i % 1000)) for i in (1, 7, large)]
    apply_bucket(_spec(tidb), TOKEN, 0, content_of(plans, states_of(rows)), plans)
    assert tidb.execute("SELECT id FROM d.t ORDER BY id") == [(1,), (7,), (large,)]


@pytest.mark.parametrize("mode", ["optimistic", "pessimistic"])
@pytest.mark.parametrize(
    "statement", ["ALTER TABLE d.t ADD COLUMN extra INT DEFAULT 3", "ALTER TABLE d.t ADD INDEX mine (v)"]
)
def test_a_statement_of_somebody_else_in_the_middle_of_a_transaction(
    tidb: TiDBServer, monkeypatch: pytest.MonkeyPatch, mode: str, statement: str
) -> None:
    """Without metadata locks, for which a DDL waits, the COMMIT fails."""
    prepare(tidb, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)", "INSERT INTO d.t VALUES (1, 0), (2, 0), (3, 0)")
    plans = {1: plan_of(tidb, "t")}
    form_rows = [(UPDATED, b"1", b"(1,10)"), (DELETED, b"2", b""), (INSERTED, b"4", b"(4,40)")]
    ddl = threading.Thread(target=tidb.execute, args=(statement,))
    begun: list[bool] = []
    original = apply._BucketWriter._steps

    def interrupted(self: apply._BucketWriter, *args: object) -> Iterator[RowStatement]:
        for number, step in enumerate(original(self, *args)):  # type: ignore[arg-type]
            yield step  # type: ignore[misc]
            if not begun and number == 0:
                begun.append(True)
                ddl.start()
                ddl.join(2.0)

    monkeypatch.setattr(apply._BucketWriter, "_steps", interrupted)
    tidb.execute("SET GLOBAL tidb_enable_metadata_lock = OFF")
    try:
        result = apply_bucket(
            spec_of(tidb, tidb_txn_mode=mode), TOKEN, 0, content_of(plans, states_of(form_rows), changes=3), plans
        )
        ddl.join()
    finally:
        tidb.execute("SET GLOBAL tidb_enable_metadata_lock = ON")
    assert result.changes == 3
    assert result.failures == 1
    assert "Information schema is changed" in result.cause
    assert tidb.execute("SELECT id, v FROM d.t ORDER BY id") == [(1, 10), (3, 0), (4, 40)]
    assert marker(tidb) == TOKEN.number
    tidb.execute("ADMIN CHECK TABLE d.t")
