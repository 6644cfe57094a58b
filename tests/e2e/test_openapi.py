"""Hazard: a tool that drives DM by its OpenAPI meets other answers here, or a task loses its rules."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer, SQLServer
from deploy.local.process import WAIT_TIMEOUT, free_port, wait_until
from tests.harness.events import events_of
from tests.harness.openapi import ApiClient, api_source, api_task, part
from tests.harness.proxy import CountingProxy

#: Seconds in which a task is deleted although its target does not answer.
QUICK = 5.0


@pytest.fixture(scope="module")
def api_cluster() -> Iterator[Cluster]:
    with Cluster(2, master_extra="openapi = true") as cluster:
        yield cluster


@pytest.fixture
def api(api_cluster: Cluster) -> Iterator[ApiClient]:
    """The API of a cluster without sources; what a test creates is removed at its end."""
    client = ApiClient(api_cluster.master.port)
    yield client
    for task in client.ok("GET", "tasks")["data"]:
        client.ok("DELETE", f"tasks/{part(task['name'])}", force=True)
    for source in client.ok("GET", "sources")["data"]:
        name = part(source["source_name"])
        if source["relay_config"]["enable_relay"]:
            client.ok("POST", f"sources/{name}/relay/disable", {})
        client.ok("DELETE", f"sources/{name}", force=True)


def _seed(server: SQLServer) -> None:
    server.execute(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE shop.b (id INT PRIMARY KEY, v INT)",
        "INSERT INTO shop.a VALUES (1, 1)",
        "INSERT INTO shop.b VALUES (1, 1)",
    )


def _stage(api: ApiClient, task: str) -> str:
    return str(api.ok("GET", f"tasks/{task}/status")["data"][0]["stage"])


def _wait_unit(api: ApiClient, task: str, unit: str) -> None:
    def reached() -> bool:
        found = api.ok("GET", f"tasks/{task}/status")["data"]
        return bool(found) and all(one["stage"] == "Running" and one["unit"] == unit for one in found)

    wait_until(reached, f"task {task} is in {unit}", WAIT_TIMEOUT, step=0.3)


def _wait_rows(target: SQLServer, table: str, rows: list[Any]) -> None:
    def there() -> bool:
        return bool(target.execute(f"SELECT id, v FROM {table} ORDER BY id") == rows)

    wait_until(there, f"{table} has {rows}", WAIT_TIMEOUT, step=0.3)


def test_a_whole_migration(
    api: ApiClient, api_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    """One test, because each step needs those before: source, task, copy, replication, stop, update, delete."""
    _seed(mariadb_upstream)
    created = api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
    assert (created["source_name"], created["flavor"], created["task_name_list"]) == ("s1", "mariadb", [])
    assert api.ok("GET", "sources/s1/schemas") == ["shop"]
    assert api.ok("GET", "sources/s1/schemas/shop") == ["a", "b"]
    task = api_task(
        target,
        "t1",
        ["s1"],
        "shop",
        table_migrate_rule=[
            {
                "source": {"source_name": "s1", "schema": "shop", "table": "a"},
                "target": {"schema": "store", "table": "a"},
                "binlog_filter_rule": ["keep"],
            }
        ],
        binlog_filter_rule={"keep": {"ignore_event": ["delete"]}},
    )
    made = api.ok("POST", "tasks", {"task": task})
    assert made["task"]["table_migrate_rule"] == task["table_migrate_rule"]
    assert made["task"]["target_config"]["password"] == ""
    wait_until(lambda: _stage(api, "t1") == "Stopped", "the new task is stopped", WAIT_TIMEOUT)
    assert target.execute("SHOW DATABASES LIKE 'store'") == []
    api.ok("POST", "tasks/t1/start", {})
    _wait_unit(api, "t1", "Sync")
    mariadb_upstream.execute("INSERT INTO shop.a VALUES (2, 2)", "DELETE FROM shop.a WHERE id = 1")
    _wait_rows(target, "store.a", [(1, 1), (2, 2)])
    _structures(api, api_cluster)
    _stopped_and_updated(api, task, mariadb_upstream, target)
    api.ok("DELETE", "tasks/t1")
    assert target.execute("SHOW TABLES IN dm_meta LIKE 't1%'") == []
    assert api.ok("GET", "tasks") == {"total": 0, "data": []}


def _structures(api: ApiClient, cluster: Cluster) -> None:
    assert api.ok("GET", "tasks/t1/sources/s1/migrate_targets", table_pattern="a*") == {
        "total": 1,
        "data": [{"source_schema": "shop", "source_table": "a", "target_schema": "store", "target_table": "a"}],
    }
    cluster.ok("pause-task", "t1")
    base = "tasks/t1/sources/s1/schemas"
    assert api.ok("GET", base) == ["shop"]
    assert api.ok("GET", f"{base}/shop") == ["a"]
    shown = api.ok("GET", f"{base}/shop/a")
    assert "CREATE TABLE" in shown["schema_create_sql"]
    api.ok("PUT", f"{base}/shop/a", {"sql_content": shown["schema_create_sql"]})
    api.ok("PUT", f"{base}/shop/a", {"schema_source": "upstream"})
    api.ok("DELETE", f"{base}/shop/a")
    assert api.ok("GET", base) == []
    api.ok("POST", "tasks/t1/start", {})


def _stopped_and_updated(api: ApiClient, task: dict[str, Any], upstream: SQLServer, target: SQLServer) -> None:
    api.ok("POST", "tasks/t1/stop", {})
    assert _stage(api, "t1") == "Stopped"
    # Other tables, and no filter: nothing of the old rules may stay.
    changed = task | {
        "binlog_filter_rule": {},
        "table_migrate_rule": api_task(target, "t1", ["s1"], "shop")["table_migrate_rule"],
    }
    changed["target_config"] = changed["target_config"] | {"password": "******"}
    answer = api.ok("PUT", "tasks/t1", {"task": changed})
    assert answer["task"]["binlog_filter_rule"] == {}
    fixed = changed | {"meta_schema": "other"}
    assert api.refused("PUT", "tasks/t1", {"task": fixed})["error_code"] == 40081
    api.ok("POST", "tasks/t1/start", {})
    _wait_unit(api, "t1", "Sync")
    upstream.execute(
        "INSERT INTO shop.b VALUES (7, 7)", "DELETE FROM shop.a WHERE id = 2", "INSERT INTO shop.a VALUES (3, 3)"
    )
    target.execute(
        "CREATE DATABASE IF NOT EXISTS shop", "CREATE TABLE IF NOT EXISTS shop.b (id INT PRIMARY KEY, v INT)"
    )
    api.ok("POST", "tasks/t1/stop", {})


def test_a_paused_task_goes_on_by_its_new_rules(
    api: ApiClient, api_cluster: Cluster, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    _seed(mariadb_upstream)
    target.execute(
        "CREATE DATABASE new", "CREATE TABLE new.a (id INT PRIMARY KEY, v INT)", "INSERT INTO new.a VALUES (1, 1)"
    )
    api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
    rule = {"source": {"source_name": "s1", "schema": "shop", "table": "a"}, "target": {"schema": "old", "table": "a"}}
    task = api_task(
        target,
        "t1",
        ["s1"],
        "shop",
        table_migrate_rule=[rule | {"binlog_filter_rule": ["keep"]}],
        binlog_filter_rule={"keep": {"ignore_event": ["delete"]}},
    )
    api.ok("POST", "tasks", {"task": task})
    api.ok("POST", "tasks/t1/start", {})
    _wait_unit(api, "t1", "Sync")
    changed = task | {
        "table_migrate_rule": [rule | {"target": {"schema": "new", "table": "a"}}],
        "binlog_filter_rule": {},
    }
    running = api.refused("PUT", "tasks/t1", {"task": changed})
    assert api.ok("GET", "tasks/t1")["table_migrate_rule"] == task["table_migrate_rule"], running
    api_cluster.ok("pause-task", "t1")
    mariadb_upstream.execute("INSERT INTO shop.a VALUES (2, 2)", "DELETE FROM shop.a WHERE id = 1")
    fixed = changed | {"meta_schema": "other"}
    assert api.refused("PUT", "tasks/t1", {"task": fixed})["error_code"] == 40081
    api.ok("PUT", "tasks/t1", {"task": changed})
    api.ok("POST", "tasks/t1/start", {})
    _wait_rows(target, "new.a", [(2, 2)])
    assert target.execute("SELECT id, v FROM old.a") == [(1, 1)]
    noted = [(one.who, one.what.partition(" on ")[0], one.result) for one in events_of(api_cluster.master)]
    assert noted[:4] == [
        ("OpenAPI", "Start task t1", "done"),
        ("OpenAPI", "Update task t1", "done"),
        ("OpenAPI", "Update task t1", "failed"),
        ("gRPC (dmctl)", "Pause task t1", "done"),
    ]


def test_a_task_without_a_position_breaks_no_other_call(
    api: ApiClient, mariadb_upstream: MariaDBServer, target: SQLServer
) -> None:
    _seed(mariadb_upstream)
    api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
    without = api_task(target, "t1", ["s1"], "shop", task_mode="incremental")
    api.ok("POST", "tasks", {"task": without})
    api.ok("POST", "tasks", {"task": api_task(target, "t2", ["s1"], "shop")})
    shown = api.ok("GET", "tasks", with_status=True)["data"]
    assert [(one["name"], one["status_list"][0]["stage"]) for one in shown] == [("t1", "Stopped"), ("t2", "Stopped")]
    assert api.ok("GET", "tasks/t1")["source_config"]["source_conf"] == [{"source_name": "s1"}]
    both = api.ok("POST", "tasks/converters", {"task": without})
    assert api.ok("POST", "tasks/converters", {"task_config_file": both["task_config_file"]}) == both
    assert api.ok("POST", "tasks/templates/import", {"overwrite": True})["success_task_list"] == ["t1", "t2"]
    api.ok("DELETE", "tasks/templates/t1")
    api.ok("DELETE", "tasks/templates/t2")
    assert api.ok("GET", "sources/s1", with_status=True)["task_name_list"] == ["t1", "t2"]
    assert len(api.ok("GET", "tasks/t1/sources/s1/migrate_targets")["data"]) == 2
    api.ok("PUT", "tasks/t1", {"task": without | {"on_duplicate": "replace"}})


def test_sources(api: ApiClient, api_cluster: Cluster, mariadb_upstream: MariaDBServer) -> None:
    server = mariadb_upstream
    server.execute("CREATE USER IF NOT EXISTS 'api'@'%' IDENTIFIED BY 'p0''s:#'", "GRANT ALL ON *.* TO 'api'@'%'")
    api.ok(
        "POST",
        "sources",
        {"source": api_source(server, "s 1", user="api", password="p0's:#"), "worker_name": "worker2"},
    )
    name = part("s 1")
    (status,) = api.ok("GET", f"sources/{name}/status")["data"]
    assert status == {"source_name": "s 1", "worker_name": "worker2"}
    shown = api.ok("GET", f"sources/{name}", with_status=True)
    assert shown["password"] == "******"
    assert shown["status_list"] == [status]
    shown["purge"]["remain_space"] = 3
    updated = api.ok("PUT", f"sources/{name}", {"source": shown})
    assert updated["purge"]["remain_space"] == 3
    # The password is still the stored one.
    assert "mysql" not in api.ok("GET", f"sources/{name}/schemas")
    api.ok("POST", f"sources/{name}/transfer", {"worker_name": "worker1"})
    wait_until(
        lambda: api.ok("GET", f"sources/{name}/status")["data"][0]["worker_name"] == "worker1",
        "it has moved",
        WAIT_TIMEOUT,
    )
    api.ok("POST", f"sources/{name}/relay/enable", {"worker_name_list": ["worker1"]})
    assert api.ok("GET", "sources", enable_relay=True, with_status=True)["total"] == 1
    relay = api.ok("GET", f"sources/{name}/status")["data"][0]["relay_status"]
    assert relay["stage"] == "Running"
    assert api.refused("PUT", f"sources/{name}", {"source": shown})["error_code"] == 46025
    api.ok(
        "POST", f"sources/{name}/relay/purge", {"relay_binlog_name": relay["master_binlog"].split(",")[0].strip("(")}
    )
    api.ok("POST", f"sources/{name}/relay/disable", {"worker_name_list": ["worker1"]})
    api.ok("POST", f"sources/{name}/disable")
    assert api.ok("GET", f"sources/{name}")["enable"] is False
    api.ok("POST", f"sources/{name}/enable")
    assert api.ok("GET", f"sources/{name}")["enable"] is True
    api.ok("DELETE", f"sources/{name}")
    assert api.refused("GET", f"sources/{name}")["status"] == 404
    assert api.refused("DELETE", f"sources/{name}")["error_code"] == 46008


def test_a_disabled_source_runs_nothing(api: ApiClient, mariadb_upstream: MariaDBServer, target: SQLServer) -> None:
    _seed(mariadb_upstream)
    api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
    api.ok("POST", "tasks", {"task": api_task(target, "t1", ["s1"], "shop")})
    api.ok("POST", "tasks/t1/start", {})
    _wait_unit(api, "t1", "Sync")
    api.ok("POST", "sources/s1/disable")
    assert _stage(api, "t1") == "Stopped"
    assert api.refused("POST", "tasks/t1/start", {})["error_code"] == 46035
    mariadb_upstream.execute("INSERT INTO shop.a VALUES (5, 5)")
    api.ok("POST", "sources/s1/enable")
    _wait_rows(target, "shop.a", [(1, 1), (5, 5)])


def test_a_task_is_deleted_while_its_target_is_away(
    api: ApiClient, mariadb_upstream: MariaDBServer, target: SQLServer, tmp_path: Path
) -> None:
    _seed(mariadb_upstream)
    api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
    api.ok("POST", "tasks", {"task": api_task(target, "t1", ["s1"], "shop")})
    api.ok("POST", "tasks/t1/start", {})
    _wait_unit(api, "t1", "Sync")
    refused = api.refused("DELETE", "tasks/t1")
    assert "is not stopped" in refused["error_msg"]
    target.stop()
    try:
        api.ok("POST", "tasks/t1/stop", {})
        assert api.refused("DELETE", "tasks/t1")["error_code"] in (10001, 10002, 10003)
        assert api.ok("GET", "tasks/t1")["name"] == "t1"
        began = time.monotonic()
        api.ok("DELETE", "tasks/t1", force=True)
        assert time.monotonic() - began < QUICK
        assert api.refused("GET", "tasks/t1")["status"] == 404
    finally:
        target.start()


@pytest.mark.parametrize("running", [False, True], ids=["stopped", "running"])
def test_a_task_is_deleted_while_its_target_hangs(
    api: ApiClient, mariadb_upstream: MariaDBServer, target: SQLServer, running: bool
) -> None:
    _seed(mariadb_upstream)
    link = CountingProxy(target.port)
    try:
        api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
        task = api_task(target, "t1", ["s1"], "shop")
        task["target_config"]["port"] = link.port
        api.ok("POST", "tasks", {"task": task})
        api.ok("POST", "tasks/t1/start", {})
        _wait_unit(api, "t1", "Sync")
        if not running:
            api.ok("POST", "tasks/t1/stop", {})
        link.delay = 3600.0
        began = time.monotonic()
        api.ok("DELETE", "tasks/t1", force=True)
        assert time.monotonic() - began < QUICK
        assert api.refused("GET", "tasks/t1")["status"] == 404
    finally:
        link.close()


def test_templates_and_converters(api: ApiClient, mariadb_upstream: MariaDBServer, target: SQLServer) -> None:
    task = api_task(target, "draft", ["s1"], "shop")
    assert api.ok("POST", "tasks/templates", task)["name"] == "draft"
    assert "exists already" in api.refused("POST", "tasks/templates", task)["error_msg"]
    changed = api.ok("PUT", "tasks/templates/draft", task | {"task_mode": "full"})
    assert changed["task_mode"] == "full"
    assert api.ok("GET", "tasks/templates/draft") == changed
    assert api.ok("GET", "tasks/templates") == {"total": 1, "data": [changed]}
    api.ok("DELETE", "tasks/templates/draft")
    api.refused("GET", "tasks/templates/draft")
    _seed(mariadb_upstream)
    api.ok("POST", "sources", {"source": api_source(mariadb_upstream, "s1")})
    api.ok("POST", "tasks", {"task": api_task(target, "t1", ["s1"], "shop")})
    done = {"success_task_list": ["t1"], "failed_task_list": []}
    assert api.ok("POST", "tasks/templates/import", {"overwrite": False}) == done
    again = api.ok("POST", "tasks/templates/import", {"overwrite": False})
    assert [one["task_name"] for one in again["failed_task_list"]] == ["t1"]
    assert api.ok("POST", "tasks/templates/import", {"overwrite": True}) == done
    api.ok("DELETE", "tasks/templates/t1")
    both = api.ok("POST", "tasks/converters", {"task": task})
    assert api.ok("POST", "tasks/converters", {"task_config_file": both["task_config_file"]}) == both


def test_the_cluster(api: ApiClient, api_cluster: Cluster) -> None:
    (master,) = api.ok("GET", "cluster/masters")["data"]
    assert (master["name"], master["alive"], master["leader"]) == ("master1", True, True)
    workers = api.ok("GET", "cluster/workers")["data"]
    assert [(one["name"], one["bound_stage"]) for one in workers] == [("worker1", "free"), ("worker2", "free")]
    assert api.refused("DELETE", "cluster/workers/worker1")["error_code"] == 46005
    assert api.refused("DELETE", "cluster/masters/nobody")["error_code"] == 38048
    info = api.ok("GET", "cluster/info")
    assert info["cluster_id"] > 0
    topology = {"worker_topology_list": [{"name": "worker1", "host": "h", "port": 8262}]}
    assert api.ok("PUT", "cluster/info", topology) == {"cluster_id": info["cluster_id"], "topology": topology}
    assert api.ok("GET", "cluster/info")["topology"] == topology


def test_a_source_that_cannot_be_reached_or_has_no_usable_name_is_refused(
    api: ApiClient, mariadb_upstream: MariaDBServer
) -> None:
    source = api_source(mariadb_upstream, "s1") | {"port": free_port()}
    assert api.refused("POST", "sources", {"source": source})["error_code"] == 10001
    for outside in ("..", "../s1", "s/1"):
        assert api.refused("POST", "sources", {"source": source | {"source_name": outside}})["error_code"] == 20003
    assert api.ok("GET", "sources") == {"total": 0, "data": []}
