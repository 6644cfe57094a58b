"""Hazard: a cutover is called ready while something is missing, or is never called ready."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, MySQLServer, SQLServer
from deploy.local.process import HarnessError, wait_until
from tests.harness.cutovers import checked, writing

TASK = """
name: task
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: one, block-allow-list: app}}]
block-allow-list: {{app: {{do-dbs: [app]}}}}
"""


def _verdicts(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: one["verdict"] for name, one in checks.items() if name}


def _start(cluster: Cluster, upstream: SQLServer, target: MariaDBServer) -> None:
    upstream.execute(
        "CREATE DATABASE app",
        "CREATE TABLE app.parent (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), KEY by_name (name))",
        "CREATE TABLE app.child (id INT PRIMARY KEY, parent INT, CHECK (id > 0),"
        " FOREIGN KEY (parent) REFERENCES app.parent (id) ON DELETE CASCADE)",
        "INSERT INTO app.parent (name) VALUES ('a'), ('b')",
        "INSERT INTO app.child VALUES (1, 1)",
    )
    cluster.add_source(upstream, "one")
    cluster.ok("start-task", cluster.write_task(TASK.format(port=target.port)))
    cluster.wait_stage("task", "Running", unit="Sync")
    cluster.wait_synced("task")


@pytest.mark.timeout(600)
def test_each_thing_that_is_missing_is_named_until_it_is_fixed(
    free_cluster: Cluster, mariadb_upstream: MariaDBServer, target: MariaDBServer
) -> None:
    upstream = mariadb_upstream
    _start(free_cluster, upstream, target)
    upstream.execute(
        "CREATE VIEW app.names AS SELECT name FROM app.parent",
        "CREATE TRIGGER app.log_it BEFORE INSERT ON app.child FOR EACH ROW SET @rows = 1",
        "CREATE PROCEDURE app.nothing() SELECT 1",
        "CREATE USER shop@localhost",
        "ALTER TABLE app.parent AUTO_INCREMENT = 1000",
    )
    target.execute("ALTER TABLE app.parent DROP KEY by_name")
    free_cluster.wait_synced("task")
    with upstream.connect() as conn, conn.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO app.parent (name) VALUES ('c')")
        checks = checked(free_cluster)
        assert checks["transactions"]["verdict"] == "no"
        conn.rollback()
    assert not checks[""]["passed"]
    shown = {name: "\n".join(checks[name]["evidence"]) for name in checks if name}
    assert "read_only is OFF" in shown["read-only"]
    assert "by_name" in shown["indexes"]
    assert "must be 1001" in shown["auto-increment"]  # the rolled back row had 1000
    for missing in ("view `app`.`names`", "trigger `app`.`log_it`", "procedure `app`.`nothing`"):
        assert missing in shown["objects"]
    assert "'shop'@'localhost'" in shown["users"]
    assert checks["validator"]["verdict"] == checks["diff"]["verdict"] == "unknown"

    upstream.execute("SET GLOBAL read_only = 1")
    try:
        target.execute(
            "ALTER TABLE app.parent ADD KEY by_name (name)",
            checks["auto-increment"]["remedy"].removeprefix("on the target: "),
        )
        free_cluster.wait_synced("task")
        free_cluster.ok("diff", "start", "task")
        wait_until(
            lambda: free_cluster.dmctl("diff", "status", "task")["verdict"] != "running", "the comparison has ended"
        )
        fixed = checked(free_cluster, "objects", "users", "validator", "settings", "way-back")
    finally:
        upstream.execute("SET GLOBAL read_only = 0")
    wrong = {name: one["evidence"] for name, one in fixed.items() if name and one["verdict"] == "no"}
    assert fixed["diff"]["verdict"] == "yes", fixed["diff"]
    assert set(wrong) <= {"objects", "users", "settings", "way-back"}, wrong
    assert fixed[""]["passed"], fixed


@pytest.mark.timeout(600)
def test_a_mysql_upstream_that_is_written_to_is_not_quiet(
    free_cluster: Cluster, mysql_upstream: MySQLServer, target: MariaDBServer
) -> None:
    _start(free_cluster, mysql_upstream, target)
    quiet = _verdicts(checked(free_cluster))
    assert (quiet["quiet"], quiet["applied"], quiet["tables"], quiet["checks"]) == ("yes", "yes", "yes", "yes")
    assert quiet["replication"] == quiet["foreign-keys"] == quiet["transactions"] == "yes"
    with writing(mysql_upstream, "INSERT INTO app.parent (name) VALUES ('x')"):
        assert _verdicts(checked(free_cluster))["quiet"] == "no"


def test_a_task_that_is_not_there_is_an_error(free_cluster: Cluster) -> None:
    with pytest.raises(HarnessError, match="task nothing has no source or not exist"):
        free_cluster.dmctl_text("cutover", "check", "nothing")
