"""Hazard: a row of the target that is wrong and not reported, or reported although it is right."""

from __future__ import annotations

from dm_worker.engine.engine import SparkEngine
from tests.harness.mysql import MariaDBServer
from tests.integration.syncer.support import subtask
from tests.integration.validator.support import QUICK, validated

TABLE = (
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), f DOUBLE, b BLOB, j JSON, m DECIMAL(10, 3),"
    " at TIMESTAMP(3) NULL)"
)


def test_changed_missing_and_surviving_rows_are_named(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine
) -> None:
    for server in (mariadb_upstream, target):
        server.execute("CREATE DATABASE d", TABLE)
    cfg = subtask(mariadb_upstream, target, validator=QUICK)
    with validated(cfg, spark) as running:
        values = ", ".join(
            f"({n}, 'v{n}', {n}.1e-7, 0x{n:04x}, '[{n}]', {n}.5, '2024-01-01 00:00:00.123')" for n in range(50)
        )
        mariadb_upstream.execute(f"INSERT INTO d.t VALUES {values}")
        running.wait_compared(mariadb_upstream)
        assert running.errors() == []
        assert running.status().processedRowsStatus == "insert/update/delete: 50/0/0"
        target.execute(
            "CREATE TRIGGER d.lose BEFORE UPDATE ON d.t FOR EACH ROW SET NEW.f = IF(OLD.id = 3, OLD.f, NEW.f)",
        )
        mariadb_upstream.execute(
            "UPDATE d.t SET f = 0.25 WHERE id IN (2, 3)",
        )
        (one,) = running.wait_kinds("Column data not matched")
        assert (one.srcTable, one.dstTable, one.status) == ("`d`.`t`", "`d`.`t`", 1)
        assert '"id": "3"' in one.srcData
        assert '"f": "0.25"' in one.srcData
