"""Dashboards as tables of panels, and their JSON as Grafana reads it from a file. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 8


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression; ``legend`` names its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """``unit`` is one of Grafana's; ``kind`` its type of panel. ``stacked``: series add up."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    text: str = ""
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """``variables``: name → the query of its values."""

    uid: str
    title: str
    variables: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


def as_json(dashboard: Dashboard) -> str:
    """The dashboard as Grafana reads it from a file."""
    found = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["dm"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables(dashboard.variables))},
        "links": [{"type": "dashboards", "tags": ["dm"], "title": "DM", "includeVars": True, "keepTime": True}],
        "panels": list(_panels(dashboard.rows)),
    }
    return json.dumps(found, indent=1) + "\n"


def _variables(variables: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    for name, query in variables:
        yield {
            "name": name, "type": "query", "datasource": _SOURCE, "query": {"query": query, "refId": name},
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
            "current": {"text": "All", "value": "$__all"},
        }  # fmt: skip


def _panels(rows: Sequence[tuple[str, tuple[Panel, ...]]]) -> Iterator[dict[str, Any]]:
    number = top = 0
    for title, panels in rows:
        number += 1
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": top, "w": _COLUMNS, "h": 1}}  # fmt: skip
        top, left = top + 1, 0
        for panel in panels:
            number += 1
            if left + panel.width > _COLUMNS:
                top, left = top + _HEIGHT, 0
            yield _panel(number, panel, {"x": left, "y": top, "w": panel.width, "h": _HEIGHT})
            left += panel.width
        top += _HEIGHT


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    targets = [
        {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": query.expr, "legendFormat": query.legend}
        for i, query in enumerate(panel.queries)
    ]
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.text, "datasource": _SOURCE,
        "gridPos": place, "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "custom": custom}, "overrides": []},
    }  # fmt: skip
