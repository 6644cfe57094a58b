"""Hazards: DDL of one shard destroys what others have; a source says the wrong thing in a lock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm_worker.syncer.ddl.executor import StatementContext, contexts_of, contexts_text
from dm_worker.syncer.shard_ddl.lock_protocol import Arrived, Decided, LockMove, LockRequest, next_move
from dm_worker.syncer.shard_ddl.source_groups import AcknowledgeDDL, ReportDDL
from dm_worker.syncer.shard_ddl.statement_effects import changes_group, renames_table, runs_at_once
from pkg import ddl
from pkg.binlog.events import QueryEvent
from pkg.errors import DMError
from pkg.ha.shard_ddl import DDLTexts, ShardInfo, ShardOperation
from pkg.ha.shard_ddl_steps import StoredRecord

TARGET = ("m", "t")
TEXTS = ("ALTER TABLE `m`.`t` ADD COLUMN a INT",)


def route(schema: str, table: str) -> tuple[str, str]:
    return "m", table[:1]


def parsed(sql: str) -> ddl.DDLStatement:
    return ddl.parse(sql, default_schema="d")


@pytest.mark.parametrize(
    ("sql", "at_once", "changes", "renames"),
    [
        ("CREATE DATABASE d", True, False, False),
        ("ALTER DATABASE d CHARACTER SET utf8", True, False, False),
        ("DROP DATABASE d", False, False, False),
        ("CREATE TABLE t1 (a INT)", True, False, False),
        ("CREATE TABLE t1 LIKE u1", True, False, False),
        ("CREATE TABLE t2 LIKE t1", False, False, False),
        ("DROP TABLE t1", False, False, False),
        ("TRUNCATE TABLE t1", False, False, False),
        ("ALTER TABLE t1 ADD a INT, DROP b", False, True, False),
        ("CREATE INDEX i ON t1 (a)", False, True, False),
        ("DROP INDEX i ON t1", False, True, False),
        ("RENAME TABLE t1 TO t2", False, False, True),
        ("ALTER TABLE t1 RENAME TO t2", False, False, True),
        ("ALTER TABLE t1 RENAME TO t2, ALGORITHM = COPY", False, False, True),
    ],
)
def test_what_a_statement_means_for_merged_shards(sql: str, at_once: bool, changes: bool, renames: bool) -> None:
    statement = parsed(sql)
    assert runs_at_once(statement, route) == at_once
    assert changes_group(statement) == changes
    assert renames_table(statement) == renames


def test_one_statement_that_changes_and_renames_is_refused() -> None:
    with pytest.raises(DMError, match="changed and renamed"):
        changes_group(parsed("ALTER TABLE t1 ADD a INT, RENAME TO t2"))


def test_a_statement_keeps_what_it_ran_in() -> None:
    query = QueryEvent(1, 0, 0, "d", b"ALTER", sql_mode=7, charsets=(8, 8, 33), time_zone="+02:00")
    query = replace(query, explicit_defaults_for_timestamp=False, utf8mb4_collation=45)
    plain = QueryEvent(1, 0, 0, "d", b"")
    first, second = contexts_of(contexts_text([StatementContext(query, 17), StatementContext(plain, 0)]))
    assert (first.timestamp, first.query.sql_mode, first.query.time_zone) == (17, 7, "+02:00")
    assert first.query.charsets == (8, 8, 33)
    assert (first.query.explicit_defaults_for_timestamp, first.query.utf8mb4_collation) == (False, 45)
    assert (second.query.charsets, second.query.explicit_defaults_for_timestamp) == (None, None)


def test_what_an_earlier_version_wrote_of_a_session_is_read() -> None:
    (context,) = contexts_of('[[7, [8, 8, 33], "+02:00", 17]]')
    assert (context.timestamp, context.query.explicit_defaults_for_timestamp) == (17, None)


def operation(
    *, execute: bool = True, done: bool = False, revision: int = 5, texts: DDLTexts = TEXTS
) -> StoredRecord[ShardOperation]:
    return StoredRecord(ShardOperation("t-`m`.`t`", "t", "s", texts, execute, done), revision, revision + 1)


INFO = ShardInfo("t", "s", *TARGET, TEXTS)
REPORT = ReportDDL(TARGET, 0, TEXTS)
DONE = AcknowledgeDDL(TARGET, 0, TEXTS, True, 5)


@pytest.mark.parametrize(
    ("asked", "found", "info", "move"),
    [
        (REPORT, None, None, LockMove.REPORT),
        (REPORT, None, ShardInfo("t", "s", *TARGET, ("other",)), LockMove.REPORT),
        (REPORT, None, INFO, LockMove.WAIT),
        (REPORT, operation(), INFO, Decided(TARGET, TEXTS, True, 5)),
        (REPORT, operation(execute=False, revision=9), INFO, Decided(TARGET, TEXTS, False, 9)),
        # What was done before: the others have still to follow.
        (REPORT, operation(done=True), INFO, LockMove.WAIT),
        (DONE, operation(), INFO, LockMove.CONFIRM),
        (DONE, operation(done=True), INFO, Arrived(TARGET)),
        (DONE, None, None, Arrived(TARGET)),
        # Somebody took the order back meanwhile, and may have given another one on what is done already.
        (DONE, None, INFO, LockMove.WITHDRAW),
        (DONE, operation(revision=6), INFO, LockMove.CONFIRM),
        (DONE, operation(revision=6, done=True), INFO, Arrived(TARGET)),
        (DONE, operation(revision=6, texts=("other",)), INFO, Arrived(TARGET)),
    ],
)
def test_what_a_source_says_next(
    asked: LockRequest, found: StoredRecord[ShardOperation] | None, info: ShardInfo | None, move: object
) -> None:
    assert next_move(asked, found, info) == move
