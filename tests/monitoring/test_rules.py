"""Hazard: an alert that cannot fire, or that Prometheus refuses to load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.local.process import HarnessError
from deploy.monitoring.dashboards import DASHBOARDS
from tests.monitoring.prometheus import promtool
from tests.monitoring.queries import MONITORING, queries, substituted


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", MONITORING / "prometheus.yml")


def test_every_alert_is_quiet_before_its_time_and_fires_then() -> None:
    assert "SUCCESS" in promtool("test", "rules", "dm_test.yml", cwd=MONITORING / "rules" / "tests")


def test_the_test_of_the_rules_would_fail_for_another_rule(tmp_path: Path) -> None:
    rules = (MONITORING / "rules" / "dm.yml").read_text()
    assert "== 3" in rules
    (tmp_path / "tests").mkdir()
    (tmp_path / "dm.yml").write_text(rules.replace("== 3", "== 4"))
    (tmp_path / "tests" / "dm_test.yml").write_text((MONITORING / "rules" / "tests" / "dm_test.yml").read_text())
    with pytest.raises(HarnessError, match="DM_task_state"):
        promtool("test", "rules", "dm_test.yml", cwd=tmp_path / "tests")


def test_every_query_of_the_dashboards_is_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"query:{number}", "expr": substituted(query.expr)}
        for number, (_, query) in enumerate((panel, query) for one in DASHBOARDS for panel, query in queries(one))
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", file)
