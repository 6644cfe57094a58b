"""Which keys source and task files may have, in the order in which we write them. Pure data.

One tree serves both directions: reading refuses what is not in it, writing follows its order.
"""

from __future__ import annotations

from collections.abc import Mapping

from pkg.rules.yaml_blocks import BLOCK_ALLOW_LIST, COLUMN_MAPPING, EXPRESSION_FILTER, FILTER, ROUTE
from pkg.settings.shape import DATABASE, LEAF, Free, Items, Named, Shape, leaves

SOURCE: Mapping[str, Shape] = {
    **leaves(
        "enable", "enable-gtid", "auto-fix-gtid", "relay-dir", "meta-dir", "flavor", "charset", "enable-relay",
        "relay-binlog-name", "relay-binlog-gtid", "source-id",
    ),
    "from": DATABASE,
    "purge": leaves("interval", "expires", "remain-space"),
    "checker": leaves(
        "check-enable", "backoff-rollback", "backoff-max", "check-interval", "backoff-min", "backoff-jitter",
        "backoff-factor",
    ),
    "server-id": LEAF,
    "tracer": Free(),
    "case-sensitive": LEAF,
    "filters": Items(FILTER),
}  # fmt: skip

MYDUMPER: Mapping[str, Shape] = leaves(
    "mydumper-path", "threads", "chunk-filesize", "statement-size", "rows", "where", "skip-tz-utc", "extra-args"
)

LOADER: Mapping[str, Shape] = leaves(
    "pool-size", "dir", "sorting-dir-physical", "import-mode", "on-duplicate", "on-duplicate-logical",
    "on-duplicate-physical", "disk-quota-physical", "checksum-physical", "analyze", "range-concurrency",
    "compress-kv-pairs", "pd-addr",
)  # fmt: skip

SYNCER: Mapping[str, Shape] = leaves(
    "meta-file", "worker-count", "batch", "queue-size", "checkpoint-flush-interval", "compact", "multiple-rows",
    "max-retry", "auto-fix-gtid", "enable-gtid", "disable-detect", "safe-mode", "safe-mode-duration",
    "enable-ansi-quotes",
)  # fmt: skip

VALIDATOR: Mapping[str, Shape] = leaves(
    "mode", "worker-count", "validate-interval", "check-interval", "row-error-delay", "meta-flush-interval",
    "batch-query-size", "max-pending-row-size", "max-pending-row-count",
)  # fmt: skip

INSTANCE: Mapping[str, Shape] = {
    "source-id": LEAF,
    "meta": leaves("binlog-name", "binlog-pos", "binlog-gtid"),
    **leaves(
        "filter-rules", "column-mapping-rules", "route-rules", "expression-filters", "black-white-list",
        "block-allow-list", "mydumper-config-name", "mydumper-thread",
    ),
    "mydumper": MYDUMPER,
    **leaves("loader-config-name", "loader-thread"),
    "loader": LOADER,
    **leaves("syncer-config-name", "syncer-thread"),
    "syncer": SYNCER,
    "validator-config-name": LEAF,
}  # fmt: skip

TASK: Mapping[str, Shape] = {
    **leaves(
        "name", "task-mode", "is-sharding", "shard-mode", "strict-optimistic-shard-mode", "ignore-checking-items",
        "strict-rules", "meta-schema", "enable-heartbeat", "heartbeat-update-interval", "heartbeat-report-interval",
        "timezone", "case-sensitive", "collation_compatible",
    ),
    "target-collations": Free(),
    "lossy-conversions": LEAF,
    "target-database": DATABASE,
    "mysql-instances": Items(INSTANCE),
    **leaves("online-ddl", "shadow-table-rules", "trash-table-rules", "online-ddl-scheme"),
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
    **leaves("clean-dump-file", "ansi-quotes", "remove-meta"),
    "experimental": leaves("async-checkpoint-flush"),
}  # fmt: skip
