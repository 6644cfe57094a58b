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
        f"f{n}": {
            "schema-pattern": rule.schema_pattern,
            "table-pattern": rule.table_pattern,
            "events": list(rule.events),
            "action": rule.action,
        }
        for n, rule in enumerate(cfg.filters)
    }
    mappings = {
        f"m{n}": {
            "schema-pattern": rule.schema_pattern,
            "table-pattern": rule.table_pattern,
            "target-column": rule.target_column,
            "expression": rule.expression,
            "arguments": list(rule.arguments),
        }
        for n, rule in enumerate(cfg.column_mappings)
    }
    expressions = {
        f"e{n}": {
            key.replace("_", "-"): value
            for key in ("schema", "table", "insert_value_expr", "update_old_value_expr", "update_new_value_expr",
                        "delete_value_expr")
            if (value := getattr(rule, key))
        }
        for n, rule in enumerate(cfg.expression_filters)
    }  # fmt: skip
    sync = cfg.syncer
    chosen = {"compact": sync.compact, "multiple-rows": sync.multiple_rows}
    instance: dict[str, Any] = {
        "source-id": cfg.source_id,
        "block-allow-list": "mine",
        "route-rules": list(routes),
        "filter-rules": list(filters),
        "column-mapping-rules": list(mappings),
        "expression-filters": list(expressions),
        "mydumper": {"threads": cfg.mydumper.threads},
        "loader": {"pool-size": cfg.loader.pool_size},
        "syncer": {
            "worker-count": sync.worker_count,
            "safe-mode": sync.safe_mode,
            **{key: value for key, value in chosen.items() if value is not None},
        },
    }
    if cfg.meta is not None:
        instance["meta"] = {"binlog-name": cfg.meta.binlog_name, "binlog-pos": cfg.meta.binlog_pos}
        if cfg.enable_gtid:
            instance["meta"] = {"binlog-gtid": cfg.meta.binlog_gtid}
    task = {
        "name": cfg.name,
        "task-mode": cfg.task_mode,
        **({"shard-mode": cfg.shard_mode} if cfg.shard_mode else {}),
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
    return yaml.safe_dump({key: value for key, value in task.items() if value != {}}, allow_unicode=True)


def _route(rule: RouteRule) -> dict[str, Any]:
    found: dict[str, Any] = {
        "schema-pattern": rule.schema_pattern,
        "target-schema": rule.target_schema,
        **({"table-pattern": rule.table_pattern} if rule.table_pattern else {}),
        **({"target-table": rule.target_table} if rule.target_table else {}),
    }
    extracts: dict[str, ExtractRule | None] = {
        "table": rule.extract_table,
        "schema": rule.extract_schema,
        "source": rule.extract_source,
    }
    for name, extract in extracts.items():
        if extract is not None:
            found[f"extract-{name}"] = {f"{name}-regexp": extract.regexp, "target-column": extract.target_column}
    return found
