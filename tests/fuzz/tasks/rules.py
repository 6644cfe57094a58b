"""What a task's rules make of names and values: merged shards, column mapping, extracts, filters of rows. Pure.

What the target should have is said in SQL for the upstream, so that no code of the product has a part in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pkg.config.model import ShardMode
from pkg.rules.model import BinlogFilterRule, ColumnMappingRule, ExpressionFilter, ExtractRule, RouteRule
from tests.fuzz.features import RULED
from tests.fuzz.history import Column, History, Table
from tests.fuzz.oracle import Reading
from tests.fuzz.oracle import Table as Name

_TABLE = re.compile(r"\{s\}\.`(\w+)`")
#: Of partition id: 4 bits of the instance from bit 59 on, then 7 of the schema or 8 of the table.
_INSTANCE, _SCHEMA, _TABLE_BITS = 1 << 59, 52, 51
_PREFIX = "é-"
#: The column that gets an extracted text.
EXTRACTED = "src"
#: Of the first shards, and of the others where each is of a source of its own.
SOURCES = ("source-1", "source-2")
_EXPRESSIONS = ("`n` = 1", "`n` IS NULL", "`id` > 3", "`n` > 0 OR `id` = 2", "`n` IN (0, 2)", "NOT (`id` < 4)")
#: Ids of a second shard begin behind this, unless a rule keeps those of the shards apart.
SHIFT = 1000


@dataclass(frozen=True)
class Rules:
    """The rules of one history's task. ``schema`` is the history's own, as a run has named it."""

    settings: Mapping[str, str]
    schema: str
    seed: int = 0

    @property
    def ruled(self) -> bool:
        return is_ruled(self.settings)

    @property
    def merge(self) -> str:
        """``schemas``, ``tables``, ``sources`` (with a schema each) or empty."""
        value = self.settings.get("merge", "none")
        return "" if value == "none" else value.split()[-1]

    @property
    def _by_schema(self) -> bool:
        return self.merge in ("schemas", "sources")

    @property
    def sources(self) -> Sequence[str]:
        return SOURCES if self.merge == "sources" else SOURCES[:1]

    def schemas_of(self, source: str) -> list[str]:
        """What the subtask of this source reads."""
        if self.merge != "sources":
            return [*self.shard_schemas, f"{self.schema}_b"]
        return [self.schema, f"{self.schema}_b"] if source == SOURCES[0] else [self.shard_schema(1)]

    @property
    def shards(self) -> int:
        return shards_of(self.settings)

    @property
    def shard_mode(self) -> ShardMode:
        return "pessimistic" if self.settings.get("merge", "none").startswith("pessimistic") else ""

    # -- names ----------------------------------------------------------------------------------------------------

    def placed(self, sql: str, shard: int = 0) -> str:
        """The statement with its tables' names as this shard has them."""
        if shard and self.merge == "tables":
            sql = _TABLE.sub(r"{s}.`\1_2`", sql)
        return sql.replace("{s}", self.shard_schema(shard))

    def shard_schema(self, shard: int) -> str:
        return f"{self.schema}_2" if shard and self._by_schema else self.schema

    @property
    def shard_schemas(self) -> list[str]:
        return sorted({self.shard_schema(shard) for shard in range(self.shards)})

    @property
    def target_schemas(self) -> list[str]:
        return [*self.shard_schemas, f"{self.schema}_b", f"{self.schema}r"]

    def target_of(self, table: Name) -> Name:
        """Where an upstream table goes."""
        schema, name = table
        match self.merge:
            case "schemas" | "sources" if schema in self.shard_schemas:
                return f"{self.schema}r", name
            case "tables" if schema == self.schema:
                return schema, f"{name.removesuffix('_2')}_m"
        match self.settings.get("route", "none"):
            case "schema" if schema == self.schema:
                return f"{self.schema}r", name
            case "table" if table == (self.schema, "t"):
                return self.schema, "t_r"
        return table

    def is_first(self, table: Name) -> bool:
        """Whether it is no table of a further shard."""
        return not self.merge or (table[0] == self.schema and not table[1].endswith("_2"))

    # -- the configuration ----------------------------------------------------------------------------------------

    def routes(self) -> list[RouteRule]:
        found: list[RouteRule] = []
        if self.merge or self.extract != "none":
            return [self._route(schema, name) for schema, name in self._tables()]
        match self.settings.get("route", "none"):
            case "schema":
                found = [RouteRule(self.schema, f"{self.schema}r")]
            case "table":
                found = [RouteRule(self.schema, self.schema, "t", "t_r")]
        return found

    def _tables(self) -> Iterator[Name]:
        """The tables that rules are about, in each shard."""
        for shard in range(self.shards):
            for name in ("t", "u"):
                suffix = "_2" if shard and self.merge == "tables" else ""
                yield self.shard_schema(shard), f"{name}{suffix}"

    def _route(self, schema: str, name: str) -> RouteRule:
        target = self.target_of((schema, name))
        rule = RouteRule(schema, target[0], name, target[1])
        match self.extract:
            case "table":
                return replace(rule, extract_table=ExtractRule("^([a-z])(?:_(.*))?$", EXTRACTED))
            case "schema":
                return replace(rule, extract_schema=ExtractRule("^(h[0-9]+)(?:_(.*))?$", EXTRACTED))
            case "source":
                return replace(rule, extract_source=ExtractRule("^(.*)$", EXTRACTED))
        return rule

    @property
    def extract(self) -> str:
        return self.settings.get("extract", "none")

    def mappings(self) -> list[ColumnMappingRule]:
        match self.settings.get("mapping", "none"):
            case "partition id":
                return [
                    ColumnMappingRule(schema, "id", "partition id", name, arguments=self._arguments(schema, name))
                    for schema, name in self._tables()
                ]
            case "prefix":
                return [
                    ColumnMappingRule(schema, "c", "add prefix", name, arguments=(_PREFIX,))
                    for schema, name in self._tables()
                ]
        return []

    def _arguments(self, schema: str, table: str) -> tuple[str, ...]:
        match self.merge:
            case "schemas":
                return "1", self.schema, "", "_"
            case "tables":
                return "1", "", table[0], "_"
            case "sources" if schema != self.schema:
                return "2", "", ""
        return "1", "", ""

    def filters(self) -> list[BinlogFilterRule]:
        rule = self.settings["rule"]
        return [] if rule == "none" else [BinlogFilterRule("h*", "*", (rule,), (), "Ignore")]

    @property
    def row_filter(self) -> str:
        return self.settings.get("row filter", "none")

    @property
    def expression(self) -> str:
        """Of the row filter."""
        return _EXPRESSIONS[self.seed % len(_EXPRESSIONS)]

    def expression_filters(self) -> list[ExpressionFilter]:
        one = ExpressionFilter(self.schema, "t")
        match self.row_filter:
            case "insert":
                return [replace(one, insert_value_expr=self.expression)]
            case "update old":
                return [replace(one, update_old_value_expr=self.expression)]
            case "update new":
                return [replace(one, update_new_value_expr=self.expression)]
            case "delete":
                return [replace(one, delete_value_expr=self.expression)]
        return []

    # -- the target -----------------------------------------------------------------------------------------------

    def target_tables(self, tables: tuple[Table, ...]) -> list[str]:
        """How the target is prepared for a task whose rules need tables of their own form there."""
        found = [f"CREATE DATABASE `{schema}`" for schema in self.target_schemas]
        for table in tables:
            schema, name = self.target_of((self.schema, table.name))
            with_text = self.extract != "none" and table.name in "tu"
            made = _with_text(table) if with_text else table
            found.append(replace(made, name=name).sql(f"`{schema}`"))
        return found

    @property
    def needs_target_tables(self) -> bool:
        """Whether a full copy does, too."""
        return self.extract != "none"

    def reading(self, table: Name) -> Reading:
        """How the upstream shows a table's rows as the target should have them."""
        schema, name = table
        if name.removesuffix("_2") not in ("t", "u"):
            return Reading()
        computed: dict[str, str] = {}
        match self.settings.get("mapping", "none"):
            case "partition id":
                computed["id"] = f"(`id` | {self._base(table)})"
            case "prefix":
                computed["c"] = f"CONCAT('{_PREFIX}', `c`)"
        texts = {"table": name.replace("_", ""), "schema": schema.replace("_", ""), "source": self._source_of(table)}
        return Reading(computed, {EXTRACTED: texts[self.extract]} if self.extract != "none" else {})

    def _source_of(self, table: Name) -> str:
        return SOURCES[self.merge == "sources" and not self.is_first(table)]

    def _base(self, table: Name) -> int:
        if self.merge == "sources":
            return _INSTANCE if self.is_first(table) else 2 * _INSTANCE
        shard = 0 if self.is_first(table) else 2
        bits = _TABLE_BITS if self.merge == "tables" else _SCHEMA
        return _INSTANCE | (shard << bits if self.merge else 0)


def rules_of(history: History, schema: str) -> Rules:
    return Rules(history.settings, schema, history.seed)


def is_ruled(settings: Mapping[str, str]) -> bool:
    """Whether the target is not simply a copy."""
    return any(settings.get(name, "none") != "none" for name in RULED)


def shards_of(settings: Mapping[str, str]) -> int:
    return 1 if settings.get("merge", "none") == "none" else 2


def shift_of(settings: Mapping[str, str]) -> int:
    """How far the ids of a second shard must be from those of the first."""
    merge = settings.get("merge", "none")
    by_text = settings.get("extract", "none") != "none" and merge.endswith(f"{settings['extract']}s")
    return 0 if settings.get("mapping", "none") == "partition id" or by_text else SHIFT


def with_rules(tables: tuple[Table, ...], settings: Mapping[str, str]) -> tuple[Table, ...]:
    """The tables, with numbers that hold what ``partition id`` makes."""
    if settings.get("mapping", "none") != "partition id":
        return tables
    return tuple(
        replace(
            table,
            columns=tuple(
                replace(column, type="BIGINT") if column.name == "id" else column for column in table.columns
            ),
        )
        for table in tables
    )


def _with_text(table: Table) -> Table:
    """With a column for the extracted text, which becomes a part of the primary key."""
    text = Column(EXTRACTED, "VARCHAR(64)", ("NOT NULL", "DEFAULT ''"))
    keys = (
        f"{key.removesuffix(')')}, `{EXTRACTED}`)" if key.startswith("PRIMARY KEY (") else key for key in table.keys
    )
    return replace(table, columns=(*table.columns, text), keys=tuple(keys))
