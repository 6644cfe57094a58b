"""The typed objects of task and source files. Pure data; the readers are in the same package.

Field names are the keys of DM's files with ``-`` as ``_``; defaults are DM's (reference: §3.3–3.6).
After parsing, sizes are bytes and durations seconds, for every unit that a file may use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pkg.rules.model import (
    SHADOW_TABLE_RULES,
    TRASH_TABLE_RULES,
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    RouteRule,
)
from pkg.settings.connections import DBConfig

#: Metadata of a field that the previous version does not know. At its default such a field is not stored, so that after
#: a rollback that version can read the text; with another value it refuses the text, because it can't apply it.
ADDED = {"added": True}

TaskMode = Literal["full", "incremental", "all", "dump", "load", "load&sync"]
ShardMode = Literal["", "pessimistic", "optimistic"]


@dataclass(frozen=True, slots=True)
class PurgeConfig:
    interval: int = 3600
    expires: int = 0
    remain_space: int = 15


@dataclass(frozen=True, slots=True)
class CheckerConfig:
    check_enable: bool = True
    backoff_rollback: float = 300.0
    backoff_max: float = 300.0
    check_interval: float = 5.0
    backoff_min: float = 1.0
    backoff_jitter: bool = True
    backoff_factor: float = 2.0


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One upstream (``operate-source create``)."""

    source_id: str
    from_: DBConfig
    enable: bool = True
    enable_gtid: bool = False
    enable_relay: bool = False
    relay_dir: str = ""
    relay_binlog_name: str = ""
    relay_binlog_gtid: str = ""
    flavor: str = ""
    server_id: int = 0
    purge: PurgeConfig = PurgeConfig()
    checker: CheckerConfig = CheckerConfig()
    case_sensitive: bool = False
    filters: tuple[BinlogFilterRule, ...] = ()


@dataclass(frozen=True, slots=True)
class MydumperConfig:
    """``chunk_filesize`` and ``statement_size`` in bytes; ``rows`` > 0 requests in-table chunks of about that many."""

    mydumper_path: str = "./bin/mydumper"
    threads: int = 4
    chunk_filesize: int = 64 * 1024 * 1024
    statement_size: int = 1024 * 1024
    rows: int = 0
    where: str = ""
    skip_tz_utc: bool = True
    extra_args: str = ""


@dataclass(frozen=True, slots=True)
class LoaderConfig:
    """``dir`` as in the file; the effective dump folder is ``<dir>.<task>`` (unchanged in mode load).

    ``on_duplicate_logical`` empty = not set: a duplicate key is an error, because loading is exactly-once.
    ``keys_after_rows``: large tables that the load creates get their secondary keys after their rows.
    ``rows_while_dumping``: rows of large new tables are loaded while the dump is still running.
    """

    pool_size: int = 16
    dir: str = "./dumped_data"
    import_mode: str = "logical"
    on_duplicate_logical: str = ""
    keys_after_rows: bool = field(default=True, metadata=ADDED)
    rows_while_dumping: bool = field(default=False, metadata=ADDED)


@dataclass(frozen=True, slots=True)
class SyncerConfig:
    """``safe_mode_duration`` in seconds; None = twice the flush interval.

    ``compact`` and ``multiple_rows`` None = not set: the fast path, which gives the same rows.
    """

    worker_count: int = 16
    batch: int = 100
    queue_size: int = 1024
    checkpoint_flush_interval: int = 30
    compact: bool | None = None
    multiple_rows: bool | None = None
    safe_mode: bool = False
    safe_mode_duration: float | None = None


@dataclass(frozen=True, slots=True)
class ValidatorConfig:
    """Continuous validation. Intervals in seconds, ``max_pending_row_size`` in bytes, ``sweep_rate`` in rows a second.

    There is no delay of errors: a difference is an error once it is certain.
    """

    mode: Literal["none", "fast", "full"] = "none"
    worker_count: int = 4
    validate_interval: float = 10.0
    check_interval: float = 5.0
    meta_flush_interval: float = 300.0
    batch_query_size: int = 100
    max_pending_row_size: int = 500 << 20
    max_pending_row_count: int = 2147483647
    sweep_rate: int = 20_000


@dataclass(frozen=True, slots=True)
class Meta:
    """Where incremental replication starts."""

    binlog_name: str = ""
    binlog_pos: int = 0
    binlog_gtid: str = ""


@dataclass(frozen=True, slots=True)
class Until:
    """Where replication ends: at the first end of a transaction at or after a position, or where a GTID set is
    complete; or before the first event that is not older than ``time`` (unix seconds). One of the three is set."""

    binlog_name: str = ""
    binlog_pos: int = 0
    binlog_gtid: str = ""
    time: int = 0


@dataclass(frozen=True, slots=True)
class SubTaskConfig:
    """One worker's part of a task: one source, rules resolved, secrets plain."""

    name: str
    source_id: str
    task_mode: TaskMode
    from_: DBConfig
    to: DBConfig
    flavor: str = "mysql"
    server_id: int = 0
    enable_gtid: bool = False
    enable_relay: bool = False
    relay_dir: str = ""
    shard_mode: ShardMode = ""
    strict_optimistic_shard_mode: bool = False
    meta_schema: str = "dm_meta"
    meta: Meta | None = None
    until: Until | None = field(default=None, metadata=ADDED)
    timezone: str = ""
    case_sensitive: bool = False
    collation_compatible: str = "loose"
    target_collations: tuple[tuple[str, str], ...] = field(default=(), metadata=ADDED)
    lossy_conversions: str = field(default="refuse", metadata=ADDED)
    online_ddl: bool = True
    shadow_table_rules: tuple[str, ...] = SHADOW_TABLE_RULES
    trash_table_rules: tuple[str, ...] = TRASH_TABLE_RULES
    clean_dump_file: bool = True
    ignore_checking_items: tuple[str, ...] = ()
    routes: tuple[RouteRule, ...] = ()
    filters: tuple[BinlogFilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    column_mappings: tuple[ColumnMappingRule, ...] = ()
    block_allow_list: BlockAllowList = field(default_factory=BlockAllowList)
    mydumper: MydumperConfig = MydumperConfig()
    loader: LoaderConfig = LoaderConfig()
    syncer: SyncerConfig = SyncerConfig()
    validator: ValidatorConfig = field(default=ValidatorConfig(), metadata=ADDED)


@dataclass(frozen=True, slots=True)
class InstanceConfig:
    """One entry of ``mysql-instances``, with all of its rules resolved."""

    source_id: str
    meta: Meta | None = None
    routes: tuple[RouteRule, ...] = ()
    filters: tuple[BinlogFilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    column_mappings: tuple[ColumnMappingRule, ...] = ()
    block_allow_list: BlockAllowList = field(default_factory=BlockAllowList)
    mydumper: MydumperConfig = MydumperConfig()
    loader: LoaderConfig = LoaderConfig()
    syncer: SyncerConfig = SyncerConfig()
    validator: ValidatorConfig = ValidatorConfig()


@dataclass(frozen=True, slots=True)
class TaskConfig:
    """A task file. ``warnings`` are about keys without effect; ``text`` is the file, secrets included."""

    name: str
    task_mode: TaskMode
    target: DBConfig
    instances: tuple[InstanceConfig, ...]
    shard_mode: ShardMode = ""
    strict_optimistic_shard_mode: bool = False
    ignore_checking_items: tuple[str, ...] = ()
    strict_rules: bool = False
    meta_schema: str = "dm_meta"
    timezone: str = ""
    case_sensitive: bool = False
    collation_compatible: str = "loose"
    target_collations: tuple[tuple[str, str], ...] = ()
    lossy_conversions: str = "refuse"
    online_ddl: bool = True
    shadow_table_rules: tuple[str, ...] = SHADOW_TABLE_RULES
    trash_table_rules: tuple[str, ...] = TRASH_TABLE_RULES
    clean_dump_file: bool = True
    warnings: tuple[str, ...] = ()
    text: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ServersDiffConfig:
    """The file of a comparison without a task. ``upstreams``: each with the target and its rules. ``tables``: patterns
    of target tables, all without any. ``chunk_rows``: 0 for the worker's choice. ``settle_time`` in seconds."""

    name: str
    upstreams: tuple[SubTaskConfig, ...]
    tables: tuple[str, ...] = ()
    chunk_rows: int = 0
    settle_time: float = 30.0
    output_dir: str = "./diff_data"
    warnings: tuple[str, ...] = ()
