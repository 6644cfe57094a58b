"""Whether the target's foreign keys can have the same effects as the upstream's. Pure.

The changes of CASCADE and SET NULL are not in the binlog. The result is equal if the target has the same keys between
the same tables and checks them; otherwise rows that should change would stay, or other rows would change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import ForeignKey

#: The item of ``ignore-checking-items`` with which an operator accepts it.
IGNORE = "foreign_keys"
_WAY_PAST = (
    f"If the rows that these keys change do not matter, add `{IGNORE}` to ignore-checking-items: the task then "
    "runs without this check."
)


@dataclass(frozen=True, slots=True)
class ForeignKeyProblem:
    """A difference that would remain at the target, and the operator action."""

    what: str
    workaround: str


@dataclass(frozen=True, slots=True)
class ForeignKeySetting:
    """A task's settings. ``checks``: foreign_key_checks of its session, None without one. ``merges``: shards
    are merged. ``mapped``: upstream tables with column mapping. ``acts``: the target's server enforces foreign keys."""

    checks: bool | None = None
    merges: bool = False
    mapped: Collection[TableId] = ()
    acts: bool = True


@dataclass(frozen=True, slots=True)
class MigratedTables:
    """The targets of the upstream's tables, by lower-case names, and the target tables' names in lower case."""

    routes: Mapping[TableId, TableId]
    targets: frozenset[TableId]

    @classmethod
    def of(cls, migrated: Mapping[TableId, TableId]) -> MigratedTables:
        """``migrated``: upstream table → its target table."""
        routes = {_folded(source): name for source, name in migrated.items()}
        return cls(routes, frozenset(map(_folded, routes.values())))


def find_problems(
    upstream: Iterable[ForeignKey],
    target: Iterable[ForeignKey],
    migrated: MigratedTables,
    present: Collection[TableId],
    setting: ForeignKeySetting,
) -> list[ForeignKeyProblem]:
    """Why the target can't do what the upstream's keys do.

    ``present``: the existing target tables of the upstream's children; tables that the task itself will create are not
    reported as missing.
    """
    routes = migrated.routes
    setting = replace(setting, mapped=frozenset(map(_folded, setting.mapped)))
    there = {_folded(name) for name in present}
    acting = [key for key in upstream if key.acts and _folded(key.child) in routes]
    target = list(target)
    known = {_identity(key) for key in target}
    wanted = {_routed(key, routes) for key in acting}
    found = []
    for key in acting:
        child = _folded(routes[_folded(key.child)])
        why = _obstacle(key, routes, setting)
        if not why and child in there and _routed(key, routes) not in known:
            why = _lacks(routes[_folded(key.child)])
        if why:
            found.append(
                ForeignKeyProblem(
                    f"{_name(key)} changes rows by an action that the binlog does not contain; {why[0]}", why[1]
                )
            )
    if setting.checks is not False and setting.acts:
        found += _needless(target, wanted, migrated.targets)
        if setting.checks is None:
            found += _strangers(target, migrated.targets)
    return [ForeignKeyProblem(problem.what, f"{problem.workaround} {_WAY_PAST}") for problem in dict.fromkeys(found)]


def _obstacle(key: ForeignKey, routes: Mapping[TableId, TableId], setting: ForeignKeySetting) -> tuple[str, str] | None:
    """Why a key of the upstream can't have its effect at any target, and the operator action."""
    if _folded(key.parent) not in routes:
        return (
            f"its parent {qualified(*key.parent)} is not migrated, so the target does not see when it acts",
            "Migrate the parent too, or exclude the child with block-allow-list.",
        )
    if not setting.acts:
        return (
            "the target's server does not enforce foreign keys",
            "Turn them on there (TiDB 6.6 or newer, tidb_enable_foreign_key).",
        )
    if setting.checks is False:
        return (
            (
                "the task sets foreign_key_checks: 0 in target-database.session, so the target does not execute the "
                "action"
            ),
            "Remove foreign_key_checks from target-database.session.",
        )
    if setting.merges:
        return (
            "with shard-mode, rows may be held back and arrive after the action",
            "Exclude the tables from the task, or replace the key with one that has no action.",
        )
    if not {_folded(key.child), _folded(key.parent)}.isdisjoint(setting.mapped):
        return (
            "column mapping changes its tables' values",
            "Remove the tables from column-mappings.",
        )
    return None


def _lacks(child: TableId) -> tuple[str, str]:
    name = qualified(*child)
    return f"the target table {name} has no such key", f"Give {name} the same foreign key, with the same actions."


def _needless(
    target: Iterable[ForeignKey], wanted: Collection[object], migrated: Collection[TableId]
) -> Iterator[ForeignKeyProblem]:
    """Keys of the target with actions that the upstream's keys do not have."""
    for key in target:
        if key.acts and _folded(key.parent) in migrated and _identity(key) not in wanted:
            yield ForeignKeyProblem(
                f"the target's {_name(key)} changes rows by an action, and no migrated key of the upstream has the "
                "same action",
                "Drop it on the target; or, if no foreign key of the upstream has an action, set "
                "foreign_key_checks: 0 in target-database.session.",
            )


def _strangers(target: list[ForeignKey], migrated: Collection[TableId]) -> Iterator[ForeignKeyProblem]:
    """Keys to tables that the task does not migrate; they are checked because another key in the table acts."""
    ends_of = [(key, {_folded(key.child), _folded(key.parent)}) for key in target]
    beside: dict[TableId, set[TableId]] = {}
    for ends in (ends for _, ends in ends_of if all(end in migrated for end in ends)):
        for end in ends:
            beside.setdefault(end, set()).update(ends)
    checked: set[TableId] = set()
    found = {end for key, ends in ends_of if key.acts for end in ends if end in migrated}
    while found:
        checked |= found
        found = {other for end in found for other in beside.get(end, ())} - checked
    for key, ends in ends_of:
        if not key.acts and not ends.isdisjoint(checked) and not all(end in migrated for end in ends):
            yield ForeignKeyProblem(
                f"the target's {_name(key)} connects tables with foreign key actions to a table that the task does "
                "not migrate, so the target may refuse rows",
                "Migrate that table too, or drop the key on the target.",
            )


def _name(key: ForeignKey) -> str:
    return (
        f"foreign key of {qualified(*key.child)} ({', '.join(key.columns)}) to {qualified(*key.parent)} "
        f"({', '.join(key.parent_columns)})"
    )


def _folded(table: TableId) -> TableId:
    return table[0].lower(), table[1].lower()


def _routed(key: ForeignKey, routes: Mapping[TableId, TableId]) -> object:
    child, parent = routes[_folded(key.child)], routes.get(_folded(key.parent))
    return None if parent is None else (_folded(child), _folded(parent), *_details(key))


def _identity(key: ForeignKey) -> object:
    return _folded(key.child), _folded(key.parent), *_details(key)


def _details(key: ForeignKey) -> tuple[object, ...]:
    pairs = zip(key.columns, key.parent_columns, strict=True)
    return frozenset((one.lower(), other.lower()) for one, other in pairs), key.actions
