"""Hazard: rows are compared one by one, at many times the cost; or text calls rows equal that are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from dm_worker.engine.engine import SparkEngine
from dm_worker.syncer.execution.row_chunks import DoubtfulRow, RowChunk
from dm_worker.syncer.rows.table_plan import TablePlan
from tests.integration.syncer.support import subtask
from tests.integration.validator.support import QUICK, Validated, validated

#: Key, and values of all types whose literals the target can write.
TABLE = (
    "CREATE TABLE d.t ({}, tiny TINYINT, big BIGINT UNSIGNED, zero INT(8) ZEROFILL, m DECIMAL(20, 4),"
    " whole DECIMAL(5), day DATE, at DATETIME(6), stamp TIMESTAMP(3) NULL, t TIME(2), y YEAR, bits BIT(9),"
    " e ENUM('a', 'b'), s SET('p', 'q'), c CHAR(20), v VARCHAR(60), long_text LONGTEXT, bin BINARY(4),"
    " vb VARBINARY(20), bl BLOB) CHARSET utf8mb4"
)
VALUES = (
    "-7, 18446744073709551615, 42, -0.5, -3, '2024-02-29', '1999-12-31 23:59:59.000001', '2024-01-01 10:00:00.120',"
    " '-838:59:58.99', 2024, b'100000001', 'b', 'p,q', 'pad', 'it''s \\\\ 100% \\n\\t\\\" é€😀', 'a,b),(c', 'ab',"
    " x'00ff27', x'00275c1a'",
    "0, 0, 0, 0, 0, '1000-01-01', '2000-01-01 00:00:00', '1970-01-01 00:00:01', '00:00:00', 1901, b'0', 'a', '', '',"
    " '', '', '', '', ''",
    ", ".join(["NULL"] * 19),
)
KEYS = {
    "one": ("id INT PRIMARY KEY", ["-11", "-2", "-1", "0", "1", "2", "9", "10", "11", "100"]),
    "two": (
        "a INT, b VARCHAR(9), PRIMARY KEY (b, a)",
        ["1, 'x'", "10, 'x'", "1, 'xy'", "-1, ''", "2, 'X y'", "3, ','"],
    ),
    "text": ("id VARCHAR(30) COLLATE utf8mb4_bin PRIMARY KEY", ["'a'", "'A'", "'a b'", "'a''b'", "'1'", "'10'", "'é'"]),
    "time": ("id DATETIME(3) PRIMARY KEY", ["'2024-01-01 00:00:00.100'", "'2024-01-01 00:00:00'", "'1999-01-01'"]),
}


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The keys of rows that were compared one by one."""
    found: list[bytes] = []
    doubtful = RowChunk.doubtful

    def noted(chunk: RowChunk, plan: TablePlan, text: bytes, *, full: bool) -> list[DoubtfulRow]:
        rows = list(doubtful(chunk, plan, text, full=full))
        found.extend(row.key for row in rows)
        return rows

    monkeypatch.setattr(RowChunk, "doubtful", noted)
    return found


@contextmanager
def replicated(upstream: SQLServer, target: SQLServer, spark: SparkEngine, key: str, mode: str) -> Iterator[Validated]:
    """Rows with all values, replicated and compared."""
    declared, keys = KEYS[key]
    for server in (upstream, target):
        server.execute("CREATE DATABASE d", TABLE.format(declared))
    with validated(subtask(upstream, target, validator=QUICK), spark, mode) as running:
        rows = ", ".join(f"({one}, {VALUES[n % len(VALUES)]})" for n, one in enumerate(keys))
        upstream.execute(f"INSERT INTO d.t VALUES {rows}")
        running.wait_compared(upstream)
        yield running


@pytest.mark.parametrize("mode", ["full", "fast"])
@pytest.mark.parametrize("key", KEYS)
def test_right_rows_are_compared_as_a_whole(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, single: list[bytes], key: str, mode: str
) -> None:
    _are_compared_as_a_whole(mariadb_upstream, target, spark, single, key, mode)


@pytest.mark.parametrize("key", KEYS)
def test_mysql_writes_literals_as_mariadb_does(
    mariadb_upstream: MariaDBServer, mysql_upstream: MySQLServer, spark: SparkEngine, single: list[bytes], key: str
) -> None:
    _are_compared_as_a_whole(mariadb_upstream, mysql_upstream, spark, single, key, "full")


def _are_compared_as_a_whole(
    upstream: SQLServer, target: SQLServer, spark: SparkEngine, single: list[bytes], key: str, mode: str
) -> None:
    with replicated(upstream, target, spark, key, mode) as running:
        upstream.execute("UPDATE d.t SET tiny = 1 WHERE big IS NULL", "DELETE FROM d.t WHERE big = 0")
        running.wait_compared(upstream)
        assert running.errors() == []
        assert single == []


@pytest.mark.target_with("triggers")
@pytest.mark.parametrize("key", KEYS)
def test_one_row_that_differs_is_the_only_one_that_is_compared_by_itself(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, single: list[bytes], key: str
) -> None:
    with replicated(mariadb_upstream, target, spark, key, "full") as running:
        declared, keys = KEYS[key]
        is_last = f"NEW.{declared.split()[0]} = {keys[-1].split(', ')[0]}"
        target.execute(
            f"CREATE TRIGGER d.other BEFORE UPDATE ON d.t FOR EACH ROW SET NEW.tiny = NEW.tiny + ({is_last})"
        )
        mariadb_upstream.execute("UPDATE d.t SET tiny = 5")
        running.wait_compared(mariadb_upstream)
        assert [one.errorType for one in running.errors()] == ["Column data not matched"]
        assert len(single) == 1


@pytest.mark.target_with("triggers")
@pytest.mark.parametrize("mode", ["full", "fast"])
@pytest.mark.parametrize("key", KEYS)
def test_rows_that_differ_are_compared_one_by_one(
    mariadb_upstream: MariaDBServer, target: MariaDBServer, spark: SparkEngine, single: list[bytes], key: str, mode: str
) -> None:
    with replicated(mariadb_upstream, target, spark, key, mode) as running:
        target.execute("CREATE TRIGGER d.other BEFORE UPDATE ON d.t FOR EACH ROW SET NEW.tiny = NEW.tiny + 1")
        mariadb_upstream.execute("UPDATE d.t SET tiny = 5")
        running.wait_compared(mariadb_upstream)
        kinds = [one.errorType for one in running.errors()]
        assert set(kinds) == ({"Column data not matched"} if mode == "full" else set())
        assert len(single) == len(kinds)
