"""Prometheus over a cluster, with the project's configuration and rules."""

from __future__ import annotations

from pathlib import Path

import yaml

from deploy.local.cluster import Cluster
from tests.monitoring.queries import MONITORING


def scrape_config(base: Path, cluster: Cluster, interval: str) -> Path:
    """Our file with the cluster's addresses and another interval."""
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(MONITORING / "rules" / "*.yml")]
    addresses = {
        "dm-master": [cluster.master.address],
        "dm-worker": [f"127.0.0.1:{worker.port}" for worker in cluster.workers],
    }
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": addresses[job["job_name"]]}]
    path = base / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path
