"""Another value than the default for each key, and where the configuration calls a key's field otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PEM = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
_BASE64 = "QUFBQQ=="

_TLS: Mapping[str, Any] = {
    "ssl-ca": "/ca.pem", "ssl-cert": "/cert.pem", "ssl-key": "/key.pem", "cert-allowed-cn": ["dm"],
    "ssl-ca-bytes": _PEM, "ssl-cert-bytes": _PEM, "ssl-key-bytes": _PEM,
    "ssl-ca-base64": _BASE64, "ssl-cert-base64": _BASE64, "ssl-key-base64": _BASE64,
}  # fmt: skip


def _database(place: str) -> dict[str, Any]:
    plain = {
        "host": "10.0.0.9", "port": 3399, "user": "other", "password": "other", "max-allowed-packet": 1048576,
        "session": {"wait_timeout": "77"},
    }  # fmt: skip
    return {
        **{f"{place}.{key}": value for key, value in plain.items()},
        **{f"{place}.security.{key}": value for key, value in _TLS.items()},
    }


#: Key → value, or (value, what the file has beside it, what it has with the value). None takes a key away.
TASK_VALUES: dict[str, tuple[Any, Mapping[str, Any], Mapping[str, Any]]] = {
    key: (*value, {}, {})[:3] if isinstance(value, tuple) else (value, {}, {})
    for key, value in {
        "name": "other",
        "task-mode": "all",
        "is-sharding": (True, {"shard-mode": None}),
        "shard-mode": "pessimistic",
        "strict-optimistic-shard-mode": True,
        "ignore-checking-items": ["version"],
        "strict-rules": True,
        "meta-schema": "other_meta",
        "enable-heartbeat": True,
        "heartbeat-update-interval": 7,
        "heartbeat-report-interval": 7,
        "timezone": "+08:00",
        "case-sensitive": True,
        "collation_compatible": "strict",
        "target-collations": {"utf8mb4_0900_ai_ci": "utf8mb4_unicode_ci"},
        "lossy-conversions": "allow",
        **_database("target-database"),
        "mysql-instances[].source-id": "other",
        "mysql-instances[].meta.binlog-name": (
            "bin.000007",
            {"task-mode": "incremental", "mysql-instances[].meta.binlog-gtid": "u"},
        ),
        "mysql-instances[].meta.binlog-pos": (
            777,
            {"task-mode": "incremental", "mysql-instances[].meta.binlog-name": "bin.000001"},
        ),
        "mysql-instances[].meta.binlog-gtid": (
            "u:1",
            {"task-mode": "incremental", "mysql-instances[].meta.binlog-name": "bin.000001"},
        ),
        "mysql-instances[].filter-rules": (
            ["one"],
            {"filters": None, "mysql-instances[].filter-rules": None},
            {"filters": {"one": {"schema-pattern": "a", "events": ["insert"], "action": "Ignore"}}},
        ),
        "mysql-instances[].column-mapping-rules": (
            ["one"],
            {"column-mappings": None, "mysql-instances[].column-mapping-rules": None},
            {
                "column-mappings": {
                    "one": {
                        "schema-pattern": "a",
                        "table-pattern": "b",
                        "target-column": "c",
                        "expression": "add prefix",
                        "arguments": ["x"],
                    }
                }
            },
        ),
        "mysql-instances[].route-rules": (
            ["one"],
            {"routes": None, "mysql-instances[].route-rules": None},
            {"routes": {"one": {"schema-pattern": "a", "target-schema": "b"}}},
        ),
        "mysql-instances[].expression-filters": (
            ["one"],
            {"expression-filter": None, "mysql-instances[].expression-filters": None},
            {"expression-filter": {"one": {"schema": "a", "table": "b", "insert-value-expr": "id = 1"}}},
        ),
        "mysql-instances[].black-white-list": (
            "one",
            {"block-allow-list": None, "mysql-instances[].block-allow-list": None},
            {"black-white-list": {"one": {"do-dbs": ["a"]}}},
        ),
        "mysql-instances[].block-allow-list": (
            "one",
            {"block-allow-list": None, "mysql-instances[].block-allow-list": None},
            {"block-allow-list": {"one": {"do-dbs": ["a"]}}},
        ),
        "mysql-instances[].mydumper-config-name": (
            "one",
            {"mydumpers": None, "mysql-instances[].mydumper-config-name": None},
            {"mydumpers": {"one": {"threads": 7}}},
        ),
        "mysql-instances[].mydumper-thread": 7,
        "mysql-instances[].mydumper": (
            {"threads": 7},
            {"mydumpers": None, "mysql-instances[].mydumper-config-name": None},
        ),
        "mysql-instances[].loader-config-name": (
            "one",
            {"loaders": None, "mysql-instances[].loader-config-name": None},
            {"loaders": {"one": {"pool-size": 7}}},
        ),
        "mysql-instances[].loader-thread": 7,
        "mysql-instances[].loader": ({"pool-size": 7}, {"loaders": None, "mysql-instances[].loader-config-name": None}),
        "mysql-instances[].syncer-config-name": (
            "one",
            {"syncers": None, "mysql-instances[].syncer-config-name": None},
            {"syncers": {"one": {"worker-count": 7}}},
        ),
        "mysql-instances[].syncer-thread": 7,
        "mysql-instances[].syncer": (
            {"worker-count": 7},
            {"syncers": None, "mysql-instances[].syncer-config-name": None},
        ),
        "mysql-instances[].validator-config-name": (
            "one",
            {"validators": None, "mysql-instances[].validator-config-name": None},
            {"validators": {"one": {"mode": "fast"}}},
        ),
        "online-ddl": False,
        "shadow-table-rules": ["^a(.+)$"],
        "trash-table-rules": ["^a(.+)$"],
        "online-ddl-scheme": ("pt", {"online-ddl": False}),
        "routes.*.schema-pattern": "other_*",
        "routes.*.table-pattern": "other_*",
        "routes.*.target-schema": "other",
        "routes.*.target-table": "other",
        "routes.*.extract-table.table-regexp": "o(.*)",
        "routes.*.extract-table.target-column": "other",
        "routes.*.extract-schema.schema-regexp": (
            "o(.*)",
            {"routes.*.extract-schema.schema-regexp": "(.*)", "routes.*.extract-schema.target-column": "b"},
        ),
        "routes.*.extract-schema.target-column": (
            "other",
            {"routes.*.extract-schema.schema-regexp": "(.*)", "routes.*.extract-schema.target-column": "b"},
        ),
        "routes.*.extract-source.source-regexp": (
            "o(.*)",
            {"routes.*.extract-source.source-regexp": "(.*)", "routes.*.extract-source.target-column": "b"},
        ),
        "routes.*.extract-source.target-column": (
            "other",
            {"routes.*.extract-source.source-regexp": "(.*)", "routes.*.extract-source.target-column": "b"},
        ),
        "filters.*.schema-pattern": "other_*",
        "filters.*.table-pattern": "other_*",
        "filters.*.events": ["insert"],
        "filters.*.sql-pattern": ["^DROP"],
        "filters.*.action": "Error",
        "expression-filter.*.schema": "other",
        "expression-filter.*.table": "other",
        "expression-filter.*.insert-value-expr": "id = 7",
        "expression-filter.*.update-old-value-expr": (
            "id = 7",
            {"expression-filter.*.insert-value-expr": None, "expression-filter.*.update-new-value-expr": "id = 8"},
        ),
        "expression-filter.*.update-new-value-expr": (
            "id = 7",
            {"expression-filter.*.insert-value-expr": None, "expression-filter.*.update-old-value-expr": "id = 8"},
        ),
        "expression-filter.*.delete-value-expr": (
            "id = 7",
            {"expression-filter.*.insert-value-expr": None, "expression-filter.*.delete-value-expr": "id = 8"},
        ),
        "column-mappings.*.schema-pattern": "other_*",
        "column-mappings.*.table-pattern": "other_*",
        "column-mappings.*.source-column": "other",
        "column-mappings.*.target-column": "other",
        "column-mappings.*.expression": (
            "add suffix",
            {"column-mappings.*.expression": "add prefix", "column-mappings.*.arguments": ["x"]},
        ),
        "column-mappings.*.arguments": ["2", "shop", "orders", "_"],
        "column-mappings.*.create-table-query": "CREATE TABLE t (id INT)",
        "mydumpers.*.mydumper-path": "/usr/bin/mydumper",
        "mydumpers.*.threads": 7,
        "mydumpers.*.chunk-filesize": "7",
        "mydumpers.*.statement-size": 777777,
        "mydumpers.*.rows": 7,
        "mydumpers.*.where": "id > 7",
        "mydumpers.*.skip-tz-utc": False,
        "mydumpers.*.extra-args": "--consistency lock",
        "loaders.*.pool-size": 7,
        "loaders.*.dir": "/other",
        "loaders.*.import-mode": "physical",
        "loaders.*.on-duplicate": ("replace", {"loaders.*.on-duplicate-logical": None}),
        "loaders.*.on-duplicate-logical": "replace",
        "loaders.*.keys-after-rows": False,
        "loaders.*.rows-while-dumping": True,
        "loaders.*.sorting-dir-physical": "/other",
        "loaders.*.on-duplicate-physical": "manual",
        "loaders.*.disk-quota-physical": "7GB",
        "loaders.*.checksum-physical": "off",
        "loaders.*.analyze": "off",
        "loaders.*.range-concurrency": 7,
        "loaders.*.compress-kv-pairs": "gzip",
        "loaders.*.pd-addr": "10.0.0.9:2379",
        "syncers.*.meta-file": "/other",
        "syncers.*.worker-count": 7,
        "syncers.*.batch": 7,
        "syncers.*.queue-size": 7,
        "syncers.*.checkpoint-flush-interval": 7,
        "syncers.*.compact": False,
        "syncers.*.multiple-rows": False,
        "syncers.*.max-retry": 7,
        "syncers.*.auto-fix-gtid": True,
        "syncers.*.enable-gtid": True,
        "syncers.*.disable-detect": True,
        "syncers.*.enable-ansi-quotes": True,
        "syncers.*.safe-mode": True,
        "syncers.*.safe-mode-duration": "0s",
        "validators.*.mode": "full",
        "validators.*.worker-count": 7,
        "validators.*.validate-interval": "7s",
        "validators.*.check-interval": "7s",
        "validators.*.row-error-delay": "7m",
        "validators.*.meta-flush-interval": "7m",
        "validators.*.batch-query-size": 7,
        "validators.*.max-pending-row-size": "7m",
        "validators.*.max-pending-row-count": 7,
        "validators.*.sweep-rate": 7,
        "clean-dump-file": False,
        "ansi-quotes": True,
        "remove-meta": True,
        "experimental.async-checkpoint-flush": True,
        **{
            f"{block}.*.{key}": value
            for block in ("black-white-list", "block-allow-list")
            for key, value in {
                "do-dbs": ["other"],
                "do-tables[].db-name": ("other", {f"{block}.*.do-tables": [{"db-name": "a", "tbl-name": "b"}]}),
                "do-tables[].tbl-name": ("other", {f"{block}.*.do-tables": [{"db-name": "a", "tbl-name": "b"}]}),
                "ignore-dbs": ["other"],
                "ignore-tables[].db-name": ("other", {f"{block}.*.ignore-tables": [{"db-name": "a", "tbl-name": "b"}]}),
                "ignore-tables[].tbl-name": (
                    "other",
                    {f"{block}.*.ignore-tables": [{"db-name": "a", "tbl-name": "b"}]},
                ),
            }.items()
        },
    }.items()
}

SOURCE_VALUES: Mapping[str, Any] = {
    "source-id": "other",
    "enable": False,
    "enable-gtid": True,
    "auto-fix-gtid": True,
    "relay-dir": "/other",
    "meta-dir": "/other",
    "flavor": "mariadb",
    "charset": "latin1",
    "enable-relay": True,
    "relay-binlog-name": "bin.000007",
    "relay-binlog-gtid": "0-1-7",
    **_database("from"),
    "purge.interval": 7,
    "purge.expires": 7,
    "purge.remain-space": 7,
    "checker.check-enable": False,
    "checker.backoff-rollback": "7m",
    "checker.backoff-max": "7m",
    "checker.check-interval": "7s",
    "checker.backoff-min": "7s",
    "checker.backoff-jitter": False,
    "checker.backoff-factor": 7,
    "server-id": 7,
    "tracer": {"enable": True},
    "case-sensitive": True,
    "filters[].schema-pattern": "other",
    "filters[].table-pattern": "other",
    "filters[].events": ["delete"],
    "filters[].sql-pattern": ["^DROP"],
    "filters[].action": "Error",
}

#: Keys of dm-master and dm-worker; a value that needs a file is made from a folder with ``key`` and ``users``.
PROGRAM_VALUES: Mapping[str, Any | Callable[[Path], Any]] = {
    **_TLS,
    "log-level": "debug",
    "log-file": "/other.log",
    "log-format": "json",
    "log-rotate": "7MiB,7",
    "name": "other",
    "master-addr": "127.0.0.1:7777",
    "worker-addr": "127.0.0.1:7777",
    "advertise-addr": "10.0.0.9:7777",
    "peer-urls": "http://127.0.0.1:7777",
    "advertise-peer-urls": "http://10.0.0.9:7777",
    "initial-cluster": "other=http://10.0.0.9:7777",
    "initial-cluster-state": "existing",
    "join": "10.0.0.9:8261",
    "data-dir": "/other",
    "max-txn-ops": 77,
    "max-request-bytes": 777777,
    "auto-compaction-mode": "revision",
    "auto-compaction-retention": "7h",
    "quota-backend-bytes": 7 << 30,
    "openapi": True,
    "console": False,
    "console-users-path": lambda folder: str(folder / "users"),
    "experimental.openapi": True,
    "rpc-timeout": "7s",
    "rpc-rate-limit": 7.5,
    "rpc-rate-burst": 7,
    "v1-sources-path": "/other",
    "secret-key-path": lambda folder: str(folder / "key"),
    "allowed-hosts": ["other"],
    "etcd-endpoints": ["http://10.0.0.9:2379"],
    "etcd-client-urls": "http://10.0.0.9:7778",
    "etcd-username": "root",
    "etcd-password-path": lambda folder: str(folder / "key"),
    "election-ttl": 7,
    "keepalive-ttl": 7,
    "relay-keepalive-ttl": 7,
    "relay-dir": "/other",
    "redact-info-log": True,
    "spark.master": "local[2]",
    "spark.slots": 7,
    "spark.driver-memory": "777m",
    "spark.memory-budget": "777m",
    "spark.executor-timeout": 7,
    "spark.private-network": True,
    "spark.conf": {"spark.a": "b"},
}

#: Key of a program → what the file has beside it.
PROGRAM_ALONG: Mapping[str, str] = {"etcd-username": "etcd-password-path", "etcd-password-path": "etcd-username"}

#: Key → field of the configuration that the acting module reads.
FIELDS: Mapping[str, str] = {
    "is-sharding": "shard_mode",
    "online-ddl-scheme": "online_ddl",
    "loaders.*.on-duplicate": "on_duplicate_logical",
    "mysql-instances[].mydumper-config-name": "mydumper",
    "mysql-instances[].mydumper-thread": "mydumper",
    "mysql-instances[].loader-config-name": "loader",
    "mysql-instances[].loader-thread": "loader",
    "mysql-instances[].syncer-config-name": "syncer",
    "mysql-instances[].validator-config-name": "validator",
    "mysql-instances[].syncer-thread": "syncer",
    "mysql-instances[].filter-rules": "filters",
    "mysql-instances[].route-rules": "routes",
    "mysql-instances[].column-mapping-rules": "column_mappings",
    "mysql-instances[].black-white-list": "block_allow_list",
    "filters[].sql-pattern": "sql_pattern",
    **{
        f"routes.*.extract-{part}.{key}": f"extract_{part}"
        for part in ("table", "schema", "source")
        for key in (f"{part}-regexp", "target-column")
    },
    **{
        f"{block}.*.{kind}[].{key}": kind.replace("-", "_")
        for block in ("block-allow-list", "black-white-list")
        for kind in ("do-tables", "ignore-tables")
        for key in ("db-name", "tbl-name")
    },
    **{
        f"{place}.security.{part}-base64": f"{part.replace('-', '_')}_bytes"
        for place in ("from", "target-database")
        for part in ("ssl-ca", "ssl-cert", "ssl-key")
    },
    **{f"{part}-base64": f"{part.replace('-', '_')}_bytes" for part in ("ssl-ca", "ssl-cert", "ssl-key")},
    "worker-join": "master_addresses",
    "master-addr": "listen",
    "worker-addr": "listen",
    "allowed-hosts": "hosts",
    "secret-key-path": "secret_key",
    "etcd-username": "etcd_user",
    "etcd-password-path": "etcd_user",
    "spark.private-network": "private_network",
}
