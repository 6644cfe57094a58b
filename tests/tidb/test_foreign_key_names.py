"""Hazard: TiDB calls foreign keys without a name fk_1; DROP FOREIGN KEY with the upstream's name leaves them there."""

from __future__ import annotations

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.tidb import TiDBServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.ddl.executor import DDLExecutor, DDLStep
from pkg import errors
from pkg.errors import Code
from pkg.rules.model import RouteRule
from tests.integration.syncer.support import assert_equal, run_until_synced, running, subtask

_MADE = (
    "CREATE DATABASE d",
    "CREATE DATABASE e",
    "CREATE TABLE d.p (id INT PRIMARY KEY, v INT, UNIQUE (v))",
    "INSERT INTO d.p VALUES (1, 1), (2, 2)",
)
_TO_P = "REFERENCES d.p (id)"
_STATEMENTS = (
    f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT, c INT, FOREIGN KEY (a) {_TO_P},"
    f" CONSTRAINT mine FOREIGN KEY (b) {_TO_P}, FOREIGN KEY listed (c) {_TO_P} ON DELETE CASCADE)",
    "INSERT INTO d.t VALUES (1, 1, 2, 1)",
    f"ALTER TABLE d.t ADD x INT, ADD FOREIGN KEY (x) {_TO_P}, ADD FOREIGN KEY (b) REFERENCES d.p (v)",
    f"ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_3, ADD FOREIGN KEY (b) {_TO_P}",
    f"ALTER TABLE d.t ADD CONSTRAINT t_ibfk_20 FOREIGN KEY (c) {_TO_P}, ADD FOREIGN KEY (c) REFERENCES d.p (v)",
    "RENAME TABLE d.t TO d.u",
    f"ALTER TABLE d.u ADD FOREIGN KEY (x) {_TO_P}",
    "ALTER TABLE d.u RENAME TO e.`w x`",
    "INSERT INTO e.`w x` VALUES (2, 2, 1, 2, NULL)",
)


def _foreign_keys(server: SQLServer) -> list[tuple[str, ...]]:
    columns = "TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME"
    rows = server.execute(
        f"SELECT {columns} FROM information_schema.KEY_COLUMN_USAGE"
        " WHERE TABLE_SCHEMA IN ('d', 'e') AND REFERENCED_TABLE_NAME IS NOT NULL"
    )
    return sorted(tuple(map(str, row)) for row in rows)


@pytest.mark.parametrize("flavor", ["mariadb", "mysql"])
def test_foreign_keys_have_the_upstreams_names_also_when_their_table_gets_another_one(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine, flavor: str
) -> None:
    upstream: SQLServer = {"mariadb": mariadb_upstream, "mysql": mysql_upstream}[flavor]
    upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    with running(subtask(upstream, tidb), spark) as run:
        for statement in _STATEMENTS:
            upstream.execute(statement)
            run.wait_synced(upstream)
            assert _foreign_keys(tidb) == _foreign_keys(upstream), statement
        assert_equal(upstream, tidb, "d.p", "e.`w x`")
        names = [name for _, _, name, *_ in _foreign_keys(upstream)]
        assert {"mine", "listed", "w x_ibfk_1", "w x_ibfk_4", "w x_ibfk_20"} < {*names}
        upstream.execute(*(f"ALTER TABLE e.`w x` DROP FOREIGN KEY `{name}`" for name in names))
        run.wait_synced(upstream)
        assert not _foreign_keys(tidb)


def test_a_run_that_ends_between_a_table_and_its_keys_is_continued(
    mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mysql_upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    cfg = subtask(mysql_upstream, tidb)

    def end(executor: DDLExecutor, step: DDLStep) -> None:
        raise errors.new(Code.DBExecuteFailed, "the run ends here")

    with monkeypatch.context() as patch, running(cfg, spark) as run:
        mysql_upstream.execute(f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) {_TO_P})")
        mysql_upstream.execute(f"ALTER TABLE d.t ADD FOREIGN KEY (a) {_TO_P}")
        run.wait_synced(mysql_upstream)
        patch.setattr(DDLExecutor, "_rename_foreign_keys", end)
        mysql_upstream.execute("RENAME TABLE d.t TO d.u")
        run.wait_ended()
    assert [(key[1], key[2]) for key in _foreign_keys(tidb)] == [("u", "t_ibfk_1"), ("u", "t_ibfk_2")]
    run_until_synced(cfg, spark, mysql_upstream)
    assert _foreign_keys(tidb) == _foreign_keys(mysql_upstream)


def test_a_routed_table_keeps_the_upstreams_names(
    mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    mysql_upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    cfg = subtask(mysql_upstream, tidb, routes=(RouteRule("d", "d", "t", "other"),))
    with running(cfg, spark) as run:
        mysql_upstream.execute(f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) {_TO_P})")
        mysql_upstream.execute(f"ALTER TABLE d.t ADD FOREIGN KEY (a) {_TO_P}")
        run.wait_synced(mysql_upstream)
        assert [(key[1], key[2]) for key in _foreign_keys(tidb)] == [("other", "t_ibfk_1"), ("other", "t_ibfk_2")]
        mysql_upstream.execute("ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_1")
        run.wait_synced(mysql_upstream)
        assert [key[2] for key in _foreign_keys(tidb)] == ["t_ibfk_2"]


def test_a_dropped_key_that_has_another_name_stops_the_task_and_none_at_all_does_not(
    mysql_upstream: MySQLServer, tidb: TiDBServer, spark: SparkEngine
) -> None:
    mysql_upstream.execute(*_MADE)
    tidb.execute(*_MADE)
    mysql_upstream.execute(f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) {_TO_P})")
    # By hand: TiDB finds its own name.
    tidb.execute(f"CREATE TABLE d.t (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) {_TO_P})")
    cfg = subtask(mysql_upstream, tidb)
    with running(cfg, spark) as run:
        mysql_upstream.execute("ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_1")
        outcome = run.wait_ended()
    (error,) = outcome.errors
    assert error.code == 36068
    assert "`t_ibfk_1`" in error.message
    assert "`fk_1`" in error.message
    # As the error says, except that nothing is left to be mistaken for it: so it needs no skip.
    tidb.execute("ALTER TABLE d.t DROP FOREIGN KEY fk_1")
    with running(cfg, spark) as run:
        mysql_upstream.execute("INSERT INTO d.t VALUES (1, 7)")
        run.wait_synced(mysql_upstream)
    assert_equal(mysql_upstream, tidb, "d.t")
