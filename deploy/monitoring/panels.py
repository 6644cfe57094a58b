"""Queries and panels that dashboards share."""

from __future__ import annotations

from typing import Any

from deploy.monitoring.grafana_json import Panel, Query

TASK = 'task=~"$task",source_id=~"$source"'
HERE = 'instance=~"$instance"'

Limits = tuple[tuple[float, str], ...]
#: For a number that should be 0: red from 1 on.
NONE: Limits = ((1, "red"),)
STAGES = ((1, "new"), (2, "running"), (3, "paused"), (4, "stopped"), (5, "finished"))
_REASON_COLORS = (
    ("source_idle", "green"),
    ("reading", "blue"),
    ("planning", "purple"),
    ("engine", "yellow"),
    ("target_slow", "orange"),
    ("ddl", "super-light-blue"),
    ("lock", "dark-blue"),
    ("held", "light-purple"),
    ("retry", "red"),
    ("stopped", "text"),
)


def rate(metric: str, labels: str = TASK, by: str = "task, source_id") -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def or_zero(label: str = "") -> str:
    """Ends a query whose series may be missing: it then gives a 0, with ``none`` as its ``label``."""
    return f' or on() label_replace(vector(0), "{label}", "none", "", "")' if label else " or on() vector(0)"


def mean(histogram: str, labels: str = TASK, by: str = "task, source_id") -> str:
    """The mean of a histogram's values; 0 while there are none."""
    return f"{rate(histogram + '_sum', labels, by)} / clamp_min({rate(histogram + '_count', labels, by)}, 1e-9)"


def quantile(histogram: str, quantile: float, labels: str = TASK) -> str:
    return f"histogram_quantile({quantile}, sum by (le) (rate({histogram}_bucket{{{labels}}}[$__rate_interval])))"


def stat(title: str, expr: str, unit: str = "none", text: str = "", limits: Limits = ()) -> Panel:
    return Panel(title, unit, (Query(expr),), text, kind="stat", width=4, height=4, limits=limits)


def shares(title: str, thread: str, text: str) -> Panel:
    """The parts of a thread's time: 100 % for any number of tasks."""
    labels = f'{TASK},thread="{thread}"'
    every = f"sum(rate(dm_syncer_thread_seconds_total{{{labels}}}[$__rate_interval]))"
    query = f"{rate('dm_syncer_thread_seconds_total', labels, 'stage')} / scalar({every})"
    return Panel(title, "percentunit", (Query(query, "{{stage}}"),), text, stacked=True, shares=True)


def distance(metric: str, labels: str, node: str, by: str) -> str:
    """The number of files that ``node`` is behind the source; 0 without series."""
    ends = (f'max by ({by}) ({metric}{{{labels},node="{end}"}})' for end in ("master", node))
    return f"{' - '.join(ends)}{or_zero(by.split(', ')[-1])}"


def panel(title: str, unit: str, expr: str, legend: str, text: str = "", **options: Any) -> Panel:
    """A panel of one query."""
    return Panel(title, unit, (Query(expr, legend),), text, **options)


def waits(title: str, labels: str = "") -> Panel:
    """What replications wait for; only reasons that occur now."""
    query = Query(f"sum by (reason) (dm_syncer_lag_reason{labels}) > 0", "{{reason}}")
    text = "How many replications (a task on a source) wait for each. source_idle: there is nothing to do."
    return Panel(title, "none", (query,), text, stacked=True, bars=True, counts=True, colors=_REASON_COLORS)


_TABLE_LABELS = "target_schema, target_table"
ROWS = TASK + ',type!="ddl"'
BUSIEST = f"topk(10, {rate('dm_syncer_finished_jobs_total', ROWS, _TABLE_LABELS)})"
_JOBS = rate("dm_syncer_job_seconds_total")
SPARKS_SHARE = f"({_JOBS} - {rate('dm_syncer_busy_seconds_total')}) / clamp_min({_JOBS}, 1e-9)"
