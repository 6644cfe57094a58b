"""Hazard: a dashboard of a running cluster stays empty, or a rule does not find its metric."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from deploy.local.cluster import Cluster
from deploy.local.mysql import MariaDBServer
from deploy.local.process import WAIT_TIMEOUT, wait_until
from deploy.monitoring.dashboards import DASHBOARDS
from tests.monitoring.prometheus import Prometheus
from tests.monitoring.queries import MONITORING, queries, substituted
from tests.monitoring.watched import scrape_config

TASK = """\
name: watched
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: root, password: ''}}
mysql-instances: [{{source-id: s1, block-allow-list: mine}}]
block-allow-list: {{mine: {{do-dbs: [watched]}}}}
"""


@pytest.fixture(scope="module")
def prometheus(
    _mariadb_upstream: MariaDBServer, _target: MariaDBServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """Prometheus with our rules, over a cluster that replicates all the time."""
    base = tmp_path_factory.mktemp("watched")
    with Cluster(1, base=base) as cluster:
        _start(cluster, _mariadb_upstream, _target)
        writing = threading.Event()
        writer = threading.Thread(target=_write, args=(_mariadb_upstream, writing), daemon=True)
        writer.start()
        server = Prometheus(base, scrape_config(base, cluster, "1s"))
        server.start()
        try:
            yield server
        finally:
            writing.set()
            writer.join(WAIT_TIMEOUT)
            server.stop(seconds=15)


def _start(cluster: Cluster, upstream: MariaDBServer, target: MariaDBServer) -> None:
    upstream.execute("CREATE DATABASE watched", "CREATE TABLE watched.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
    cluster.add_source(upstream, "s1")
    cluster.ok("start-relay", "-s", "s1")
    cluster.ok("start-task", cluster.write_task(TASK.format(port=target.port)))
    cluster.wait_stage("watched", "Running", unit="Sync")
    upstream.execute("ALTER TABLE watched.t ADD COLUMN w INT")


def _write(upstream: MariaDBServer, end: threading.Event) -> None:
    while not end.wait(0.2):
        upstream.execute("INSERT INTO watched.t (v) VALUES (1), (2)", "UPDATE watched.t SET v = v + 1 LIMIT 3")


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.uid)
def test_every_query_of_a_dashboard_has_data(prometheus: Prometheus, dashboard: object) -> None:
    for panel, query in queries(dashboard):  # type: ignore[arg-type]
        expr = substituted(query.expr, "15s")
        wait_until(lambda expr=expr: bool(prometheus.values(expr)), f"{panel.title}: data for {expr}", 60, step=0.5)  # type: ignore[misc]


def test_every_rule_is_evaluated_and_a_healthy_cluster_has_no_alert_of_its_own(prometheus: Prometheus) -> None:
    def rules() -> list[dict[str, str]]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in rules()), lambda: str(rules()), 60, step=0.5)
    assert len(rules()) == (MONITORING / "rules" / "dm.yml").read_text().count("- alert:")
    # The disk of the machine may be as full as it likes.
    firing = {rule["name"] for rule in rules() if rule["state"] == "firing"} - {"DM_remain_storage_of_relay_log"}
    assert firing == set()


def test_every_series_that_the_page_names_without_a_condition_is_there(prometheus: Prometheus) -> None:
    """The scrape itself: what the product shows, Prometheus takes."""
    assert {one["metric"]["job"] for one in prometheus.values("up == 1")} == {"dm-master", "dm-worker"}
    assert not prometheus.values("up == 0")
