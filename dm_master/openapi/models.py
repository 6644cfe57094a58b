"""The types of the contract, written by ``make openapi-models``."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class ApiErrorWithMessage(TypedDict):
    error_msg: str
    error_code: int


class ApiSecurity(TypedDict):
    ssl_ca_content: str
    ssl_cert_content: str
    ssl_key_content: str
    cert_allowed_cn: NotRequired[list[str]]


class ApiPurge(TypedDict):
    interval: NotRequired[int]
    expires: NotRequired[int]
    remain_space: NotRequired[int]


class ApiRelayStatus(TypedDict):
    master_binlog: str
    master_binlog_gtid: str
    relay_dir: str
    relay_binlog_gtid: str
    relay_catch_up_master: bool
    stage: str


class ApiSourceStatus(TypedDict):
    source_name: str
    worker_name: str
    relay_status: NotRequired[ApiRelayStatus]
    error_msg: NotRequired[str]


class ApiSource(TypedDict):
    source_name: str
    host: str
    port: int
    user: str
    password: NotRequired[str]
    enable_gtid: bool
    enable: bool
    flavor: NotRequired[Literal["", "mysql", "mariadb"]]
    task_name_list: NotRequired[list[str]]
    security: NotRequired[ApiSecurity]
    purge: NotRequired[ApiPurge]
    status_list: NotRequired[list[ApiSourceStatus]]
    relay_config: NotRequired[ApiRelayConfig]


class ApiTaskTableMigrateRuleSource(TypedDict):
    source_name: str
    schema: str
    table: str


class ApiTaskTableMigrateRuleTarget(TypedDict):
    schema: NotRequired[str]
    table: NotRequired[str]


class ApiShardingGroup(TypedDict):
    target: str
    ddl_list: list[str]
    first_location: str
    synced: list[str]
    unsynced: list[str]


class ApiLoadStatus(TypedDict):
    finished_bytes: int
    total_bytes: int
    progress: str
    meta_binlog: str
    meta_binlog_gtid: str
    bps: int


class ApiSyncStatus(TypedDict):
    total_events: int
    total_tps: int
    recent_tps: int
    master_binlog: str
    master_binlog_gtid: str
    syncer_binlog: str
    syncer_binlog_gtid: str
    blocking_ddls: list[str]
    unresolved_groups: list[ApiShardingGroup]
    synced: bool
    binlog_type: str
    seconds_behind_master: int
    io_total_bytes: int
    dump_io_total_bytes: int


class ApiDumpStatus(TypedDict):
    total_tables: int
    completed_tables: float
    finished_bytes: float
    finished_rows: float
    estimate_total_rows: float
    bps: int
    progress: str


class ApiSubTaskStatus(TypedDict):
    name: str
    source_name: str
    worker_name: str
    stage: Literal["Stopped", "Running", "Finished", "Paused"]
    unit: str
    unresolved_ddl_lock_id: NotRequired[str]
    load_status: NotRequired[ApiLoadStatus]
    sync_status: NotRequired[ApiSyncStatus]
    dump_status: NotRequired[ApiDumpStatus]
    error_msg: NotRequired[str]


class ApiTaskTargetDataBase(TypedDict):
    host: str
    port: int
    user: str
    password: str
    security: NotRequired[ApiSecurity]
    session: NotRequired[ApiTaskTargetSession]


class ApiTaskTargetSession(TypedDict):
    foreign_key_checks: NotRequired[Literal["0", "1"]]


class ApiTaskBinLogFilterRule(TypedDict):
    ignore_event: NotRequired[list[str]]
    ignore_sql: NotRequired[list[str]]


class ApiTaskTableMigrateRule(TypedDict):
    source: ApiTaskTableMigrateRuleSource
    target: NotRequired[ApiTaskTableMigrateRuleTarget]
    binlog_filter_rule: NotRequired[list[str]]


ApiTaskFullMigrateConf = TypedDict(
    "ApiTaskFullMigrateConf",
    {
        "export_threads": "NotRequired[int]",
        "import_threads": "NotRequired[int]",
        "data_dir": "NotRequired[str]",
        "consistency": "NotRequired[str]",
        "import_mode": 'NotRequired[Literal["logical", "physical", "import-into"]]',
        "sorting_dir": "NotRequired[str]",
        "disk_quota": "NotRequired[str]",
        "checksum": 'NotRequired[Literal["required", "optional", "off"]]',
        "analyze": 'NotRequired[Literal["required", "optional", "off"]]',
        "range_concurrency": "NotRequired[int]",
        "compress-kv-pairs": "NotRequired[str]",
        "pd_addr": "NotRequired[str]",
        "security": "NotRequired[ApiSecurity]",
        "on_duplicate_logical": 'NotRequired[Literal["replace", "error", "ignore"]]',
        "on_duplicate_physical": 'NotRequired[Literal["none", "manual"]]',
    },
)


class ApiTaskIncrMigrateConf(TypedDict):
    repl_threads: NotRequired[int]
    repl_batch: NotRequired[int]
    safe_mode: NotRequired[bool]


class ApiTaskSourceConf(TypedDict):
    source_name: str
    binlog_name: NotRequired[str]
    binlog_pos: NotRequired[int]
    binlog_gtid: NotRequired[str]


class ApiTaskSourceConfig(TypedDict):
    full_migrate_conf: NotRequired[ApiTaskFullMigrateConf]
    incr_migrate_conf: NotRequired[ApiTaskIncrMigrateConf]
    source_conf: list[ApiTaskSourceConf]


class ApiTaskCheckerConfig(TypedDict):
    enable: NotRequired[bool]
    backoff_max: NotRequired[str]
    backoff_rollback: NotRequired[str]


class ApiTask(TypedDict):
    name: str
    task_mode: Literal["full", "incremental", "all", "dump", "load", "load&sync"]
    shard_mode: NotRequired[Literal["pessimistic", "optimistic"]]
    strict_optimistic_shard_mode: NotRequired[bool]
    meta_schema: NotRequired[str]
    timezone: NotRequired[str]
    enhance_online_schema_change: bool
    on_duplicate: Literal["replace", "error", "ignore"]
    target_config: ApiTaskTargetDataBase
    binlog_filter_rule: NotRequired[dict[str, ApiTaskBinLogFilterRule]]
    table_migrate_rule: list[ApiTaskTableMigrateRule]
    source_config: ApiTaskSourceConfig
    status_list: NotRequired[list[ApiSubTaskStatus]]
    ignore_checking_items: NotRequired[list[str]]
    further_settings: NotRequired[dict[str, Any]]


class ApiClusterMaster(TypedDict):
    name: str
    alive: bool
    leader: bool
    addr: str


class ApiClusterWorker(TypedDict):
    name: str
    addr: str
    bound_stage: str
    bound_source_name: str


class ApiMasterTopology(TypedDict):
    name: str
    host: str
    port: int


class ApiWorkerTopology(TypedDict):
    name: str
    host: str
    port: int


class ApiGrafanaTopology(TypedDict):
    host: str
    port: int


class ApiPrometheusTopology(TypedDict):
    host: str
    port: int


class ApiAlertManagerTopology(TypedDict):
    host: str
    port: int


class ApiClusterTopology(TypedDict):
    master_topology_list: NotRequired[list[ApiMasterTopology]]
    worker_topology_list: NotRequired[list[ApiWorkerTopology]]
    grafana_topology: NotRequired[ApiGrafanaTopology]
    prometheus_topology: NotRequired[ApiPrometheusTopology]
    alert_manager_topology: NotRequired[ApiAlertManagerTopology]


class ApiRelayConfig(TypedDict):
    enable_relay: NotRequired[bool]
    relay_binlog_name: NotRequired[str]
    relay_binlog_gtid: NotRequired[str]
    relay_dir: NotRequired[str]


class ApiWorkerNameRequest(TypedDict):
    worker_name: str


class ApiEnableRelayRequest(TypedDict):
    worker_name_list: NotRequired[list[str]]
    relay_binlog_name: NotRequired[str]
    relay_binlog_gtid: NotRequired[str]
    relay_dir: NotRequired[str]


class ApiDisableRelayRequest(TypedDict):
    worker_name_list: NotRequired[list[str]]


class ApiPurgeRelayRequest(TypedDict):
    relay_binlog_name: str
    relay_dir: NotRequired[str]


class ApiCreateSourceRequest(TypedDict):
    source: ApiSource
    worker_name: NotRequired[str]


class ApiUpdateSourceRequest(TypedDict):
    source: ApiSource


class ApiGetSourceListResponse(TypedDict):
    total: int
    data: list[ApiSource]


class ApiGetSourceStatusResponse(TypedDict):
    total: int
    data: list[ApiSourceStatus]


class ApiConverterTaskRequest(TypedDict):
    task: NotRequired[ApiTask]
    task_config_file: NotRequired[str]


class ApiConverterTaskResponse(TypedDict):
    task: ApiTask
    task_config_file: str


class ApiTaskMigrateTarget(TypedDict):
    source_schema: str
    source_table: str
    target_schema: str
    target_table: str


class ApiGetTaskMigrateTargetsResponse(TypedDict):
    total: int
    data: list[ApiTaskMigrateTarget]


class ApiCreateTaskRequest(TypedDict):
    task: ApiTask


class ApiStartTaskRequest(TypedDict):
    remove_meta: NotRequired[bool]
    source_name_list: NotRequired[list[str]]
    start_time: NotRequired[str]
    safe_mode_time_duration: NotRequired[str]


class ApiStopTaskRequest(TypedDict):
    timeout_duration: NotRequired[str]
    source_name_list: NotRequired[list[str]]


class ApiUpdateTaskRequest(TypedDict):
    task: ApiTask


class ApiOperateTaskTableStructureRequest(TypedDict):
    schema_source: NotRequired[Literal["sql", "upstream", "downstream"]]
    sql_content: NotRequired[str]
    flush: NotRequired[bool]
    sync: NotRequired[bool]


class ApiOperateTaskResponse(TypedDict):
    task: ApiTask
    check_result: str


class ApiGetTaskListResponse(TypedDict):
    total: int
    data: list[ApiTask]


class ApiGetTaskStatusResponse(TypedDict):
    total: int
    data: list[ApiSubTaskStatus]


class ApiGetTaskTableStructureResponse(TypedDict):
    schema_name: NotRequired[str]
    table_name: str
    schema_create_sql: NotRequired[str]


class ApiGetClusterWorkerListResponse(TypedDict):
    total: int
    data: list[ApiClusterWorker]


class ApiGetClusterMasterListResponse(TypedDict):
    total: int
    data: list[ApiClusterMaster]


class ApiTaskTemplateRequest(TypedDict):
    overwrite: bool


class ApiTaskTemplateResponse(TypedDict):
    success_task_list: list[str]
    failed_task_list: list[ApiTaskTemplateFailure]


class ApiGetClusterInfoResponse(TypedDict):
    cluster_id: int
    topology: NotRequired[ApiClusterTopology]


class ApiTaskTemplateFailure(TypedDict):
    task_name: str
    error_msg: str
