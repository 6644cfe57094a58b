"""The rules of task and source files. Pure data; field names are the keys of DM's files with ``-`` as ``_``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

#: How online schema change tools name their tables; the group is the real table's name.
SHADOW_TABLE_RULES = (r"^_(.+)_(?:new|gho)$",)
TRASH_TABLE_RULES = (r"^_(.+)_(?:ghc|del|old)$",)


@dataclass(frozen=True, slots=True)
class BinlogFilterRule:
    schema_pattern: str
    table_pattern: str = ""
    events: tuple[str, ...] = ()
    sql_pattern: tuple[str, ...] = ()
    action: str = "Do"


@dataclass(frozen=True, slots=True)
class ExtractRule:
    """``extract-table`` (or ``-schema``, ``-source``): the capture groups of ``regexp`` fill ``target_column``."""

    regexp: str
    target_column: str


@dataclass(frozen=True, slots=True)
class RouteRule:
    schema_pattern: str
    target_schema: str
    table_pattern: str = ""
    target_table: str = ""
    extract_table: ExtractRule | None = None
    extract_schema: ExtractRule | None = None
    extract_source: ExtractRule | None = None


@dataclass(frozen=True, slots=True)
class ColumnMappingRule:
    """``source_column`` empty = the target column. ``create-table-query`` of old files has no effect."""

    schema_pattern: str
    target_column: str
    expression: str
    table_pattern: str = ""
    source_column: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpressionFilter:
    schema: str
    table: str
    insert_value_expr: str = ""
    update_old_value_expr: str = ""
    update_new_value_expr: str = ""
    delete_value_expr: str = ""


@dataclass(frozen=True, slots=True)
class TableName:
    db_name: str
    tbl_name: str


@dataclass(frozen=True, slots=True)
class BlockAllowList:
    do_dbs: tuple[str, ...] = ()
    do_tables: tuple[TableName, ...] = ()
    ignore_dbs: tuple[str, ...] = ()
    ignore_tables: tuple[TableName, ...] = ()


class OnlineTableSettings(Protocol):
    """The settings of a subtask with the table names of online schema change tools."""

    @property
    def online_ddl(self) -> bool: ...
    @property
    def shadow_table_rules(self) -> tuple[str, ...]: ...
    @property
    def trash_table_rules(self) -> tuple[str, ...]: ...


class TableChoiceSettings(OnlineTableSettings, Protocol):
    """The settings of a subtask that determine which tables take part."""

    @property
    def block_allow_list(self) -> BlockAllowList: ...
    @property
    def case_sensitive(self) -> bool: ...
    @property
    def meta_schema(self) -> str: ...
