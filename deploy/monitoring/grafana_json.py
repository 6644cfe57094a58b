"""Dashboards as tables of panels, and their JSON as Grafana reads it from a file. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS = 24
#: A wide band of colour for values at each moment, without lines between.
_BARS = {"drawStyle": "bars", "lineWidth": 0, "barWidthFactor": 1, "fillOpacity": 80}


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression; ``legend`` names its series."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """``unit`` is one of Grafana's; ``kind`` its panel type. ``stacked``: series add up; ``bars``: as bands of
    ``colors`` (series → colour). ``spans``: lines connect over times without a value. ``counts``: whole numbers from 0;
    ``shares``: parts of 1. ``names``: the names of numbers. ``limits``: the colour from each value on."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    text: str = ""
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    bars: bool = False
    spans: bool = False
    counts: bool = False
    shares: bool = False
    names: tuple[tuple[int, str], ...] = ()
    limits: tuple[tuple[float, str], ...] = ()
    colors: tuple[tuple[str, str], ...] = ()


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
        top, left, height = top + 1, 0, 0
        for panel in panels:
            number += 1
            if left + panel.width > _COLUMNS:
                top, left, height = top + height, 0, 0
            yield _panel(number, panel, {"x": left, "y": top, "w": panel.width, "h": panel.height})
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _panel(number: int, panel: Panel, position: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": query.expr, "legendFormat": query.legend}
        for i, query in enumerate(panel.queries)
    ]
    overrides = [
        {"matcher": {"id": "byName", "options": series},
         "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}]}
        for series, color in panel.colors
    ]  # fmt: skip
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.text, "datasource": _SOURCE,
        "gridPos": position, "targets": targets, "fieldConfig": {"defaults": _defaults(panel), "overrides": overrides},
        "options": {"graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}} if panel.kind == "stat" else {},
    }  # fmt: skip


def _defaults(panel: Panel) -> dict[str, Any]:
    custom: dict[str, Any] = {"fillOpacity": 30} if panel.stacked else {}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    if panel.bars:
        custom |= _BARS
    if panel.spans:
        custom["spanNulls"] = True
    found: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.counts or panel.names:
        # With a unit, a large number is shown in K or M and needs decimals.
        found |= {"decimals": 0} if panel.unit == "none" else {}
    if panel.counts:
        # Otherwise an axis with only zeros reaches to 100.
        custom["axisSoftMax"] = 1
    if panel.shares:
        found["max"] = 1
    if panel.names:
        options = {str(value): {"text": text, "index": index} for index, (value, text) in enumerate(panel.names)}
        found["mappings"] = [{"type": "value", "options": options}]
        found |= {"min": panel.names[0][0], "max": panel.names[-1][0]}
    if panel.limits:
        steps = [{"value": None, "color": "green"}]
        found["thresholds"] = {
            "mode": "absolute", "steps": steps + [{"value": value, "color": color} for value, color in panel.limits],
        }  # fmt: skip
    return {**found, "custom": custom}
