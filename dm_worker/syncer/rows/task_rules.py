"""The task's rules of one source, for the syncer: its tables, their routes, and their columns. No I/O; logs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dm_worker.syncer.rows.row_filter import TAKES_ALL, RowFilter
from dm_worker.syncer.rows.row_shape import TableRules
from pkg.config.model import SubTaskConfig
from pkg.mysql.names import qualified
from pkg.mysql.schema import TableInfo
from pkg.process.log import get_logger
from pkg.rules import expression_filter
from pkg.rules.binlog_filter import DELETE, INSERT, UPDATE, BinlogEventFilter, FilterDecision
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.model import ExpressionFilter
from pkg.rules.online_tables import OnlineTables
from pkg.rules.selector import CACHE_SIZE
from pkg.rules.table_router import TableRouter

log = get_logger("syncer.rules")

_ALL_KINDS = frozenset({INSERT, UPDATE, DELETE})


class TaskRules:
    """Raises 20044, 20045, 20046 or 20037 for a rule that is not valid."""

    def __init__(self, cfg: SubTaskConfig) -> None:
        self._cfg = cfg
        #: Recognizes the tables of online DDL tools: none of them takes part.
        self.online = OnlineTables.of(cfg)
        self._allow_list = BlockAllowListFilter.of(cfg)
        self._router = TableRouter(cfg.routes, cfg.case_sensitive)
        self._mapper = ColumnMapper(cfg.column_mappings, cfg.case_sensitive, "sync")
        self._events = BinlogEventFilter(cfg.filters, cfg.case_sensitive)
        # Some checks of a statement go through all tables.
        self._taken = lru_cache(CACHE_SIZE)(self._decide_rows)
        self._routed = lru_cache(CACHE_SIZE)(self._router.route)
        self._expressions: dict[tuple[str, str], list[ExpressionFilter]] = {}
        for rule in cfg.expression_filters:
            self._expressions.setdefault(self._named(rule.schema, rule.table), []).append(rule)

    def allows(self, schema: str, table: str = "") -> bool:
        """Whether the table, or the schema, takes part in the task."""
        return self._allow_list.allows(schema, table)

    def follows(self, schema: str, table: str) -> bool:
        """Whether statements on the table matter: it takes part, or belongs to a tool that changes one."""
        return any(self.allows(schema, name) for name in self.online.real_names(table))

    def takes_rows(self, schema: str, table: str) -> bool:
        """Whether any row change of the table matters."""
        return self._taken(schema, table)

    def _decide_rows(self, schema: str, table: str) -> bool:
        return self.allows(schema, table) and self._events.rows(schema, table).ignored != _ALL_KINDS

    def route(self, schema: str, table: str = "") -> tuple[str, str]:
        """The target's names. Raises 40080."""
        return self._routed(schema, table)

    def maps_columns(self, schema: str, table: str) -> bool:
        """Whether column mapping changes values of the table."""
        return bool(self._mapper.rules_for(schema, table))

    @property
    def filters_events(self) -> bool:
        """Whether there is any binlog event filter."""
        return bool(self._cfg.filters)

    def decide(
        self, names: Sequence[tuple[str, str]], types: Sequence[str], sql: str
    ) -> tuple[FilterDecision, str, str]:
        """The binlog event filters' decision on a statement that names ``names``, and the name that decided.

        The first table that must not be changed decides; a statement that is not understood has no names.
        """
        found = [(self._events.decide(*name, types, sql), *name) for name in names or [("", "")]]
        return next((one for one in found if one[0].action != "do"), found[0])

    def of_table(self, upstream: TableInfo) -> TableRules:
        """The rules for the rows of a table with this structure. Raises 36032, 20045, 20041 and 40080."""
        name = (upstream.schema, upstream.name)
        return TableRules(
            mapping=self._mapper.compile(*name, upstream.columns),
            extracts=self._router.extracted(*name, self._cfg.source_id),
            filter=self._row_filter(upstream),
        )

    def filled(self, schema: str, table: str) -> frozenset[str]:
        """The target's columns (in lower case) that extracts fill for this upstream table. Raises as :meth:`route`."""
        return frozenset(name.lower() for name, _ in self._router.extracted(schema, table, self._cfg.source_id))

    @property
    def settings(self) -> object:
        """All that decides how a range is planned; its repr is the same for every start with the same rules."""
        cfg = self._cfg
        rules = (cfg.routes, cfg.block_allow_list, cfg.filters, cfg.expression_filters, cfg.column_mappings)
        online = (cfg.shadow_table_rules, cfg.trash_table_rules) if cfg.online_ddl else ()
        return (*rules, online, cfg.case_sensitive, cfg.timezone)

    def _row_filter(self, upstream: TableInfo) -> RowFilter:
        kinds = self._events.rows(upstream.schema, upstream.name)
        rules = self._expressions.get(self._named(upstream.schema, upstream.name), ())
        usable = [rule for rule in rules if _has_columns(rule, upstream)]
        if kinds.takes_all and not usable:
            return TAKES_ALL
        made = RowFilter(
            kinds,
            insert=tuple(rule.insert_value_expr for rule in usable if rule.insert_value_expr),
            update=tuple(
                (rule.update_old_value_expr, rule.update_new_value_expr)
                for rule in usable
                if rule.update_old_value_expr or rule.update_new_value_expr
            ),
            delete=tuple(rule.delete_value_expr for rule in usable if rule.delete_value_expr),
            zone=self._cfg.timezone,
            flavor=self._cfg.flavor,
        )
        # An expression that does not fit the columns is refused here, before any row.
        made.compiled(upstream.columns)
        return made

    def _named(self, schema: str, table: str) -> tuple[str, str]:
        return (schema, table) if self._cfg.case_sensitive else (schema.lower(), table.lower())


def _has_columns(rule: ExpressionFilter, upstream: TableInfo) -> bool:
    """A rule for columns that the table lacks, or lacks so far, matches no row, as in DM."""
    expressions = (
        rule.insert_value_expr,
        rule.update_old_value_expr,
        rule.update_new_value_expr,
        rule.delete_value_expr,
    )
    columns = [name for text in expressions if text for name in expression_filter.parse(text).columns]
    missing = [name for name in columns if upstream.index_of(name) < 0]
    if missing:
        log.warning(
            "an expression filter matches no row: the table has no such column now",
            table=qualified(upstream.schema, upstream.name),
            columns=", ".join(missing),
            expressions="; ".join(filter(None, expressions)),
        )
    return not missing
