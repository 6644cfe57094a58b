"""Checks of the target's tables against the upstreams': counters, indexes, keys, constraints, partitions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dm_master.cutover.facts import CutoverFacts, CutoverUpstream
from dm_master.cutover.verdict import CheckVerdict, at_target, problems
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import ForeignKey, Index, TableInfo


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
    """The target has each index of the upstreams."""
    found: dict[str, None] = {}
    for upstream in facts.upstreams:
        for target, info, there in _pairs(facts, upstream):
            has = {_key(index) for index in there.indexes}
            for index in info.indexes:
                if _key(index) not in has:
                    unique = "UNIQUE " if index.unique else ""
                    found[f"{qualified(*target)} lacks {unique}{index.name} ({', '.join(index.columns)})"] = None
    return problems(
        "indexes",
        list(found),
        "ALTER TABLE … ADD INDEX on the target; --accept indexes if a unique key is left out because shards merge",
        otherwise="each index of the upstreams is at the target",
    )


def _key(index: Index) -> tuple[object, ...]:
    return (index.unique, tuple((part.column.lower(), part.length) for part in index.parts))


def _pairs(facts: CutoverFacts, upstream: CutoverUpstream) -> Iterator[tuple[TableId, TableInfo, TableInfo]]:
    """Target table, and the upstream's and the target's structure, where both exist."""
    for source, target in upstream.routed.items():
        info = upstream.server.tables.structures.get(source)
        there = facts.target.server.tables.structures.get(target)
        if info is not None and there is not None:
            yield target, info, there


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
    """The target has the upstreams' foreign keys between migrated tables."""
    there = {_routed(key, key.child, key.parent) for key in facts.target.server.tables.foreign_keys}
    found: dict[str, None] = {}
    for upstream in facts.upstreams:
        for key in upstream.server.tables.foreign_keys:
            child, parent = upstream.routed.get(key.child), upstream.routed.get(key.parent)
            if child is None:
                continue
            shown = f"{qualified(*child)} ({', '.join(key.columns)}) → {qualified(*(parent or key.parent))}"
            if parent is None or _routed(key, child, parent) not in there:
                found[f"{upstream.server.label}: {shown} is not at the target"] = None
    return problems(
        "foreign-keys", list(found), "ALTER TABLE … ADD FOREIGN KEY on the target", otherwise="none is missing"
    )


def _routed(key: ForeignKey, child: TableId, parent: TableId) -> tuple[object, ...]:
    return child, _lower(key.columns), parent, _lower(key.parent_columns), key.actions


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def check_constraints(facts: CutoverFacts) -> CheckVerdict:
    """Each target table has at least as many CHECK constraints as the upstream's. Names are not compared: servers
    generate some."""
    there = facts.target.server.tables.constraints
    own = [
        (one, {table: tuple(sorted(names)) for table, names in one.server.tables.constraints.items()})
        for one in facts.upstreams
    ]
    found = _fewer("CHECK constraints", {table: tuple(names) for table, names in there.items()}, own)
    return problems("checks", found, "ALTER TABLE … ADD CONSTRAINT … CHECK on the target", otherwise="none is missing")


def check_partitions(facts: CutoverFacts) -> CheckVerdict:
    """The target's tables have as many partitions as the upstreams'."""
    found = _fewer(
        "partitions",
        facts.target.server.tables.partitions,
        [(one, one.server.tables.partitions) for one in facts.upstreams],
    )
    remedy = "ALTER TABLE … PARTITION BY on the target, or --accept partitions"
    return problems("partitions", found, remedy, otherwise="none is missing")


_NamesByTable = Mapping[TableId, tuple[str, ...]]


def _fewer(what: str, there: _NamesByTable, upstreams: Sequence[tuple[CutoverUpstream, _NamesByTable]]) -> list[str]:
    """The target tables that have fewer of these names than an upstream's table."""
    found: dict[str, None] = {}
    for upstream, own in upstreams:
        for source, names in own.items():
            target = upstream.routed.get(source)
            if target is not None and len(there.get(target, ())) < len(names):
                found[f"{qualified(*target)} lacks {what} of {upstream.server.label}: {', '.join(names)}"] = None
    return list(found)
