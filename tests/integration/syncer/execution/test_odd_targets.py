"""Hazards: the target is an old server, numbers ENUM members otherwise, or refuses a value that the upstream holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer
from deploy.local.process import up
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.ddl.session import DDLSession, StatementFailed
from dm_worker.syncer.ddl.variables import UpstreamSession
from pkg.binlog.events import QueryEvent
from pkg.rules.model import RouteRule
from tests.harness.targets import TARGET
from tests.integration.syncer.name_spellings import two_spellings_stop_a_task
from tests.integration.syncer.scramble import TABLES, make_tables, scramble
from tests.integration.syncer.support import assert_equal, rows, run_until_synced, running, subtask


@pytest.fixture
def mysql_target() -> Iterator[MySQLServer]:
    server = MySQLServer(binlog=False)
    server.start()
    yield server
    server.cleanup()


def test_mysql_56_is_a_target(mariadb_upstream: MariaDBServer, mysql_target: MySQLServer, spark: SparkEngine) -> None:
    make_tables(mariadb_upstream, mysql_target)
    cfg = subtask(mariadb_upstream, mysql_target)
    scramble(mariadb_upstream, 71, 40)
    with running(cfg, spark) as run:
        mariadb_upstream.execute(
            "ALTER TABLE d.plain ADD COLUMN extra DATETIME(6) DEFAULT '2020-02-02', ADD INDEX (n)",
            "CREATE TABLE d.made (id INT PRIMARY KEY, v VARCHAR(20))",
            "INSERT INTO d.made VALUES (1, 'a')",
            "RENAME TABLE d.made TO d.kept",
        )
        scramble(mariadb_upstream, 72, 40)
        run.wait_synced(mariadb_upstream)
    assert_equal(mariadb_upstream, mysql_target, "d.kept", *[f"d.{name}" for name in TABLES])


def test_an_upstreams_server_charset_that_the_target_lacks_stops_no_statement_about_tables(
    target: MariaDBServer,
) -> None:
    target.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    # Of these two, MariaDB lacks gb18030, and TiDB koi8r.
    number, charset, error = (7, "koi8r", 1105) if TARGET == "tidb" else (248, "gb18030", 1115)
    foreign = QueryEvent(0, 0, 0, "d", b"", charsets=(45, 45, number))
    with closing(DDLSession(target.db_config, foreign_keys=False)) as session:
        session.execute("ALTER TABLE d.t ADD COLUMN v INT", "alter table", foreign, 1, UpstreamSession("mysql"))
        with pytest.raises(StatementFailed, match=charset) as refused:
            session.execute("CREATE DATABASE e", "create database", foreign, 1, UpstreamSession("mysql"))
    assert refused.value.number == error
    assert [row[0] for row in target.execute("SHOW COLUMNS FROM d.t")] == ["id", "v"]
    assert ("e",) not in target.execute("SHOW DATABASES")


@pytest.mark.target_with("every charset")
def test_a_schema_without_a_charset_gets_that_of_the_upstreams_server(target: MariaDBServer) -> None:
    koi8r = QueryEvent(0, 0, 0, "", b"", charsets=(45, 45, 7))
    with closing(DDLSession(target.db_config, foreign_keys=False)) as session:
        session.execute("CREATE DATABASE e", "create database", koi8r, 1, UpstreamSession("mysql"))
    assert "koi8r" in target.execute("SHOW CREATE DATABASE e")[0][1]


@pytest.mark.parametrize("met", [True, False])
def test_a_table_that_is_another_one_in_a_target_without_case_stops_the_task(
    mariadb_upstream: MariaDBServer, spark: SparkEngine, met: bool
) -> None:
    target = MariaDBServer(binlog=False, extra=["--lower-case-table-names=1"])
    with up(target):
        two_spellings_stop_a_task(mariadb_upstream, target, spark, met=met)


def test_shards_that_number_members_differently_keep_their_names(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    wide = ",".join(f"'m{i}'" for i in range(63))
    for shard, members in (("s1", "'a','b','it''s'"), ("s2", "'it''s','a','b'")):
        mariadb_upstream.execute(
            f"CREATE DATABASE {shard}",
            f"CREATE TABLE {shard}.t (id INT PRIMARY KEY, e ENUM({members}), s SET({members}), w SET({wide}))",
        )
    moved = f"'zero',{wide[5:]},'m0'"
    target.execute(
        "CREATE DATABASE m",
        f"CREATE TABLE m.t (id INT PRIMARY KEY, e ENUM('a','b','it''s'), s VARCHAR(40), w SET({moved}))",
    )
    cfg = subtask(mariadb_upstream, target, routes=(RouteRule("s*", "m"),))
    with running(cfg, spark) as run:
        for number, shard in enumerate(("s1", "s2")):
            mariadb_upstream.execute(
                f"INSERT INTO {shard}.t VALUES ({number * 10 + 1}, 'a', 'a,b', 'm0,m62'),"
                f" ({number * 10 + 2}, 'it''s', 'it''s', ''), ({number * 10 + 3}, NULL, NULL, 'm7'),"
                f" ({number * 10 + 4}, 'a', '', NULL)",
                f"UPDATE {shard}.t SET e = 'b', w = 'm1,m0' WHERE e = 'a'",
            )
        run.wait_synced(mariadb_upstream)

    def as_sets(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        # Each server lists a SET's members in the order of its own definition.
        return [(*row[:2], *(None if v is None else frozenset(str(v).split(",")) for v in row[2:])) for row in found]

    want = sorted(as_sets(rows(mariadb_upstream, "s1.t") + rows(mariadb_upstream, "s2.t")), key=lambda row: str(row[0]))
    assert sorted(as_sets(rows(target, "m.t")), key=lambda row: str(row[0])) == want


def test_error_value_of_enum_is_refused_with_a_way_out_that_works(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, e ENUM('a','b') NOT NULL)")
    cfg = subtask(mariadb_upstream, target)
    with running(cfg, spark) as run:
        mariadb_upstream.execute("SET sql_mode = ''", "INSERT INTO d.t VALUES (1, 'neither'), (2, 'b')")
        (error,) = run.wait_ended().errors
    assert "1265" in error.message
    assert "target-database.session" in error.workaround
    lenient = replace(cfg, to=replace(cfg.to, session=(("sql_mode", "ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO"),)))
    run_until_synced(lenient, spark, mariadb_upstream)
    assert rows(target, "d.t") == rows(mariadb_upstream, "d.t")
    assert target.execute("SELECT e + 0 FROM d.t WHERE id = 1") == [(0,)]
