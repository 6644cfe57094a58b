"""The filter blocks of source and task files: binlog events, expressions, block-allow-lists, routes."""

from __future__ import annotations

from collections.abc import Sequence

from pkg import errors, expression_filter
from pkg.block_allow_list import BlockAllowListFilter
from pkg.config.model import (
    BinlogFilterRule,
    BlockAllowList,
    ExpressionFilter,
    ExtractRule,
    RouteRule,
    TableName,
)
from pkg.config.yaml_reader import Section
from pkg.errors import DMError
from pkg.table_router import TableRouter

_ACTIONS = ("do", "ignore", "error")


def read_filter(section: Section) -> BinlogFilterRule:
    """One binlog event filter. Raises 20037 for an action that is none of Do, Ignore and Error."""
    action = section.text("action")
    if action.lower() not in _ACTIONS:
        raise section.error(
            "ConfigBinlogEventFilter",
            "action",
            f"action {action!r} is not valid",
            "Set action to Do, Ignore or Error.",
        )
    if not section.text("schema-pattern"):
        raise section.error(
            "ConfigBinlogEventFilter", "schema-pattern", "schema-pattern is missing", 'Use "*" for all schemas.'
        )
    return BinlogFilterRule(
        schema_pattern=section.text("schema-pattern"),
        table_pattern=section.text("table-pattern"),
        events=section.texts("events"),
        sql_pattern=section.texts("sql-pattern"),
        action=action,
    )


def read_expression_filter(section: Section) -> ExpressionFilter:
    """One expression filter.

    Raises 20042 without schema or table, 20039 for expressions of several kinds, 20041 for what is no expression.
    """
    for key in ("schema", "table"):
        if not section.text(key):
            raise section.error(
                "ConfigExprFilterEmptyName", key, f"{key} of expression filter {section.name} is missing", f"Add {key}."
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
            "ConfigExprFilterManyExpr",
            "schema",
            f"expression filter {section.name} has expressions of {sum(kinds)} kinds instead of one",
            "Give each kind (insert, update, delete) a filter of its own.",
        )
    for kind in ("insert-value-expr", "update-old-value-expr", "update-new-value-expr", "delete-value-expr"):
        if text := section.text(kind):
            _check_expression(section, kind, text)
    return rule


def _check_expression(section: Section, key: str, text: str) -> None:
    try:
        expression_filter.parse(text)
    except DMError as exc:
        raise section.error("ConfigExprFilterWrongGrammar", key, exc.message, exc.workaround) from None


def read_block_allow_list(section: Section, case_sensitive: bool) -> BlockAllowList:
    """One block-allow-list. Raises 20044 for an entry that does not compile or lacks a name."""
    rules = BlockAllowList(
        do_dbs=section.texts("do-dbs"),
        do_tables=_table_names(section, "do-tables"),
        ignore_dbs=section.texts("ignore-dbs"),
        ignore_tables=_table_names(section, "ignore-tables"),
    )
    try:
        BlockAllowListFilter(rules, case_sensitive)
    except DMError as exc:
        raise section.error("ConfigGenBAList", "", exc.message, exc.workaround) from None
    return rules


def _table_names(section: Section, key: str) -> tuple[TableName, ...]:
    names = []
    for item in section.items(key):
        for part in ("db-name", "tbl-name"):
            if not item.text(part):
                raise item.error("ConfigGenBAList", part, f"{part} is missing in {key}", f"Add {part}.")
        names.append(TableName(item.text("db-name"), item.text("tbl-name")))
    return tuple(names)


def read_route(section: Section, case_sensitive: bool) -> RouteRule:
    """One route. Raises 20045 for a pattern that does not compile, a missing key, or a rule that extracts values."""
    for key in ("schema-pattern", "target-schema"):
        if not section.text(key):
            raise section.error("ConfigGenTableRouter", key, f"{key} of route {section.name} is missing", f"Add {key}.")
    rule = RouteRule(
        schema_pattern=section.text("schema-pattern"),
        table_pattern=section.text("table-pattern"),
        target_schema=section.text("target-schema"),
        target_table=section.text("target-table"),
        extract_table=_extract(section, "extract-table", "table-regexp"),
        extract_schema=_extract(section, "extract-schema", "schema-regexp"),
        extract_source=_extract(section, "extract-source", "source-regexp"),
    )
    check_routes([rule], case_sensitive, section, "schema-pattern")
    return rule


def _extract(section: Section, key: str, regexp_key: str) -> ExtractRule | None:
    inner = section.section(key)
    if inner is None:
        return None
    for part in (regexp_key, "target-column"):
        if not inner.text(part):
            raise inner.error("ConfigGenTableRouter", part, f"{part} of {key} is missing", f"Add {part}.")
    raise section.error("ConfigGenTableRouter", key, f"{key} is not supported yet", f"Remove {key}.")


def check_routes(rules: Sequence[RouteRule], case_sensitive: bool, section: Section, key: str) -> None:
    """Compiles the rules together; a failure is told at ``key`` of ``section`` (20045)."""
    try:
        TableRouter(rules, case_sensitive)
    except errors.DMError as exc:
        raise section.error("ConfigGenTableRouter", key, exc.message, exc.workaround) from None
