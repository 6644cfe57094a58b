"""Finds the plan for a TABLE_MAP: the table is filtered, routed, and matched with others of its target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from dm_worker.syncer.rows.conflict_sets import Family, families, lower_case
from dm_worker.syncer.rows.name_spellings import SpellingsInUse
from dm_worker.syncer.rows.plan_builder import PlanOptions, build, incomparable_columns, unspread
from dm_worker.syncer.rows.row_shape import NO_RULES, TableRules
from dm_worker.syncer.rows.schema_source import FetchTable
from dm_worker.syncer.rows.table_plan import COMPACT, ORDERED, TablePlan
from pkg import errors
from pkg.binlog.events import event_from_bytes
from pkg.binlog.position import Position
from pkg.binlog.rows.row_decoder import RowDecoder
from pkg.binlog.table_map import TableMap, parse_table_map, table_map_name
from pkg.errors import Code, DMError
from pkg.mysql import engines
from pkg.mysql.names import TableId, qualified
from pkg.mysql.schema import ForeignKey, TableInfo
from pkg.process.log import get_logger

log = get_logger("syncer.tables")


#: The task's rules for a table with this structure. Raises DMError for rules that don't fit it.
RulesOf = Callable[[TableInfo], TableRules]
#: All foreign keys that the target checks.
ForeignKeys = Callable[[], list[ForeignKey]]


class StructureSource(Protocol):
    """Knows the structures of upstream tables."""

    def structure(self, table_map: TableMap) -> TableInfo:
        """The structure of the rows after ``table_map``. Raises DMError when no known one matches it."""


class HeldBackTable:
    """Counts the rows of a table that are held back. Raises 36027 when its structure does not fit the TABLE_MAP."""

    def __init__(self, table_map: TableMap, structures: StructureSource) -> None:
        self.table = (table_map.schema, table_map.table)
        self._decoder: RowDecoder | None = None
        try:
            self._decoder = RowDecoder(table_map, structures.structure(table_map).columns, key=(), write=())
        except DMError as exc:
            if exc.kind is not Code.SchemaTrackerCannotFetchDownstreamCreateTableStmt:
                raise
            log.info("rows are held back before their structure is known", table=qualified(*self.table))

    def count(self, event: bytes, file: str) -> int:
        """The number of rows in a rows event; 1, for one or more, when the structure is not known yet."""
        return 1 if self._decoder is None else len(self._decoder.changes(event, file))


@dataclass(frozen=True, slots=True)
class _TargetRule:
    """The handling of one target table's rows, for all of its upstream tables."""

    mode: str
    spread: bool
    key_names: tuple[str, ...]
    incomparable: frozenset[str]


class TableRegistry:
    """Creates table plans and caches them until :meth:`forget`.

    All plans of one target table share mode and distribution, because rows with one key may come from several upstream
    tables; tables that foreign keys connect share whether they are spread at all. When a new
    plan needs a rule that spreads less, the older ones are created again, and the batch must end before.
    """

    def __init__(
        self,
        *,
        allows: Callable[[str, str], bool],
        route: Callable[[str, str], tuple[str, str]],
        source: StructureSource,
        target: FetchTable,
        options: PlanOptions,
        rules: RulesOf = lambda _: NO_RULES,
        foreign_keys: ForeignKeys = list,
        unsafe_engines: Callable[[], Collection[str]] = tuple,
        holds_back: Callable[[str, str], bool] = lambda *_: False,
        is_there: Callable[[TableId], bool] = lambda _: True,
    ) -> None:
        """``holds_back``: whether the rows of a table that ``allows`` accepts are only counted.
        ``unsafe_engines``: the target's engines, in lower case, that can't roll back. ``is_there``: whether an upstream
        table whose rows were read still exists."""
        self._allows = allows
        self._holds_back = holds_back
        self._rules_of = rules
        self._route = route
        self._source = source
        self._fetch_target = target
        self._options = options
        self._fetch_foreign_keys = foreign_keys
        self._unsafe_engines = unsafe_engines
        self._families: Mapping[TableId, Family] | None = None
        #: Names of families that can't be spread.
        self._whole: set[str] = set()
        #: By the name in lower case, then by the spelling in rows.
        self._targets: dict[TableId, dict[TableId, TableInfo]] = {}
        self._spellings = SpellingsInUse(is_there)
        self._numbers: dict[tuple[str, str], int] = {}
        self._sources: dict[tuple[str, str], int] = {}
        self._rules: dict[tuple[str, str], _TargetRule] = {}
        self._planned: set[tuple[str, str]] = set()
        self._next = 0

    def resolve(self, data: bytes, position: Position) -> tuple[TablePlan | HeldBackTable | None, bool]:
        """The plan for a TABLE_MAP event, None when its table is not migrated; True when a batch must end before it.

        Raises DMError with the place.
        """
        event = event_from_bytes(data)
        name = table_map_name(event, position.name)
        if not self._allows(*name):
            return None, False
        try:
            if self._holds_back(*name):
                return HeldBackTable(parse_table_map(event, position.name), self._source), False
            return self._plan(parse_table_map(event, position.name), data)
        except DMError as exc:
            raise exc.at(f"at {position}") from exc

    def forget(self, changed: Collection[TableId] | None = None, *, keys: bool = True) -> None:
        """Creates all plans again, and queries the target for what may have changed since the last query: for the
        structures of the tables ``changed`` and those that foreign keys connect with them (None, or a table '': for
        all), and for foreign keys if they may have (``keys``).

        Querying all would cost one look-up for each table that has rows between two statements.
        """
        if changed is None or not all(name for _, name in changed):
            self._targets.clear()
        else:
            for table in changed:
                self._forget_structure(lower_case(table))
        self._rules.clear()
        self._planned.clear()
        if keys:
            # Many tables take the server some time.
            self._families = None
        self._whole.clear()

    def _forget_structure(self, table: TableId) -> None:
        family = None if self._families is None else self._families.get(table)
        for one in {table} if family is None else family.tables:
            self._targets.pop(one, None)

    def _plan(self, table_map: TableMap, data: bytes) -> tuple[TablePlan, bool]:
        upstream = self._source.structure(table_map)
        name = self._route(upstream.schema, upstream.name)
        target = self._target(name, upstream)
        self._next += 1
        number = self._numbers.setdefault(name, len(self._numbers))
        family = self._family(name)
        rules = self._rules_of(upstream)
        incomparable = incomparable_columns(upstream, target, self._options, family, rules)
        known = self._rules.get(name)
        if known is not None:
            incomparable |= known.incomparable
        plan = build(
            self._next,
            number,
            data,
            upstream,
            target,
            self._options,
            incomparable=incomparable,
            family=family,
            rules=rules,
        )
        plan = replace(plan, source_number=self._sources.setdefault(plan.source, len(self._sources)))
        plan, rule = _agree(plan, _TargetRule(plan.mode, plan.spread, plan.key_names, incomparable), known)
        self._rules[name] = rule
        split = known is not None and rule != known and name in self._planned
        if family is not None:
            if not plan.spread and family.name not in self._whole:
                self._whole.add(family.name)
                split = split or any(lower_case(other) in family.tables for other in self._planned)
            if family.name in self._whole:
                plan = unspread(plan)
        self._note(plan, first=known is None, incomparable=incomparable)
        self._planned.add(name)
        return plan, split

    def _family(self, name: tuple[str, str]) -> Family | None:
        if self._families is None:
            self._families = families(self._fetch_foreign_keys())
        return self._families.get(lower_case(name))

    @staticmethod
    def _note(plan: TablePlan, *, first: bool, incomparable: frozenset[str]) -> None:
        if first and plan.key and not plan.spread:
            log.info(
                "one writer at a time for a table: its keys can't be compared here, or foreign keys act on its rows",
                table=qualified(*plan.target),
                not_compared=", ".join(sorted(incomparable)),
                foreign_keys=plan.family,
            )

    def _target(self, name: tuple[str, str], upstream: TableInfo) -> TableInfo:
        spellings = self._targets.setdefault(lower_case(name), {})
        info = spellings.get(name)
        if info is None:
            info = self._fetch_target(*name)
            if info is None:
                raise errors.new(
                    Code.SyncerDownstreamTableNotFound,
                    f"the target table {qualified(*name)} of {qualified(upstream.schema, upstream.name)} does not "
                    "exist, or is not a plain table (but system-versioned, a view or a sequence)",
                    scope="downstream",
                    workaround="Create the target table, or exclude the upstream table with block-allow-list, then "
                    f"resume the task. For a system-versioned one: `ALTER TABLE {qualified(*name)} DROP SYSTEM "
                    "VERSIONING;`.",
                )
            if info.engine and info.engine.lower() in self._unsafe_engines():
                raise errors.new(
                    Code.SyncUnitNotSupportedDML,
                    engines.problem(name, info.engine),
                    scope="downstream",
                    workaround=f"{engines.remedy(name)} Then resume the task. {engines.exemption()}",
                )
            if self._options.values.folds_names:
                self._spellings.use(name, (upstream.schema, upstream.name))
            spellings[name] = info
        return info


def _agree(plan: TablePlan, rule: _TargetRule, known: _TargetRule | None) -> tuple[TablePlan, _TargetRule]:
    """The plan under the rule of its target, and that rule, which may spread less because of it."""
    if known is None:
        return plan, rule
    same_key = rule.key_names == known.key_names
    mode = COMPACT if same_key and rule.mode == known.mode == COMPACT else ORDERED
    agreed = _TargetRule(mode, same_key and rule.spread and known.spread, known.key_names, rule.incomparable)
    plan = replace(plan, mode=mode)
    return (plan if agreed.spread else unspread(plan)), agreed
