"""The keys of a task file, in the order in which files are written. Pure data."""

from __future__ import annotations

from dataclasses import replace

from pkg.config.effects.effect import KeyEffect, effects_of
from pkg.config.effects.shared_keys import LOADERS, MYDUMPERS, SYNCERS, VALIDATORS, database
from pkg.config.model import TaskConfig
from pkg.config.names import task_name
from pkg.config.target_collations import chosen_collations
from pkg.config.task_values import (
    check_async_flush,
    check_online_scheme,
    checking_items,
    online_ddl,
    online_rules,
    shard_mode,
    task_mode,
    timezone,
)
from pkg.errors import Code
from pkg.rules.keys import COLUMN_MAPPING, EXPRESSION_FILTER, FILTER, ROUTE, block_allow_list
from pkg.settings.keys import Block, Choices, FileKey, FilePart

_SPLIT = "dm_master/task_setup/task_split.py"
_PRECHECK = "dm_master/precheck/runner.py"
_ONLINE = "pkg/rules/online_tables.py"
_START = "dm_worker/syncer/checkpoint/start_location.py"
_META = "dm_worker/syncer/checkpoint/meta_store.py"
_HEARTBEAT = "Lag is measured without a table in the upstream."

_TASK: tuple[FilePart, ...] = (
    FileKey(
        "name",
        "Name of the task, at most 46 characters.",
        _META,
        default="required",
        read=task_name,
        sample="every-key",
        comment="\nName of the task, unique; at most 46 characters. Required.",
    ),
    FileKey(
        "task-mode",
        "full, incremental, all, dump, load or load&sync.",
        _START,
        default="required",
        read=task_mode,
        sample="full",
        comment="""\
full: copy once. incremental: replicate the binlog. all: copy, then replicate.
dump, load, load&sync: one part of these alone. Required.""",
    ),
    FileKey("is-sharding", "Older spelling of shard-mode: pessimistic, warned of.", _META, default="false"),
    FileKey(
        "shard-mode",
        "pessimistic coordinates the DDL of merged shards. optimistic is refused (20033).",
        _META,
        read=shard_mode,
        sample='""',
        comment="""
How the DDL of merged shards is coordinated: pessimistic (it runs once in the target, when all shards have run it;
docs/sharding-ddl.md), or "" for no coordination. optimistic is not supported yet.""",
    ),
    FileKey(
        "strict-optimistic-shard-mode",
        "true is refused (20066) without shard-mode optimistic.",
        kind="refused",
        sample="false",
        comment="Only with optimistic: conflicts stop the task.",
    ),
    FileKey(
        "ignore-checking-items",
        "Checks that check-task and start-task leave out.",
        _PRECHECK,
        read=checking_items,
        updatable=True,
        sample="[]",
        comment="""
Checks to leave out before the start: all, version, server_id, binlog_enable, binlog_format, binlog_row_image,
binlog_db, dump_privilege, replication_privilege, target_privilege, conn_number, online_ddl, meta_position,
table_schema, schema_of_shard_tables, auto_increment_ID, rules (rules that do nothing, or cannot be applied),
foreign_keys (keys with CASCADE or SET NULL, if the target cannot do the same), table_engine (target tables that
cannot roll back). The last two are also checked during replication. downstream_table_empty: target tables that have
rows before a full copy.""",
    ),
    FileKey(
        "strict-rules",
        "true: a rule that does nothing is an error before a full copy.",
        _PRECHECK,
        sample="false",
        comment="""\
Whether check-task and start-task refuse a rule that does nothing (a route, or an entry of do-tables, that matches no
table yet) in modes that copy the tables. Otherwise their answers contain a warning.""",
    ),
    FileKey(
        "meta-schema",
        "Schema in the target that holds the task's progress.",
        _META,
        zero_is_default=True,
        sample='"dm_meta"',
        comment="\nSchema in the target in which the task keeps its progress.",
    ),
    FileKey("enable-heartbeat", _HEARTBEAT, kind="warned", default="false"),
    FileKey("heartbeat-update-interval", _HEARTBEAT, kind="warned", default="1"),
    FileKey("heartbeat-report-interval", _HEARTBEAT, kind="warned", default="10"),
    FileKey(
        "timezone",
        "Zone in which expression filters read TIMESTAMP values; warned of without such filters: rows are "
        "transferred in UTC.",
        "dm_worker/syncer/rows/task_rules.py",
        read=timezone,
        sample='""',
        comment="""\
A name such as Asia/Shanghai or an offset such as +08:00: the zone in which expression filters read TIMESTAMP values.
Rows are transferred in UTC, so that a TIMESTAMP stays the same moment in time, independent of the servers' zones.""",
    ),
    FileKey(
        "case-sensitive",
        "Patterns of names are case-sensitive.",
        _SPLIT,
        sample="false",
        comment="Whether the patterns below are case-sensitive.",
    ),
    FileKey(
        "collation_compatible",
        "strict writes the upstream's default collations into statements and structures.",
        "dm_worker/syncer/unit/applying.py",
        choices=Choices(
            ("loose", "strict"), Code.ConfigCollationCompatibleNotSupport, "Set loose or strict.", any_case=False
        ),
        sample='"loose"',
        comment="""\
loose: the target gets statements and structures as the upstream has them; a charset without a collation
then gets the target's default. strict: the upstream's default is written out, so that collations stay the same
if defaults differ (TiDB; MySQL 8 behind an older server). The target must support the collation.""",
    ),
    FileKey(
        "target-collations",
        "Collations of the target in the place of the upstream's, in structures and statements.",
        "dm_worker/syncer/unit/connections.py",
        default="",
        read=chosen_collations,
        free=True,
        sample="{}  # such as {utf8mb4_uca1400_ai_ci: utf8mb4_0900_ai_ci}",
        comment="""\
Collations of the target in the place of the upstream's, in structures and DDL statements: for those that the target
lacks. check-task names them, with an entry for each. Texts then compare and sort by the target's collation.""",
    ),
    FileKey(
        "lossy-conversions",
        "allow: the target's columns may round, cut or pad values (DATETIME(6) into DATETIME). refuse: such a value "
        "stops the task.",
        "dm_worker/syncer/unit/reading.py",
        choices=Choices(("refuse", "allow"), Code.ConfigYamlTransform, "Set refuse or allow.", any_case=False),
        sample='"refuse"',
        comment="""\
Values that a column of the target would round, cut, pad or read otherwise, without an error: DATETIME(6) into
DATETIME, DECIMAL(9,4) into DECIMAL(9,2), DOUBLE into FLOAT, VARCHAR into CHAR (spaces at the end). refuse: such a value
stops the task, in the full copy and in replication; check-task names the columns. allow: the target stores what it
makes of it.""",
    ),
    database(
        "target-database",
        FileKey(
            "max-allowed-packet",
            "Statements of replication have at most half of it, and 1 MiB. Deprecated, warned of: the target's "
            "own limit counts beside it.",
            "dm_worker/syncer/unit/applying.py",
            default="67108864",
        ),
        "to",
        "\nThe server to migrate into. host, port and password have no defaults.",
    ),
)


def _inline(block: Block) -> Block:
    unit = block.name.removesuffix("s")
    return replace(
        block,
        name=unit,
        form="one",
        names=(),
        comment="",
        effect=f"Keys as of an entry of {block.name}, right here.",
        acts=_SPLIT,
        updatable=unit == "syncer",
    )


_INSTANCES = Block(
    "mysql-instances",
    (
        FileKey(
            "source-id",
            "The upstream; it must have been created.",
            _SPLIT,
            default="required",
            sample='"mysql-replica-01"',
        ),
        Block(
            "meta",
            (
                FileKey(
                    "binlog-name",
                    "File where replication begins, in modes incremental and load&sync; warned of in others.",
                    _START,
                ),
                FileKey("binlog-pos", "Position in that file.", _START, default="0"),
                FileKey("binlog-gtid", "The same as a GTID set, for sources with enable-gtid.", _START),
            ),
            comment="""\
Where replication begins, for task-mode incremental and load&sync only:
meta:
  binlog-name: "mysql-bin.000001"
  binlog-pos: 4
  binlog-gtid: \"\"""",
        ),
        FileKey(
            "filter-rules",
            "Entries of filters.",
            _SPLIT,
            default="[]",
            field="filters",
            updatable=True,
            sample='["keep-history"]',
        ),
        FileKey(
            "column-mapping-rules",
            "Entries of column-mappings.",
            _SPLIT,
            default="[]",
            sample='["order-ids"]',
        ),
        FileKey(
            "route-rules",
            "Entries of routes.",
            _SPLIT,
            default="[]",
            field="routes",
            updatable=True,
            sample='["orders", "rest"]',
        ),
        FileKey(
            "expression-filters",
            "Entries of expression-filter.",
            _SPLIT,
            default="[]",
            updatable=True,
            sample='["no-drafts"]',
        ),
        FileKey("black-white-list", "Older spelling of block-allow-list.", _SPLIT),
        FileKey("block-allow-list", "Entry of block-allow-list.", _SPLIT, updatable=True, sample='"shop"'),
        FileKey("mydumper-config-name", "Entry of mydumpers.", _SPLIT, sample='"global"'),
        FileKey(
            "mydumper-thread",
            "Above 0: threads of the dump, over those of the entry.",
            _SPLIT,
            default="0",
            sample="0",
            comment="Only the number of threads, which overrides the block; 0 keeps the block's value.",
        ),
        _inline(MYDUMPERS),
        FileKey("loader-config-name", "Entry of loaders.", _SPLIT, sample='"global"'),
        FileKey(
            "loader-thread",
            "Above 0: pool-size of the load, over that of the entry.",
            _SPLIT,
            default="0",
            sample="0",
        ),
        _inline(LOADERS),
        FileKey("syncer-config-name", "Entry of syncers.", _SPLIT, sample='"global"'),
        FileKey(
            "syncer-thread",
            "Above 0: worker-count, over that of the entry.",
            _SPLIT,
            default="0",
            sample="0",
        ),
        replace(
            _inline(SYNCERS),
            comment="Instead of a named block: mydumper, loader, syncer with the same keys right here.",
        ),
        FileKey("validator-config-name", "Entry of validators.", _SPLIT, sample='"global"'),
    ),
    "items",
    names=("",),
    comment="\nThe upstreams, one entry each; the names refer to the blocks below.",
)

_RULES: tuple[FilePart, ...] = (
    FileKey(
        "online-ddl",
        "Follows gh-ost and pt-online-schema-change instead of replicating their tables.",
        _ONLINE,
        read=online_ddl,
        sample="true",
        comment="""
Recognize the tables of gh-ost and pt-online-schema-change: their rows are not replicated, and the target's real table
is altered when the tool swaps the tables (docs/online-ddl.md). false replicates these tables like any other.""",
    ),
    FileKey(
        "shadow-table-rules",
        "Names of the changed copies.",
        _ONLINE,
        read=online_rules,
        sample='["^_(.+)_(?:new|gho)$"]',
        comment="""\
How those tools name the changed copy (shadow) and the tables that they leave behind (trash); the group is the real
table's name. Every table with such a name is left out, also your own.""",
    ),
    FileKey(
        "trash-table-rules",
        "Names of the tables left behind.",
        _ONLINE,
        read=online_rules,
        sample='["^_(.+)_(?:ghc|del|old)$"]',
    ),
    FileKey(
        "online-ddl-scheme",
        "gh-ost or pt: older spelling of online-ddl: true, warned of.",
        _ONLINE,
        read=check_online_scheme,
    ),
    Block(
        "routes",
        ROUTE,
        "named",
        names=("orders", "rest"),
        comment="""
Which table goes where. A pattern ends in *, or holds ? and [a-c]; "~" before it makes it a regular expression.
A rule with table-pattern wins over one without; two of the same kind for one table are an error.""",
    ),
    Block(
        "filters",
        FILTER,
        "named",
        names=("keep-history",),
        comment="""
Which changes of the binlog are skipped, by kind or by the statement's text. Patterns as in routes, without "~";
rules without table-pattern come before others, and a source's own filters come last. The table-pattern "*" also takes
statements without a table, such as DROP DATABASE.""",
    ),
    Block(
        "expression-filter",
        EXPRESSION_FILTER,
        "named",
        names=("no-drafts",),
        comment="""
Rows of the binlog that are skipped if an expression is true for them. Each entry has one of three kinds:
insert-value-expr; delete-value-expr; update-old-value-expr and update-new-value-expr, both of which must be true.
TIMESTAMPs are in the task's timezone, or UTC; NOW() is the time when the upstream changed the row. An expression
on a column that the table does not have now is not true for any row.""",
    ),
    Block(
        "column-mappings",
        COLUMN_MAPPING,
        "named",
        names=("order-ids",),
        comment="\nValues that are changed on the way, so that keys of merged shards stay distinct. NULL stays NULL.",
    ),
    Block("black-white-list", block_allow_list(" Older spelling of block-allow-list, warned of."), "named"),
    Block(
        "block-allow-list",
        block_allow_list(),
        "named",
        names=("shop",),
        comment="\nWhich tables take part: all, or those in do-dbs and do-tables, without those in ignore-dbs and "
        "ignore-tables.",
    ),
)

_END: tuple[FilePart, ...] = (
    FileKey(
        "clean-dump-file",
        "Removes the dump once it is loaded, in modes full and all. In load and load&sync the files stay, and true is "
        "warned of.",
        "dm_worker/loader/load_unit.py",
        sample="true",
        comment="\nRemove the dump once it is loaded.",
    ),
    FileKey("ansi-quotes", "The upstream's sql_mode counts, which is in the binlog.", kind="warned", default="false"),
    FileKey("remove-meta", "Give --remove-meta to start-task.", kind="warned", default="false"),
    Block(
        "experimental",
        (
            FileKey(
                "async-checkpoint-flush",
                "true is refused (20003): not supported.",
                kind="refused",
                default="false",
                read=check_async_flush,
            ),
        ),
    ),
)

TASK_KEYS: tuple[FilePart, ...] = (*_TASK, _INSTANCES, *_RULES, MYDUMPERS, LOADERS, SYNCERS, VALIDATORS, *_END)
TASK_EFFECTS: tuple[KeyEffect, ...] = tuple(effects_of(TASK_KEYS, model=TaskConfig))
