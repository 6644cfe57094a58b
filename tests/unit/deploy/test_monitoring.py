"""Hazard: rules and dashboards ask for what nobody exports, or are not what the generator makes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.monitoring.dashboards import DASHBOARDS, FOLDER, main
from deploy.monitoring.grafana_json import Dashboard

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
GROUPS = yaml.safe_load((MONITORING / "rules" / "dm.yml").read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
#: DM's alerts; the names are its own, with its spelling.
DM = {
    "DM_master_all_down", "DM_worker_offline", "DM_pending_DDL", "DM_DDL_error", "DM_task_state",
    "DM_remain_storage_of_relay_log", "DM_relay_process_exits_with_error", "DM_relay_log_data_corruption",
    "DM_fail_to_read_binlog_from_master", "DM_fail_to_write_relay_log", "DM_binlog_file_gap_between_master_relay",
    "DM_binlog_file_gap_between_master_syncer", "DM_binlog_file_gap_between_relay_syncer",
    "DM_dump_process_exists_with_error", "DM_load_process_exists_with_error", "DM_sync_process_exists_with_error",
}  # fmt: skip
KINDS = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
#: Of Prometheus itself, and of etcd.
OTHERS = {"up", "etcd_disk_wal_fsync_duration_seconds_bucket"}


def exported() -> set[str]:
    """The names of all series (docs/metrics.md, which a test keeps true)."""
    parts = ("_bucket", "_sum", "_count")
    return OTHERS | {name + part for name, kind in KINDS.items() for part in (parts if kind == "histogram" else ("",))}


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in ALERTS.values())
    for dashboard in DASHBOARDS:
        yield from (query.expr for _, panels in dashboard.rows for panel in panels for query in panel.queries)
        yield from (query for _, query in dashboard.variables)


def test_only_names_that_are_exported_are_asked_for() -> None:
    found = {name for expr in expressions() for name in re.findall(r"\b(?:dm|etcd)_\w+|\bup\b", expr)}
    assert found - exported() == set()
    assert len(found) > 40


def test_dms_alerts_are_all_there_and_each_says_what_to_do() -> None:
    assert ALERTS.keys() > DM
    for name, rule in ALERTS.items():
        assert rule["labels"]["level"] in ("emergency", "critical", "warning"), name
        assert all(rule["annotations"][text].strip() for text in ("summary", "action")), name
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        by = re.search(r"by \(([\w, ]+)\)", rule["expr"])
        if by and "offset" not in rule["expr"]:
            assert used <= set(by[1].split(", ")), name


def test_every_alert_has_a_test() -> None:
    tests = yaml.safe_load((MONITORING / "rules" / "tests" / "dm_test.yml").read_text())["tests"]
    for name in ALERTS:
        cases = [case for test in tests for case in test["alert_rule_test"] if case["alertname"] == name]
        assert {bool(case["exp_alerts"]) for case in cases} == {True, False}, name


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.uid)
def test_the_files_are_what_make_dashboards_writes(dashboard: Dashboard, tmp_path: Path) -> None:
    main(tmp_path)
    made = (tmp_path / f"{dashboard.uid}.json").read_text()
    assert (FOLDER / f"{dashboard.uid}.json").read_text() == made, "run `make dashboards`"
    panels = json.loads(made)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another"
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_compose_profile_mounts_what_is_there_and_its_targets_exist() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for service in ("prometheus", "grafana"):
        mounts = [volume.split(":")[0] for volume in services[service]["volumes"] if volume.startswith("./")]
        assert mounts
        assert all((ROOT / mount).exists() for mount in mounts)
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    targets = [target for job in config["scrape_configs"] for target in job["static_configs"][0]["targets"]]
    for target in targets:
        name, port = target.split(":")
        assert f"{name}:{port}" in str(services[name]["command"]), f"{target} is no address of the compose file"
    provider = yaml.safe_load((MONITORING / "grafana/provisioning/dashboards/dm.yml").read_text())["providers"][0]
    assert f"./deploy/monitoring/grafana/dashboards:{provider['options']['path']}:ro" in services["grafana"]["volumes"]
    source = yaml.safe_load((MONITORING / "grafana/provisioning/datasources/prometheus.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
