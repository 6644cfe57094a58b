"""The queries of the dashboards, as Grafana sends them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from deploy.monitoring.grafana_json import Dashboard, Panel, Query

MONITORING = Path(__file__).resolve().parents[2] / "deploy" / "monitoring"


def queries(dashboard: Dashboard) -> Iterator[tuple[Panel, Query]]:
    """Each query with its panel."""
    for _, panels in dashboard.rows:
        for panel in panels:
            yield from ((panel, query) for query in panel.queries)


def substituted(expr: str, interval: str = "1m") -> str:
    """The expression with all values of every variable chosen."""
    expr = expr.replace("$__rate_interval", interval)
    for name in ("task", "source", "instance"):
        expr = expr.replace(f'"${name}"', '".+"')
    return expr
