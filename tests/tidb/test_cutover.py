"""Hazard: a cutover to TiDB certifies what is not so, or promises a way back that TiDB can't give."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer
from deploy.local.process import wait_until
from deploy.local.tidb import TiDBServer
from tests.harness.accounts import proves_that_the_commands_give_all_rights
from tests.harness.cutovers import carried_out, failure, late_writes, read_only, start
from tests.harness.structures import proves, table_with


@pytest.mark.core
@pytest.mark.timeout(600)
def test_a_cutover_to_tidb_is_certified_and_has_no_way_back(
    mysql_upstream: MySQLServer, tidb: TiDBServer, tmp_path: Path
) -> None:
    with Cluster(workers=1, base=tmp_path) as cluster:
        start(cluster, {"one": mysql_upstream}, tidb)
        with read_only(mysql_upstream):
            certificate = carried_out(cluster, tmp_path)
        assert [(one["table"], one["rows"], one["undigested"]) for one in certificate["tables"]] == [("orders", 3, 0)]
        assert "position" not in certificate["target"]
        assert "everything is as it was" in cluster.dmctl_text("cutover", "verify", certificate["path"])
        refused = failure(cluster, "cutover", "reverse", "task")
        assert "the target writes no binlog" in refused
        tidb.execute("UPDATE app.orders SET price = 2 WHERE id = 1")
        assert "`app`.`orders`: different since" in failure(cluster, "cutover", "verify", certificate["path"])
        tidb.execute("UPDATE app.orders SET price = 1.5 WHERE id = 1")
        tidb.execute("INSERT INTO app.orders (name) VALUES ('of the application')")
        assert tidb.execute("SELECT MAX(id) >= 500 FROM app.orders") == [(1,)]
        mysql_upstream.execute("DELETE FROM app.orders WHERE id = 2")
        wait_until(lambda: bool(late_writes(cluster)), "the write is listed", 60, step=0.1)


@pytest.mark.timeout(300)
def test_accounts_get_their_rights_in_tidb(mysql_upstream: MySQLServer, tidb: TiDBServer) -> None:
    proves_that_the_commands_give_all_rights(mysql_upstream, tidb)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("check", "here", "other", "why"),
    [
        ("indexes", "UNIQUE KEY k (a)", "KEY other (a)", "lacks UNIQUE k (`a`)"),
        ("indexes", "KEY k (s(5))", "KEY k2 (s(6))", "lacks k (`s`(5))"),
        ("foreign-keys", "FOREIGN KEY (a) REFERENCES {}.parent (id) ON DELETE CASCADE",
         "FOREIGN KEY (a) REFERENCES {}.parent (id)", "has other actions than ON DELETE CASCADE"),
    ],
)  # fmt: skip
def test_structures_that_tidb_lacks_are_named_and_mended(
    mysql_upstream: MySQLServer, tidb: TiDBServer, check: str, here: str, other: str, why: str
) -> None:
    proves(check, (mysql_upstream, tidb), table_with(here, "app"), table_with(other, "moved"), why)


@pytest.mark.timeout(300)
def test_constraints_that_tidb_ignores_are_named_and_mended(mariadb_upstream: MariaDBServer, tidb: TiDBServer) -> None:
    element = "CONSTRAINT c CHECK (a > 0 AND s <> 'x')"
    try:
        proves(
            "checks",
            (mariadb_upstream, tidb),
            table_with(element, "app"),
            table_with(element, "moved"),
            "lacks CHECK c",
        )
    finally:
        tidb.execute("SET GLOBAL tidb_enable_check_constraint = OFF")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "clause",
    [
        "BY HASH (id) PARTITIONS 3",
        "BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
        "BY LIST COLUMNS (id) (PARTITION p0 VALUES IN (1, 2), PARTITION p1 VALUES IN (3))",
    ],
)
def test_partitions_that_tidb_lacks_are_named_and_mended(
    mysql_upstream: MySQLServer, tidb: TiDBServer, clause: str
) -> None:
    table = "CREATE TABLE {}.t (id INT PRIMARY KEY, a INT)"
    made = f"{table.format('app')} PARTITION {clause}"
    proves("partitions", (mysql_upstream, tidb), made, table.format("moved"), "is not partitioned, but by")
