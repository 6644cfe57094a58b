"""Hazard: a test that kills TiDB loses what was committed, and is taken for a fault of the migration."""

from __future__ import annotations

import pytest

from deploy.local.tidb import TiDBServer

# Whoever needs it first may wait for its build.
pytestmark = [pytest.mark.core, pytest.mark.timeout(120, func_only=True)]


def test_tidb_keeps_what_was_committed_over_a_kill(tidb: TiDBServer) -> None:
    tidb.execute("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")
    tidb.kill()
    tidb.start()
    assert tidb.execute("SELECT VERSION() LIKE '%TiDB%', id FROM d.t") == [(1, 1)]
