"""The rules of source and task files: binlog events, expressions, block-allow-lists, routes, column mappings.

Each is read and checked in full; the reader of the file then refuses settings that the units do not support yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from pkg import errors
from pkg.errors import Code, DMError
from pkg.rules import expression_filter
from pkg.rules.binlog_filter import BinlogEventFilter, find_contradiction
from pkg.rules.binlog_filter import rule_problem as filter_problem
from pkg.rules.block_allow_list import BlockAllowListFilter
from pkg.rules.column_mapping import ColumnMapper
from pkg.rules.column_mapping.mapper import rule_problem as mapping_problem
from pkg.rules.model import (
    BinlogFilterRule,
    BlockAllowList,
    ColumnMappingRule,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
    TableName,
)
from pkg.rules.table_router import TableRouter, extract_regex
from pkg.settings.yaml_reader import Section

_EXTRACTS = (
    ("extract-table", "table-regexp"),
    ("extract-schema", "schema-regexp"),
    ("extract-source", "source-regexp"),
)


def read_filter(section: Section) -> BinlogFilterRule:
    """One binlog event filter. Raises 20037 at the key, or at the item of its list, that is invalid."""
    rule = BinlogFilterRule(
        schema_pattern=section.text("schema-pattern"),
        table_pattern=section.text("table-pattern"),
        events=section.strings("events"),
        sql_pattern=section.strings("sql-pattern"),
        action=section.text("action"),
    )
    problem = filter_problem(rule)
    if problem is not None:
        raise section.error(Code.ConfigBinlogEventFilter, problem.key, problem.what, problem.workaround, problem.item)
    return rule


def check_filters(rules: Sequence[BinlogFilterRule], case_sensitive: bool, section: Section, key: str) -> None:
    """Compiles the rules together; an error names ``key`` of ``section``, whose items are the rules (20037)."""
    contradiction = find_contradiction(rules, case_sensitive)
    if contradiction is not None:
        first, second = contradiction
        raise section.error(
            Code.ConfigBinlogEventFilter,
            key,
            f"this filter contradicts number {first + 1} of {key}: the same patterns and events, but action "
            f"{rules[second].action} instead of {rules[first].action}",
            "Remove one of them.",
            second,
        )
    try:
        BinlogEventFilter(rules, case_sensitive)
    except DMError as exc:
        raise section.error(Code.ConfigBinlogEventFilter, key, exc.message, exc.workaround) from None


def read_column_mapping(section: Section, warnings: list[str]) -> ColumnMappingRule:
    """One column mapping rule. Raises 20046 at the key that is invalid."""
    rule = ColumnMappingRule(
        schema_pattern=section.text("schema-pattern"),
        target_column=section.text("target-column"),
        expression=section.text("expression"),
        table_pattern=section.text("table-pattern"),
        source_column=section.text("source-column"),
        arguments=section.strings("arguments"),
    )
    problem = mapping_problem(rule)
    if problem is not None:
        raise section.error(Code.ConfigGenColumnMapping, *problem)
    if section.text("create-table-query"):
        warnings.append(f"create-table-query of the column mapping {section.name} has no effect")
    return rule


def check_column_mappings(rules: Sequence[ColumnMappingRule], case_sensitive: bool, section: Section, key: str) -> None:
    """Compiles the rules together; an error names ``key`` of ``section`` (20046)."""
    try:
        ColumnMapper(rules, case_sensitive)
    except DMError as exc:
        raise section.error(Code.ConfigGenColumnMapping, key, exc.message, exc.workaround) from None


def read_expression_filter(section: Section) -> ExpressionFilter:
    """One expression filter.

    Raises 20042 without schema or table, 20039 for expressions of several kinds, 20041 for an invalid expression.
    """
    for key in ("schema", "table"):
        if not section.text(key):
            raise section.error(
                Code.ConfigExprFilterEmptyName,
                key,
                f"{key} of expression filter {section.name} is missing",
                f"Add {key}.",
            )
    rule = ExpressionFilter(
        schema=section.text("schema"),
        table=section.text("table"),
        insert_value_expr=section.text("insert-value-expr"),
        update_old_value_expr=section.text("update-old-value-expr"),
        update_new_value_expr=section.text("update-new-value-expr"),
        delete_value_expr=section.text("delete-value-expr"),
    )
    kinds = (
        bool(rule.insert_value_expr),
        bool(rule.update_old_value_expr or rule.update_new_value_expr),
        bool(rule.delete_value_expr),
    )
    if sum(kinds) != 1:
        raise section.error(
            Code.ConfigExprFilterManyExpr,
            "schema",
            f"expression filter {section.name} has expressions of {sum(kinds)} kinds instead of one",
            "Give each kind (insert, update, delete) a separate filter.",
        )
    for kind in ("insert-value-expr", "update-old-value-expr", "update-new-value-expr", "delete-value-expr"):
        if text := section.text(kind):
            _check_expression(section, kind, text)
    return rule


def _check_expression(section: Section, key: str, text: str) -> None:
    try:
        expression_filter.parse(text)
    except DMError as exc:
        raise section.error(Code.ConfigExprFilterWrongGrammar, key, exc.message, exc.workaround) from None


def read_block_allow_list(section: Section, case_sensitive: bool) -> BlockAllowList:
    """One block-allow-list. Raises 20044 for an entry that does not compile or lacks a name."""
    rules = BlockAllowList(
        do_dbs=section.strings("do-dbs"),
        do_tables=_table_names(section, "do-tables"),
        ignore_dbs=section.strings("ignore-dbs"),
        ignore_tables=_table_names(section, "ignore-tables"),
    )
    try:
        BlockAllowListFilter(rules, case_sensitive)
    except DMError as exc:
        raise section.error(Code.ConfigGenBAList, "", exc.message, exc.workaround) from None
    return rules


def _table_names(section: Section, key: str) -> tuple[TableName, ...]:
    names = []
    for item in section.items(key):
        for part in ("db-name", "tbl-name"):
            if not item.text(part):
                raise item.error(Code.ConfigGenBAList, part, f"{part} is missing in {key}", f"Add {part}.")
        names.append(TableName(item.text("db-name"), item.text("tbl-name")))
    return tuple(names)


def read_route(section: Section, case_sensitive: bool) -> RouteRule:
    """One route. Raises 20045 for a pattern or an extract that does not compile, and for a missing key."""
    for key in ("schema-pattern", "target-schema"):
        if not section.text(key):
            raise section.error(
                Code.ConfigGenTableRouter, key, f"{key} of route {section.name} is missing", f"Add {key}."
            )
    table, schema, source = (_extract(section, *keys, case_sensitive) for keys in _EXTRACTS)
    rule = RouteRule(
        schema_pattern=section.text("schema-pattern"),
        table_pattern=section.text("table-pattern"),
        target_schema=section.text("target-schema"),
        target_table=section.text("target-table"),
        extract_table=table,
        extract_schema=schema,
        extract_source=source,
    )
    check_routes([rule], case_sensitive, section, "schema-pattern")
    return rule


def _extract(section: Section, key: str, regexp_key: str, case_sensitive: bool) -> ExtractRule | None:
    inner = section.section(key)
    if inner is None:
        return None
    for part in (regexp_key, "target-column"):
        if not inner.text(part):
            raise inner.error(Code.ConfigGenTableRouter, part, f"{part} of {key} is missing", f"Add {part}.")
    rule = ExtractRule(inner.text(regexp_key), inner.text("target-column"))
    try:
        extract_regex(rule, case_sensitive)
    except ValueError as exc:
        raise inner.error(Code.ConfigGenTableRouter, regexp_key, str(exc), "Mark the value with ( ).") from None
    return rule


def check_routes(rules: Sequence[RouteRule], case_sensitive: bool, section: Section, key: str) -> None:
    """Compiles the rules together; an error names ``key`` of ``section`` (20045)."""
    try:
        TableRouter(rules, case_sensitive)
    except errors.DMError as exc:
        raise section.error(Code.ConfigGenTableRouter, key, exc.message, exc.workaround) from None
