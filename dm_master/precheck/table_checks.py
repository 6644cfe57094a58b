"""Checks of table structures: each table by itself, compared with its target, and compared with other shards."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dm_master.inspection.inspected_server import InspectedServer
from dm_master.precheck.computed_checks import check_computed
from dm_master.precheck.result import CheckFinding, fail, from_error, warn
from dm_master.rules.inspected_upstream import InspectedUpstream
from pkg import errors
from pkg.config.rule_names import RuleName
from pkg.errors import Code, DMError
from pkg.mysql import engines
from pkg.mysql.introspect import NOT_MIGRATED, ServerInfo
from pkg.mysql.names import TableId
from pkg.mysql.schema import GEOMETRIES, Column, TableInfo
from pkg.rules import value_loss
from pkg.rules.column_mapping import TableMapping
from pkg.rules.merge_rules import extract_problems, mapping_problems
from pkg.rules.online_tables import OnlineTables, TableKind

#: The most tables that a finding names.
_NAMED = 3
#: Groups of types whose values mostly fit into each other. MariaDB's JSON is text.
_KINDS = {
    "number": frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit"}),
    "text": frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json"}),
    "bytes": frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}),
    "time": frozenset({"date", "datetime", "timestamp"}),
}
_INT_WIDTH = re.compile(r"\b(tinyint|smallint|mediumint|int|bigint)\(\d+\)")


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """One upstream table that goes into a target table, perhaps with others.

    ``filled`` are the target's columns that its route fills, with their values; ``mapping`` is the column mapping of
    its rows by the rules ``mapped_by``; ``via`` is its route.
    """

    source_id: str
    info: TableInfo
    filled: tuple[tuple[str, str], ...] = ()
    mapping: TableMapping | None = None
    via: RuleName | None = None
    mapped_by: tuple[RuleName, ...] = ()

    def __str__(self) -> str:
        routed = f" (by {self.via.label}, {self.via.location})" if self.via is not None else ""
        return f"{self.source_id} `{self.info.schema}`.`{self.info.name}`{routed}"

    @property
    def filled_columns(self) -> frozenset[str]:
        """Lower-case names of the columns that the route fills."""
        return frozenset(column.lower() for column, _ in self.filled)

    @property
    def mapped_columns(self) -> frozenset[str]:
        """Lower-case names of the columns that column mapping writes."""
        transforms = self.mapping.transforms if self.mapping is not None else ()
        return frozenset(self.info.columns[transform.target].name.lower() for transform in transforms)


#: Target table → the upstream tables that go into it.
TablesByTarget = Mapping[TableId, Sequence[RoutedTable]]


def shard_of(upstream: InspectedUpstream, info: TableInfo) -> RoutedTable:
    """The table with the effects of its rules. The check of the rules reports those that cannot be computed."""
    rules, table = upstream.rules, (info.schema, info.name)
    filled: tuple[tuple[str, str], ...] = ()
    mapping = None
    with contextlib.suppress(DMError):
        filled = rules.router.extracted(*table, upstream.subtask.source_id)
    with contextlib.suppress(DMError):
        mapping = rules.mapper.compile(*table, info.columns)
    route = rules.router.rule_for(*table)
    via = None if route is None else rules.name_of(route)
    mapped_by = tuple(rules.name_of(rule) for rule in rules.mapper.rules_for(*table))
    return RoutedTable(upstream.subtask.source_id, info, filled, mapping, via, mapped_by)


def check_table_schema(upstream: InspectedUpstream, target: InspectedServer | None) -> list[CheckFinding]:
    """Checks each table by itself and, if the target has it already, against its target."""
    subtask = upstream.subtask
    findings = [_not_migrated(subtask.source_id, *other) for other in upstream.others if other[2] in NOT_MIGRATED]
    certain = target is not None and upstream.starts_now(target)
    present = {} if target is None else target.table_infos(upstream.routed[table] for table in upstream.structures)
    for table, info in upstream.structures.items():
        shard = shard_of(upstream, info)
        findings += check_table(shard)
        if target is not None:
            name = upstream.routed[table]
            there = present.get(name)
            if there is not None or subtask.task_mode != "incremental":
                findings += check_merge_rules(shard, there, certain=certain)
            if there is not None:
                lossy = subtask.lossy_conversions == value_loss.ALLOW
                findings += compare_with_target(shard, there, certain=certain, lossy=lossy)
            elif subtask.task_mode == "incremental":
                findings.append(_target_missing(shard, name))
    findings += [] if target is None else check_computed(upstream, target, present)
    if target is not None and turns_axes(upstream.info) != turns_axes(target.info):
        findings += check_axes(upstream.structures)
    return findings


def turns_axes(server: ServerInfo) -> bool:
    """Whether the server reads and shows coordinates in the order of their reference system, as MySQL 8 does."""
    return server.flavor == "mysql" and server.version >= (8, 0, 0)


def _named(tables: Sequence[TableId]) -> str:
    """The first tables by name, and how many there are besides."""
    names = ", ".join(f"`{schema}`.`{table}`" for schema, table in tables[:_NAMED])
    return f"{names} and {len(tables) - _NAMED} more" if len(tables) > _NAMED else names


def check_axes(structures: Mapping[TableId, TableInfo]) -> list[CheckFinding]:
    """Tables whose coordinates another server shows in another order, as one finding."""
    found = [
        table for table, info in structures.items() if any(column.type_name in GEOMETRIES for column in info.columns)
    ]
    if not found:
        return []
    return [
        warn(
            f"coordinates of SRID 4326 are shown in another order at the target: {len(found)} tables have geometries "
            f"({_named(found)})",
            "The stored bytes stay the same. MySQL 8 takes and shows latitude first for SRID 4326 and other geographic "
            "systems, other servers longitude first: adapt what applications read with ST_AsText and ST_X at the "
            "target. docs/servers.md, 'Servers', has an example.",
        )
    ]


def _not_migrated(source_id: str, schema: str, name: str, kind: str) -> CheckFinding:
    return fail(
        f"a {NOT_MIGRATED[kind]} can't be migrated",
        "Leave it out by ignore-tables in the block-allow-list.",
        subject=f"{source_id} `{schema}`.`{name}`",
    )


def _target_missing(shard: RoutedTable, name: TableId) -> CheckFinding:
    return warn(
        f"target table `{name[0]}`.`{name[1]}` does not exist, and task-mode incremental does not create it",
        "Create it in the target, or use task-mode all.",
        subject=str(shard),
    )


def check_merge_rules(shard: RoutedTable, there: TableInfo | None, *, certain: bool = True) -> list[CheckFinding]:
    """Whether the target's table has what column mapping and extracts need; None: the task will create it. Pure."""
    problem = fail if certain else warn
    findings = [
        problem(each.what, each.workaround, subject=str(shard))
        for each in extract_problems(shard.info, there, [column for column, _ in shard.filled])
    ]
    if shard.mapping is not None:
        names = "".join(f"{name}: " for name in shard.mapped_by)
        findings += [
            problem(f"{names}{each.what}", each.workaround, subject=str(shard))
            for each in mapping_problems(shard.info, there, shard.mapping)
        ]
    return findings


def check_table(shard: RoutedTable) -> list[CheckFinding]:
    """Properties of a table that matter by themselves. Pure."""
    findings = []
    if shard.info.foreign_keys:
        findings.append(
            warn(
                "replication checks foreign keys only between tables where one has an action (CASCADE, SET NULL)",
                "Make sure that the task migrates all tables that they connect.",
                subject=str(shard),
            )
        )
    if shard.info.row_key() is None:
        findings.append(
            warn(
                "the table has no primary key and no unique key over NOT NULL columns: it replicates row by row",
                "Add a primary key.",
                subject=str(shard),
            )
        )
    return findings


def compare_with_target(
    shard: RoutedTable, there: TableInfo, *, certain: bool = True, lossy: bool = False
) -> list[CheckFinding]:
    """Whether rows of the shard fit into the target's table; if not ``certain``, failures are warnings. ``lossy``: the
    task lets the target change values. Pure."""
    findings: list[CheckFinding] = []
    problem = fail if certain else warn
    other = f"target `{there.schema}`.`{there.name}`"
    stored = [column for column in shard.info.columns if not column.generated]
    missing = [column.name for column in stored if there.column(column.name) is None]
    if missing:
        findings.append(
            problem(
                f"the target table lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}",
                "Add them to the target table, or drop it so that the task creates it.",
                subject=str(shard),
                other=other,
            )
        )
    given = shard.filled_columns
    extra = [
        c.name
        for c in there.columns
        if shard.info.column(c.name) is None and c.name.lower() not in given and _needs_value(c)
    ]
    if extra:
        findings.append(
            problem(
                f"the target table has NOT NULL columns without a default that the upstream lacks: {', '.join(extra)}",
                "Give them a default in the target table.",
                subject=str(shard),
                other=other,
            )
        )
    findings += _check_losses(shard, there, other, certain=certain, lossy=lossy)
    findings += _compare_details(shard, there, other)
    return findings


def _check_losses(
    shard: RoutedTable, there: TableInfo, other: str, *, certain: bool, lossy: bool
) -> list[CheckFinding]:
    """Columns whose values the target changes or may change; if it only may, the task stops at such a value."""
    losses = [
        loss
        for loss in value_loss.table_losses(shard.info, there, allowed=lossy)
        if loss.column.lower() not in shard.mapped_columns
    ]
    findings = []
    for loss in losses:
        if loss.every:
            how, what = (fail if certain else warn), "the target does not keep the column's values"
        elif loss.kind:
            how, what = warn, "the task stops at a value that the target would change"
        else:
            how, what = warn, "the task stops at a NULL, which the target would fill in"
        advice = value_loss.way_out((there.schema, there.name), loss)
        findings.append(how(f"{what}: {value_loss.describe(loss)}", advice, subject=str(shard), other=other))
    return findings


def _needs_value(column: Column) -> bool:
    return not (column.nullable or column.default is not None or column.generated or column.auto_increment)


def _compare_details(shard: RoutedTable, there: TableInfo, other: str) -> list[CheckFinding]:
    findings = []
    changed = _differing_columns(shard.info, there, without=shard.mapped_columns)
    if changed:
        findings.append(
            warn(
                f"column types differ: {'; '.join(changed)}",
                "Make sure that every value of the upstream fits.",
                subject=str(shard),
                other=other,
            )
        )
    if _key(shard.info) not in {key - shard.filled_columns for key in _unique_keys(there)}:
        findings.append(
            warn(
                "the target table has none of the upstream's unique keys" if _key(shard.info) else "only one has a key",
                "Give both tables the same primary key.",
                subject=str(shard),
                other=other,
            )
        )
    return findings


def _key(info: TableInfo) -> frozenset[str]:
    key = info.row_key()
    return frozenset(name.lower() for name in key.columns) if key else frozenset()


def _unique_keys(info: TableInfo) -> set[frozenset[str]]:
    keys = {frozenset(name.lower() for name in index.columns) for index in info.unique_keys}
    return keys or {frozenset()}


def _differing_columns(one: TableInfo, two: TableInfo, without: frozenset[str] = frozenset()) -> list[str]:
    pairs = [(column, two.column(column.name)) for column in one.columns if column.name.lower() not in without]
    return [f"{a.name} is {_type(a)} and {_type(b)}" for a, b in pairs if b is not None and _type(a) != _type(b)]


def _type(column: Column) -> str:
    """The type without the display width of integers, which does not limit values."""
    text = _INT_WIDTH.sub(r"\1", column.column_type.lower())
    # utf8 and utf8mb3 are names of the same charset.
    charset = re.sub(r"^utf8$", "utf8mb3", column.charset.lower())
    return f"{text} {charset}".strip()


def by_target(upstreams: Sequence[InspectedUpstream]) -> dict[TableId, list[RoutedTable]]:
    """Target table → the upstream tables that go into it."""
    groups: dict[TableId, list[RoutedTable]] = defaultdict(list)
    for upstream in upstreams:
        for table, info in upstream.structures.items():
            groups[upstream.routed[table]].append(shard_of(upstream, info))
    return dict(groups)


def check_shards(groups: TablesByTarget) -> list[CheckFinding]:
    """Tables that merge must have the same columns. Pure."""
    findings: list[CheckFinding] = []
    for target, shards in groups.items():
        for shard in shards[1:]:
            findings += _compare_shards(target, shards[0], shard)
    return findings


def _compare_shards(target: TableId, first: RoutedTable, shard: RoutedTable) -> list[CheckFinding]:
    """Rows can merge if names agree and types are of one kind; any other difference may cause harm."""
    one, two = first.info, shard.info
    only = [column.name for a, b in ((one, two), (two, one)) for column in a.columns if b.column(column.name) is None]
    pairs = [(column, two.column(column.name)) for column in one.columns]
    mixed = [f"{a.name} is {_type(a)} and {_type(b)}" for a, b in pairs if b is not None and _kind(a) != _kind(b)]
    if only:
        found, how = f"only one of them has the columns {', '.join(only)}", fail
    elif mixed:
        found, how = f"column types cannot merge: {'; '.join(mixed)}", fail
    elif changed := _differing_columns(one, two):
        found, how = f"column types: {'; '.join(changed)}", warn
    elif _key(one) != _key(two):
        found, how = "their keys have different columns", warn
    else:
        return []
    message = f"tables that merge into `{target[0]}`.`{target[1]}` differ: {found}"
    return [how(message, "Give all of them the same structure.", subject=str(shard), other=str(first))]


def _kind(column: Column) -> str:
    return next((kind for kind, names in _KINDS.items() if column.type_name in names), column.type_name)


def check_coordination(groups: TablesByTarget) -> list[CheckFinding]:
    """Tables that merge in a task without shard-mode, which replicates, as one finding. Pure."""
    merged = [target for target, shards in groups.items() if len(shards) > 1]
    if not merged:
        return []
    return [
        warn(
            f"several upstream tables merge into each of {len(merged)} target tables ({_named(sorted(merged))}), and "
            "the task has no shard-mode: the DDL of each upstream table runs at the target when it is read",
            "If these tables get DDL while the task runs, set `shard-mode: pessimistic`. Otherwise rows that a slower "
            "table has before its DDL can get other values, or stop the task.",
        )
    ]


def check_engines(target: InspectedServer, tables: Iterable[TableId]) -> list[CheckFinding]:
    """Target tables that can't roll back."""
    return [
        fail(engines.problem(table, engine), f"{engines.remedy(table)} {engines.exemption()}")
        for table, engine in engines.tables_without_transactions(target.conn, tables)
    ]


def check_empty(target: InspectedServer, tables: Iterable[TableId]) -> list[CheckFinding]:
    """Target tables with rows before a full copy, as one finding. ``tables`` must exist."""
    filled = target.tables_with_rows(sorted(tables))
    if not filled:
        return []
    return [
        warn(
            f"target tables have rows before the full copy: {len(filled)} ({_named(filled)})",
            "If the rows are from an earlier copy, empty these tables: otherwise the load stops at the first duplicate "
            "key (1062), and tables without a key get rows twice. If other tasks write to these tables, do nothing. To "
            "leave out this check, put downstream_table_empty into ignore-checking-items.",
        )
    ]


def check_same_names(targets: Iterable[TableId]) -> list[CheckFinding]:
    """Targets whose names differ only in case are one table on some servers. Pure."""
    folded: dict[TableId, set[TableId]] = defaultdict(set)
    for schema, table in targets:
        folded[(schema.lower(), table.lower())].add((schema, table))
    return [
        from_error(
            errors.new(
                Code.TaskCheckSameTableName,
                "target tables differ only in case: "
                + ", ".join(f"`{schema}`.`{table}`" for schema, table in sorted(names)),
                workaround="Route them to one table, or to names that differ in more than case.",
            )
        )
        for names in folded.values()
        if len(names) > 1
    ]


def check_online_ddl(upstream: InspectedUpstream) -> list[CheckFinding]:
    """A ghost table means that an online change is running; other tables with such names are left out, perhaps by
    mistake."""
    online = OnlineTables.of(upstream.subtask)
    migrated = set(upstream.tables)
    findings = []
    for schema, tables in upstream.schemas.items():
        for table in tables:
            kind = online.kind(table)
            if kind is TableKind.REAL or not upstream.rules.takes_any(schema, online.real_names(table)):
                continue
            real = next((name for name in online.real_names(table) if (schema, name) in migrated), None)
            if kind is TableKind.GHOST and real is not None and (schema, table) in upstream.followed_ghosts:
                findings.append(
                    warn(
                        f"table `{schema}`.`{real}` is being changed by an online DDL tool through `{table}`, and the "
                        "task's meta tables have the change so far: it continues here",
                        "Nothing is to be done.",
                    )
                )
            elif kind is TableKind.GHOST and real is not None:
                findings.append(
                    fail(
                        f"your ddl is in pt/ghost online-ddl: table `{schema}`.`{real}` is being changed by an online "
                        f"DDL tool through `{table}`",
                        "Wait until the change is complete. If it was abandoned, drop that table.",
                    )
                )
            else:
                findings.append(
                    warn(
                        f"table `{schema}`.`{table}` is not migrated: its name is that of an online DDL tool's table",
                        f"Drop it if a tool left it behind. To migrate it, narrow {kind.value}, or set "
                        "online-ddl: false when no tool is used.",
                    )
                )
    return findings
