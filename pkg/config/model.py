"""The typed objects that task and source files become. Pure data; parsing and checks live beside this module.

Field names are the keys of DM's files with ``-`` as ``_``; defaults are DM's (reference: §3.3–3.6).
Sizes are bytes and durations seconds once parsed, whatever unit the file uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

TaskMode = Literal["full", "incremental", "all", "dump", "load", "load&sync"]
ShardMode = Literal["", "pessimistic", "optimistic"]
#: How online schema change tools name their tables; the group is the real table's name.
SHADOW_TABLE_RULES = (r"^_(.+)_(?:new|gho)$",)
TRASH_TABLE_RULES = (r"^_(.+)_(?:ghc|del|old)$",)


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """TLS of one connection: paths, or the PEM bytes themselves (base64 in files)."""

    ssl_ca: str = ""
    ssl_cert: str = ""
    ssl_key: str = ""
    cert_allowed_cn: tuple[str, ...] = ()
    ssl_ca_bytes: bytes = field(default=b"", repr=False)
    ssl_cert_bytes: bytes = field(default=b"", repr=False)
    ssl_key_bytes: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class DBConfig:
    """How to reach one server. ``password`` is plain text here; never print it (``repr`` hides it)."""

    host: str
    port: int
    user: str = "root"
    password: str = field(default="", repr=False)
    max_allowed_packet: int = 64 * 1024 * 1024
    session: tuple[tuple[str, str], ...] = ()
    security: SecurityConfig | None = None

    @property
    def foreign_key_checks(self) -> bool | None:
        """What ``session`` says of foreign_key_checks; None when it says nothing."""
        value = dict(self.session).get("foreign_key_checks")
        return None if value is None else value.strip().upper() in ("1", "ON", "TRUE")


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
class BinlogFilterRule:
    schema_pattern: str
    table_pattern: str = ""
    events: tuple[str, ...] = ()
    sql_pattern: tuple[str, ...] = ()
    action: str = "Do"


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
class ExtractRule:
    """``extract-table`` (or ``-schema``, ``-source``): the capture groups of ``regexp`` fill ``target_column``."""

    regexp: str
    target_column: str


@dataclass(frozen=True, slots=True)
class RouteRule:
    schema_pattern: str
    target_schema: str
    table_pattern: str = ""
    target_table: str = ""
    extract_table: ExtractRule | None = None
    extract_schema: ExtractRule | None = None
    extract_source: ExtractRule | None = None


@dataclass(frozen=True, slots=True)
class ColumnMappingRule:
    """``source_column`` empty = the target column. ``create-table-query`` of old files has no effect."""

    schema_pattern: str
    target_column: str
    expression: str
    table_pattern: str = ""
    source_column: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpressionFilter:
    schema: str
    table: str
    insert_value_expr: str = ""
    update_old_value_expr: str = ""
    update_new_value_expr: str = ""
    delete_value_expr: str = ""


@dataclass(frozen=True, slots=True)
class TableName:
    db_name: str
    tbl_name: str


@dataclass(frozen=True, slots=True)
class BlockAllowList:
    do_dbs: tuple[str, ...] = ()
    do_tables: tuple[TableName, ...] = ()
    ignore_dbs: tuple[str, ...] = ()
    ignore_tables: tuple[TableName, ...] = ()


@dataclass(frozen=True, slots=True)
class MydumperConfig:
    """``chunk_filesize`` and ``statement_size`` in bytes; ``rows`` > 0 asks for in-table chunks of about that many."""

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
    """``dir`` as the file gives it; the effective dump folder is ``<dir>.<task>`` (unchanged in mode load).

    ``on_duplicate_logical`` empty = not asked for: a duplicate key is an error, because loading is exactly-once.
    """

    pool_size: int = 16
    dir: str = "./dumped_data"
    import_mode: str = "logical"
    on_duplicate_logical: str = ""


@dataclass(frozen=True, slots=True)
class SyncerConfig:
    """``safe_mode_duration`` in seconds; None = twice the flush interval.

    ``compact`` and ``multiple_rows`` None = not asked for: the fast path, which gives the same rows.
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
class Meta:
    """Where incremental replication starts."""

    binlog_name: str = ""
    binlog_pos: int = 0
    binlog_gtid: str = ""


@dataclass(frozen=True, slots=True)
class SubTaskConfig:
    """Everything that one worker needs for its part of a task: one source, rules resolved, secrets plain."""

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
    timezone: str = ""
    case_sensitive: bool = False
    collation_compatible: str = "loose"
    online_ddl: bool = True
    shadow_table_rules: tuple[str, ...] = SHADOW_TABLE_RULES
    trash_table_rules: tuple[str, ...] = TRASH_TABLE_RULES
    clean_dump_file: bool = True
    ignore_checking_items: tuple[str, ...] = ()
    routes: tuple[RouteRule, ...] = ()
    filters: tuple[BinlogFilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    column_mappings: tuple[ColumnMappingRule, ...] = ()
    block_allow_list: BlockAllowList = BlockAllowList()
    mydumper: MydumperConfig = MydumperConfig()
    loader: LoaderConfig = LoaderConfig()
    syncer: SyncerConfig = SyncerConfig()


@dataclass(frozen=True, slots=True)
class InstanceConfig:
    """One entry of ``mysql-instances``, with every rule that it names resolved."""

    source_id: str
    meta: Meta | None = None
    routes: tuple[RouteRule, ...] = ()
    filters: tuple[BinlogFilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    column_mappings: tuple[ColumnMappingRule, ...] = ()
    block_allow_list: BlockAllowList = BlockAllowList()
    mydumper: MydumperConfig = MydumperConfig()
    loader: LoaderConfig = LoaderConfig()
    syncer: SyncerConfig = SyncerConfig()


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
    online_ddl: bool = True
    shadow_table_rules: tuple[str, ...] = SHADOW_TABLE_RULES
    trash_table_rules: tuple[str, ...] = TRASH_TABLE_RULES
    clean_dump_file: bool = True
    warnings: tuple[str, ...] = ()
    text: str = field(default="", repr=False)
