"""Checks of the target's tables against the upstreams': counters, indexes, keys, constraints, partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dm_master.cutover.facts import CutoverFacts, CutoverUpstream, Partitioning
from dm_master.cutover.verdict import CheckVerdict, at_target, problems
from pkg.ddl.shown_table import ShownCheck, ShownKey, ShownTable
from pkg.mysql.names import TableId, qualified, quote
from pkg.mysql.schema import ForeignKey, Index, TableInfo
from pkg.rules.expression_filter.meaning import meaning, without_charsets


def check_counters(facts: CutoverFacts) -> CheckVerdict:
    """The target does not generate an AUTO_INCREMENT number that the upstreams or their rows have used."""
    there, low = facts.target.server.tables.counters, low_counters(facts)
    found = [f"{qualified(*table)}: next is {there.get(table, 1)}, must be {number}" for table, number in low.items()]
    remedy = at_target(f"ALTER TABLE {qualified(*table)} AUTO_INCREMENT = {number}" for table, number in low.items())
    return problems(
        "auto-increment",
        found,
        remedy,
        otherwise=f"{len(facts.target.highest)} tables have a high enough number",
    )


def low_counters(facts: CutoverFacts) -> dict[TableId, int]:
    """Target table → the required next number, for tables whose next number is too low."""
    there = facts.target.server.tables.counters
    return {table: number for table, number in needed_counters(facts).items() if there.get(table, 1) < number}


def needed_counters(facts: CutoverFacts) -> dict[TableId, int]:
    """The lowest valid next number of each target table with an AUTO_INCREMENT column: above its highest row, and not
    below an upstream's next number, unless a mapping changes the column."""
    wanted = {table: number + 1 for table, number in facts.target.highest.items()}
    for upstream in facts.upstreams:
        for source, number in upstream.server.tables.counters.items():
            target = upstream.routed.get(source)
            column = _counter_column(upstream.server.tables.structures.get(source))
            if target in wanted and (source, column) not in upstream.mapped:
                wanted[target] = max(wanted[target], number)
    return wanted


def _counter_column(info: TableInfo | None) -> str:
    return next((column.name for column in info.columns if column.auto_increment), "") if info is not None else ""


def check_indexes(facts: CutoverFacts) -> CheckVerdict:
    """The target has each index of the upstreams: of that kind, on these columns, prefixes and expressions."""
    found: dict[str, str] = {}
    for upstream in facts.upstreams:
        for source, target, info, there in _pairs(facts, upstream):
            shown, at = upstream.server.tables.definition(source), facts.target.server.tables.definition(target)
            has = {_key(index, at) for index in there.indexes}
            for index in info.indexes:
                if _key(index, shown) not in has:
                    key = shown.key(index.name)
                    sql = "" if key is None else f"ALTER TABLE {qualified(*target)} ADD {key.sql}"
                    found[f"{qualified(*target)} lacks {_described(index, key)}"] = sql
    remedy = at_target(found.values(), "--accept indexes if a unique key is left out because shards merge")
    return problems("indexes", list(found), remedy, otherwise="each index of the upstreams is at the target")


def _key(index: Index, table: ShownTable) -> tuple[object, ...]:
    shown = table.key(index.name)
    texts = dict(enumerate(() if shown is None else shown.parts))
    return (
        index.unique,
        index.without_overlaps,
        "" if shown is None else shown.kind,
        tuple((part.column.lower() or meaning(texts.get(at, "")), part.length) for at, part in enumerate(index.parts)),
    )


def _described(index: Index, shown: ShownKey | None) -> str:
    unique = "UNIQUE " if index.unique else ""
    kind = f"{shown.kind} " if shown is not None and shown.kind else ""
    parts = index.columns if shown is None else shown.parts
    return f"{unique}{kind}{index.name} ({', '.join(parts)})"


def _pairs(facts: CutoverFacts, upstream: CutoverUpstream) -> Iterator[tuple[TableId, TableId, TableInfo, TableInfo]]:
    """Upstream's and target's table, and the structures of both, where both exist."""
    for source, target in upstream.routed.items():
        info = upstream.server.tables.structures.get(source)
        there = facts.target.server.tables.structures.get(target)
        if info is not None and there is not None:
            yield source, target, info, there


def check_tables(facts: CutoverFacts) -> CheckVerdict:
    """Each migrated table exists at the target."""
    there = facts.target.server.tables.structures
    found = [
        f"{one.server.label}: {qualified(*source)}: its target table {qualified(*target)} does not exist"
        for one in facts.upstreams
        for source, target in one.routed.items()
        if target not in there
    ]
    tables = len({target for one in facts.upstreams for target in one.routed.values()})
    return problems("tables", found, "see dmctl show-rules with the task file", otherwise=f"{tables} target tables")


def check_foreign_keys(facts: CutoverFacts) -> CheckVerdict:
    """The target has the upstreams' foreign keys between migrated tables, with their actions."""
    at = facts.target.server.tables.foreign_keys
    there = {_routed(key, key.child, key.parent) for key in at}
    found: dict[str, str] = {}
    for upstream in facts.upstreams:
        for key in upstream.server.tables.foreign_keys:
            child, parent = upstream.routed.get(key.child), upstream.routed.get(key.parent)
            if child is None:
                continue
            shown = f"{upstream.server.label}: {qualified(*child)} ({', '.join(key.columns)}) →"
            if parent is None:
                found[f"{shown} {qualified(*key.parent)} is not at the target: that table is not migrated"] = ""
            elif _routed(key, child, parent) not in there:
                # The same key with other actions.
                other = [each for each in at if _columns(each, each.child, each.parent) == _columns(key, child, parent)]
                why = f"has other actions than{_actions(key) or ' none'}" if other else "is not at the target"
                found[f"{shown} {qualified(*parent)} {why}"] = _added(key, child, parent, other)
    return problems("foreign-keys", list(found), at_target(found.values()), otherwise="none is missing")


def _routed(key: ForeignKey, child: TableId, parent: TableId) -> tuple[object, ...]:
    return *_columns(key, child, parent), key.actions


def _columns(key: ForeignKey, child: TableId, parent: TableId) -> tuple[object, ...]:
    return child, _lower(key.columns), parent, _lower(key.parent_columns)


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _added(key: ForeignKey, child: TableId, parent: TableId, instead: Sequence[ForeignKey]) -> str:
    drops = "".join(f"DROP FOREIGN KEY {quote(each.name)}, " for each in instead)
    columns, parents = (", ".join(map(quote, names)) for names in (key.columns, key.parent_columns))
    references = f"REFERENCES {qualified(*parent)} ({parents}){_actions(key)}"
    return f"ALTER TABLE {qualified(*child)} {drops}ADD FOREIGN KEY ({columns}) {references}"


def _actions(key: ForeignKey) -> str:
    words = zip((" ON DELETE ", " ON UPDATE "), key.actions, strict=True)
    return "".join(f"{word}{action}" for word, action in words if action)


def check_constraints(facts: CutoverFacts) -> CheckVerdict:
    """Each target table has the upstream's CHECK constraints. Names are not compared: servers generate some."""
    flavor = facts.target.server.info.flavor
    found: dict[str, str] = {}
    for upstream in facts.upstreams:
        for source, target, _, there in _pairs(facts, upstream):
            at = facts.target.server.tables.definition(target).checks
            has = {meaning(check.expression) for check in at if check.enforced} | _checked_by_type(there)
            for check in upstream.server.tables.definition(source).checks:
                if check.enforced and meaning(check.expression) not in has:
                    same = next((each for each in at if each.name and each.name == check.name), None)
                    other = "" if same is None else f"; the one of that name is {_shown_check(same)}"
                    name = f"{check.name} " if check.name else ""
                    line = (
                        f"{qualified(*target)} lacks CHECK {name}{check.expression} of {upstream.server.label}{other}"
                    )
                    found[line] = _constrained(target, check, flavor, replaces=same is not None)
    ignored = facts.target.server.variables.get("tidb_enable_check_constraint", "ON") == "OFF"
    first = ["SET GLOBAL tidb_enable_check_constraint = ON"] if ignored else []
    return problems("checks", list(found), at_target([*first, *found.values()]), otherwise="none is missing")


def _checked_by_type(table: TableInfo) -> set[str]:
    """The constraints that MariaDB gives to JSON columns, for a server with a type for them."""
    return {meaning(f"json_valid({quote(one.name)})") for one in table.columns if one.type_name == "json"}


def _shown_check(check: ShownCheck) -> str:
    return check.expression if check.enforced else f"{check.expression} NOT ENFORCED"


def _constrained(table: TableId, check: ShownCheck, flavor: str, *, replaces: bool) -> str:
    drop = f"DROP CONSTRAINT {quote(check.name)}, " if replaces else ""
    name = f"CONSTRAINT {quote(check.name)} " if check.name else ""
    # MariaDB loses the escape of a quote in a string behind the name of its charset.
    expression = without_charsets(check.expression) if flavor == "mariadb" else check.expression
    return f"ALTER TABLE {qualified(*table)} {drop}ADD {name}CHECK {expression}"


def check_partitions(facts: CutoverFacts) -> CheckVerdict:
    """The target's tables are partitioned as the upstreams': by the same, with each partition and its values."""
    found: dict[str, str] = {}
    for upstream in facts.upstreams:
        for source, own in upstream.server.tables.partitions.items():
            target = upstream.routed.get(source)
            if target is None or target not in facts.target.server.tables.structures:
                continue
            clause = upstream.server.tables.definition(source).partitioning
            for line in _partition_differences(own, facts.target.server.tables.partitions.get(target)):
                found[f"{qualified(*target)} {line} on {upstream.server.label}"] = (
                    f"ALTER TABLE {qualified(*target)} {clause}"
                )
    remedy = at_target(found.values(), "each copies the table; or --accept partitions")
    return problems("partitions", list(found), remedy, otherwise="none is missing")


def _partition_differences(own: Partitioning, there: Partitioning | None) -> Iterator[str]:
    if there is None:
        yield f"is not partitioned, but {own}"
    elif _method(own) != _method(there):
        yield f"is partitioned {there}, but {own}"
    elif not own.parts[0][1]:
        # By hash or key: names mean nothing.
        if len(there.parts) != len(own.parts):
            yield f"has {len(there.parts)} partitions, but {len(own.parts)}"
    else:
        has = {name.lower(): (values, below) for name, values, below in there.parts}
        for name, values, below in own.parts:
            at = has.get(name.lower())
            if at is None:
                yield f"lacks partition {name} ({values}), which is"
            elif meaning(at[0]) != meaning(values):
                yield f"has partition {name} ({at[0]}), but ({values})"
            elif at[1] != below:
                yield f"has {at[1]} subpartitions in {name}, but {below}"


def _method(one: Partitioning) -> tuple[str, ...]:
    method, expression = one.below
    return one.method, meaning(one.expression), method, meaning(expression)
