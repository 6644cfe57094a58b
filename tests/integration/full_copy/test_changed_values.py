"""Hazard: a target table that was made by hand rounds, cuts or fills in values of a full copy without a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.mysql import MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.loader import LoadUnit
from tests.harness.full_copy import config, contents, dump, load

pytestmark = pytest.mark.target_with("MariaDB's tables")

#: Upstream's column, the target's, a value that stays, and one that would change.
LOSSES = {
    "fraction": ("DATETIME(6)", "DATETIME", "'2020-01-01'", "'2020-01-01 00:00:00.6'"),
    "scale": ("DECIMAL(9,4)", "DECIMAL(9,2)", "1.5", "1.255"),
    "float": ("DOUBLE", "FLOAT", "0.5", "0.1"),
    "spaces": ("VARCHAR(9)", "CHAR(9)", "'a)'' b'", "'a  '"),
    "padded": ("VARBINARY(4)", "BINARY(4)", "x'61626364'", "x'6162'"),
    "letters": ("VARCHAR(9) CHARACTER SET latin1", "VARBINARY(30)", "'a'", "'ä'"),
    "null": ("TIMESTAMP NULL", "TIMESTAMP NOT NULL DEFAULT '2000-01-01'", "'2001-01-01'", "NULL"),
}


@pytest.mark.parametrize("kind", LOSSES)
def test_a_value_that_the_target_would_change_stops_the_copy(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path, kind: str
) -> None:
    here, there, kept, changed = LOSSES[kind]
    mariadb_upstream.execute(
        "CREATE DATABASE l",
        f"CREATE TABLE l.t (id INT PRIMARY KEY, c {here})",
        f"INSERT INTO l.t VALUES (1, {kept}), (2, {changed})",
    )
    target.execute("CREATE DATABASE l", f"CREATE TABLE l.t (id INT PRIMARY KEY, c {there})")
    cfg = config(mariadb_upstream, target, tmp_path, mode="full")
    dump(cfg, spark)
    (error,) = LoadUnit(cfg, spark).run().errors
    assert "`l`.`t`" in error.message
    assert "`c`" in error.message
    assert ("MODIFY `c`") in error.workaround
    assert target.execute("SELECT COUNT(*) FROM l.t") == [(0,)]
    if kind != "null":
        # The operator lets values change.
        load(config(mariadb_upstream, target, tmp_path, mode="full", lossy_conversions="allow"), spark)
        assert target.execute("SELECT COUNT(*) FROM l.t") == [(2,)]


def test_values_that_stay_are_loaded_into_another_type(
    mysql_upstream: MySQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    columns = [(here, there, kept) for here, there, kept, _ in LOSSES.values()]
    upstream_columns = ", ".join(f"c{n} {here}" for n, (here, _, _) in enumerate(columns))
    target_columns = ", ".join(f"c{n} {there}" for n, (_, there, _) in enumerate(columns))
    mysql_upstream.execute(
        "CREATE DATABASE l",
        f"CREATE TABLE l.t (id INT PRIMARY KEY, {upstream_columns})",
        f"INSERT INTO l.t VALUES (1, {', '.join(kept for _, _, kept in columns)})",
    )
    target.execute("CREATE DATABASE l", f"CREATE TABLE l.t (id INT PRIMARY KEY, {target_columns})")
    cfg = config(mysql_upstream, target, tmp_path, mode="full")
    dump(cfg, spark)
    load(cfg, spark)
    (want,), (got,) = contents(mysql_upstream, "l.t"), contents(target, "l.t")
    assert len(want) == len(got)
    assert target.execute("SELECT COUNT(*) FROM l.t WHERE c0 = '2020-01-01' AND c1 = 1.5 AND c3 = 'a)'' b'") == [(1,)]


def test_session_defaults_of_the_servers_leave_out_no_row(
    mariadb_upstream: SQLServer, target: SQLServer, spark: SparkEngine, tmp_path: Path
) -> None:
    mariadb_upstream.execute(
        "CREATE DATABASE l",
        "CREATE TABLE l.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)",
        "INSERT INTO l.t (v) VALUES (1), (2), (3), (4)",
        "CREATE TABLE l.u (v INT)",
        "INSERT INTO l.u VALUES (NULL), (1), (1)",
    )
    for server in (mariadb_upstream, target):
        server.execute(
            "SET GLOBAL sql_select_limit = 1, GLOBAL sql_auto_is_null = 1, GLOBAL completion_type = 1,"
            " GLOBAL unique_checks = 0, GLOBAL sql_mode = 'ANSI_QUOTES'"
        )
    try:
        cfg = config(mariadb_upstream, target, tmp_path, mode="full")
        dump(cfg, spark)
        load(cfg, spark)
    finally:
        for server in (mariadb_upstream, target):
            server.execute(
                "SET GLOBAL sql_select_limit = DEFAULT, GLOBAL sql_auto_is_null = DEFAULT, GLOBAL completion_type ="
                " DEFAULT, GLOBAL unique_checks = DEFAULT, GLOBAL sql_mode = DEFAULT"
            )
    assert [target.execute(f"SELECT COUNT(*) FROM l.{name}") for name in ("t", "u")] == [[(4,)], [(3,)]]
