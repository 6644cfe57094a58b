"""Hazard: a task is started whose generated columns the target computes otherwise, and stops at their first row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.local.mysql import MariaDBServer
from tests.integration.dm_master.precheck.test_prechecks import _failed, _findings, _run, _source, _task

TABLE = (
    "CREATE TABLE a.t (id INT PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT '2020-01-01',"
    " g DATE AS (CAST(at AS DATE)) {kind}, half INT AS (id DIV 2) STORED)"
)


@pytest.fixture
def eastern(new_mariadb: Callable[..., MariaDBServer]) -> MariaDBServer:
    server = new_mariadb(gtid=True)
    server.execute("SET GLOBAL time_zone = '+08:00'")
    return server


def test_a_stored_column_that_depends_on_the_zone_is_named_before_the_start(
    eastern: MariaDBServer, target: MariaDBServer
) -> None:
    eastern.execute("CREATE DATABASE a", TABLE.format(kind="STORED"))
    result = _run(_task(target.db_config, "s1"), _source(eastern))
    assert _failed(result) == {"table structure compatibility check"}
    (finding,) = _findings(result, "table structure compatibility check")
    assert "`g` (time_zone)" in finding.message
    assert "DROP COLUMN `g`" in finding.instruction


def test_what_is_not_kept_or_computed_alike_passes(eastern: MariaDBServer, target: MariaDBServer) -> None:
    eastern.execute("CREATE DATABASE a", TABLE.format(kind="VIRTUAL"))
    assert _run(_task(target.db_config, "s1"), _source(eastern)).passed
    eastern.execute("DROP TABLE a.t", TABLE.format(kind="STORED"), "SET GLOBAL time_zone = '+00:00'")
    assert _run(_task(target.db_config, "s1"), _source(eastern)).passed
