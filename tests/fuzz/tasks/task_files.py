"""A task's configuration as the file that dmctl takes. Pure."""

from __future__ import annotations

from typing import Any

import yaml

from pkg.config.model import SubTaskConfig
from pkg.rules.model import ExtractRule, RouteRule


def task_file(cfg: SubTaskConfig) -> str:
    """The YAML of a task with one source."""
    routes = {f"r{n}": _route(rule) for n, rule in enumerate(cfg.routes)}
    filters = {
        f"f{n}": _fields(rule, "schema_pattern table_pattern events action") for n, rule in enumerate(cfg.filters)
    }
    mappings = {f"m{n}": _fields(rule, _MAPPING) for n, rule in enumerate(cfg.column_mappings)}
    expressions = {f"e{n}": _fields(rule, _EXPRESSIONS) for n, rule in enumerate(cfg.expression_filters)}
    instance = {
        "source-id": cfg.source_id,
        **_meta(cfg),
        "block-allow-list": "mine",
        "route-rules": list(routes),
        "filter-rules": list(filters),
        "column-mapping-rules": list(mappings),
        "expression-filters": list(expressions),
        "mydumper": {"threads": cfg.mydumper.threads},
        "loader": {"pool-size": cfg.loader.pool_size},
        "syncer": _fields(cfg.syncer, "worker_count safe_mode compact multiple_rows"),
    }
    task = {
        "name": cfg.name,
        "task-mode": cfg.task_mode,
        "shard-mode": cfg.shard_mode,
        # What a history does to a table is its own business.
        "ignore-checking-items": ["all"],
        "target-database": {"host": cfg.to.host, "port": cfg.to.port, "user": cfg.to.user, "password": ""},
        "mysql-instances": [instance],
        "routes": routes,
        "filters": filters,
        "column-mappings": mappings,
        "expression-filter": expressions,
        "block-allow-list": {"mine": {"do-dbs": list(cfg.block_allow_list.do_dbs)}},
    }
    return yaml.safe_dump({key: value for key, value in task.items() if value}, allow_unicode=True)


_MAPPING = "schema_pattern table_pattern target_column expression arguments"
_EXPRESSIONS = "schema table insert_value_expr update_old_value_expr update_new_value_expr delete_value_expr"


def _fields(rule: object, names: str) -> dict[str, Any]:
    """These fields, as keys of a task file; without those that are empty or not set."""
    found = {name.replace("_", "-"): getattr(rule, name) for name in names.split()}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found.items()
        if value is not None and value not in ("", ())
    }


def _meta(cfg: SubTaskConfig) -> dict[str, Any]:
    """Where an incremental task begins."""
    if cfg.meta is None:
        return {}
    if cfg.enable_gtid:
        return {"meta": {"binlog-gtid": cfg.meta.binlog_gtid}}
    return {"meta": {"binlog-name": cfg.meta.binlog_name, "binlog-pos": cfg.meta.binlog_pos}}


def _route(rule: RouteRule) -> dict[str, Any]:
    found = _fields(rule, "schema_pattern table_pattern target_schema target_table")
    extracts: dict[str, ExtractRule | None] = {
        "table": rule.extract_table,
        "schema": rule.extract_schema,
        "source": rule.extract_source,
    }
    for name, extract in extracts.items():
        if extract is not None:
            found[f"extract-{name}"] = {f"{name}-regexp": extract.regexp, "target-column": extract.target_column}
    return found
