"""Which keys source and task files may have, in the order in which we write them. Pure data.

One tree serves both ways: reading refuses what is not in it, writing follows its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or a list of scalars; the reader of the key checks which."""


@dataclass(frozen=True, slots=True)
class Free:
    """A mapping whose keys are the user's own, such as session variables."""


@dataclass(frozen=True, slots=True)
class Named:
    """A mapping from the user's names to ``shape``."""

    shape: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Items:
    """A list of ``shape``."""

    shape: Mapping[str, Shape]


Shape: TypeAlias = "Leaf | Free | Named | Items | Mapping[str, Shape]"
_LEAF = Leaf()


def _leaves(*names: str) -> dict[str, Shape]:
    return dict.fromkeys(names, _LEAF)


#: Keys whose values are never shown.
SECRET_KEYS = frozenset({"password", "ssl-key-bytes", "ssl-key-base64"})

SECURITY: Mapping[str, Shape] = _leaves(
    "ssl-ca", "ssl-cert", "ssl-key", "cert-allowed-cn", "ssl-ca-bytes", "ssl-cert-bytes", "ssl-key-bytes",
    "ssl-ca-base64", "ssl-cert-base64", "ssl-key-base64",
)  # fmt: skip

DATABASE: Mapping[str, Shape] = {
    **_leaves("host", "port", "user", "password", "max-allowed-packet"),
    "session": Free(),
    "security": SECURITY,
}

FILTER: Mapping[str, Shape] = _leaves("schema-pattern", "table-pattern", "events", "sql-pattern", "action")

SOURCE: Mapping[str, Shape] = {
    **_leaves(
        "enable", "enable-gtid", "auto-fix-gtid", "relay-dir", "meta-dir", "flavor", "charset", "enable-relay",
        "relay-binlog-name", "relay-binlog-gtid", "source-id",
    ),
    "from": DATABASE,
    "purge": _leaves("interval", "expires", "remain-space"),
    "checker": _leaves(
        "check-enable", "backoff-rollback", "backoff-max", "check-interval", "backoff-min", "backoff-jitter",
        "backoff-factor",
    ),
    "server-id": _LEAF,
    "tracer": Free(),
    "case-sensitive": _LEAF,
    "filters": Items(FILTER),
}  # fmt: skip

ROUTE: Mapping[str, Shape] = {
    **_leaves("schema-pattern", "table-pattern", "target-schema", "target-table"),
    "extract-table": _leaves("table-regexp", "target-column"),
    "extract-schema": _leaves("schema-regexp", "target-column"),
    "extract-source": _leaves("source-regexp", "target-column"),
}

EXPRESSION_FILTER: Mapping[str, Shape] = _leaves(
    "schema", "table", "insert-value-expr", "update-old-value-expr", "update-new-value-expr", "delete-value-expr"
)

COLUMN_MAPPING: Mapping[str, Shape] = _leaves(
    "schema-pattern", "table-pattern", "source-column", "target-column", "expression", "arguments",
    "create-table-query",
)  # fmt: skip

_TABLE_NAMES = Items(_leaves("db-name", "tbl-name"))
BLOCK_ALLOW_LIST: Mapping[str, Shape] = {
    "do-tables": _TABLE_NAMES,
    "do-dbs": _LEAF,
    "ignore-tables": _TABLE_NAMES,
    "ignore-dbs": _LEAF,
}

MYDUMPER: Mapping[str, Shape] = _leaves(
    "mydumper-path", "threads", "chunk-filesize", "statement-size", "rows", "where", "skip-tz-utc", "extra-args"
)

LOADER: Mapping[str, Shape] = _leaves(
    "pool-size", "dir", "sorting-dir-physical", "import-mode", "on-duplicate", "on-duplicate-logical",
    "on-duplicate-physical", "disk-quota-physical", "checksum-physical", "analyze", "range-concurrency",
    "compress-kv-pairs", "pd-addr",
)  # fmt: skip

SYNCER: Mapping[str, Shape] = _leaves(
    "meta-file", "worker-count", "batch", "queue-size", "checkpoint-flush-interval", "compact", "multiple-rows",
    "max-retry", "auto-fix-gtid", "enable-gtid", "disable-detect", "safe-mode", "safe-mode-duration",
    "enable-ansi-quotes",
)  # fmt: skip

VALIDATOR: Mapping[str, Shape] = _leaves(
    "mode", "worker-count", "validate-interval", "check-interval", "row-error-delay", "meta-flush-interval",
    "batch-query-size", "max-pending-row-size", "max-pending-row-count",
)  # fmt: skip

INSTANCE: Mapping[str, Shape] = {
    "source-id": _LEAF,
    "meta": _leaves("binlog-name", "binlog-pos", "binlog-gtid"),
    **_leaves(
        "filter-rules", "column-mapping-rules", "route-rules", "expression-filters", "black-white-list",
        "block-allow-list", "mydumper-config-name", "mydumper-thread",
    ),
    "mydumper": MYDUMPER,
    **_leaves("loader-config-name", "loader-thread"),
    "loader": LOADER,
    **_leaves("syncer-config-name", "syncer-thread"),
    "syncer": SYNCER,
    "validator-config-name": _LEAF,
}  # fmt: skip

TASK: Mapping[str, Shape] = {
    **_leaves(
        "name", "task-mode", "is-sharding", "shard-mode", "strict-optimistic-shard-mode", "ignore-checking-items",
        "strict-rules", "meta-schema", "enable-heartbeat", "heartbeat-update-interval", "heartbeat-report-interval",
        "timezone", "case-sensitive", "collation_compatible",
    ),
    "target-database": DATABASE,
    "mysql-instances": Items(INSTANCE),
    **_leaves("online-ddl", "shadow-table-rules", "trash-table-rules", "online-ddl-scheme"),
    "routes": Named(ROUTE),
    "filters": Named(FILTER),
    "expression-filter": Named(EXPRESSION_FILTER),
    "column-mappings": Named(COLUMN_MAPPING),
    "black-white-list": Named(BLOCK_ALLOW_LIST),
    "block-allow-list": Named(BLOCK_ALLOW_LIST),
    "mydumpers": Named(MYDUMPER),
    "loaders": Named(LOADER),
    "syncers": Named(SYNCER),
    "validators": Named(VALIDATOR),
    **_leaves("clean-dump-file", "ansi-quotes", "remove-meta"),
    "experimental": _leaves("async-checkpoint-flush"),
}  # fmt: skip
