"""What each key of a task file does. Pure data."""

from __future__ import annotations

from pkg.config.effects.effect import KeyEffect
from pkg.config.effects.shared_keys import LOADER, MYDUMPER, SYNCER, VALIDATOR, database

_SPLIT = "dm_master/task_setup/task_split.py"
_PRECHECK = "dm_master/precheck/runner.py"
_FILTER = "pkg/rules/binlog_filter/filter.py"
_LIST = "pkg/rules/block_allow_list.py"
_ROUTER = "pkg/rules/table_router.py"
_MAPPER = "pkg/rules/column_mapping/mapper.py"
_ONLINE = "pkg/rules/online_tables.py"
_EXPRESSIONS = "dm_worker/syncer/rows/task_rules.py"


def _lists(block: str, note: str = "") -> tuple[KeyEffect, ...]:
    return (
        KeyEffect(f"{block}.*.do-dbs", "[]", f"Schemas that take part; empty: all.{note}", _LIST),
        KeyEffect(f"{block}.*.do-tables[].db-name", "", f"Schema of tables that take part.{note}", _LIST),
        KeyEffect(f"{block}.*.do-tables[].tbl-name", "", f"Tables of it.{note}", _LIST),
        KeyEffect(f"{block}.*.ignore-dbs", "[]", f"Schemas that are left out, if do-dbs is empty.{note}", _LIST),
        KeyEffect(f"{block}.*.ignore-tables[].db-name", "", f"Schema of tables that are left out.{note}", _LIST),
        KeyEffect(f"{block}.*.ignore-tables[].tbl-name", "", f"Tables of it.{note}", _LIST),
    )


_HEARTBEAT = "Lag is measured without a table in the upstream."
_TASK = (
    KeyEffect("name", "required", "Name of the task, at most 46 characters.", _SPLIT),
    KeyEffect("task-mode", "required", "full, incremental, all, dump, load or load&sync.", _SPLIT),
    KeyEffect("is-sharding", "false", "Older spelling of shard-mode: pessimistic, warned of.", _SPLIT),
    KeyEffect(
        "shard-mode",
        "",
        "pessimistic coordinates the DDL of merged shards. optimistic is refused (20033).",
        _SPLIT,
    ),
    KeyEffect(
        "strict-optimistic-shard-mode",
        "false",
        "true is refused (20066) without shard-mode optimistic.",
        kind="refused",
    ),
    KeyEffect("ignore-checking-items", "[]", "Checks that check-task and start-task leave out.", _PRECHECK),
    KeyEffect("strict-rules", "false", "true: a rule that does nothing is an error before a full copy.", _PRECHECK),
    KeyEffect("meta-schema", "dm_meta", "Schema in the target that holds the task's progress.", _SPLIT),
    KeyEffect("enable-heartbeat", "false", _HEARTBEAT, kind="warned"),
    KeyEffect("heartbeat-update-interval", "1", _HEARTBEAT, kind="warned"),
    KeyEffect("heartbeat-report-interval", "10", _HEARTBEAT, kind="warned"),
    KeyEffect(
        "timezone",
        "",
        "Zone in which expression filters read TIMESTAMP values; warned of without such filters: rows are "
        "transferred in UTC.",
        "dm_worker/syncer/rows/task_rules.py",
    ),
    KeyEffect("case-sensitive", "false", "Patterns of names are case-sensitive.", _SPLIT),
    KeyEffect(
        "collation_compatible",
        "loose",
        "strict writes the upstream's default collations into statements and structures.",
        "dm_worker/syncer/unit/applying.py",
    ),
    KeyEffect(
        "target-collations",
        "",
        "Collations of the target in the place of the upstream's, in structures and statements.",
        "dm_worker/syncer/unit/connections.py",
    ),
    KeyEffect(
        "lossy-conversions",
        "refuse",
        "allow: the target's columns may round, cut or pad values (DATETIME(6) into DATETIME). refuse: such a value "
        "stops the task.",
        "dm_worker/syncer/unit/reading.py",
    ),
    *database(
        "target-database",
        KeyEffect(
            "target-database.max-allowed-packet",
            "67108864",
            "Statements of replication have at most half of it, and 1 MiB. Deprecated, warned of: the target's "
            "own limit counts beside it.",
            "dm_worker/syncer/unit/applying.py",
        ),
    ),
    KeyEffect("mysql-instances[].source-id", "required", "The upstream; it must have been created.", _SPLIT),
    KeyEffect(
        "mysql-instances[].meta.binlog-name",
        "",
        "File where replication begins, in modes incremental and load&sync; warned of in others.",
        "dm_worker/syncer/checkpoint/start_location.py",
    ),
    KeyEffect(
        "mysql-instances[].meta.binlog-pos",
        "0",
        "Position in that file.",
        "dm_worker/syncer/checkpoint/start_location.py",
    ),
    KeyEffect(
        "mysql-instances[].meta.binlog-gtid",
        "",
        "The same as a GTID set, for sources with enable-gtid.",
        "dm_worker/syncer/checkpoint/start_location.py",
    ),
    KeyEffect("mysql-instances[].filter-rules", "[]", "Entries of filters.", _SPLIT),
    KeyEffect("mysql-instances[].column-mapping-rules", "[]", "Entries of column-mappings.", _SPLIT),
    KeyEffect("mysql-instances[].route-rules", "[]", "Entries of routes.", _SPLIT),
    KeyEffect("mysql-instances[].expression-filters", "[]", "Entries of expression-filter.", _SPLIT),
    KeyEffect("mysql-instances[].black-white-list", "", "Older spelling of block-allow-list.", _SPLIT),
    KeyEffect("mysql-instances[].block-allow-list", "", "Entry of block-allow-list.", _SPLIT),
    KeyEffect("mysql-instances[].mydumper-config-name", "", "Entry of mydumpers.", _SPLIT),
    KeyEffect(
        "mysql-instances[].mydumper-thread",
        "0",
        "Above 0: threads of the dump, over those of the entry.",
        _SPLIT,
    ),
    KeyEffect("mysql-instances[].mydumper", "", "Keys as of an entry of mydumpers, right here.", _SPLIT),
    KeyEffect("mysql-instances[].loader-config-name", "", "Entry of loaders.", _SPLIT),
    KeyEffect(
        "mysql-instances[].loader-thread",
        "0",
        "Above 0: pool-size of the load, over that of the entry.",
        _SPLIT,
    ),
    KeyEffect("mysql-instances[].loader", "", "Keys as of an entry of loaders, right here.", _SPLIT),
    KeyEffect("mysql-instances[].syncer-config-name", "", "Entry of syncers.", _SPLIT),
    KeyEffect("mysql-instances[].syncer-thread", "0", "Above 0: worker-count, over that of the entry.", _SPLIT),
    KeyEffect("mysql-instances[].syncer", "", "Keys as of an entry of syncers, right here.", _SPLIT),
    KeyEffect(
        "mysql-instances[].validator-config-name",
        "",
        "Entry of validators. Validation is not supported.",
        kind="warned",
    ),
    KeyEffect(
        "online-ddl",
        "true",
        "Follows gh-ost and pt-online-schema-change instead of replicating their tables.",
        _ONLINE,
    ),
    KeyEffect("shadow-table-rules", '["^_(.+)_(?:new|gho)$"]', "Names of the changed copies.", _ONLINE),
    KeyEffect("trash-table-rules", '["^_(.+)_(?:ghc|del|old)$"]', "Names of the tables left behind.", _ONLINE),
    KeyEffect("online-ddl-scheme", "", "gh-ost or pt: older spelling of online-ddl: true, warned of.", _ONLINE),
)

_RULES = (
    KeyEffect("routes.*.schema-pattern", "required", "Upstream schemas.", _ROUTER),
    KeyEffect("routes.*.table-pattern", "", "Upstream tables; empty: a rule for the schema.", _ROUTER),
    KeyEffect("routes.*.target-schema", "required", "Schema of the target.", _ROUTER),
    KeyEffect("routes.*.target-table", "", "Table of the target; empty: the upstream's name.", _ROUTER),
    *(
        KeyEffect(f"routes.*.extract-{part}.{key}", "", text, _ROUTER)
        for part in ("table", "schema", "source")
        for key, text in (
            (f"{part}-regexp", f"Regular expression with groups, which takes the part of the {part}'s name."),
            ("target-column", "Column of the target that gets it."),
        )
    ),
    KeyEffect("filters.*.schema-pattern", "required", "Schemas that the filter is for.", _FILTER),
    KeyEffect("filters.*.table-pattern", "", "Tables that it is for; empty: the schema; `*`: both.", _FILTER),
    KeyEffect("filters.*.events", "[]", "Event types: docs/merge-rules.md.", _FILTER),
    KeyEffect("filters.*.sql-pattern", "[]", "Regular expressions, one of which the statement must match.", _FILTER),
    KeyEffect("filters.*.action", "Do", "Do, Ignore or Error.", _FILTER),
    KeyEffect("expression-filter.*.schema", "required", "Upstream schema.", _EXPRESSIONS),
    KeyEffect("expression-filter.*.table", "required", "Upstream table.", _EXPRESSIONS),
    KeyEffect(
        "expression-filter.*.insert-value-expr",
        "",
        "Inserted rows for which it is true are left out.",
        _EXPRESSIONS,
    ),
    KeyEffect("expression-filter.*.update-old-value-expr", "", "For updates: true for the row before.", _EXPRESSIONS),
    KeyEffect("expression-filter.*.update-new-value-expr", "", "For updates: true for the row after.", _EXPRESSIONS),
    KeyEffect(
        "expression-filter.*.delete-value-expr",
        "",
        "Deletes of rows for which it is true are left out.",
        _EXPRESSIONS,
    ),
    KeyEffect("column-mappings.*.schema-pattern", "required", "Upstream schemas.", _MAPPER),
    KeyEffect("column-mappings.*.table-pattern", "", "Upstream tables.", _MAPPER),
    KeyEffect("column-mappings.*.source-column", "", "Column that is read; empty: target-column.", _MAPPER),
    KeyEffect("column-mappings.*.target-column", "required", "Column that gets the result.", _MAPPER),
    KeyEffect("column-mappings.*.expression", "required", "partition id, add prefix or add suffix.", _MAPPER),
    KeyEffect("column-mappings.*.arguments", "[]", "Arguments of the expression.", _MAPPER),
    KeyEffect(
        "column-mappings.*.create-table-query",
        "",
        "Target tables are created from the upstream's.",
        kind="warned",
    ),
    *_lists("black-white-list", " Older spelling of block-allow-list, warned of."),
    *_lists("block-allow-list"),
)

_END = (
    KeyEffect(
        "clean-dump-file",
        "true",
        "Removes the dump once it is loaded, in modes full and all. In load and load&sync the files stay, and true is "
        "warned of.",
        "dm_worker/loader/load_unit.py",
    ),
    KeyEffect("ansi-quotes", "false", "The upstream's sql_mode counts, which is in the binlog.", kind="warned"),
    KeyEffect("remove-meta", "false", "Give --remove-meta to start-task.", kind="warned"),
    KeyEffect(
        "experimental.async-checkpoint-flush",
        "false",
        "true is refused (20003): not supported.",
        kind="refused",
    ),
)

TASK_EFFECTS: tuple[KeyEffect, ...] = (*_TASK, *_RULES, *MYDUMPER, *LOADER, *SYNCER, *VALIDATOR, *_END)
