"""Quoting of names and strings."""

from __future__ import annotations

#: Never migrated, compared in lower case (reference: block-allow-list, step 1).
SYSTEM_SCHEMAS = frozenset(
    {"mysql", "information_schema", "performance_schema", "sys", "metrics_schema", "inspection_schema", "metric_schema"}
)

#: Schema and table.
TableId = tuple[str, str]


def quote(name: str) -> str:
    """``a`b`` → `` `a``b` ``."""
    return "`" + name.replace("`", "``") + "`"


def qualified(schema: str, table: str) -> str:
    return f"{quote(schema)}.{quote(table)}"


def escaped(schema: str) -> str:
    """A schema's name for a GRANT on all of its tables, where it is a pattern."""
    return schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")


def quote_string(text: str) -> str:
    """A string literal that is valid in every sql_mode except NO_BACKSLASH_ESCAPES."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
